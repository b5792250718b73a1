//! Finds cases that became faster or slower over the blocks of a study.

use std::collections::BTreeMap;

use crate::metric::Metric;
use crate::record::{Outcome, Record};

/// The number of random permutations of a permutation test.
const SHUFFLES: u32 = 2000;

/// A trend is reported if the probability that chance produces it is below this value.
const SIGNIFICANT: f64 = 0.05;

/// The smallest number of blocks from which a trend can be found.
const FEWEST: usize = 5;

/// Pairs of block and value.
type Points = Vec<(f64, f64)>;

/// The change of a case's value over the blocks.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Drift {
    /// The case; `None` for all cases together, each normalized to its median.
    pub case: Option<String>,
    /// The change from the first block to the last along the fitted line, in percent of the median; negative
    /// if the value fell.
    pub percent: f64,
    /// The probability that chance gives a rank correlation of values and blocks that is at least as strong.
    pub p: f64,
}

/// The drift of all cases together, and of each case with five or more values. The value is the payload rate, or else
/// the transactions, or else the seconds. A drift has two parts: the change of the value along the line of least
/// squares, and the probability of Spearman's rank correlation between value and block. A permutation test of 2,000
/// orders with the record's seed gives the probability.
pub fn drifts(record: &Record) -> Vec<Drift> {
    let all: Vec<(Option<String>, Points)> =
        record.cases.iter().map(|case| (Some(case.id.clone()), values(record, &case.id))).collect();
    let together = together(all.iter().map(|(_, values)| values.as_slice()));
    let one = |(case, values): (Option<String>, Points)| {
        let (percent, p) = drift(&values, record.seed)?;
        Some(Drift { case, percent, p })
    };
    std::iter::once((None, together)).chain(all).filter_map(one).collect()
}

/// The drifts as one line: "drift: none", or the changes. With many cases, some look changed by chance. So the
/// probability of a case's drift is compared with 5 % divided by the number of cases (Bonferroni).
pub fn drift_statement(drifts: &[Drift]) -> String {
    if drifts.is_empty() {
        return "drift: unknown, because there are fewer than five blocks".into();
    }
    let cases = drifts.iter().filter(|drift| drift.case.is_some()).count().max(1);
    let bound = |drift: &Drift| if drift.case.is_some() { SIGNIFICANT / cases as f64 } else { SIGNIFICANT };
    let changed: Vec<String> =
        drifts.iter().filter(|drift| drift.p < bound(drift)).map(Drift::reported).collect();
    if changed.is_empty() { "drift: none".into() } else { format!("drift: {}", changed.join("; ")) }
}

impl Drift {
    fn reported(&self) -> String {
        let way = if self.percent < 0.0 { "fell" } else { "rose" };
        // A test with 2,000 permutations can't find a smaller probability.
        let p = if self.p < 0.001 { "p < 0.001".into() } else { format!("p = {:.3}", self.p) };
        let what = self.case.as_ref().map_or("all cases together".into(), |case| format!("case {case}"));
        format!("{what} {way} by {:.0} % over the blocks, {p}", self.percent.abs())
    }
}

/// The blocks with a value of the case, and these values.
fn values(record: &Record, case: &str) -> Points {
    let value = |outcome: &Outcome| {
        let Outcome::Measured(measures) = outcome else { return None };
        let shown = |metric: Metric| metric.shown(measures, record.counts_cpu_once());
        shown(Metric::PayloadRate).or_else(|| shown(Metric::TransactionRate)).or(Some(measures.seconds))
    };
    let runs = record.runs.iter().filter(|run| run.case == case);
    runs.filter_map(|run| Some((f64::from(run.block), value(&run.outcome)?))).collect()
}

/// The mean of the cases' normalized values in each block.
fn together<'v>(cases: impl Iterator<Item = &'v [(f64, f64)]>) -> Points {
    let mut blocks: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for values in cases {
        let Some(middle) = middle(values.iter().map(|(_, value)| *value)) else { continue };
        for (block, value) in values {
            blocks.entry(*block as u64).or_default().push(value / middle);
        }
    }
    blocks.into_iter().map(|(block, values)| (block as f64, mean(&values))).collect()
}

/// The median of the values; `None` if it can't be used to normalize them.
fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0).filter(|middle| *middle > 0.0)
}

