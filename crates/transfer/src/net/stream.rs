//! Frames over a transport, with TLS or, where the user switched encryption off, with a checksum on each.

use linerate_wire::frame::{FrameError, FrameKind, HEADER, Header, Parser, Piece};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

use crate::net::clock::{Clock, Stage};
use crate::net::tls::{AROUND, OpenedRecord, RECORD, Tls, plain, whole_record};
use crate::net::transport::Transport;

/// Payload bytes of a data frame that the sender makes. What was read, what is encrypted and the kernel's copy of it fit
/// into a second-level cache together.
pub const DATA_FRAME: usize = 64 << 10;
/// Bytes that the receiver asks the socket for at once; with the kernel's copies before and behind it, as much.
const RECEIVE: usize = 192 << 10;
/// While this many payload bytes are sure to follow, the receiver is woken for [`TOGETHER`] of them, and not
/// for each packet: on a link that isn't full of them at once, waking costs as much as decrypting. Twice as many, since
/// the kernel hands over fewer that are there and then waits for [`TOGETHER`] more.
const SURE: u64 = 2 * TOGETHER as u64;
/// Less than a receiver asks for, so that what arrives meanwhile is taken along.
const TOGETHER: usize = 128 << 10;
/// Records that are sent at once: a data frame and its header.
const AT_ONCE: usize = DATA_FRAME / RECORD + 1;

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
    /// Its bytes aren't what the other end encrypted.
    #[error("the data connection carries damaged data: {0}")]
    Record(io::Error),
    /// The other end breaks the protocol.
    #[error("the other end breaks the protocol: {0}")]
    Protocol(&'static str),
    /// It sends what wasn't asked for, or may not be sent.
    #[error("the other end breaks the protocol: {0}")]
    Refused(#[from] crate::base::problem::Refused),
    /// The destination can't take more (no space, quota, read-only): nothing further can succeed.
    #[error("{0}")]
    Destination(String),
    /// A source can't be read.
    #[error("{0}")]
    Source(String),
}

impl Stream {
    /// A stream; `tls` is `None` where only a checksum protects the data, `leftover` came behind the handshake.
    pub fn new(transport: Transport, tls: Option<Tls>, leftover: Vec<u8>) -> Self {
        Self { transport, tls, leftover }
    }

    /// The protection of the payload: a cipher, or `ssh` where the stream travels through it; `None` in
    /// clear.
    pub fn cipher(&self) -> Option<&'static str> {
        match (&self.tls, &self.transport) {
            (Some(tls), _) => Some(tls.cipher()),
            (None, Transport::Tunnel(_)) => Some("ssh"),
            (None, Transport::Tcp(_)) => None,
        }
    }

    /// The kernel's view of the connection.
    pub fn tcp_info(&self) -> Option<linerate_sys::tcp::TcpInfo> {
        self.transport.tcp_info()
    }

    /// Bits a second of the port by which it leaves, where they are known.
    pub fn link_rate(&self) -> Option<u64> {
        self.transport.link_rate()
    }

    /// The sending side.
    pub fn into_writer(self) -> FrameWriter {
        FrameWriter { transport: self.transport, tls: self.tls, buffer: Vec::new() }
    }

    /// The receiving side.
    pub fn into_reader(self) -> FrameReader {
        let filled = self.leftover.len();
        let mut buffer = self.leftover;
        buffer.resize(filled.max(RECEIVE), 0);
        let parser = Parser::new(self.tls.is_none());
        FrameReader {
            transport: self.transport,
            tls: self.tls,
            parser,
            buffer,
            head: 0,
            tail: filled,
            least: 1,
            is_used: filled > 0,
        }
    }
}

/// Sends frames.
pub struct FrameWriter {
    transport: Transport,
    tls: Option<Tls>,
    /// Bytes that are on their way.
    buffer: Vec<u8>,
}

