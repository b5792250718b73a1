//! Plans the transfer: cuts the found entries into units of work, in the order in which they are found.

use crossbeam_channel::Sender;
use linerate_wire::control::Digest;
use linerate_wire::entry::{Entry, Extra, Kind, Origin};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::send::reading::OpenedSource;
use crate::send::search::BlockTable;
use crate::tree::scan::{Seen, Stopped, Taker};

/// Files of at most this many bytes are sent in batches, many in one frame.
pub const SMALL: u64 = 64 << 10;
/// The most bytes of contents of a batch. `BATCH_ENTRIES` is the most entries.
pub const BATCH_BYTES: u64 = 256 << 10;
const BATCH_ENTRIES: usize = 256;
/// A file of at most this many bytes is a single chunk, because several threads that write one file would wait for each
/// other.
const WHOLE: u64 = 16 << 20;
/// The smallest chunk of a larger file in bytes; `CHUNK_MAX` is the largest. A chunk's size is a power of
/// two.
const CHUNK_MIN: u64 = 4 << 20;
const CHUNK_MAX: u64 = 64 << 20;

/// A unit of work, which a worker takes from the queue and sends.
pub enum Unit {
    /// Directories, links and small files.
    Batch(Vec<Entry>),
    /// A part of a large file.
    Chunk {
        /// The file to which the part belongs.
        file: Arc<LargeFile>,
        /// The offset of the part in bytes.
        offset: u64,
        /// The length of the part in bytes.
        length: u64,
    },
}

/// A file that is sent in chunks.
pub struct LargeFile {
    /// The file's entry as the scan found it.
    pub entry: Entry,
    /// The file's number in the transfer.
    pub number: u64,
    /// The number of parts into which the file is cut so far.
    pub parts: AtomicU32,
    /// True if the file's holes are sent as holes.
    pub sparse: bool,
    /// The number of the file's parts that no worker has finished.
    pub left: AtomicU32,
    /// Set if the rest of the file isn't needed or can't be read.
    pub given_up: AtomicBool,
    /// The open file, or the error; set by the first worker that needs the file.
    pub descriptor: OnceLock<Result<OpenedSource, Errno>>,
    /// Bytes of a part; the last part may be shorter.
    pub cut: u64,
    /// The chunks of the file that the receiver has.
    pub there: HeldChunks,
    /// The identity of the source file.
    pub origin: Origin,
}

/// The chunks of a large file that a receiver has.
#[derive(Debug, Default)]
pub enum HeldChunks {
    /// The receiver has no chunks of the file.
    #[default]
    Nothing,
    /// The chunks whose bits are set, the first chunk in the lowest bit of the first byte.
    Present(Vec<u8>),
    /// The digests of the receiver's chunks, from the first one on. This end compares them with its own file.
    Older(Vec<Digest>),
    /// Blocks of an older version, which may be at any offset of the file.
    Blocks(BlockTable),
    /// The receiver has the first bytes of the file: their number, and their digest if they are to be
    /// compared.
    Beginning(u64, Option<Digest>),
}

/// The size of a large file's chunks, and the chunks that the receiver has.
pub struct Cut {
    /// Bytes of a chunk; the last chunk may be shorter.
    pub cut: u64,
    /// The chunks of the file that the receiver has.
    pub there: HeldChunks,
}

impl LargeFile {
    /// Cuts the rest of the part at `offset`, from `at` to `end`, into further parts. If the part is a
    /// subtree of the file's hash tree and `at - offset` is a power of two, each new part is a subtree too.
    pub fn split(self: &Arc<Self>, offset: u64, at: u64, end: u64) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut from = at;
        while from < end {
            let length = (from - offset).min(end - from);
            units.push(Unit::Chunk { file: self.clone(), offset: from, length });
            from += length;
        }
        let more = units.len() as u32;
        self.left.fetch_add(more, Ordering::AcqRel);
        self.parts.fetch_add(more, Ordering::AcqRel);
        units
    }
}

/// Cuts entries into units of work and queues them.
pub struct Planner {
    /// The queue of units. If it is full, the planner waits for the workers.
    queue: Sender<Unit>,
    /// The number of streams, which determines the chunk size.
    streams: u32,
    /// True if files are checked for holes.
    sparse: bool,
    batch: Vec<Entry>,
    batch_bytes: u64,
    /// The most entries of a batch.
    batch_entries: usize,
    next_file: u64,
}

impl Planner {
    /// A planner for the workers of `streams` streams. If `sparse` is set, holes are kept.
    pub fn new(queue: Sender<Unit>, streams: u32, sparse: bool) -> Self {
        let batch_entries = BATCH_ENTRIES;
        Self { queue, streams, sparse, batch: Vec::new(), batch_bytes: 0, batch_entries, next_file: 0 }
    }

    /// Makes batches so small that each worker soon gets one, for workers that mostly wait for each other.
    pub fn finely(self) -> Self {
        Self { batch_entries: (BATCH_ENTRIES / self.streams.max(1) as usize).max(1), ..self }
    }

    /// Makes parts small, for several transfers that go through the sources at the same time, so that the transfers
    /// stay close to each other.
    pub fn in_step(self) -> Self {
        Self { streams: u32::MAX, ..self }
    }

    /// Numbers large files from `first` on.
    pub fn numbered_from(self, first: u64) -> Self {
        Self { next_file: first, ..self }
    }

