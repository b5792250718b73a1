//! The older version of a large file, from which chunks are taken that the sender has unchanged.

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

/// Older versions that may wait for their new ones: more than are offered and under way at a time.
const MOST: usize = 65_536;
/// Older versions that are kept open at most.
const MOST_HELD: usize = 1024;

/// Older versions of which chunks were named to the sender, by the place of the file.
pub struct Older {
    seen: Places<OlderStat>,
    /// Older versions that aren't found by the names of their files.
    held: Mutex<HashMap<RelPath, OwnedFd>>,
}

/// An older version as it was when its chunks were hashed.
#[derive(Clone, Copy)]
struct OlderStat {
    stat: Stat,
    /// Bytes of the older version that were hashed.
    hashed: u64,
    /// Bytes of a chunk.
    chunk: u64,
    /// The new version may have the chunks at other places.
    anywhere: bool,
}

/// An older version, held open while the new one comes.
pub struct Basis {
    file: OwnedFd,
    seen: OlderStat,
    /// The older version's bytes are in the new file already.
    is_copied: bool,
}

impl Default for Older {
    fn default() -> Self {
        Self { seen: Places::new(MOST), held: Mutex::default() }
    }
}

impl Older {
    /// Notes that the first `count` chunks of what is at `place` are named to the sender; false where too many wait.
    pub fn note(&self, place: &RelPath, stat: Stat, chunk: u64, count: usize) -> bool {
        self.seen.insert(place, OlderStat { stat, hashed: chunk * count as u64, chunk, anywhere: false })
    }

    /// As [`Self::note`], for blocks, which the sender may find anywhere in the new version.
    pub fn note_blocks(&self, place: &RelPath, stat: Stat, block: u64, count: usize) -> bool {
        let hashed = block * count as u64;
        self.seen.insert(place, OlderStat { stat, hashed, chunk: block, anywhere: true })
    }

    /// Keeps open the older version of the file at `place`, which has another name; false where too many are kept.
    pub fn hold(&self, place: &RelPath, file: OwnedFd) -> bool {
        let mut held = lock(&self.held);
        let has_room = held.len() < MOST_HELD;
        if has_room {
            held.insert(place.clone(), file);
        }
        has_room
    }

    /// The older version of the file at `place`; `None` where none was named, or it is gone.
    pub fn take(&self, place: &RelPath, parent: &Directory) -> Option<Basis> {
        let held = lock(&self.held).remove(place);
        let seen = self.seen.take(place)?;
        let (_, name) = place.split()?;
        let file = held.or_else(|| open_existing(parent, name, &seen.stat).ok())?;
        Some(Basis { file, seen, is_copied: false })
    }
}

impl Basis {
    /// Has `new`, which is empty, share all blocks of the older version where the file system can do that.
    pub fn share_with(&mut self, new: BorrowedFd<'_>) {
        if self.seen.anywhere {
            return;
        }
        self.is_copied = rustix::fs::ioctl_ficlone(new, &self.file).is_ok();
    }

    /// The new file is the older one, which is written into.
    pub fn is_written_into(&mut self) {
        self.is_copied = true;
    }

    /// Whether the bytes from `start` to `end` are one of the chunks that were named to the sender: of less it could make a
    /// new version that has some of the older one's bytes beside its own, and have the next run hash both.
    pub fn has(&self, start: u64, end: u64) -> bool {
        let chunk = self.seen.chunk;
        !self.seen.anywhere
            && start.is_multiple_of(chunk)
            && start.checked_add(chunk) == Some(end)
            && end <= self.seen.hashed
    }

    /// Brings the bytes from `start` to `end` into `new`, at the same place.
    ///
    /// # Errors
    /// The errors of reading and writing; `EIO` if the older version ends before.
    pub fn copy(&self, new: BorrowedFd<'_>, start: u64, end: u64) -> Result<(), Errno> {
        if self.is_copied {
            return Ok(());
        }
        copy_range(self.file.as_fd(), new, start, end).map_err(CopyError::errno)
    }

    /// Bytes of its blocks, where these may be anywhere in the new version.
    pub fn block(&self) -> Option<u64> {
        self.seen.anywhere.then_some(self.seen.chunk)
    }

    /// Whether `length` bytes from `from` on are in blocks that were named to the sender.
    pub fn has_blocks(&self, from: u64, length: u64) -> bool {
        self.seen.anywhere
            && from.checked_add(length).is_some_and(|end| length > 0 && end <= self.seen.hashed)
    }

    /// Brings `length` bytes from `from` on into `new`, at `at`; `each` gets them as they are there.
    ///
    /// # Errors
    /// As [`Basis::copy`].
    pub fn bring(
        &self,
        new: BorrowedFd<'_>,
        (from, length): (u64, u64),
        at: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Errno> {
        copy_and_see(self.file.as_fd(), from..from + length, new, at, each).map_err(CopyError::errno)
    }

    /// True where somebody wrote into the older version after it was hashed; of the one that is written into that
    /// can't be told.
    pub fn has_changed(&self, is_written_into: bool) -> bool {
        let version = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        let now = rustix::fs::fstat(&self.file);
        // For blocks, the sender's digest shows whether they are what the sender has.
        !is_written_into
            && !self.seen.anywhere
            && now.map_or(true, |now| version(&now) != version(&self.seen.stat))
    }
}
