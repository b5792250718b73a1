//! Whether a stream's next payload is compressed, and by which level.
//!
//! Compression pays where the connection is slower than the compressor. So nothing is compressed before a stream was
//! seen to wait for its connection, or for the user's rate limit. Then a little of a payload is compressed, and how much smaller
//! it became and how long that took say what the rest would bring, and by which level. The compressor works beside the stream:
//! while the connection still makes the stream wait and the compressor doesn't, the level rises; when only the compressor does,
//! it falls, and in the end compression ends.

use linerate_wire::control::CompressionLevel;
use std::time::Duration;

use crate::net::clock::StreamTimes;
use crate::net::compress::Packed;

/// The part of its size above which a compressed payload isn't worth it.
pub const DULL: f64 = 0.95;
/// Levels of zstd, with the time that each takes and the bytes that each leaves, beside the first. The figures are of
/// source code; they only say where to try, and what is seen decides.
const RUNGS: [Rung; 7] = [
    Rung { level: 1, time: 1.0, size: 1.0 },
    Rung { level: 3, time: 1.2, size: 0.92 },
    Rung { level: 5, time: 1.6, size: 0.87 },
    Rung { level: 6, time: 2.2, size: 0.84 },
    Rung { level: 7, time: 2.6, size: 0.83 },
    Rung { level: 9, time: 3.2, size: 0.81 },
    Rung { level: 12, time: 6.6, size: 0.79 },
];
/// The rung at which streams begin that compress whatever the path is: rsync's level.
const ALWAYS_FROM: usize = 1;
/// Time with something to send over which a stream is judged: without compression, when it begins, and with it.
const WINDOW: Duration = Duration::from_millis(20);
const FIRST_PACKING_WINDOW: Duration = Duration::from_millis(40);
const PACKING_WINDOW: Duration = Duration::from_millis(100);
/// The part of its time that a stream waits for the connection, from which compression may help, and from which a higher level may.
const WAITS: f64 = 0.3;
const WAITS_STILL: f64 = 0.15;
/// The part of a stream's time spent waiting for the connection, or for the compressor, below which that doesn't limit it.
const FLOWS: f64 = 0.05;
/// The part of its time that a stream waits for the compressor, from which that limits it where nothing else does.
const COMPRESSES: f64 = 0.15;
/// The part of their time that the compressor's threads may be expected to need for a level, for it to be tried at once, and
/// the highest rung for which that is done: a level that is too high costs more than one that is too low.
const LOAD: f64 = 0.5;
const FIRST_RUNG: usize = 4;
/// The part of a stream's time that the compressor may be expected to keep it waiting with the next level.
const FULL: f64 = 0.95;
/// The part of a probe's result that is left where all that was sent may be repeated: a probe sees little at once.
const REPEATED: f64 = 0.5;
/// By how much the time of a byte must become less.
const GAIN: f64 = 0.85;
/// How long nothing is tried again behind a trial that failed, at first, and at most.
const REST: Duration = Duration::from_millis(500);
const CLIMB_REST: Duration = Duration::from_millis(200);
const LONGEST_REST: Duration = Duration::from_secs(16);
/// How long nothing is tried again behind bytes that don't become smaller, at first, and at most.
const DULL_REST: Duration = Duration::from_millis(10);
const LONGEST_DULL_REST: Duration = Duration::from_millis(160);

struct Rung {
    level: u8,
    time: f64,
    size: f64,
}

/// How the next payload is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackingChoice {
    /// The payload is sent as it is.
    Plain,
    /// A little of the payload is compressed, to see what that brings.
    Probe,
    /// The payload is compressed by this level.
    Pack(u8),
}

/// The processors that may compress.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    /// Threads, at least one.
    pub threads: u32,
    /// Processors that a quota allows at most, where there is one.
    pub quota: Option<f64>,
}

/// What the first level made of a little of a payload.
#[derive(Clone, Copy, Debug)]
pub struct Probed {
    /// The part of its bytes that is left.
    pub part: f64,
    /// Seconds that a byte took.
    pub each: f64,
}

/// Decides by the stream's times. It has no clock of its own, so it can be tested in simulated time.
pub struct CompressionController {
    wanted: CompressionLevel,
    processors: Processors,
    is_packing: bool,
    /// Which level it is, or was last, of [`RUNGS`].
    rung: usize,
    /// Where the window began.
    since: StreamTimes,
    /// Bytes that the compressor had taken when the level changed: what comes of them says nothing about the new level.
    settles: u64,
    /// The stream's rate was seen with compression.
    has_looked: bool,
    /// Seconds that a byte took in the last probe of what becomes smaller.
    each: f64,
    /// Bytes a second that the connection has carried, at most.
    path: f64,
    /// Seconds that a payload byte takes without compression, where the connection is the limit.
    plain: Option<f64>,
    /// When a probe may be made, by the stream's busy time.
    probes: Duration,
    rest: Duration,
    dull_rest: Duration,
    /// When a higher level may be tried.
    climbs: Duration,
    climb_rest: Duration,
    /// The level has risen since it fell last.
    has_climbed: bool,
    /// When it may be tried whether the connection takes as much without compression.
    trials: Duration,
    trial_rest: Duration,
}

