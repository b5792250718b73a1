//! Records when the other end's last whole message arrived, so that all threads can ask whether the other end is still
//! alive.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::base::lock::lock;

/// The time at which the other end was last heard, and how long the other end may be silent.
#[derive(Debug)]
pub struct Pulse {
    heard: Mutex<Instant>,
    longest: Mutex<Option<Duration>>,
    /// A message of the other end waits for memory at this end, so no further message can be read.
    waits: AtomicBool,
}

impl Pulse {
    /// A pulse that lets the other end be silent for `longest` from now on; `None` means without limit.
    pub fn new(longest: Option<Duration>) -> Self {
        Self {
            heard: Mutex::new(Instant::now()),
            longest: Mutex::new(longest),
            waits: AtomicBool::new(false),
        }
    }

    /// From now on the other end may be silent for `longest`.
    pub fn limit(&self, longest: Option<Duration>) {
        *lock(&self.longest) = longest;
        self.beat();
    }

    /// How long the other end may be silent.
    pub fn longest(&self) -> Option<Duration> {
        *lock(&self.longest)
    }

    /// Records that the other end was heard.
    pub fn beat(&self) {
        *lock(&self.heard) = Instant::now();
    }

    /// Runs `work`, which may take long. During this time the other end counts as heard, because its messages can't be
    /// read.
    pub fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        self.waits.store(true, Ordering::Release);
        let done = work();
        self.beat();
        self.waits.store(false, Ordering::Release);
        done
    }

    /// True if the other end hasn't been silent for longer than the limit.
    pub fn is_there(&self) -> bool {
        let heard = *lock(&self.heard);
        self.waits.load(Ordering::Acquire) || self.longest().is_none_or(|longest| heard.elapsed() <= longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_silent_for_too_long_is_not_there_but_while_this_end_has_no_room() {
        let pulse = Pulse::new(None);
        std::thread::sleep(Duration::from_millis(20));
        assert!(pulse.is_there());
        pulse.limit(Some(Duration::from_millis(10)));
        assert!(pulse.is_there(), "from now on");
        std::thread::sleep(Duration::from_millis(20));
        assert!(!pulse.is_there());
        pulse.hold(|| {
            std::thread::sleep(Duration::from_millis(20));
            assert!(pulse.is_there());
        });
        assert!(pulse.is_there());
    }
}
