//! A thread that runs a share of the users, with one epoll instance and one buffer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use crate::pace::WorkPace;
use crate::report::ConnectionCounts;
use crate::window::{Phases, StopFlag};

use super::crowd::Crowd;
use super::reply::ReplyPiece;
use super::tally::{ByteCounts, UserTally};
use super::user::{RequestFailure, User, UserState, UserStep};

/// The size of a read in bytes, which fits in a processor's second-level cache.
const BLOCK: usize = 64 * 1024;
/// The interval at which deadlines and the stop flag are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The pause of a user after a failed request.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
const EVENTS: usize = 1024;

pub struct UserWorker<'a> {
    crowd: &'a Crowd,
    phases: Phases,
    stop: &'a StopFlag,
    requests: Vec<Vec<u8>>,
    users: Vec<User>,
    /// The time at which each pausing user sends its next request, with the user's index.
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    poll: Poll,
    buffer: Vec<u8>,
    sweep: Instant,
    tally: UserTally,
}

impl<'a> UserWorker<'a> {
    /// The worker with the index `place`. It has every `threads`-th user.
    ///
    /// # Errors
    /// If epoll fails.
    pub fn new(
        crowd: &'a Crowd,
        place: u32,
        threads: u32,
        phases: Phases,
        stop: &'a StopFlag,
    ) -> io::Result<Self> {
        let requests = crowd.urls.iter().map(|url| url.request(crowd.new_connections)).collect();
        let connections = crowd
            .urls
            .iter()
            .map(|url| ConnectionCounts { port: url.address().to_string(), ..ConnectionCounts::default() });
        let mut worker = Self {
            crowd,
            phases,
            stop,
            requests,
            users: Vec::new(),
            timers: BinaryHeap::new(),
            poll: Poll::new()?,
            buffer: vec![0; BLOCK],
            sweep: phases.begin,
            tally: UserTally { connections: connections.collect(), ..UserTally::default() },
        };
        (place..crowd.users).step_by(threads as usize).for_each(|user| worker.admit(user));
        Ok(worker)
    }

    /// Starts a user. The starts are spread evenly over the ramp.
    fn admit(&mut self, number: u32) {
        let ramp = self.crowd.window.ramp;
        let begin = self.phases.begin + ramp.mul_f64(f64::from(number) / f64::from(self.crowd.users));
        let pace = self.crowd.pace.map(|interval| WorkPace::new(interval, begin));
        self.timers.push(Reverse((begin, self.users.len())));
        self.users.push(User::new(number as usize % self.crowd.urls.len(), pace, begin));
    }

