//! Chooses the number of streams: more if this can raise the rate, fewer if some streams use processor time without
//! raising the rate.
//!
//! After a few tenths of a second, the workers' clocks at both ends show what a transfer waits for. More
//! streams are tried if they can help: more threads if a thread is the limit and its host has idle
//! processors, more TCP windows if a long path isn't full, more files at once if storage answers slowly. A
//! trial without gain is undone. If a short path is full and fewer threads would also fill it, a stream is
//! dropped.

use linerate_wire::stages::Stages;
use std::time::{Duration, Instant};

/// The number of streams at the beginning. Each stream keeps a thread busy at each end, so with two streams one thread
/// can read or write files while the other waits.
pub const FIRST: u32 = 2;
/// The number of streams at the beginning on a long path, on which each stream takes long to reach its rate
/// and to recover from a lost segment. Other tools commonly use this number on such paths.
pub const FIRST_FAR: u32 = 8;
/// A path counts as long if its round-trip time is at least this.
pub const LONG_ROUND_TRIP: Duration = Duration::from_millis(5);
/// The largest number of streams that trials reach.
const MOST_STREAMS: u32 = 16;
/// A window is the time between two snapshots that are compared. It lasts `ROUND_TRIPS` round trips, at least `WINDOW`,
/// at most `LONGEST_WINDOW`, and so longer than the slow start of a new stream.
const WINDOW: Duration = Duration::from_millis(200);
const ROUND_TRIPS: u32 = 8;
const LONGEST_WINDOW: Duration = Duration::from_millis(1600);
/// More streams are kept only if the rate grows by this factor.
const GAIN: f64 = 1.08;
/// Fewer streams are kept only if the rate is at least this share of the rate before.
const LOSS: f64 = 0.985;
/// The first pause after a trial that failed; each further pause is twice as long, up to `MOST_TRIAL_INTERVAL`.
const LEAST_TRIAL_INTERVAL: Duration = Duration::from_secs(2);
const MOST_TRIAL_INTERVAL: Duration = Duration::from_secs(16);
/// A thread that works, or waits for a processor, for this share of its time is at its limit.
const FULL_THREAD: f64 = 0.9;
/// Fewer threads are enough only if each would then work for at most this share of its time.
const SPARE_THREAD: f64 = 0.8;
/// A stage limits a worker if it takes more than this share of the worker's time.
const MOST_OF_IT: f64 = 0.5;
/// If a host's processors are busy for more than this share of the time, another thread would only add
/// context switches.
const BUSY: f64 = 0.8;
/// Below this round-trip time, TCP recovers at once from a lost segment or a full window.
const SHORT_ROUND_TRIP: Duration = Duration::from_millis(1);
/// A queue on the path is assumed if the current round-trip time exceeds the shortest one by this share, and by at
/// least this time.
const QUEUED: (f64, Duration) = (0.25, Duration::from_micros(500));
/// Storage counts as the limit only after it has been slow for this long, because at first caches answer in its place.
const STORAGE_PATIENCE: Duration = Duration::from_secs(1);
/// The number of consecutive windows with a full path before a stream is dropped.
const SURELY_FULL: u32 = 2;

/// Advice on the number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Change nothing.
    Keep,
    /// Add N streams.
    Add(u32),
    /// Drop N streams.
    Drop(u32),
}

/// A snapshot of a transfer. Its counters are sums since the beginning of the transfer.
#[derive(Clone, Copy)]
pub struct Glance {
    /// When the snapshot was taken.
    pub at: Instant,
    /// The sender's stages.
    pub sender: Stages,
    /// The receiver's stages, from its last report.
    pub receiver: Stages,
    /// True if the sender holds its rate slightly below the rate of the path.
    pub is_held: bool,
}

/// The factor that limits the rate of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// A thread of either end, on a host with idle processors.
    Thread,
    /// The path is full.
    FullPath,
    /// TCP windows or lost segments on a path that isn't full.
    Path,
    /// Reading or writing files, while threads and processors wait.
    Storage,
    /// Another limit, which more streams wouldn't raise.
    Other,
}

/// Decides about the number of streams by the difference between two snapshots. The controller has no clock
/// of its own, so it can be tested in simulated time.
pub struct Controller {
    streams: u32,
    /// The lowest number of streams that is allowed: one for each link.
    least: u32,
    begun: Glance,
    wait: Duration,
    /// The current limit, the time since which it has been the limit, and the number of windows in which it has been
    /// the limit.
    limit: (Limit, Instant, u32),
    /// Payload bytes per second in the previous window.
    last: f64,
    trial: Option<Trial>,
    rested: Instant,
    rest: Duration,
}

