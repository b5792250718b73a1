//! Whether a stream's next payload is compressed, and by which level.
//!
//! Compression pays where the connection is slower than the compressor. So nothing is compressed before a stream was
//! seen to wait for its connection, or for the user's rate limit. Then a little of a payload is compressed, and how much smaller
//! it became and how long that took say what the rest would bring. While the connection still makes the stream wait, the level
//! rises; when the compressor does, it falls, and in the end compression ends.

use linerate_wire::control::CompressionLevel;
use std::time::Duration;

use crate::net::clock::StreamTimes;

/// The part of its size above which a compressed payload isn't worth it.
pub const DULL: f64 = 0.95;
/// Levels of zstd, with the time that each takes and the bytes that each leaves, beside the first. The figures are of
/// source code; they only say where to try, and what is seen decides.
const RUNGS: [Rung; 4] = [
    Rung { level: 1, time: 1.0, size: 1.0 },
    Rung { level: 3, time: 1.9, size: 0.80 },
    Rung { level: 6, time: 3.5, size: 0.67 },
    Rung { level: 9, time: 5.2, size: 0.63 },
];
/// Where those begin that compress whatever the path: rsync's level.
const ALWAYS_FROM: usize = 1;
/// Time with something to send over which a stream is judged, without and with compression.
const WINDOW: Duration = Duration::from_millis(20);
const PACKING_WINDOW: Duration = Duration::from_millis(100);
/// The part of its time that a stream waits for the connection, from which compression may help, and from which a higher level may.
const WAITS: f64 = 0.3;
const WAITS_STILL: f64 = 0.15;
/// The same below which the connection doesn't limit it.
const FLOWS: f64 = 0.05;
/// The part of its time that a stream compresses, from which the compressor limits it where nothing else does.
const COMPRESSES: f64 = 0.4;
/// By how much the time of a byte must become less.
const GAIN: f64 = 0.85;
/// How long nothing is tried again behind a trial that failed, at first, and at most.
const REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(16);
/// The same behind bytes that don't become smaller.
const DULL_REST: Duration = Duration::from_millis(10);
const LONGEST_DULL_REST: Duration = Duration::from_millis(160);

struct Rung {
    level: u8,
    time: f64,
    size: f64,
}

/// What becomes of the next payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackingChoice {
    /// It goes as it is.
    Plain,
    /// A little of it is compressed, to see what that brings.
    Probe,
    /// It is compressed by this level.
    Pack(u8),
}

/// Decides by the stream's times. It has no clock of its own, so it can be tested in simulated time.
pub struct CompressionController {
    wanted: CompressionLevel,
    is_packing: bool,
    /// Which level it is, or was last, of [`RUNGS`].
    rung: usize,
    /// Where the window began.
    since: StreamTimes,
    /// Seconds that a payload byte takes without compression, where the connection is the limit.
    plain: Option<f64>,
    /// When a probe may be made, by the stream's busy time.
    probes: Duration,
    rest: Duration,
    dull_rest: Duration,
    /// When a higher level may be tried.
    climbs: Duration,
    climb_rest: Duration,
    /// When it may be tried whether the connection takes as much without compression.
    trials: Duration,
    trial_rest: Duration,
}

impl CompressionController {
    /// As the user wants it.
    pub fn new(wanted: CompressionLevel) -> Self {
        let rung = if wanted == CompressionLevel::Always { ALWAYS_FROM } else { 0 };
        Self {
            wanted,
            is_packing: false,
            rung,
            since: StreamTimes::default(),
            plain: None,
            probes: Duration::ZERO,
            rest: REST,
            dull_rest: DULL_REST,
            climbs: Duration::ZERO,
            climb_rest: REST,
            trials: Duration::ZERO,
            trial_rest: REST,
        }
    }

    /// Another file begins, or other files, which may be of another kind.
    pub fn begin(&mut self) {
        if self.plain.is_some() || !self.is_auto() {
            self.probes = self.probes.saturating_sub(self.dull_rest);
            self.dull_rest = DULL_REST;
        }
    }

    /// What becomes of the next payload.
    pub fn choose(&mut self, now: &StreamTimes) -> PackingChoice {
        if self.is_packing {
            self.look(now);
        }
        if self.is_packing {
            return PackingChoice::Pack(self.level());
        }
        let may = self.wanted != CompressionLevel::Off && (!self.is_auto() || self.waits(now));
        if may && now.busy >= self.probes { PackingChoice::Probe } else { PackingChoice::Plain }
    }

