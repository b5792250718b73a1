//! TLS 1.3 over buffers that we own, so that a payload is copied as seldom as the library allows.

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use std::io::{self, Read, Write};
use std::sync::Arc;

use crate::keys::Pinned;

/// Bytes that a record adds to its plain text at most: header, content type and tag.
const RECORD_OVERHEAD: usize = 5 + 1 + 16;
/// Plain bytes of a full record.
const RECORD: usize = 16 * 1024;
/// More than any flight of a handshake with raw public keys.
const FLIGHT: usize = 16 * 1024;

/// The accepting end says this first, inside TLS: the handshake is over at both ends.
const GO: &[u8] = b"go";

/// One end of a TLS connection.
pub enum Tls {
    /// The end that opened the connection.
    Client(Box<UnbufferedClientConnection>),
    /// The end that accepted it.
    Server(Box<UnbufferedServerConnection>),
}

/// Room for a key update, which the library puts before the data when the keys have served long enough.
const KEY_UPDATE: usize = 64;

/// Bytes that `length` plain bytes need at most when they are encrypted.
pub const fn sealed_size(length: usize) -> usize {
    length + (length / RECORD + 1) * RECORD_OVERHEAD + KEY_UPDATE
}

impl Tls {
    /// The opening end.
    ///
    /// # Errors
    /// Where the library refuses the settings.
    pub fn client(pinned: &Pinned) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from("linerate").expect("a valid DNS name");
        UnbufferedClientConnection::new(Arc::clone(&pinned.client), name).map(|c| Self::Client(Box::new(c)))
    }

    /// The accepting end.
    ///
    /// # Errors
    /// Where the library refuses the settings.
    pub fn server(pinned: &Pinned) -> Result<Self, rustls::Error> {
        UnbufferedServerConnection::new(Arc::clone(&pinned.server)).map(|c| Self::Server(Box::new(c)))
    }

    /// Completes the handshake over `channel`, and returns what came behind it.
    ///
    /// Deadlines are the channel's. Both ends know of each other's success: the accepting end says so.
    ///
    /// # Errors
    /// Where the channel fails or closes, or the other end isn't the one whose key is pinned.
    pub fn handshake(&mut self, channel: &mut (impl Read + Write)) -> io::Result<Vec<u8>> {
        let mut incoming = Vec::new();
        let accepting = matches!(self, Self::Server(_));
        loop {
            let mut outgoing = Vec::new();
            let (discard, step) = self.step(&mut incoming, &mut outgoing)?;
            channel.write_all(&outgoing)?;
            incoming.drain(..discard);
            match step {
                Step::Again => {}
                Step::Read => read_some(channel, &mut incoming)?,
                Step::Established if accepting => return self.say_go(channel, incoming),
                Step::Established => read_some(channel, &mut incoming)?,
                Step::Said(word) if word == GO => return Ok(incoming),
                Step::Said(_) => return Err(invalid("unexpected data in a handshake")),
            }
        }
    }

    fn say_go(&mut self, channel: &mut impl Write, incoming: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut sealed = vec![0; sealed_size(GO.len())];
        let length = self.seal(GO, &mut sealed)?;
        channel.write_all(&sealed[..length])?;
        Ok(incoming)
    }

    fn step(&mut self, incoming: &mut [u8], outgoing: &mut Vec<u8>) -> io::Result<(usize, Step)> {
        match self {
            Self::Client(tls) => handshake_step(tls.process_tls_records(incoming), outgoing),
            Self::Server(tls) => handshake_step(tls.process_tls_records(incoming), outgoing),
        }
    }

    /// Encrypts `plain` into `sealed`, which has at least [`sealed_size`] bytes; returns how many it used.
    ///
    /// # Errors
    /// Where the connection is no longer able to send.
    pub fn seal(&mut self, plain: &[u8], sealed: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Client(tls) => seal_with(tls.process_tls_records(&mut []), plain, sealed),
            Self::Server(tls) => seal_with(tls.process_tls_records(&mut []), plain, sealed),
        }
    }

    /// Writes the end of the connection into `sealed`; returns how many bytes it used.
    ///
    /// # Errors
    /// Where the connection is no longer able to send.
    pub fn seal_end(&mut self, sealed: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Client(tls) => end_with(tls.process_tls_records(&mut []), sealed),
            Self::Server(tls) => end_with(tls.process_tls_records(&mut []), sealed),
        }
    }

    /// Decrypts the records at the front of `incoming`, hands their plain text to `take` and returns how many
    /// bytes of `incoming` were used: zero where no record is whole.
    ///
    /// # Errors
    /// Where a record was changed on its way, or `take` fails.
    pub fn open<E: From<io::Error>>(
        &mut self,
        incoming: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Opened, E> {
        match self {
            Self::Client(tls) => open_with(tls.process_tls_records(incoming), take),
            Self::Server(tls) => open_with(tls.process_tls_records(incoming), take),
        }
    }
}

