//! The user's limit on the payload rate, shared by all streams.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::lock::lock;

/// How much may be sent at once after a pause, as a time at the full rate.
const BURST: Duration = Duration::from_millis(20);
/// The longest sleep, so that an interruption is noticed.
const NAP: Duration = Duration::from_millis(100);

/// Hands out bytes at a fixed rate.
pub struct RateLimit {
    bytes_per_second: f64,
    free_at: Mutex<Instant>,
}

impl RateLimit {
    /// A limit of so many bytes a second, at least one.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1) as f64, free_at: Mutex::new(Instant::now()) }
    }

    /// Waits until `bytes` may be sent, or `stop` says to give up.
    pub fn take(&self, bytes: usize, stop: impl Fn() -> bool) {
        let until = self.reserve(bytes, Instant::now());
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if stop() {
                return;
            }
            thread::sleep(left.min(NAP));
        }
    }

    /// Books `bytes` behind all that were booked before; returns when they may go.
    fn reserve(&self, bytes: usize, now: Instant) -> Instant {
        let mut free_at = lock(&self.free_at);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let start = (*free_at).max(earliest);
        *free_at = start + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_a_pause_isnt_saved_up() {
        let limit = RateLimit::new(1_000_000);
        let now = Instant::now() + Duration::from_secs(10);
        let first = limit.reserve(1_000_000, now);
        let second = limit.reserve(1_000_000, now);
        assert_eq!(second - first, Duration::from_secs(1));
        let later = now + Duration::from_secs(100);
        assert!(limit.reserve(1, later) >= later - BURST);
    }
}