/// The change in percent and its probability by chance; `None` for too few values, or values without a scale.
fn drift(values: &[(f64, f64)], seed: u64) -> Option<(f64, f64)> {
    if values.len() < FEWEST {
        return None;
    }
    let (blocks, rates): (Vec<f64>, Vec<f64>) = values.iter().copied().unzip();
    let middle = middle(rates.iter().copied())?;
    let span = blocks.last()? - blocks.first()?;
    let percent = 100.0 * slope(&blocks, &rates) * span / middle;
    let (blocks, mut rates) = (ranks(&blocks), ranks(&rates));
    let found = correlation(&blocks, &rates).abs();
    let mut rng = fastrand::Rng::with_seed(seed);
    let as_far = (0..SHUFFLES).filter(|_| {
        rng.shuffle(&mut rates);
        correlation(&blocks, &rates).abs() >= found - 1e-12
    });
    // The observed order is one of the possible orders, so the probability is never 0.
    Some((percent, (as_far.count() + 1) as f64 / f64::from(SHUFFLES + 1)))
}

/// The slope of the line of least squares; 0 if all x are equal.
fn slope(x: &[f64], y: &[f64]) -> f64 {
    let (mx, my) = (mean(x), mean(y));
    let both: f64 = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum();
    let own: f64 = x.iter().map(|x| (x - mx).powi(2)).sum();
    if own > 0.0 { both / own } else { 0.0 }
}

/// Pearson's correlation (for ranks, this is Spearman's); 0 if x or y doesn't vary.
fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let (mx, my) = (mean(x), mean(y));
    let sum = |f: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(x, y)| f(x - mx, y - my)).sum::<f64>();
    let scale = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    if scale > 0.0 { sum(&|x, y| x * y) / scale } else { 0.0 }
}

/// The rank of each value, from 1. Equal values get the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let same = values.iter().filter(|other| *other == value).count();
        below as f64 + (same as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{measured, record, run};

    fn of(rates: &[f64]) -> Record {
        let runs = (0..).zip(rates).map(|(block, rate)| run("x", block, measured(*rate, 1.0))).collect();
        record(&["x"], rates.len() as u32, runs)
    }

    #[test]
    fn a_steady_fall_is_reported_with_its_size() {
        let found = drifts(&of(&[10.0, 9.9, 9.8, 9.7, 9.6, 9.5, 9.4, 9.3]));
        assert!((found[1].percent + 7.25).abs() < 0.1 && found[1].p < 0.005, "{found:?}");
        let reported = drift_statement(&found);
        assert!(
            reported.starts_with("drift: all cases together fell by 7 % over the blocks, p"),
            "{reported}"
        );
        assert!(reported.contains("; case x fell by 7 % over the blocks, p"), "{reported}");
    }

    #[test]
    fn what_all_cases_do_is_seen_in_five_blocks() {
        let value = |block: u32, scale: f64| measured(scale * (1.0 + 0.02 * f64::from(block)), 1.0);
        let runs =
            (0..5).flat_map(|block| [run("x", block, value(block, 9.0)), run("y", block, value(block, 0.5))]);
        let reported = drift_statement(&drifts(&record(&["x", "y"], 5, runs.collect())));
        assert!(reported.starts_with("drift: all cases together rose by 8 %"), "{reported}");
    }

    #[test]
    fn noise_and_constants_are_no_drift() {
        for rates in [&[9.0, 9.4, 9.1, 9.3, 9.0, 9.2, 9.4, 9.1][..], &[5.0; 6]] {
            assert_eq!(drift_statement(&drifts(&of(rates))), "drift: none", "{rates:?}");
        }
        assert!(drift_statement(&drifts(&of(&[1.0, 2.0, 3.0, 4.0]))).contains("unknown"));
        assert_eq!(ranks(&[3.0, 1.0, 3.0]), [2.5, 1.0, 2.5]);
    }

    #[test]
    fn chance_alone_is_called_drift_as_rarely_as_it_says() {
        let mut rng = fastrand::Rng::with_seed(4);
        let mut called = 0;
        for _ in 0..400 {
            let rates: Vec<f64> = (0..8).map(|_| 9.0 + rng.f64()).collect();
            called += u32::from(drifts(&of(&rates))[1].p < SIGNIFICANT);
        }
        // 5 % of 400 is 20; three standard deviations are 13.
        assert!((7..=33).contains(&called), "{called} of 400");
    }
}
