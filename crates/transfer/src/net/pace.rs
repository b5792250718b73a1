//! A rate a little below what the path takes.
//!
//! A sender that fills a link keeps a queue standing before it. The queue brings no byte sooner: it delays everybody
//! who shares the link, and wakes both ends for each packet that leaves it. So where the rate stands still, and round trips
//! show a queue that does too, the sender lets it run empty and goes on a little more slowly. Every few seconds it tries,
//! step by step, whether the path takes more by then: a sender that lets go at once fills the queue with all that congestion
//! control has saved up, and loses much of it.

use linerate_sys::tcp::TcpInfo;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::net::rate::{Schedule, sleep_until};

/// A rate is measured for `INTERVAL` and for `ROUND_TRIPS` round trips, whichever is longer.
const INTERVAL: Duration = Duration::from_millis(100);
const ROUND_TRIPS: u32 = 4;
/// The longest interval after which a rate is held: with a longer one a path that takes more later would be found too late.
const TOO_LONG: Duration = Duration::from_millis(500);
/// The fewest bytes of an interval that show a rate: fewer come in too few pieces.
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
/// As `QUEUED`, where more waits in the socket, too.
const QUEUED_AND_WAITING: (f64, Duration) = (0.25, Duration::from_micros(150));
/// The longest wait for a queue to run empty: it may be others'.
const DRAINING: Duration = Duration::from_millis(20);
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
/// If a later step fails, the path takes more than before, and its rate is measured anew.
const CHANGED: i32 = 3;
/// How long nothing is held where a queue turned out to be others'.
const OTHERS: Duration = Duration::from_secs(3);
/// Time that may be booked ahead without sleeping: fewer wakeups, and less than the queue that is avoided.
const AHEAD: Duration = Duration::from_micros(200);

/// Holds back the streams of one sender together.
pub struct Pace(Mutex<Pacer>);

impl Pace {
    /// A pace that holds nothing yet.
    pub fn new() -> Self {
        Self(Mutex::new(Pacer::new(Instant::now())))
    }

    /// Waits until a stream should send `bytes`, or `stop` says to give up; true where a rate is held. `tcp` is asked for once in
    /// an interval, and `told` is the stream's own.
    pub fn take(
        &self,
        told: &mut StreamReport,
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
        let is_held = matches!(controller.state, PaceState::Held(_));
        drop(controller);
        if then.saturating_duration_since(now) >= AHEAD {
            sleep_until(then, stop);
        }
        is_held
    }

    /// True while the rate is held below the path's.
    pub fn is_holding(&self) -> bool {
        matches!(lock(&self.0).state, PaceState::Held(_))
    }

    /// True while probing for more bandwidth.
    pub fn is_trying(&self) -> bool {
        matches!(lock(&self.0).state, PaceState::Held(held) if held.steps > 0)
    }
}

/// The last report of one stream.
#[derive(Default)]
pub struct StreamReport {
    /// The stream's number; `None` before its first report.
    number: u64,
    /// The interval of the last report.
    interval: u64,
    /// When the last report was made.
    at: Option<Instant>,
    /// How many bytes had been acknowledged by the last report.
    acknowledged: u64,
}

/// TCP's figures of the path.
#[derive(Clone, Copy)]
struct Path {
    /// More waits in the socket than the path takes.
    waits: bool,
    /// The round trip now.
    now: Duration,
    /// The shortest round trip.
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

    /// Whether a queue stands that is longer than `burst`, our own.
    fn is_queued(self, burst: Duration) -> bool {
        let (part, least) = if self.waits { QUEUED_AND_WAITING } else { QUEUED };
        !self.shortest.is_zero() && self.queue() >= least.max(self.shortest.mul_f64(part)).max(burst)
    }
}

/// Decides by what is acknowledged. It has no clock of its own, so it can be tested in simulated time.
struct Pacer {
    state: PaceState,
    streams: u64,
    /// The stream that ends intervals: the others report at the beginning of one, and so each reports once in it.
    leader: u64,
    interval: u64,
    /// When the interval began, and how long it is at least.
    since: Instant,
    least: Duration,
    /// The sum of the streams' reports: bytes acknowledged a second, and bytes.
    rate: f64,
    acknowledged: u64,
    /// The most bytes that one stream sent at once in it.
    largest: usize,
    schedule: Schedule,
    rested: Instant,
}

#[derive(Clone, Copy)]
enum PaceState {
    /// All may go at once; the last interval's rate in bytes a second.
    Free { last: f64 },
    /// The rate is held.
    Held(HeldRate),
}

#[derive(Clone, Copy)]
struct HeldRate {
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

impl HeldRate {
    /// Bytes a second that may go now.
    fn now(&self) -> f64 {
        self.after(self.steps)
    }

    fn after(&self, steps: i32) -> f64 {
        self.rate * (1.0 + STEP * (2_f64.powi(steps) - 1.0))
    }
}

impl Pacer {
    fn new(now: Instant) -> Self {
        Self {
            state: PaceState::Free { last: 0.0 },
            streams: 0,
            leader: 1,
            interval: 1,
            since: now,
            least: INTERVAL,
            rate: 0.0,
            acknowledged: 0,
            largest: 0,
            schedule: Schedule::new(now),
            rested: now,
        }
    }