impl FrameWriter {
    /// Sends one frame. Time goes to the cipher and the socket.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, kind: FrameKind, payload: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        let header = Header::of(kind, payload, self.tls.is_none()).encode();
        if self.tls.is_some() {
            return self.send_sealed(&header, payload, clock);
        }
        clock.lap(Stage::Cipher);
        self.transport.write_all_vectored(&mut [IoSlice::new(&header), IoSlice::new(payload)])?;
        clock.lap(Stage::Socket);
        Ok(())
    }

    /// The header is a record of its own, so that the payload's records, and with them the receiver's writes,
    /// begin at multiples of a record's size.
    fn send_sealed(&mut self, header: &[u8], payload: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        let mut parts = std::iter::once(header).chain(payload.chunks(RECORD)).peekable();
        while parts.peek().is_some() {
            self.buffer.clear();
            let tls = self.tls.as_mut().expect("the caller has seen it");
            parts.by_ref().take(AT_ONCE).try_for_each(|part| tls.seal(part, &mut self.buffer))?;
            clock.lap(Stage::Cipher);
            self.transport.write_all(&self.buffer)?;
            clock.lap(Stage::Socket);
        }
        Ok(())
    }

    /// Sends a data frame of `length` bytes, at most [`DATA_FRAME`], which `read` puts to the places where they are
    /// encrypted. Where that fails nothing is sent; the inner error is its.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send_data<E>(
        &mut self,
        length: usize,
        clock: &mut Clock,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<Result<(), E>, StreamError> {
        if self.tls.is_none() {
            return self.send_clear_data(length, clock, read);
        }
        self.renew_keys()?;
        let records = length.div_ceil(RECORD);
        let frame = HEADER + length + (1 + records) * AROUND;
        if self.buffer.len() < frame {
            self.buffer.resize(frame, 0);
        }
        let (header, payload) = self.buffer[..frame].split_at_mut(HEADER + AROUND);
        let mut records: Vec<&mut [u8]> = payload.chunks_mut(RECORD + AROUND).collect();
        let mut places: Vec<_> = records.iter_mut().map(|record| IoSliceMut::new(plain(record))).collect();
        let read = read(&mut places);
        clock.lap(Stage::Read);
        if read.is_err() {
            return Ok(read);
        }
        plain(header).copy_from_slice(&Header::unchecked(FrameKind::Data, length).encode());
        let tls = self.tls.as_mut().expect("it is there, as was just seen");
        tls.seal_in_place(header)?;
        records.into_iter().try_for_each(|record| tls.seal_in_place(record))?;
        clock.lap(Stage::Cipher);
        self.transport.write_all(&self.buffer[..frame])?;
        clock.lap(Stage::Socket);
        Ok(read)
    }

    /// Makes sure that the keys serve for what is sent at once.
    fn renew_keys(&mut self) -> io::Result<()> {
        let mut update = Vec::new();
        if let Some(tls) = &mut self.tls {
            tls.renew_keys(AT_ONCE as u64, &mut update)?;
        }
        self.transport.write_all(&update)
    }

    fn send_clear_data<E>(
        &mut self,
        length: usize,
        clock: &mut Clock,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<Result<(), E>, StreamError> {
        let mut payload = std::mem::take(&mut self.buffer);
        payload.resize(length, 0);
        let read = read(&mut [IoSliceMut::new(&mut payload)]);
        clock.lap(Stage::Read);
        if read.is_ok() {
            self.send(FrameKind::Data, &payload, clock)?;
        }
        self.buffer = payload;
        Ok(read)
    }

    /// The kernel's view of the connection.
    pub fn tcp_info(&self) -> Option<linerate_sys::tcp::TcpInfo> {
        self.transport.tcp_info()
    }

    /// Announces the end of the stream.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn end(mut self, clock: &mut Clock) -> Result<Transport, StreamError> {
        self.send(FrameKind::End, &[], clock)?;
        if let Some(tls) = &mut self.tls {
            self.buffer.clear();
            tls.seal_end(&mut self.buffer)?;
            self.transport.write_all(&self.buffer)?;
        }
        self.transport.end();
        Ok(self.transport)
    }
}

