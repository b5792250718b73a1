//! One data stream: frames from a sending worker to a receiving one, over a transport or within this process.

mod wire;
mod within;

use linerate_sys::tcp::TcpInfo;
use linerate_wire::frame::{FrameError, FrameKind, Header};
use rustix::io::Errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;

pub use self::wire::{FrameCutter, WireReader, WireWriter};
pub use self::within::FileRange;
use self::within::{WithinEnd, WithinReader, WithinWriter};
use crate::net::chain::{ChainHost, ChainSource, SealedReader, SealedWriter};
use crate::net::clock::Clock;
use crate::net::compress::LongWindow;
use crate::net::tls::Tls;
use crate::net::transport::{Registry, Transport};

/// The payload bytes of a full data frame that is sent without compression. The bytes that were read, their encrypted
/// form and the kernel's copy of them fit into a second-level cache together.
pub const DATA_FRAME: usize = 64 << 10;

/// A connected, authenticated stream on which no frame has been sent yet.
pub enum Stream {
    /// A stream between two processes.
    Carried(Carried),
    /// A stream between two threads of this process.
    Within(WithinEnd),
}

/// A stream over a transport.
pub struct Carried {
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
    /// The connection was closed before the end of the stream was announced.
    #[error("the data connection closed in the middle of the transfer")]
    Cut,
    /// The bytes on the connection aren't valid frames, or were changed on the way.
    #[error("the data connection carries damaged data: {0}")]
    Frame(#[from] FrameError),
    /// The connection's bytes differ from the bytes that the other end encrypted.
    #[error("the data connection carries damaged data: {0}")]
    Record(io::Error),
    /// The other end breaks the protocol.
    #[error("the other end breaks the protocol: {0}")]
    Protocol(&'static str),
    /// The other end sends data that wasn't requested, or that it isn't allowed to send.
    #[error("the other end breaks the protocol: {0}")]
    Refused(#[from] crate::base::problem::Refused),
    /// The destination accepts no more data (no space, over quota, read-only), so the whole transfer fails.
    #[error("{0}")]
    Destination(String),
    /// A source can't be read.
    #[error("{0}")]
    Source(String),
}

impl Stream {
    /// A stream over `transport`. `tls` is `None` if only a checksum protects the data; `leftover` are bytes that
    /// followed the handshake.
    pub fn new(transport: Transport, tls: Option<Tls>, leftover: Vec<u8>) -> Self {
        Self::Carried(Carried { transport, tls, leftover })
    }

    /// Both ends of a stream within this process. The stream lives until `registry` is cut.
    pub fn within(registry: &Registry) -> (Self, Self) {
        let (one, other) = within::pair(registry);
        (Self::Within(one), Self::Within(other))
    }

    /// The protection of the payload: a cipher, or `ssh` if the stream is sent through ssh; `None` if it isn't
    /// encrypted, or stays in this process.
    pub fn cipher(&self) -> Option<&'static str> {
        match self {
            Self::Carried(Carried { tls: Some(tls), .. }) => Some(tls.cipher()),
            Self::Carried(Carried { transport: Transport::Tunnel(_), .. }) => Some("ssh"),
            Self::Carried(_) | Self::Within(_) => None,
        }
    }

    /// The connection, its cipher, and the bytes that followed the handshake; `None` without a cipher or a TCP
    /// connection.
    pub fn into_parts(self) -> Option<(TcpStream, Tls, Vec<u8>)> {
        match self {
            Self::Carried(Carried { transport: Transport::Tcp(socket), tls: Some(tls), leftover }) => {
                Some((socket, tls, leftover))
            }
            Self::Carried(_) | Self::Within(_) => None,
        }
    }

    /// The kernel's counters of the connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        if let Self::Carried(carried) = self { carried.transport.tcp_info() } else { None }
    }

    /// The rate of the port that the stream uses, in bits a second, if it is known.
    pub fn link_rate(&self) -> Option<u64> {
        if let Self::Carried(carried) = self { carried.transport.link_rate() } else { None }
    }

    /// This host's address on the link that the stream uses, if the stream has a TCP connection.
    pub fn local_address(&self) -> Option<IpAddr> {
        if let Self::Carried(carried) = self { carried.transport.local_address() } else { None }
    }

    /// The sending side of the stream.
    pub fn into_writer(self) -> FrameWriter {
        match self {
            Self::Carried(carried) => FrameWriter::Wire(WireWriter::new(carried)),
            Self::Within(end) => FrameWriter::Within(WithinWriter::new(end)),
        }
    }

    /// The sending side of a stream to the first host of a chain or tree. A stream within this process has no
    /// such side.
    pub fn into_sealed_writer(self, source: Arc<ChainSource>) -> FrameWriter {
        match self.into_writer() {
            FrameWriter::Wire(wire) => FrameWriter::Sealed(Box::new(SealedWriter::new(wire, source))),
            other => other,
        }
    }

    /// The receiving side of a stream that passes through several hosts.
    pub fn into_sealed_reader(self, host: Arc<ChainHost>, unpacks: Option<LongWindow>) -> FrameReader {
        match self.into_reader(None) {
            FrameReader::Wire(wire) => FrameReader::Sealed(Box::new(SealedReader::new(*wire, host, unpacks))),
            other => other,
        }
    }

    /// The receiving side of the stream; if `unpacks` is set, frames may be compressed.
    pub fn into_reader(self, unpacks: Option<LongWindow>) -> FrameReader {
        match self {
            Self::Carried(carried) => FrameReader::Wire(Box::new(WireReader::new(carried, unpacks))),
            Self::Within(end) => FrameReader::Within(WithinReader::new(end)),
        }
    }
}

/// Sends frames.
pub enum FrameWriter {
    /// Sends over a transport, to another process.
    Wire(WireWriter),
    /// Sends to another thread of this process.
    Within(WithinWriter),
    /// Sends to several hosts, through the first of them.
    Sealed(Box<SealedWriter>),
}

impl FrameWriter {
    /// Sends one frame. `clock` counts the time that the cipher and the socket take.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, kind: FrameKind, payload: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        match self {
            Self::Wire(wire) => wire.send(kind, payload, clock),
            Self::Within(within) => within.send(kind, payload.to_vec(), clock),
            Self::Sealed(sealed) => sealed.send(kind, payload, clock),
        }
    }

    /// Sends one frame as [`FrameWriter::send`] does, and takes all bytes out of `payload`.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send_all(
        &mut self,
        kind: FrameKind,
        payload: &mut Vec<u8>,
        clock: &mut Clock,
    ) -> Result<(), StreamError> {
        match self {
            Self::Wire(wire) => wire.send(kind, payload, clock)?,
            Self::Within(within) => within.send(kind, std::mem::take(payload), clock)?,
            Self::Sealed(sealed) => sealed.send(kind, payload, clock)?,
        }
        payload.clear();
        Ok(())
    }

    /// Sends a data frame of `length` bytes, at most [`DATA_FRAME`]. `read` writes them directly into the buffer in
    /// which they are encrypted. If `read` fails, nothing is sent, and the inner error is that of `read`. `sure`
    /// promises the receiver that at least this number of further bytes of the chunk follow, without compression, so
    /// that the receiver need not wake up for fewer bytes.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send_data<E>(
        &mut self,
        length: usize,
        sure: u64,
        clock: &mut Clock,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<Result<(), E>, StreamError> {
        match self {
            Self::Wire(wire) => wire.send_data((length, sure), clock, read),
            Self::Within(within) => within.send_data(length, clock, read),
            Self::Sealed(sealed) => sealed.send_data((length, sure), clock, read),
        }
    }

    /// The writer to another thread, with which the receiver can read the sender's files itself; `None` for
    /// other writers.
    pub fn within(&self) -> Option<&WithinWriter> {
        if let Self::Within(within) = self { Some(within) } else { None }
    }

    /// The kernel's counters of the connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        match self {
            Self::Wire(wire) => wire.tcp_info(),
            Self::Sealed(sealed) => sealed.tcp_info(),
            Self::Within(_) => None,
        }
    }

    /// True if bytes can be sent without waiting for the connection.
    pub fn is_writable(&self) -> bool {
        match self {
            Self::Wire(wire) => wire.is_writable(),
            Self::Sealed(sealed) => sealed.is_writable(),
            Self::Within(_) => true,
        }
    }

    /// Announces the end of the stream; returns the kernel's last counters of the connection.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn end(self, clock: &mut Clock) -> Result<Option<TcpInfo>, StreamError> {
        match self {
            Self::Wire(wire) => wire.end(clock),
            Self::Sealed(sealed) => sealed.end(clock),
            Self::Within(within) => within.send(FrameKind::End, Vec::new(), clock).map(|()| None),
        }
    }
}

