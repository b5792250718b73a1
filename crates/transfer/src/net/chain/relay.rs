//! Hands on to the next host of a chain what comes, as it comes.
//!
//! What waits for the next host is bounded; then this one waits too. If the next one takes nothing at all for a while, or holds this one
//! up for most of a longer one, it is given up with all behind it, who get the rest from the source itself, and this host goes on alone.

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use linerate_wire::control::{Cookie, Message};
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
/// How long the next host may take nothing, or hold this one up, if it is the last one; for each host behind it, so much longer, so that
/// those who are nearest to one that stands still give up first. A new connection to it may take as long.
const STILL: Duration = Duration::from_secs(10);
const LONGER: Duration = Duration::from_secs(2);
/// One that holds this one up for more than this share of the time takes less than a quarter of what could come.
const HOLDS_UP: f64 = 0.75;
/// How often whoever waits looks.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection to the next host may take.
const DIAL_TIME: Duration = Duration::from_secs(8);

/// How the next host is reached.
pub struct NextHost {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it wants to see first.
    pub cookie: Cookie,
    /// The keys of both ends.
    pub link: ConnectionConfig,
    /// How many hosts are behind it.
    pub behind: u32,
}

/// The way to the next host.
pub struct ChainRelay {
    next: NextHost,
    /// A connection that was made to see whether it can be.
    first: Mutex<Option<Stream>>,
    /// For the word that the next one is lost.
    client: Arc<Channel>,
    is_lost: Mutex<bool>,
    /// Parts that were handed on,
    moved: AtomicU64,
    /// and streams that have not ended.
    open: AtomicU64,
    holding_up: Mutex<HoldingUp>,
}

/// How much of the streams' time in a while has gone into waiting for the next host.
struct HoldingUp {
    since: Instant,
    waited: Duration,
    all: Duration,
}

impl HoldingUp {
    fn new() -> Self {
        Self { since: Instant::now(), waited: Duration::ZERO, all: Duration::ZERO }
    }

    /// Counts time of one stream; true where a while is over in which the next host has held it up.
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

impl ChainRelay {
    /// Hands on to `next`, to which there is a `first` connection; `client` hears when that can't go on.
    pub fn new(next: NextHost, first: Stream, client: Arc<Channel>) -> Self {
        let (moved, open) = (AtomicU64::new(0), AtomicU64::new(0));
        let (is_lost, holding_up) = (Mutex::new(false), Mutex::new(HoldingUp::new()));
        Self { next, first: Mutex::new(Some(first)), client, is_lost, moved, open, holding_up }
    }

    /// Waits until everything was handed on, or the next host is lost.
    pub fn drain(&self) {
        let mut still = Stillness::new(self);
        while self.open.load(Ordering::Acquire) > 0 && !self.is_lost() {
            thread::sleep(LOOK / 10);
            still.look();
        }
    }

    fn is_lost(&self) -> bool {
        *lock(&self.is_lost)
    }

    /// Gives the next host up.
    fn lose(&self, why: &str) {
        let mut is_lost = lock(&self.is_lost);
        if !std::mem::replace(&mut *is_lost, true) {
            self.next.link.registry.cut();
            // A client that is gone needs no word.
            let _ = self.client.send(&Message::NextLost(printable(why.as_bytes())));
        }
    }

    fn patience(&self) -> Duration {
        STILL + LONGER * self.next.behind
    }

    /// Counts the time of a stream since its last part, and what of it has gone into waiting for the next host.
    fn count(&self, waited: Duration, all: Duration) {
        if lock(&self.holding_up).count(waited, all, self.patience()) {
            self.lose("it takes less than a quarter of what could come");
        }
    }

    fn connection(&self) -> std::io::Result<Stream> {
        let first = lock(&self.first).take();
        first.map_or_else(|| dial(self.next.address, &self.next.cookie, &self.next.link, DIAL_TIME), Ok)
    }

    /// Hands on one stream.
    fn run(&self, parts: &Receiver<Passing>) {
        let result = self.hand_on(parts);
        if let Err(error) = result {
            self.lose(&error.to_string());
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn hand_on(&self, parts: &Receiver<Passing>) -> Result<(), StreamError> {
        // A stream on which nothing comes is none for the next host either.
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
                // It was cut here, and so it is there.
                Err(_) => return Ok(()),
            }
        }
    }
}

/// Whether anything is handed on.
struct Stillness<'a> {
    relay: &'a ChainRelay,
    moved: u64,
    since: Instant,
}

impl<'a> Stillness<'a> {
    fn new(relay: &'a ChainRelay) -> Self {
        Self { relay, moved: relay.moved.load(Ordering::Relaxed), since: Instant::now() }
    }

    /// Gives the next host up where it has taken nothing for too long.
    fn look(&mut self) {
        let moved = self.relay.moved.load(Ordering::Relaxed);
        if moved != self.moved {
            (self.moved, self.since) = (moved, Instant::now());
        } else if self.since.elapsed() > self.relay.patience() {
            let seconds = self.relay.patience().as_secs();
            self.relay.lose(&format!("it has taken nothing for {seconds} s"));
        }
    }
}

enum Passing {
    Part(Arc<Vec<u8>>),
    End,
}

/// One stream's way to the next host.
pub struct Forwarding {
    relay: Arc<ChainRelay>,
    to: Sender<Passing>,
    /// When the last part was handed on.
    last: Instant,
}

impl Forwarding {
    /// Begins one.
    pub fn new(relay: &Arc<ChainRelay>) -> Self {
        let (to, parts) = bounded(WAITING);
        relay.open.fetch_add(1, Ordering::AcqRel);
        let own = relay.clone();
        thread::spawn(move || own.run(&parts));
        Self { relay: relay.clone(), to, last: Instant::now() }
    }

    /// Hands on a part, once there is room for it; nothing where the next host is lost.
    pub fn part(&mut self, part: &Arc<Vec<u8>>) {
        let begun = Instant::now();
        self.pass(Passing::Part(part.clone()));
        let before = std::mem::replace(&mut self.last, Instant::now());
        self.relay.count(self.last.duration_since(begun), self.last.duration_since(before));
    }

    /// Hands on the end.
    pub fn end(self) {
        self.pass(Passing::End);
    }

    /// It ends before its end.
    pub fn cut(self) {
        drop(self);
    }

    fn pass(&self, mut passing: Passing) {
        let mut still = Stillness::new(&self.relay);
        while !self.relay.is_lost() {
            passing = match self.to.send_timeout(passing, LOOK) {
                Ok(()) | Err(SendTimeoutError::Disconnected(_)) => return,
                Err(SendTimeoutError::Timeout(passing)) => passing,
            };
            still.look();
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