    /// Queues an entry that is sent completely.
    ///
    /// # Errors
    /// If the workers are gone.
    pub fn add(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped> {
        match entry.kind {
            Kind::File { size } if size > SMALL || self.sparse && seen.sparse => {
                let cut = chunk_size(size, self.streams);
                self.add_large(entry, seen, size, Cut { cut, there: HeldChunks::Nothing })
            }
            Kind::File { size } => self.add_small(entry, size),
            _ => self.add_small(entry, 0),
        }
    }

    /// Queues a file of `size` bytes in chunks, some of which the receiver may have.
    ///
    /// # Errors
    /// If the workers are gone.
    pub fn add_large(&mut self, entry: Entry, seen: Seen, size: u64, cut: Cut) -> Result<(), Stopped> {
        let Cut { cut: chunk, there } = cut;
        let sparse = self.sparse && seen.sparse;
        let parts = u32::try_from(size.div_ceil(chunk).max(1)).unwrap_or(u32::MAX);
        let number = self.next_file;
        self.next_file += 1;
        let file = Arc::new(LargeFile {
            entry,
            number,
            parts: AtomicU32::new(parts),
            sparse,
            left: AtomicU32::new(parts),
            given_up: AtomicBool::new(false),
            descriptor: OnceLock::new(),
            cut: chunk,
            there,
            origin: seen.origin,
        });
        for part in 0..u64::from(parts) {
            if file.given_up.load(Ordering::Relaxed) {
                break;
            }
            let offset = part * chunk;
            self.queue(Unit::Chunk { file: file.clone(), offset, length: chunk.min(size - offset) })?;
        }
        Ok(())
    }

    /// Queues a file, pieces of which may be in the receiver's older version.
    ///
    /// # Errors
    /// If the workers are gone.
    pub fn add_delta(
        &mut self,
        entry: Entry,
        seen: Seen,
        size: u64,
        table: BlockTable,
    ) -> Result<(), Stopped> {
        // The file is cut into at least two parts, so that the receiver handles it as a file of several
        // parts.
        let half = (size / 2).next_power_of_two() / 2;
        let least = 8 * table.block() as u64;
        let cut = chunk_size(size, self.streams).next_power_of_two().max(least).min(half);
        self.add_large(entry, seen, size, Cut { cut, there: HeldChunks::Blocks(table) })
    }

    /// Queues a file that the receiver already has completely, and for which it requests only this end's
    /// digest.
    ///
    /// # Errors
    /// If the workers are gone.
    pub fn add_proof(&mut self, entry: Entry, seen: Seen, size: u64) -> Result<(), Stopped> {
        self.add_large(entry, seen, size, Cut { cut: size.max(1), there: HeldChunks::Present(vec![1]) })
    }

    /// Queues a file of which the receiver has the first `from` bytes.
    ///
    /// # Errors
    /// If the workers are gone.
    pub fn add_rest(
        &mut self,
        entry: Entry,
        seen: Seen,
        size: u64,
        (from, digest): (u64, Option<Digest>),
    ) -> Result<(), Stopped> {
        self.add_large(entry, seen, size, Cut { cut: size, there: HeldChunks::Beginning(from, digest) })
    }

    fn add_small(&mut self, entry: Entry, size: u64) -> Result<(), Stopped> {
        let size = size + entry.extra.as_ref().map_or(0, |extra| extra_size(extra));
        if self.batch_bytes + size > BATCH_BYTES || self.batch.len() == self.batch_entries {
            self.flush()?;
        }
        self.batch_bytes += size;
        self.batch.push(entry);
        Ok(())
    }

    /// Queues the entries that are waiting for a full batch.
    ///
    /// # Errors
    /// If the workers are gone.
    pub fn flush(&mut self) -> Result<(), Stopped> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() { Ok(()) } else { self.queue(Unit::Batch(batch)) }
    }

    fn queue(&self, unit: Unit) -> Result<(), Stopped> {
        self.queue.send(unit).map_err(|_| Stopped)
    }
}

/// As a taker, a planner queues all entries that the scan finds.
impl Taker for Planner {
    fn take(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped> {
        self.add(entry, seen)
    }

    fn finish(&mut self) -> Result<(), Stopped> {
        self.flush()
    }
}

/// The bytes of an entry's properties of variable size (attributes, ACLs). A batch has a limit for their sum.
pub fn extra_size(extra: &Extra) -> u64 {
    let xattrs: usize = extra.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    (xattrs + 32 * (extra.acl.len() + extra.default_acl.len())) as u64
}

/// The chunk size in bytes: a quarter of each stream's share of the file, as a power of two from 4 to 64 MiB. A file of
/// at most 16 MiB is a single chunk.
fn chunk_size(size: u64, streams: u32) -> u64 {
    if size <= WHOLE {
        return size;
    }
    (size / (4 * u64::from(streams.max(1)))).next_power_of_two().clamp(CHUNK_MIN, CHUNK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_powers_of_two_within_bounds() {
        assert_eq!(chunk_size(WHOLE, 8), WHOLE);
        assert_eq!(chunk_size(WHOLE + 1, 8), CHUNK_MIN);
        assert_eq!(chunk_size(1 << 40, 8), CHUNK_MAX);
        assert_eq!(chunk_size(400 << 20, 8), 16 << 20);
    }
}
