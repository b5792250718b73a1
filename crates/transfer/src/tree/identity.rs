//! The numbers that identify an entry by whatever path it was reached.

use rustix::fs::Stat;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Device and inode numbers.
pub type Identity = (u64, u64);

/// The identity of an entry with this stat.
pub fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// The identity of an open file.
///
/// # Errors
/// Those of fstat(2).
pub fn identity_of(file: impl AsFd) -> Result<Identity, Errno> {
    rustix::fs::fstat(file).map(|stat| identity(&stat))
}
