//! Turns a TCP connection into a data stream, at either end: the preface, the handshake, and its deadline.

use linerate_wire::control::Cookie;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::net::keys::Pinned;
use crate::net::stream::Stream;
use crate::net::tls::Handshake;
use crate::net::transport::{Registry, Transport};

/// The first bytes that a dialer sends on a data connection; the listener's cookie follows.
const MAGIC: &[u8; 8] = b"linerate";
/// The length of the preface in bytes.
pub const PREFACE: usize = MAGIC.len() + size_of::<Cookie>();
/// If the other end doesn't acknowledge sent data for this time, the connection is closed (TCP_USER_TIMEOUT).
const USER_TIMEOUT: Duration = Duration::from_secs(120);

/// The most unsent bytes in a socket's buffer (TCP_NOTSENT_LOWAT). More bytes would leave the processor's
/// cache before they are sent. Bytes that were sent but not acknowledged don't count, so this doesn't limit a
/// long path.
const WAITING: u32 = 512 << 10;

/// Settings that all data connections of a transfer share.
#[derive(Clone)]
pub struct ConnectionConfig {
    /// The keys of both ends.
    pub pinned: Pinned,
    /// True if the data isn't encrypted after the handshake.
    pub clear: bool,
    /// The registry of the connections.
    pub registry: Registry,
}

/// The preface that a dialer sends to the listener that has this cookie.
pub fn preface(cookie: &Cookie) -> [u8; PREFACE] {
    let mut preface = [0; PREFACE];
    preface[..MAGIC.len()].copy_from_slice(MAGIC);
    preface[MAGIC.len()..].copy_from_slice(cookie);
    preface
}

/// Turns a connection into a data stream, at either end.
///
/// # Errors
/// If the handshake fails, or isn't complete by `deadline`.
pub fn establish(
    mut socket: TcpStream,
    handshake: Handshake,
    link: &ConnectionConfig,
    deadline: Instant,
) -> io::Result<Stream> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    let (tls, leftover) = handshake.run(&mut Timed { socket: &mut socket, deadline })?;
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    let options = socket2::SockRef::from(&socket);
    options.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    options.set_tcp_notsent_lowat(WAITING)?;
    let alive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(20))
        .with_interval(Duration::from_secs(10));
    options.set_tcp_keepalive(&alive)?;
    link.registry.add(&socket);
    Ok(Stream::new(Transport::Tcp(socket), (!link.clear).then_some(tls), leftover))
}

/// A connection whose reads and writes fail after a deadline, even if the other end keeps sending a few bytes at a
/// time.
struct Timed<'a> {
    socket: &'a mut TcpStream,
    deadline: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        repeated(|| {
            self.socket.set_read_timeout(self.left()?)?;
            self.socket.read(buffer)
        })
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        repeated(|| {
            self.socket.set_write_timeout(self.left()?)?;
            self.socket.write(buffer)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Repeats a call that was interrupted: when a stopped process continues, the kernel interrupts its calls on sockets
/// with a timeout (signal(7)). If the timeout has passed, the kernel's error looks temporary, so it is converted into a
/// permanent error.
fn repeated(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::process::Command;
    use std::thread;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, far)
    }

    #[test]
    fn one_that_drips_does_not_move_the_deadline() {
        let (mut near, mut far) = pair();
        let drip = thread::spawn(move || {
            while far.write_all(&[0x16]).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let begun = Instant::now();
        let mut timed = Timed { socket: &mut near, deadline: begun + Duration::from_millis(300) };
        let mut heard = Vec::new();
        assert_eq!(timed.read_to_end(&mut heard).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(!heard.is_empty() && begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        drop(near);
        drip.join().unwrap();
    }

    #[test]
    fn a_process_that_is_stopped_and_continues_goes_on_with_its_handshake() {
        let (mut near, mut far) = pair();
        let stopper = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            let stop = "kill -STOP $PPID; sleep 0.1; kill -CONT $PPID";
            assert!(Command::new("sh").args(["-c", stop]).status().unwrap().success());
            far.write_all(b"x").unwrap();
        });
        let mut timed = Timed { socket: &mut near, deadline: Instant::now() + Duration::from_secs(60) };
        assert_eq!(timed.read(&mut [0; 1]).unwrap(), 1);
        stopper.join().unwrap();
    }
}
