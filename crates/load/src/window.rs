//! When a load counts: a warm-up, then the window.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A flag with which a user, or the end of a server, stops what is under way.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Stops.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once it is stopped.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl From<Arc<AtomicBool>> for Stop {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

/// How long a load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Before anything counts; with users, the ramp in which they start.
    pub warm_up: Duration,
    /// In which everything counts.
    pub measured: Duration,
}

impl Window {
    /// The window as moments.
    pub fn after(self, begin: Instant) -> Phases {
        let from = begin + self.warm_up;
        Phases { begin, from, until: from + self.measured }
    }
}

/// A window that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// When the load begins.
    pub begin: Instant,
    /// When it begins to count.
    pub from: Instant,
    /// When it ends.
    pub until: Instant,
}

impl Phases {
    /// True where `now` counts.
    pub fn counts(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }

    /// True behind the window.
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
