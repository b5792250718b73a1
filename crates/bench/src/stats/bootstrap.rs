//! Medians over blocks, with intervals from a bootstrap (Efron, 1979): blocks are drawn again with replacement, and
//! the middle 95 % of the medians so got is the interval.

use serde::{Deserialize, Serialize};

/// Fewer blocks than these carry no interval: of four, the extremes enclose the true median in 87 % of studies only.
pub const LEAST_BLOCKS: usize = 5;

/// How often blocks are drawn again.
pub const RESAMPLES: usize = 2000;

/// A median over blocks and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median of the blocks' values.
    pub median: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// The blocks that gave a value.
    pub blocks: usize,
}

/// An interval, or that there are too few blocks for one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interval {
    /// From, to.
    Known(f64, f64),
    /// Fewer than [`LEAST_BLOCKS`] blocks.
    Insufficient,
}

impl Estimate {
    /// The estimate from one value a block; `None` without any. The same seed gives the same interval.
    pub fn of(values: &[f64], seed: u64) -> Option<Estimate> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let interval =
            if sorted.len() < LEAST_BLOCKS { Interval::Insufficient } else { bootstrap(&sorted, seed) };
        Some(Estimate { median: median(&sorted)?, interval, blocks: sorted.len() })
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

fn bootstrap(sorted: &[f64], seed: u64) -> Interval {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut drawn = vec![0.0; sorted.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            drawn.fill_with(|| sorted[rng.usize(..sorted.len())]);
            drawn.sort_by(f64::total_cmp);
            median(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    // 2.5 % of the medians lie below the interval and 2.5 % above.
    let cut = RESAMPLES / 40;
    Interval::Known(medians[cut], medians[RESAMPLES - 1 - cut])
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn normal(rng: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
    }

    /// How often, in 1,000 simulated studies, the interval of a ratio encloses the true ratio. Both cases of a block
    /// share what disturbs that block, as they do on a real host.
    fn coverage(blocks: usize) -> f64 {
        let mut rng = fastrand::Rng::with_seed(42);
        let truth = 3.0;
        let enclosed = (0..1000).filter(|study| {
            let ratios: Vec<f64> = (0..blocks)
                .map(|_| {
                    let shared = (0.2 * normal(&mut rng)).exp();
                    let (a, b) = ((0.05 * normal(&mut rng)).exp(), (0.05 * normal(&mut rng)).exp());
                    (truth * shared * a) / (shared * b)
                })
                .collect();
            let estimate = Estimate::of(&ratios, *study).unwrap();
            matches!(estimate.interval, Interval::Known(low, high) if low <= truth && truth <= high)
        });
        enclosed.count() as f64 / 1000.0
    }

    #[test]
    fn intervals_of_five_blocks_enclose_the_truth_as_often_as_they_say() {
        let coverage = coverage(LEAST_BLOCKS);
        // Exactly: the truth is outside when all five values are on one side, 2 / 2^5 = 6.25 %.
        assert!((0.92..=0.97).contains(&coverage), "{coverage}");
    }

    #[test]
    fn intervals_of_many_blocks_enclose_the_truth_too() {
        let coverage = coverage(25);
        assert!((0.91..=0.98).contains(&coverage), "{coverage}");
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