    fn wants_to_know(&self, told: &StreamReport, now: Instant) -> bool {
        told.interval < self.interval || self.ends(told, now)
    }

    /// Whether a stream ends the interval: the leader, or any where that has left.
    fn ends(&self, told: &StreamReport, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        elapsed >= if told.number == self.leader { self.least } else { 2 * self.least }
    }

    fn tell(&mut self, told: &mut StreamReport, tcp: &TcpInfo, now: Instant) {
        let more = tcp.acknowledged.saturating_sub(told.acknowledged);
        match told.at {
            None => self.welcome(told),
            Some(at) => {
                self.acknowledged += more;
                self.rate += more as f64 / now.saturating_duration_since(at).as_secs_f64().max(1e-3);
            }
        }
        let ends = self.ends(told, now);
        self.interval += u64::from(ends);
        (told.interval, told.at, told.acknowledged) = (self.interval, Some(now), tcp.acknowledged);
        if ends {
            self.leader = told.number;
            self.end(now, Path::of(tcp));
        }
    }

    /// A new stream may find a way of its own: what it adds is tried at once.
    fn welcome(&mut self, told: &mut StreamReport) {
        self.streams += 1;
        told.number = self.streams;
        if let PaceState::Held(held) = &mut self.state {
            held.steps = held.steps.max(1);
        }
    }

    fn end(&mut self, now: Instant, path: Path) {
        let (rate, bytes) = (std::mem::take(&mut self.rate), std::mem::take(&mut self.acknowledged));
        let burst = 2.0 * std::mem::take(&mut self.largest) as f64;
        self.since = now;
        self.least = INTERVAL.max(path.now * ROUND_TRIPS);
        if bytes < MEASURED || self.least > TOO_LONG {
            return self.rest(now, Duration::ZERO);
        }
        let queued = path.is_queued(Duration::from_secs_f64(burst / rate)).then(|| path.queue());
        match self.state {
            PaceState::Free { last } => self.think_of_holding(last, rate, now, queued),
            PaceState::Held(held) if held.steps > 0 => self.judge_step(held, rate, now, queued),
            PaceState::Held(held) => self.keep(held, rate, now, queued),
        }
    }

    /// When `bytes` may go.
    fn book(&mut self, bytes: usize, now: Instant) -> Instant {
        self.largest = self.largest.max(bytes);
        match self.state {
            PaceState::Free { .. } => now,
            PaceState::Held(held) => self.schedule.book(bytes, held.now(), now),
        }
    }

    fn think_of_holding(&mut self, last: f64, seen: f64, now: Instant, queued: Option<Duration>) {
        let stands = now >= self.rested && (seen - last).abs() <= STILL * seen;
        let Some(queue) = queued.filter(|_| stands) else {
            self.state = PaceState::Free { last: seen };
            return;
        };
        let (rate, until) = (f64::midpoint(seen, last) * BELOW, now + HOLD);
        let held = HeldRate { rate, until, hold: HOLD, queued: 0, lowered: 0, has_fallen: false, steps: 0 };
        self.hold(held, now, queue);
    }

    fn keep(&mut self, held: HeldRate, seen: f64, now: Instant, queued: Option<Duration>) {
        let has_fallen = seen < held.rate * FALLEN;
        if has_fallen && held.has_fallen {
            return self.rest(now, Duration::ZERO);
        }
        let held = HeldRate { has_fallen, ..held };
        match queued {
            Some(queue) => self.lower(HeldRate { queued: held.queued + 1, ..held }, now, queue),
            None => {
                let steps = i32::from(now >= held.until);
                self.state = PaceState::Held(HeldRate { queued: 0, steps, ..held });
            }
        }
    }

    /// Goes on more slowly where the queue doesn't run empty.
    fn lower(&mut self, held: HeldRate, now: Instant, queue: Duration) {
        if held.queued < NOT_DRAINED {
            self.state = PaceState::Held(held);
        } else if held.lowered < LOWERED {
            let held = HeldRate { rate: held.rate * LOWER, queued: 0, lowered: held.lowered + 1, ..held };
            self.hold(held, now, queue);
        } else {
            self.rest(now, OTHERS);
        }
    }

    /// Takes the next step where the last one went well, and else goes back. Of several streams most have told what they did
    /// in the step before: that much must have arrived.
    fn judge_step(&mut self, held: HeldRate, seen: f64, now: Instant, queued: Option<Duration>) {
        if queued.is_none() && seen >= held.after(held.steps - 2) {
            self.state = PaceState::Held(HeldRate { steps: held.steps + 1, ..held });
        } else if held.steps > CHANGED {
            self.rest(now, Duration::ZERO);
        } else {
            let hold = LONGEST_HOLD.min(held.hold * 2);
            let held = HeldRate { until: now + hold, hold, queued: 0, lowered: 0, steps: 0, ..held };
            self.hold(held, now, queued.unwrap_or_default());
        }
    }

    /// Holds, behind the time in which the queue runs empty.
    fn hold(&mut self, held: HeldRate, now: Instant, queue: Duration) {
        self.schedule.begin_at(now + queue.min(DRAINING));
        self.state = PaceState::Held(held);
    }

    fn rest(&mut self, now: Instant, time: Duration) {
        self.state = PaceState::Free { last: 0.0 };
        self.rested = self.rested.max(now + time);
    }
}

#[cfg(test)]
mod tests;