impl CompressionController {
    /// As the user wants it, with these processors to compress.
    pub fn new(wanted: CompressionLevel, processors: Processors) -> Self {
        let rung = if wanted == CompressionLevel::Always { ALWAYS_FROM } else { 0 };
        Self {
            wanted,
            processors,
            is_packing: false,
            rung,
            since: StreamTimes::default(),
            settles: 0,
            has_looked: false,
            each: 0.0,
            path: 0.0,
            plain: None,
            probes: Duration::ZERO,
            rest: REST,
            dull_rest: DULL_REST,
            climbs: Duration::ZERO,
            climb_rest: CLIMB_REST,
            has_climbed: false,
            trials: Duration::ZERO,
            trial_rest: REST,
        }
    }

    /// Threads that compress.
    pub fn threads(&self) -> u32 {
        self.processors.threads
    }

    /// The path leaves time for more than the first level.
    pub fn is_slow(&self) -> bool {
        self.level() > RUNGS[0].level
    }

    /// The stream's rate was seen with compression.
    pub fn has_looked(&self) -> bool {
        self.has_looked
    }

    /// Another file begins, or other files, which may be of another kind.
    pub fn begin(&mut self) {
        if self.plain.is_some() || !self.is_auto() {
            self.probes = self.probes.saturating_sub(self.dull_rest);
            self.dull_rest = DULL_REST;
        }
    }

    /// Chooses how the next payload is sent, when the compressor has done `so_far`.
    pub fn choose(&mut self, now: &StreamTimes, so_far: Packed) -> PackingChoice {
        if self.is_packing {
            self.look(now, so_far);
        }
        if self.is_packing {
            return PackingChoice::Pack(self.level());
        }
        let may = self.wanted != CompressionLevel::Off && (!self.is_auto() || self.waits(now));
        if may && now.busy >= self.probes { PackingChoice::Probe } else { PackingChoice::Plain }
    }

    /// Takes what a probe has shown of what is sent next.
    pub fn probed(&mut self, probed: Probed, now: &StreamTimes) {
        let Probed { part, each } = probed;
        if part > DULL {
            self.is_packing = false;
            return self.is_dull(now);
        }
        self.each = each;
        if self.is_packing {
            return;
        }
        let window = now.since(&self.since);
        if self.is_auto() && self.plain.is_none() {
            let Some(plain) = per_byte(window.busy, window.plain) else { return };
            let own = per_byte(window.busy.saturating_sub(window.wait), window.plain).unwrap_or(plain);
            if (own + each).max(part * plain) > GAIN * plain {
                return self.rest(now);
            }
            self.plain = Some(plain);
            self.rung = self.fitting(1.0 / plain, part * REPEATED);
        }
        (self.is_packing, self.since) = (true, *now);
    }

    fn level(&self) -> u8 {
        if let CompressionLevel::Fixed(level) = self.wanted { level.max(1) } else { RUNGS[self.rung].level }
    }

    fn is_auto(&self) -> bool {
        self.wanted == CompressionLevel::Auto
    }

    /// The highest rung for which the threads have time on a path that takes `path` bytes a second, where the first rung
    /// leaves this `part`.
    fn fitting(&self, path: f64, part: f64) -> usize {
        let processors = self.processors.quota.unwrap_or(f64::INFINITY).min(self.processors.threads.into());
        let load = |rung: &Rung| path / (part * rung.size) * self.each * rung.time / processors;
        RUNGS[..=FIRST_RUNG].iter().rposition(|rung| load(rung) <= LOAD).unwrap_or(0)
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

    /// Notes that what is sent doesn't become smaller: what comes behind it may.
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

    fn look(&mut self, now: &StreamTimes, so_far: Packed) {
        let window = now.since(&self.since);
        let least = if self.has_looked { PACKING_WINDOW } else { FIRST_PACKING_WINDOW };
        if window.busy < least {
            return;
        }
        self.since = *now;
        if so_far.plain < self.settles || matches!(self.wanted, CompressionLevel::Fixed(_)) {
            self.has_looked = true;
            return;
        }
        let Some(each) = per_byte(window.busy, window.plain) else { return };
        let rung = self.rung;
        let (waits, compresses) = (share(window.wait, window.busy), share(window.compress, window.busy));
        self.path = self.path.max(window.wire as f64 / window.busy.as_secs_f64());
        if waits >= WAITS_STILL {
            self.climb(waits, now, so_far);
        } else if waits < FLOWS && compresses > COMPRESSES {
            self.fall(each, now);
        }
        if self.rung != rung {
            self.settles = so_far.taken;
        }
        self.has_looked = true;
    }

    /// Takes the next level, or a higher one for which the threads should have time.
    fn climb(&mut self, waits: f64, now: &StreamTimes, so_far: Packed) {
        let (rung, next) = (&RUNGS[self.rung], (self.rung + 1).min(RUNGS.len() - 1));
        if now.busy < self.climbs || waits < 1.0 - FULL * rung.time / RUNGS[next].time {
            return;
        }
        let part = so_far.packed as f64 / so_far.plain.max(1) as f64 / rung.size;
        let fitting = if part > 0.0 { self.fitting(self.path, part) } else { next };
        // A stream that is stopped by a quota stands still in any stage, and would seem to wait for the path.
        let least = if self.processors.quota.is_some() { 0 } else { next };
        self.rung = fitting.max(least);
        self.has_climbed = true;
    }

    fn fall(&mut self, each: f64, now: &StreamTimes) {
        if self.is_auto() && self.plain.is_some_and(|plain| each > plain * GAIN) {
            self.rest(now);
        } else if self.rung > 0 {
            self.rung -= 1;
            if std::mem::take(&mut self.has_climbed) {
                self.climb_rest = (self.climb_rest * 2).min(LONGEST_REST);
            }
            self.climbs = now.busy + self.climb_rest;
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
