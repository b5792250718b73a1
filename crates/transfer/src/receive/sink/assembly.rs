//! A large file whose parts arrive on several streams: the file to which the parts are written, the parts
//! that have arrived, and the chunks that the journal lists.

use linerate_wire::control::Digest;
use linerate_wire::entry::{Chunk, Kind, Origin};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::basis::Basis;
use super::covered::Parts;
use super::moved::Edges;
use super::{BLOCK, Resumed};
use crate::base::lock::lock;
use crate::net::stream::StreamError;
use crate::receive::admission::Admitted;
use crate::receive::divided::{AwaitedPieces, DividedTarget, chunk_of};
use crate::receive::journal::{Journal, Partial, mark};
use crate::tree::digest;
use crate::tree::temporary::{Name, Temporary};

/// The smallest chunk in bytes that is recorded before its part is complete.
const LEAST_CHUNK: u64 = 256 << 10;

/// A large file that is being received.
pub struct Assembly {
    pub(super) file: OwnedFd,
    pub(super) temporary: Mutex<Option<Temporary>>,
    /// An older version of the file, from which chunks that the sender hasn't changed are copied.
    pub(super) basis: Option<Basis>,
    /// True if the file may still contain bytes of an older version, at offsets for which no new bytes have arrived.
    pub(super) has_old_bytes: bool,
    /// True if the file has its real name from the start, because the new bytes are written into the older version.
    pub(super) in_place: bool,
    pub(super) admitted: Admitted<'static>,
    /// The parts that have arrived.
    pub(super) parts: Mutex<Parts>,
    /// The sender's digests of the parts.
    pub(super) digests: Mutex<Vec<digest::DigestPart>>,
    pub(super) failed: AtomicBool,
    /// Blocks of the older version that a boundary between two parts cuts.
    pub(super) edges: Mutex<Edges>,
    /// True if a part that contains pieces of the older version differs from the sender's digest.
    pub(super) is_wrong: AtomicBool,
    /// The offset of the first part whose contents the sender may not know: the part has pieces of blocks, or
    /// its digest differs from the sender's. If the transfer ends early, no bytes from this offset on are
    /// kept.
    pub(super) unproven: AtomicU64,
    /// The file's number in the journal, if it has one, and the recorded chunks.
    listed: Mutex<Listed>,
    /// Chunks that needn't be sent: they arrived in an earlier run or, in a divided file, other transfers bring them.
    there: HashSet<u32>,
    /// Set if this transfer brings only some pieces of the file.
    pub(super) divided: Option<DividedTarget>,
    /// The identity of the source file.
    pub(super) origin: Origin,
}

/// The journal's state of a large file.
#[derive(Default)]
struct Listed {
    index: Option<u32>,
    /// The size in bytes of a chunk in the journal: the chunk size of the first part, or a smaller size if the parts
    /// take long.
    chunk: u64,
    /// Chunks that are recorded in the journal.
    chunks: HashSet<u32>,
    /// The number of chunks that are recorded as being on stable storage.
    stable: usize,
}

impl Assembly {
    pub(super) fn new(
        temporary: Temporary,
        chunk: &Chunk,
        admitted: &Admitted<'static>,
    ) -> Result<Self, Errno> {
        Ok(Self {
            file: temporary.fd()?.try_clone_to_owned().map_err(|_| Errno::MFILE)?,
            in_place: temporary.is_in_place(),
            temporary: Mutex::new(Some(temporary)),
            has_old_bytes: false,
            basis: None,
            admitted: admitted.clone(),
            parts: Mutex::new(Parts::new(chunk.parts)),
            digests: Mutex::default(),
            failed: AtomicBool::new(false),
            edges: Mutex::default(),
            is_wrong: AtomicBool::new(false),
            unproven: AtomicU64::new(u64::MAX),
            listed: Mutex::new(Listed { chunk: cut(chunk), ..Listed::default() }),
            there: HashSet::new(),
            divided: None,
            origin: chunk.origin,
        })
    }

    /// Adds to this assembly an older version from which chunks may be copied. `has_old_bytes` is true if the
    /// file may already contain bytes of an older version.
    pub(super) fn over(self, basis: Option<Basis>, has_old_bytes: bool) -> Self {
        Self { basis, has_old_bytes, ..self }
    }

    pub(super) fn resumed(
        resumed: Resumed,
        chunk: &Chunk,
        admitted: &Admitted<'static>,
    ) -> Result<Self, Errno> {
        let Resumed { temporary, partial, there } = resumed;
        let index = Some(partial.index);
        // These chunks are on stable storage, because the file was synced when it was reopened.
        let listed = Listed { index, chunk: partial.chunk, chunks: there.clone(), stable: there.len() };
        let new = Self::new(temporary, chunk, admitted)?;
        Ok(Self { listed: Mutex::new(listed), there, has_old_bytes: true, ..new })
    }

