//! The user's limit on the payload rate, shared by all streams.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::base::lock::lock;

/// The most that may be sent at once after a pause, given as a time at the full rate.
const BURST: Duration = Duration::from_millis(20);
/// The longest sleep, so that an interruption is noticed soon.
const NAP: Duration = Duration::from_millis(100);

/// Limits the rate to a fixed number of bytes per second.
pub struct RateLimit {
    bytes_per_second: f64,
    schedule: Mutex<Schedule>,
}

impl RateLimit {
    /// A limit of this number of bytes per second, at least 1.
    pub fn new(bytes_per_second: u64) -> Self {
        let schedule = Mutex::new(Schedule::new(Instant::now()));
        Self { bytes_per_second: bytes_per_second.max(1) as f64, schedule }
    }

    /// Waits until `bytes` may be sent, or `stop` returns true.
    pub fn take(&self, bytes: usize, stop: impl Fn() -> bool) {
        let until = lock(&self.schedule).book(bytes, self.bytes_per_second, Instant::now());
        sleep_until(until, stop);
    }

    /// True if bytes may be sent now.
    pub fn is_free(&self) -> bool {
        lock(&self.schedule).is_free(Instant::now())
    }
}

/// Assigns to each byte the time at which it may be sent at a given rate.
pub struct Schedule {
    free_at: Instant,
}

impl Schedule {
    /// A schedule in which nothing is booked.
    pub fn new(now: Instant) -> Self {
        Self { free_at: now }
    }

    /// Books `bytes` bytes at a rate in bytes per second, after all earlier bookings; returns the time at
    /// which these bytes may be sent.
    pub fn book(&mut self, bytes: usize, bytes_per_second: f64, now: Instant) -> Instant {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let start = self.free_at.max(earliest);
        self.free_at = start + Duration::from_secs_f64(bytes as f64 / bytes_per_second);
        start
    }

    /// True if a booking at `now` wouldn't have to wait.
    pub fn is_free(&self, now: Instant) -> bool {
        self.free_at <= now
    }

    /// Makes `then` the time at which the next booked bytes may be sent.
    pub fn begin_at(&mut self, then: Instant) {
        self.free_at = then;
    }
}

/// Sleeps until `then`, or until `stop` returns true.
pub fn sleep_until(then: Instant, stop: impl Fn() -> bool) {
    while let Some(left) = then.checked_duration_since(Instant::now()) {
        if stop() {
            return;
        }
        thread::sleep(left.min(NAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_a_pause_isnt_saved_up() {
        let mut schedule = Schedule::new(Instant::now());
        let now = Instant::now() + Duration::from_secs(10);
        let first = schedule.book(1_000_000, 1e6, now);
        let second = schedule.book(1_000_000, 1e6, now);
        assert_eq!(second - first, Duration::from_secs(1));
        let later = now + Duration::from_secs(100);
        assert!(schedule.book(1, 1e6, later) >= later - BURST);
    }
}
