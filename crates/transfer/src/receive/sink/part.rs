//! The part of a large file to which the current data frames belong.

use linerate_wire::entry::Origin;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::assembly::Assembly;
use super::moved::Brought;
use super::progress::Progress;
use super::room::RoomUser;
use crate::receive::admission::Admitted;
use crate::tree::copying::write_all;
use crate::tree::temporary::Temporary;

/// The part of a large file to which the current data frames belong.
pub(super) struct Part {
    pub(super) target: Target,
    pub(super) number: u64,
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) length: u64,
    /// True if the file has its final size already.
    pub(super) sized: bool,
    /// The digest of the part's pieces of an older version, to compare with the sender's digest, which
    /// follows.
    pub(super) brought: Option<Brought>,
    /// True if the part contains a piece of the older version that isn't a whole block.
    pub(super) has_edges: bool,
    /// How much of the part is recorded in the journal.
    pub(super) progress: Progress,
    /// The part, as a user of the free space at the destination; `None` once the part is dropped.
    pub(super) under_way: Option<RoomUser>,
}

pub(super) enum Target {
    /// This part is the whole file.
    Whole(Temporary, Admitted<'static>, Origin),
    /// The file already exists and stays unchanged; only its digest is sent.
    Standing(Temporary, Admitted<'static>),
    /// This part is one of several parts of the file.
    Shared(Arc<Assembly>),
    /// The file has failed; the bytes of this part are discarded.
    Dropped,
}

impl Part {
    /// True if all bytes of the part have arrived.
    pub(super) fn is_whole(&self) -> bool {
        self.left() == 0
    }

    /// The number of bytes of the part that haven't arrived yet.
    pub(super) fn left(&self) -> u64 {
        self.end - self.at
    }

    /// The number of bytes that are sure to follow. 0 if the next frame may state that the bytes are already
    /// here.
    pub(super) fn expects(&self) -> u64 {
        match &self.target {
            Target::Shared(assembly) if assembly.may_be_here() && self.is_untouched() => 0,
            Target::Shared(assembly) if assembly.has_blocks() => 0,
            Target::Standing(..) => 0,
            _ => self.left(),
        }
    }

    pub(super) fn is_untouched(&self) -> bool {
        self.left() == self.length
    }

    /// Sets the file's size. This is necessary for a file that ends in a hole.
    pub(super) fn size(&mut self) -> Result<(), Errno> {
        if let (Target::Whole(temporary, ..), false) = (&self.target, self.sized) {
            // If the part is appended to a file, the file's size must be the number of bytes that the file has so far,
            // because another run may continue after these bytes.
            let appends = self.length < self.end;
            rustix::fs::ftruncate(temporary.fd()?, if appends { self.at } else { self.end })?;
            self.sized = !appends;
        }
        Ok(())
    }

    /// Called before bytes of the part are written at `start`. If these are the part's first bytes and the file is
    /// changed in place, clears the old contents in the range of the part. So if the part ends early, each block of old
    /// contents is either complete or zeros.
    pub(super) fn forget(&self, start: u64) -> Result<(), Errno> {
        let Target::Shared(assembly) = &self.target else { return Ok(()) };
        if !assembly.in_place || start + self.length != self.end {
            return Ok(());
        }
        match rustix::fs::fallocate(&assembly.file, FallocateFlags::ZERO_RANGE, start, self.length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.empty(start, self.length),
            other => other,
        }
    }

    /// Removes old contents where the new version has a hole.
    pub(super) fn empty(&self, start: u64, length: u64) -> Result<(), Errno> {
        let Target::Shared(assembly) = &self.target else { return Ok(()) };
        if !assembly.has_old_bytes {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&assembly.file, flags, start, length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(assembly.file.as_fd(), start, length),
            other => other,
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.target {
            Target::Whole(temporary, ..) => temporary.fd().ok(),
            Target::Shared(assembly) if assembly.failed.load(Ordering::Relaxed) => None,
            Target::Shared(assembly) => Some(assembly.file.as_fd()),
            Target::Standing(..) | Target::Dropped => None,
        }
    }
}

fn write_zeros(fd: BorrowedFd<'_>, mut at: u64, length: u64) -> Result<(), Errno> {
    let (zeros, end) = ([0; 64 << 10], at + length);
    while at < end {
        let piece = usize::try_from(end - at).unwrap_or(zeros.len()).min(zeros.len());
        write_all(fd, &mut [IoSlice::new(&zeros[..piece])], at)?;
        at += piece as u64;
    }
    Ok(())
}
