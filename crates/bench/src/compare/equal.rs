//! Evaluates A/A studies: counts how often the statistics call equal cases different. A study of two
//! identical cases is divided into groups of five blocks, and each group is compared as if it were a separate
//! study.

use serde::Serialize;

use crate::metric::Metric;
use crate::record::Record;
use crate::stats::{Difference, LEAST_BLOCKS, figure};

/// The counts for one metric of an A/A study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Equal {
    /// The metric that was compared.
    pub quantity: Metric,
    /// The number of groups in which the second case was compared with the first, by the ratios within the
    /// groups' blocks.
    pub within: usize,
    /// The number of these groups whose cases were called different.
    pub within_different: usize,
    /// The number of groups whose first case was compared with the second case of the next group, as two
    /// separate results are compared.
    pub between: usize,
    /// The number of these comparisons in which the cases were called different.
    pub between_different: usize,
}

/// The reason why a result can't be evaluated as an A/A study.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EqualError {
    /// The result doesn't have exactly two cases.
    #[error("the study has {0} cases; an A/A study has two equal cases")]
    Cases(usize),
    /// The two cases have different properties.
    #[error("the study's two cases aren't equal: they differ in tool, streams, cipher, data or link")]
    Unlike,
    /// There are too few blocks for a comparison.
    #[error("the study has fewer than {} blocks in which both cases gave a value", 2 * LEAST_BLOCKS)]
    Few,
}

/// Compares the two cases of an A/A study in groups of five blocks.
///
/// # Errors
/// If the record isn't that of an A/A study, or has too few blocks.
pub fn equal(record: &Record) -> Result<Vec<Equal>, EqualError> {
    let [a, b] = record.cases.as_slice() else { return Err(EqualError::Cases(record.cases.len())) };
    let alike = (&a.tool, a.streams, &a.cipher, &a.dataset, &a.link)
        == (&b.tool, b.streams, &b.cipher, &b.dataset, &b.link);
    if !alike {
        return Err(EqualError::Unlike);
    }
    let found: Vec<Equal> = Metric::all()
        .filter(|metric| metric.about().is_compared)
        .filter_map(|quantity| tally(record, quantity, [&a.id, &b.id].map(String::as_str)))
        .collect();
    if found.is_empty() { Err(EqualError::Few) } else { Ok(found) }
}

fn tally(record: &Record, quantity: Metric, cases: [&str; 2]) -> Option<Equal> {
    let blocks = whole_blocks(record, quantity, cases);
    let groups: Vec<&[(f64, f64)]> = blocks.chunks_exact(LEAST_BLOCKS).collect();
    let within: Vec<bool> = groups.iter().zip(0..).filter_map(|(group, seed)| inside(group, seed)).collect();
    let between: Vec<bool> =
        groups.windows(2).zip(0..).filter_map(|(pair, seed)| across(pair[0], pair[1], seed)).collect();
    let different = |called: &[bool]| called.iter().filter(|called| **called).count();
    (!between.is_empty()).then(|| Equal {
        quantity,
        within: within.len(),
        within_different: different(&within),
        between: between.len(),
        between_different: different(&between),
    })
}

/// The blocks in which both cases have a value of the metric.
fn whole_blocks(record: &Record, quantity: Metric, cases: [&str; 2]) -> Vec<(f64, f64)> {
    let both = |block| {
        let [first, second] = cases.map(|case| figure(record, quantity, case, block));
        Some((first?, second?))
    };
    (0..record.blocks).filter_map(both).collect()
}

fn inside(group: &[(f64, f64)], seed: u64) -> Option<bool> {
    let ratios: Vec<f64> = group.iter().map(|(a, b)| b / a).collect();
    Difference::paired(&ratios, seed).map(|difference| difference.called.is_different())
}

fn across(group: &[(f64, f64)], next: &[(f64, f64)], seed: u64) -> Option<bool> {
    let base: Vec<f64> = group.iter().map(|(a, _)| *a).collect();
    let new: Vec<f64> = next.iter().map(|(_, b)| *b).collect();
    Difference::unpaired(&base, &new, seed).map(|difference| difference.called.is_different())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Outcome;
    use crate::stats::simulation::gaussian;
    use crate::testing::{measured, record, run};

    /// A study of two cases, of which the second is faster by `factor`. The runs in a block have independent
    /// noise.
    fn study(factor: f64, blocks: u32) -> Record {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut rate = |factor: f64| measured(5.0 * factor * gaussian(&mut rng), 1.0);
        let runs = (0..blocks).flat_map(|block| [run("a", block, rate(1.0)), run("b", block, rate(factor))]);
        let runs = runs.collect();
        let mut study = record(&["a", "b"], blocks, runs);
        study.cases[1].tool = study.cases[0].tool.clone();
        study
    }

    #[test]
    fn equal_cases_are_rarely_called_different_and_others_mostly() {
        let rate = |study: &Record| equal(study).unwrap().remove(0);
        let same = rate(&study(1.0, 1005));
        assert_eq!((same.quantity, same.within, same.between), (Metric::PayloadRate, 201, 200));
        assert!(same.within_different <= 10 && same.between_different <= 10, "{same:?}");
        let other = rate(&study(1.2, 1005));
        assert!(other.within_different > 150 && other.between_different > 150, "{other:?}");
    }

    #[test]
    fn a_block_without_both_figures_is_left_out() {
        let mut study = study(1.0, 12);
        study.runs[5].outcome = Outcome::Failed { reason: "x".into() };
        let found = equal(&study).unwrap();
        assert_eq!((found[0].within, found[0].between), (2, 1));
    }

    #[test]
    fn other_studies_are_refused() {
        assert_eq!(equal(&record(&["a"], 5, vec![])), Err(EqualError::Cases(1)));
        assert_eq!(equal(&record(&["a", "b"], 5, vec![])), Err(EqualError::Unlike));
        assert_eq!(equal(&study(1.0, 9)), Err(EqualError::Few));
    }
}
