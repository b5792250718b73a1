//! Sends a worker's frames through its compressor.

use linerate_wire::frame::{FrameKind, Header};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::net::clock::Stage;
use crate::net::pace::Pace;
use crate::net::stream::{FrameWriter, StreamError};
use crate::send::compressing::{Packing, PackingTerms, Step};
use crate::send::transmission::Transmission;
use crate::send::work::{InHand, Work};
use crate::send::worker::SendWorker;

/// How long bytes may wait in the compressor for more bytes, if nothing else is sent.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(20);

impl<'a> SendWorker<'a> {
    /// The next unit of work. If no unit comes within [`FLUSH_TIMEOUT`], all bytes in the compressor are sent before
    /// the worker waits on.
    pub(super) fn next(&mut self, work: &'a Work) -> Result<Option<InHand<'a>>, StreamError> {
        if !self.is_packing() {
            return Ok(work.take());
        }
        let soon = work.take_within(FLUSH_TIMEOUT);
        if soon.is_some() {
            return Ok(soon);
        }
        self.clock.lap(Stage::Queue);
        self.finish_packed()?;
        self.flush();
        Ok(work.take())
    }

    /// Sends a frame; through the compressor, if compression is on.
    pub(super) fn frame(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), StreamError> {
        if !self.is_packing() {
            return self.stream.send(kind, payload, &mut self.clock);
        }
        self.pack(&Header::unchecked(kind, payload.len()).encode())?;
        self.pack(payload)
    }

    /// The number of the next bytes of a chunk that may be compressed; `None` if they must be sent
    /// uncompressed.
    pub(super) fn next_packed(&mut self, at: u64, end: u64) -> Result<Option<usize>, StreamError> {
        let next = match &mut self.packing {
            Some(packing) => packing.next_of_chunk(at, end, &self.clock),
            None => return Ok(None),
        };
        if next.is_none() {
            self.stop_packing()?;
        }
        Ok(next)
    }

    /// Decides whether `plain` is compressed.
    pub(super) fn packs(&mut self, plain: &[u8]) -> Result<bool, StreamError> {
        let Some(mut packing) = self.packing.take() else { return Ok(false) };
        let (shared, stream) = (self.shared, &self.stream);
        let step = packing.step(plain, &mut self.clock, || terms(shared, stream));
        self.packing = Some(packing);
        match step? {
            Step::Pack => Ok(true),
            Step::Plain => self.stop_packing().map(|()| false),
        }
    }

    /// True if this stream should be the only one, so that all other streams end.
    pub(super) fn is_alone(&self) -> bool {
        self.packing.as_ref().is_some_and(|packing| packing.is_alone())
    }

    fn is_packing(&self) -> bool {
        self.packing.as_ref().is_some_and(|packing| packing.is_on())
    }

    fn pack(&mut self, mut plain: &[u8]) -> Result<(), StreamError> {
        while !plain.is_empty()
            && let Some(compressor) = self.packing.as_mut().and_then(|packing| packing.compressor())
        {
            compressor.take(&mut plain)?;
            self.clock.lap(Stage::Compress);
            while self.has_piece_to_send() {
                self.send_piece()?;
            }
        }
        Ok(())
    }

    /// True if the next compressed bytes can be sent without waiting, or if too many are waiting. By working
    /// ahead, the compressor keeps the connection busy during data that takes longer to compress.
    fn has_piece_to_send(&mut self) -> bool {
        let Some(packing) = &mut self.packing else { return false };
        let most = packing.most_waiting();
        let waiting = packing.compressor().map_or(0, |compressor| compressor.waiting());
        waiting > most || waiting > 0 && self.is_free()
    }

    /// True if bytes can be sent without waiting, neither for the connection nor for a rate.
    fn is_free(&self) -> bool {
        let shared = self.shared;
        shared.rate.as_ref().is_none_or(|rate| rate.is_free())
            && shared.pace.as_ref().is_none_or(Pace::is_free)
            && self.stream.is_writable()
    }

    /// Sends the next compressed bytes; false if there are none.
    fn send_piece(&mut self) -> Result<bool, StreamError> {
        let next = |packing: &mut Box<Packing<'a>>| packing.compressor()?.next_piece();
        let Some(piece) = self.packing.as_mut().and_then(next) else { return Ok(false) };
        self.limit(piece.len());
        self.stream.send(FrameKind::Packed, &piece, &mut self.clock)?;
        Ok(true)
    }

    /// Sends all bytes that are still in the compressor.
    fn finish_packed(&mut self) -> Result<(), StreamError> {
        while let Some(compressor) = self.packing.as_mut().and_then(|packing| packing.compressor()) {
            let is_all = compressor.finish()?;
            self.clock.lap(Stage::Compress);
            while self.send_piece()? {}
            if is_all {
                break;
            }
        }
        Ok(())
    }

    /// Ends the compression: the next payload is sent uncompressed.
    pub(super) fn stop_packing(&mut self) -> Result<(), StreamError> {
        if self.is_packing() {
            self.finish_packed()?;
            self.packing.iter_mut().for_each(|packing| packing.stop());
        }
        Ok(())
    }
}

/// Facts about the transfer and its path that the compression needs.
fn terms(shared: &Transmission<'_>, stream: &FrameWriter) -> PackingTerms {
    let counters = shared.counters;
    let total = counters.scanned.load(Ordering::Acquire).then(|| counters.found.get().bytes);
    PackingTerms { total, is_limited: shared.rate.is_some(), tcp: stream.tcp_info() }
}
