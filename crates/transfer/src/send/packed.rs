//! How a worker's frames pass through its compressor.

use linerate_wire::frame::{FrameKind, Header};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::net::clock::Stage;
use crate::net::stream::{FrameWriter, StreamError};
use crate::send::compressing::{PackingTerms, Step};
use crate::send::transmission::Transmission;
use crate::send::work::{InHand, Work};
use crate::send::worker::SendWorker;

/// While more compressed bytes are coming, at least this many are sent at once.
const AT_ONCE: usize = 32 << 10;
/// How long compressed bytes may wait for more, if there is nothing to send.
const PATIENCE: Duration = Duration::from_millis(20);

impl<'a> SendWorker<'a> {
    /// The next unit. While the worker waits for a unit, no bytes wait in the compressor.
    pub(super) fn next(&mut self, work: &'a Work) -> Result<Option<InHand<'a>>, StreamError> {
        if !self.is_packing() {
            return Ok(work.take());
        }
        let soon = work.take_within(PATIENCE);
        if soon.is_some() {
            return Ok(soon);
        }
        self.clock.lap(Stage::Queue);
        self.finish_packed()?;
        self.flush();
        Ok(work.take())
    }

    /// Sends a frame, through the compressor while that is on.
    pub(super) fn frame(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), StreamError> {
        if !self.is_packing() {
            return self.stream.send(kind, payload, &mut self.clock);
        }
        self.pack(&Header::unchecked(kind, payload.len()).encode())?;
        self.pack(payload)
    }

    /// How many of the next bytes of a chunk may be compressed; `None` if they may not.
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

    /// Whether `plain` is compressed.
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

    /// True if all streams except this one should end.
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
            let ready = compressor.packed().len();
            self.clock.lap(Stage::Compress);
            if ready >= AT_ONCE {
                self.send_packed()?;
            }
        }
        Ok(())
    }

    /// Sends the bytes that the compressor has ready.
    fn send_packed(&mut self) -> Result<(), StreamError> {
        let Some(mut packing) = self.packing.take() else { return Ok(()) };
        let sent = packing.compressor().map_or(Ok(()), |compressor| {
            self.limit(compressor.packed().len());
            let sent = self.stream.send(FrameKind::Packed, compressor.packed(), &mut self.clock);
            compressor.sent();
            sent
        });
        self.packing = Some(packing);
        sent
    }

    /// Sends all bytes that are in the compressor.
    fn finish_packed(&mut self) -> Result<(), StreamError> {
        while let Some(compressor) = self.packing.as_mut().and_then(|packing| packing.compressor()) {
            let is_all = compressor.finish()?;
            let is_ready = !compressor.packed().is_empty();
            self.clock.lap(Stage::Compress);
            if is_ready {
                self.send_packed()?;
            }
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

/// Facts about the transfer and its path for the compressor.
fn terms(shared: &Transmission<'_>, stream: &FrameWriter) -> PackingTerms {
    let counters = shared.counters;
    let total = counters.scanned.load(Ordering::Acquire).then(|| counters.found.get().bytes);
    PackingTerms { total, is_limited: shared.rate.is_some(), tcp: stream.tcp_info() }
}
