//! Files that several transfers send together: each transfer sends some pieces of a file. Until the last piece has
//! arrived, such a file is in its final directory under a temporary name that all these transfers know.
//!
//! After the file's last byte there is a mark for each piece that is on stable storage. Each mark is in a separate
//! block, because several hosts write to the file. When every piece has its mark, the file is truncated to its final
//! length, so a file with exactly its final length is complete. Each piece is written by only one transfer at a time,
//! because a transfer holds the lock of its command's journal.

use linerate_wire::control::DividedFile;
use linerate_wire::entry::{Entry, Kind, Origin};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use crate::base::lock::lock;
use crate::receive::journal::{is_own, open_own};
use crate::tree::identity::identity;
use crate::tree::root::Directory;
use crate::tree::temporary::{Name, Temporary};

/// The mark of a piece that is complete.
const MARK: [u8; 8] = *b"linerate";
/// The distance between two marks in bytes. It is so large that no page that a host caches contains two marks.
const MARK_BLOCK: u64 = 64 << 10;
/// The size of a chunk in bytes. In a file that would have more than `CHUNKS` chunks, chunks are larger.
const CHUNK: u64 = 32 << 20;
/// The largest size of a chunk in bytes.
const LARGEST_CHUNK: u64 = 1 << 30;
/// If a file would have more chunks than this, its chunks are larger, but not larger than `LARGEST_CHUNK`.
const CHUNKS: u64 = 65_536;
/// How often the file is looked up if another process keeps removing it.
const TRIES: usize = 5;

/// The size in bytes of the chunks of a divided file. A chunk is a piece or a part of a piece.
pub fn chunk_of(divided: &DividedFile) -> u64 {
    let least = divided.size.div_ceil(CHUNKS).next_power_of_two();
    least.clamp(CHUNK, LARGEST_CHUNK).min(divided.piece)
}

/// The number of chunks of a divided file.
pub fn chunks_of(divided: &DividedFile) -> u64 {
    divided.size.div_ceil(chunk_of(divided))
}

/// True if the entry is the file that was divided, and the file hasn't changed since it was divided.
pub fn is_the_one(divided: &DividedFile, entry: &Entry, origin: Origin) -> bool {
    let DividedFile { size, mtime, ctime, inode, .. } = *divided;
    (entry.kind == Kind::File { size }) && entry.mtime == mtime && origin == Origin { inode, ctime }
}

/// A divided file, after the sender was informed which pieces to send.
#[derive(Clone, Debug)]
pub struct AwaitedPieces {
    /// The file.
    pub divided: DividedFile,
    /// The numbers of the chunks that needn't be sent.
    pub present: HashSet<u32>,
}

/// A divided file that is open under its temporary name.
pub struct DividedTarget {
    parent: Arc<Directory>,
    name: Name,
    file: OwnedFd,
    divided: DividedFile,
    /// For each piece of which bytes have arrived, the number of these bytes.
    came: Mutex<HashMap<u32, u64>>,
    /// True if the storage has reported a loss of data. Storage reports a loss only once, and the loss may concern any
    /// piece.
    has_lost: Mutex<bool>,
}

/// How complete a divided file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DividedState {
    /// All pieces have arrived, and the marks were cut off.
    Whole,
    /// The file isn't complete: this number of pieces is missing.
    Lacks(u64),
    /// The file no longer has this temporary name: another transfer has renamed it to its real name, or it
    /// was removed.
    Gone,
}