/// A trial: streams were added or dropped, and the effect on the rate is being measured.
#[derive(Clone, Copy)]
struct Trial {
    advice: Advice,
    /// Payload bytes per second before the trial.
    before: f64,
    /// True once the first window after the change, in which new streams start, has ended.
    is_settled: bool,
}

impl Controller {
    /// A controller that starts with `streams` streams.
    pub fn new(streams: u32, at: Instant) -> Self {
        let (sender, receiver) = (Stages::default(), Stages::default());
        Self {
            streams,
            least: 0,
            begun: Glance { at, sender, receiver, is_held: false },
            wait: WINDOW,
            limit: (Limit::Other, at, 0),
            last: 0.0,
            trial: None,
            rested: at,
            rest: LEAST_TRIAL_INTERVAL,
        }
    }

    /// The number of streams that is wanted now.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Sets the lowest number of streams to which the controller may reduce them.
    pub fn keep_at_least(&mut self, streams: u32) {
        self.least = streams;
    }

    /// Replaces the number of streams, and ends a running trial.
    pub fn begin_with(&mut self, streams: u32) {
        if streams != self.streams {
            (self.streams, self.trial) = (streams, None);
        }
    }

    /// Starts the current window now.
    pub fn put_off(&mut self, glance: Glance) {
        self.begun = glance;
    }

    /// The advice for the snapshot `glance`, which may be taken at any time.
    pub fn advise(&mut self, glance: Glance) -> Advice {
        if self.begun.sender.bytes == 0 {
            self.begun = glance;
        }
        if glance.at.saturating_duration_since(self.begun.at) < self.wait {
            return Advice::Keep;
        }
        let window = Window::between(&self.begun, &glance);
        (self.begun, self.wait) = (glance, window.next());
        let advice = self.judge(&window, glance.at);
        match advice {
            Advice::Add(count) => self.streams += count,
            Advice::Drop(count) => self.streams -= count,
            Advice::Keep => {}
        }
        advice
    }

    fn judge(&mut self, window: &Window, now: Instant) -> Advice {
        match self.trial.take() {
            Some(trial) if !trial.is_settled => {
                self.trial = Some(Trial { is_settled: true, ..trial });
                Advice::Keep
            }
            Some(Trial { advice: Advice::Add(count), before, .. }) if window.rate <= before * GAIN => {
                self.give_up(now, Advice::Drop(count))
            }
            Some(Trial { advice: Advice::Drop(count), before, .. }) if window.rate < before * LOSS => {
                self.give_up(now, Advice::Add(count))
            }
            trial => {
                self.rest = if trial.is_some() { LEAST_TRIAL_INTERVAL } else { self.rest };
                self.consider(window, now)
            }
        }
    }

    fn give_up(&mut self, now: Instant, back: Advice) -> Advice {
        self.rested = now + self.rest;
        self.rest = (self.rest * 2).min(MOST_TRIAL_INTERVAL);
        back
    }

    fn consider(&mut self, window: &Window, now: Instant) -> Advice {
        let limit = window.limit();
        let (_, since, windows) = if self.limit.0 == limit { self.limit } else { (limit, now, 0) };
        self.limit = (limit, since, windows + 1);
        // The existing streams may not have reached their rate yet.
        let grows = window.rate > std::mem::replace(&mut self.last, window.rate) * GAIN;
        if now < self.rested || limit == Limit::Path && grows {
            return Advice::Keep;
        }
        let more = self.streams.min(MOST_STREAMS - self.streams.min(MOST_STREAMS));
        let advice = match limit {
            Limit::FullPath
                if windows + 1 >= SURELY_FULL
                    && self.streams > self.least
                    && window.is_too_many(self.streams) =>
            {
                Advice::Drop(1)
            }
            Limit::Thread | Limit::Path if more > 0 => Advice::Add(more),
            Limit::Storage if more > 0 && now - since >= STORAGE_PATIENCE => Advice::Add(more),
            _ => return Advice::Keep,
        };
        self.trial = Some(Trial { advice, before: window.rate, is_settled: false });
        advice
    }
}

/// The transfer's behaviour in the time between two snapshots.
struct Window {
    /// Payload bytes per second.
    rate: f64,
    sender: EndWindow,
    receiver: EndWindow,
    round_trip: Duration,
    shortest: Duration,
    is_held: bool,
}

