use super::*;
use std::collections::VecDeque;

/// Bytes of a payload. The next constants are the bytes of the socket's buffer, of one send, and of the
/// compressor's queue.
const PAYLOAD: u64 = 128 << 10;
const BUFFER: f64 = 1e6;
const AT_ONCE: f64 = 32768.0;
const QUEUE: f64 = 8e6;
const STEP: f64 = 0.0005;

/// A stream in simulated time. `own` and `first` are seconds per byte: for reading and encrypting, and for
/// the lowest level in each of two threads. `rate` is the connection's rate in bytes per second. `part` is
/// the share of the bytes that the lowest level leaves.
struct Simulated {
    controller: CompressionController,
    times: StreamTimes,
    own: f64,
    first: f64,
    rate: f64,
    part: f64,
    /// Bytes in the socket's buffer.
    waiting: f64,
    /// The payloads in the compressor: their bytes, and the indices of their levels. `ready` are the
    /// compressed bytes that can be sent.
    queue: VecDeque<(f64, usize)>,
    ready: f64,
    so_far: Packed,
}

impl Simulated {
    fn new(wanted: CompressionLevel, rate: f64, part: f64) -> Self {
        Self {
            controller: CompressionController::new(wanted, Processors { threads: 2, quota: None }),
            times: StreamTimes::default(),
            own: 0.5e-9,
            first: 3.0e-9,
            rate,
            part,
            waiting: 0.0,
            queue: VecDeque::new(),
            ready: 0.0,
            so_far: Packed::default(),
        }
    }

    fn passes(&mut self, seconds: f64) {
        self.times.busy += Duration::from_secs_f64(seconds);
        self.waiting = (self.waiting - seconds * self.rate).max(0.0);
        let mut left = seconds * 2.0;
        while let Some((bytes, rung)) = self.queue.front_mut() {
            let each = self.first * RUNGS[*rung].time;
            let done = bytes.min(left / each);
            left -= done * each;
            *bytes -= done;
            self.so_far.plain += done as u64;
            let packed = done * self.part * RUNGS[*rung].size;
            self.ready += packed;
            self.so_far.packed += packed as u64;
            if *bytes > 0.0 {
                return;
            }
            self.queue.pop_front();
        }
    }

    fn send(&mut self) -> Option<u8> {
        self.passes(self.own * PAYLOAD as f64);
        self.times.plain += PAYLOAD;
        let is_packing = self.controller.is_packing;
        if self.controller.choose(&self.times, self.so_far) == PackingChoice::Probe
            || is_packing && self.part > DULL
        {
            self.probe();
        }
        let PackingChoice::Pack(level) = self.controller.choose(&self.times, self.so_far) else {
            self.finish();
            self.socket(PAYLOAD as f64);
            return None;
        };
        let rung = RUNGS.iter().rposition(|rung| rung.level <= level).unwrap_or(0);
        self.queue.push_back((PAYLOAD as f64, rung));
        self.so_far.taken += PAYLOAD;
        while self.queue.iter().map(|(bytes, _)| bytes).sum::<f64>() > QUEUE {
            self.compresses();
        }
        if self.ready >= AT_ONCE {
            self.send_ready();
        }
        Some(level)
    }

    fn probe(&mut self) {
        let seconds = self.first * 16384.0;
        self.passes(seconds);
        self.times.compress += Duration::from_secs_f64(seconds);
        self.controller.probed(Probed { part: self.part, each: self.first }, &self.times);
    }

    fn compresses(&mut self) {
        self.passes(STEP);
        self.times.compress += Duration::from_secs_f64(STEP);
        if self.ready >= AT_ONCE {
            self.send_ready();
        }
    }

    fn finish(&mut self) {
        while !self.queue.is_empty() {
            self.compresses();
        }
        self.send_ready();
    }

    fn send_ready(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        self.socket(ready);
    }

    fn socket(&mut self, bytes: f64) {
        self.times.wire += bytes as u64;
        self.waiting += bytes;
        let wait = ((self.waiting - BUFFER) / self.rate).max(0.0);
        self.passes(wait);
        self.times.wait += Duration::from_secs_f64(wait);
    }

