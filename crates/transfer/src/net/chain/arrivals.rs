//! Measures the rate at which data arrives, during the time before any next host can delay it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::base::lock::lock;

/// The number of intervals in which the rate is measured. Later rates aren't measured, because the slowest next host
/// determines them.
const INTERVALS: u32 = 4;
/// The length of one of the `INTERVALS` intervals.
const INTERVAL: Duration = Duration::from_millis(250);

/// Measures the rate at which data arrives at a host, on all streams together.
#[derive(Default)]
pub(super) struct Arrivals {
    first: Mutex<FirstSecond>,
}

#[derive(Default)]
struct FirstSecond {
    begun: Option<Instant>,
    /// The bytes that have arrived in the current interval, whose number is `interval`.
    bytes: u64,
    interval: u32,
    /// The most bytes that have arrived in one interval.
    most: u64,
}

impl Arrivals {
    /// Counts bytes that arrived.
    pub(super) fn count(&self, bytes: usize, now: Instant) {
        lock(&self.first).count(bytes as u64, now);
    }

    /// The rate in the best interval of the first second, in bytes per second; `None` before the end of that
    /// second.
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        let mut first = lock(&self.first);
        first.count(0, now);
        (first.interval >= INTERVALS).then(|| first.most as f64 / INTERVAL.as_secs_f64())
    }
}

impl FirstSecond {
    fn count(&mut self, bytes: u64, now: Instant) {
        let begun = *self.begun.get_or_insert(now);
        if self.interval >= INTERVALS {
            return;
        }
        let passed = now.saturating_duration_since(begun).as_millis() / INTERVAL.as_millis();
        let interval = u32::try_from(passed).unwrap_or(u32::MAX);
        if interval != self.interval {
            (self.interval, self.bytes) = (interval, 0);
        }
        if interval < INTERVALS {
            self.bytes += bytes;
            self.most = self.most.max(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_quarter_of_the_first_second_counts_and_nothing_later() {
        let (arrivals, begun) = (Arrivals::default(), Instant::now());
        let at = |milliseconds| begun + Duration::from_millis(milliseconds);
        for (bytes, when) in [(10, 0), (20, 100), (40, 300), (50, 490), (5, 999), (1000, 1001), (2000, 5000)]
        {
            arrivals.count(bytes, at(when));
            assert_eq!(arrivals.rate(at(when)).is_some(), when > 1000, "{when}");
        }
        assert_eq!(arrivals.rate(at(6000)), Some(360.0));
    }

    #[test]
    fn a_second_in_which_little_came_is_over_too() {
        let (arrivals, begun) = (Arrivals::default(), Instant::now());
        arrivals.count(7, begun);
        assert_eq!(arrivals.rate(begun + Duration::from_secs(2)), Some(28.0));
    }
}
