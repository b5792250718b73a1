//! Medians over blocks, with intervals from a bootstrap (Efron, 1979): blocks are drawn with replacement, and
//! the interval is the middle 95 % of the medians of these samples.
//!
//! The median of a few values is coarse: with 7 blocks, the bootstrap interval by itself contains the true
//! median in 88 % of studies, with 8 and with 15 blocks in 92 %. The interval is therefore never narrower
//! than the interval from order statistics.
//!
//! For two records, whose blocks aren't pairs, `difference.rs` computes the interval of the comparison.

use serde::{Deserialize, Serialize};

use super::order_statistics::order_interval;
use super::student::Student;

/// The smallest number of blocks that gives an interval. With four blocks, even the extremes enclose the true
/// median in only 87 % of studies.
pub const LEAST_BLOCKS: usize = 5;

/// The number of bootstrap samples.
pub const RESAMPLES: usize = 2000;

/// A median over blocks, and its precision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median of the blocks' values.
    pub median: f64,
    /// The 95 % interval of the median.
    pub interval: Interval,
    /// The mean and Student's interval, as netperf prints them.
    pub student: Student,
    /// The number of blocks that gave a value.
    pub blocks: usize,
}

/// An interval, unless there are too few blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interval {
    /// The lower and the upper end.
    Known(f64, f64),
    /// There is no interval, because there are fewer than [`LEAST_BLOCKS`] blocks.
    Insufficient,
}

impl Estimate {
    /// The estimate from one value for each block; `None` if there are no values. The same seed gives the
    /// same interval.
    pub fn of(values: &[f64], seed: u64) -> Option<Estimate> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let student = Student::of(&sorted)?;
        Some(Estimate {
            median: median(&sorted)?,
            interval: interval(&sorted, seed),
            student,
            blocks: sorted.len(),
        })
    }
}

impl Interval {
    /// The lower and the upper end of the interval, if there is one.
    pub fn ends(self) -> Option<(f64, f64)> {
        match self {
            Interval::Known(low, high) => Some((low, high)),
            Interval::Insufficient => None,
        }
    }

    /// True if there is an interval, and `value` isn't in it.
    pub fn excludes(self, value: f64) -> bool {
        self.ends().is_some_and(|(low, high)| value < low || high < value)
    }

    /// Applies `f` to both ends; `f` must be increasing.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Interval {
        self.ends().map_or(Interval::Insufficient, |(low, high)| Interval::Known(f(low), f(high)))
    }
}

/// The median of sorted values.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    sorted.get(sorted.len() / 2 - 1).map(|lower| (lower + upper) / 2.0)
}

fn interval(sorted: &[f64], seed: u64) -> Interval {
    if sorted.len() < LEAST_BLOCKS {
        return Interval::Insufficient;
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut drawn = Vec::new();
    let (low, high) = middle((0..RESAMPLES).filter_map(|_| drawn_median(sorted, &mut drawn, &mut rng)));
    let (least, most) = order_interval(sorted).unwrap_or((low, high));
    Interval::Known(low.min(least), high.max(most))
}

/// The median of a sample of the same size, drawn with replacement. `drawn` is a buffer for the sample.
pub(crate) fn drawn_median(values: &[f64], drawn: &mut Vec<f64>, rng: &mut fastrand::Rng) -> Option<f64> {
    drawn.clear();
    drawn.extend((0..values.len()).map(|_| values[rng.usize(..values.len())]));
    drawn.sort_by(f64::total_cmp);
    median(drawn)
}

/// The ends of the middle 95 % of [`RESAMPLES`] values: 2.5 % of the values are below and 2.5 % above.
pub(crate) fn middle(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 40;
    (values[cut], values[values.len() - 1 - cut])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::simulation::{Noise, gaussian, heavy_tailed, normal, skewed};
    use proptest::prelude::*;

    #[test]
    fn few_blocks_are_insufficient() {
        assert_eq!(Estimate::of(&[], 1), None);
        assert_eq!(Estimate::of(&[f64::NAN], 1), None);
        let estimate = Estimate::of(&[3.0, 1.0, 2.0, 4.0], 1).unwrap();
        assert_eq!((estimate.median, estimate.interval, estimate.blocks), (2.5, Interval::Insufficient, 4));
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 1).unwrap();
        assert_eq!((estimate.median, estimate.interval), (3.0, Interval::Known(1.0, 5.0)));
    }

    /// For two intervals of a ratio, the printed one and Student's, the share of 1,000 simulated studies in which the
    /// interval contains the true ratio. Both cases of a block share a disturbance, as on a real host.
    fn coverage(blocks: usize, noise: Noise) -> (f64, f64) {
        let mut rng = fastrand::Rng::with_seed(blocks as u64);
        let truth = 3.0;
        let (mut printed, mut student) = (0, 0);
        for study in 0..1000 {
            let ratios: Vec<f64> = (0..blocks)
                .map(|_| {
                    let shared = (0.2 * normal(&mut rng)).exp();
                    let (a, b) = (noise(&mut rng), noise(&mut rng));
                    (truth * shared * a) / (shared * b)
                })
                .collect();
            let estimate = Estimate::of(&ratios, study).unwrap();
            printed += u32::from(!estimate.interval.excludes(truth));
            student += u32::from(!estimate.student.interval.excludes(truth));
        }
        (f64::from(printed) / 1000.0, f64::from(student) / 1000.0)
    }

    #[test]
    fn intervals_enclose_the_true_ratio_as_often_as_they_say() {
        // With five blocks, the interval misses the true value if all measured values are on the same side of the true
        // value. The probability of this is exactly 2 / 2^5 = 6.25 %.
        for blocks in [5, 6, 7, 8, 10, 15] {
            let (printed, student) = coverage(blocks, gaussian);
            assert!((0.93..=0.97).contains(&printed), "{blocks} blocks: {printed}");
            assert!((0.93..=0.97).contains(&student), "{blocks} blocks: Student {student}");
        }
    }

    #[test]
    fn the_printed_interval_holds_whatever_the_noise() {
        for noise in [heavy_tailed as Noise, skewed] {
            for blocks in [5, 10] {
                let (printed, _) = coverage(blocks, noise);
                assert!((0.93..=0.97).contains(&printed), "{blocks} blocks: {printed}");
            }
        }
    }

    proptest! {
        #[test]
        fn an_interval_holds_the_median_and_lies_within_the_values(
            values in proptest::collection::vec(0.001_f64..1e6, 5..20), seed in any::<u64>(),
        ) {
            let estimate = Estimate::of(&values, seed).unwrap();
            let Interval::Known(low, high) = estimate.interval else { panic!("{estimate:?}") };
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(least <= low && low <= estimate.median && estimate.median <= high && high <= most);
            prop_assert_eq!(Estimate::of(&values, seed), Some(estimate));
        }

        #[test]
        fn a_unit_changes_nothing(values in proptest::collection::vec(0.1_f64..100.0, 5..12)) {
            let scaled: Vec<f64> = values.iter().map(|v| v * 8.0).collect();
            let (a, b) = (Estimate::of(&values, 3).unwrap(), Estimate::of(&scaled, 3).unwrap());
            prop_assert!((a.median * 8.0 - b.median).abs() < 1e-9);
        }
    }
}