    /// Continues the simulation for `seconds` seconds. Returns the rate in payload bytes per second, and the
    /// share of the payload that was compressed.
    fn run(&mut self, seconds: f64) -> (f64, f64) {
        let (begun, mut packed, mut all) = (self.times, 0.0, 0.0);
        while self.times.since(&begun).busy.as_secs_f64() < seconds {
            packed += f64::from(u8::from(self.send().is_some()));
            all += 1.0;
        }
        let passed = self.times.since(&begun);
        (passed.plain as f64 / passed.busy.as_secs_f64(), packed / all)
    }
}

#[test]
fn a_slow_link_brings_a_multiple_by_the_level_that_it_leaves_time_for() {
    let mut slow = Simulated::new(CompressionLevel::Auto, 12.5e6, 0.12);
    slow.run(1.0);
    let (rate, packed) = slow.run(10.0);
    // For each level: the payload rate that the link permits, or that the threads can compress, whichever is
    // lower.
    let best = RUNGS.iter().map(|rung| (12.5e6 / (0.12 * rung.size)).min(2.0 / (3.0e-9 * rung.time)));
    let best = best.fold(0.0, f64::max);
    assert!(rate > 0.95 * best && packed == 1.0, "{rate} of {best}, {packed}");
}

#[test]
fn the_level_fits_within_tenths_of_a_second_and_stays_there() {
    for (rate, least) in [(1.25e6, 12), (12.5e6, 6), (60e6, 3)] {
        let mut slow = Simulated::new(CompressionLevel::Always, rate, 0.2);
        slow.run(0.6);
        let mut levels = Vec::new();
        for _ in 0..40 {
            slow.run(0.1);
            levels.push(slow.controller.level());
        }
        let low = levels.iter().filter(|level| **level < least).count();
        assert!(low <= 8, "{rate}: {levels:?}");
    }
}

#[test]
fn an_automatic_beginning_is_by_no_level_that_the_threads_have_no_time_for() {
    for rate in [1.25e6, 12.5e6, 30e6, 60e6, 100e6] {
        let mut link = Simulated::new(CompressionLevel::Auto, rate, 0.3);
        while link.send().is_none() {
            assert!(link.times.busy < Duration::from_secs(2), "{rate}");
        }
        let time = RUNGS[link.controller.rung].time;
        let path = rate / (0.3 * RUNGS[link.controller.rung].size);
        assert!(path * 3.0e-9 * time / 2.0 < 0.6, "{rate}: {}", link.controller.level());
    }
}

#[test]
fn processors_that_are_taken_away_make_the_level_fall() {
    let mut link = Simulated::new(CompressionLevel::Always, 12.5e6, 0.12);
    link.run(3.0);
    let before = link.controller.rung;
    link.first *= 3.0;
    link.run(2.0);
    let (rate, _) = link.run(5.0);
    assert!(link.controller.rung < before);
    assert!(rate > 0.9 * 12.5e6 / 0.12, "{rate}");
}

/// The measured times mean nothing under a CPU quota, so the quota itself limits the level.
#[test]
fn a_quota_bounds_the_level() {
    for (quota, most) in [(0.25, 1), (0.5, 3), (1.0, 6), (8.0, 9)] {
        let mut link = Simulated::new(CompressionLevel::Always, 12.5e6, 0.2);
        link.controller.processors.quota = Some(quota);
        link.run(3.0);
        assert!(link.controller.level() <= most, "{quota}: {}", link.controller.level());
        assert!(quota < 1.0 || link.controller.level() >= 3, "{quota}: {}", link.controller.level());
    }
}

#[test]
fn a_link_that_is_faster_than_the_compressor_is_left_alone() {
    for rate in [400e6, 600e6, 1.2e9, 1e12] {
        let mut fast = Simulated::new(CompressionLevel::Auto, rate, 0.2);
        let (_, packed) = fast.run(30.0);
        assert_eq!(packed, 0.0, "{rate}");
        assert!(fast.times.compress.as_secs_f64() < 0.001 * 30.0, "{rate}: {:?}", fast.times.compress);
    }
}

