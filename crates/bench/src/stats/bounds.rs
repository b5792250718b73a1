//! Bounds: rows with a value, its interval, and a verdict.

use serde::Serialize;

use super::bootstrap::{Estimate, Interval};
use super::ceiling::are_at_one_ceiling;
use super::figure::measures;
use crate::metric::Metric;
use crate::record::{Bound, Limit, Outcome, Record, Relation, Run};
use crate::spec::expression::Expression;

/// A bound and its verdict for a record.
#[derive(Clone, Debug, Serialize)]
pub struct BoundRow {
    /// The bound.
    pub bound: Bound,
    /// The value over blocks; `None` if no block gave a value.
    pub estimate: Option<Estimate>,
    /// The median, or the value of the worst block if the bound must hold in every block.
    pub value: Option<f64>,
    /// The verdict on the bound.
    pub verdict: BoundVerdict,
}

/// The verdict on a bound. The verdict depends on both ends of the interval or, if the bound must hold in every block,
/// on the value of each block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum BoundVerdict {
    /// The bound holds: the whole interval, or the value of every block, is within the limit.
    Ok,
    /// The bound doesn't hold, for example because the whole interval is beyond the limit, or because a run that the
    /// bound needs failed.
    Missed {
        /// A message with the reason.
        reason: String,
    },
    /// A case that the bound needs can't run here.
    Unavailable {
        /// A message with the reason.
        reason: String,
    },
    /// The measurement isn't precise enough: the limit is inside the interval.
    NotShown,
    /// Each block whose value is beyond the limit had a disturbed run.
    Disturbed,
    /// There are too few blocks for an interval, so the bound isn't judged.
    NotJudged,
    /// The row has no limit, so it is only shown.
    Compared {
        /// A note. It gives the reason why there is no value or why some blocks gave no value, or it states that the
        /// value only shows the link's limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// The rows of all bounds of a record. If a run that a bound needs has failed, the bound counts as missed, so that no
/// failure is ignored.
pub fn bound_rows(record: &Record) -> Vec<BoundRow> {
    record.bounds.iter().map(|bound| row(record, bound)).collect()
}

/// The number of bounds that hold, and the number of bounds with each other verdict, as text; `None` if no row has a
/// limit.
pub fn outcome(rows: &[BoundRow]) -> Option<String> {
    let of = |word: &str| rows.iter().filter(|row| row.verdict.word() == word).count();
    let all = rows.iter().filter(|row| row.bound.limit.is_some()).count();
    let held = format!("{} of {all} bounds hold", of("ok"));
    let others = ["MISSED", "unavailable", "not shown", "disturbed", "not judged"]
        .into_iter()
        .filter(|word| of(word) > 0);
    let others = others.map(|word| format!(", {} {}", of(word), word.to_lowercase()));
    (all > 0).then(|| held + &others.collect::<String>())
}

impl BoundRow {
    /// True if the bound holds.
    pub fn holds(&self) -> bool {
        self.verdict == BoundVerdict::Ok
    }

    /// True if the bound is missed, unavailable, not shown to hold, or disturbed. False if the bound holds, has no
    /// limit, or isn't judged because there are too few blocks.
    pub fn fails(&self) -> bool {
        use BoundVerdict::{Disturbed, Missed, NotShown, Unavailable};
        matches!(self.verdict, Missed { .. } | Unavailable { .. } | NotShown | Disturbed)
    }
}

impl BoundVerdict {
    /// The verdict in a word or two; empty if the row isn't judged.
    pub fn word(&self) -> &'static str {
        match self {
            BoundVerdict::Ok => "ok",
            BoundVerdict::Missed { .. } => "MISSED",
            BoundVerdict::Unavailable { .. } => "unavailable",
            BoundVerdict::NotShown => "not shown",
            BoundVerdict::Disturbed => "disturbed",
            BoundVerdict::NotJudged => "not judged",
            BoundVerdict::Compared { .. } => "",
        }
    }

    /// A message with the reason for the verdict; `None` if the bound holds.
    pub fn reason(&self) -> Option<&str> {
        match self {
            BoundVerdict::Ok => None,
            BoundVerdict::Missed { reason } | BoundVerdict::Unavailable { reason } => Some(reason),
            BoundVerdict::NotShown => Some(
                "the interval contains the limit, so the bound is neither shown to hold nor to be missed",
            ),
            BoundVerdict::Disturbed => Some("each block beyond the limit had a disturbed run: measure again"),
            BoundVerdict::NotJudged => Some("too few blocks: an interval needs five"),
            BoundVerdict::Compared { reason } => reason.as_deref(),
        }
    }
}

