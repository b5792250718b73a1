//! Receives frames as a host of a chain or tree: it checks each part's mark, forwards the part, and then uses it.

use linerate_sys::tcp::TcpInfo;
use linerate_wire::frame::{FrameKind, Header};
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::forwarding::Forwarding;
use super::host::{ChainHost, ChainProgress};
use crate::net::clock::{Clock, Stage};
use crate::net::compress::LongWindow;
use crate::net::stream::{FrameCutter, FrameHandler, StreamError, WireReader};

/// The receiving side of a stream.
pub struct SealedReader {
    wire: WireReader,
    parts: SealedParts,
}

/// Checks and forwards the parts of a stream, and cuts them into frames.
struct SealedParts {
    host: Arc<ChainHost>,
    so_far: ChainProgress,
    /// The payload of the part that is being received.
    payload: Vec<u8>,
    /// `None` once the stream has ended or was cut.
    forwarding: Option<Forwarding>,
    /// Extracts the frames from the parts.
    cutter: FrameCutter,
}

impl SealedReader {
    /// A reader on `wire` for this host; if `unpacks` is set, frames may be compressed.
    pub fn new(wire: WireReader, host: Arc<ChainHost>, unpacks: Option<LongWindow>) -> Self {
        let forwarding = Some(host.forward());
        let cutter = FrameCutter::new(unpacks);
        let parts =
            SealedParts { host, so_far: ChainProgress::default(), payload: Vec::new(), forwarding, cutter };
        Self { wire, parts }
    }

    /// Passes every frame to `handler` until the source has ended the stream.
    ///
    /// # Errors
    /// If the connection breaks or closes early, a part isn't the source's, or the handler fails.
    pub fn run(&mut self, handler: &mut impl FrameHandler) -> Result<(), StreamError> {
        let result = self.wire.run(&mut PartOpening { parts: &mut self.parts, handler });
        if result.is_err() {
            // The streams to the next hosts are cut, so that they don't look complete there.
            self.parts.forwarding.take().into_iter().for_each(Forwarding::cut);
        }
        result
    }

    /// True once data has arrived after the handshake.
    pub fn is_used(&self) -> bool {
        self.wire.is_used()
    }

    /// The kernel's counters of the connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.wire.tcp_info()
    }
}

/// Handles the frames that contain the parts.
struct PartOpening<'a, H> {
    parts: &'a mut SealedParts,
    handler: &'a mut H,
}

impl<H: FrameHandler> PartOpening<'_, H> {
    fn part(&mut self) -> Result<(), StreamError> {
        let SealedParts { host, so_far, payload, forwarding, cutter } = &mut *self.parts;
        let payload = Arc::new(std::mem::take(payload));
        let bytes = host.open(&payload, so_far).map_err(damaged)?;
        self.handler.clock().lap(Stage::Cipher);
        if let Some(forwarding) = forwarding {
            forwarding.part(&payload);
            self.handler.clock().lap(Stage::Socket);
        }
        cutter.cut(bytes, self.handler)
    }
}

impl<H: FrameHandler> FrameHandler for PartOpening<'_, H> {
    fn start(&mut self, header: Header) -> Result<(), StreamError> {
        match header.kind {
            FrameKind::Sealed => {
                self.parts.payload = Vec::with_capacity(header.length as usize);
                Ok(())
            }
            FrameKind::End => Ok(()),
            _ => Err(damaged("a frame without a mark")),
        }
    }

    fn payload(&mut self, pieces: &mut [IoSlice<'_>]) -> Result<(), StreamError> {
        pieces.iter().for_each(|piece| self.parts.payload.extend_from_slice(piece));
        Ok(())
    }

    fn done(&mut self, kind: FrameKind) -> Result<(), StreamError> {
        match kind {
            FrameKind::Sealed => {
                let host = self.parts.host.clone();
                host.busy(|| self.part())
            }
            // The source's own end frame is in the last part, so the connection must not end before it.
            _ if !self.parts.cutter.has_ended() => Err(StreamError::Cut),
            _ => {
                self.parts.forwarding.take().into_iter().for_each(Forwarding::end);
                Ok(())
            }
        }
    }

    fn clock(&mut self) -> &mut Clock {
        self.handler.clock()
    }
}

/// The error for a damaged part. A host on the way may have damaged it, so the data that arrived from the source
/// earlier is kept.
fn damaged(what: &'static str) -> StreamError {
    StreamError::Record(io::Error::new(io::ErrorKind::InvalidData, what))
}
