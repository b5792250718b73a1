//! How many streams: more while they help, fewer when they don't.

use std::time::{Duration, Instant};

/// How long a number of streams is tried.
pub const TRIAL: Duration = Duration::from_millis(400);
/// How long the first number stays where the processors are few: there more streams seldom help and a trial always costs,
/// more than a short transfer can win by it.
pub const FEW_PROCESSORS: Duration = Duration::from_millis(2500);
/// By how much more streams must be faster to stay.
const GAIN: f64 = 1.08;
/// Use of this host's processors beyond which another stream only adds switching.
const BUSY: f64 = 0.8;
/// How long a number that was found best stays before more are tried again.
const REST: Duration = Duration::from_secs(10);

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

/// Decides by the payload rate of the time that passed. It has no clock of its own, so it can be tested in
/// simulated time.
pub struct Controller {
    streams: u32,
    most: u32,
    best: f64,
    added: u32,
    since: Instant,
    bytes: u64,
    cpu: f64,
    wait: Duration,
}

impl Controller {
    /// Begins with `streams` for a time of `first`, never goes above `most`.
    pub fn new(streams: u32, most: u32, first: Duration, now: Instant) -> Self {
        Self { streams, most, best: 0.0, added: 0, since: now, bytes: 0, cpu: 0.0, wait: first }
    }

    /// Streams that are wanted now.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// The advice at `now`, when `bytes` of payload were sent in all, and this host's processors have worked
    /// for `cpu` seconds, in the mean of all; they are only asked for when a trial is over.
    pub fn advise(&mut self, now: Instant, bytes: u64, cpu: impl FnOnce() -> f64) -> Advice {
        let elapsed = now.duration_since(self.since);
        if elapsed < self.wait {
            return Advice::Keep;
        }
        let cpu = cpu();
        let rate = (bytes - self.bytes) as f64 / elapsed.as_secs_f64();
        let busy = (cpu - self.cpu) / elapsed.as_secs_f64();
        (self.since, self.bytes, self.cpu) = (now, bytes, cpu);
        let advice = self.judge(rate, busy);
        match advice {
            Advice::Add(count) => self.streams += count,
            Advice::Drop(count) => self.streams -= count,
            Advice::Keep => {}
        }
        advice
    }

    /// A trial that is under way begins only now, with the figures of this call of [`Controller::advise`].
    pub fn put_off(&mut self, now: Instant, bytes: u64, cpu: impl FnOnce() -> f64) {
        if self.added > 0 {
            (self.since, self.bytes, self.cpu) = (now, bytes, cpu());
        }
    }

    fn judge(&mut self, rate: f64, busy: f64) -> Advice {
        self.wait = TRIAL;
        let helped = rate > self.best * GAIN;
        if self.added > 0 && !helped {
            self.wait = REST;
            return Advice::Drop(std::mem::take(&mut self.added));
        }
        self.best = rate;
        self.added = if busy < BUSY { self.streams.min(self.most - self.streams) } else { 0 };
        if self.added == 0 {
            self.wait = REST;
            return Advice::Keep;
        }
        Advice::Add(self.added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a transfer whose rate is a function of its streams; returns the streams of each second.
    fn simulate(rate: impl Fn(u32) -> f64, busy: f64, seconds: u32) -> Vec<u32> {
        let begun = Instant::now();
        let mut controller = Controller::new(2, 16, TRIAL, begun);
        let (mut streams, mut bytes, mut cpu, mut seen) = (2, 0.0, 0.0, Vec::new());
        for tick in 1..=seconds * 10 {
            bytes += rate(streams) / 10.0;
            cpu += busy / 10.0;
            match controller.advise(
                begun + Duration::from_millis(u64::from(tick) * 100),
                bytes as u64,
                || cpu,
            ) {
                Advice::Keep => {}
                Advice::Add(count) => streams += count,
                Advice::Drop(count) => streams -= count,
            }
            if tick % 10 == 0 {
                seen.push(streams);
            }
        }
        seen
    }

    #[test]
    fn streams_are_added_while_each_brings_its_share() {
        let seen = simulate(|streams| f64::from(streams) * 1e8, 0.1, 5);
        assert_eq!(*seen.last().unwrap(), 16, "{seen:?}");
    }

    #[test]
    fn a_full_link_goes_back_to_what_filled_it() {
        let seen = simulate(|streams| (f64::from(streams) * 3e8).min(1.2e9), 0.1, 5);
        assert_eq!(*seen.last().unwrap(), 4, "{seen:?}");
    }

    #[test]
    fn a_busy_processor_gets_no_more_streams() {
        let seen = simulate(|streams| f64::from(streams) * 1e8, 0.95, 5);
        assert_eq!(seen, [2; 5]);
    }
}