fn row(record: &Record, bound: &Bound) -> BoundRow {
    let bound = bound.clone();
    let cases: Vec<&str> = record.cases.iter().map(|case| case.id.as_str()).collect();
    let expression = match Expression::parse(&bound.expression, &cases) {
        Ok(expression) => expression,
        Err(error) => {
            return missed(bound, format!("the bound's expression can't be read: {}", error.problem));
        }
    };
    let figure = |metric: Metric, case: &str, block| {
        metric.of(measures(record, case, block)?, record.counts_cpu_once())
    };
    let value = |block| Some((block, expression.evaluate(&|metric, case| figure(metric, case, block))?));
    let blocks: Vec<(u32, f64)> = (0..record.blocks).filter_map(value).collect();
    let values: Vec<f64> = blocks.iter().map(|(_, value)| *value).collect();
    let estimate = Estimate::of(&values, record.seed);
    let worst = bound.limit.filter(|_| bound.every_block).map(|limit| worst(&values, limit));
    let hindrance = hindrance(record, &expression, values.len());
    let verdict = match (bound.limit, hindrance) {
        (None, Some(Hindrance::Failed(reason) | Hindrance::Unavailable(reason))) => {
            BoundVerdict::Compared { reason: Some(reason) }
        }
        (None, None) => BoundVerdict::Compared { reason: hidden(record, &expression) },
        (_, Some(Hindrance::Failed(reason))) => BoundVerdict::Missed { reason },
        (_, Some(Hindrance::Unavailable(reason))) => BoundVerdict::Unavailable { reason },
        (Some(limit), None) => match judged(limit, bound.every_block, &values, estimate) {
            BoundVerdict::Missed { .. } | BoundVerdict::NotShown
                if only_disturbed(record, &expression, limit, &blocks) =>
            {
                BoundVerdict::Disturbed
            }
            verdict => verdict,
        },
    };
    BoundRow { bound, value: worst.unwrap_or(estimate.map(|e| e.median)), estimate, verdict }
}

fn missed(bound: Bound, reason: String) -> BoundRow {
    BoundRow { bound, estimate: None, value: None, verdict: BoundVerdict::Missed { reason } }
}

/// The smallest value for a lower limit, or the largest value for an upper limit.
fn worst(values: &[f64], limit: Limit) -> Option<f64> {
    let further = match limit.relation {
        Relation::AtLeast => f64::min,
        Relation::AtMost => f64::max,
    };
    values.iter().copied().reduce(further)
}

/// The reason why a bound can't be judged.
enum Hindrance {
    Failed(String),
    Unavailable(String),
}

/// The reason why a bound can't be judged. A failed run is reported rather than a missing program, because the failure
/// is more important.
fn hindrance(record: &Record, expression: &Expression, values: usize) -> Option<Hindrance> {
    let needed = expression.cases();
    let runs = || record.runs.iter().filter(|run| needed.contains(run.case.as_str()));
    let failed = |run: &Run| match &run.outcome {
        Outcome::Failed { reason } => Some(format!("a run of {} failed: {reason}", run.case)),
        Outcome::Unavailable { .. } | Outcome::Measured(_) => None,
    };
    let unavailable = |run: &Run| match &run.outcome {
        Outcome::Unavailable { reason } => Some(format!("{}: {reason}", run.case)),
        Outcome::Failed { .. } | Outcome::Measured(_) => None,
    };
    let failed = runs().find_map(failed).map(Hindrance::Failed);
    let found = failed.or_else(|| runs().find_map(unavailable).map(Hindrance::Unavailable));
    let blocks = record.blocks as usize;
    let few = || format!("only {values} of {blocks} blocks gave a value");
    found.or_else(|| (values < blocks).then(|| Hindrance::Failed(few())))
}

