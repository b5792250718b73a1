//! A file's times from stat(2).

use linerate_wire::entry::Timestamp;
use rustix::fs::Stat;

/// When it was last read.
pub fn atime(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_atime, nanoseconds: stat.st_atime_nsec as u32 }
}

/// When its contents were last modified.
pub fn mtime(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 }
}

/// When its inode last changed, which nobody can set.
pub fn ctime(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_ctime, nanoseconds: stat.st_ctime_nsec as u32 }
}
