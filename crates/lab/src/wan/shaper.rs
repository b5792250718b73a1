//! A link's rate and the queue before it, in simulated time.

use crate::rate::Rate;

/// Femtoseconds in a nanosecond. Times are in femtoseconds, because the time of a byte at 3 Gbit/s isn't a
/// whole number of larger units.
const FINE: u128 = 1_000_000;

/// Sends packets from a bounded queue at a rate, first in first out. Packets that don't fit are refused
/// (drop-tail).
#[derive(Debug)]
pub(crate) struct Shaper {
    /// The time that one byte takes, in femtoseconds.
    byte: u128,
    /// The size of the queue in bytes.
    queue: u64,
    /// The longest time, in femtoseconds, that is credited to a packet that the thread reads late.
    patience: u128,
    /// The time at which the link becomes idle, in femtoseconds.
    free: u128,
}

impl Shaper {
    /// A link at this rate, with a queue of this number of bytes.
    pub(crate) fn new(rate: Rate, queue: u64) -> Self {
        let byte = 8 * 1_000_000_000 * FINE / u128::from(rate.bits_per_second());
        Self { byte, queue, patience: u128::from(rate.burst()) * byte, free: 0 }
    }

    /// Free bytes in the queue at this time (nanoseconds).
    pub(crate) fn room(&self, now: u64) -> u64 {
        let waiting = self.free.saturating_sub(u128::from(now) * FINE) / self.byte;
        self.queue.saturating_sub(u64::try_from(waiting).unwrap_or(u64::MAX))
    }

    /// True if the queue is empty.
    pub(crate) fn is_idle(&self, now: u64) -> bool {
        self.free <= u128::from(now) * FINE
    }

    /// Queues bytes that arrived between `since` and `now`, and returns the time at which the last byte has
    /// left.
    ///
    /// A thread that runs late reads packets late, although the link could already have sent them. The credit
    /// for that time is limited to the burst of a token bucket with this rate.
    pub(crate) fn send(&mut self, since: u64, now: u64, bytes: u64) -> u64 {
        let earliest = (u128::from(now) * FINE).saturating_sub(self.patience).max(u128::from(since) * FINE);
        self.free = self.free.max(earliest) + u128::from(bytes) * self.byte;
        u64::try_from(self.free.div_ceil(FINE)).unwrap_or(u64::MAX).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn shaper(rate: &str, queue: u64) -> Shaper {
        Shaper::new(rate.parse().expect("a rate"), queue)
    }

    #[test]
    fn a_full_link_sends_at_its_rate() {
        for (rate, bytes) in [("10gbit", 1_250_000_000u64), ("3gbit", 375_000_000), ("8kbit", 1000)] {
            let mut shaper = shaper(rate, u64::MAX);
            let left = (0..1000).map(|_| shaper.send(SECOND, SECOND, bytes / 1000)).last();
            let taken = left.expect("some") - SECOND;
            assert!(taken.abs_diff(SECOND) <= 1000, "{rate}: {taken}");
        }
    }

    #[test]
    fn a_packet_on_a_free_link_takes_its_own_time() {
        let mut shaper = shaper("1gbit", 1_000_000);
        assert_eq!(shaper.send(SECOND, SECOND, 1250), SECOND + 10_000);
        assert_eq!(shaper.send(SECOND, SECOND + 5_000, 1250), SECOND + 20_000, "waits for the first");
        assert_eq!(shaper.send(2 * SECOND, 2 * SECOND, 1250), 2 * SECOND + 10_000, "the link was free");
    }

    #[test]
    fn the_queue_is_bounded_and_drains() {
        let mut shaper = shaper("1gbit", 12_500);
        assert!(shaper.is_idle(0) && shaper.room(0) == 12_500);
        shaper.send(0, 0, 12_500);
        assert_eq!((shaper.room(0), shaper.room(50_000), shaper.room(100_000)), (0, 6_250, 12_500));
        assert!(!shaper.is_idle(99_999) && shaper.is_idle(100_000));
    }

    #[test]
    fn what_is_seen_late_is_forgiven_up_to_a_burst() {
        let burst_ns = 3_355_444; // 4 MiB at 10 Gbit/s.
        let mut late = shaper("10gbit", u64::MAX);
        assert_eq!(late.send(SECOND - 1_000_000, SECOND, 125_000), SECOND, "arrived a millisecond ago");
        let mut idle = shaper("10gbit", u64::MAX);
        let left = idle.send(0, SECOND, 12_500_000);
        assert!(left.abs_diff(SECOND + 10_000_000 - burst_ns) < 1000, "{left}");
    }
}
