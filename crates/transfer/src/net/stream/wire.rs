//! Frames over a transport. The frames are encrypted with TLS; if the user switched encryption off, each frame has only
//! a checksum.

use linerate_sys::tcp::TcpInfo;
use linerate_wire::frame::{FrameKind, HEADER, Header, Parser, Piece, SURE_UNIT};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

use super::{Carried, DATA_FRAME, FrameHandler, StreamError};
use crate::net::clock::{Clock, Stage};
use crate::net::compress::{Decompressor, LongWindow};
use crate::net::tls::{OpenedRecord, RECORD, RECORD_OVERHEAD, Tls, plain, whole_record};
use crate::net::transport::Transport;

/// Bytes that the receiver requests from the socket at once.
const RECEIVE: usize = 192 << 10;
/// While at least this many payload bytes are sure to follow, the receiver is woken only when [`TOGETHER`] bytes have
/// arrived, and not for each packet. On a link that isn't full, waking for each packet costs as much as decrypting. The
/// value is twice [`TOGETHER`], because the kernel may first return fewer bytes that are already there, and then wait
/// for [`TOGETHER`] more.
const SURE: u64 = 2 * TOGETHER as u64;
/// The number of bytes that wake a receiver. It is less than `RECEIVE`, so that a read also returns bytes
/// that arrive in the meantime.
const TOGETHER: usize = 128 << 10;
/// The number of records that are sent with one system call: those of a data frame and its header.
const AT_ONCE: usize = DATA_FRAME / RECORD + 1;

/// Sends frames.
pub struct WireWriter {
    transport: Transport,
    tls: Option<Tls>,
    /// Bytes that are being sent.
    buffer: Vec<u8>,
}

impl WireWriter {
    /// Sends on the stream `carried`.
    pub fn new(carried: Carried) -> Self {
        Self { transport: carried.transport, tls: carried.tls, buffer: Vec::new() }
    }

    /// Sends one frame. `clock` counts the time that the cipher and the socket take.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, kind: FrameKind, payload: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        self.send_behind(Header::of(kind, payload, self.tls.is_none()), payload, clock)
    }

    fn send_behind(&mut self, header: Header, payload: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        let header = header.encode();
        if self.tls.is_some() {
            return self.send_sealed(&header, payload, clock);
        }
        clock.lap(Stage::Cipher);
        clock.wire(HEADER + payload.len());
        self.transport.write_all_vectored(&mut [IoSlice::new(&header), IoSlice::new(payload)])?;
        clock.lap(Stage::Socket);
        Ok(())
    }

    /// Sends a frame's header in a record of its own, so that the payload's records, and therefore the
    /// receiver's writes, begin at multiples of a record's size.
    fn send_sealed(&mut self, header: &[u8], payload: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        let mut parts = std::iter::once(header).chain(payload.chunks(RECORD)).peekable();
        while parts.peek().is_some() {
            self.buffer.clear();
            let tls = self.tls.as_mut().expect("the caller has seen it");
            parts.by_ref().take(AT_ONCE).try_for_each(|part| tls.seal(part, &mut self.buffer))?;
            clock.lap(Stage::Cipher);
            clock.wire(self.buffer.len());
            self.transport.write_all(&self.buffer)?;
            clock.lap(Stage::Socket);
        }
        Ok(())
    }

    /// Sends a data frame of `length` bytes, at most [`DATA_FRAME`]. `read` writes them directly into the
    /// buffer in which they are encrypted. If `read` fails, nothing is sent, and the inner error is that of
    /// `read`. At least `sure` more bytes of the chunk follow without compression.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send_data<E>(
        &mut self,
        (length, sure): (usize, u64),
        clock: &mut Clock,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<Result<(), E>, StreamError> {
        if self.tls.is_none() {
            return self.send_clear_data((length, sure), clock, read);
        }
        self.renew_keys()?;
        let records = length.div_ceil(RECORD);
        let frame = HEADER + length + (1 + records) * RECORD_OVERHEAD;
        if self.buffer.len() < frame {
            self.buffer.resize(frame, 0);
        }
        let (header, payload) = self.buffer[..frame].split_at_mut(HEADER + RECORD_OVERHEAD);
        let mut records: Vec<&mut [u8]> = payload.chunks_mut(RECORD + RECORD_OVERHEAD).collect();
        let mut places: Vec<_> = records.iter_mut().map(|record| IoSliceMut::new(plain(record))).collect();
        let read = read(&mut places);
        clock.lap(Stage::Read);
        if read.is_err() {
            return Ok(read);
        }
        plain(header).copy_from_slice(&Header::unchecked(FrameKind::Data, length).before(sure).encode());
        let tls = self.tls.as_mut().expect("it is there, as was just seen");
        tls.seal_in_place(header)?;
        records.into_iter().try_for_each(|record| tls.seal_in_place(record))?;
        clock.lap(Stage::Cipher);
        clock.wire(frame);
        self.transport.write_all(&self.buffer[..frame])?;
        clock.lap(Stage::Socket);
        Ok(read)
    }

    /// Renews the encryption keys, if the current keys may not protect as many further records as one call sends.
    fn renew_keys(&mut self) -> io::Result<()> {
        let mut update = Vec::new();
        if let Some(tls) = &mut self.tls {
            tls.renew_keys(AT_ONCE as u64, &mut update)?;
        }
        self.transport.write_all(&update)
    }

    fn send_clear_data<E>(
        &mut self,
        (length, sure): (usize, u64),
        clock: &mut Clock,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<Result<(), E>, StreamError> {
        let mut payload = std::mem::take(&mut self.buffer);
        payload.resize(length, 0);
        let read = read(&mut [IoSliceMut::new(&mut payload)]);
        clock.lap(Stage::Read);
        if read.is_ok() {
            self.send_behind(Header::of(FrameKind::Data, &payload, true).before(sure), &payload, clock)?;
        }
        self.buffer = payload;
        Ok(read)
    }

    /// The kernel's counters of the connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.transport.tcp_info()
    }

    /// True if bytes can be sent without waiting for the connection.
    pub fn is_writable(&self) -> bool {
        self.transport.is_writable()
    }

    /// Announces the end of the stream; returns the kernel's last counters of the connection.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn end(mut self, clock: &mut Clock) -> Result<Option<TcpInfo>, StreamError> {
        self.send(FrameKind::End, &[], clock)?;
        // In a tunnel another stream may follow on the same channel, so no close_notify is sent. The end
        // frame itself is encrypted.
        let is_tunnel = matches!(self.transport, Transport::Tunnel(_));
        if let Some(tls) = self.tls.as_mut().filter(|_| !is_tunnel) {
            self.buffer.clear();
            tls.seal_end(&mut self.buffer)?;
            self.transport.write_all(&self.buffer)?;
        }
        self.transport.end();
        Ok(self.transport.tcp_info())
    }
}

