//! How many streams: more where they can help, fewer where they only cost.
//!
//! The workers' clocks at both ends say after some tenths of a second what a transfer waits for. More streams are tried
//! where that can be cured by them: by more threads where a thread is the limit and its host has idle processors, by
//! more windows where a long path isn't full, by more files at once where storage answers slowly. A trial that brings
//! nothing is undone. Where a short path is full and fewer threads would fill it, too, one leaves.

use linerate_wire::stages::Stages;
use std::time::{Duration, Instant};

/// Streams at the beginning: each keeps a thread busy at either end, so that one may read or write while another waits.
pub const FIRST: u32 = 2;
/// Streams at the beginning of a long path, where each is slow to begin and slow to recover from a lost segment: as
/// many as the field's tools take there.
pub const FIRST_FAR: u32 = 8;
/// A round trip from which a path is long.
pub const FAR: Duration = Duration::from_millis(5);
/// Streams at most.
const MOST: u32 = 16;
/// A window lasts `ROUND_TRIPS` round trips, at least `WINDOW`, at most `LONGEST_WINDOW`: a new stream's slow start is over
/// by then.
const WINDOW: Duration = Duration::from_millis(200);
const ROUND_TRIPS: u32 = 8;
const LONGEST_WINDOW: Duration = Duration::from_millis(1600);
/// By how much more streams must be faster to stay.
const GAIN: f64 = 1.08;
/// By how much fewer streams may be slower to be enough.
const LOSS: f64 = 0.985;
/// How long nothing is tried behind a trial that failed, at first; each time twice as long, up to the most.
const REST: Duration = Duration::from_secs(2);
const LONGEST_REST: Duration = Duration::from_secs(16);
/// The part of its time from which a thread has no more: it works, or waits for a processor.
const FULL_THREAD: f64 = 0.9;
/// The part of its time up to which a thread may have to work where fewer are to do the same.
const SPARE_THREAD: f64 = 0.8;
/// The part of its time from which a stage holds a worker up.
const MOST_OF_IT: f64 = 0.5;
/// Use of a host's processors beyond which another thread only adds switching.
const BUSY: f64 = 0.8;
/// A round trip below which a lost segment or a full window is made up for at once.
const NEAR: Duration = Duration::from_millis(1);
/// How much longer than the shortest a round trip is with a queue before it: by this part, and at least by this time.
const QUEUED: (f64, Duration) = (0.25, Duration::from_micros(500));
/// How long storage must have been slow: caches answer first.
const STORAGE_PATIENCE: Duration = Duration::from_secs(1);
/// Windows in a row in which a path is full, before a stream leaves.
const SURELY_FULL: u32 = 2;

/// Advice on the number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Leave it.
    Keep,
    /// Add N streams.
    Add(u32),
    /// Drop N streams.
    Drop(u32),
}

/// One glance at a transfer, whose sums are of its whole time.
#[derive(Clone, Copy)]
pub struct Glance {
    /// When it was taken.
    pub at: Instant,
    /// The sender's stages.
    pub sender: Stages,
    /// The receiver's, as it reported them last.
    pub receiver: Stages,
    /// The sender holds its rate a little below the path's.
    pub is_held: bool,
}

/// The limit of a transfer: what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// A thread of either end, on a host with idle processors.
    Thread,
    /// The path is full.
    FullPath,
    /// Windows or lost segments on a path that isn't full.
    Path,
    /// Reading or writing, while threads and processors wait.
    Storage,
    /// Nothing that more streams would cure.
    Other,
}

/// Decides by what happened between two glances. It has no clock of its own, so it can be tested in simulated time.
pub struct Controller {
    streams: u32,
    /// Fewer are never enough: each link needs one.
    least: u32,
    begun: Glance,
    wait: Duration,
    /// The limit, since when it is that, and in how many windows it was.
    limit: (Limit, Instant, u32),
    /// Payload bytes a second in the window before.
    last: f64,
    trial: Option<Trial>,
    rested: Instant,
    rest: Duration,
}

/// Streams that were added or dropped, to see what that brings.
#[derive(Clone, Copy)]
struct Trial {
    advice: Advice,
    /// Payload bytes a second before.
    before: f64,
    /// The first window, in which new streams begin, is over.
    is_settled: bool,
}

impl Controller {
    /// Begins with `streams`.
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
            rest: REST,
        }
    }

    /// Streams that are wanted now.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Lets no stream leave where that would be fewer.
    pub fn keep_at_least(&mut self, streams: u32) {
        self.least = streams;
    }

    /// Begins with `streams` after all.
    pub fn begin_with(&mut self, streams: u32) {
        self.streams = streams;
    }

    /// The window begins only now.
    pub fn put_off(&mut self, glance: Glance) {
        self.begun = glance;
    }

    /// The advice by `glance`, which may be taken at any time.
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
                self.rest = if trial.is_some() { REST } else { self.rest };
                self.consider(window, now)
            }
        }
    }

    fn give_up(&mut self, now: Instant, back: Advice) -> Advice {
        self.rested = now + self.rest;
        self.rest = (self.rest * 2).min(LONGEST_REST);
        back
    }

    fn consider(&mut self, window: &Window, now: Instant) -> Advice {
        let limit = window.limit();
        let (_, since, windows) = if self.limit.0 == limit { self.limit } else { (limit, now, 0) };
        self.limit = (limit, since, windows + 1);
        // The streams that are there may not have reached their rate.
        let grows = window.rate > std::mem::replace(&mut self.last, window.rate) * GAIN;
        if now < self.rested || limit == Limit::Path && grows {
            return Advice::Keep;
        }
        let more = self.streams.min(MOST - self.streams.min(MOST));
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

/// The time between two glances.
struct Window {
    /// Payload bytes a second.
    rate: f64,
    sender: EndWindow,
    receiver: EndWindow,
    round_trip: Duration,
    shortest: Duration,
    is_held: bool,
}

/// One end in a window; shares are of its workers' time.
struct EndWindow {
    /// On a processor, or ready to be; where the kernel doesn't count that, in neither the socket nor a wait.
    threads: f64,
    /// Waiting for the scan, or held by the user's limit.
    idle: f64,
    /// Reading or writing files.
    files: f64,
    /// The share of time that the host's processors work; 1 where that isn't known.
    host: f64,
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
        }
    }

    /// True where the threads of this end have no more time.
    fn is_thread_bound(&self) -> bool {
        self.threads >= FULL_THREAD
    }

    /// True where the host of this end could run more threads.
    fn has_processors(&self) -> bool {
        self.host < BUSY
    }

    /// True where the threads of this end wait for files.
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

    /// How long the next one lasts.
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
        } else if self.shortest >= NEAR {
            Limit::Path
        } else {
            Limit::Other
        }
    }

    /// Whether fewer than `streams` would do: on a short path, where each has much time left at both ends.
    fn is_too_many(&self, streams: u32) -> bool {
        let work = f64::from(streams) * self.sender.threads.max(self.receiver.threads);
        self.shortest < FAR && work <= SPARE_THREAD * f64::from(streams - 1)
    }
}

#[cfg(test)]
mod tests;
