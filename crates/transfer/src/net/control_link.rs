//! The control channel of two agents that continue without their client: an encrypted connection between the
//! two agents, which carries messages in both directions.

use linerate_wire::control::Listening;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::net::stream::Stream;
use crate::net::tls::{OpenedRecord, RECORD, Tls, whole_record};

/// Bytes that are read from the connection with one call.
const PIECE: usize = 64 << 10;
/// Ports below this one belong to the system's services. The data uses these ports only if the user has named
/// them.
const FIRST_OWN: u16 = 1024;

/// A control channel to another agent, and the address of that agent.
pub struct ControlLink {
    /// The other agent's messages.
    pub reader: LinkReader,
    /// Sends messages to the other agent.
    pub writer: LinkWriter,
    /// The addresses of the connection.
    pub peer: LinkedPeer,
    /// The connection itself, which is closed at the end.
    pub last: LinkEnd,
}

/// How long the other agent may take to read the last messages before the connection is closed.
const LAST_MOMENTS: Duration = Duration::from_secs(20);

/// The connection of a control channel that is no longer used.
pub struct LinkEnd(TcpStream);

impl LinkEnd {
    /// Waits until the other agent has read everything and closes the connection too. Closing earlier would break the
    /// connection if that agent still sends.
    pub fn wait(self) {
        let Self(mut socket) = self;
        let begun = Instant::now();
        let _ = socket.shutdown(Shutdown::Write);
        let _ = socket.set_read_timeout(Some(Duration::from_secs(1)));
        let mut late = [0; 4096];
        while begun.elapsed() < LAST_MOMENTS {
            match socket.read(&mut late) {
                Ok(1..) => {}
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// The addresses of the control channel between two agents that continue without their client. Their data connections
/// use only these addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedPeer {
    /// The other agent's address.
    pub address: IpAddr,
    /// The address of this agent.
    pub own: IpAddr,
    /// Whether this end has opened the connection.
    pub dials: bool,
    /// The ports that data may use.
    pub ports: Option<(u16, u16)>,
}

impl LinkedPeer {
    /// The only address that this end may dial: the other agent's address, with the port of the first of `candidates`.
    /// `None` if there is no candidate, or the port isn't allowed.
    pub fn fit(&self, candidates: &[SocketAddr]) -> Option<SocketAddr> {
        let (first, last) = self.ports.unwrap_or((FIRST_OWN, u16::MAX));
        let port = candidates.first().map(SocketAddr::port)?;
        (first..=last).contains(&port).then(|| SocketAddr::new(self.address, port))
    }

    /// The address at which this end listens, as a message for the other agent.
    pub fn listening(&self, port: u16) -> Listening {
        let candidates = vec![SocketAddr::new(self.own, port)];
        Listening { candidates, further: Vec::new(), client: None, error: None }
    }
}

impl ControlLink {
    /// Turns the first connection between two agents into a control channel.
    ///
    /// # Errors
    /// If the stream isn't a TCP connection, or has no cipher.
    pub fn of(stream: Stream, dials: bool, ports: Option<(u16, u16)>) -> io::Result<Self> {
        let (socket, tls, leftover) = stream.into_parts().ok_or(io::ErrorKind::Unsupported)?;
        let (address, own) = (socket.peer_addr()?.ip(), socket.local_addr()?.ip());
        let peer = LinkedPeer { address: address.to_canonical(), own: own.to_canonical(), dials, ports };
        let tls = Arc::new(Mutex::new(tls));
        let writer = LinkWriter { socket: socket.try_clone()?, tls: tls.clone(), sealed: Vec::new() };
        let last = LinkEnd(socket.try_clone()?);
        let reader = LinkReader { socket, tls, sealed: leftover, plain: Vec::new(), at: 0 };
        Ok(Self { reader, writer, peer, last })
    }
}

/// The reading side of a control channel between two agents.
pub struct LinkReader {
    socket: TcpStream,
    tls: Arc<Mutex<Tls>>,
    /// Records that have arrived; the last one may be incomplete.
    sealed: Vec<u8>,
    plain: Vec<u8>,
    /// How many bytes of `plain` the caller has read.
    at: usize,
}

impl LinkReader {
    /// Decrypts the next record; false at the end of the connection.
    fn open_next(&mut self) -> io::Result<bool> {
        loop {
            let Some(length) = whole_record(&self.sealed)? else {
                if !self.read_more()? {
                    return Ok(false);
                }
                continue;
            };
            let is_over = match lock(&self.tls).open(&mut self.sealed[..length])? {
                OpenedRecord::Data(plain) => {
                    self.plain.clear();
                    self.plain.extend_from_slice(plain);
                    self.at = 0;
                    None
                }
                OpenedRecord::Nothing => Some(false),
                OpenedRecord::End => Some(true),
            };
            self.sealed.drain(..length);
            match is_over {
                None => return Ok(true),
                Some(true) => return Ok(false),
                Some(false) => {}
            }
        }
    }

    fn read_more(&mut self) -> io::Result<bool> {
        let start = self.sealed.len();
        self.sealed.resize(start + PIECE, 0);
        let read = self.socket.read(&mut self.sealed[start..]);
        self.sealed.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            other => other.map(|read| read > 0),
        }
    }
}

impl Read for LinkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.plain.len() && !self.open_next()? {
            return Ok(0);
        }
        let take = buffer.len().min(self.plain.len() - self.at);
        buffer[..take].copy_from_slice(&self.plain[self.at..self.at + take]);
        self.at += take;
        Ok(take)
    }
}

/// The writing side of a control channel between two agents. Only one thread writes at a time, so the records
/// keep their order.
pub struct LinkWriter {
    socket: TcpStream,
    tls: Arc<Mutex<Tls>>,
    sealed: Vec<u8>,
}

impl Write for LinkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sealed.clear();
        for piece in bytes.chunks(RECORD) {
            lock(&self.tls).seal(piece, &mut self.sealed)?;
        }
        self.socket.write_all(&self.sealed)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Drop for LinkWriter {
    fn drop(&mut self) {
        // A connection that is already closed needs no shutdown.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_other_agents_own_address_is_dialled() {
        let peer = LinkedPeer {
            address: "192.0.2.7".parse().unwrap(),
            own: "192.0.2.1".parse().unwrap(),
            dials: true,
            ports: None,
        };
        let fit = |peer: LinkedPeer, text: &str| {
            peer.fit(&[text.parse().unwrap()]).map(|address| address.to_string())
        };
        assert_eq!(fit(peer, "198.51.100.1:5000").as_deref(), Some("192.0.2.7:5000"));
        assert_eq!(fit(peer, "192.0.2.7:22"), None, "a service");
        let ranged = LinkedPeer { ports: Some((443, 443)), ..peer };
        assert_eq!(fit(ranged, "192.0.2.7:443").as_deref(), Some("192.0.2.7:443"));
        assert_eq!(fit(ranged, "192.0.2.7:5000"), None);
        assert_eq!(peer.fit(&[]), None);
    }
}
