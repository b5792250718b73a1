//! Opens an existing file, and checks that it is still the file of an earlier stat.

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use crate::tree::identity::identity;

/// Opens for reading the regular file whose earlier stat was `seen`.
///
/// # Errors
/// The errors of open(2); `ESTALE` if another entry has the name now.
pub fn open_existing(parent: impl AsFd, name: &OsStr, seen: &Stat) -> Result<OwnedFd, Errno> {
    open_as_seen(parent, name, seen, OFlags::RDONLY | OFlags::NONBLOCK)
}

/// Opens the entry whose earlier stat was `seen`, with `O_PATH`. This works even if the entry's mode doesn't let the
/// owner read the entry.
///
/// # Errors
/// The errors of [`open_existing`].
pub fn hold_existing(parent: impl AsFd, name: &OsStr, seen: &Stat) -> Result<OwnedFd, Errno> {
    open_as_seen(parent, name, seen, OFlags::PATH)
}

fn open_as_seen(parent: impl AsFd, name: &OsStr, seen: &Stat, flags: OFlags) -> Result<OwnedFd, Errno> {
    let fd = rustix::fs::openat(parent, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let now = rustix::fs::fstat(&fd)?;
    let kind = FileType::from_raw_mode(now.st_mode);
    // The type may differ if the entry is a regular file now: the file may stand for an entry of another kind
    // (`--fake-super`).
    let same = identity(&now) == identity(seen)
        && (kind == FileType::from_raw_mode(seen.st_mode) || kind == FileType::RegularFile);
    if same { Ok(fd) } else { Err(Errno::STALE) }
}
