//! A rate a little below what the path takes.
//!
//! A sender that fills a link keeps a queue standing before it. The queue brings no byte sooner: it delays everybody
//! who shares the link, and wakes both ends for each packet that leaves it. So where the rate stands still, and round
//! trips tell of a queue that does too, the sender lets it run empty and goes on a little more slowly. Every few
//! seconds it tries, step by step, whether the path takes more by then: who lets go at once fills the queue with all that
//! congestion control has saved up, and loses much of it.

use linerate_sys::tcp::TcpInfo;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::rate::{Schedule, sleep_until};
use crate::stream::DATA_FRAME;

/// How long a rate is measured, at least: so long, so many round trips, and so many bytes. Fewer come in too few pieces.
const INTERVAL: Duration = Duration::from_millis(100);
const ROUND_TRIPS: u32 = 4;
const MEASURED: u64 = 4 << 20;
/// Two rates that differ by no more than this part stand still.
const STILL: f64 = 0.01;
/// The part of what is acknowledged that is held as payload, so that the path's queue stays empty: 0.2 % are records and frames.
const BELOW: f64 = 0.996;
/// The part of that at which it goes on, where the queue doesn't run empty: the rate was measured too high.
const LOWER: f64 = 0.996;
/// A rate that is below this part of the one that is held in two intervals in a row is not held by it: the source, or the
/// path, has become slower.
const FALLEN: f64 = 0.97;
/// How much longer than the shortest a round trip is with a queue before it: by this part, and at least by this time, which
/// a busy host may take.
const QUEUED: (f64, Duration) = (0.25, Duration::from_micros(500));
/// The same where more waits in the socket, too.
const QUEUED_AND_WAITING: (f64, Duration) = (0.25, Duration::from_micros(150));
/// The same in bytes at the rate: each of two streams sends a frame at once.
const OWN_BURST: f64 = 2.0 * DATA_FRAME as f64;
/// Intervals in a row with a queue though a rate is held: then that rate is too high.
const NOT_DRAINED: u32 = 2;
/// How often a rate is lowered before the queue must be others'.
const LOWERED: u32 = 4;
/// How long a rate is held before more is tried, at first; each time that the path takes no more twice as long, up to the
/// most.
const HOLD: Duration = Duration::from_secs(2);
const LONGEST_HOLD: Duration = Duration::from_secs(8);
/// By what part more is tried, at first; each step that goes well is twice as large.
const STEP: f64 = 0.005;
/// Where so many steps went well the path has changed, and its rate is measured anew.
const CHANGED: i32 = 3;
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

    /// Waits until a stream should send `bytes`, or `stop` says to give up; true where a rate is held. `tcp` is asked for a few
    /// times a second, and `told` is the stream's own.
    pub fn take(
        &self,
        told: &mut Told,
        bytes: usize,
        tcp: impl FnOnce() -> Option<TcpInfo>,
        stop: impl Fn() -> bool,
    ) -> bool {
        let now = Instant::now();
        let mut controller = lock(&self.0);
        if controller.wants_to_know(told, now) {
            controller.tell(told, &tcp().unwrap_or_default(), now);
        }
        let then = controller.book(bytes, now);
        let is_held = matches!(controller.state, State::Held(_));
        drop(controller);
        if then.saturating_duration_since(now) >= AHEAD {
            sleep_until(then, stop);
        }
        is_held
    }

    /// Tries now whether the path takes more, as it may with more streams.
    pub fn try_more(&self) {
        if let State::Held(held) = &mut lock(&self.0).state {
            held.steps = held.steps.max(1);
        }
    }

    /// Whether it is being tried.
    pub fn is_trying(&self) -> bool {
        matches!(lock(&self.0).state, State::Held(held) if held.steps > 0)
    }
}

/// What a stream has told.
#[derive(Default)]
pub struct Told {
    /// In which interval it did last.
    interval: u64,
    /// Bytes that had been acknowledged by then.
    acknowledged: u64,
}

/// What TCP knows of the path.
#[derive(Clone, Copy)]
struct Path {
    /// More waits in the socket than the path takes.
    waits: bool,
    /// The round trip now,
    now: Duration,
    /// and the shortest one.
    shortest: Duration,
}

impl Path {
    fn of(tcp: &TcpInfo) -> Self {
        let [now, shortest] = [tcp.rtt_us, tcp.min_rtt_us].map(|us| Duration::from_micros(us.into()));
        Self { waits: tcp.unsent > 0, now, shortest }
    }

    fn queue(self) -> Duration {
        self.now.saturating_sub(self.shortest)
    }

    /// Whether a queue stands that isn't our own burst at this rate, in bytes a second.
    fn is_queued(self, rate: f64) -> bool {
        let (part, least) = if self.waits { QUEUED_AND_WAITING } else { QUEUED };
        let burst = Duration::from_secs_f64(OWN_BURST / rate);
        !self.shortest.is_zero() && self.queue() >= least.max(self.shortest.mul_f64(part)).max(burst)
    }
}

/// Decides by what is acknowledged. It has no clock of its own, so it can be tested in simulated time.
struct Controller {
    state: State,
    interval: u64,
    /// When the interval began, and how long it is at least.
    since: Instant,
    least: Duration,
    /// Bytes acknowledged in it, as far as its streams have told.
    acknowledged: u64,
    schedule: Schedule,
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
    /// The last interval's rate was too low to be held.
    has_fallen: bool,
    hold: Duration,
    /// How many steps above the rate are tried; none while it is held.
    steps: i32,
}

impl Held {
    /// Bytes a second that may go now.
    fn now(&self) -> f64 {
        self.after(self.steps)
    }

