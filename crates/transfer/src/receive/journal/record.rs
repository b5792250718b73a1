//! The records of a journal.

use linerate_wire::entry::{Origin, Timestamp};
use linerate_wire::path::RelPath;
use serde::{Deserialize, Serialize};

use crate::tree::temporary::Name;

/// The most bytes of a record.
pub const MAX_RECORD: usize = 256 << 10;
/// The most bytes of a journal, so that reading a journal takes bounded time. Records beyond this limit aren't written.
pub const MAX_JOURNAL: u64 = 128 << 20;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A run begins. The following records, up to the next `Begin`, belong to this run.
    Begin(Begin),
    /// A file has got its real name. The record counts only if a [`Record::Stamp`] follows.
    Done(Done),
    /// The file system's time, read when all earlier records were already true.
    Stamp(Timestamp),
    /// A large file has got a temporary name.
    Partial(Partial),
    /// A chunk of a large file was passed to the kernel, but may not be on stable storage.
    Chunk {
        /// The file's number, [`Partial::index`].
        partial: u32,
        /// The chunk's number, from 0.
        number: u32,
    },
    /// Chunks of a large file are on stable storage.
    Stable {
        /// The file's number, [`Partial::index`].
        partial: u32,
        /// A bit for each chunk. The first chunk has the lowest bit of the first byte.
        chunks: Vec<u8>,
    },
    /// The storage has reported a loss of data, so earlier [`Record::Chunk`] records no longer count.
    Distrust,
    /// A directory was created with a temporary mode that gives its owner access. The directory gets its own mode when
    /// everything is in place.
    Made {
        /// The directory's place below the landing's root.
        place: RelPath,
    },
    /// An existing directory's owner was given write access, until everything is in place.
    Opened {
        /// The directory's place below the landing's root.
        place: RelPath,
        /// The directory's mode before this change.
        mode: u32,
    },
}

/// The beginning of one run of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The epoch in which the run takes place.
    pub epoch: Epoch,
    /// The nonce in the run's temporary names.
    pub nonce: [u8; 8],
}

/// Identifies a boot of the kernel and a mount of the destination. As long as both are the same, data that
/// was passed to the kernel can be read back even if it isn't on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// The kernel's boot ID.
    pub boot: [u8; 16],
    /// The destination's mount ID.
    pub mount: u64,
}

impl Epoch {
    /// False if the kernel or the mount couldn't be identified.
    pub fn is_known(&self) -> bool {
        self.boot != [0; 16]
    }
}

/// A file that has got its real name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The file's place below the landing's root.
    pub place: RelPath,
    /// The mark of the entry that was created: [`mark_of`] if it arrived in chunks, else [`mark`].
    pub mark: Mark,
    /// The file's inode number.
    pub inode: u64,
    /// The file's size in bytes.
    pub size: u64,
}

/// A large file under its temporary name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// The file's number in this journal.
    pub index: u32,
    /// The place below the landing's root that the file will get.
    pub place: RelPath,
    /// The file's temporary name, in the directory of its future place.
    pub name: Name,
    /// The mark of the entry that will be created: [`mark`].
    pub mark: Mark,
    /// The identity of the source file.
    pub origin: Origin,
    /// The temporary file's inode number.
    pub inode: u64,
    /// The file's size in bytes.
    pub size: u64,
    /// The size of a chunk in bytes; the last chunk may be shorter.
    pub chunk: u64,
}

/// A short hash of an entry.
pub type Mark = [u8; 8];

impl Partial {
    /// The number of chunks of the whole file; `None` if the numbers are inconsistent.
    pub fn chunks(&self) -> Option<u32> {
        chunks(self.size, self.chunk)
    }
}

/// The number of chunks of a file; `None` if a journal can't hold that many.
pub fn chunks(size: u64, chunk: u64) -> Option<u32> {
    let chunks = (chunk > 0).then(|| size.div_ceil(chunk))?;
    (chunks / 8 < MAX_RECORD as u64 / 2).then(|| u32::try_from(chunks).ok()).flatten()
}

/// The mark of an entry: a hash of all its properties except its source, its path and its access time.
pub fn mark(entry: &linerate_wire::entry::Entry) -> Mark {
    let said = (&entry.kind, entry.mode, entry.mtime, &entry.extra);
    let hash = blake3::hash(&postcard::to_stdvec(&said).unwrap_or_default());
    let mut mark = Mark::default();
    mark.copy_from_slice(&hash.as_bytes()[..size_of::<Mark>()]);
    mark
}

/// The mark of an entry whose source file is `origin`: another source file of equal size and time has another mark.
pub fn mark_of(entry: &linerate_wire::entry::Entry, origin: Origin) -> Mark {
    let hash = blake3::hash(&postcard::to_stdvec(&(mark(entry), origin)).unwrap_or_default());
    let mut mark = Mark::default();
    mark.copy_from_slice(&hash.as_bytes()[..size_of::<Mark>()]);
    mark
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const NONCE: [u8; 8] = [1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];

    pub fn path(text: &str) -> RelPath {
        RelPath::new(text.as_bytes()).unwrap()
    }

    pub fn begin(epoch: Epoch) -> Record {
        Record::Begin(Begin { epoch, nonce: NONCE })
    }

    pub fn partial(index: u32) -> Partial {
        Partial {
            index,
            place: path("tree/large"),
            name: Name::new(NONCE, 0),
            mark: [7; 8],
            origin: Origin { inode: 3, ctime: Timestamp { seconds: 1, nanoseconds: 2 } },
            inode: 9,
            size: 100,
            chunk: 32,
        }
    }

    pub fn done(place: &str) -> Done {
        Done { place: path(place), mark: [1; 8], inode: 4, size: 5 }
    }
}
