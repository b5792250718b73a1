//! Compresses the frames of one stream with zstd. The compressed bytes are sent in special frames. The whole
//! stream is a single zstd frame, so a frame may refer back to all earlier frames within the window, even if
//! they were compressed with another level.

use linerate_host::available_memory;
use linerate_wire::frame::{LONG_WINDOW_LOG, WINDOW_LOG};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, compress_bound, get_error_name,
};

use crate::net::stream::StreamError;

/// A long window is used only on a host with at least this number of bytes of available memory; the window and its
/// tables are then a small part of this memory.
const ENOUGH_MEMORY: u64 = 2 << 30;
/// Bytes that one thread compresses at a time, with a single level.
const JOB: u32 = 2 << 20;
/// Compressed bytes are passed on in pieces of at least this size, while further bytes follow. `PACKED` is
/// the largest size of a piece.
const PIECE: usize = 32 << 10;
const PACKED: usize = 64 << 10;
/// The size of the buffer for decompressed bytes that haven't been passed on yet.
const PLAIN: usize = 256 << 10;
/// The number of bytes at the start of a zstd frame that state its window: a magic number, a descriptor, and
/// the window (RFC 8878).
const HEAD: usize = 6;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The bit of the descriptor that is set if the frame states its length instead of a window.
const SINGLE_SEGMENT: u8 = 1 << 5;

const BROKEN: &str = "compressed bytes that can't be decompressed";
const TOO_LONG: &str = "compressed bytes with a larger window than allowed";
const ENDED: &str = "a compressed stream that ends before its connection does";

/// The settings with which a stream's compression starts.
#[derive(Clone, Copy, Debug)]
pub struct CompressorSetup {
    /// The first level, from 1 to 19.
    pub level: u8,
    /// The window, as a power of two in bytes.
    pub window: u8,
    /// True if repeats are searched for in the whole window, even if the level alone would search less far back.
    pub far: bool,
    /// The number of threads that compress, at least one.
    pub threads: u32,
}

/// A zstd compressor that works in threads of its own.
pub struct Compressor {
    context: CCtx<'static>,
    level: u8,
    packed: Vec<u8>,
    /// Compressed pieces to be sent before the bytes in `packed`.
    pieces: VecDeque<Vec<u8>>,
}

/// The numbers of bytes that a compressor has handled so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Bytes that were passed to the compressor.
    pub taken: u64,
    /// Bytes of `taken` that were compressed.
    pub plain: u64,
    /// The length of `plain` after compression.
    pub packed: u64,
    /// Bytes of `packed` that aren't sent yet.
    pub waiting: u64,
}

impl Compressor {
    /// A compressor that has compressed nothing yet.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(setup: CompressorSetup) -> io::Result<Self> {
        let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        for parameter in [
            CParameter::CompressionLevel(setup.level.into()),
            CParameter::WindowLog(setup.window.into()),
            CParameter::EnableLongDistanceMatching(setup.far),
            CParameter::NbWorkers(setup.threads.max(1)),
            CParameter::JobSize(JOB),
        ] {
            context.set_parameter(parameter).map_err(failed)?;
        }
        let (packed, pieces) = (Vec::with_capacity(PACKED), VecDeque::new());
        Ok(Self { context, level: setup.level, packed, pieces })
    }

    /// Sets the compression level for all bytes that are passed in from now on. Earlier bytes keep their
    /// level.
    ///
    /// # Errors
    /// If zstd doesn't know the level.
    pub fn set_level(&mut self, level: u8) -> io::Result<()> {
        if self.level != level {
            self.context.set_parameter(CParameter::CompressionLevel(level.into())).map_err(failed)?;
            self.level = level;
        }
        Ok(())
    }

    /// Compresses bytes from the front of `plain`, and removes them from it. Waits while the threads are
    /// busy.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn take(&mut self, plain: &mut &[u8]) -> io::Result<()> {
        let mut from = InBuffer::around(plain);
        self.work(&mut from, ZSTD_EndDirective::ZSTD_e_continue)?;
        *plain = &plain[from.pos()..];
        Ok(())
    }

    /// Compresses all bytes that were passed in; true once all results are available from
    /// [`Compressor::next_piece`].
    ///
    /// # Errors
    /// If there is no memory.
    pub fn finish(&mut self) -> io::Result<bool> {
        let is_all = self.work(&mut InBuffer::around(&[]), ZSTD_EndDirective::ZSTD_e_flush)? == 0;
        if !self.packed.is_empty() {
            self.end_piece();
        }
        Ok(is_all)
    }

    fn work(&mut self, from: &mut InBuffer<'_>, what: ZSTD_EndDirective) -> io::Result<usize> {
        let filled = self.packed.len();
        let mut to = OutBuffer::around_pos(&mut self.packed, filled);
        let left = self.context.compress_stream2(&mut to, from, what).map_err(failed)?;
        if self.packed.len() >= PIECE {
            self.end_piece();
        }
        Ok(left)
    }

    fn end_piece(&mut self) {
        self.pieces.push_back(std::mem::replace(&mut self.packed, Vec::with_capacity(PACKED)));
    }

    /// Removes and returns the next compressed bytes to send; `None` if none are ready.
    pub fn next_piece(&mut self) -> Option<Vec<u8>> {
        self.pieces.pop_front()
    }

    /// The total bytes of all pieces that [`Compressor::next_piece`] can return now.
    pub fn waiting(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// The numbers of bytes that were handled so far.
    pub fn so_far(&self) -> Packed {
        let progress = self.context.get_frame_progression();
        Packed {
            taken: progress.ingested,
            plain: progress.consumed,
            packed: progress.produced,
            waiting: self.waiting() as u64,
        }
    }
}