impl DividedTarget {
    /// Opens the file for the pieces that will arrive; creates a missing file only if `make` is set.
    ///
    /// # Errors
    /// The errors of open(2); `ENOENT` if the file doesn't exist, `ESTALE` if another file has its name,
    /// `EBUSY` while it is being removed.
    pub fn open(parent: Arc<Directory>, divided: DividedFile, make: bool) -> Result<Self, Errno> {
        let name = name_of(&divided.key);
        for _ in 0..TRIES {
            let file = match reopen(&parent, &name, divided.size) {
                Err(Errno::NOENT) if make => create(&parent, &name)?,
                other => other?,
            };
            // 'linerate clean' removes no file that is locked.
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
                return Err(Errno::BUSY);
            }
            let stat = rustix::fs::fstat(&file)?;
            if stat.st_nlink == 0 {
                continue;
            }
            let (length, size) = (stat.st_size as u64, divided.size);
            let with_marks = size + divided.pieces() * MARK_BLOCK;
            match length {
                0 => rustix::fs::ftruncate(&file, with_marks)?,
                length if length == size || length == with_marks => {}
                _ => return Err(Errno::STALE),
            }
            return Ok(Self {
                parent,
                name,
                file,
                divided,
                came: Mutex::default(),
                has_lost: Mutex::default(),
            });
        }
        Err(Errno::BUSY)
    }

    /// The file as a temporary file that can be written and renamed.
    ///
    /// # Errors
    /// The errors of dup(2).
    pub fn temporary(&self) -> Result<Temporary, Errno> {
        let file = self.file.try_clone().map_err(|_| Errno::MFILE)?;
        Ok(Temporary::joint(self.parent.clone(), self.name, file))
    }

    /// The chunks that needn't be sent: all chunks except those in this transfer's pieces that have no mark.
    ///
    /// # Errors
    /// The errors of read(2).
    pub fn present(&self) -> Result<HashSet<u32>, Errno> {
        let is_whole = rustix::fs::fstat(&self.file)?.st_size as u64 == self.divided.size;
        if is_whole {
            return Ok(chunks_but_for(&self.divided, |_| false));
        }
        let own = own(&self.divided);
        let missing = own.map(|piece| Ok((piece, !self.has_mark(self.file.as_fd(), piece)?)));
        let missing: HashMap<u64, bool> = missing.collect::<Result<_, Errno>>()?;
        Ok(chunks_but_for(&self.divided, |piece| missing.get(&piece) == Some(&true)))
    }

    /// Records that bytes of a chunk have arrived. When a piece is complete, the piece is synced to stable
    /// storage and gets its mark.
    ///
    /// # Errors
    /// The errors of write(2) and fsync(2); `ESTALE` if the file no longer has room for marks.
    pub fn came(&self, offset: u64, length: u64) -> Result<(), Errno> {
        let DividedFile { piece, size, .. } = self.divided;
        let number = offset / piece;
        let due = piece.min(size - number * piece);
        let is_whole = {
            let mut came = lock(&self.came);
            let bytes = came.entry(number as u32).or_default();
            *bytes += length;
            *bytes >= due
        };
        if !is_whole {
            return Ok(());
        }
        let mut has_lost = lock(&self.has_lost);
        if *has_lost {
            return Err(Errno::IO);
        }
        self.mark(number).inspect_err(|_| *has_lost = true)
    }

    fn mark(&self, piece: u64) -> Result<(), Errno> {
        rustix::fs::fdatasync(&self.file)?;
        if rustix::fs::fstat(&self.file)?.st_size as u64 <= self.divided.size {
            return Err(Errno::STALE);
        }
        let written = rustix::io::pwrite(&self.file, &MARK, mark_at(&self.divided, piece))?;
        if written < MARK.len() {
            return Err(Errno::NOSPC);
        }
        rustix::fs::fdatasync(&self.file)
    }

    /// Cuts the marks off if every piece has its mark, no matter which transfer has written the piece.
    ///
    /// # Errors
    /// The errors of open(2), read(2) and fsync(2); `ESTALE` if another file has its name.
    pub fn seal(&self) -> Result<DividedState, Errno> {
        let now = match rustix::fs::statat(&self.parent, self.name.write(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(DividedState::Gone),
            other => other?,
        };
        let own = rustix::fs::fstat(&self.file)?;
        if identity(&now) != identity(&own) {
            return Err(Errno::STALE);
        }
        if own.st_size as u64 == self.divided.size {
            return Ok(DividedState::Whole);
        }
        // Data that other hosts have written becomes visible only after the file is opened again.
        let file = match reopen(&self.parent, &self.name, self.divided.size) {
            Err(Errno::NOENT) => return Ok(DividedState::Gone),
            other => other?,
        };
        let mut lacks = 0;
        for piece in 0..self.divided.pieces() {
            lacks += u64::from(!self.has_mark(file.as_fd(), piece)?);
        }
        if lacks > 0 {
            return Ok(DividedState::Lacks(lacks));
        }
        rustix::fs::ftruncate(&self.file, self.divided.size)?;
        rustix::fs::fsync(&self.file)?;
        Ok(DividedState::Whole)
    }

    /// True if this transfer writes pieces of the file; false if it only checks whether the file is complete.
    pub fn brings(&self) -> bool {
        self.divided.brings()
    }

    fn has_mark(&self, file: BorrowedFd<'_>, piece: u64) -> Result<bool, Errno> {
        let mut mark = [0; MARK.len()];
        let read = rustix::io::pread(file, &mut mark, mark_at(&self.divided, piece))?;
        Ok(read == MARK.len() && mark == MARK)
    }
}

/// For a file that doesn't exist yet: the chunks that needn't be sent by this transfer.
pub fn present_of_nothing(divided: &DividedFile) -> HashSet<u32> {
    let own = own(divided);
    chunks_but_for(divided, |piece| own.contains(&piece))
}

fn own(divided: &DividedFile) -> Range<u64> {
    let first = u64::from(divided.first);
    first..first + u64::from(divided.count)
}

fn chunks_but_for(divided: &DividedFile, is_missing: impl Fn(u64) -> bool) -> HashSet<u32> {
    let chunk = chunk_of(divided);
    let present = (0..chunks_of(divided)).filter(|number| !is_missing(number * chunk / divided.piece));
    present.filter_map(|number| u32::try_from(number).ok()).collect()
}

fn mark_at(divided: &DividedFile, piece: u64) -> u64 {
    divided.size + piece * MARK_BLOCK
}

/// The temporary name of a divided file. It is derived from the key by a one-way function, so a client can't
/// choose a key to get another transfer's file.
fn name_of(key: &[u8; 16]) -> Name {
    let hash = blake3::Hasher::new().update(b"divided file").update(key).finalize();
    let mut nonce = [0; 8];
    nonce.copy_from_slice(&hash.as_bytes()[..8]);
    Name::new(nonce, 0)
}

/// Opens the existing file if it is this user's own. A complete file may already have its final mode.
fn reopen(parent: &Directory, name: &Name, size: u64) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(parent, name.write(), flags, Mode::empty())?;
    let mut judged = rustix::fs::fstat(&file)?;
    if judged.st_size as u64 == size {
        judged.st_mode &= !0o022;
    }
    if is_own(&judged) { Ok(file) } else { Err(Errno::STALE) }
}

/// Creates the file, and syncs its name to stable storage before any mark is written.
fn create(parent: &Directory, name: &Name) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name.write(), flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::EXIST) => open_own(parent, &name.write()),
        Err(error) => Err(error),
        Ok(file) => {
            rustix::fs::fsync(parent.for_sync()?)?;
            Ok(file)
        }
    }
}

#[cfg(test)]
mod tests;
