//! What is at the destination already, opened as what it was seen to be.

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::root::Directory;

/// Opens the regular file that was seen as `seen`, for reading.
///
/// # Errors
/// What open(2) returns; `ESTALE` where something else has the name now.
pub fn open_existing(parent: &Directory, name: &OsStr, seen: &Stat) -> Result<OwnedFd, Errno> {
    open_as_seen(parent, name, seen, OFlags::RDONLY | OFlags::NONBLOCK)
}

/// Sets the mode of what was seen as `seen`, without following a link that takes its place.
///
/// # Errors
/// What open(2) and chmod(2) return; `ESTALE` where something else has the name now.
pub fn repair_mode(parent: &Directory, name: &OsStr, seen: &Stat, mode: Mode) -> Result<(), Errno> {
    // It may not let its owner read.
    set_mode(&open_as_seen(parent, name, seen, OFlags::PATH)?, mode)
}

/// Sets the mode of what is held by a mere path.
///
/// # Errors
/// What chmod(2) returns.
pub fn set_mode(held: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    rustix::fs::chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), mode)
}

fn open_as_seen(parent: &Directory, name: &OsStr, seen: &Stat, flags: OFlags) -> Result<OwnedFd, Errno> {
    let fd = rustix::fs::openat(parent, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let now = rustix::fs::fstat(&fd)?;
    let same = (now.st_dev, now.st_ino) == (seen.st_dev, seen.st_ino)
        && FileType::from_raw_mode(now.st_mode) == FileType::from_raw_mode(seen.st_mode);
    if same { Ok(fd) } else { Err(Errno::STALE) }
}
