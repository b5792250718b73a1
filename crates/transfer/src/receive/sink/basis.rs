//! The older version of a large file, from which chunks that the sender has unchanged are copied.

use linerate_wire::path::RelPath;
use rustix::fs::Stat;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use crate::base::lock::lock;
use crate::receive::wanted::open_existing;
use crate::tree::copying::{CopyError, copy_and_see, copy_range};
use crate::tree::places::Places;
use crate::tree::root::Directory;

/// The most older versions that may wait for their new versions. More can't be offered or in transfer at a
/// time.
const MOST_WAITING: usize = 65_536;
/// The most older versions that are kept open.
const MOST_HELD: usize = 1024;

/// Older versions whose chunks were reported to the sender, by the places of the files.
pub struct Older {
    seen: Places<OlderStat>,
    /// Older versions, kept open, whose names differ from the names of the new versions.
    held: Mutex<HashMap<RelPath, OwnedFd>>,
}

/// The stat of an older version when its chunks were hashed.
#[derive(Clone, Copy)]
struct OlderStat {
    stat: Stat,
    /// The number of bytes of the older version that were hashed, from its beginning.
    hashed: u64,
    /// The size in bytes of the chunks whose digests were reported.
    chunk: u64,
    /// True if the new version may have the same chunks at other offsets.
    anywhere: bool,
}

/// The older version of a file, which is open while the new version is received.
pub struct Basis {
    file: OwnedFd,
    seen: OlderStat,
    /// True if the new file already contains the older version's bytes.
    is_copied: bool,
}

impl Default for Older {
    fn default() -> Self {
        Self { seen: Places::new(MOST_WAITING), held: Mutex::default() }
    }
}

impl Older {
    /// Records that the first `count` chunks of the file at `place` are reported to the sender; false if too many files
    /// wait.
    pub fn note(&self, place: &RelPath, stat: Stat, chunk: u64, count: usize) -> bool {
        self.seen.insert(place, OlderStat { stat, hashed: chunk * count as u64, chunk, anywhere: false })
    }

    /// Records blocks as [`Self::note`] records chunks. The sender may find a block at any offset of the new
    /// version.
    pub fn note_blocks(&self, place: &RelPath, stat: Stat, block: u64, count: usize) -> bool {
        let hashed = block * count as u64;
        self.seen.insert(place, OlderStat { stat, hashed, chunk: block, anywhere: true })
    }

    /// Keeps open an older version of the file at `place` that has another name; false if too many are open.
    pub fn hold(&self, place: &RelPath, file: OwnedFd) -> bool {
        let mut held = lock(&self.held);
        let has_room = held.len() < MOST_HELD;
        if has_room {
            held.insert(place.clone(), file);
        }
        has_room
    }

    /// Removes and returns the older version of the file at `place`; `None` if no older version was reported,
    /// or it no longer exists.
    pub fn take(&self, place: &RelPath, parent: &Directory) -> Option<Basis> {
        let held = lock(&self.held).remove(place);
        let seen = self.seen.take(place)?;
        let (_, name) = place.split()?;
        let file = held.or_else(|| open_existing(parent, name, &seen.stat).ok())?;
        Some(Basis { file, seen, is_copied: false })
    }
}

impl Basis {
    /// Makes the empty file `new` share all blocks of the older version, if the file system supports that.
    pub fn share_with(&mut self, new: BorrowedFd<'_>) {
        if self.seen.anywhere {
            return;
        }
        self.is_copied = rustix::fs::ioctl_ficlone(new, &self.file).is_ok();
    }

    /// Records that the new version is written into the older version's file.
    pub fn is_written_into(&mut self) {
        self.is_copied = true;
    }

    /// Whether the bytes from `start` to `end` are one of the chunks that were reported to the sender. Smaller ranges
    /// aren't allowed: a sender could combine a few of the older version's bytes with its own bytes, and find out the
    /// older version's bytes from the digests of the next run.
    pub fn has(&self, start: u64, end: u64) -> bool {
        let chunk = self.seen.chunk;
        !self.seen.anywhere
            && start.is_multiple_of(chunk)
            && start.checked_add(chunk) == Some(end)
            && end <= self.seen.hashed
    }

    /// Copies the bytes from `start` to `end` into `new`, at the same offset.
    ///
    /// # Errors
    /// The errors of reading and writing; `EIO` if the older version is too short.
    pub fn copy(&self, new: BorrowedFd<'_>, start: u64, end: u64) -> Result<(), Errno> {
        if self.is_copied {
            return Ok(());
        }
        copy_range(self.file.as_fd(), new, start, end).map_err(CopyError::errno)
    }

    /// The size of a block in bytes, if blocks may be at any offset of the new version; otherwise `None`.
    pub fn block(&self) -> Option<u64> {
        self.seen.anywhere.then_some(self.seen.chunk)
    }

    /// Whether the `length` bytes from `from` on are in blocks that were reported to the sender.
    pub fn has_blocks(&self, from: u64, length: u64) -> bool {
        self.seen.anywhere
            && from.checked_add(length).is_some_and(|end| length > 0 && end <= self.seen.hashed)
    }

    /// Copies `length` bytes from `from` on into `new`, at `at`; `each` gets the copied bytes.
    ///
    /// # Errors
    /// The errors of [`Basis::copy`].
    pub fn bring(
        &self,
        new: BorrowedFd<'_>,
        (from, length): (u64, u64),
        at: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Errno> {
        copy_and_see(self.file.as_fd(), from..from + length, new, at, each).map_err(CopyError::errno)
    }

    /// True if the older version was modified after its chunks were hashed. If the new version is written into the
    /// older version's file, that can't be determined, and the result is false.
    pub fn has_changed(&self, is_written_into: bool) -> bool {
        let version = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        let now = rustix::fs::fstat(&self.file);
        // Blocks needn't be checked, because the sender's digest shows whether the copied bytes equal the sender's.
        !is_written_into
            && !self.seen.anywhere
            && now.map_or(true, |now| version(&now) != version(&self.seen.stat))
    }
}