/// Receives frames.
pub struct WireReader {
    transport: Transport,
    tls: Option<Tls>,
    parser: Parser,
    buffer: Vec<u8>,
    head: usize,
    tail: usize,
    /// The number of bytes that must have arrived before a read of the socket returns.
    least: usize,
    is_used: bool,
    /// True if the frame that is being received contains compressed frames.
    is_packed: bool,
    /// Set if frames may be compressed.
    unpacking: Option<Unpacking>,
}

struct Unpacking {
    /// `None` before the first compressed bytes.
    decompressor: Option<Decompressor>,
    /// Cuts the decompressed bytes into frames.
    parser: Parser,
    long: LongWindow,
    /// Bytes that the sender has promised to send without compression.
    sure: u64,
}

impl Unpacking {
    fn new(long: LongWindow) -> Self {
        Self { decompressor: None, parser: Parser::new(false), long, sure: 0 }
    }
}

impl WireReader {
    /// Receives on the stream `carried`; if `unpacks` is set, frames may be compressed.
    pub fn new(carried: Carried, unpacks: Option<LongWindow>) -> Self {
        let Carried { transport, tls, leftover: mut buffer } = carried;
        let (filled, parser) = (buffer.len(), Parser::new(tls.is_none()));
        buffer.resize(filled.max(RECEIVE), 0);
        Self {
            transport,
            tls,
            parser,
            buffer,
            head: 0,
            tail: filled,
            least: 1,
            is_used: filled > 0,
            is_packed: false,
            unpacking: unpacks.map(Unpacking::new),
        }
    }

    /// Passes every frame to `handler` until the end is announced.
    ///
    /// # Errors
    /// If the connection breaks or closes early, the bytes aren't frames, or the handler fails.
    pub fn run(&mut self, handler: &mut impl FrameHandler) -> Result<(), StreamError> {
        loop {
            if self.drain(handler)? {
                return Ok(());
            }
            let sure = self.unpacking.as_ref().map_or(u64::MAX, |unpacking| unpacking.sure);
            self.wait_for_more(handler.expects().min(sure));
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

    /// True once data has arrived after the handshake: the other end uses this stream.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// The kernel's counters of the connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.transport.tcp_info()
    }

    fn receive(&mut self, clock: &mut Clock) -> Result<(), StreamError> {
        self.make_room();
        clock.lap(Stage::Cipher);
        let got = self.transport.read(&mut self.buffer[self.tail..]);
        clock.lap(Stage::Socket);
        match got {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
            Ok(0) => Err(StreamError::Cut),
            Ok(got) => {
                clock.wire(got);
                self.tail += got;
                self.is_used = true;
                Ok(())
            }
        }
    }

    /// Moves the unused bytes to the front of the buffer. They are an incomplete record, because all complete records
    /// were used.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.head..self.tail, 0);
        self.tail -= self.head;
        self.head = 0;
    }