#[test]
fn what_does_not_become_smaller_costs_a_thousandth_at_most() {
    for rate in [1.25e6, 12.5e6, 125e6, 1.2e9] {
        let mut dull = Simulated::new(CompressionLevel::Auto, rate, 1.0);
        let (_, packed) = dull.run(10.0);
        assert_eq!(packed, 0.0, "{rate}");
        assert!(dull.times.compress.as_secs_f64() < 0.001 * 10.0, "{rate}: {:?}", dull.times.compress);
    }
}

#[test]
fn compression_ends_within_milliseconds_of_such_bytes_and_comes_back_with_others() {
    let mut mixed = Simulated::new(CompressionLevel::Auto, 12.5e6, 0.12);
    mixed.run(2.0);
    for _ in 0..5 {
        mixed.part = 1.0;
        mixed.controller.begin();
        let begun = mixed.times.plain;
        while mixed.send().is_some() {}
        assert!(mixed.times.plain - begun <= 2 * PAYLOAD);
        mixed.run(0.3);
        mixed.part = 0.12;
        mixed.controller.begin();
        let begun = mixed.times.busy;
        while mixed.send().is_none() {}
        let passed = mixed.times.busy - begun;
        assert!(passed < Duration::from_millis(50), "{passed:?}");
        let (rate, _) = mixed.run(1.0);
        assert!(rate > 60e6, "{rate}");
    }
}

#[test]
fn a_link_that_becomes_fast_is_left_alone_then() {
    let mut link = Simulated::new(CompressionLevel::Auto, 12.5e6, 0.2);
    link.run(2.0);
    link.rate = 1e9;
    link.run(2.0);
    let (rate, packed) = link.run(10.0);
    assert!(packed < 0.1 && rate > 0.9e9, "{rate} {packed}");
}

#[test]
fn whoever_wants_it_always_has_it_on_any_link() {
    let mut always = Simulated::new(CompressionLevel::Always, 1e9, 0.2);
    assert_eq!(always.run(1.0).1, 1.0);
    let mut fixed = Simulated::new(CompressionLevel::Fixed(9), 1e9, 0.2);
    assert_eq!((fixed.run(1.0).1, fixed.send()), (1.0, Some(9)));
    let mut off = Simulated::new(CompressionLevel::Off, 1e5, 0.2);
    assert_eq!(off.run(5.0).1, 0.0);
    let mut dull = Simulated::new(CompressionLevel::Always, 1e9, 1.0);
    assert_eq!(dull.run(1.0).1, 0.0);
}

#[test]
fn the_level_stays_while_the_connection_has_enough_to_send() {
    for (waiting, falls) in [(3_000_000, false), (0, true)] {
        let mut slow = Simulated::new(CompressionLevel::Always, 12.5e6, 0.12);
        slow.run(3.0);
        let level = slow.controller.level();
        for _ in 0..5 {
            slow.times.busy += Duration::from_millis(200);
            slow.times.compress += Duration::from_millis(180);
            slow.times.plain += 20_000_000;
            slow.times.wire += 2_500_000;
            let plain = slow.times.plain;
            let so_far = Packed { taken: plain, plain, packed: plain / 8, waiting };
            slow.controller.choose(&slow.times, so_far);
        }
        assert_eq!(slow.controller.level() < level, falls, "{waiting}: {level}");
    }
}

#[test]
fn what_waits_is_what_the_connection_takes_in_a_moment() {
    let mut slow = Simulated::new(CompressionLevel::Always, 1.25e6, 0.12);
    assert_eq!(slow.controller.most_waiting(), 0.0);
    slow.run(3.0);
    let most = slow.controller.most_waiting();
    assert!(most > 0.2 * 1.25e6 && most < 1.25e6, "{most}");
    let mut fast = Simulated::new(CompressionLevel::Always, 1.25e9, 0.12);
    fast.run(3.0);
    assert!(fast.controller.most_waiting() <= MOST_AHEAD);
}
