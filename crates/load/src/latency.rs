//! The durations of transactions, in an HDR histogram, and a summary of them.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

/// The longest duration that the histogram can hold, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// The number of significant digits of each duration (<http://hdrhistogram.org>).
const DIGITS: u8 = 3;
/// The greatest number of buckets in a summary.
const BUCKETS: usize = 60;

/// The durations of transactions, each with three significant digits.
#[derive(Clone)]
pub struct LatencyHistogram(Histogram<u64>);

/// Prints the count and the mean, but not the thousands of buckets.
impl Debug for LatencyHistogram {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Latency({} of {} s on average)", self.count(), self.mean_seconds())
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(
            Histogram::new_with_bounds(1, LONGEST, DIGITS)
                .expect("the bounds and digits are valid constants"),
        )
    }
}

impl LatencyHistogram {
    /// Adds the duration of a transaction.
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST).max(1));
    }

    /// Adds all transactions of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// The number of transactions.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The mean duration in seconds; 0 if there are no transactions.
    pub fn mean_seconds(&self) -> f64 {
        self.0.mean() * 1e-9
    }

    /// A summary of the durations; all values are 0 if there are no transactions.
    pub fn summary(&self) -> LatencySummary {
        let at = |quantile| micros(self.0.value_at_quantile(quantile));
        LatencySummary {
            count: self.count(),
            mean_us: self.0.mean() * 1e-3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: micros(self.0.max()),
            histogram: self.buckets(),
        }
    }

    /// The histogram of durations in microseconds, with ten buckets per decade, or with five if the durations span more
    /// than six decades.
    fn buckets(&self) -> Vec<(f64, u64)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let fine = self.grid(10.0);
        if fine.len() <= BUCKETS { fine } else { self.grid(5.0) }
    }

    /// The upper bounds and counts of buckets from the shortest duration to the longest. The bounds are
    /// powers of ten with exponents that are multiples of 1/`steps`.
    fn grid(&self, steps: f64) -> Vec<(f64, u64)> {
        let index = |value: u64| (micros(value).log10() * steps).ceil() as i32;
        let first = index(self.0.min());
        let mut buckets: Vec<(f64, u64)> =
            (first..=index(self.0.max())).map(|i| (10f64.powf(f64::from(i) / steps), 0)).collect();
        for value in self.0.iter_recorded() {
            let place = usize::try_from(index(value.value_iterated_to()) - first).unwrap_or(0);
            let place = place.min(buckets.len() - 1);
            buckets[place].1 += value.count_at_value();
        }
        buckets
    }
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 * 1e-3
}

/// A summary of the durations of transactions, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencySummary {
    /// The number of transactions.
    pub count: u64,
    /// The mean duration.
    pub mean_us: f64,
    /// The median duration.
    pub p50_us: f64,
    /// The 90th percentile of the durations.
    pub p90_us: f64,
    /// The 99th percentile of the durations.
    pub p99_us: f64,
    /// The 99.9th percentile of the durations.
    pub p999_us: f64,
    /// The longest duration.
    pub max_us: f64,
    /// Buckets, at most 60: upper bounds in microseconds at logarithmic distances, each with the number of
    /// transactions between the previous bound and this one.
    pub histogram: Vec<(f64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(nanos: &[u64]) -> LatencyHistogram {
        let mut latency = LatencyHistogram::default();
        nanos.iter().for_each(|n| latency.record(Duration::from_nanos(*n)));
        latency
    }

    #[test]
    fn percentiles_are_those_of_the_times() {
        let all: Vec<u64> = (1..=1000).map(|n| n * 1000).collect();
        let summary = of(&all).summary();
        let near = |value: f64, want: f64| (value / want - 1.0).abs() < 0.002;
        assert!(near(summary.p50_us, 500.0) && near(summary.p90_us, 900.0) && near(summary.p99_us, 990.0));
        assert!(near(summary.p999_us, 999.0) && near(summary.max_us, 1000.0) && near(summary.mean_us, 500.5));
    }

    #[test]
    fn nothing_has_a_summary_too() {
        let summary = LatencyHistogram::default().summary();
        assert_eq!((summary.count, summary.max_us, summary.histogram.len()), (0, 0.0, 0));
    }

    proptest! {
        #[test]
        fn buckets_hold_every_transaction(nanos in proptest::collection::vec(0u64..=u64::MAX, 1..200), shift in 0u32..64) {
            let nanos: Vec<u64> = nanos.iter().map(|n| n >> shift).collect();
            let summary = of(&nanos).summary();
            prop_assert!(summary.histogram.len() <= BUCKETS);
            prop_assert_eq!(summary.histogram.iter().map(|b| b.1).sum::<u64>(), nanos.len() as u64);
            prop_assert!(summary.histogram.windows(2).all(|w| w[0].0 < w[1].0));
        }

        #[test]
        fn parts_add_up_to_the_whole(a in proptest::collection::vec(1u64..1_000_000_000, 0..50),
                                     b in proptest::collection::vec(1u64..1_000_000_000, 0..50)) {
            let mut sum = of(&a);
            sum.add(&of(&b));
            prop_assert_eq!(sum.summary(), of(&[a, b].concat()).summary());
        }
    }
}
