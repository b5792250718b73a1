//! Compares two results of the same study: which values have changed, by how much, and whether the changes
//! are significant.

mod equal;
mod surroundings;

use serde::Serialize;

use crate::metric::Metric;
use crate::record::{Case, Outcome, Record};
use crate::stats::{Called, Difference, Estimate, figures, good_runs, runs};

pub use equal::{Equal, EqualError, equal};

/// The comparison of two results.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Messages about other differences between the two results, which may explain changes.
    pub warnings: Vec<String>,
    /// The rows, in the order of the first result: for each case that both results have, one row for each metric.
    pub rows: Vec<Row>,
    /// The IDs of the cases that only the first result has.
    pub only_in_base: Vec<String>,
    /// The IDs of the cases that only the second result has.
    pub only_in_new: Vec<String>,
}

/// One metric of a case in both results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The ID of the case, [`Case::id`].
    pub case: String,
    /// The metric that is compared; `None` for a case that failed.
    pub quantity: Option<Metric>,
    /// The median over the blocks of the first result.
    pub base: Option<f64>,
    /// The median over the blocks of the second result.
    pub new: Option<f64>,
    /// How much the second result's value differs from the first's.
    pub difference: Option<Difference>,
    /// The meaning of the difference.
    pub verdict: Verdict,
    /// The reason why the values can't be compared, or a remark for the reader.
    pub reason: Option<String>,
}

/// The meaning of a difference between two results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The value is significantly better: faster, cheaper or higher.
    Better,
    /// The value is significantly worse: slower, costlier or lower.
    Worse,
    /// There is no significant difference.
    Same,
    /// There are too few blocks for a verdict.
    Insufficient,
    /// Runs failed in the second result, but none in the first.
    NewlyFailed,
    /// Runs failed in the first result, or in both results.
    Failed,
}

/// Compares two results, case by case.
pub fn compare(base: &Record, new: &Record) -> Comparison {
    let of = |record: &Record, id: &str| record.cases.iter().any(|case| case.id == id);
    let only = |here: &Record, there: &Record| {
        here.cases.iter().filter(|case| !of(there, &case.id)).map(|case| case.id.clone()).collect()
    };
    let common = base.cases.iter().filter(|case| of(new, &case.id));
    Comparison {
        warnings: surroundings::warnings(base, new),
        rows: common.flat_map(|case| rows(base, new, case)).collect(),
        only_in_base: only(base, new),
        only_in_new: only(new, base),
    }
}

impl Comparison {
    /// The rows that are significantly worse by more than `percent` percent, or that newly failed.
    pub fn beyond(&self, percent: f64) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.is_beyond(percent)).collect()
    }
}

impl Row {
    fn is_beyond(&self, percent: f64) -> bool {
        match self.verdict {
            Verdict::NewlyFailed => true,
            Verdict::Worse => self.difference.is_some_and(|difference| difference.percent.abs() > percent),
            _ => false,
        }
    }
}

fn rows(base: &Record, new: &Record, case: &Case) -> Vec<Row> {
    let (before, after) = (failure(base, &case.id), failure(new, &case.id));
    let verdict = if before.is_none() { Verdict::NewlyFailed } else { Verdict::Failed };
    let reported = |name: &str, reason: Option<String>| reason.map(|reason| format!("{name}: {reason}"));
    if let Some(reason) = reported("NEW", after).or_else(|| reported("BASE", before)) {
        return vec![Row { verdict, reason: Some(reason), ..nothing(case) }];
    }
    let mut rows: Vec<Row> = Metric::all()
        .filter(|metric| metric.about().is_compared)
        .filter_map(|metric| row(base, new, case, metric))
        .collect();
    if rows.is_empty() {
        rows.extend(row(base, new, case, Metric::Seconds));
    }
    rows
}

fn nothing(case: &Case) -> Row {
    Row {
        case: case.id.clone(),
        quantity: None,
        base: None,
        new: None,
        difference: None,
        verdict: Verdict::Insufficient,
        reason: None,
    }
}

/// The row for a metric; `None` if neither result has it.
fn row(base: &Record, new: &Record, case: &Case, quantity: Metric) -> Option<Row> {
    let values = |record: &Record| values(record, &case.id, quantity);
    let (before, after) = (values(base), values(new));
    if before.is_empty() && after.is_empty() {
        return None;
    }
    let difference = Difference::unpaired(&before, &after, base.seed);
    Some(Row {
        quantity: Some(quantity),
        base: median(&before),
        new: median(&after),
        difference,
        verdict: difference.map_or(Verdict::Insufficient, |difference| verdict(difference, quantity)),
        reason: limited(base, new, &case.id),
        ..nothing(case)
    })
}

fn verdict(difference: Difference, quantity: Metric) -> Verdict {
    match difference.called {
        Called::Insufficient => Verdict::Insufficient,
        Called::Same => Verdict::Same,
        Called::Different if (difference.percent > 0.0) == quantity.about().more_is_better => Verdict::Better,
        Called::Different => Verdict::Worse,
    }
}

