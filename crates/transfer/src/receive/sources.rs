//! The directories that are sources. One of them may be below the destination: both ends may be the same host, or see the same
//! file system.

use linerate_wire::entry::Origin;
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};

use crate::tree::stamp::ctime;

/// Recognises sources by the numbers and times that their file systems gave them.
pub struct Sources {
    /// As the sender found them.
    offered: Vec<Origin>,
    /// Those that were found here, before anything landed in them, by their numbers of device and inode.
    found: Vec<(u64, u64)>,
    /// Seconds since 1970 when this transfer began: what has changed since then may be a source with another time.
    begun: i64,
}

impl Sources {
    /// None yet, for a transfer that begins now.
    pub fn now() -> Self {
        // File systems' clocks lag a little.
        Self { offered: Vec::new(), found: Vec::new(), begun: clock_gettime(ClockId::Realtime).tv_sec - 1 }
    }

    /// Adds a directory that the sender offers as a source.
    pub fn offer(&mut self, source: Origin) {
        self.offered.push(source);
    }

    /// Notes a directory in which the sender's entries may land, if it is a source.
    pub fn notice(&mut self, there: &Stat) {
        if self.are_offered(there) {
            self.found.push((there.st_dev, there.st_ino));
        }
    }

    /// True for a source in which entries may have landed.
    pub fn are_found(&self, stat: &Stat) -> bool {
        self.found.contains(&(stat.st_dev, stat.st_ino)) || self.are_offered(stat)
    }

    /// True for a directory that is about to be emptied, and may be a source.
    pub fn have(&self, stat: &Stat) -> bool {
        let is_changed = stat.st_ctime >= self.begun;
        let may_be = |source: &Origin| source.inode == stat.st_ino && is_changed;
        self.are_found(stat) || self.offered.iter().any(may_be)
    }

    fn are_offered(&self, stat: &Stat) -> bool {
        self.offered.contains(&Origin { inode: stat.st_ino, ctime: ctime(stat) })
    }
}
