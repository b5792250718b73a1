//! The connections to one next host, to which each incoming part is forwarded at once.
//!
//! The queue for a next host is limited; if the queue is full, this host waits too. If the next host accepts no data
//! for some time, or very little, this host gives it up and continues without it. The hosts behind the next host are
//! then given up too; they get the rest of the data directly from the source.

use crossbeam_channel::{Receiver, Sender, bounded};
use linerate_wire::control::{Cookie, LostNext, Message};
use linerate_wire::frame::FrameKind;
use linerate_wire::path::printable;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{LONGER, STILL};
use crate::base::lock::lock;
use crate::net::channel::Channel;
use crate::net::clock::Clock;
use crate::net::dial::dial;
use crate::net::handshake::ConnectionConfig;
use crate::net::stream::{FrameWriter, Stream, StreamError};

/// The number of parts of each stream that may wait for the next host: together 2 MiB.
const WAITING: usize = 8;
/// A next host delays this host if this host waits for it for more than this share of the time. This host also waits
/// that long for a next host that is only a little slower than the rest, so a next host is given up only if
/// [`TOO_SLOW`] applies too.
const HOLDS_UP: f64 = 0.75;
/// A next host that delays this host is too slow if it accepts less than this share of the rate at which data
/// arrived here before any host delayed it. Two next hosts that share a link as fast as the incoming one each
/// accept half of that rate.
const TOO_SLOW: f64 = 0.25;
/// The time for which a next host is measured, as a multiple of the patience with it. A next host that is
/// about to give up a host behind it delays this host for nearly all of its own patience, and must not be
/// given up for that.
const PERIOD: u32 = 2;
/// How long connecting to the next host may take. Connecting also counts in the time for which the next host may accept
/// nothing.
const DIAL_TIMEOUT: Duration = Duration::from_secs(8);

/// How to reach a next host.
pub struct NextHost {
    /// The next host's position in the chain or tree.
    pub place: u8,
    /// The address at which the next host listens.
    pub address: SocketAddr,
    /// The cookie that a connection to the next host has to send first.
    pub cookie: Cookie,
    /// The keys of both ends.
    pub link: ConnectionConfig,
    /// The largest number of hosts that get their data through the next host, one after the other.
    pub behind: u8,
}

/// The connections to a next host.
pub struct ChainRelay {
    next: NextHost,
    /// The connection that was made to test whether the host can be reached.
    first: Mutex<Option<Stream>>,
    /// The channel to the client, which gets a message if the next host is lost.
    client: Arc<Channel>,
    is_lost: Mutex<bool>,
    /// The number of parts that were forwarded to the next host.
    moved: AtomicU64,
    /// The number of streams to the next host that have not ended.
    open: AtomicU64,
    holding_up: Mutex<HoldingUp>,
}

/// How long the streams have waited for the next host in the current period, the streams' total time, and the
/// bytes that the next host has accepted.
struct HoldingUp {
    since: Instant,
    waited: Duration,
    all: Duration,
    taken: u64,
}

/// A part that the next host has accepted.
pub(super) struct TakenPart {
    /// The part's length in bytes.
    pub(super) bytes: usize,
    /// How long the stream waited for the next host before this part was accepted.
    pub(super) waited: Duration,
    /// The time since the next host accepted the stream's previous part.
    pub(super) all: Duration,
}

impl HoldingUp {
    fn new() -> Self {
        Self { since: Instant::now(), waited: Duration::ZERO, all: Duration::ZERO, taken: 0 }
    }

    /// Adds a part of one stream. At the end of a period of length `a_while`, returns the bytes per second
    /// that the next host accepted in it, if the host has delayed this one; otherwise `None`.
    fn count(&mut self, part: &TakenPart, a_while: Duration) -> Option<f64> {
        self.waited += part.waited;
        self.all += part.all;
        self.taken += part.bytes as u64;
        let passed = self.since.elapsed();
        if passed < a_while {
            return None;
        }
        let over = std::mem::replace(self, Self::new());
        let is_held_up = over.waited.as_secs_f64() > HOLDS_UP * over.all.as_secs_f64();
        is_held_up.then(|| over.taken as f64 / passed.as_secs_f64())
    }
}

/// The reason to give up a next host that accepts `rate` bytes per second, if that is too slow compared with
/// `at_first`, the rate at which data arrived here at first; otherwise `None`.
fn too_slow(rate: f64, at_first: f64) -> Option<String> {
    let megabits = |rate: f64| rate * 8.0 / 1e6;
    let (now, first) = (megabits(rate), megabits(at_first));
    let text = format!(
        "it receives only {now:.1} Mbit/s, less than a quarter of the initial rate of {first:.1} Mbit/s"
    );
    (rate < TOO_SLOW * at_first).then_some(text)
}

/// A part of a stream, or its end, on the way to the next host.
#[derive(Clone)]
pub(super) enum Passing {
    Part(Arc<Vec<u8>>),
    End,
}

