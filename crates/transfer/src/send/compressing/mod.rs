//! Compression of the data of one stream: whether data is compressed, and with which level.

mod controller;
mod skip;

use linerate_host::QuotaMeter;
use linerate_sys::tcp::TcpInfo;
use linerate_wire::control::{CompressionLevel, Options};
use linerate_wire::frame::{LONG_WINDOW_LOG, SURE_UNIT, WINDOW_LOG};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use self::controller::{CompressionController, PackingChoice, Probed, Processors};
use self::skip::SkippedNames;
use crate::net::auto::LONG_ROUND_TRIP;
use crate::net::clock::{Clock, Stage};
use crate::net::compress::{Compressor, CompressorSetup, Packed, Prober, longest_window};
use crate::net::stream::DATA_FRAME;

/// Bytes of a chunk that are read at a time if they may be compressed.
const PACKED_FRAME: usize = 2 * DATA_FRAME;
/// Bytes that are certainly sent uncompressed before compression may begin. Because the receiver knows this number, it
/// reads these bytes in larger pieces.
const SURE: u64 = 8 * SURE_UNIT as u64;
/// Bytes of a payload that are compressed as a sample, in `PIECES` pieces from all parts of the payload.
const SAMPLE: usize = 16 << 10;
const PIECES: usize = 4;
/// While compression is on, up to this many incompressible bytes still pass through the compressor: it skips them
/// quickly, and stopping it would cost more. In a longer chunk, the compression is reconsidered each time that this
/// number of bytes has passed.
const PASSED: u64 = 1 << 20;
/// The window if only little data is sent, as a power of two in bytes.
const SHORT_WINDOW_LOG: u8 = 19;
/// The most threads that compress if there is only one stream. With several streams, each has one thread.
const MOST_THREADS: usize = 4;
/// A queue on the path is assumed if the current round-trip time exceeds the shortest one by this share, and by at
/// least this time.
const QUEUED: (f64, Duration) = (0.25, Duration::from_micros(500));

/// The user's options for compression, and the data that all streams share.
pub struct Compressing {
    level: CompressionLevel,
    skipped: SkippedNames,
    processors: Processors,
    /// The longest window that both ends support for one stream, as a power of two in bytes.
    window: u8,
    is_window_taken: AtomicBool,
    /// True if the user didn't request several streams.
    may_be_alone: bool,
    /// True if one stream is enough, and should compress all data.
    is_alone: AtomicBool,
}

impl Compressing {
    /// The settings according to `options`, for a receiver whose longest window is `window`; `None` if data
    /// is never compressed.
    pub fn new(options: &Options, window: u8) -> Option<Self> {
        let wanted = &options.compression;
        (wanted.level != CompressionLevel::Off).then(|| Self {
            level: wanted.level,
            skipped: SkippedNames::new(wanted.skip.as_deref()),
            processors: processors(),
            window: window.clamp(WINDOW_LOG, LONG_WINDOW_LOG),
            is_window_taken: AtomicBool::new(false),
            may_be_alone: options.streams.is_none_or(|streams| streams == 1),
            is_alone: AtomicBool::new(false),
        })
    }

    /// True if all streams except one should end.
    pub fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Acquire)
    }

    /// Prepares for the new streams of a round: no stream has the long window yet, and no stream is the only
    /// one.
    pub fn begin_round(&self) {
        self.is_window_taken.store(false, Ordering::Release);
        self.is_alone.store(false, Ordering::Release);
    }
}

/// Facts about the transfer and its path, by which a stream decides about compression.
pub struct PackingTerms {
    /// The bytes of the whole transfer, if they are known.
    pub total: Option<u64>,
    /// True if the user limits the rate.
    pub is_limited: bool,
    /// The kernel's counters of the connection.
    pub tcp: Option<TcpInfo>,
}