    /// An assembly for a divided file, of which other transfers bring the other chunks.
    pub(super) fn divided(
        target: DividedTarget,
        awaited: AwaitedPieces,
        chunk: &Chunk,
        admitted: &Admitted<'static>,
    ) -> Result<Self, Errno> {
        let listed = Listed { chunk: chunk_of(&awaited.divided), ..Listed::default() };
        let new = Self::new(target.temporary()?, chunk, admitted)?;
        let (listed, there, divided) = (Mutex::new(listed), awaited.present, Some(target));
        Ok(Self { listed, there, divided, has_old_bytes: true, ..new })
    }

    /// Records in the journal, if possible, that a part was written. For a part that takes long, `least` is
    /// set: then the bytes that have arrived are recorded in chunks of `least` bytes.
    pub(super) fn write_down(&self, offset: u64, length: u64, least: Option<u64>, journal: &Journal) {
        let Some(size) = self.size() else { return };
        // Progress of a divided file is recorded by marks in the file itself.
        if !journal.is_wanted() || self.divided.is_some() {
            return;
        }
        let mut listed = lock(&self.listed);
        if let (None, Some(least)) = (listed.index, least) {
            listed.chunk = listed.chunk.min(least);
        }
        let Some(numbers) = chunks_in(offset, length, size, listed.chunk) else { return };
        if listed.index.is_none() {
            listed.index = self.list(size, listed.chunk, journal);
        }
        let Some(index) = listed.index else { return };
        for number in numbers {
            // A chunk is remembered only if the journal has room for its record. This limits memory, no
            // matter which chunk size a far end uses.
            if !listed.chunks.contains(&number) && journal.chunk(index, number) {
                listed.chunks.insert(number);
            }
        }
    }

    /// True if the journal lists the file, so that the next run can resume it.
    pub(super) fn is_listed(&self) -> bool {
        lock(&self.listed).index.is_some()
    }

    /// True if the sender may send a frame that states that a part is already here.
    pub(super) fn may_be_here(&self) -> bool {
        self.basis.is_some() || !self.there.is_empty()
    }

    /// True if frames may refer to blocks of an older version.
    pub(super) fn has_blocks(&self) -> bool {
        self.basis.as_ref().is_some_and(|basis| basis.block().is_some())
    }

    /// The number of bytes from the beginning of the file that have arrived without a gap.
    pub(super) fn beginning(&self) -> u64 {
        let (parts, chunk) = (lock(&self.parts), lock(&self.listed).chunk);
        let mut end = parts.end_of(0);
        // Chunks that have arrived in an earlier run aren't sent again, so they count too.
        while chunk > 0
            && end.is_multiple_of(chunk)
            && u32::try_from(end / chunk).is_ok_and(|number| self.there.contains(&number))
        {
            end = parts.end_of(end + chunk);
        }
        end.min(self.size().unwrap_or(0))
    }

    /// True if this part needn't be sent, for example because it arrived in an earlier run.
    pub(super) fn is_there(&self, offset: u64, length: u64) -> bool {
        let (Some(size), chunk) = (self.size(), lock(&self.listed).chunk) else { return false };
        is_chunk(offset, length, size, chunk) && self.there.contains(&((offset / chunk) as u32))
    }

    /// The file's number in the journal. If the file isn't recorded yet, this function records it. `None` if the
    /// journal can't list the file.
    fn list(&self, size: u64, chunk: u64, journal: &Journal) -> Option<u32> {
        let mut temporary = lock(&self.temporary);
        let temporary = temporary.as_mut()?;
        // A file with an older version isn't recorded, because a chunk copied from the older version may turn out to
        // have changed. A file that is changed in place isn't recorded, because it has no temporary name.
        if self.basis.is_some() || temporary.is_elsewhere() || !journal.covers(temporary.parent()) {
            return None;
        }
        let name = Name::parse(temporary.name().as_bytes())?;
        let index = journal.partial(Partial {
            index: 0,
            place: self.admitted.place().clone(),
            name,
            mark: mark(self.admitted.entry()),
            origin: self.origin,
            inode: temporary.inode().ok()?,
            size,
            chunk,
        })?;
        temporary.keep();
        Some(index)
    }

    /// Syncs written data to stable storage, and records the synced chunks in the journal.
    pub fn settle(&self, journal: &Journal) {
        let (index, chunks) = {
            let listed = lock(&self.listed);
            let Some(index) = listed.index.filter(|_| listed.chunks.len() > listed.stable) else { return };
            (index, listed.chunks.clone())
        };
        // A failure is recorded in the journal immediately, because the kernel reports it only once.
        match rustix::fs::fdatasync(&self.file) {
            Ok(()) => {
                lock(&self.listed).stable = chunks.len();
                journal.stable(index, &chunks);
            }
            Err(_) => journal.distrust(),
        }
    }

    pub(super) fn size(&self) -> Option<u64> {
        if let Kind::File { size } = self.admitted.entry().kind { Some(size) } else { None }
    }