/// What [`Tls::open`] found.
pub enum Opened {
    /// A record was decrypted; so many bytes of the buffer are used up.
    Record(usize),
    /// More bytes are needed; so many are used up already.
    Incomplete(usize),
    /// The other end ended the connection in order.
    End,
}

enum Step {
    Again,
    Read,
    Established,
    Said(Vec<u8>),
}

fn handshake_step<D>(
    status: UnbufferedStatus<'_, '_, D>,
    outgoing: &mut Vec<u8>,
) -> io::Result<(usize, Step)> {
    let UnbufferedStatus { discard, state } = status;
    let step = match state.map_err(broken)? {
        ConnectionState::EncodeTlsData(mut state) => {
            let mut flight = vec![0; FLIGHT];
            let length = state.encode(&mut flight).map_err(io::Error::other)?;
            outgoing.extend_from_slice(&flight[..length]);
            Step::Again
        }
        ConnectionState::TransmitTlsData(state) => {
            state.done();
            Step::Again
        }
        ConnectionState::BlockedHandshake => Step::Read,
        ConnectionState::WriteTraffic(_) => Step::Established,
        ConnectionState::ReadTraffic(mut state) => {
            let record = state.next_record().ok_or_else(|| invalid("an empty record"))?.map_err(broken)?;
            Step::Said(record.payload.to_vec())
        }
        _ => return Err(io::ErrorKind::UnexpectedEof.into()),
    };
    Ok((discard, step))
}

fn seal_with<D>(status: UnbufferedStatus<'_, '_, D>, plain: &[u8], sealed: &mut [u8]) -> io::Result<usize> {
    match status.state.map_err(broken)? {
        ConnectionState::WriteTraffic(mut state) => state.encrypt(plain, sealed).map_err(io::Error::other),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

fn end_with<D>(status: UnbufferedStatus<'_, '_, D>, sealed: &mut [u8]) -> io::Result<usize> {
    match status.state.map_err(broken)? {
        ConnectionState::WriteTraffic(mut state) => {
            state.queue_close_notify(sealed).map_err(io::Error::other)
        }
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

fn open_with<D, E: From<io::Error>>(
    status: UnbufferedStatus<'_, '_, D>,
    take: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Opened, E> {
    let UnbufferedStatus { mut discard, state } = status;
    match state.map_err(broken)? {
        ConnectionState::ReadTraffic(mut state) => {
            while let Some(record) = state.next_record() {
                let record = record.map_err(broken)?;
                discard += record.discard;
                take(record.payload)?;
            }
            Ok(Opened::Record(discard))
        }
        ConnectionState::WriteTraffic(_) => Ok(Opened::Incomplete(discard)),
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Opened::End),
        _ => Err(invalid("an unexpected handshake in the middle of a stream").into()),
    }
}

fn read_some(channel: &mut impl Read, incoming: &mut Vec<u8>) -> io::Result<()> {
    let start = incoming.len();
    if start > 4 * FLIGHT {
        return Err(invalid("a handshake without an end"));
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
mod tests {
    use super::*;
    use crate::keys::Keys;
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn shake(client: &Pinned, server: &Pinned) -> (io::Result<Tls>, io::Result<Tls>) {
        let (mut near, mut far) = pair();
        let mut accepting = Tls::server(server).unwrap();
        let mut opening = Tls::client(client).unwrap();
        let far = std::thread::spawn(move || accepting.handshake(&mut far).map(|_| accepting));
        let opened = opening.handshake(&mut near).map(|_| opening);
        // An end that gave up closes, else the other would wait for it.
        drop(near);
        (opened, far.join().unwrap())
    }

    #[test]
    fn two_ends_that_pin_each_other_exchange_data() {
        let (a, b) = (Keys::generate().unwrap(), Keys::generate().unwrap());
        let (near, far) = shake(&a.pin(b.public()).unwrap(), &b.pin(a.public()).unwrap());
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        let plain: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        let mut sealed = vec![0; sealed_size(plain.len())];
        let length = near.seal(&plain, &mut sealed).unwrap();
        let (mut opened, mut at) = (Vec::new(), 0);
        while at < length {
            let mut take = |bytes: &[u8]| -> io::Result<()> {
                opened.extend_from_slice(bytes);
                Ok(())
            };
            let (Opened::Record(used) | Opened::Incomplete(used)) =
                far.open(&mut sealed[at..length], &mut take).unwrap()
            else {
                panic!("the stream has no end")
            };
            at += used;
        }
        assert_eq!(opened, plain);
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

    #[test]
    fn a_changed_record_is_refused() {
        let (a, b) = (Keys::generate().unwrap(), Keys::generate().unwrap());
        let (near, far) = shake(&a.pin(b.public()).unwrap(), &b.pin(a.public()).unwrap());
        let mut sealed = vec![0; sealed_size(100)];
        let length = near.unwrap().seal(&[1; 100], &mut sealed).unwrap();
        sealed[50] ^= 1;
        let opened = far.unwrap().open(&mut sealed[..length], &mut |_| Ok::<(), io::Error>(()));
        assert!(opened.is_err());
    }
}
