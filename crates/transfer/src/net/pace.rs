//! Holds a rate slightly below what the path can carry.
//!
//! A sender that fills a link keeps a standing queue before the link. The queue delivers no byte sooner: it delays
//! everybody who shares the link, and wakes both ends for each packet that leaves it. So if the rate is stable, and
//! round trips show a stable queue, the sender lets the queue drain and then sends slightly more slowly. Every few
//! seconds it tries, step by step, whether the path now carries more. A sender that returns to full speed at once would
//! fill the queue with all data that congestion control has permitted meanwhile, and lose much of it.

use linerate_sys::tcp::TcpInfo;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::net::rate::{Schedule, sleep_until};

/// The interval in which a rate is measured is `INTERVAL` or `ROUND_TRIPS` round trips, whichever is longer.
const INTERVAL: Duration = Duration::from_millis(100);
const ROUND_TRIPS: u32 = 4;
/// The longest interval with which a rate is held. With a longer interval, it would take too long to notice
/// that the path's rate has risen.
const TOO_LONG: Duration = Duration::from_millis(500);
/// The fewest bytes in an interval from which a rate is measured. With fewer bytes, the few acknowledgements
/// give no reliable rate.
const MEASURED: u64 = 4 << 20;
/// A rate is stable if it differs from the rate of the previous interval by at most this share.
const STILL: f64 = 0.01;
/// The held rate, as a share of the acknowledged rate: slightly less than 1, so that the path's queue stays empty. Of
/// the missing 0.4 %, 0.2 % are for records and frames.
const BELOW: f64 = 0.996;
/// If the queue doesn't drain, the rate was measured too high: the held rate is multiplied by this factor.
const LOWER: f64 = 0.996;
/// If the rate is below this share of the held rate in two consecutive intervals, the held rate isn't the limit: the
/// source or the path has become slower.
const FALLEN: f64 = 0.97;
/// A queue exists if the round trip exceeds the shortest one by this share, and by at least this time: a busy host
/// alone may delay a reply by less than this time.
const QUEUED: (f64, Duration) = (0.25, Duration::from_micros(500));
/// The thresholds for a queue as in `QUEUED`, for the case that data also waits in the socket.
const QUEUED_AND_WAITING: (f64, Duration) = (0.25, Duration::from_micros(150));
/// The longest wait for a queue to drain. A queue that takes longer may consist of other hosts' data.
const DRAINING: Duration = Duration::from_millis(20);
/// A held rate is too high if a queue exists in this number of consecutive intervals.
const NOT_DRAINED: u32 = 2;
/// How often a rate is lowered before the queue is assumed to consist of other hosts' data.
const LOWERED: u32 = 4;
/// How long a rate is held at first, before a higher rate is tried. Each time that the path can't carry a higher rate,
/// the time is doubled, up to `LONGEST_HOLD`.
const HOLD: Duration = Duration::from_secs(2);
const LONGEST_HOLD: Duration = Duration::from_secs(8);
/// The share by which the first step raises the rate; after each success the next step is twice as large.
const STEP: f64 = 0.005;
/// If a step after this number of steps fails, the path carries more than before, and its rate is measured
/// again.
const CHANGED: i32 = 3;
/// How long no rate is held after a queue has proved to consist of other hosts' data.
const OTHERS: Duration = Duration::from_secs(3);
/// How far ahead of the clock bytes may be booked without sleeping. This reduces wakeups, and is shorter than
/// the queue that the pace avoids.
const AHEAD: Duration = Duration::from_micros(200);

/// Holds the total rate of all streams of one sender.
pub struct Pace(Mutex<Pacer>);

impl Pace {
    /// A pace that holds no rate at first.
    pub fn new() -> Self {
        Self(Mutex::new(Pacer::new(Instant::now())))
    }

    /// Waits until a stream should send `bytes` bytes, or `stop` returns true. Returns true if a rate is
    /// held. `tcp` is called once per interval; `reported` is the stream's own report.
    pub fn take(
        &self,
        reported: &mut StreamReport,
        bytes: usize,
        tcp: impl FnOnce() -> Option<TcpInfo>,
        stop: impl Fn() -> bool,
    ) -> bool {
        let now = Instant::now();
        let mut controller = lock(&self.0);
        if controller.wants_to_know(reported, now) {
            controller.report(reported, &tcp().unwrap_or_default(), now);
        }
        let then = controller.book(bytes, now);
        let is_held = matches!(controller.state, PaceState::Held(_));
        drop(controller);
        if then.saturating_duration_since(now) >= AHEAD {
            sleep_until(then, stop);
        }
        is_held
    }