/// Receives frames.
pub enum FrameReader {
    /// Receives over a transport, from another process.
    Wire(Box<WireReader>),
    /// Receives from another thread of this process.
    Within(WithinReader),
    /// Receives parts that may have passed through several hosts.
    Sealed(Box<SealedReader>),
}

impl FrameReader {
    /// Passes every frame to `handler` until the end is announced.
    ///
    /// # Errors
    /// If the connection breaks or closes early, the bytes aren't frames, or the handler fails.
    pub fn run(&mut self, handler: &mut impl FrameHandler) -> Result<(), StreamError> {
        match self {
            Self::Wire(wire) => wire.run(handler),
            Self::Sealed(sealed) => sealed.run(handler),
            Self::Within(within) => within.run(handler),
        }
    }

    /// True once data has arrived after the handshake: the other end uses this stream.
    pub fn is_used(&self) -> bool {
        match self {
            Self::Wire(wire) => wire.is_used(),
            Self::Sealed(sealed) => sealed.is_used(),
            Self::Within(within) => within.is_used(),
        }
    }

    /// The kernel's counters of the connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        match self {
            Self::Wire(wire) => wire.tcp_info(),
            Self::Sealed(sealed) => sealed.tcp_info(),
            Self::Within(_) => None,
        }
    }
}