/// Compresses samples, to measure how much compression would save.
pub struct Prober {
    context: CCtx<'static>,
    packed: Vec<u8>,
}

impl Prober {
    /// A prober that has compressed nothing yet.
    pub fn new() -> Self {
        Self { context: CCtx::create(), packed: Vec::new() }
    }

    /// True before the first probe, which takes longer than later ones.
    pub fn is_cold(&self) -> bool {
        self.packed.capacity() == 0
    }

    /// The length of `plain` after compression with level 1.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn length(&mut self, plain: &[u8]) -> io::Result<usize> {
        self.packed.clear();
        self.packed.reserve(compress_bound(plain.len()));
        self.context.compress(&mut self.packed, plain, 1).map_err(failed)
    }
}

fn failed(code: usize) -> io::Error {
    io::Error::other(format!("compressing failed: {}", get_error_name(code)))
}

/// The longest window that this process accepts for one stream, as a power of two in bytes. If memory is
/// short, this is the normal window.
pub fn longest_window() -> u8 {
    static LONGEST: OnceLock<u8> = OnceLock::new();
    *LONGEST.get_or_init(|| {
        let available = available_memory(Path::new("/")).unwrap_or(0);
        if available >= ENOUGH_MEMORY { LONG_WINDOW_LOG } else { WINDOW_LOG }
    })
}

/// The only long window that a receiver provides; one stream of the transfer at a time can borrow it.
#[derive(Clone, Debug)]
pub struct LongWindow {
    log: u8,
    is_taken: Arc<AtomicBool>,
}

impl LongWindow {
    /// A long window of 2^`log` bytes, which no stream has borrowed.
    pub fn new(log: u8) -> Self {
        Self { log, is_taken: Arc::default() }
    }

    /// The longest window for a stream that needs a window of `bytes` bytes. If this is the long window, no
    /// other stream can borrow it until the lease is dropped.
    fn lend(&self, bytes: u64) -> Option<(u8, Option<Lease>)> {
        if bytes <= 1 << WINDOW_LOG {
            return Some((WINDOW_LOG, None));
        }
        let is_free = || !self.is_taken.swap(true, Ordering::AcqRel);
        (bytes <= 1 << self.log && is_free()).then(|| (self.log, Some(Lease(self.is_taken.clone()))))
    }
}

struct Lease(Arc<AtomicBool>);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Decompresses the compressed frames of one stream.
pub struct Decompressor {
    context: DCtx<'static>,
    plain: Vec<u8>,
    head: Vec<u8>,
    long: LongWindow,
    lease: Option<Lease>,
}

impl Decompressor {
    /// A decompressor that hasn't received any bytes.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(long: LongWindow) -> Result<Self, StreamError> {
        let context = DCtx::try_create().ok_or_else(|| StreamError::Io(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self { context, plain: vec![0; PLAIN], head: Vec::with_capacity(HEAD), long, lease: None })
    }

    /// Takes the next compressed bytes, and passes the decompressed bytes to `each`, in pieces.
    ///
    /// # Errors
    /// If the bytes can't be decompressed, or their window is too long; the errors of `each`.
    pub fn take(
        &mut self,
        mut piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        if self.head.len() < HEAD {
            if !self.take_head(&mut piece)? {
                return Ok(());
            }
            let head = std::mem::take(&mut self.head);
            self.decompress(&head, &mut each)?;
            self.head = head;
        }
        self.decompress(piece, &mut each)
    }

    fn decompress(
        &mut self,
        piece: &[u8],
        each: &mut impl FnMut(&[u8]) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        let mut from = InBuffer::around(piece);
        loop {
            let mut to = OutBuffer::around(&mut self.plain[..]);
            let left = self.context.decompress_stream(&mut to, &mut from);
            let (left, filled) = (left.map_err(|_| StreamError::Protocol(BROKEN))?, to.pos());
            if left == 0 {
                return Err(StreamError::Protocol(ENDED));
            }
            if filled > 0 {
                each(&self.plain[..filled])?;
            }
            if filled < self.plain.len() && from.pos() == piece.len() {
                return Ok(());
            }
        }
    }

    /// Takes the bytes that state the window from the front of `piece`; true once these bytes are complete.
    /// The window's size is checked before memory is allocated for the window.
    fn take_head(&mut self, piece: &mut &[u8]) -> Result<bool, StreamError> {
        let take = piece.len().min(HEAD - self.head.len());
        let (front, rest) = piece.split_at(take);
        self.head.extend_from_slice(front);
        *piece = rest;
        if self.head.len() < HEAD {
            return Ok(false);
        }
        let window = window(&self.head).ok_or(StreamError::Protocol(BROKEN))?;
        let (log, lease) = self.long.lend(window).ok_or(StreamError::Protocol(TOO_LONG))?;
        self.lease = lease;
        self.context
            .set_parameter(DParameter::WindowLogMax(log.into()))
            .map_err(|_| StreamError::Protocol(BROKEN))?;
        Ok(true)
    }
}

/// The window size in bytes of the zstd frame that starts with `head`; `None` if `head` isn't the start of a
/// zstd frame.
fn window(head: &[u8]) -> Option<u64> {
    let (magic, [descriptor, window]) = head
        .split_first_chunk::<4>()
        .and_then(|(magic, rest)| rest.first_chunk::<2>().map(|rest| (*magic, *rest)))?;
    let is_windowed = magic == MAGIC && descriptor & SINGLE_SEGMENT == 0;
    let base = 1_u64 << (10 + (window >> 3));
    is_windowed.then_some(base + base / 8 * u64::from(window & 7))
}

#[cfg(test)]
mod tests;