/// A message if a comparison of rates only shows the limit of the link.
fn hidden(record: &Record, expression: &Expression) -> Option<String> {
    let is_rate = |metric| matches!(metric, Metric::PayloadRate | Metric::TransactionRate);
    let rates = expression.figures().into_iter().all(|(metric, _)| is_rate(metric));
    (rates && are_at_one_ceiling(record, expression.cases()))
        .then(|| "both cases reach their link's ceiling, which hides any other difference".to_owned())
}

fn judged(limit: Limit, every_block: bool, values: &[f64], estimate: Option<Estimate>) -> BoundVerdict {
    let ends = match estimate.map(|estimate| estimate.interval) {
        _ if every_block => worst(values, limit).map(|worst| (worst, worst)),
        interval => interval.and_then(Interval::ends),
    };
    let Some((low, high)) = ends else { return BoundVerdict::NotJudged };
    match (limit.holds(low), limit.holds(high)) {
        (true, true) => BoundVerdict::Ok,
        (false, false) => BoundVerdict::Missed { reason: "the value is beyond the bound".into() },
        _ => BoundVerdict::NotShown,
    }
}

/// True if each block beyond the limit had a disturbed run of a case that the bound needs.
fn only_disturbed(record: &Record, expression: &Expression, limit: Limit, blocks: &[(u32, f64)]) -> bool {
    let disturbed = |case: &str, block| measures(record, case, block).is_some_and(|m| m.disturbed.is_some());
    let mut beyond = blocks.iter().filter(|(_, value)| !limit.holds(*value));
    beyond.all(|(block, _)| expression.cases().into_iter().any(|case| disturbed(case, *block)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Measures;
    use crate::testing::{measured, record, run};

    fn bound(expression: &str, relation: Relation, limit: f64) -> Bound {
        Bound {
            name: "row".into(),
            expression: expression.into(),
            limit: Some(Limit { relation, value: limit }),
            unit: "ratio".into(),
            every_block: false,
        }
    }

    fn five(rates: [f64; 5], base: f64) -> Record {
        let runs = rates.iter().zip(0..).flat_map(|(rate, block)| {
            [run("cp", block, measured(*rate, 2.0)), run("scp", block, measured(base, 2.0))]
        });
        record(&["cp", "scp"], 5, runs.collect())
    }

    #[test]
    fn ratios_are_taken_inside_a_block() {
        let mut record = five([9.0, 9.3, 9.6, 9.9, 9.6], 3.0);
        record.bounds = vec![bound("payload_rate(cp) / payload_rate(scp)", Relation::AtLeast, 3.0)];
        let row = bound_rows(&record).remove(0);
        assert!(row.holds());
        assert!((row.value.unwrap() - 3.2).abs() < 1e-6);
        let Interval::Known(low, high) = row.estimate.unwrap().interval else { panic!("{row:?}") };
        assert!((low - 3.0).abs() < 1e-6 && (high - 3.3).abs() < 1e-6);
    }

    #[test]
    fn a_value_beyond_the_bound_is_missed() {
        let mut record = five([9.0; 5], 3.0);
        record.bounds = vec![
            bound("payload_rate(cp) / payload_rate(scp)", Relation::AtLeast, 3.1),
            bound("payload_rate(cp) / payload_rate(scp)", Relation::AtMost, 3.1),
        ];
        let rows = bound_rows(&record);
        assert!(!rows[0].holds() && rows[1].holds());
    }

    #[test]
    fn a_failed_run_makes_every_bound_that_needs_it_missed() {
        let mut record = five([9.0; 5], 3.0);
        record.runs[3] = run("scp", 1, Outcome::Failed { reason: "disk full".into() });
        record.bounds = vec![
            bound("payload_rate(cp) / payload_rate(scp)", Relation::AtLeast, 1.0),
            bound("payload_rate(cp)", Relation::AtLeast, 1.0),
        ];
        let rows = bound_rows(&record);
        assert!(matches!(&rows[0].verdict, BoundVerdict::Missed { reason } if reason.contains("disk full")));
        assert_eq!(rows[0].estimate.unwrap().blocks, 4);
        assert!(rows[1].holds());
    }

    #[test]
    fn a_missing_tool_or_figure_or_run_is_missed() {
        let mut record = five([9.0; 5], 3.0);
        record.bounds = vec![bound("peak_rss(cp)", Relation::AtMost, 1.0)];
        assert!(!bound_rows(&record)[0].holds());
        record.bounds[0].expression = "payload_rate(cp)".into();
        record.runs.retain(|run| run.block < 4);
        let row = bound_rows(&record).remove(0);
        assert!(
            matches!(&row.verdict, BoundVerdict::Missed { reason } if reason.contains("4 of 5")),
            "{row:?}"
        );
        record.runs[0].outcome = Outcome::Unavailable { reason: "cp isn't installed".into() };
        let row = bound_rows(&record).remove(0);
        assert!(row.fails() && row.verdict.word() == "unavailable", "{row:?}");
        assert!(row.verdict.reason().unwrap().contains("installed"), "{row:?}");
        assert_eq!(outcome(&[row]).unwrap(), "0 of 1 bounds hold, 1 unavailable");
        record.runs[2].outcome = Outcome::Failed { reason: "disk full".into() };
        assert_eq!(bound_rows(&record)[0].verdict.word(), "MISSED", "a failure is no missing program");
        record.bounds[0].expression = "payload_rate(zebra)".into();
        assert!(!bound_rows(&record)[0].holds());
    }

    #[test]
    fn every_block_means_the_worst() {
        let mut record = five([9.0; 5], 3.0);
        for (run, rss) in record.runs.iter_mut().zip(1..) {
            if let Outcome::Measured(Measures { peak_rss_bytes, .. }) = &mut run.outcome {
                *peak_rss_bytes = Some(rss * 10);
            }
        }
        record.bounds = vec![bound("max(peak_rss(*))", Relation::AtMost, 90.0)];
        assert_eq!(bound_rows(&record)[0].verdict, BoundVerdict::NotShown, "20, 40, 60, 80, 100");
        record.bounds[0].every_block = true;
        let row = bound_rows(&record).remove(0);
        assert_eq!((row.verdict.word(), row.value), ("MISSED", Some(100.0)));
    }

    #[test]
    fn fewer_than_five_blocks_are_not_judged_unless_each_must_hold() {
        let mut record = record(&["cp"], 1, vec![run("cp", 0, measured(9.0, 1.0))]);
        record.bounds = vec![bound("payload_rate(cp)", Relation::AtLeast, 8.0)];
        let row = bound_rows(&record).remove(0);
        assert!(!row.holds() && !row.fails() && row.verdict == BoundVerdict::NotJudged);
        assert_eq!(row.value, Some(9.0));
        record.bounds[0].every_block = true;
        assert!(bound_rows(&record)[0].holds());
        record.runs[0].outcome = Outcome::Failed { reason: "no".into() };
        assert!(bound_rows(&record)[0].fails());
    }

    #[test]
    fn the_whole_interval_decides() {
        let mut record = five([9.0, 9.3, 9.6, 9.9, 9.6], 3.0);
        let verdict = |record: &mut Record, relation, limit| {
            record.bounds = vec![bound("payload_rate(cp) / payload_rate(scp)", relation, limit)];
            bound_rows(record).remove(0).verdict.word()
        };
        let words = [3.0, 3.1, 3.2, 3.4].map(|limit| verdict(&mut record, Relation::AtLeast, limit));
        assert_eq!(words, ["ok", "not shown", "not shown", "MISSED"]);
        let words = [2.9, 3.25, 3.301].map(|limit| verdict(&mut record, Relation::AtMost, limit));
        assert_eq!(words, ["MISSED", "not shown", "ok"]);
        assert!(
            bound_rows(&record)[0].holds() && outcome(&bound_rows(&record)).unwrap() == "1 of 1 bounds hold"
        );
    }

    #[test]
    fn what_only_disturbed_runs_miss_is_not_missed() {
        let mut record = five([9.0, 9.0, 6.0, 9.0, 6.0], 3.0);
        record.bounds = vec![bound("payload_rate(cp) / payload_rate(scp)", Relation::AtLeast, 2.9)];
        let disturb = |record: &mut Record, run: usize| {
            let Outcome::Measured(measures) = &mut record.runs[run].outcome else { panic!("it is measured") };
            measures.disturbed = Some("steal".into());
        };
        disturb(&mut record, 4);
        assert_eq!(bound_rows(&record)[0].verdict, BoundVerdict::NotShown, "a quiet block misses it, too");
        disturb(&mut record, 9);
        let row = bound_rows(&record).remove(0);
        assert!(row.verdict == BoundVerdict::Disturbed && row.fails());
        assert_eq!(outcome(&[row]).unwrap(), "0 of 1 bounds hold, 1 disturbed");
    }

    #[test]
    fn a_comparison_at_the_links_ceiling_says_so() {
        let mut record = five([9.5; 5], 9.5);
        record.bounds = vec![bound("payload_rate(cp) / payload_rate(scp)", Relation::AtLeast, 0.9)];
        record.bounds[0].limit = None;
        let reason = |record: &Record| bound_rows(record).remove(0).verdict.reason().map(str::to_owned);
        assert_eq!(reason(&record), None, "nothing is known of the link");
        let link: crate::record::Link = serde_json::from_str(
            r#"{"bits_per_second":10000000000,"mtu":1500,"kind":"veth","frame_overhead_bytes":14}"#,
        )
        .unwrap();
        record.links = vec![crate::record::NamedLink { name: record.cases[0].link.clone(), link }];
        assert!(reason(&record).unwrap().contains("ceiling"));
        record.bounds[0].expression = "cpu_per_gb(cp) / cpu_per_gb(scp)".into();
        assert_eq!(reason(&record), None, "CPU isn't limited by the link");
    }

    #[test]
    fn a_row_without_a_limit_is_shown_and_never_fails() {
        let mut record = five([9.0; 5], 3.0);
        record.bounds = vec![bound("payload_rate(cp) / payload_rate(scp)", Relation::AtLeast, 9.0)];
        record.bounds[0].limit = None;
        let row = bound_rows(&record).remove(0);
        assert!((row.value.unwrap() - 3.0).abs() < 1e-6 && !row.holds() && !row.fails());
        assert_eq!(outcome(&[row]), None);
        record.runs[0].outcome = Outcome::Unavailable { reason: "cp isn't installed".into() };
        let row = bound_rows(&record).remove(0);
        assert!(row.verdict.reason().unwrap().contains("installed") && row.value.is_some());
        let text = serde_json::to_string(&record.bounds[0]).unwrap();
        assert!(!text.contains("limit") && serde_json::from_str::<Bound>(&text).unwrap().limit.is_none());
        let old = r#"{"name":"n","expression":"1","relation":">=","limit":2.5,"unit":"ratio"}"#;
        let limit = serde_json::from_str::<Bound>(old).unwrap().limit;
        assert_eq!(limit, Some(Limit { relation: Relation::AtLeast, value: 2.5 }));
    }
}