    /// A probe left this `part` of its bytes, each of which took `each` seconds.
    pub fn probed(&mut self, part: f64, each: f64, now: &StreamTimes) {
        let window = now.since(&self.since);
        if part > DULL {
            return self.is_dull(now);
        }
        if self.is_auto() && self.plain.is_none() {
            let Some(plain) = per_byte(window.busy, window.plain) else { return };
            let own = per_byte(window.busy.saturating_sub(window.wait), window.plain).unwrap_or(plain);
            if (own + each).max(part * plain) > GAIN * plain {
                return self.rest(now);
            }
            self.plain = Some(plain);
        }
        (self.is_packing, self.since) = (true, *now);
    }

    /// A payload was compressed to this `part` of its bytes.
    pub fn packed(&mut self, part: f64, now: &StreamTimes) {
        if part > DULL {
            self.is_packing = false;
            self.is_dull(now);
        }
    }

    fn level(&self) -> u8 {
        if let CompressionLevel::Fixed(level) = self.wanted { level.max(1) } else { RUNGS[self.rung].level }
    }

    fn is_auto(&self) -> bool {
        self.wanted == CompressionLevel::Auto
    }

    /// Whether the connection makes the stream wait; it does where it did when compression was tried last.
    fn waits(&mut self, now: &StreamTimes) -> bool {
        let window = now.since(&self.since);
        if self.plain.is_some() {
            return true;
        }
        if window.busy < WINDOW {
            return false;
        }
        let waits = share(window.wait, window.busy) >= WAITS && window.plain > 0;
        if !waits {
            self.since = *now;
        }
        waits
    }

    /// What is sent doesn't become smaller: what comes behind it may.
    fn is_dull(&mut self, now: &StreamTimes) {
        (self.probes, self.since) = (now.busy + self.dull_rest, *now);
        self.dull_rest = (self.dull_rest * 2).min(LONGEST_DULL_REST);
        // Whether the path still is the limit is seen anew.
        if self.dull_rest == LONGEST_DULL_REST {
            self.plain = None;
        }
    }

    /// The compressor is slower than the connection.
    fn rest(&mut self, now: &StreamTimes) {
        (self.is_packing, self.plain, self.rung) = (false, None, 0);
        (self.probes, self.since) = (now.busy + self.rest, *now);
        self.rest = (self.rest * 2).min(LONGEST_REST);
    }

    fn look(&mut self, now: &StreamTimes) {
        let window = now.since(&self.since);
        if window.busy < PACKING_WINDOW || matches!(self.wanted, CompressionLevel::Fixed(_)) {
            return;
        }
        let Some(each) = per_byte(window.busy, window.plain) else { return };
        self.since = *now;
        let (waits, compresses) = (share(window.wait, window.busy), share(window.compress, window.busy));
        if waits >= WAITS_STILL && now.busy >= self.climbs {
            self.climb(&window);
        } else if waits < FLOWS && compresses > COMPRESSES {
            self.fall(each, now);
        }
    }

    /// Takes the level by which a byte would take least time.
    fn climb(&mut self, window: &StreamTimes) {
        let own = (window.busy.saturating_sub(window.wait + window.compress)).as_secs_f64();
        let (packing, sending) = (window.compress.as_secs_f64(), window.busy.as_secs_f64());
        let now = &RUNGS[self.rung];
        let time = |rung: &Rung| (own + packing * rung.time / now.time).max(sending * rung.size / now.size);
        let mut best = (self.rung, sending * 0.98);
        for (number, rung) in RUNGS.iter().enumerate().skip(self.rung + 1) {
            if time(rung) < best.1 {
                best = (number, time(rung));
            }
        }
        self.rung = best.0;
    }

    fn fall(&mut self, each: f64, now: &StreamTimes) {
        if self.is_auto() && self.plain.is_some_and(|plain| each > plain * GAIN) {
            self.rest(now);
        } else if self.rung > 0 {
            self.rung -= 1;
            self.climbs = now.busy + self.climb_rest;
            self.climb_rest = (self.climb_rest * 2).min(LONGEST_REST);
        } else if self.is_auto() && now.busy >= self.trials {
            (self.is_packing, self.plain) = (false, None);
            (self.trials, self.since) = (now.busy + self.trial_rest, *now);
            self.trial_rest = (self.trial_rest * 2).min(LONGEST_REST);
        }
    }
}

fn share(part: Duration, all: Duration) -> f64 {
    part.as_secs_f64() / all.as_secs_f64().max(1e-9)
}

fn per_byte(time: Duration, bytes: u64) -> Option<f64> {
    (bytes > 0).then(|| time.as_secs_f64() / bytes as f64)
}

#[cfg(test)]
mod tests;
