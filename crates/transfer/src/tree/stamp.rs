//! Reads a file's times from its stat.

use linerate_wire::entry::Timestamp;
use rustix::fs::Stat;

/// The access time of the file.
pub fn atime(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_atime, nanoseconds: stat.st_atime_nsec as u32 }
}

/// The modification time of the file's contents.
pub fn mtime(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 }
}

/// The change time of the file's inode, which no process can set.
pub fn ctime(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_ctime, nanoseconds: stat.st_ctime_nsec as u32 }
}