    /// Handles the records in the buffer; true once the end of the stream was announced.
    fn drain(&mut self, handler: &mut impl FrameHandler) -> Result<bool, StreamError> {
        let Self { tls, parser, buffer, head, tail, unpacking, is_packed, .. } = self;
        let mut frames = Frames { parser, handler, unpacking, is_packed, pieces: Vec::new(), ended: false };
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

/// Extracts frames from bytes that arrive in parts; each part is complete in memory.
pub struct FrameCutter {
    parser: Parser,
    unpacking: Option<Unpacking>,
    is_packed: bool,
    ended: bool,
}

impl FrameCutter {
    /// A cutter for a new stream; if `unpacks` is set, frames may be compressed.
    pub fn new(unpacks: Option<LongWindow>) -> Self {
        Self {
            parser: Parser::new(false),
            unpacking: unpacks.map(Unpacking::new),
            is_packed: false,
            ended: false,
        }
    }

    /// Passes the frames in the next part to `handler`.
    ///
    /// # Errors
    /// If the bytes aren't frames, if bytes follow the end, or if the handler fails.
    pub fn cut(&mut self, part: &[u8], handler: &mut impl FrameHandler) -> Result<(), StreamError> {
        let Self { parser, unpacking, is_packed, ended } = self;
        let mut frames = Frames { parser, handler, unpacking, is_packed, pieces: Vec::new(), ended: *ended };
        frames.cut(part)?;
        frames.hand_on()?;
        *ended = frames.ended;
        Ok(())
    }

    /// True once the end of the stream was announced.
    pub fn has_ended(&self) -> bool {
        self.ended
    }
}

/// Splits plain text into frames. The pieces of a payload are collected, so that they can be written with one
/// call.
struct Frames<'a, 'b, H> {
    parser: &'a mut Parser,
    handler: &'a mut H,
    unpacking: &'a mut Option<Unpacking>,
    /// True if the frame that is being received contains compressed frames.
    is_packed: &'a mut bool,
    pieces: Vec<IoSlice<'b>>,
    ended: bool,
}

impl<'b, H: FrameHandler> Frames<'_, 'b, H> {
    fn cut(&mut self, mut plain: &'b [u8]) -> Result<(), StreamError> {
        loop {
            if self.ended && !plain.is_empty() {
                return Err(StreamError::Protocol("frames after the last frame"));
            }
            match self.parser.next(&mut plain)? {
                None => return Ok(()),
                Some(Piece::Start(header)) => self.start(header)?,
                Some(Piece::Payload(piece)) if *self.is_packed => self.unpack(piece)?,
                Some(Piece::Payload(piece)) => self.pieces.push(IoSlice::new(piece)),
                Some(Piece::Done(FrameKind::Packed)) => {}
                Some(Piece::Done(kind)) => {
                    self.hand_on()?;
                    self.handler.done(kind)?;
                    self.ended = kind == FrameKind::End;
                }
            }
        }
    }

    fn start(&mut self, header: Header) -> Result<(), StreamError> {
        *self.is_packed = header.kind == FrameKind::Packed;
        let Some(unpacking) = self.unpacking else {
            let refused = StreamError::Protocol("a compressed frame, although compression is off");
            let asked = !*self.is_packed && header.sure == 0;
            return if asked { self.handler.start(header) } else { Err(refused) };
        };
        unpacking.sure = u64::from(header.sure) * SURE_UNIT as u64;
        if *self.is_packed {
            return Ok(());
        }
        if !unpacking.parser.is_between_frames() {
            return Err(StreamError::Protocol("a frame inside a compressed frame"));
        }
        self.handler.start(header)
    }

    /// Decompresses bytes, and passes on the frames in them.
    fn unpack(&mut self, piece: &[u8]) -> Result<(), StreamError> {
        let Some(Unpacking { decompressor, parser, long, .. }) = self.unpacking else { return Ok(()) };
        let decompressor = match decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new(long.clone())?),
        };
        self.handler.clock().lap(Stage::Cipher);
        decompressor.take(piece, |plain| {
            self.handler.clock().lap(Stage::Compress);
            unpacked(plain, parser, self.handler)
        })?;
        self.handler.clock().lap(Stage::Compress);
        Ok(())
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

/// Passes on the frames in bytes that were compressed.
fn unpacked(
    mut plain: &[u8],
    parser: &mut Parser,
    handler: &mut impl FrameHandler,
) -> Result<(), StreamError> {
    while let Some(piece) = parser.next(&mut plain)? {
        match piece {
            Piece::Start(header) if !header.kind.may_be_packed() || header.sure > 0 => {
                return Err(StreamError::Protocol(
                    "a frame that may not be compressed among compressed frames",
                ));
            }
            Piece::Start(header) => {
                if matches!(header.kind, FrameKind::Batch | FrameKind::Data) {
                    handler.clock().packed(header.length as usize);
                }
                handler.start(header)?;
            }
            Piece::Payload(piece) => handler.payload(&mut [IoSlice::new(piece)])?,
            Piece::Done(kind) => handler.done(kind)?,
        }
    }
    Ok(())
}