impl ChainRelay {
    /// A relay to `next`. `first` is an open connection to that host. If forwarding fails, `client` gets a
    /// message.
    pub fn new(next: NextHost, first: Option<Stream>, client: Arc<Channel>) -> Self {
        let (moved, open) = (AtomicU64::new(0), AtomicU64::new(0));
        let (is_lost, holding_up) = (Mutex::new(false), Mutex::new(HoldingUp::new()));
        Self { next, first: Mutex::new(first), client, is_lost, moved, open, holding_up }
    }

    /// Starts to forward a stream; returns its queue.
    pub(super) fn open(self: &Arc<Self>) -> Sender<Passing> {
        let (to, parts) = bounded(WAITING);
        self.open.fetch_add(1, Ordering::AcqRel);
        let own = self.clone();
        thread::spawn(move || own.run(&parts));
        to
    }

    /// True if streams are open to a host that isn't lost.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0 && !self.is_lost()
    }

    pub(super) fn is_lost(&self) -> bool {
        *lock(&self.is_lost)
    }

    /// Gives up the next host for the reason `why`.
    fn lose(&self, why: &str) {
        let mut is_lost = lock(&self.is_lost);
        if !std::mem::replace(&mut *is_lost, true) {
            self.next.link.registry.cut();
            let lost = LostNext { place: self.next.place, reason: printable(why.as_bytes()) };
            // A client that is gone needs no message.
            let _ = self.client.send(&Message::NextLost(lost));
        }
    }

    fn patience(&self) -> Duration {
        STILL + LONGER * self.next.behind.into()
    }

    /// Counts a part that the next host has accepted. At the end of each period, gives the next host up if this host
    /// waited for it for most of the period, and the next host was too slow. `at_first` is the rate at which data
    /// arrived here at first, in bytes per second.
    pub(super) fn count(&self, part: &TakenPart, at_first: Option<f64>) {
        let rate = lock(&self.holding_up).count(part, PERIOD * self.patience());
        if let Some(why) = rate.zip(at_first).and_then(|(rate, at_first)| too_slow(rate, at_first)) {
            self.lose(&why);
        }
    }

    fn connection(&self) -> std::io::Result<Stream> {
        let first = lock(&self.first).take();
        first.map_or_else(|| dial(self.next.address, &self.next.cookie, &self.next.link, DIAL_TIMEOUT), Ok)
    }

    /// Forwards the parts of one stream to the next host.
    fn run(&self, parts: &Receiver<Passing>) {
        let result = self.hand_on(parts);
        if let Err(error) = result {
            self.lose(&error.to_string());
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn hand_on(&self, parts: &Receiver<Passing>) -> Result<(), StreamError> {
        // A stream on which nothing arrives isn't opened to the next host either.
        let Ok(Passing::Part(first)) = parts.recv() else { return Ok(()) };
        let (mut writer, mut clock) = (self.connection()?.into_writer(), Clock::start());
        let pass = |writer: &mut FrameWriter, part: &[u8], clock: &mut Clock| {
            let sent = writer.send(FrameKind::Sealed, part, clock);
            self.moved.fetch_add(1, Ordering::Relaxed);
            sent
        };
        pass(&mut writer, &first, &mut clock)?;
        drop(first);
        loop {
            match parts.recv() {
                Ok(Passing::Part(part)) => pass(&mut writer, &part, &mut clock)?,
                Ok(Passing::End) => return writer.end(&mut clock).map(drop),
                // The incoming stream was cut, so the stream to the next host is cut too.
                Err(_) => return Ok(()),
            }
        }
    }
}

/// Measures for how long no part has been forwarded to a next host.
pub(super) struct Stillness<'a> {
    relay: &'a ChainRelay,
    moved: u64,
    since: Instant,
}

impl<'a> Stillness<'a> {
    pub(super) fn new(relay: &'a ChainRelay) -> Self {
        Self { relay, moved: relay.moved.load(Ordering::Relaxed), since: Instant::now() }
    }

    /// Gives up the next host if it has accepted nothing for too long.
    pub(super) fn look(&mut self) {
        let moved = self.relay.moved.load(Ordering::Relaxed);
        if moved != self.moved {
            (self.moved, self.since) = (moved, Instant::now());
        } else if self.since.elapsed() > self.relay.patience() {
            let seconds = self.relay.patience().as_secs();
            self.relay.lose(&format!("it has received nothing for {seconds} s"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_holds_a_stream_up_most_of_the_time_does_so_and_no_other() {
        let held_up = |waited: u64, all: u64| {
            let mut holding_up = HoldingUp::new();
            let time = Duration::from_millis;
            let part = TakenPart { bytes: 1000, waited: time(waited), all: time(all) };
            assert_eq!(holding_up.count(&part, STILL), None, "it isn't over");
            let rate = holding_up.count(&part, Duration::ZERO);
            assert!(rate.is_none_or(|rate| rate > 0.0));
            rate.is_some()
        };
        assert!(held_up(800, 1000) && !held_up(700, 1000) && !held_up(0, 0));
    }

    #[test]
    fn a_host_at_half_the_rate_is_slow_and_not_too_slow() {
        assert_eq!(too_slow(25e6, 50e6), None);
        let why = "it receives only 80.0 Mbit/s, less than a quarter of the initial rate of 400.0 Mbit/s";
        assert_eq!(too_slow(10e6, 50e6).as_deref(), Some(why));
    }
}
