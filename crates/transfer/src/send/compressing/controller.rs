//! Decides whether a stream's next payload is compressed, and with which level.
//!
//! Compression pays if the connection is slower than the compressor. So nothing is compressed until a stream has had to
//! wait for its connection, or for the user's rate limit. Then a sample of a payload is compressed. The time that this
//! takes and the sample's compressed size predict the gain for the rest of the data, and the best level. The compressor
//! runs in parallel with the stream. While the stream still waits for the connection and not for the compressor, the
//! level rises. If the stream waits only for the compressor, the level falls, and at the lowest level compression ends.

use linerate_wire::control::CompressionLevel;
use std::time::Duration;

use crate::net::clock::StreamTimes;
use crate::net::compress::Packed;

/// A compressed payload isn't worthwhile if its size exceeds this share of the original.
pub const DULL: f64 = 0.95;
/// Levels of zstd, each with its time and its output size relative to the first level. The numbers were measured by
/// compressing programs' source code. They only suggest which level to try; measurements of the stream then decide.
const RUNGS: [Rung; 7] = [
    Rung { level: 1, time: 1.0, size: 1.0 },
    Rung { level: 3, time: 1.2, size: 0.92 },
    Rung { level: 5, time: 1.6, size: 0.87 },
    Rung { level: 6, time: 2.2, size: 0.84 },
    Rung { level: 7, time: 2.6, size: 0.83 },
    Rung { level: 9, time: 3.2, size: 0.81 },
    Rung { level: 12, time: 6.6, size: 0.79 },
];
/// The index in [`RUNGS`] of the first level if a stream always compresses: rsync's default level.
const ALWAYS_FROM: usize = 1;
/// The busy time after which a stream is judged, if it doesn't compress. `FIRST_PACKING_WINDOW` applies when
/// compression begins, `PACKING_WINDOW` later.
const WINDOW: Duration = Duration::from_millis(20);
const FIRST_PACKING_WINDOW: Duration = Duration::from_millis(40);
const PACKING_WINDOW: Duration = Duration::from_millis(100);
/// If a stream waits for the connection for at least this share of its time, compression may help. From the
/// share `WAITS_STILL` on, a higher level may help.
const WAITS: f64 = 0.3;
const WAITS_STILL: f64 = 0.15;
/// The compressor works ahead of the connection by the bytes that the connection carries in this time, at
/// most by `MOST_AHEAD` bytes. The connection has enough to send if the share `ENOUGH_AHEAD` of these bytes
/// waits, or if the share `LITTLE_AHEAD` waits and the number increases.
const AHEAD: Duration = Duration::from_millis(250);
const MOST_AHEAD: f64 = 4e6;
const ENOUGH_AHEAD: f64 = 0.5;
const LITTLE_AHEAD: f64 = 0.125;
/// If a stream waits for the connection for less than this share of its time, the connection isn't the limit.
const FLOWS: f64 = 0.05;
/// If a stream waits for the compressor for more than this share of its time, and nothing else limits it, the
/// compressor is the limit.
const COMPRESSES: f64 = 0.15;
/// A level is used immediately if the compressor's threads are expected to need at most this share of their time for
/// it. `FIRST_RUNG` is the index of the highest level that may be used immediately, because a level that is too high
/// costs more than one that is too low.
const LOAD: f64 = 0.5;
const FIRST_RUNG: usize = 4;
/// The next level may make the stream wait for the compressor for at most this share of its time.
const FULL: f64 = 0.95;
/// A probe sees only a small sample, so repeats in the rest of the data may make the real result smaller. This share of
/// the probe's result is the smallest that is expected.
const REPEATED: f64 = 0.5;
/// Compression continues only if the time for a byte falls below this share of the time without compression.
const GAIN: f64 = 0.85;
/// The first pause after a trial that failed; `MOST_TRIAL_INTERVAL` is the longest.
const LEAST_TRIAL_INTERVAL: Duration = Duration::from_millis(500);
const CLIMB_REST: Duration = Duration::from_millis(200);
const MOST_TRIAL_INTERVAL: Duration = Duration::from_secs(16);
/// The first pause after bytes that don't become smaller; `LONGEST_DULL_REST` is the longest.
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
    /// The payload is sent uncompressed.
    Plain,
    /// A sample of the payload is compressed to measure the gain.
    Probe,
    /// The payload is compressed with this level.
    Pack(u8),
}

/// The processors that may compress.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    /// The number of threads that may compress, at least one.
    pub threads: u32,
    /// The number of processors that a CPU quota allows, if there is one.
    pub quota: Option<f64>,
}

/// The result of compressing a sample with the lowest level.
#[derive(Clone, Copy, Debug)]
pub struct Probed {
    /// The size of the compressed sample as a share of the original size.
    pub part: f64,
    /// The compression time in seconds per byte.
    pub each: f64,
}

/// Decides about compression by the times that the stream spends in each stage. The controller has no clock
/// of its own, so it can be tested in simulated time.
pub struct CompressionController {
    wanted: CompressionLevel,
    processors: Processors,
    is_packing: bool,
    /// The index of the current or last level in [`RUNGS`].
    rung: usize,
    /// The stream's times at the start of the current window.
    since: StreamTimes,
    /// The number of bytes that the compressor had taken when the level changed. Results for these bytes
    /// don't show the effect of the new level.
    settles: u64,
    /// True once the stream's rate has been measured with compression.
    has_looked: bool,
    /// The compression time in seconds per byte, from the last probe of compressible data.
    each: f64,
    /// The highest rate of the connection so far, in bytes per second.
    path: f64,
    /// The number of compressed bytes that were waiting when the stream was last judged.
    waiting: f64,
    /// Seconds per payload byte without compression, while the connection is the limit; `None` if that isn't
    /// known.
    plain: Option<f64>,
    /// The stream's busy time from which on another probe may be made.
    probes: Duration,
    rest: Duration,
    dull_rest: Duration,
    /// The stream's busy time from which on a higher level may be tried.
    climbs: Duration,
    climb_rest: Duration,
    /// True if the level has risen since it last fell.
    has_climbed: bool,
    /// The stream's busy time from which on the controller may try whether the connection is as fast without
    /// compression.
    trials: Duration,
    trial_rest: Duration,
}

