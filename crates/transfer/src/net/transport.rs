//! Transports: a data stream's bytes are carried by a TCP connection, or by the control channel if no
//! connection is possible.

use crossbeam_channel::{Receiver, RecvTimeoutError};
use linerate_host::link_rate;
use linerate_sys::tcp::{TcpInfo, set_least_to_receive};
use linerate_wire::control::{MAX_TUNNEL, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::net::channel::Channel;

/// The connection or tunnel that carries the bytes of a stream.
pub enum Transport {
    /// A TCP connection.
    Tcp(TcpStream),
    /// Through the control channel, that is, through ssh.
    Tunnel(Tunnel),
}

impl Transport {
    /// The kernel's counters of the connection, if it is a TCP connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        match self {
            Self::Tcp(socket) => TcpInfo::of(socket.as_fd()).ok(),
            Self::Tunnel(_) => None,
        }
    }

    /// True if bytes can be written without waiting.
    pub fn is_writable(&self) -> bool {
        match self {
            Self::Tcp(socket) => {
                let now = Timespec::default();
                poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&now)).is_ok_and(|ready| ready > 0)
            }
            // No later time is better for writing to the control channel.
            Self::Tunnel(_) => true,
        }
    }

    /// This host's address on the link that the connection uses.
    pub fn local_address(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(socket) => Some(socket.local_addr().ok()?.ip()),
            Self::Tunnel(_) => None,
        }
    }

    /// The rate of the port that the connection uses, in bits a second, if it is known.
    pub fn link_rate(&self) -> Option<u64> {
        match self {
            Self::Tcp(socket) => link_rate(socket.local_addr().ok()?.ip()),
            Self::Tunnel(_) => None,
        }
    }

    /// Makes reads wait until `bytes` bytes or the end of the data have arrived (SO_RCVLOWAT). If this fails,
    /// reads only return more often.
    pub fn set_least_to_read(&self, bytes: usize) {
        if let Self::Tcp(socket) = self {
            let _ = set_least_to_receive(socket.as_fd(), bytes);
        }
    }

    /// Tells the other end that no more bytes follow.
    pub fn end(&self) {
        if let Self::Tcp(socket) = self {
            // A connection that is already closed needs no shutdown.
            let _ = socket.shutdown(Shutdown::Write);
        }
    }
}

impl Transport {
    /// Writes all of `parts`, in order.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn write_all_vectored(&mut self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        // An empty write would look like a connection that accepts nothing.
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            match self.write_vectored(parts) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut parts, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            Self::Tunnel(tunnel) => tunnel.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Tunnel(tunnel) => tunnel.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write_vectored(parts),
            Self::Tunnel(tunnel) => tunnel.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The one stream that can be sent through the control channel.
pub struct Tunnel {
    channel: Arc<Channel>,
    incoming: Receiver<Vec<u8>>,
    registry: Registry,
    rest: Vec<u8>,
    at: usize,
    /// The time from which on reads fail.
    deadline: Option<Instant>,
}

impl Tunnel {
    /// A stream over `channel`. The channel puts the bytes that arrive into `incoming`. The stream ends when
    /// `registry` is cut.
    pub fn new(channel: Arc<Channel>, incoming: Receiver<Vec<u8>>, registry: Registry) -> Self {
        Self { channel, incoming, registry, rest: Vec::new(), at: 0, deadline: None }
    }

    /// Gives reads a deadline, after which they fail.
    pub fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Removes the deadline of reads.
    pub fn for_ever(self) -> Self {
        Self { deadline: None, ..self }
    }

    fn is_over(&self) -> bool {
        self.registry.is_cut() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The bytes of the next message; empty if the other end, the channel or this end has ended the stream.
    fn receive(&self) -> Vec<u8> {
        while !self.is_over() {
            match self.incoming.recv_timeout(Duration::from_millis(200)) {
                Ok(bytes) => return bytes,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Vec::new()
    }
}

impl Read for Tunnel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.rest.len() {
            self.rest = self.receive();
            self.at = 0;
        }
        let take = buffer.len().min(self.rest.len() - self.at);
        buffer[..take].copy_from_slice(&self.rest[self.at..self.at + take]);
        self.at += take;
        Ok(take)
    }
}

impl Write for Tunnel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let take = bytes.len().min(MAX_TUNNEL);
        self.channel.send(&Message::Tunnel(bytes[..take].to_vec())).map_err(io::Error::other)?;
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Watched {
    fn is_dead(&mut self, longest: Duration) -> bool {
        let info = TcpInfo::of(self.socket.as_fd()).unwrap_or_default();
        if !info.repeats {
            self.repeats = None;
            return false;
        }
        // On a connection that had nothing to send, the last acknowledgement may be old.
        let since = self.repeats.get_or_insert_with(Instant::now).elapsed();
        since.min(Duration::from_millis(info.acknowledged_ms.into())) >= longest
    }
}

/// All connections of a transfer, which can be closed together. Workers that are blocked on one of these
/// connections then return.
#[derive(Clone, Default)]
pub struct Registry {
    inner: Arc<Mutex<Connections>>,
}

#[derive(Default)]
struct Connections {
    done: bool,
    sockets: Vec<Watched>,
}

struct Watched {
    socket: TcpStream,
    /// The time since which the connection has been retransmitting, or probing the other end.
    repeats: Option<Instant>,
}

impl Registry {
    /// Adds a connection; if the registry was cut before, the connection is closed immediately.
    pub fn add(&self, socket: &TcpStream) {
        let mut cut = lock(&self.inner);
        if cut.done {
            let _ = socket.shutdown(Shutdown::Both);
        } else if let Ok(copy) = socket.try_clone() {
            cut.sockets.push(Watched { socket: copy, repeats: None });
        }
    }

    /// True if a connection has kept retransmitting for at least `longest` and no acknowledgement arrived in
    /// this time. A far end with slow storage accepts no data but still sends acknowledgements. The method
    /// measures this time between its calls, so it must be called often.
    pub fn is_dead(&self, longest: Duration) -> bool {
        lock(&self.inner).sockets.iter_mut().any(|watched| watched.is_dead(longest))
    }

    /// True once all connections were cut.
    pub fn is_cut(&self) -> bool {
        lock(&self.inner).done
    }

    /// Closes all connections of the transfer, including those that are added later.
    pub fn cut(&self) {
        let mut cut = lock(&self.inner);
        cut.done = true;
        for watched in cut.sockets.drain(..) {
            let _ = watched.socket.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_peer_that_takes_nothing_is_slow_and_not_dead() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _slow = listener.accept().unwrap();
        let registry = Registry::default();
        registry.add(&near);
        near.set_nonblocking(true).unwrap();
        while (&near).write(&[0; 64 << 10]).is_ok() {}
        for _ in 0..10 {
            assert!(!registry.is_dead(Duration::from_millis(100)));
            std::thread::sleep(Duration::from_millis(50));
        }
        registry.cut();
        assert!(!registry.is_dead(Duration::ZERO), "what is cut is nobody's");
    }
}
