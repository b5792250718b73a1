//! Data connections at the end that listens: how the other end is admitted, and how strangers are rejected.

use crossbeam_channel::Sender;
use linerate_wire::control::Cookie;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::net::handshake::{ConnectionConfig, PREFACE, establish, preface};
use crate::net::stream::Stream;
use crate::net::tls::Handshake;

/// How long a connection may take to show its preface.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the TLS handshake after the preface may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most connections that haven't sent a preface yet; if there are more, the oldest one is closed.
const MAX_WAITING: usize = 64;
/// The most handshakes at the same time. Only ends that know the cookie get as far as the handshake.
const MAX_HANDSHAKES: usize = 64;
/// Accepts data connections on a port, until this value is dropped.
pub struct Listener {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    strangers: Arc<AtomicU64>,
}

impl Listener {
    /// Listens on a free port, or on the first free one of `ports`, on all IPv6 and IPv4 addresses.
    ///
    /// # Errors
    /// If no port is free, or this process may not open any of them.
    pub fn bind(ports: Option<(u16, u16)>) -> io::Result<TcpListener> {
        let (first, last) = ports.unwrap_or((0, 0));
        let mut failed = io::Error::from(io::ErrorKind::AddrInUse);
        for port in first..=last {
            match bind_both(port) {
                Ok(listener) => return Ok(listener),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Accepts connections on `listener`. Connections that send `cookie` and prove to be the other end's are sent
    /// to `streams`.
    ///
    /// # Errors
    /// If the listener has no address.
    pub fn start(
        listener: TcpListener,
        cookie: Cookie,
        link: ConnectionConfig,
        streams: Sender<Stream>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (stop, strangers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut gate = Gate {
            listener,
            cookie,
            link,
            streams,
            waiting: VecDeque::new(),
            handshakes: Arc::default(),
            stop: stop.clone(),
            strangers: strangers.clone(),
        };
        thread::spawn(move || gate.run());
        Ok(Self { address, stop, strangers })
    }

    /// The port on which this end listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The number of connections that were rejected.
    pub fn strangers(&self) -> u64 {
        self.strangers.load(Ordering::Relaxed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn bind_both(port: u16) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let dual = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP)).and_then(|socket| {
        socket.set_only_v6(false)?;
        // A port of a fixed range can be reused immediately, even if old connections on that port are still
        // in TIME_WAIT.
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
        socket.listen(128)?;
        Ok(TcpListener::from(socket))
    });
    dual.or_else(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Err(error),
        _ => TcpListener::bind(("0.0.0.0", port)),
    })
}

/// The thread behind a [`Listener`].
struct Gate {
    listener: TcpListener,
    cookie: Cookie,
    link: ConnectionConfig,
    streams: Sender<Stream>,
    waiting: VecDeque<Stranger>,
    handshakes: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    strangers: Arc<AtomicU64>,
}

/// A connection that has not yet shown its preface.
struct Stranger {
    socket: TcpStream,
    since: Instant,
    shown: [u8; PREFACE],
    have: usize,
}

enum Admission {
    Wait,
    Admit,
    Refuse,
}

impl Gate {
    fn run(&mut self) {
        while !self.stop.load(Ordering::Acquire) {
            self.wait();
            self.accept();
            self.look_at_all();
        }
    }

    fn wait(&self) {
        let sockets = self.waiting.iter().map(|stranger| &stranger.socket);
        let mut watched: Vec<PollFd<'_>> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        watched.push(PollFd::new(&self.listener, PollFlags::IN));
        let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        // An interrupted wait only ends earlier.
        let _ = poll(&mut watched, Some(&tick));
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            if self.waiting.len() == MAX_WAITING {
                self.waiting.pop_front();
                self.strangers.fetch_add(1, Ordering::Relaxed);
            }
            self.waiting.push_back(Stranger { socket, since: Instant::now(), shown: [0; PREFACE], have: 0 });
            // The newest connection is checked each time, so that an honest connection isn't dropped before it was
            // checked.
            self.look_at_last();
        }
    }

    fn look_at_last(&mut self) {
        if let Some(stranger) = self.waiting.pop_back() {
            self.decide(stranger);
        }
    }

    fn look_at_all(&mut self) {
        for stranger in std::mem::take(&mut self.waiting) {
            self.decide(stranger);
        }
    }

    fn decide(&mut self, mut stranger: Stranger) {
        match stranger.admission(&self.cookie) {
            Admission::Wait => self.waiting.push_back(stranger),
            Admission::Admit if self.handshakes.load(Ordering::Acquire) < MAX_HANDSHAKES => {
                self.shake(stranger.socket);
            }
            Admission::Admit | Admission::Refuse => {
                self.strangers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn shake(&self, socket: TcpStream) {
        let (link, streams) = (self.link.clone(), self.streams.clone());
        let (strangers, handshakes) = (self.strangers.clone(), self.handshakes.clone());
        handshakes.fetch_add(1, Ordering::AcqRel);
        thread::spawn(move || {
            match Handshake::server(&link.pinned)
                .map_err(io::Error::other)
                .and_then(|tls| establish(socket, tls, &link, Instant::now() + HANDSHAKE_TIMEOUT))
            {
                Ok(stream) => drop(streams.send(stream)),
                Err(_) => drop(strangers.fetch_add(1, Ordering::Relaxed)),
            }
            handshakes.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

impl Stranger {
    fn admission(&mut self, cookie: &Cookie) -> Admission {
        match self.socket.read(&mut self.shown[self.have..]) {
            Ok(0) => return Admission::Refuse,
            Ok(got) => self.have += got,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return Admission::Refuse,
        }
        if self.have == PREFACE {
            return if same(&self.shown, &preface(cookie)) { Admission::Admit } else { Admission::Refuse };
        }
        if self.since.elapsed() > PREFACE_TIMEOUT { Admission::Refuse } else { Admission::Wait }
    }
}

/// Compares two byte strings in constant time, so that the time doesn't reveal the position of the first
/// difference.
fn same(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::dial::dial;
    use crate::net::keys::Keys;
    use crate::net::transport::Registry;
    use crossbeam_channel::{Receiver, unbounded};
    use std::io::Write;

    const COOKIE: Cookie = [7; 16];

    struct Bed {
        listener: Listener,
        streams: Receiver<Stream>,
        dialer: ConnectionConfig,
        address: SocketAddr,
    }

    fn bed() -> Bed {
        let (near, far) = (Keys::generate().unwrap(), Keys::generate().unwrap());
        let link = |pinned| ConnectionConfig { pinned, clear: false, registry: Registry::default() };
        let socket = Listener::bind(None).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], socket.local_addr().unwrap().port()));
        let (sender, streams) = unbounded();
        let accepting = link(far.pin(near.public()).unwrap());
        let listener = Listener::start(socket, COOKIE, accepting, sender).unwrap();
        Bed { listener, streams, dialer: link(near.pin(far.public()).unwrap()), address }
    }

    fn dial_in(bed: &Bed) -> io::Result<Stream> {
        dial(bed.address, &COOKIE, &bed.dialer, Duration::from_secs(2))
    }

    #[test]
    fn the_peer_gets_in_by_both_families() {
        let bed = bed();
        dial_in(&bed).unwrap();
        assert!(bed.streams.recv_timeout(Duration::from_secs(2)).is_ok());
    }

    #[test]
    fn strangers_neither_get_in_nor_keep_the_peer_out() {
        let bed = bed();
        // A port scan, garbage, slow connections that send nothing, and a connection with a wrong cookie.
        for _ in 0..20 {
            drop(TcpStream::connect(bed.address).unwrap());
            let _ = TcpStream::connect(bed.address).unwrap().write_all(&[0xff; 1000]);
        }
        let silent: Vec<_> = (0..3 * MAX_WAITING).map(|_| TcpStream::connect(bed.address).unwrap()).collect();
        assert!(dial(bed.address, &[8; 16], &bed.dialer, Duration::from_secs(2)).is_err());
        let begun = Instant::now();
        dial_in(&bed).unwrap();
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "strangers slowed the other end: {:?}",
            begun.elapsed()
        );
        assert!(bed.streams.recv_timeout(Duration::from_secs(2)).is_ok());
        assert!(bed.streams.try_recv().is_err(), "a stranger got in");
        assert!(bed.listener.strangers() >= 41 + 2 * MAX_WAITING as u64 - 1, "{}", bed.listener.strangers());
        drop(silent);
    }

    #[test]
    fn one_who_knows_the_cookie_but_not_the_key_stays_out() {
        let bed = bed();
        let thief = Keys::generate().unwrap();
        let pinned = thief.pin(thief.public()).unwrap();
        let link = ConnectionConfig { pinned, clear: false, registry: Registry::default() };
        assert!(dial(bed.address, &COOKIE, &link, Duration::from_secs(2)).is_err());
        dial_in(&bed).unwrap();
        assert!(bed.streams.recv_timeout(Duration::from_secs(2)).is_ok());
        assert!(bed.streams.try_recv().is_err());
    }

    #[test]
    fn a_port_range_is_kept_to() {
        let first = Listener::bind(None).unwrap();
        let port = first.local_addr().unwrap().port();
        assert!(Listener::bind(Some((port, port))).is_err());
        drop(first);
        let range = (port, port.saturating_add(20));
        let bound = Listener::bind(Some(range)).unwrap().local_addr().unwrap().port();
        assert!((range.0..=range.1).contains(&bound));
    }
}
