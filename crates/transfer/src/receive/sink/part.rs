//! The part of a large file that the data frames are bringing.

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
use crate::receive::admission::Admitted;
use crate::tree::copying::write_all;
use crate::tree::temporary::Temporary;

/// The part of a large file that the data frames are bringing.
pub(super) struct Part {
    pub(super) target: Target,
    pub(super) number: u64,
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) length: u64,
    /// The file has its size.
    pub(super) sized: bool,
    /// Pieces of an older version that are in it: their digest comes.
    pub(super) brought: Option<Brought>,
    /// One of the pieces of the older version is a piece of a block.
    pub(super) has_edges: bool,
    /// How far the part is written down in the journal.
    pub(super) progress: Progress,
}

pub(super) enum Target {
    /// The part is the whole file.
    Whole(Temporary, Admitted<'static>, Origin),
    /// The file is there already and stays: only its digest comes.
    Standing(Temporary, Admitted<'static>),
    /// The part is one of many.
    Shared(Arc<Assembly>),
    /// The file failed; its bytes are dropped.
    Dropped,
}

impl Part {
    /// True where all bytes of the part have come.
    pub(super) fn is_whole(&self) -> bool {
        self.left() == 0
    }

    /// Bytes that still come, unless the sender gives the file up.
    pub(super) fn left(&self) -> u64 {
        self.end - self.at
    }

    /// Bytes that are sure to follow: none where a frame may say that they are here.
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

    /// Gives the file its size, which a hole at its end wouldn't.
    pub(super) fn size(&mut self) -> Result<(), Errno> {
        if let (Target::Whole(temporary, ..), false) = (&self.target, self.sized) {
            // A file of which this part is not the whole rest has no more bytes than have come: another run goes on behind
            // them.
            let appends = self.length < self.end;
            rustix::fs::ftruncate(temporary.fd()?, if appends { self.at } else { self.end })?;
            self.sized = !appends;
        }
        Ok(())
    }

    /// Before the first bytes of a part come, at `start`, what the file that is written into has there goes: whatever ends the
    /// part early, nothing is left of a block but whole, or zeros.
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

    /// Contents of an older version go where the new one has a hole.
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
