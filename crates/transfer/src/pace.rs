//! A rate a little below what the path takes.
//!
//! A sender that fills a link keeps a queue standing before it. The queue brings no byte sooner: it delays everybody
//! who shares the link, and wakes both ends for each packet that leaves it. So where the rate stands still, and round
//! trips tell of a queue that does too, the sender lets it run empty and goes on a little more slowly. Every few
//! seconds it lets go, and sees whether the path takes more by then.

use linerate_sys::tcp::TcpInfo;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::rate::{Schedule, sleep_until};

/// How long a rate is measured, at least, and over how many bytes: fewer come in too few pieces.
const INTERVAL: Duration = Duration::from_millis(100);
const MEASURED: usize = 4 << 20;
/// Two rates that differ by no more than this part stand still.
const STILL: f64 = 0.015;
/// The part of what was measured that is held, so that the path's queue stays empty.
const BELOW: f64 = 0.998;
/// The part of that at which it goes on, where the queue doesn't run empty: the rate was measured too high.
const LOWER: f64 = 0.996;
/// A rate below this part of the one that is held is not held by it: the source, or the path, has become slower.
const FALLEN: f64 = 0.97;
/// How much longer than the shortest a round trip is with a queue before it: by this part, and at least by this time, which
/// a busy host may take.
const QUEUED: (f64, Duration) = (0.25, Duration::from_micros(500));
/// The same where more waits in the socket, too.
const QUEUED_AND_WAITING: (f64, Duration) = (0.25, Duration::from_micros(150));
/// Intervals in a row with a queue though a rate is held: then that rate is too high.
const NOT_DRAINED: u32 = 2;
/// How often a rate is lowered before the queue must be others'.
const LOWERED: u32 = 4;
/// How long a rate is held, at first; each time that the path takes no more twice as long, up to the most.
const HOLD: Duration = Duration::from_secs(2);
const LONGEST_HOLD: Duration = Duration::from_secs(8);
/// Two rates that differ by no more than this part are the same path's.
const SAME: f64 = 0.02;
/// How long nothing is held where a queue turned out to be others'.
const OTHERS: Duration = Duration::from_secs(3);
/// Time that may be booked ahead without sleeping: fewer wakeups, and less than the queue that is avoided.
const AHEAD: Duration = Duration::from_micros(200);

/// Holds back the streams of one sender together.
pub struct Pace(Mutex<Controller>);

impl Pace {
    /// Nothing is held yet.
    pub fn new() -> Self {
        Self(Mutex::new(Controller::new(Instant::now())))
    }

    /// Waits until `bytes` should be sent, or `stop` says to give up; true where a rate is held. `tcp` is asked for a few times
    /// a second.
    pub fn take(&self, bytes: usize, tcp: impl FnOnce() -> Option<TcpInfo>, stop: impl Fn() -> bool) -> bool {
        let now = Instant::now();
        let mut controller = lock(&self.0);
        let then = controller.book(bytes, now, || tcp().map(|info| Path::of(&info)));
        let is_held = matches!(controller.state, State::Held(_));
        drop(controller);
        if then.saturating_duration_since(now) >= AHEAD {
            sleep_until(then, stop);
        }
        is_held
    }

    /// Lets go for a while, in which it is tried out what the path takes.
    pub fn let_go(&self, time: Duration) {
        lock(&self.0).rest(Instant::now(), time);
    }
}

/// Times of a round trip.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// More waits in the socket than the path takes.
    waits: bool,
    now: Duration,
    shortest: Duration,
}

impl Path {
    fn of(info: &TcpInfo) -> Self {
        let [now, shortest] = [info.rtt_us, info.min_rtt_us].map(|us| Duration::from_micros(us.into()));
        Self { waits: info.unsent > 0, now, shortest }
    }

    fn queue(self) -> Duration {
        self.now.saturating_sub(self.shortest)
    }

    fn is_queued(self) -> bool {
        let (part, least) = if self.waits { QUEUED_AND_WAITING } else { QUEUED };
        !self.shortest.is_zero() && self.queue() >= least.max(self.shortest.mul_f64(part))
    }
}

/// Decides by what is booked. It has no clock of its own, so it can be tested in simulated time.
struct Controller {
    state: State,
    since: Instant,
    bytes: usize,
    schedule: Schedule,
    /// The rate that was held last, in bytes a second.
    held: f64,
    hold: Duration,
    rested: Instant,
}

#[derive(Clone, Copy)]
enum State {
    /// All may go at once; the last interval's rate in bytes a second.
    Free { last: f64 },
    /// Only so much may go.
    Held(Held),
}

#[derive(Clone, Copy)]
struct Held {
    /// Bytes a second.
    rate: f64,
    until: Instant,
    /// Intervals in a row with a queue.
    queued: u32,
    lowered: u32,
}

impl Controller {
    fn new(now: Instant) -> Self {
        let state = State::Free { last: 0.0 };
        Self { state, since: now, bytes: 0, schedule: Schedule::new(now), held: 0.0, hold: HOLD, rested: now }
    }

    /// When `bytes` may go.
    fn book(&mut self, bytes: usize, now: Instant, path: impl FnOnce() -> Option<Path>) -> Instant {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= INTERVAL && self.bytes >= MEASURED {
            let rate = self.bytes as f64 / elapsed.as_secs_f64();
            (self.since, self.bytes) = (now, 0);
            self.judge(rate, now, path());
        }
        self.bytes += bytes;
        match self.state {
            State::Free { .. } => now,
            State::Held(Held { rate, .. }) => self.schedule.book(bytes, rate, now),
        }
    }

