//! Cuts the entries to send into units of work, in the order in which they are found.

use crossbeam_channel::Sender;
use linerate_wire::control::Digest;
use linerate_wire::entry::{Entry, Extra, Kind, Origin};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::send::reading::OpenedSource;
use crate::send::search::BlockTable;
use crate::tree::scan::{Seen, Stopped, Taker};

/// Files up to this many bytes are sent many in one frame.
pub const SMALL: u64 = 64 << 10;
/// The most bytes of contents of a batch. `BATCH_ENTRIES` is the most entries.
pub const BATCH_BYTES: u64 = 256 << 10;
const BATCH_ENTRIES: usize = 256;
/// A file up to this many bytes is one chunk, since several writers of one file would wait for each other.
const WHOLE: u64 = 16 << 20;
/// The limits of a larger file's chunk size in bytes; a chunk's size is a power of two.
const CHUNK_MIN: u64 = 4 << 20;
const CHUNK_MAX: u64 = 64 << 20;

/// A unit of work, which a worker takes from the queue.
pub enum Unit {
    /// Directories, links and small files.
    Batch(Vec<Entry>),
    /// A part of a large file.
    Chunk {
        /// The file.
        file: Arc<LargeFile>,
        /// The offset of the part in bytes.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
}

/// A file that is sent in chunks.
pub struct LargeFile {
    /// The file as it was scanned.
    pub entry: Entry,
    /// Its number in the transfer.
    pub number: u64,
    /// The number of parts into which it is cut so far.
    pub parts: AtomicU32,
    /// Its holes are sent as holes.
    pub sparse: bool,
    /// The number of parts that no worker has finished.
    pub left: AtomicU32,
    /// Set if nothing more of it is needed or can be read.
    pub given_up: AtomicBool,
    /// Opened by the first worker that needs it.
    pub descriptor: OnceLock<Result<OpenedSource, Errno>>,
    /// Bytes of a part; the last part may be shorter.
    pub cut: u64,
    /// The chunks that the receiver has.
    pub there: HeldChunks,
    /// The identity of the source file.
    pub origin: Origin,
}

/// The chunks of a large file that a receiver has.
#[derive(Debug, Default)]
pub enum HeldChunks {
    /// Nothing.
    #[default]
    Nothing,
    /// The chunks whose bits are set, the first chunk in the lowest bit of the first byte.
    Present(Vec<u8>),
    /// The digests of the receiver's chunks, from the first chunk on; this end's file may differ.
    Older(Vec<Digest>),
    /// Blocks of an older version, which may be at any offset of the file.
    Blocks(BlockTable),
    /// The first bytes of the file: their number, and their digest if they are compared.
    Beginning(u64, Option<Digest>),
}

/// How a large file is cut.
pub struct Cut {
    /// Bytes of a chunk; the last chunk may be shorter.
    pub cut: u64,
    /// The chunks that the receiver has.
    pub there: HeldChunks,
}

impl LargeFile {
    /// Cuts the rest of the part at `offset`, from `at` to `end`, into further parts. If the part is a subtree of the
    /// file's hash tree and the number of bytes before `at` is a power of two, each new part is a subtree too.
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

/// Cuts entries into units.
pub struct Planner {
    /// The queue of units; if it is full, the workers are busy.
    queue: Sender<Unit>,
    /// The number of streams, which determines the chunk size.
    streams: u32,
    /// Files are checked for holes.
    sparse: bool,
    batch: Vec<Entry>,
    batch_bytes: u64,
    /// The most entries of a batch.
    batch_entries: usize,
    next_file: u64,
}

impl Planner {
    /// Queues units for the workers of `streams` streams, which keep holes if `sparse` is set.
    pub fn new(queue: Sender<Unit>, streams: u32, sparse: bool) -> Self {
        let batch_entries = BATCH_ENTRIES;
        Self { queue, streams, sparse, batch: Vec::new(), batch_bytes: 0, batch_entries, next_file: 0 }
    }

    /// This planner for workers that only wait for each other: batches are so small that each worker soon gets one.
    pub fn finely(self) -> Self {
        Self { batch_entries: (BATCH_ENTRIES / self.streams.max(1) as usize).max(1), ..self }
    }

    /// This planner for transfers that go through the sources side by side: parts are small, so that the transfers stay
    /// close to each other.
    pub fn in_step(self) -> Self {
        Self { streams: u32::MAX, ..self }
    }

    /// This planner with numbers of large files starting at `first`.
    pub fn numbered_from(self, first: u64) -> Self {
        Self { next_file: first, ..self }
    }

    /// Queues a complete entry.
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

    /// Queues a file of which pieces may be in the receiver's older version.
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
        // The file is cut into several parts, so that the receiver treats them as such.
        let half = (size / 2).next_power_of_two() / 2;
        let least = 8 * table.block() as u64;
        let cut = chunk_size(size, self.streams).next_power_of_two().max(least).min(half);
        self.add_large(entry, seen, size, Cut { cut, there: HeldChunks::Blocks(table) })
    }

    /// Queues a file that the receiver has completely, and whose digest at this end it requests.
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

/// Sends everything that is found.
impl Taker for Planner {
    fn take(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped> {
        self.add(entry, seen)
    }

    fn finish(&mut self) -> Result<(), Stopped> {
        self.flush()
    }
}

/// The bytes of an entry's variable-size properties. They limit a batch, however much each entry has.
pub fn extra_size(extra: &Extra) -> u64 {
    let xattrs: usize = extra.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    (xattrs + 32 * (extra.acl.len() + extra.default_acl.len())) as u64
}

/// A quarter of each stream's share of the file, as a power of two between 4 and 64 MiB.
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
