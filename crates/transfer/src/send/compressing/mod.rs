//! Compression of what one stream sends: whether, and how hard.

mod controller;
mod skip;

use linerate_wire::control::{Compression, CompressionLevel};
use linerate_wire::frame::SURE_UNIT;
use std::io;
use std::time::Instant;

use self::controller::{CompressionController, PackingChoice};
use self::skip::SkippedNames;
use crate::net::clock::{Clock, Stage};
use crate::net::compress::Compressor;
use crate::net::stream::{DATA_FRAME, StreamError};

/// Bytes of a chunk that are compressed together.
const PACKED_FRAME: usize = 2 * DATA_FRAME;
/// Bytes that are sent without compression before it may begin: the receiver reads them in larger pieces where it knows that.
const SURE: u64 = 8 * SURE_UNIT as u64;
/// Bytes of a payload that are compressed to see what that would bring, in so many pieces from all over it.
const SAMPLE: usize = 16 << 10;
const PIECES: usize = 4;

/// The user's options, for all streams.
pub struct Compressing {
    level: CompressionLevel,
    skipped: SkippedNames,
}

impl Compressing {
    /// By `wanted`; none where nothing is ever compressed.
    pub fn new(wanted: &Compression) -> Option<Self> {
        let skipped = SkippedNames::new(wanted.skip.as_deref());
        (wanted.level != CompressionLevel::Off).then_some(Self { level: wanted.level, skipped })
    }
}

/// One stream's compression.
pub struct Packing<'a> {
    wanted: &'a Compressing,
    controller: CompressionController,
    compressor: Compressor,
    prober: Compressor,
    sample: Vec<u8>,
    packed: Vec<u8>,
    /// The name of what is sent says that it is compressed already.
    is_skipped: bool,
    /// Up to where in the chunk the receiver was promised that nothing is compressed.
    promised: u64,
}

impl<'a> Packing<'a> {
    /// Nothing is compressed yet.
    pub fn new(wanted: &'a Compressing) -> Self {
        Self {
            wanted,
            controller: CompressionController::new(wanted.level),
            compressor: Compressor::new(),
            prober: Compressor::new(),
            sample: Vec::new(),
            packed: Vec::new(),
            is_skipped: false,
            promised: 0,
        }
    }

    /// True where the name of a file says that it is compressed already.
    pub fn skips(&self, name: &[u8]) -> bool {
        self.wanted.skipped.has(name)
    }

    /// A chunk begins, or a batch, of which `is_skipped` says whether its names are of compressed files.
    pub fn begin(&mut self, offset: u64, is_skipped: bool) {
        (self.promised, self.is_skipped) = (offset, is_skipped);
        self.controller.begin();
    }

    /// The next bytes of a chunk, from `at`, which may be compressed; none where they go as they are.
    pub fn next_of_chunk(&mut self, at: u64, end: u64, clock: &Clock) -> Option<usize> {
        (at >= self.promised && self.wants(clock)).then(|| PACKED_FRAME.min((end - at) as usize))
    }

    /// How many bytes the receiver may rely on to come as they are behind those up to `at`.
    pub fn promise(&mut self, at: u64, end: u64, clock: &Clock) -> u64 {
        if !self.wants(clock) {
            self.promised = end.min(at + SURE);
        }
        let sure = self.promised.saturating_sub(at);
        sure - sure % SURE_UNIT as u64
    }

    fn wants(&mut self, clock: &Clock) -> bool {
        !self.is_skipped && self.controller.choose(&clock.times()) != PackingChoice::Plain
    }

    /// Compresses `plain`, where that is wanted; true where [`Packing::payload`] is to be sent in its place.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn pack(&mut self, plain: &[u8], clock: &mut Clock) -> Result<bool, StreamError> {
        if self.is_skipped {
            return Ok(false);
        }
        if self.controller.choose(&clock.times()) == PackingChoice::Probe {
            self.probe(plain, clock)?;
        }
        let PackingChoice::Pack(level) = self.controller.choose(&clock.times()) else { return Ok(false) };
        self.compressor.pack(level, plain, &mut self.packed)?;
        clock.lap(Stage::Compress);
        clock.packed(plain.len());
        self.controller.packed(part(self.packed.len(), plain.len()), &clock.times());
        Ok(true)
    }

    /// What was compressed last, as it is sent.
    pub fn payload(&self) -> &[u8] {
        &self.packed
    }

    /// Compresses a little of `plain`, for the controller.
    fn probe(&mut self, plain: &[u8], clock: &mut Clock) -> io::Result<()> {
        self.sample.clear();
        let piece = (SAMPLE / PIECES).min(plain.len());
        for number in 0..PIECES {
            let start = (plain.len() - piece) / PIECES * number;
            self.sample.extend_from_slice(&plain[start..start + piece]);
        }
        let begun = Instant::now();
        self.prober.alone(&self.sample, &mut self.packed)?;
        let each = begun.elapsed().as_secs_f64() / self.sample.len().max(1) as f64;
        clock.lap(Stage::Compress);
        self.controller.probed(part(self.packed.len(), self.sample.len()), each, &clock.times());
        Ok(())
    }
}

fn part(packed: usize, plain: usize) -> f64 {
    packed as f64 / plain.max(1) as f64
}
