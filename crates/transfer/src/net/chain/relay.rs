//! Forwards incoming parts to one of the next hosts at once.
//!
//! The queue for a next host is limited; if it is full, this host waits too. If the next host takes nothing for a while,
//! or delays this host for most of a longer period, this host gives it up and continues without it. The hosts behind it
//! are given up too: they get the rest from the source itself.

use crossbeam_channel::{Receiver, Sender, bounded};
use linerate_wire::control::{Cookie, LostNext, Message};
use linerate_wire::frame::FrameKind;
use linerate_wire::path::printable;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::net::channel::Channel;
use crate::net::clock::Clock;
use crate::net::dial::dial;
use crate::net::handshake::ConnectionConfig;
use crate::net::stream::{FrameWriter, Stream, StreamError};

/// Parts of each stream that may wait for the next host: 2 MiB.
const WAITING: usize = 8;
/// If no host is behind the next host, how long that one may take nothing, or delay this host. `LONGER` is added for each
/// host behind it, one behind the other, so that the host directly before one that hangs gives up first. A new connection
/// to the next host may take as long.
const STILL: Duration = Duration::from_secs(10);
const LONGER: Duration = Duration::from_secs(2);
/// A host that delays this one for more than this share of the time takes less than a quarter of the data that could
/// come.
const HOLDS_UP: f64 = 0.75;
/// How long a connection to the next host may take.
const DIAL_TIME: Duration = Duration::from_secs(8);

/// How to reach a next host.
pub struct NextHost {
    /// Its position.
    pub place: u8,
    /// The address at which it listens.
    pub address: SocketAddr,
    /// The cookie that it expects first.
    pub cookie: Cookie,
    /// The keys of both ends.
    pub link: ConnectionConfig,
    /// The most hosts behind it, one behind the other.
    pub behind: u8,
}

/// The connections to a next host.
pub struct ChainRelay {
    next: NextHost,
    /// The connection that was made to test whether the host can be reached.
    first: Mutex<Option<Stream>>,
    /// Gets the message that the next host is lost.
    client: Arc<Channel>,
    is_lost: Mutex<bool>,
    /// The number of parts that were forwarded.
    moved: AtomicU64,
    /// The number of streams that have not ended.
    open: AtomicU64,
    holding_up: Mutex<HoldingUp>,
}

/// The share of the streams' time in a period that was spent waiting for the next host.
struct HoldingUp {
    since: Instant,
    waited: Duration,
    all: Duration,
}

impl HoldingUp {
    fn new() -> Self {
        Self { since: Instant::now(), waited: Duration::ZERO, all: Duration::ZERO }
    }

    /// Adds the time of one stream. True at the end of a period in which the next host has delayed this one.
    fn count(&mut self, waited: Duration, all: Duration, a_while: Duration) -> bool {
        self.waited += waited;
        self.all += all;
        if self.since.elapsed() < a_while {
            return false;
        }
        let over = std::mem::replace(self, Self::new());
        over.waited.as_secs_f64() > HOLDS_UP * over.all.as_secs_f64()
    }
}

/// A part of a stream, or its end, on the way to the next host.
#[derive(Clone)]
pub(super) enum Passing {
    Part(Arc<Vec<u8>>),
    End,
}

impl ChainRelay {
    /// Forwards to `next`, to which `first` is a connection. `client` gets a message if forwarding fails.
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

    /// Gives up the next host.
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

    /// Begins the period again in which it is measured whether the next host holds this one up.
    pub(super) fn begin_period(&self) {
        *lock(&self.holding_up) = HoldingUp::new();
    }

    /// Adds the time of a stream since its last part, and the part of it that was spent waiting for the next host.
    pub(super) fn count(&self, waited: Duration, all: Duration) {
        if lock(&self.holding_up).count(waited, all, self.patience()) {
            self.lose("it takes less than a quarter of what could come");
        }
    }

    fn connection(&self) -> std::io::Result<Stream> {
        let first = lock(&self.first).take();
        first.map_or_else(|| dial(self.next.address, &self.next.cookie, &self.next.link, DIAL_TIME), Ok)
    }

    /// Forwards one stream.
    fn run(&self, parts: &Receiver<Passing>) {
        let result = self.hand_on(parts);
        if let Err(error) = result {
            self.lose(&error.to_string());
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn hand_on(&self, parts: &Receiver<Passing>) -> Result<(), StreamError> {
        // If nothing arrives on a stream, it isn't opened to the next host either.
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
                // The stream was cut here, so it is cut there too.
                Err(_) => return Ok(()),
            }
        }
    }
}

/// Measures for how long nothing has been forwarded to a next host.
pub(super) struct Stillness<'a> {
    relay: &'a ChainRelay,
    moved: u64,
    since: Instant,
}

impl<'a> Stillness<'a> {
    pub(super) fn new(relay: &'a ChainRelay) -> Self {
        Self { relay, moved: relay.moved.load(Ordering::Relaxed), since: Instant::now() }
    }

    /// Gives up the next host if it has taken nothing for too long.
    pub(super) fn look(&mut self) {
        let moved = self.relay.moved.load(Ordering::Relaxed);
        if moved != self.moved {
            (self.moved, self.since) = (moved, Instant::now());
        } else if self.since.elapsed() > self.relay.patience() {
            let seconds = self.relay.patience().as_secs();
            self.relay.lose(&format!("it has taken nothing for {seconds} s"));
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
            assert!(!holding_up.count(time(waited), time(all), STILL), "it isn't over");
            holding_up.count(time(waited), time(all), Duration::ZERO)
        };
        assert!(held_up(800, 1000) && !held_up(700, 1000) && !held_up(0, 0));
    }
}
