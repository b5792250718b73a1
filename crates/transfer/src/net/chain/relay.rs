//! Forwards incoming parts to the next host of a chain at once.
//!
//! The queue for the next host is limited; if it is full, this host waits too. If the next host takes nothing for a
//! while, or delays this host for most of a longer period, this host gives it up and continues without it. The hosts
//! behind it are given up too: they get the rest from the source itself.

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
/// If the next host is the last one, how long it may take nothing, or delay this host. `LONGER` is added for each host
/// behind it, so that the host directly before one that hangs gives up first. A new connection to the next host may
/// take as long.
const STILL: Duration = Duration::from_secs(10);
const LONGER: Duration = Duration::from_secs(2);
/// A host that delays this one for more than this share of the time takes less than a quarter of the data that could
/// come.
const HOLDS_UP: f64 = 0.75;
/// The interval of the checks during a wait.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection to the next host may take.
const DIAL_TIME: Duration = Duration::from_secs(8);

/// How to reach the next host.
pub struct NextHost {
    /// The address at which it listens.
    pub address: SocketAddr,
    /// The cookie that it expects first.
    pub cookie: Cookie,
    /// The keys of both ends.
    pub link: ConnectionConfig,
    /// The number of hosts behind it.
    pub behind: u32,
}

/// The connections to the next host.
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

impl ChainRelay {
    /// Forwards to `next`, to which `first` is a connection. `client` gets a message if forwarding fails.
    pub fn new(next: NextHost, first: Stream, client: Arc<Channel>) -> Self {
        let (moved, open) = (AtomicU64::new(0), AtomicU64::new(0));
        let (is_lost, holding_up) = (Mutex::new(false), Mutex::new(HoldingUp::new()));
        Self { next, first: Mutex::new(Some(first)), client, is_lost, moved, open, holding_up }
    }

    /// Waits until everything was forwarded, or the next host is lost.
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

    /// Gives up the next host.
    fn lose(&self, why: &str) {
        let mut is_lost = lock(&self.is_lost);
        if !std::mem::replace(&mut *is_lost, true) {
            self.next.link.registry.cut();
            // A client that is gone needs no message.
            let _ = self.client.send(&Message::NextLost(printable(why.as_bytes())));
        }
    }

    fn patience(&self) -> Duration {
        STILL + LONGER * self.next.behind
    }

    /// Adds the time of a stream since its last part, and the part of it that was spent waiting for the next host.
    fn count(&self, waited: Duration, all: Duration) {
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

/// Measures for how long nothing has been forwarded.
struct Stillness<'a> {
    relay: &'a ChainRelay,
    moved: u64,
    since: Instant,
}

impl<'a> Stillness<'a> {
    fn new(relay: &'a ChainRelay) -> Self {
        Self { relay, moved: relay.moved.load(Ordering::Relaxed), since: Instant::now() }
    }

    /// Gives up the next host if it has taken nothing for too long.
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

/// The forwarding of one stream to the next host.
pub struct Forwarding {
    relay: Arc<ChainRelay>,
    to: Sender<Passing>,
    /// When the last part was forwarded.
    last: Instant,
}

impl Forwarding {
    /// Starts to forward a stream.
    pub fn new(relay: &Arc<ChainRelay>) -> Self {
        let (to, parts) = bounded(WAITING);
        relay.open.fetch_add(1, Ordering::AcqRel);
        let own = relay.clone();
        thread::spawn(move || own.run(&parts));
        Self { relay: relay.clone(), to, last: Instant::now() }
    }

    /// Forwards a part as soon as there is room in the queue; does nothing if the next host is lost.
    pub fn part(&mut self, part: &Arc<Vec<u8>>) {
        let begun = Instant::now();
        self.pass(Passing::Part(part.clone()));
        let before = std::mem::replace(&mut self.last, Instant::now());
        self.relay.count(self.last.duration_since(begun), self.last.duration_since(before));
    }

    /// Forwards the end of the stream.
    pub fn end(self) {
        self.pass(Passing::End);
    }

    /// Ends the stream without forwarding its end.
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
