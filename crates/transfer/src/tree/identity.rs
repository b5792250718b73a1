//! The identity of a file: the numbers that are the same by whatever path the file was reached.

use rustix::fs::Stat;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// A device number and an inode number.
pub type Identity = (u64, u64);

/// The identity of an entry with this stat.
pub fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// The identity of an open file.
///
/// # Errors
/// The errors of fstat(2).
pub fn identity_of(file: impl AsFd) -> Result<Identity, Errno> {
    rustix::fs::fstat(file).map(|stat| identity(&stat))
}
