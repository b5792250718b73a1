//! A thread that takes a sample at every interval.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::sampler::{Sampler, SamplerOptions, clamped};
use super::tape::Tape;

/// A running recording. When this value is dropped, its thread ends.
pub struct Recorder {
    shared: Arc<SharedTape>,
    thread: Option<JoinHandle<()>>,
    interval: Duration,
}

struct SharedTape {
    state: Mutex<TapeState>,
    changed: Condvar,
}

struct TapeState {
    tape: Tape,
    stopped: bool,
}

impl Recorder {
    /// Takes the first sample before it returns, then starts a thread that takes a sample at every interval
    /// (see [`clamped`]).
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(options: &SamplerOptions) -> io::Result<Self> {
        let interval = clamped(options.interval);
        let mut sampler = Sampler::new(options);
        let mut tape = Tape::new(sampler.heading());
        tape.push(sample(&mut sampler, true));
        let state = Mutex::new(TapeState { tape, stopped: false });
        let shared = Arc::new(SharedTape { state, changed: Condvar::new() });
        let theirs = shared.clone();
        let thread = Builder::new().name("sampler".into()).spawn(move || theirs.run(sampler, interval))?;
        Ok(Self { shared, thread: Some(thread), interval })
    }

    /// The interval between two samples that is used.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the samples since the last call. Joined together, the results of all calls are the recording.
    pub fn take(&self) -> Vec<u8> {
        self.shared.lock().tape.take()
    }

    /// Takes one more sample, ends the recording, and returns the samples that [`Self::take`] hasn't returned
    /// yet.
    pub fn stop(mut self) -> Vec<u8> {
        self.end();
        self.take()
    }

    fn end(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, the samples that it has taken can still be read.
            let _ = thread.join();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end();
    }
}

impl SharedTape {
    fn run(&self, mut sampler: Sampler, interval: Duration) {
        let mut due = Instant::now();
        loop {
            due = next(due, interval * self.lock().tape.stride(), Instant::now());
            let stopped = self.wait_until(due);
            let sample = sample(&mut sampler, stopped);
            self.lock().tape.push(sample);
            if stopped {
                return;
            }
        }
    }

    /// Waits until `due`; returns true if the recorder was stopped meanwhile.
    fn wait_until(&self, due: Instant) -> bool {
        let mut state = self.lock();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if state.stopped || left.is_zero() {
                return state.stopped;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, TapeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sample(sampler: &mut Sampler, whole: bool) -> Vec<u8> {
    let mut text = Vec::new();
    sampler.sample(whole, &mut text);
    text
}

/// The time of the next sample, which is a multiple of the interval after the last one. Times that have
/// already passed, because the host was suspended or busy, are skipped.
fn next(last: Instant, interval: Duration, now: Instant) -> Instant {
    let due = last + interval;
    if due < now { now + interval } else { due }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Recording;

    #[test]
    fn what_is_taken_in_pieces_is_one_recording() {
        let options = SamplerOptions { interval: Duration::from_millis(40), ..SamplerOptions::default() };
        let recorder = Recorder::start(&options).unwrap();
        std::thread::sleep(Duration::from_millis(150));
        let mut bytes = recorder.take();
        bytes.extend(recorder.stop());
        let recording = Recording::parse(&bytes).unwrap();
        assert!((3..=6).contains(&recording.samples.len()), "{}", recording.samples.len());
        assert!(recording.seconds() >= 0.15, "{}", recording.seconds());
        assert_eq!(recording.about.interval, 0.04);
        for end in [recording.samples.first(), recording.samples.last()] {
            assert!(end.unwrap().texts.iter().any(|(kind, _)| kind == "cpu"), "the ends are whole");
        }
    }

    #[test]
    fn the_beat_is_even_and_misses_are_not_made_up_for() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(next(start, second, start + second / 2), start + second);
        assert_eq!(next(start, second, start + second * 9), start + second * 10);
    }
}