/// The number of bytes in all `pieces`.
pub fn total(pieces: &[IoSlice<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// Handles the frames of one stream.
pub trait FrameHandler {
    /// Called at the beginning of a frame.
    ///
    /// # Errors
    /// If the stream can't continue.
    fn start(&mut self, header: Header) -> Result<(), StreamError>;

    /// Handles the next pieces of the payload, in order.
    ///
    /// # Errors
    /// If the stream can't continue.
    fn payload(&mut self, pieces: &mut [IoSlice<'_>]) -> Result<(), StreamError>;

    /// Called when the payload is complete and its checksum is right.
    ///
    /// # Errors
    /// If the stream can't continue.
    fn done(&mut self, kind: FrameKind) -> Result<(), StreamError>;

    /// Handles a frame that is already complete in memory.
    ///
    /// # Errors
    /// If the stream can't continue.
    fn whole(&mut self, kind: FrameKind, payload: Vec<u8>) -> Result<(), StreamError> {
        self.start(Header::unchecked(kind, payload.len()))?;
        self.payload(&mut [IoSlice::new(&payload)])?;
        self.done(kind)
    }

    /// Handles the next bytes of the payload, which are in an open file of this process; returns how many of
    /// these bytes the file had.
    ///
    /// # Errors
    /// If the stream can't continue; the inner error if the file can't be read.
    fn range(&mut self, _: &FileRange) -> Result<Result<u64, Errno>, StreamError> {
        Err(StreamError::Protocol("a range of a file"))
    }

    /// The number of payload bytes that certainly follow.
    fn expects(&self) -> u64 {
        0
    }

    /// The clock of this stream's worker.
    fn clock(&mut self) -> &mut Clock;
}