    /// True if bytes may be sent now.
    pub fn is_free(&self) -> bool {
        let controller = lock(&self.0);
        !matches!(controller.state, PaceState::Held(_)) || controller.schedule.is_free(Instant::now() + AHEAD)
    }

    /// True while the rate is held below the path's.
    pub fn is_holding(&self) -> bool {
        matches!(lock(&self.0).state, PaceState::Held(_))
    }

    /// True while the pace tries whether the path carries a higher rate.
    pub fn is_trying(&self) -> bool {
        matches!(lock(&self.0).state, PaceState::Held(held) if held.steps > 0)
    }
}

/// One stream's last report to the pace.
#[derive(Default)]
pub struct StreamReport {
    /// The stream's number; 0 before the stream's first report.
    number: u64,
    /// The interval of the last report.
    interval: u64,
    /// When the last report was made.
    at: Option<Instant>,
    /// The number of bytes that were acknowledged at the time of the last report.
    acknowledged: u64,
}

/// TCP's measurements of the path.
#[derive(Clone, Copy)]
struct Path {
    /// True if the socket holds data that hasn't been sent yet.
    waits: bool,
    /// The current round-trip time.
    now: Duration,
    /// The shortest round-trip time so far.
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

    /// Whether the path has a queue that is longer than `burst`, the time that the sender's own bursts take.
    fn is_queued(self, burst: Duration) -> bool {
        let (part, least) = if self.waits { QUEUED_AND_WAITING } else { QUEUED };
        !self.shortest.is_zero() && self.queue() >= least.max(self.shortest.mul_f64(part)).max(burst)
    }
}

/// Decides about the rate by the number of acknowledged bytes. The pacer has no clock of its own, so it can
/// be tested in simulated time.
struct Pacer {
    state: PaceState,
    streams: u64,
    /// The stream that ends intervals. The other streams report at the beginning of an interval, so each reports once
    /// per interval.
    leader: u64,
    interval: u64,
    /// When the interval began, and its minimum length.
    since: Instant,
    least: Duration,
    /// The sums of the streams' reports: acknowledged bytes per second, and bytes.
    rate: f64,
    acknowledged: u64,
    /// The most bytes that one stream sent at once in this interval.
    largest: usize,
    schedule: Schedule,
    rested: Instant,
}

#[derive(Clone, Copy)]
enum PaceState {
    /// No rate is held; `last` is the rate of the last interval in bytes per second.
    Free { last: f64 },
    /// The rate is held.
    Held(HeldRate),
}

#[derive(Clone, Copy)]
struct HeldRate {
    /// The held rate in bytes per second.
    rate: f64,
    until: Instant,
    /// The number of consecutive intervals with a queue.
    queued: u32,
    lowered: u32,
    /// The last interval's rate was too low to be limited by the held rate.
    has_fallen: bool,
    hold: Duration,
    /// The number of the step that is being tried above the held rate; 0 while no step is being tried.
    steps: i32,
}

impl HeldRate {
    /// The current rate in bytes per second.
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

    fn wants_to_know(&self, reported: &StreamReport, now: Instant) -> bool {
        reported.interval < self.interval || self.ends(reported, now)
    }

    /// Whether this stream's report ends the interval: the leader's does, or any stream's if the leader has left.
    fn ends(&self, reported: &StreamReport, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        elapsed >= if reported.number == self.leader { self.least } else { 2 * self.least }
    }

    fn report(&mut self, reported: &mut StreamReport, tcp: &TcpInfo, now: Instant) {
        let more = tcp.acknowledged.saturating_sub(reported.acknowledged);
        match reported.at {
            None => self.welcome(reported),
            Some(at) => {
                self.acknowledged += more;
                self.rate += more as f64 / now.saturating_duration_since(at).as_secs_f64().max(1e-3);
            }
        }
        let ends = self.ends(reported, now);
        self.interval += u64::from(ends);
        (reported.interval, reported.at, reported.acknowledged) =
            (self.interval, Some(now), tcp.acknowledged);
        if ends {
            self.leader = reported.number;
            self.end(now, Path::of(tcp));
        }
    }

    /// Adds a new stream. Because the stream may use a separate path, a higher rate is tried immediately.
    fn welcome(&mut self, reported: &mut StreamReport) {
        self.streams += 1;
        reported.number = self.streams;
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

    /// Books `bytes` bytes, and returns the time at which they may be sent.
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

    /// Lowers the rate if the queue doesn't drain.
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

    /// Tries the next step if the last step succeeded; otherwise returns to the rate before it. If there are
    /// several streams, most reports still come from the time of the previous step, so at least that step's
    /// rate must have been acknowledged.
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

    /// Starts to hold a rate, after a pause in which the queue drains.
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
