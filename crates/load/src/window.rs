//! The timing of a load: first a ramp, then the window in which results are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// A flag that stops a running load or server.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Sets the flag, which stops the load or server.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once the flag is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl From<Arc<AtomicBool>> for StopFlag {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

/// The lengths of a load's ramp and of its measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The length of the ramp, in which nothing is counted. Users start in this time. The option of the ramp is
    /// called `--ramp` for HTTP and `--warm-up` for all other loads.
    pub ramp: Duration,
    /// The length of the window in which results are counted.
    pub measured: Duration,
}

impl Window {
    /// The times at which both phases begin and end, if the load starts at `begin`.
    pub fn after(self, begin: Instant) -> Phases {
        let from = begin + self.ramp;
        Phases { begin, from, until: from + self.measured }
    }
}

/// The measured window, in seconds since the host was booted, including time in which the host was suspended
/// (CLOCK_BOOTTIME).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CountedTime {
    /// The start of the window.
    pub begin: f64,
    /// The end of the window.
    pub end: f64,
}

impl CountedTime {
    /// A window of this length that ends now.
    pub fn ending_now(seconds: f64) -> Self {
        let end = since_boot();
        Self { begin: end - seconds, end }
    }
}

fn since_boot() -> f64 {
    let boot = clock_gettime(ClockId::Boottime);
    boot.tv_sec as f64 + boot.tv_nsec as f64 * 1e-9
}

/// The times of a running load's phases.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// The start of the load.
    pub begin: Instant,
    /// The start of the window.
    pub from: Instant,
    /// The end of the window.
    pub until: Instant,
}

impl Phases {
    /// True if `now` is in the window.
    pub fn counts(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }

    /// The measured window by the clock of /proc/uptime.
    pub fn counted(&self) -> CountedTime {
        let (now, boot) = (Instant::now(), since_boot());
        let of = |moment: Instant| {
            let (since, until) =
                (now.saturating_duration_since(moment), moment.saturating_duration_since(now));
            boot - since.as_secs_f64() + until.as_secs_f64()
        };
        CountedTime { begin: of(self.from), end: of(self.until) }
    }

    /// True if the window has ended.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_window_counts() {
        let begin = Instant::now();
        let (second, window) = (
            Duration::from_secs(1),
            Window { ramp: Duration::from_secs(2), measured: Duration::from_secs(3) },
        );
        let phases = window.after(begin);
        assert!(!phases.counts(begin + second));
        assert!(phases.counts(begin + 2 * second) && phases.counts(begin + 4 * second));
        assert!(!phases.counts(begin + 5 * second) && phases.is_over(begin + 5 * second));
    }

    #[test]
    fn a_window_is_reported_by_the_time_since_the_boot() {
        let uptime = || -> f64 {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        let before = uptime();
        let window = Window { ramp: Duration::from_secs(2), measured: Duration::from_secs(3) };
        let CountedTime { begin, end } = window.after(Instant::now()).counted();
        // /proc/uptime shows hundredths of a second.
        assert!((before + 1.98..uptime() + 2.02).contains(&begin), "{begin} {before}");
        assert!((end - begin - 3.0).abs() < 1e-6, "{begin} {end}");
        let before = uptime();
        let CountedTime { begin, end } = CountedTime::ending_now(3.0);
        assert!((before - 0.02..uptime() + 0.02).contains(&end), "{end} {before}");
        assert!((end - begin - 3.0).abs() < 1e-6, "{begin} {end}");
    }
}
