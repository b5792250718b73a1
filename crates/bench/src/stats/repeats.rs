//! The noise of results that were measured only once or twice, estimated from the repeated pairs.
//!
//! Such results have no interval of their own. The differences between two runs of the same configuration are
//! pooled over all repeated configurations. Two runs then differ if their difference is outside of the
//! prediction interval for two runs of the same configuration, t * s * sqrt(2).

use std::collections::BTreeMap;

use serde::Serialize;

use super::bootstrap::Interval;
use super::difference::{Called, Difference, percent};
use super::student::{LEVEL, quantile};

/// The factor that distinguishes runs of one configuration, a key of [`crate::record::Case::factors`].
pub const REPEAT: &str = "run";

/// The noise of single runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Repeats {
    /// Pooled standard deviation of one run.
    pub standard_deviation: f64,
    /// The degrees of freedom of this deviation: the number of runs after the first of each configuration.
    pub freedom: usize,
}

impl Repeats {
    /// The noise from each run's configuration and value; `None` if nothing was repeated.
    pub fn of<K: Ord>(runs: impl IntoIterator<Item = (K, f64)>) -> Option<Repeats> {
        let mut groups: BTreeMap<K, Vec<f64>> = BTreeMap::new();
        for (configuration, value) in runs {
            groups.entry(configuration).or_default().push(value);
        }
        let freedom = groups.values().map(|group| group.len() - 1).sum();
        let squares: f64 = groups.values().map(|group| squares(group)).sum();
        (freedom > 0).then(|| Repeats { standard_deviation: (squares / freedom as f64).sqrt(), freedom })
    }

    /// The difference that two single runs of the same configuration don't exceed in 95 % of cases; infinite if there
    /// are no degrees of freedom.
    pub fn range(&self) -> f64 {
        let quantile = quantile(LEVEL, self.freedom as f64).unwrap_or(f64::INFINITY);
        quantile * self.standard_deviation * std::f64::consts::SQRT_2
    }

    /// The difference of one run from another, with a verdict; `None` if the base isn't positive.
    pub fn difference(&self, base: f64, new: f64) -> Option<Difference> {
        let share = |value: f64| percent(value / base);
        let interval = Interval::Known(share(new - self.range()), share(new + self.range()));
        let called = if interval.excludes(0.0) { Called::Different } else { Called::Same };
        (base > 0.0).then(|| Difference { percent: share(new), interval, called, blocks: 1 })
    }
}

/// The sum of squared distances from the mean.
fn squares(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_pooled_over_what_was_repeated() {
        let repeats = Repeats::of([("a", 10.0), ("b", 21.0), ("a", 12.0), ("c", 5.0), ("b", 20.0)]).unwrap();
        // Two pairs with differences of two and one: (2^2 + 1^2) / 2, divided by two.
        assert_eq!(repeats, Repeats { standard_deviation: 1.25_f64.sqrt(), freedom: 2 });
        assert_eq!(Repeats::of([("a", 1.0), ("b", 2.0)]), None);
        assert_eq!(Repeats::of::<u8>([]), None);
    }

    #[test]
    fn what_is_outside_of_the_prediction_differs() {
        let repeats = Repeats { standard_deviation: 1.0, freedom: 3 };
        let range = 3.1824 * std::f64::consts::SQRT_2;
        assert!((repeats.range() - range).abs() < 1e-3);
        let called = |new: f64| repeats.difference(100.0, new).unwrap().called;
        assert_eq!(
            (called(104.6), called(104.4), called(95.4)),
            (Called::Different, Called::Same, Called::Different)
        );
        assert_eq!(repeats.difference(0.0, 1.0), None);
    }
}
