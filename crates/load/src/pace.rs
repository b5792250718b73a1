//! A schedule for units of work at a target rate.

use std::time::{Duration, Instant};

/// A schedule with equal intervals between units of work. If a unit is late by more than an interval, later units don't
/// make up for the lost time, so that the delay is visible in the rate.
#[derive(Clone, Copy, Debug)]
pub struct WorkPace {
    interval: Duration,
    due: Instant,
}

impl WorkPace {
    /// A schedule whose first unit is due at `begin`.
    pub fn new(interval: Duration, begin: Instant) -> Self {
        Self { interval, due: begin }
    }

    /// The time at which the next unit is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Records that a unit began at `now`. The next unit is due an interval after this unit was due or, if the next
    /// unit is then already late by more than an interval, at once.
    pub fn step(&mut self, now: Instant) {
        self.due += self.interval;
        if self.due + self.interval < now {
            self.due = now;
        }
    }
}

/// The time between two units at a rate of `units_per_second`; an hour if the rate is too low to compute the time.
pub fn interval(units_per_second: f64) -> Duration {
    Duration::try_from_secs_f64(1.0 / units_per_second).unwrap_or(Duration::from_secs(3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_unit_does_not_shift_the_next_ones() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut pace = WorkPace::new(ms(10), begin);
        pace.step(begin + ms(4));
        assert_eq!(pace.due(), begin + ms(10));
        pace.step(begin + ms(18));
        assert_eq!(pace.due(), begin + ms(20));
    }

    #[test]
    fn what_was_missed_is_not_made_up_for() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut pace = WorkPace::new(ms(10), begin);
        pace.step(begin + ms(500));
        assert_eq!(pace.due(), begin + ms(500));
    }

    #[test]
    fn a_rate_of_nothing_is_a_long_interval() {
        assert_eq!(interval(1000.0), Duration::from_millis(1));
        assert_eq!(interval(0.0), Duration::from_secs(3600));
    }
}