fn values(record: &Record, case: &str, quantity: Metric) -> Vec<f64> {
    figures(record, quantity, case).into_iter().map(|(_, value)| value).collect()
}

fn median(values: &[f64]) -> Option<f64> {
    Estimate::of(values, 0).map(|estimate| estimate.median)
}

/// The reason why the first bad run of a case gave no values; `None` if every run is good.
fn failure(record: &Record, case: &str) -> Option<String> {
    let mut runs = runs(record, case).peekable();
    if runs.peek().is_none() {
        return Some("the case was not run".into());
    }
    runs.find_map(|run| match &run.outcome {
        Outcome::Measured(_) => None,
        Outcome::Failed { reason } | Outcome::Unavailable { reason } => Some(reason.clone()),
    })
}

/// A remark if the test bed limits the case. Such a case can't become better, and can hide that another part has become
/// worse.
fn limited(base: &Record, new: &Record, case: &str) -> Option<String> {
    let limit = |record| good_runs(record, case).find_map(|(_, run)| run.limited_by_bed.clone());
    limit(base).or_else(|| limit(new)).map(|part| format!("limited by the test bed: {part}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{measured, record, run};

    /// A result whose blocks all have values close to a rate, for each of these cases.
    fn result(rates: &[(&str, f64)], blocks: u32) -> Record {
        let off = |block: u32| 1.0 + f64::from(block % 3) / 1000.0;
        let runs = (0..blocks).flat_map(|block| {
            rates.iter().map(move |(id, rate)| run(id, block, measured(rate * off(block), 1.0)))
        });
        let ids: Vec<&str> = rates.iter().map(|(id, _)| *id).collect();
        record(&ids, blocks, runs.collect())
    }

    fn verdicts(comparison: &Comparison, quantity: Metric) -> Vec<Verdict> {
        let rows = comparison.rows.iter().filter(|row| row.quantity == Some(quantity));
        rows.map(|row| row.verdict).collect()
    }

    #[test]
    fn each_case_is_judged_by_each_of_its_quantities() {
        let base = result(&[("up", 5.0), ("down", 5.0), ("same", 5.0), ("gone", 5.0)], 5);
        let new = result(&[("new", 1.0), ("same", 5.0), ("up", 6.0), ("down", 4.0)], 5);
        let comparison = compare(&base, &new);
        assert_eq!(
            verdicts(&comparison, Metric::PayloadRate),
            [Verdict::Better, Verdict::Worse, Verdict::Same]
        );
        // The processors were busy for the same time, so with more bytes, each byte costs less.
        assert_eq!(verdicts(&comparison, Metric::CpuPerGb), [Verdict::Better, Verdict::Worse, Verdict::Same]);
        assert_eq!(
            (&comparison.only_in_base[..], &comparison.only_in_new[..]),
            (&["gone".into()][..], &["new".into()][..])
        );
        assert!(comparison.warnings.is_empty(), "{:?}", comparison.warnings);
        let percent = comparison.rows[0].difference.unwrap().percent;
        assert!((percent - 20.0).abs() < 0.5, "{percent}");
    }

    #[test]
    fn a_limit_is_broken_by_what_is_worse_by_more_and_by_what_fails_now() {
        let base = result(&[("down", 5.0)], 5);
        let mut new = result(&[("down", 4.6)], 5);
        let comparison = compare(&base, &new);
        // One row is 8 % slower, and another 8.7 % costlier.
        assert_eq!(comparison.beyond(5.0).len(), 2);
        assert_eq!(comparison.beyond(8.4).len(), 1);
        assert!(comparison.beyond(10.0).is_empty());
        new.runs[2].outcome = Outcome::Failed { reason: "no route".into() };
        let comparison = compare(&base, &new);
        assert_eq!((comparison.rows[0].verdict, comparison.beyond(50.0).len()), (Verdict::NewlyFailed, 1));
        assert_eq!(comparison.rows[0].reason.as_deref(), Some("NEW: no route"));
        let comparison = compare(&new, &new);
        assert_eq!((comparison.rows[0].verdict, comparison.beyond(0.0).len()), (Verdict::Failed, 0));
        new.runs.clear();
        assert!(compare(&base, &new).rows[0].reason.as_ref().unwrap().contains("not run"));
    }

    #[test]
    fn few_blocks_are_insufficient_and_what_moves_nothing_is_judged_by_its_time() {
        let comparison = compare(&result(&[("a", 5.0)], 4), &result(&[("a", 1.0)], 9));
        assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::Insufficient));
        assert!(comparison.beyond(0.0).is_empty());
        let login = |seconds: f64| {
            let runs =
                (0..5).map(|block| run("login", block, measured(0.0, seconds + f64::from(block) / 1e4)));
            record(&["login"], 5, runs.collect())
        };
        let comparison = compare(&login(0.2), &login(0.3));
        assert_eq!(verdicts(&comparison, Metric::Seconds), [Verdict::Worse]);
        assert_eq!(comparison.rows.len(), 1);
    }
}
