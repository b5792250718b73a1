//! Frames over a transport, with TLS or, where the user switched encryption off, with a checksum on each.

use linerate_wire::frame::{FrameError, FrameKind, HEADER, Header, Parser, Piece};
use std::io::{self, Read, Write};

use crate::clock::{Clock, Stage};
use crate::tls::{Opened, Tls, sealed_size};
use crate::transport::Transport;

/// Payload bytes of a data frame that the sender makes. With its encrypted form it stays in a second-level cache.
pub const DATA_FRAME: usize = 256 << 10;
/// Bytes that the receiver asks the socket for at once.
const RECEIVE: usize = 512 << 10;

/// A connected, authenticated stream that no frame has passed yet.
pub struct Stream {
    transport: Transport,
    tls: Option<Tls>,
    leftover: Vec<u8>,
}

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection failed.
    #[error("the data connection failed: {0}")]
    Io(#[from] io::Error),
    /// It closed before the end was announced.
    #[error("the data connection closed in the middle of the transfer")]
    Cut,
    /// Its bytes aren't frames, or were changed.
    #[error("the data connection carries damaged data: {0}")]
    Frame(#[from] FrameError),
    /// The other end breaks the protocol.
    #[error("the other end breaks the protocol: {0}")]
    Protocol(&'static str),
    /// The destination can't take more (no space, quota, read-only): nothing further can succeed.
    #[error("{0}")]
    Destination(String),
}

impl Stream {
    /// A stream; `tls` is `None` where only a checksum protects the data, `leftover` came behind the handshake.
    pub fn new(transport: Transport, tls: Option<Tls>, leftover: Vec<u8>) -> Self {
        Self { transport, tls, leftover }
    }

    /// The sending side.
    pub fn into_writer(self) -> FrameWriter {
        let out = if self.tls.is_some() { vec![0; sealed_size(DATA_FRAME)] } else { Vec::new() };
        FrameWriter { transport: self.transport, tls: self.tls, out }
    }

    /// The receiving side.
    pub fn into_reader(self) -> FrameReader {
        let filled = self.leftover.len();
        let mut buffer = self.leftover;
        buffer.resize(filled.max(RECEIVE), 0);
        let parser = Parser::new(self.tls.is_none());
        FrameReader { transport: self.transport, tls: self.tls, parser, buffer, head: 0, tail: filled }
    }
}

/// Sends frames.
pub struct FrameWriter {
    transport: Transport,
    tls: Option<Tls>,
    out: Vec<u8>,
}

impl FrameWriter {
    /// Sends one frame. Time goes to the cipher and the socket.
    ///
    /// # Errors
    /// Where the connection is broken.
    pub fn send(&mut self, kind: FrameKind, payload: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        let header = Header::of(kind, payload, self.tls.is_none()).encode();
        match &mut self.tls {
            Some(_) => self.send_sealed(&header, payload, clock),
            None => {
                clock.lap(Stage::Cipher);
                write_both(&mut self.transport, &header, payload)?;
                clock.lap(Stage::Socket);
                Ok(())
            }
        }
    }

    /// The header is a record of its own, so that the payload's records, and with them the receiver's writes,
    /// begin at multiples of a record's size.
    fn send_sealed(&mut self, header: &[u8], payload: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        let tls = self.tls.as_mut().expect("the caller has seen it");
        let room = sealed_size(HEADER) + sealed_size(payload.len());
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
        let mut length = tls.seal(header, &mut self.out)?;
        length += tls.seal(payload, &mut self.out[length..])?;
        clock.lap(Stage::Cipher);
        self.transport.write_all(&self.out[..length])?;
        clock.lap(Stage::Socket);
        Ok(())
    }

    /// Announces the end of the stream.
    ///
    /// # Errors
    /// Where the connection is broken.
    pub fn end(mut self, clock: &mut Clock) -> Result<Transport, StreamError> {
        self.send(FrameKind::End, &[], clock)?;
        if let Some(tls) = &mut self.tls {
            let length = tls.seal_end(&mut self.out)?;
            self.transport.write_all(&self.out[..length])?;
        }
        Ok(self.transport)
    }
}

fn write_both(transport: &mut Transport, header: &[u8], payload: &[u8]) -> io::Result<()> {
    let Transport::Tcp(socket) = transport else {
        transport.write_all(header)?;
        return transport.write_all(payload);
    };
    let parts = [io::IoSlice::new(header), io::IoSlice::new(payload)];
    let sent = socket.write_vectored(&parts)?;
    if sent < header.len() {
        socket.write_all(&header[sent..])?;
    }
    socket.write_all(&payload[sent.saturating_sub(header.len())..])
}

/// What a receiver does with the frames of one stream.
pub trait FrameHandler {
    /// A frame begins.
    ///
    /// # Errors
    /// Where the stream can't go on.
    fn start(&mut self, header: Header) -> Result<(), StreamError>;

    /// A piece of the payload.
    ///
    /// # Errors
    /// Where the stream can't go on.
    fn payload(&mut self, piece: &[u8]) -> Result<(), StreamError>;

    /// The payload is whole and its checksum right.
    ///
    /// # Errors
    /// Where the stream can't go on.
    fn done(&mut self, kind: FrameKind) -> Result<(), StreamError>;

    /// The clock of this stream's worker.
    fn clock(&mut self) -> &mut Clock;
}

/// Receives frames.
pub struct FrameReader {
    transport: Transport,
    tls: Option<Tls>,
    parser: Parser,
    buffer: Vec<u8>,
    head: usize,
    tail: usize,
}

impl FrameReader {
    /// Hands every frame to `handler` until the end is announced.
    ///
    /// # Errors
    /// Where the connection breaks or closes early, the bytes aren't frames, or the handler fails.
    pub fn run(&mut self, handler: &mut impl FrameHandler) -> Result<(), StreamError> {
        loop {
            if self.drain(handler)? {
                return Ok(());
            }
            self.receive(handler.clock())?;
        }
    }

    /// The kernel's view of the connection.
    pub fn tcp_info(&self) -> Option<linerate_sys::tcp::TcpInfo> {
        self.transport.tcp_info()
    }

    fn receive(&mut self, clock: &mut Clock) -> Result<(), StreamError> {
        self.make_room();
        clock.lap(Stage::Cipher);
        let got = self.transport.read(&mut self.buffer[self.tail..]);
        clock.lap(Stage::Socket);
        match got? {
            0 => Err(StreamError::Cut),
            got => {
                self.tail += got;
                Ok(())
            }
        }
    }

    /// Moves what is left to the front, which is less than a record, since all whole records were used.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.head..self.tail, 0);
        self.tail -= self.head;
        self.head = 0;
    }

    /// Uses what is in the buffer; true once the end was announced.
    fn drain(&mut self, handler: &mut impl FrameHandler) -> Result<bool, StreamError> {
        let parser = &mut self.parser;
        let mut ended = false;
        let mut take = |plain: &[u8]| {
            ended = parse(parser, plain, handler)?;
            Ok(())
        };
        let Some(tls) = &mut self.tls else {
            take(&self.buffer[self.head..self.tail])?;
            self.head = self.tail;
            return Ok(ended);
        };
        while self.head < self.tail {
            match tls.open::<StreamError>(&mut self.buffer[self.head..self.tail], &mut take)? {
                Opened::Record(used) => self.head += used,
                Opened::Incomplete(used) => {
                    self.head += used;
                    break;
                }
                Opened::End => return if ended { Ok(true) } else { Err(StreamError::Cut) },
            }
        }
        Ok(ended)
    }
}

/// Cuts `plain` into frames; true where one of them was the end.
fn parse(
    parser: &mut Parser,
    mut plain: &[u8],
    handler: &mut impl FrameHandler,
) -> Result<bool, StreamError> {
    while let Some(piece) = parser.next(&mut plain)? {
        match piece {
            Piece::Start(header) => handler.start(header)?,
            Piece::Payload(piece) => handler.payload(piece)?,
            Piece::Done(FrameKind::End) if !plain.is_empty() => {
                return Err(StreamError::Protocol("frames behind the end"));
            }
            Piece::Done(kind) => {
                handler.done(kind)?;
                if kind == FrameKind::End {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}
