//! Recognizes directories that are sources. A source may be below the destination, if both ends are the same host or
//! see the same file system.

use linerate_wire::entry::Origin;
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};

use crate::tree::stamp::ctime;

/// Recognizes sources by their inode numbers and change times, which the file system assigns.
pub struct Sources {
    /// The identities of the sources, as the sender has found them.
    offered: Vec<Origin>,
    /// The device and inode numbers of sources that this end recognized before any entry landed in them.
    found: Vec<(u64, u64)>,
    /// The time when this transfer began, in seconds since 1970. A directory that has changed since then may
    /// be a source although its change time differs.
    begun: i64,
}

impl Sources {
    /// An empty list, for a transfer that begins now.
    pub fn now() -> Self {
        // File systems' clocks may be slightly late, so a second is subtracted.
        Self { offered: Vec::new(), found: Vec::new(), begun: clock_gettime(ClockId::Realtime).tv_sec - 1 }
    }

    /// Adds a directory that the sender offers as a source.
    pub fn offer(&mut self, source: Origin) {
        self.offered.push(source);
    }

    /// Records a directory in which entries may land, if it is a source. Must be called before any entry
    /// lands there.
    pub fn notice(&mut self, there: &Stat) {
        if self.are_offered(there) {
            self.found.push((there.st_dev, there.st_ino));
        }
    }

    /// True for a directory that was recognized as a source, even if entries have landed in it since then.
    pub fn are_found(&self, stat: &Stat) -> bool {
        self.found.contains(&(stat.st_dev, stat.st_ino)) || self.are_offered(stat)
    }

    /// True for a directory that may be a source and so must not be emptied.
    pub fn have(&self, stat: &Stat) -> bool {
        let is_changed = stat.st_ctime >= self.begun;
        let may_be = |source: &Origin| source.inode == stat.st_ino && is_changed;
        self.are_found(stat) || self.offered.iter().any(may_be)
    }

    fn are_offered(&self, stat: &Stat) -> bool {
        self.offered.contains(&Origin { inode: stat.st_ino, ctime: ctime(stat) })
    }
}
