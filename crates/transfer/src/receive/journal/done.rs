//! Files that have got their real names, stored in 28 bytes of memory each.

use linerate_wire::entry::Timestamp;
use linerate_wire::path::RelPath;
use std::hash::{BuildHasher, RandomState};

use super::record::{Done, Mark};

/// The most files that are remembered.
const MAX_DONE: usize = 2_000_000;

/// Files that have got their real names, according to the journal.
#[derive(Default)]
pub struct DoneFiles {
    /// Hashes places with a random key, so nobody outside this process can choose two places with the same hash.
    hashes: RandomState,
    files: Vec<DoneFile>,
    /// The file system's times that were recorded after files, in the order of the records.
    stamps: Vec<Timestamp>,
    /// The number of files for which such a time has been recorded.
    stamped: usize,
}

/// A file in [`DoneFiles`]. The file's mark depends on its size, so the size isn't stored.
struct DoneFile {
    place: [u8; 8],
    mark: Mark,
    inode: [u8; 8],
    /// The index of the time that was recorded after the file.
    stamp: u32,
}

/// A file that has got its real name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The file's inode number.
    pub inode: u64,
    /// The file system's time that was recorded after the file got its name. If the file's ctime is later than this
    /// time, the file has changed since then.
    pub at: Timestamp,
}

impl DoneFiles {
    /// Adds a file. The file can be found only after the next stamp has been added.
    pub fn add(&mut self, done: &Done) {
        if self.files.len() < MAX_DONE {
            let (place, inode) = (self.hash(&done.place), done.inode.to_ne_bytes());
            self.files.push(DoneFile { place, mark: done.mark, inode, stamp: self.stamps.len() as u32 });
        }
    }

    /// Records the file system's time for the files that were added since the last stamp.
    pub fn stamp(&mut self, at: Timestamp) {
        if self.stamped < self.files.len() {
            self.stamps.push(at);
            self.stamped = self.files.len();
        }
    }

    /// Removes the files without a stamp, because later changes of these files couldn't be detected.
    pub fn forget_unstamped(&mut self) {
        self.files.truncate(self.stamped);
    }

    /// Sorts the files by their hashes. Must be called before [`Self::find`].
    pub fn sort(&mut self) {
        self.forget_unstamped();
        self.files.sort_unstable_by_key(|file| (file.place, file.stamp));
    }

    /// The last file that was created at `place` from an entry with this mark. If two hashes collide, which
    /// is very rare, the returned file may belong to another place; the caller notices this by the inode
    /// number.
    pub fn find(&self, place: &RelPath, mark: Mark) -> Option<Landed> {
        let place = self.hash(place);
        let end = self.files.partition_point(|file| file.place <= place);
        let there = self.files[..end].iter().rev().take_while(|file| file.place == place);
        let found = there.into_iter().find(|file| file.mark == mark)?;
        Some(Landed { inode: u64::from_ne_bytes(found.inode), at: *self.stamps.get(found.stamp as usize)? })
    }

    fn hash(&self, place: &RelPath) -> [u8; 8] {
        self.hashes.hash_one(place.as_bytes()).to_ne_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{done, path};
    use super::*;

    #[test]
    fn of_two_files_at_a_place_the_later_one_is_found() {
        let mut files = DoneFiles::default();
        let at = |seconds| Timestamp { seconds, nanoseconds: 0 };
        for round in 1..4 {
            files.add(&Done { inode: round, ..done("a") });
            files.add(&Done { mark: [round as u8; 8], ..done("b") });
            files.stamp(at(round as i64));
        }
        files.add(&done("c"));
        files.sort();
        assert_eq!(files.find(&path("a"), [1; 8]), Some(Landed { inode: 3, at: at(3) }));
        assert_eq!(files.find(&path("b"), [2; 8]), Some(Landed { inode: 4, at: at(2) }));
        assert_eq!((files.find(&path("c"), [1; 8]), files.find(&path("a"), [2; 8])), (None, None));
        assert_eq!((files.files.len(), size_of::<DoneFile>()), (6, 28));
    }
}
