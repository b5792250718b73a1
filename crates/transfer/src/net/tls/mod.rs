//! TLS 1.3. The TLS library makes the handshake; records are encrypted in this program's own buffers.

mod record;
mod seal;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use std::io::{self, Read, Write};
use std::sync::Arc;

use crate::net::keys::Pinned;
use record::KeySchedule;

pub use record::{OpenedRecord, RECORD, RECORD_OVERHEAD, Tls, plain, whole_record};

/// An upper limit for the bytes of one flight of a handshake with raw public keys.
const FLIGHT: usize = 16 * 1024;

/// The first bytes that the accepting end sends inside TLS. They show the other end that the handshake has
/// succeeded at both ends.
const GO: &[u8] = b"go";

/// A connection whose handshake isn't complete.
pub enum Handshake {
    /// The end that opened the connection.
    Client(Box<UnbufferedClientConnection>),
    /// The end that accepted the connection.
    Server(Box<UnbufferedServerConnection>),
}

impl Handshake {
    /// The handshake at the end that opened the connection.
    ///
    /// # Errors
    /// If the library refuses the settings.
    pub fn client(pinned: &Pinned) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from("linerate").expect("a valid DNS name");
        UnbufferedClientConnection::new(Arc::clone(&pinned.client), name).map(|c| Self::Client(Box::new(c)))
    }

    /// The handshake at the end that accepted the connection.
    ///
    /// # Errors
    /// If the library refuses the settings.
    pub fn server(pinned: &Pinned) -> Result<Self, rustls::Error> {
        UnbufferedServerConnection::new(Arc::clone(&pinned.server)).map(|c| Self::Server(Box::new(c)))
    }

    /// Completes the handshake over `channel`; returns the connection, and the bytes that followed the
    /// handshake.
    ///
    /// The channel enforces deadlines. After success, each end knows that the other end has succeeded too, because the
    /// accepting end sends a message after the handshake.
    ///
    /// # Errors
    /// If the channel fails or closes, or the other end doesn't have the pinned key.
    pub fn run(mut self, channel: &mut (impl Read + Write)) -> io::Result<(Tls, Vec<u8>)> {
        let mut incoming = Vec::new();
        loop {
            let mut outgoing = Vec::new();
            let (discard, step) = self.step(&mut incoming, &mut outgoing)?;
            channel.write_all(&outgoing)?;
            incoming.drain(..discard);
            match step {
                HandshakeStep::Again => {}
                HandshakeStep::Read => read_some(channel, &mut incoming)?,
                HandshakeStep::Established => break,
            }
        }
        let accepting = matches!(self, Self::Server(_));
        let mut tls = self.established().map_err(broken)?;
        if accepting {
            let mut go = Vec::new();
            tls.seal(GO, &mut go)?;
            channel.write_all(&go)?;
        } else {
            hear_go(&mut tls, channel, &mut incoming)?;
        }
        Ok((tls, incoming))
    }

    fn step(&mut self, incoming: &mut [u8], outgoing: &mut Vec<u8>) -> io::Result<(usize, HandshakeStep)> {
        match self {
            Self::Client(tls) => take_step(tls.process_tls_records(incoming), outgoing),
            Self::Server(tls) => take_step(tls.process_tls_records(incoming), outgoing),
        }
    }

    fn established(self) -> Result<Tls, rustls::Error> {
        match self {
            Self::Client(tls) => {
                let (secrets, keys) = tls.dangerous_into_kernel_connection()?;
                Tls::new(KeySchedule::Client(Box::new(keys)), secrets)
            }
            Self::Server(tls) => {
                let (secrets, keys) = tls.dangerous_into_kernel_connection()?;
                Tls::new(KeySchedule::Server(Box::new(keys)), secrets)
            }
        }
    }
}

enum HandshakeStep {
    Again,
    Read,
    Established,
}

fn take_step<D>(
    status: UnbufferedStatus<'_, '_, D>,
    outgoing: &mut Vec<u8>,
) -> io::Result<(usize, HandshakeStep)> {
    let UnbufferedStatus { discard, state } = status;
    let step = match state.map_err(broken)? {
        ConnectionState::EncodeTlsData(mut state) => {
            let mut flight = vec![0; FLIGHT];
            let length = state.encode(&mut flight).map_err(io::Error::other)?;
            outgoing.extend_from_slice(&flight[..length]);
            HandshakeStep::Again
        }
        ConnectionState::TransmitTlsData(state) => {
            state.done();
            HandshakeStep::Again
        }
        ConnectionState::BlockedHandshake => HandshakeStep::Read,
        ConnectionState::WriteTraffic(_) => HandshakeStep::Established,
        _ => return Err(io::ErrorKind::UnexpectedEof.into()),
    };
    Ok((discard, step))
}

fn hear_go(tls: &mut Tls, channel: &mut impl Read, incoming: &mut Vec<u8>) -> io::Result<()> {
    let length = loop {
        match whole_record(incoming)? {
            Some(length) => break length,
            None => read_some(channel, incoming)?,
        }
    };
    if tls.open(&mut incoming[..length])? != OpenedRecord::Data(GO) {
        return Err(invalid("unexpected data in a handshake"));
    }
    incoming.drain(..length);
    Ok(())
}

fn read_some(channel: &mut impl Read, incoming: &mut Vec<u8>) -> io::Result<()> {
    let start = incoming.len();
    if start > 4 * FLIGHT {
        return Err(invalid("a handshake that doesn't end"));
    }
    incoming.resize(start + FLIGHT, 0);
    let read = channel.read(&mut incoming[start..]);
    incoming.truncate(start + *read.as_ref().unwrap_or(&0));
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        other => other.map(drop),
    }
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::net::keys::Keys;
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    pub fn shake(client: &Pinned, server: &Pinned) -> (io::Result<Tls>, io::Result<Tls>) {
        let (mut near, mut far) = pair();
        let accepting = Handshake::server(server).unwrap();
        let opening = Handshake::client(client).unwrap();
        let far = std::thread::spawn(move || accepting.run(&mut far).map(|(tls, _)| tls));
        let opened = opening.run(&mut near).map(|(tls, _)| tls);
        // An end that gives up must close its connection, because the other end would otherwise wait for it.
        drop(near);
        (opened, far.join().unwrap())
    }

    #[test]
    fn a_stranger_is_refused_by_either_end() {
        let (a, b, stranger) =
            (Keys::generate().unwrap(), Keys::generate().unwrap(), Keys::generate().unwrap());
        let honest = b.pin(a.public()).unwrap();
        let (near, far) = shake(&stranger.pin(b.public()).unwrap(), &honest);
        assert!(near.is_err() && far.is_err(), "a stranger as client");
        let (near, far) = shake(&a.pin(b.public()).unwrap(), &stranger.pin(a.public()).unwrap());
        assert!(near.is_err() && far.is_err(), "a stranger as server");
    }
}