/// The behaviour of one end in a window. All values except `host` are shares of the workers' time.
struct EndWindow {
    /// The share in which threads were on a processor or ready to run. If the kernel doesn't count this time, the share
    /// spent reading files, in the cipher, and writing files.
    threads: f64,
    /// The share spent waiting for the scan, or because of the user's rate limit.
    idle: f64,
    /// The share spent reading or writing files.
    files: f64,
    /// The share of the time in which the processors that this end may use are busy; 1 if it is unknown.
    host: f64,
    /// True if a CPU quota stopped this end.
    is_stopped: bool,
}

impl EndWindow {
    fn between(begun: &Stages, now: &Stages) -> Self {
        let since = |of: fn(&Stages) -> u64| of(now).saturating_sub(of(begun)) as f64;
        let (lifetime, clocked) = (since(|s| s.lifetime), since(|s| s.clocked));
        let share = |part: f64| part / lifetime.max(1.0);
        let host = since(|s| s.host_time);
        Self {
            threads: if clocked > 0.0 {
                since(|s| s.cpu + s.waited) / clocked
            } else {
                share(since(|s| s.read + s.cipher + s.write))
            },
            idle: share(since(|s| s.queue + s.limit)),
            files: share(since(|s| s.read + s.write)),
            host: if host > 0.0 { since(|s| s.host_busy) / host } else { 1.0 },
            is_stopped: since(|s| s.quota_stops) > 0.0,
        }
    }

    /// True if the threads of this end are at their limit.
    fn is_thread_bound(&self) -> bool {
        self.threads >= FULL_THREAD
    }

    /// True if this end could run more threads: its processors are idle for a part of the time, and no quota stops it.
    fn has_processors(&self) -> bool {
        self.host < BUSY && !self.is_stopped
    }

    /// True if the threads of this end wait for files.
    fn is_storage_bound(&self) -> bool {
        self.files >= MOST_OF_IT && self.threads < MOST_OF_IT
    }
}

impl Window {
    fn between(begun: &Glance, now: &Glance) -> Self {
        let since = |of: fn(&Stages) -> u64| of(&now.sender).saturating_sub(of(&begun.sender));
        let looks = since(|s| s.tcp_looks).max(1);
        let seconds = now.at.saturating_duration_since(begun.at).as_secs_f64();
        Self {
            rate: since(|s| s.bytes) as f64 / seconds,
            sender: EndWindow::between(&begun.sender, &now.sender),
            receiver: EndWindow::between(&begun.receiver, &now.receiver),
            round_trip: Duration::from_micros(since(|s| s.tcp_rtt) / looks),
            shortest: Duration::from_micros(since(|s| s.tcp_min_rtt) / looks),
            is_held: now.is_held,
        }
    }

    /// The length of the next window.
    fn next(&self) -> Duration {
        (self.round_trip * ROUND_TRIPS).clamp(WINDOW, LONGEST_WINDOW)
    }

    fn is_full(&self) -> bool {
        let (part, least) = QUEUED;
        let queue = self.round_trip.saturating_sub(self.shortest);
        self.is_held || !self.shortest.is_zero() && queue >= least.max(self.shortest.mul_f64(part))
    }

    fn limit(&self) -> Limit {
        let ends = [&self.sender, &self.receiver];
        let mut full = ends.into_iter().filter(|end| end.is_thread_bound()).peekable();
        if self.sender.idle >= MOST_OF_IT {
            Limit::Other
        } else if full.peek().is_some() {
            if full.all(EndWindow::has_processors) { Limit::Thread } else { Limit::Other }
        } else if self.is_full() {
            Limit::FullPath
        } else if ends.into_iter().any(EndWindow::is_storage_bound) {
            Limit::Storage
        } else if self.shortest >= SHORT_ROUND_TRIP {
            Limit::Path
        } else {
            Limit::Other
        }
    }

    /// Whether one stream less than `streams` would be enough. That is so only on a short path, and only if the
    /// remaining threads of each end would work for at most [`SPARE_THREAD`] of their time.
    fn is_too_many(&self, streams: u32) -> bool {
        let work = f64::from(streams) * self.sender.threads.max(self.receiver.threads);
        self.shortest < LONG_ROUND_TRIP && work <= SPARE_THREAD * f64::from(streams - 1)
    }
}

#[cfg(test)]
mod tests;