impl PackingTerms {
    /// True if one stream is enough: the path is short, there is a queue before it, the user limits the rate, or the
    /// stream has no TCP connection.
    fn is_one_enough(&self) -> bool {
        let Some(tcp) = self.tcp.filter(|_| !self.is_limited) else { return true };
        let [now, shortest] = [tcp.rtt_us, tcp.min_rtt_us].map(|us| Duration::from_micros(us.into()));
        let (part, least) = QUEUED;
        shortest < LONG_ROUND_TRIP || now.saturating_sub(shortest) >= least.max(shortest.mul_f64(part))
    }
}

/// How the next payload is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The payload is sent uncompressed.
    Plain,
    /// The payload is compressed.
    Pack,
}

/// The compression of one stream.
pub struct Packing<'a> {
    wanted: &'a Compressing,
    controller: CompressionController,
    compressor: Option<Compressor>,
    /// True while frames are being compressed.
    is_on: bool,
    /// True if this stream has the long window, and may become the only stream.
    is_first: bool,
    prober: Prober,
    sample: Vec<u8>,
    /// True if the name of the current file shows that its contents are already compressed.
    is_skipped: bool,
    /// Bytes of the current chunk; 0 for a batch.
    length: u64,
    /// The offset in the current chunk up to which the receiver was promised uncompressed bytes.
    promised: u64,
    /// The number of bytes that may pass before the compression is reconsidered.
    unseen: u64,
}

impl<'a> Packing<'a> {
    /// The compression of a new stream, which is off.
    pub fn new(wanted: &'a Compressing) -> Self {
        Self {
            wanted,
            controller: CompressionController::new(wanted.level, wanted.processors),
            compressor: None,
            is_on: false,
            is_first: false,
            prober: Prober::new(),
            sample: Vec::new(),
            is_skipped: false,
            length: 0,
            promised: 0,
            unseen: 0,
        }
    }

    /// True if the file's name shows that it is already compressed.
    pub fn skips(&self, name: &[u8]) -> bool {
        self.wanted.skipped.has(name)
    }

    /// Begins a chunk with this offset and length, or a batch. `is_skipped` states that the names show
    /// contents that are already compressed.
    pub fn begin(&mut self, (offset, length): (u64, u64), is_skipped: bool) {
        (self.promised, self.length) = (offset, length);
        self.is_skipped = is_skipped && (!self.is_on || length > PASSED);
        self.unseen = 0;
        self.controller.begin();
    }

    /// True while frames are being compressed.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// True if this stream should remain when all other streams end.
    pub fn is_alone(&self) -> bool {
        self.is_first && self.wanted.is_alone()
    }

    /// The compressor, if compression is on.
    pub fn compressor(&mut self) -> Option<&mut Compressor> {
        self.compressor.as_mut().filter(|_| self.is_on)
    }

    /// The largest number of compressed bytes that may wait to be sent; 0 if there may be several streams, because each
    /// stream would have such bytes.
    pub fn most_waiting(&self) -> usize {
        if self.is_first { self.controller.most_waiting() as usize } else { 0 }
    }

    /// Ends the compression, after all data was taken out of the compressor.
    pub fn stop(&mut self) {
        self.is_on = false;
    }

    /// How many of the next bytes of a chunk, from `at` on, may be compressed; `None` if they are sent uncompressed.
    pub fn next_of_chunk(&mut self, at: u64, end: u64, clock: &Clock) -> Option<usize> {
        (at >= self.promised && self.wants(clock)).then(|| PACKED_FRAME.min((end - at) as usize))
    }

    /// The number of bytes after the offset `at` that the receiver is promised uncompressed.
    pub fn promise(&mut self, at: u64, end: u64, clock: &Clock) -> u64 {
        if !self.wants(clock) {
            self.promised = end.min(at + SURE);
        }
        let sure = self.promised.saturating_sub(at);
        sure - sure % SURE_UNIT as u64
    }

    fn wants(&mut self, clock: &Clock) -> bool {
        !self.is_skipped && self.choose(clock) != PackingChoice::Plain
    }

