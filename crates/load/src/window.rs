//! The timing of a load: a warm-up, then the window that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A flag that stops a running load or server.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Sets the flag.
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

/// The duration of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The warm-up, which doesn't count; users start during it.
    pub warm_up: Duration,
    /// The time that counts.
    pub measured: Duration,
}

impl Window {
    /// The window as moments.
    pub fn after(self, begin: Instant) -> Phases {
        let from = begin + self.warm_up;
        Phases { begin, from, until: from + self.measured }
    }
}

/// A running window.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// The load's begin.
    pub begin: Instant,
    /// The window's begin.
    pub from: Instant,
    /// The window's end.
    pub until: Instant,
}

impl Phases {
    /// True if `now` counts.
    pub fn counts(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }

    /// True after the window.
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
            Window { warm_up: Duration::from_secs(2), measured: Duration::from_secs(3) },
        );
        let phases = window.after(begin);
        assert!(!phases.counts(begin + second));
        assert!(phases.counts(begin + 2 * second) && phases.counts(begin + 4 * second));
        assert!(!phases.counts(begin + 5 * second) && phases.is_over(begin + 5 * second));
    }
}
