//! Cuts what is to be sent into units of work, in the order in which it is found.

use crossbeam_channel::Sender;
use linerate_wire::control::Digest;
use linerate_wire::entry::{Entry, Extra, Kind, Origin};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::send::reading::OpenedSource;
use crate::send::search::BlockTable;
use crate::tree::scan::{Seen, Stopped, Taker};

/// Files up to this many bytes travel many in one frame.
pub const SMALL: u64 = 64 << 10;
/// Contents of a batch in bytes, and its entries, at most.
pub const BATCH_BYTES: u64 = 256 << 10;
const BATCH_ENTRIES: usize = 256;
/// A file up to this many bytes is one chunk: writers of one file wait for each other.
const WHOLE: u64 = 16 << 20;
/// Bounds of a chunk of a larger file in bytes; it is a power of two.
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
        /// Where the part begins in bytes.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
}

/// A file that travels in chunks.
pub struct LargeFile {
    /// The file as it was scanned.
    pub entry: Entry,
    /// Its number.
    pub number: u64,
    /// Into how many parts it is cut so far.
    pub parts: AtomicU32,
    /// Its holes stay holes.
    pub sparse: bool,
    /// Parts that no worker has finished.
    pub left: AtomicU32,
    /// Set where nothing more of it is wanted or can be read.
    pub given_up: AtomicBool,
    /// Opened by the first worker that needs it.
    pub descriptor: OnceLock<Result<OpenedSource, Errno>>,
    /// Bytes of a part; the last one may be shorter.
    pub cut: u64,
    /// The chunks of it that the receiver has.
    pub there: HeldChunks,
    /// Which file it is.
    pub origin: Origin,
}

/// The chunks of a large file that a receiver has.
#[derive(Debug, Default)]
pub enum HeldChunks {
    /// Nothing.
    #[default]
    Nothing,
    /// The chunks whose bits are set, the first one in the lowest bit of the first byte.
    Present(Vec<u8>),
    /// Chunks with these contents, from the first one on; the file may have others now.
    Older(Vec<Digest>),
    /// Blocks of an older version, which may be anywhere in the file.
    Blocks(BlockTable),
    /// The first bytes of the file: how many, and their digest where they are compared.
    Beginning(u64, Option<Digest>),
}

/// How a large file is cut.
pub struct Cut {
    /// Bytes of a chunk; the last one may be shorter.
    pub cut: u64,
    /// The chunks of it that the receiver has.
    pub there: HeldChunks,
}

impl LargeFile {
    /// The rest of the part that begins at `offset`, from `at` to `end`, as further parts. Each is a subtree of the file's hash
    /// tree where the part is one, and the bytes before `at` are a power of two.
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
    /// The queue of units; full means that the workers are busy.
    queue: Sender<Unit>,
    /// Streams, for the size of chunks.
    streams: u32,
    /// Holes are looked for.
    sparse: bool,
    batch: Vec<Entry>,
    batch_bytes: u64,
    /// Entries of a batch.
    batch_entries: usize,
    next_file: u64,
}

impl Planner {
    /// Queues units for the workers of `streams` streams, which keep holes if `sparse` is set.
    pub fn new(queue: Sender<Unit>, streams: u32, sparse: bool) -> Self {
        let batch_entries = BATCH_ENTRIES;
        Self { queue, streams, sparse, batch: Vec::new(), batch_bytes: 0, batch_entries, next_file: 0 }
    }

    /// This planner, for workers that wait for nothing but each other: batches are so small that each worker soon has one.
    pub fn finely(self) -> Self {
        Self { batch_entries: (BATCH_ENTRIES / self.streams.max(1) as usize).max(1), ..self }
    }

    /// This planner, for transfers that go through the sources side by side: parts are small, so that the transfers are at
    /// about the same place.
    pub fn in_step(self) -> Self {
        Self { streams: u32::MAX, ..self }
    }

    /// This planner, whose large files have numbers from `first` on.
    pub fn numbered_from(self, first: u64) -> Self {
        Self { next_file: first, ..self }
    }

    /// Queues all of an entry.
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

    /// Queues a file of which pieces may be in an older version of the receiver's.
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
        // The file is cut into several parts, so that a receiver can take them as such.
        let half = (size / 2).next_power_of_two() / 2;
        let least = 8 * table.block() as u64;
        let cut = chunk_size(size, self.streams).next_power_of_two().max(least).min(half);
        self.add_large(entry, seen, size, Cut { cut, there: HeldChunks::Blocks(table) })
    }

    /// Queues a file of which the receiver has all, and wants to know what it comes to here.
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

    /// Queues what waits for a full batch.
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

/// Everything that is found is sent.
impl Taker for Planner {
    fn take(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped> {
        self.add(entry, seen)
    }

    fn finish(&mut self) -> Result<(), Stopped> {
        self.flush()
    }
}

/// Bytes of what may be large: a batch holds little of it, however much each entry has.
pub fn extra_size(extra: &Extra) -> u64 {
    let xattrs: usize = extra.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    (xattrs + 32 * (extra.acl.len() + extra.default_acl.len())) as u64
}

/// A quarter of each stream's share, as a power of two between 4 and 64 MiB.
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