impl CompressionController {
    /// A controller for the level that the user requests, with these processors.
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
            waiting: 0.0,
            plain: None,
            probes: Duration::ZERO,
            rest: LEAST_TRIAL_INTERVAL,
            dull_rest: DULL_REST,
            climbs: Duration::ZERO,
            climb_rest: CLIMB_REST,
            has_climbed: false,
            trials: Duration::ZERO,
            trial_rest: LEAST_TRIAL_INTERVAL,
        }
    }

    /// The number of threads that compress.
    pub fn threads(&self) -> u32 {
        self.processors.threads
    }

    /// True if the path is so slow that there is time for a higher level than the lowest.
    pub fn is_slow(&self) -> bool {
        self.level() > RUNGS[0].level
    }

    /// True if the stream's rate has been measured with compression.
    pub fn has_looked(&self) -> bool {
        self.has_looked
    }

    /// The largest number of compressed bytes that may wait to be sent.
    pub fn most_waiting(&self) -> f64 {
        (self.path * AHEAD.as_secs_f64()).min(MOST_AHEAD)
    }

    /// Records that another file, or a batch of files, begins, which may contain another kind of data.
    pub fn begin(&mut self) {
        if self.plain.is_some() || !self.is_auto() {
            self.probes = self.probes.saturating_sub(self.dull_rest);
            self.dull_rest = DULL_REST;
        }
    }

    /// Chooses how the next payload is sent; `so_far` are the numbers of bytes that the compressor has
    /// handled.
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

    /// Records the result of a probe of the next payload.
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

    /// The index of the highest level for which the threads have enough time, on a path of `path` bytes per
    /// second. `part` is the share of the bytes that the lowest level leaves.
    fn fitting(&self, path: f64, part: f64) -> usize {
        let processors = self.processors.quota.unwrap_or(f64::INFINITY).min(self.processors.threads.into());
        let load = |rung: &Rung| path / (part * rung.size) * self.each * rung.time / processors;
        RUNGS[..=FIRST_RUNG].iter().rposition(|rung| load(rung) <= LOAD).unwrap_or(0)
    }

    /// Whether the stream waits for the connection. If it did when compression was last tried, it still
    /// counts as waiting.
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

    /// Records that a payload doesn't become smaller. Later payloads may become smaller.
    fn is_dull(&mut self, now: &StreamTimes) {
        (self.probes, self.since) = (now.busy + self.dull_rest, *now);
        self.dull_rest = (self.dull_rest * 2).min(LONGEST_DULL_REST);
        // It has to be measured again whether the connection is the limit.
        if self.dull_rest == LONGEST_DULL_REST {
            self.plain = None;
        }
    }

    /// Ends a trial of compression, because the compressor is slower than the connection.
    fn rest(&mut self, now: &StreamTimes) {
        (self.is_packing, self.plain, self.rung) = (false, None, 0);
        (self.probes, self.since) = (now.busy + self.rest, *now);
        self.rest = (self.rest * 2).min(MOST_TRIAL_INTERVAL);
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
        let is_ahead = self.is_ahead(so_far);
        self.path = self.path.max(window.wire as f64 / window.busy.as_secs_f64());
        if waits >= WAITS_STILL {
            self.climb(waits, now, so_far);
        } else if waits < FLOWS && compresses > COMPRESSES && !is_ahead {
            self.fall(each, now);
        }
        if self.rung != rung {
            self.settles = so_far.taken;
        }
        self.has_looked = true;
    }

    /// True if enough compressed bytes are waiting for the connection, even if the compressor is slower than
    /// the connection for a while.
    fn is_ahead(&mut self, so_far: Packed) -> bool {
        let (waited, waiting) = (self.waiting, so_far.waiting as f64);
        self.waiting = waiting;
        let most = self.most_waiting();
        let least = if waiting > waited { LITTLE_AHEAD } else { ENOUGH_AHEAD };
        waiting > 0.0 && waiting >= least * most
    }

    /// Switches to the next level, or directly to a higher one for which the threads should have time.
    fn climb(&mut self, waits: f64, now: &StreamTimes, so_far: Packed) {
        let (rung, next) = (&RUNGS[self.rung], (self.rung + 1).min(RUNGS.len() - 1));
        if now.busy < self.climbs || waits < 1.0 - FULL * rung.time / RUNGS[next].time {
            return;
        }
        let part = so_far.packed as f64 / so_far.plain.max(1) as f64 / rung.size;
        let fitting = if part > 0.0 { self.fitting(self.path, part) } else { next };
        // If a CPU quota stops a stream, the stream seems to wait in its current stage, which may be the
        // connection.
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
                self.climb_rest = (self.climb_rest * 2).min(MOST_TRIAL_INTERVAL);
            }
            self.climbs = now.busy + self.climb_rest;
        } else if self.is_auto() && now.busy >= self.trials {
            (self.is_packing, self.plain) = (false, None);
            (self.trials, self.since) = (now.busy + self.trial_rest, *now);
            self.trial_rest = (self.trial_rest * 2).min(MOST_TRIAL_INTERVAL);
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