    fn choose(&mut self, clock: &Clock) -> PackingChoice {
        let so_far = self.compressor.as_ref().map_or_else(Packed::default, Compressor::so_far);
        self.controller.choose(&clock.times(), so_far)
    }

    /// Decides how the payload `plain` is sent, in a transfer with these `terms`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn step(
        &mut self,
        plain: &[u8],
        clock: &mut Clock,
        terms: impl Fn() -> PackingTerms,
    ) -> io::Result<Step> {
        if self.is_skipped {
            return Ok(Step::Plain);
        }
        let choice = self.choose(clock);
        if choice == PackingChoice::Probe || self.is_on && self.is_to_be_seen(plain) {
            self.probe(plain, clock)?;
        }
        let PackingChoice::Pack(level) = self.choose(clock) else { return Ok(Step::Plain) };
        self.set_level(level, &terms)?;
        if self.is_first && !self.is_alone() && self.controller.has_looked() {
            self.ask_to_be_alone(&terms());
        }
        self.is_on = true;
        Ok(Step::Pack)
    }

    /// True each time that another `PASSED` bytes of a long chunk have passed, so that the compression is
    /// reconsidered.
    fn is_to_be_seen(&mut self, plain: &[u8]) -> bool {
        if self.length <= PASSED {
            return false;
        }
        let is_due = self.unseen == 0;
        self.unseen = if is_due { PASSED } else { self.unseen }.saturating_sub(plain.len() as u64);
        is_due
    }

    fn set_level(&mut self, level: u8, terms: &impl Fn() -> PackingTerms) -> io::Result<()> {
        match &mut self.compressor {
            Some(compressor) => compressor.set_level(level),
            none => {
                let terms = terms();
                let far = self.controller.is_slow();
                self.is_first = far
                    && self.wanted.may_be_alone
                    && !self.wanted.is_window_taken.swap(true, Ordering::AcqRel);
                let longest =
                    if self.is_first { self.wanted.window.min(longest_window()) } else { WINDOW_LOG };
                let threads = if self.is_first { self.controller.threads() } else { 1 };
                let window = window_for(terms.total, longest);
                *none = Some(Compressor::new(CompressorSetup { level, window, far, threads })?);
                self.ask_to_be_alone(&terms);
                Ok(())
            }
        }
    }

    fn ask_to_be_alone(&self, terms: &PackingTerms) {
        if self.is_first && terms.is_one_enough() {
            self.wanted.is_alone.store(true, Ordering::Release);
        }
    }

    /// Compresses a sample of `plain` for the controller.
    fn probe(&mut self, plain: &[u8], clock: &mut Clock) -> io::Result<()> {
        self.sample.clear();
        let piece = (SAMPLE / PIECES).min(plain.len());
        for number in 0..PIECES {
            let start = (plain.len() - piece) / PIECES * number;
            self.sample.extend_from_slice(&plain[start..start + piece]);
        }
        if self.prober.is_cold() {
            self.prober.length(&self.sample)?;
        }
        let begun = Instant::now();
        let length = self.prober.length(&self.sample)?;
        let whole = self.sample.len().max(1) as f64;
        let probed = Probed { part: length as f64 / whole, each: begun.elapsed().as_secs_f64() / whole };
        clock.lap(Stage::Compress);
        self.controller.probed(probed, &clock.times());
        Ok(())
    }
}

/// The window for a transfer of `total` bytes, as a power of two in bytes, at most `longest`. A longer window
/// would be of no use.
fn window_for(total: Option<u64>, longest: u8) -> u8 {
    let needed =
        total.and_then(|total| total.max(1).checked_next_power_of_two()).map_or(64, u64::trailing_zeros);
    u8::try_from(needed).unwrap_or(longest).clamp(SHORT_WINDOW_LOG, longest)
}

/// The processors that may compress if there is only one stream.
fn processors() -> Processors {
    let threads = available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS)) as u32;
    let quota = QuotaMeter::start(Path::new("/")).since_start();
    Processors { threads, quota: quota.map(|used| used.quota.processors) }
}
