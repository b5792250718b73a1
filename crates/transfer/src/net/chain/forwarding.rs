//! Forwards the parts of one stream to all next hosts.
//!
//! This host waits for all next hosts at the same time. For each next host, it counts only the time in which
//! that host's own queue was full, so no host is blamed for the delay of another. If several next hosts hang
//! at the same time, this host gives all of them up at the same time, before the previous host gives up this
//! one.

use crossbeam_channel::{Select, Sender, TrySendError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::arrivals::Arrivals;
use super::relay::{ChainRelay, Passing, Stillness, TakenPart};

/// The interval at which a waiting thread checks whether a host has been lost.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The forwarding of one stream to all next hosts.
pub struct Forwarding {
    to: Vec<NextQueue>,
    arrivals: Arc<Arrivals>,
    /// When the last part was forwarded.
    last: Instant,
}

/// The queue of a stream for one of the next hosts.
struct NextQueue {
    relay: Arc<ChainRelay>,
    parts: Sender<Passing>,
}

impl Forwarding {
    /// Starts to forward a stream; counts its parts in `arrivals`.
    pub fn new(relays: &[Arc<ChainRelay>], arrivals: Arc<Arrivals>) -> Self {
        let to = relays.iter().map(|relay| NextQueue { relay: relay.clone(), parts: relay.open() });
        Self { to: to.collect(), arrivals, last: Instant::now() }
    }

    /// Forwards a part to each next host as soon as the queue for that host has room. Lost hosts get nothing.
    pub fn part(&mut self, part: &Arc<Vec<u8>>) {
        self.arrivals.count(part.len(), Instant::now());
        let waits = self.pass(&Passing::Part(part.clone()));
        let before = std::mem::replace(&mut self.last, Instant::now());
        let all = self.last.duration_since(before);
        let at_first = self.arrivals.rate(self.last);
        for (queue, waited) in self.to.iter().zip(waits) {
            queue.relay.count(&TakenPart { bytes: part.len(), waited, all }, at_first);
        }
    }

    /// Forwards the end of the stream.
    pub fn end(self) {
        self.pass(&Passing::End);
    }

    /// Ends the stream without forwarding its end.
    pub fn cut(self) {
        drop(self);
    }

    /// Waits until each next host's queue has accepted `passing`; returns how long each queue was full.
    fn pass(&self, passing: &Passing) -> Vec<Duration> {
        let (begun, mut waits) = (Instant::now(), vec![Duration::ZERO; self.to.len()]);
        let queues = self.to.iter().zip(&mut waits).filter(|(queue, _)| !queue.takes(passing));
        let mut full: Vec<_> =
            queues.map(|(queue, waited)| (queue, waited, Stillness::new(&queue.relay))).collect();
        while !full.is_empty() {
            wait_for_room(full.iter().map(|(queue, ..)| *queue));
            full.retain_mut(|(queue, waited, still)| {
                still.look();
                **waited = begun.elapsed();
                !queue.takes(passing)
            });
        }
        waits
    }
}

impl NextQueue {
    /// Tries to put `passing` into the queue; true if that succeeds, or if the host is lost.
    fn takes(&self, passing: &Passing) -> bool {
        self.relay.is_lost() || !matches!(self.parts.try_send(passing.clone()), Err(TrySendError::Full(_)))
    }
}

/// Waits for a short time until one of the queues has room. The time is short because a host may be lost
/// meanwhile.
fn wait_for_room<'a>(queues: impl Iterator<Item = &'a NextQueue>) {
    let mut select = Select::new();
    for queue in queues {
        select.send(&queue.parts);
    }
    let _ = select.ready_timeout(CHECK_INTERVAL);
}

/// Waits until all parts were forwarded to each next host, or the host is lost.
pub fn drain(relays: &[Arc<ChainRelay>]) {
    let mut open: Vec<_> = relays.iter().map(|relay| (relay, Stillness::new(relay))).collect();
    loop {
        open.retain_mut(|(relay, still)| {
            still.look();
            relay.is_open()
        });
        if open.is_empty() {
            return;
        }
        thread::sleep(CHECK_INTERVAL / 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::chain::relay::NextHost;
    use crate::net::channel::Control;
    use crate::net::handshake::ConnectionConfig;
    use crate::net::keys::Keys;
    use crate::net::pulse::Pulse;
    use crate::net::transport::Registry;
    use crossbeam_channel::{Receiver, bounded};

    const A_WHILE: Duration = Duration::from_millis(300);

    /// A queue with room for one part, which is full, and the queue's reading side.
    fn full() -> (NextQueue, Receiver<Passing>) {
        let keys = Keys::generate().unwrap();
        let pinned = keys.pin(keys.public()).unwrap();
        let link = ConnectionConfig { pinned, clear: false, registry: Registry::default() };
        let address = ([127, 0, 0, 1], 9).into();
        let next = NextHost { place: 1, address, cookie: [0; 16], link, behind: 0 };
        let client = Control::start(std::io::empty(), std::io::sink(), Arc::new(Pulse::new(None))).channel;
        let (parts, other) = bounded(1);
        parts.send(Passing::End).unwrap();
        (NextQueue { relay: Arc::new(ChainRelay::new(next, None, client)), parts }, other)
    }

    /// How long each of two full queues was full, if one of them gets room after some time and the other
    /// after twice that time.
    fn waits(is_first_slow: bool) -> [Duration; 2] {
        let ((one, from_one), (other, from_other)) = (full(), full());
        let (soon, late) = if is_first_slow { (from_other, from_one) } else { (from_one, from_other) };
        let forwarding = Forwarding { to: vec![one, other], arrivals: Arc::default(), last: Instant::now() };
        let taking = thread::spawn(move || {
            [&soon, &late].map(|queue| {
                thread::sleep(A_WHILE);
                queue.recv().is_ok() && queue.recv_timeout(A_WHILE).is_ok()
            })
        });
        let waits = forwarding.pass(&Passing::Part(Arc::default()));
        assert_eq!(taking.join().unwrap(), [true, true], "each gets the part");
        waits.try_into().unwrap()
    }

    #[test]
    fn the_wait_for_one_host_is_not_counted_for_the_other() {
        let [fast, slow] = waits(false);
        assert!(fast >= A_WHILE && slow >= 2 * A_WHILE && slow - fast >= A_WHILE / 2, "{fast:?} {slow:?}");
        let [slow, fast] = waits(true);
        assert!(fast >= A_WHILE && slow >= 2 * A_WHILE && slow - fast >= A_WHILE / 2, "{fast:?} {slow:?}");
    }

    #[test]
    fn a_host_with_room_gets_its_part_before_one_that_hangs() {
        let ((hangs, _held), (fit, taken)) = (full(), full());
        taken.recv().unwrap();
        let forwarding = Forwarding { to: vec![hangs, fit], arrivals: Arc::default(), last: Instant::now() };
        thread::spawn(move || forwarding.pass(&Passing::End));
        assert!(taken.recv_timeout(10 * A_WHILE).is_ok());
    }
}
