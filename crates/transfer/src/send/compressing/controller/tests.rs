use super::*;

/// Bytes of a payload, and of the socket's buffer.
const PAYLOAD: u64 = 128 << 10;
const BUFFER: f64 = 1e6;

/// A stream in simulated time: seconds a byte for reading and encrypting, and for the first level; the connection's bytes a
/// second; the part of its bytes that the first level leaves.
struct Simulated {
    controller: CompressionController,
    times: StreamTimes,
    own: f64,
    first: f64,
    rate: f64,
    part: f64,
    /// Bytes in the socket.
    waiting: f64,
}

impl Simulated {
    fn new(wanted: CompressionLevel, rate: f64, part: f64) -> Self {
        let controller = CompressionController::new(wanted);
        Self {
            controller,
            times: StreamTimes::default(),
            own: 0.5e-9,
            first: 2.2e-9,
            rate,
            part,
            waiting: 0.0,
        }
    }

    fn passes(&mut self, seconds: f64) {
        self.times.busy += Duration::from_secs_f64(seconds);
        self.waiting = (self.waiting - seconds * self.rate).max(0.0);
    }

    fn compresses(&mut self, seconds: f64) {
        self.passes(seconds);
        self.times.compress += Duration::from_secs_f64(seconds);
    }

    fn send(&mut self) -> Option<u8> {
        self.passes(self.own * PAYLOAD as f64);
        if self.controller.choose(&self.times) == PackingChoice::Probe {
            self.compresses(self.first * 16384.0);
            self.controller.probed(self.part, self.first, &self.times);
        }
        let PackingChoice::Pack(level) = self.controller.choose(&self.times) else {
            self.socket(PAYLOAD as f64);
            return None;
        };
        let rung = RUNGS.iter().rev().find(|rung| rung.level <= level).unwrap_or(&RUNGS[0]);
        self.compresses(self.first * rung.time * PAYLOAD as f64);
        let part = if self.part > DULL { self.part } else { self.part * rung.size };
        self.controller.packed(part, &self.times);
        self.socket(part * PAYLOAD as f64);
        Some(level)
    }

    fn socket(&mut self, bytes: f64) {
        (self.times.plain, self.times.wire) = (self.times.plain + PAYLOAD, self.times.wire + bytes as u64);
        self.waiting += bytes;
        let wait = ((self.waiting - BUFFER) / self.rate).max(0.0);
        self.passes(wait);
        self.times.wait += Duration::from_secs_f64(wait);
    }

    /// Runs on for a time; payload bytes a second, and the part of them that was compressed.
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
    let mut slow = Simulated::new(CompressionLevel::Auto, 12.5e6, 0.2);
    slow.run(1.0);
    let (rate, packed) = slow.run(10.0);
    // The first level would bring 62 MB/s; the ninth as much as it can compress in a second.
    assert!(rate > 80e6 && packed == 1.0, "{rate} {packed}");
    assert!(slow.controller.level() >= 6);
    let mut slower = Simulated::new(CompressionLevel::Auto, 1.25e6, 0.2);
    slower.run(5.0);
    assert_eq!(slower.controller.level(), 9);
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
    let mut mixed = Simulated::new(CompressionLevel::Auto, 12.5e6, 0.2);
    mixed.run(2.0);
    for _ in 0..5 {
        mixed.part = 1.0;
        mixed.controller.begin();
        let begun = mixed.times.plain;
        while mixed.send().is_some() {}
        assert!(mixed.times.plain - begun <= 2 * PAYLOAD);
        mixed.run(0.3);
        mixed.part = 0.2;
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