    fn after(&self, steps: i32) -> f64 {
        self.rate * (1.0 + STEP * (2_f64.powi(steps) - 1.0))
    }
}

impl Controller {
    fn new(now: Instant) -> Self {
        let state = State::Free { last: 0.0 };
        let schedule = Schedule::new(now);
        Self { state, interval: 1, since: now, least: INTERVAL, acknowledged: 0, schedule, rested: now }
    }

    /// Each stream tells once in an interval, and whoever finds that it is over.
    fn wants_to_know(&self, told: &Told, now: Instant) -> bool {
        told.interval < self.interval || now.saturating_duration_since(self.since) >= self.least
    }

    fn tell(&mut self, told: &mut Told, tcp: &TcpInfo, now: Instant) {
        self.acknowledged += tcp.acknowledged.saturating_sub(told.acknowledged);
        *told = Told { interval: self.interval, acknowledged: tcp.acknowledged };
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= self.least && self.acknowledged >= MEASURED {
            let rate = self.acknowledged as f64 / elapsed.as_secs_f64();
            (self.since, self.acknowledged) = (now, 0);
            self.interval += 1;
            told.interval = self.interval;
            let path = Path::of(tcp);
            self.least = INTERVAL.max(path.now * ROUND_TRIPS);
            self.judge(rate, now, path);
        }
    }

    /// When `bytes` may go.
    fn book(&mut self, bytes: usize, now: Instant) -> Instant {
        match self.state {
            State::Free { .. } => now,
            State::Held(held) => self.schedule.book(bytes, held.now(), now),
        }
    }

    fn judge(&mut self, seen: f64, now: Instant, path: Path) {
        let queued = Some(path).filter(|path| path.is_queued(seen));
        match self.state {
            State::Free { last } => match queued {
                Some(path) if now >= self.rested && (seen - last).abs() <= STILL * seen => {
                    self.begin(f64::midpoint(seen, last) * BELOW, now, path.queue());
                }
                _ => self.state = State::Free { last: seen },
            },
            State::Held(held) if held.steps > 0 => self.try_more(held, seen, now, queued),
            State::Held(held) => {
                let has_fallen = seen < held.rate * FALLEN;
                match queued {
                    _ if has_fallen && held.has_fallen => self.rest(now, Duration::ZERO),
                    Some(path) => {
                        self.lower(Held { queued: held.queued + 1, has_fallen, ..held }, now, path.queue());
                    }
                    None => {
                        let steps = i32::from(now >= held.until);
                        self.state = State::Held(Held { queued: 0, has_fallen, steps, ..held });
                    }
                }
            }
        }
    }

    /// Begins to hold, behind the time in which the queue runs empty.
    fn begin(&mut self, rate: f64, now: Instant, queue: Duration) {
        let held =
            Held { rate, until: now + HOLD, hold: HOLD, queued: 0, lowered: 0, has_fallen: false, steps: 0 };
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

    /// Takes the next step where the last one went well, and else the one before it back.
    fn try_more(&mut self, held: Held, seen: f64, now: Instant, queued: Option<Path>) {
        if queued.is_none() && seen >= held.after(held.steps - 1) {
            self.state = State::Held(Held { steps: held.steps + 1, ..held });
        } else if held.steps > CHANGED {
            self.rest(now, Duration::ZERO);
        } else {
            let hold = LONGEST_HOLD.min(held.hold * 2);
            let rate = held.after((held.steps - 2).max(0));
            let held =
                Held { rate, until: now + hold, hold, queued: 0, lowered: 0, has_fallen: false, steps: 0 };
            self.hold_at(held, now, queued.map_or(Duration::ZERO, Path::queue));
        }
    }

    fn hold_at(&mut self, held: Held, now: Instant, queue: Duration) {
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

    const TICK: Duration = Duration::from_micros(50);
    const BASE: Duration = Duration::from_micros(60);
    /// What a socket holds, in bytes.
    const BUFFER: f64 = 4e6;

    /// A sender, a path with a queue before its slowest link, and a [`Controller`].
    struct World {
        begun: Instant,
        now: Duration,
        controller: Controller,
        told: Told,
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
                told: Told::default(),
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
            if self.controller.wants_to_know(&self.told, now) {
                let tcp = TcpInfo {
                    unsent: if self.queue > 3e6 { 1 } else { 0 },
                    rtt_us: (BASE + delay).as_micros() as u32,
                    min_rtt_us: BASE.as_micros() as u32,
                    acknowledged: self.delivered as u64,
                    ..TcpInfo::default()
                };
                self.controller.tell(&mut self.told, &tcp, now);
            }
            let then = self.controller.book(bytes as usize, now).saturating_duration_since(self.begun);
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
    fn what_more_streams_win_is_found_at_once() {
        let mut world = World::new();
        world.run(1.5, FULL);
        let State::Held(held) = &mut world.controller.state else { panic!("it isn't held") };
        held.steps = 1;
        let more = Load { link: 1.5 * FULL.link, ..FULL };
        world.run(1.0, more);
        let rate = world.run(1.0, more);
        assert!(rate > 0.97 * more.link, "{rate}");
    }

    #[test]
    fn a_rate_that_was_measured_too_high_comes_down() {
        let mut world = World::new();
        world.controller.begin(1.01 * FULL.link, world.begun, Duration::ZERO);
        world.run(1.0, FULL);
        let rate = world.run(0.5, FULL);
        assert!(world.is_held() && (0.98 * FULL.link..FULL.link).contains(&rate), "{rate}");
    }
}
