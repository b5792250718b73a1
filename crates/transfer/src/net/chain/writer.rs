//! Sends frames to the first host of a chain or tree, in parts with marks for all hosts.

use linerate_sys::tcp::TcpInfo;
use linerate_wire::frame::{FrameKind, HEADER, Header};
use linerate_wire::sealed::MAX_SEALED;
use std::io::IoSliceMut;
use std::sync::Arc;

use super::source::ChainSource;
use crate::net::clock::{Clock, Stage};
use crate::net::stream::{StreamError, WireWriter};

/// The sending side of a stream.
pub struct SealedWriter {
    wire: WireWriter,
    source: Arc<ChainSource>,
    stream: Option<u32>,
    number: u64,
    /// Bytes of the stream that aren't in a part yet.
    waiting: Vec<u8>,
    payload: Vec<u8>,
}

impl SealedWriter {
    /// Sends on `wire` to the hosts of `source`.
    pub fn new(wire: WireWriter, source: Arc<ChainSource>) -> Self {
        Self { wire, source, stream: None, number: 0, waiting: Vec::new(), payload: Vec::new() }
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, kind: FrameKind, payload: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        self.put(&Header::of(kind, payload, false).encode(), clock)?;
        self.put(payload, clock)
    }

    /// Sends a data frame of `length` bytes, which `read` writes into the buffer; sends nothing if `read`
    /// fails. At least `sure` more bytes of the chunk follow.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send_data<E>(
        &mut self,
        (length, sure): (usize, u64),
        clock: &mut Clock,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<Result<(), E>, StreamError> {
        if self.waiting.len() + HEADER + length > MAX_SEALED {
            self.flush(clock)?;
        }
        let from = self.waiting.len();
        self.waiting.extend(Header::unchecked(FrameKind::Data, length).before(sure).encode());
        self.waiting.resize(from + HEADER + length, 0);
        let read = read(&mut [IoSliceMut::new(&mut self.waiting[from + HEADER..])]);
        clock.lap(Stage::Read);
        if read.is_err() {
            self.waiting.truncate(from);
        }
        Ok(read)
    }

    fn put(&mut self, mut bytes: &[u8], clock: &mut Clock) -> Result<(), StreamError> {
        while !bytes.is_empty() {
            if self.waiting.len() >= MAX_SEALED {
                self.flush(clock)?;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(MAX_SEALED - self.waiting.len()));
            self.waiting.extend(now);
            bytes = rest;
        }
        Ok(())
    }

    fn flush(&mut self, clock: &mut Clock) -> Result<(), StreamError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let stream = *self.stream.get_or_insert_with(|| self.source.stream());
        self.source.seal((stream, self.number), &self.waiting, &mut self.payload);
        clock.lap(Stage::Cipher);
        self.number += 1;
        self.waiting.clear();
        self.wire.send(FrameKind::Sealed, &self.payload, clock)
    }

    /// The kernel's counters of the connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.wire.tcp_info()
    }

    /// True if bytes can be sent without waiting for the connection.
    pub fn is_writable(&self) -> bool {
        self.wire.is_writable()
    }

    /// Announces the end of the stream to all hosts, and the end of the connection to the first one; returns the
    /// kernel's last counters of the connection.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn end(mut self, clock: &mut Clock) -> Result<Option<TcpInfo>, StreamError> {
        self.send(FrameKind::End, &[], clock)?;
        self.flush(clock)?;
        self.wire.end(clock)
    }
}
