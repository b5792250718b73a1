//! Tests of the pace on a simulated path.

use super::*;

const TICK: Duration = Duration::from_micros(50);
const BASE: Duration = Duration::from_micros(60);
/// A socket's buffer in bytes.
const BUFFER: f64 = 4e6;

/// A sender, a path with a queue before its slowest link, and a [`Pacer`].
struct World {
    begun: Instant,
    now: Duration,
    controller: Pacer,
    reported: [StreamReport; 3],
    /// The share of the data that each stream sends.
    shares: &'static [f64],
    /// The time at which the sender may continue.
    then: Duration,
    /// The bytes that wait in the socket and in the queue before the link.
    queue: f64,
    delivered: f64,
    /// The longest queue in the last second, in bytes.
    longest: f64,
}

/// The rates of the sender, the link and the other traffic, in bytes per second.
#[derive(Clone, Copy)]
struct Load {
    source: f64,
    link: f64,
    others_queue: Duration,
}

const FULL: Load = Load { source: 2e9, link: 1.2e9, others_queue: Duration::ZERO };

impl World {
    fn new() -> Self {
        let begun = Instant::now();
        Self {
            begun,
            now: Duration::ZERO,
            controller: Pacer::new(begun),
            reported: Default::default(),
            shares: &[1.0],
            then: Duration::ZERO,
            queue: 0.0,
            delivered: 0.0,
            longest: 0.0,
        }
    }

    /// Runs the simulation for `seconds` seconds; returns the rate at which data left the link, in bytes per
    /// second.
    fn run(&mut self, seconds: f64, load: Load) -> f64 {
        let (before, end) = (self.delivered, self.now + Duration::from_secs_f64(seconds));
        self.longest = 0.0;
        while self.now < end {
            self.now += TICK;
            if self.now >= self.then && self.queue < BUFFER {
                self.send(load);
            }
            let out = self.queue.min(load.link * TICK.as_secs_f64());
            self.queue -= out;
            self.delivered += out;
            if end - self.now < Duration::from_secs(1) {
                self.longest = self.longest.max(self.queue);
            }
        }
        (self.delivered - before) / seconds
    }

    fn send(&mut self, load: Load) {
        let bytes = load.source * TICK.as_secs_f64();
        let delay = Duration::from_secs_f64(self.queue / load.link) + load.others_queue;
        let now = self.begun + self.now;
        for (reported, share) in self.reported.iter_mut().zip(self.shares) {
            if self.controller.wants_to_know(reported, now) {
                let tcp = TcpInfo {
                    unsent: if self.queue > 3e6 { 1 } else { 0 },
                    rtt_us: (BASE + delay).as_micros() as u32,
                    min_rtt_us: BASE.as_micros() as u32,
                    acknowledged: (self.delivered * share) as u64,
                    ..TcpInfo::default()
                };
                self.controller.report(reported, &tcp, now);
            }
            let then = self.controller.book((bytes * share) as usize, now);
            self.then = then.saturating_duration_since(self.begun);
        }
        self.queue += bytes;
        if self.then.saturating_sub(self.now) < AHEAD {
            self.then = self.now;
        }
    }

    fn is_held(&self) -> bool {
        matches!(self.controller.state, PaceState::Held(_))
    }
}

#[test]
fn a_full_link_is_left_without_a_queue_and_nearly_full() {
    let mut world = World::new();
    world.run(1.0, FULL);
    assert!(world.is_held());
    let rate = world.run(1.0, FULL);
    assert!((0.98 * FULL.link..FULL.link).contains(&rate), "{rate}");
    assert!(world.longest < 1e6, "{} bytes", world.longest);
}

#[test]
fn a_link_that_takes_more_gets_more() {
    let mut world = World::new();
    world.run(5.0, Load { link: 0.6e9, ..FULL });
    world.run(LONGEST_HOLD.as_secs_f64(), FULL);
    let rate = world.run(2.0, FULL);
    assert!(rate > 0.97 * FULL.link, "{rate}");
}

#[test]
fn a_link_that_takes_less_is_left_without_a_queue_too() {
    let mut world = World::new();
    world.run(2.0, FULL);
    world.run(1.0, Load { link: 0.6e9, ..FULL });
    assert!(world.is_held());
    let rate = world.run(1.0, Load { link: 0.6e9, ..FULL });
    assert!((0.58e9..0.6e9).contains(&rate), "{rate}");
    assert!(world.longest < 1e6, "{} bytes", world.longest);
}

#[test]
fn to_try_more_neither_fills_the_queue_nor_loses_rate() {
    let mut world = World::new();
    world.run(1.0, FULL);
    for _ in 0..30 {
        let rate = world.run(1.0, FULL);
        assert!(rate > 0.985 * FULL.link, "{rate}");
        assert!(world.longest < 0.01 * FULL.link, "{} bytes", world.longest);
    }
}

#[test]
fn what_the_source_limits_is_never_held() {
    let mut world = World::new();
    for _ in 0..100 {
        world.run(0.1, Load { source: 0.9e9, others_queue: Duration::from_micros(400), ..FULL });
        assert!(!world.is_held());
    }
}

#[test]
fn several_streams_are_measured_as_one() {
    let mut world = World { shares: &[0.6, 0.3, 0.1], ..World::new() };
    world.run(1.0, FULL);
    assert!(world.is_held());
    for _ in 0..20 {
        let rate = world.run(1.0, FULL);
        assert!(world.is_held() && rate > 0.985 * FULL.link, "{rate}");
    }
}

#[test]
fn a_slow_path_is_left_alone() {
    let mut world = World::new();
    for _ in 0..50 {
        world.run(0.1, Load { link: 20e6, ..FULL });
        assert!(!world.is_held());
    }
}

#[test]
fn others_queue_is_no_reason_to_give_way() {
    let mut world = World::new();
    for others_queue in [5, 100].map(Duration::from_millis) {
        let shared = Load { source: 0.5e9, others_queue, ..FULL };
        let rate = world.run(30.0, shared);
        assert!(rate > 0.975 * shared.source, "{rate}");
    }
}

#[test]
fn what_more_streams_win_is_found_at_once() {
    let mut world = World::new();
    world.run(1.5, FULL);
    assert!(world.is_held());
    world.shares = &[0.5, 0.5];
    let more = Load { link: 1.5 * FULL.link, ..FULL };
    world.run(1.0, more);
    let rate = world.run(1.0, more);
    assert!(rate > 0.97 * more.link, "{rate}");
}

#[test]
fn a_rate_that_was_measured_too_high_comes_down() {
    let mut world = World::new();
    let last = 1.01 / BELOW * FULL.link;
    world.controller.think_of_holding(last, last, world.begun, Some(Duration::ZERO));
    world.run(1.0, FULL);
    let rate = world.run(0.5, FULL);
    assert!(world.is_held() && (0.98 * FULL.link..FULL.link).contains(&rate), "{rate}");
}