    /// Runs the users until the end of the window.
    ///
    /// # Errors
    /// If epoll fails.
    pub fn run(mut self) -> io::Result<UserTally> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let now = Instant::now();
            if self.phases.is_over(now) || self.stop.is_set() {
                return Ok(self.tally);
            }
            self.begin_due(now);
            self.give_up_late(now);
            match self.poll.poll(&mut events, Some(self.pause())) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                let to_end = event.is_read_closed() || event.is_error();
                self.advance(event.token().0, to_end);
            }
        }
    }

    fn pause(&self) -> Duration {
        let timer = self.timers.peek().map_or(self.sweep, |Reverse((due, _))| *due);
        timer.min(self.sweep).min(self.phases.until).saturating_duration_since(Instant::now())
    }

    fn begin_due(&mut self, now: Instant) {
        while let Some(Reverse((due, place))) = self.timers.peek().copied() {
            if due > now {
                return;
            }
            self.timers.pop();
            self.begin(place, now);
        }
    }

    fn begin(&mut self, place: usize, now: Instant) {
        let user = &mut self.users[place];
        if let Some(pace) = &mut user.pace {
            pace.step(now);
        }
        (user.begun, user.deadline) = (now, (now + self.crowd.timeout).min(self.phases.until));
        if user.is_connected() { self.ask(place) } else { self.connect(place) }
    }

    fn connect(&mut self, place: usize) {
        let user = &mut self.users[place];
        let to = self.crowd.urls[user.target].address();
        self.tally.connections[user.target].attempted += 1;
        if let Err(error) = user.connect(to, self.poll.registry(), Token(place)) {
            self.failed(place, RequestFailure::Connect(error));
        }
    }

    fn ask(&mut self, place: usize) {
        let user = &mut self.users[place];
        let request = &self.requests[user.target];
        if self.phases.counts(Instant::now()) {
            self.tally.counts.sent += request.len() as u64;
        }
        if let Err(failure) = user.ask(request) {
            self.failed(place, failure);
        }
    }

    /// Handles an event on a user's connection.
    fn advance(&mut self, place: usize, to_end: bool) {
        let user = &mut self.users[place];
        if user.state == UserState::Connecting {
            return match user.is_made() {
                Err(error) => self.failed(place, RequestFailure::Connect(error)),
                Ok(false) => {}
                Ok(true) => {
                    self.tally.connections[user.target].made += 1;
                    self.ask(place);
                }
            };
        }
        let (phases, counts) = (self.phases, &mut self.tally.counts);
        let count = |piece, status, now| count(counts, piece, status, phases.counts(now));
        match user.step(&self.requests[user.target], &mut self.buffer, to_end, count) {
            Ok(UserStep::Waiting) => {}
            Ok(UserStep::Whole(now)) => self.whole(place, now, to_end),
            Ok(UserStep::Closed) if self.users[place].state == UserState::Closing => {
                self.settle(place, Instant::now(), true);
            }
            Ok(UserStep::Closed) => {}
            Err(failure) => self.failed(place, failure),
        }
    }

    /// Handles a complete reply. If the other end is known to have closed the connection (`to_end`), no further
    /// event will report that.
    fn whole(&mut self, place: usize, now: Instant, to_end: bool) {
        let user = &mut self.users[place];
        if !self.crowd.new_connections || !user.is_connected() {
            return self.settle(place, now, to_end);
        }
        user.close(now);
        if to_end {
            self.advance(place, to_end);
        }
    }

    /// Counts a finished request: after its reply or, if it had its own connection, at the end of the
    /// connection.
    fn settle(&mut self, place: usize, now: Instant, to_end: bool) {
        let user = &mut self.users[place];
        let (status, keep) = user.reply.head().map_or((0, false), |head| (head.status, head.keep));
        if !(200..300).contains(&status) {
            *self.tally.errors.statuses.entry(status).or_default() += 1;
        } else if self.phases.counts(now) {
            self.tally.latency.record(now - user.begun);
        }
        if !keep || to_end {
            user.disconnect();
        }
        self.next(place, now);
    }

    /// Schedules the user's next request: after the user's pause, and not before the request is due. Without a pause
    /// and a due time, the request begins at once.
    fn next(&mut self, place: usize, now: Instant) {
        let user = &mut self.users[place];
        user.rest();
        let thought = now + self.crowd.think;
        let due = user.pace.map_or(thought, |pace| pace.due().max(thought));
        if due > now { self.timers.push(Reverse((due, place))) } else { self.begin(place, now) }
    }

    fn failed(&mut self, place: usize, failure: RequestFailure) {
        let user = &mut self.users[place];
        user.disconnect();
        let reason = match failure {
            // The closed connection was idle and persistent, without an outstanding request.
            _ if user.state == UserState::Resting => return,
            RequestFailure::Stale => return self.connect(place),
            RequestFailure::Connect(error) => {
                self.tally.connections[user.target].failed += 1;
                format!("connecting to {}: {}", self.crowd.urls[user.target].address(), meaning(&error))
            }
            RequestFailure::Broken(reason) => {
                self.tally.errors.broken += 1;
                format!("{}: {reason}", self.crowd.urls[user.target])
            }
        };
        self.rest(place, reason);
    }

    fn rest(&mut self, place: usize, reason: String) {
        self.tally.reason.get_or_insert(reason);
        let user = &mut self.users[place];
        user.rest();
        self.timers.push(Reverse((Instant::now() + RETRY_INTERVAL, place)));
    }

    fn give_up_late(&mut self, now: Instant) {
        if now < self.sweep {
            return;
        }
        self.sweep = now + CHECK_INTERVAL;
        for place in 0..self.users.len() {
            let user = &self.users[place];
            if user.state != UserState::Resting && user.deadline <= now {
                self.give_up(place, now);
            }
        }
    }

    fn give_up(&mut self, place: usize, now: Instant) {
        let user = &mut self.users[place];
        user.disconnect();
        let url = &self.crowd.urls[user.target];
        match user.state {
            UserState::Closing => return self.settle(place, now, true),
            UserState::Connecting => self.tally.connections[user.target].failed += 1,
            UserState::Asking | UserState::Resting => self.tally.errors.timeouts += 1,
        }
        let reason = format!("{url}: no complete reply within {} s", self.crowd.timeout.as_secs_f64());
        self.rest(place, reason);
    }
}

fn count(counts: &mut ByteCounts, piece: ReplyPiece, status: u16, in_window: bool) {
    if !in_window {
        return;
    }
    if (200..300).contains(&status) {
        counts.payload += piece.payload;
        counts.framing += piece.framing;
    } else {
        counts.framing += piece.payload + piece.framing;
    }
}

fn meaning(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrNotAvailable => {
            "no local port is free, because closed connections still use them; keep connections open, or give several --url".into()
        }
        _ => error.to_string(),
    }
}