/// Bytes of all `pieces`.
pub fn total(pieces: &[IoSlice<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// Handles the frames of one stream.
pub trait FrameHandler {
    /// A frame begins.
    ///
    /// # Errors
    /// If the stream can't go on.
    fn start(&mut self, header: Header) -> Result<(), StreamError>;

    /// The next pieces of the payload, which belong one behind the other.
    ///
    /// # Errors
    /// If the stream can't go on.
    fn payload(&mut self, pieces: &mut [IoSlice<'_>]) -> Result<(), StreamError>;

    /// The payload is whole and its checksum right.
    ///
    /// # Errors
    /// If the stream can't go on.
    fn done(&mut self, kind: FrameKind) -> Result<(), StreamError>;

    /// Payload bytes that are sure to follow.
    fn expects(&self) -> u64 {
        0
    }

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
    /// The number of bytes that reads wait for.
    least: usize,
    is_used: bool,
}

impl FrameReader {
    /// Hands every frame to `handler` until the end is announced.
    ///
    /// # Errors
    /// If the connection breaks or closes early, the bytes aren't frames, or the handler fails.
    pub fn run(&mut self, handler: &mut impl FrameHandler) -> Result<(), StreamError> {
        loop {
            if self.drain(handler)? {
                return Ok(());
            }
            self.wait_for_more(handler.expects());
            self.receive(handler.clock())?;
        }
    }

    fn wait_for_more(&mut self, expected: u64) {
        let least = if expected >= SURE { TOGETHER } else { 1 };
        if least != self.least {
            self.transport.set_least_to_read(least);
            self.least = least;
        }
    }

    /// True once anything has come behind the handshake: the other end uses this stream.
    pub fn is_used(&self) -> bool {
        self.is_used
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
                self.is_used = true;
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
        let Self { tls, parser, buffer, head, tail, .. } = self;
        let mut frames = Frames { parser, handler, pieces: Vec::new(), ended: false };
        let mut rest = &mut buffer[*head..*tail];
        match tls {
            None => {
                *head = *tail;
                frames.cut(rest)?;
            }
            Some(tls) => {
                while let Some(length) = whole_record(rest).map_err(StreamError::Record)? {
                    let (record, behind) = rest.split_at_mut(length);
                    (rest, *head) = (behind, *head + length);
                    match tls.open(record).map_err(StreamError::Record)? {
                        OpenedRecord::Data(plain) => frames.cut(plain)?,
                        OpenedRecord::Nothing => {}
                        OpenedRecord::End if frames.ended => return Ok(true),
                        OpenedRecord::End => return Err(StreamError::Cut),
                    }
                }
            }
        }
        frames.hand_on()?;
        Ok(frames.ended)
    }
}

/// Cuts plain text into frames. The pieces of a payload are gathered, so that they are written at once.
struct Frames<'a, 'b, H> {
    parser: &'a mut Parser,
    handler: &'a mut H,
    pieces: Vec<IoSlice<'b>>,
    ended: bool,
}

impl<'b, H: FrameHandler> Frames<'_, 'b, H> {
    fn cut(&mut self, mut plain: &'b [u8]) -> Result<(), StreamError> {
        loop {
            if self.ended && !plain.is_empty() {
                return Err(StreamError::Protocol("frames behind the end"));
            }
            match self.parser.next(&mut plain)? {
                None => return Ok(()),
                Some(Piece::Start(header)) => self.handler.start(header)?,
                Some(Piece::Payload(piece)) => self.pieces.push(IoSlice::new(piece)),
                Some(Piece::Done(kind)) => {
                    self.hand_on()?;
                    self.handler.done(kind)?;
                    self.ended = kind == FrameKind::End;
                }
            }
        }
    }

    fn hand_on(&mut self) -> Result<(), StreamError> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        self.handler.clock().lap(Stage::Cipher);
        self.handler.payload(&mut self.pieces)?;
        self.pieces.clear();
        Ok(())
    }
}