    fn judge(&mut self, seen: f64, now: Instant, path: Option<Path>) {
        let queued = path.filter(|path| path.is_queued());
        match self.state {
            State::Free { last } => match queued {
                Some(path) if now >= self.rested && (seen - last).abs() <= STILL * seen => {
                    self.begin(f64::midpoint(seen, last) * BELOW, now, path.queue());
                }
                _ => self.state = State::Free { last: seen },
            },
            State::Held(held) if seen < held.rate * FALLEN || now >= held.until => {
                self.rest(now, Duration::ZERO)
            }
            State::Held(held) => match queued {
                None => self.state = State::Held(Held { queued: 0, ..held }),
                Some(path) => self.lower(Held { queued: held.queued + 1, ..held }, now, path.queue()),
            },
        }
    }

    /// Begins to hold, behind the time in which the queue runs empty.
    fn begin(&mut self, rate: f64, now: Instant, queue: Duration) {
        let is_same = (rate - self.held).abs() <= SAME * rate;
        self.hold = if is_same { LONGEST_HOLD.min(self.hold * 2) } else { HOLD };
        let held = Held { rate, until: now + self.hold, queued: 0, lowered: 0 };
        self.hold_at(held, now, queue);
    }

    /// Goes on more slowly where the queue doesn't run empty.
    fn lower(&mut self, held: Held, now: Instant, queue: Duration) {
        if held.queued < NOT_DRAINED {
            self.state = State::Held(held);
        } else if held.lowered < LOWERED {
            let held = Held { rate: held.rate * LOWER, queued: 0, lowered: held.lowered + 1, ..held };
            self.hold_at(held, now, queue);
        } else {
            self.rest(now, OTHERS);
        }
    }

    fn hold_at(&mut self, held: Held, now: Instant, queue: Duration) {
        self.held = held.rate;
        self.since = now + queue.min(INTERVAL);
        self.schedule.begin_at(self.since);
        self.state = State::Held(held);
    }

    fn rest(&mut self, now: Instant, time: Duration) {
        self.state = State::Free { last: 0.0 };
        self.rested = now + time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_micros(50);
    const BASE: Duration = Duration::from_micros(60);
    /// What a socket holds, in bytes.
    const BUFFER: f64 = 4e6;

    /// A sender, a path with a queue before its slowest link, and a [`Controller`].
    struct World {
        begun: Instant,
        now: Duration,
        controller: Controller,
        /// When the sender may go on.
        then: Duration,
        /// Bytes in the socket and before the link.
        queue: f64,
        delivered: f64,
        /// The longest queue of the last second, in bytes.
        longest: f64,
    }

    /// What the sender could send, what the link takes, and what others send, in bytes a second.
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
                controller: Controller::new(begun),
                then: Duration::ZERO,
                queue: 0.0,
                delivered: 0.0,
                longest: 0.0,
            }
        }

        /// Runs for so many seconds; returns the rate that came out of the link, in bytes a second.
        fn run(&mut self, seconds: f64, load: Load) -> f64 {
            let (before, end) = (self.delivered, self.now + Duration::from_secs_f64(seconds));
            self.longest = 0.0;
            while self.now < end {
                self.now += STEP;
                if self.now >= self.then && self.queue < BUFFER {
                    self.send(load);
                }
                let out = self.queue.min(load.link * STEP.as_secs_f64());
                self.queue -= out;
                self.delivered += out;
                if end - self.now < Duration::from_secs(1) {
                    self.longest = self.longest.max(self.queue);
                }
            }
            (self.delivered - before) / seconds
        }

        fn send(&mut self, load: Load) {
            let bytes = load.source * STEP.as_secs_f64();
            let delay = Duration::from_secs_f64(self.queue / load.link) + load.others_queue;
            let path = Path { waits: self.queue > 3e6, now: BASE + delay, shortest: BASE };
            let then = self.controller.book(bytes as usize, self.begun + self.now, || Some(path));
            let then = then.saturating_duration_since(self.begun);
            self.queue += bytes;
            self.then = if then.saturating_sub(self.now) >= AHEAD { then } else { self.now };
        }

        fn is_held(&self) -> bool {
            matches!(self.controller.state, State::Held(_))
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
    fn what_the_source_limits_is_never_held() {
        let mut world = World::new();
        for _ in 0..100 {
            world.run(0.1, Load { source: 0.9e9, ..FULL });
            assert!(!world.is_held());
        }
    }

    #[test]
    fn others_queue_is_no_reason_to_give_way() {
        let mut world = World::new();
        let shared = Load { source: 0.5e9, others_queue: Duration::from_millis(5), ..FULL };
        let rate = world.run(30.0, shared);
        assert!(rate > 0.985 * shared.source, "{rate}");
    }

    #[test]
    fn while_it_is_tried_out_what_the_path_takes_nothing_is_held() {
        let mut world = World::new();
        world.run(1.0, FULL);
        world.controller.rest(world.begun + world.now, Duration::from_secs(1));
        world.run(0.9, FULL);
        assert!(!world.is_held());
        world.run(0.5, FULL);
        assert!(world.is_held());
    }

    #[test]
    fn a_rate_that_was_measured_too_high_comes_down() {
        let mut world = World::new();
        let held = Held { rate: 1.01 * FULL.link, until: world.begun + HOLD, queued: 0, lowered: 0 };
        world.controller.state = State::Held(held);
        world.run(1.0, FULL);
        let rate = world.run(0.5, FULL);
        assert!(world.is_held() && (0.98 * FULL.link..FULL.link).contains(&rate), "{rate}");
    }
}
