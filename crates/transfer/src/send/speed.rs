//! Detects streams that are so slow that the other streams would finish their work sooner, and work that idle streams
//! should share.

use std::time::{Duration, Instant};

/// The shortest time over which a stream's rate is judged.
const WINDOW: Duration = Duration::from_millis(200);
/// If the rest of a stream's work would take more than this many times as long on this stream as on the other streams,
/// the rest is given to the others. A smaller factor isn't worthwhile: the bytes in the stream's socket must be sent by
/// this stream anyway, and over a short time a rate may by chance be half of the others' rate.
const SLOWER: f64 = 2.0;

/// If the rest of a stream's work takes longer than this, idle streams share it. The time is two windows, because a
/// rate is measured over one window, and the idle streams need some round trips to reach their rate.
const SHARED: Duration = WINDOW.saturating_mul(2);

/// The rate of one stream, measured by its worker.
pub struct Speed {
    /// Payload bytes so far.
    bytes: u64,
    /// Busy time with all units before the current one.
    busy: Duration,
    /// The time at which the current unit was begun.
    begun: Option<Instant>,
    /// The busy time and bytes at the start of the rate's window.
    window: (Duration, u64),
    /// The stream's rate in bytes per second; `None` until it has been measured.
    rate: Option<f64>,
}

/// The work of the other streams, and the work that remains.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    /// Payload bytes of all streams, including this one.
    pub bytes: u64,
    /// Busy time of all workers, including this stream's.
    pub busy: Duration,
    /// The number of other workers.
    pub workers: u32,
    /// The number of bytes of units that no worker has begun.
    pub left: u64,
}

impl Speed {
    /// The speed of a stream that hasn't sent anything.
    pub fn new() -> Self {
        Self { bytes: 0, busy: Duration::ZERO, begun: None, window: (Duration::ZERO, 0), rate: None }
    }

    /// Records that a unit begins.
    pub fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }

    /// Records that the current unit ends.
    pub fn end(&mut self) {
        self.busy = self.spent(Instant::now());
        self.begun = None;
    }

    /// Counts payload bytes.
    pub fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    fn spent(&self, now: Instant) -> Duration {
        self.busy + self.begun.map_or(Duration::ZERO, |begun| now - begun)
    }

    /// True if the other streams, after finishing their own work, would send the `rest` bytes much sooner
    /// than this stream.
    pub fn is_outrun(&mut self, rest: u64, others: Others) -> bool {
        let spent = self.spent(Instant::now());
        self.look(spent);
        let Some(own) = self.rate else { return false };
        let busy = others.busy.saturating_sub(spent).as_secs_f64();
        if others.workers == 0 || busy < WINDOW.as_secs_f64() {
            return false;
        }
        let each = others.bytes.saturating_sub(self.bytes) as f64 / busy;
        if each <= 0.0 {
            return false;
        }
        let by_others = others.left as f64 / (each * f64::from(others.workers)) + rest as f64 / each;
        rest as f64 / own > SLOWER * by_others
    }

    /// True if this stream would need so long for `rest` more bytes that idle streams should share them.
    pub fn takes_long(&mut self, rest: u64) -> bool {
        self.look(self.spent(Instant::now()));
        self.rate.is_some_and(|rate| rest as f64 / rate > SHARED.as_secs_f64())
    }

    fn look(&mut self, spent: Duration) {
        let (from, before) = self.window;
        let passed = spent - from;
        if passed >= WINDOW {
            self.rate = Some(((self.bytes - before) as f64).max(1.0) / passed.as_secs_f64());
            self.window = (spent, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that has sent `bytes` bytes within a second.
    fn after_a_second(bytes: u64) -> Speed {
        let mut speed = Speed::new();
        speed.busy = Duration::from_secs(1);
        speed.count(bytes);
        speed
    }

    fn others(left: u64) -> Others {
        // In the same second, three other streams have sent 100 MB each.
        Others { bytes: 301_000_000, busy: Duration::from_secs(4), workers: 3, left }
    }

    #[test]
    fn a_hundredth_of_the_rate_is_outrun_long_before_the_end_and_half_of_it_never() {
        assert!(after_a_second(1_000_000).is_outrun(4 << 20, others(0)));
        assert!(after_a_second(1_000_000).is_outrun(4 << 20, others(500_000_000)));
        assert!(!after_a_second(1_000_000).is_outrun(4 << 20, others(700_000_000)));
        assert!(!after_a_second(55_000_000).is_outrun(4 << 20, others(0)));
        assert!(after_a_second(30_000_000).is_outrun(4 << 20, others(0)));
    }

    #[test]
    fn what_takes_long_is_shared_once_the_rate_is_known() {
        let mut speed = after_a_second(1_000_000);
        assert!(speed.takes_long(500_000) && !speed.takes_long(300_000));
        let mut early = Speed::new();
        early.count(1);
        assert!(!early.takes_long(4 << 20));
    }

    #[test]
    fn nothing_is_said_of_a_moment_or_of_a_stream_that_is_alone() {
        let mut early = Speed::new();
        early.busy = WINDOW / 2;
        assert!(!early.is_outrun(4 << 20, others(0)));
        let alone = Others { bytes: 1_000_000, busy: Duration::from_secs(1), workers: 0, left: 0 };
        assert!(!after_a_second(1_000_000).is_outrun(4 << 20, alone));
        let fresh = Others { bytes: 2_000_000, busy: Duration::from_millis(1100), workers: 1, left: 0 };
        assert!(!after_a_second(1_000_000).is_outrun(4 << 20, fresh));
    }
}