    /// True if the file was given up.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// True if the parts cover the whole file.
    pub(super) fn is_covered(&self) -> bool {
        self.size().is_some_and(|size| lock(&self.parts).are_all_of(size))
    }

    /// The root hash of the contents that the sender read.
    pub(super) fn digest(&self) -> Result<Digest, StreamError> {
        let size = self.size().ok_or(StreamError::Protocol("parts of an entry that isn't a file"))?;
        let parts = std::mem::take(&mut *lock(&self.digests));
        digest::join(parts, size)
            .ok_or(StreamError::Protocol("parts of a file whose digests can't be joined"))
    }

    /// Marks the file as failed without removing it, so that the chunks in the journal are kept. Returns true if the
    /// file was marked before.
    pub(super) fn stop(&self) -> bool {
        self.failed.swap(true, Ordering::AcqRel)
    }

    /// Removes the file and everything that is known about it.
    pub(super) fn give_up(&self) {
        self.stop();
        if let Some(temporary) = lock(&self.temporary).take() {
            temporary.discard();
        }
    }
}

/// The chunk size of the file, derived from one chunk: from its length or, for the last chunk, its offset. 0 if the
/// size can't be derived, because the part is only the rest of a chunk.
fn cut(chunk: &Chunk) -> u64 {
    match chunk.entry.kind {
        Kind::File { size } if chunk.offset + chunk.length == size && chunk.parts > 1 => {
            let before = u64::from(chunk.parts - 1);
            let cut = chunk.offset / before;
            if chunk.offset.is_multiple_of(before) && cut >= chunk.length { cut } else { 0 }
        }
        _ => chunk.length,
    }
}

/// True if the part at `offset` is exactly one of the chunks of size `chunk` in a file of `size` bytes.
fn is_chunk(offset: u64, length: u64, size: u64, chunk: u64) -> bool {
    chunk > 0 && offset.is_multiple_of(chunk) && length == chunk.min(size.saturating_sub(offset))
}

/// The chunk size in bytes with which the journal lists a file on a slow link. It is large enough to keep the journal
/// of a large file short. If files are changed in place (`inplace`), it is at least [`BLOCK`], because the next run's
/// parts consist of these chunks.
pub(super) fn least_chunk(size: u64, inplace: bool) -> u64 {
    (size / 1024).next_power_of_two().max(if inplace { BLOCK } else { LEAST_CHUNK })
}

/// The numbers of the chunks of size `chunk` that make up a part; `None` if the part isn't a sequence of such
/// chunks.
fn chunks_in(offset: u64, length: u64, size: u64, chunk: u64) -> Option<Range<u32>> {
    if is_chunk(offset, length, size, chunk) {
        let number = u32::try_from(offset / chunk).ok()?;
        return Some(number..number.checked_add(1)?);
    }
    let end = offset + length;
    // A part may consist of several chunks only if the chunks are large. If the chunks are smaller, the other end has
    // chosen their size itself, and sends each chunk as a separate part.
    let is_sum =
        chunk >= LEAST_CHUNK && offset.is_multiple_of(chunk) && (end.is_multiple_of(chunk) || end == size);
    is_sum.then(|| Some(u32::try_from(offset / chunk).ok()?..u32::try_from(end.div_ceil(chunk)).ok()?))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_chunk_or_a_sum_of_those_that_are_not_too_small() {
        let (size, chunk) = (10 * LEAST_CHUNK + 5, 2 * LEAST_CHUNK);
        assert_eq!(chunks_in(chunk, chunk, size, chunk), Some(1..2));
        assert_eq!(chunks_in(chunk, 3 * chunk, size, chunk), Some(1..4));
        assert_eq!(chunks_in(4 * chunk, size - 4 * chunk, size, chunk), Some(4..6));
        assert_eq!(chunks_in(0, size, size, size), Some(0..1));
        for (offset, length) in [(1, chunk), (chunk, chunk + 1), (LEAST_CHUNK, chunk), (0, LEAST_CHUNK)] {
            assert_eq!(chunks_in(offset, length, size, chunk), None, "{length} at {offset}");
        }
        assert_eq!((chunks_in(7, 1, 100, 1), chunks_in(7, 2, 100, 1)), (Some(7..8), None));
    }

    #[test]
    fn the_chunks_of_a_slow_link_divide_those_of_a_sender() {
        let least = |size| least_chunk(size, false);
        assert_eq!((least(1), least(20 << 20)), (LEAST_CHUNK, LEAST_CHUNK));
        assert_eq!(least(1 << 30), 1 << 20);
        assert!([16 << 20, 1 << 30, 1 << 45].map(least).iter().all(|chunk| chunk.is_power_of_two()));
        assert_eq!((least_chunk(1, true), least_chunk(1 << 31, true)), (BLOCK, 2 << 20));
    }
}
