//! The records of a journal.

use linerate_wire::entry::{Origin, Timestamp};
use linerate_wire::path::RelPath;
use serde::{Deserialize, Serialize};

use crate::tree::temporary::Name;

/// Bytes of a record at most.
pub const MAX_RECORD: usize = 256 << 10;
/// Bytes of a journal at most, so that reading it takes bounded time; what comes later isn't written down.
pub const MAX_JOURNAL: u64 = 128 << 20;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A run begins; what follows is its, up to the next.
    Begin(Begin),
    /// A file has its real name. It counts from the next [`Record::Stamp`] on.
    Done(Done),
    /// The file system's time at which all earlier records were true.
    Stamp(Timestamp),
    /// A large file has a temporary name.
    Partial(Partial),
    /// A chunk of a large file was handed to the kernel.
    Chunk {
        /// [`Partial::index`].
        partial: u32,
        /// Which one, from 0.
        number: u32,
    },
    /// These chunks of a large file are on stable storage.
    Stable {
        /// [`Partial::index`].
        partial: u32,
        /// A bit for each chunk, the first one in the lowest bit of the first byte.
        chunks: Vec<u8>,
    },
    /// The storage has reported a loss: no [`Record::Chunk`] before this is true any more.
    Distrust,
    /// A directory is made here, with a mode that its owner needs; it gets its own when everything is in place.
    Made {
        /// Where it is below the landing's root.
        place: RelPath,
    },
    /// A directory that was there lets its owner write until everything is in place.
    Opened {
        /// Where it is below the landing's root.
        place: RelPath,
        /// The mode that it had.
        mode: u32,
    },
}

/// A run of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// In which life of the host, and in which of the file system's mounts.
    pub epoch: Epoch,
    /// The nonce in its temporary names.
    pub nonce: [u8; 8],
}

/// Identifies a boot of the kernel and a mount of the destination: as long as it is the same, what was handed to the kernel
/// is what a read returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// The kernel's boot id.
    pub boot: [u8; 16],
    /// The number of the destination's mount.
    pub mount: u64,
}

impl Epoch {
    /// False if the kernel or the mount couldn't be identified.
    pub fn is_known(&self) -> bool {
        self.boot != [0; 16]
    }
}

/// A file under its real name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Where it is below the landing's root.
    pub place: RelPath,
    /// The mark of the entry that was to be made: [`mark_of`] where it came in chunks, else [`mark`].
    pub mark: Mark,
    /// Its inode's number.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// A large file under its temporary name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// Its number in this journal.
    pub index: u32,
    /// Where it will be below the landing's root.
    pub place: RelPath,
    /// Its temporary name in the same directory.
    pub name: Name,
    /// The mark of the entry that is to be made: [`mark`].
    pub mark: Mark,
    /// Which file at the source it is.
    pub origin: Origin,
    /// The temporary file's inode number.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Bytes of a chunk; the last one may be shorter.
    pub chunk: u64,
}

/// Stands for all that an entry says.
pub type Mark = [u8; 8];

impl Partial {
    /// Chunks of the whole file; none where the numbers make no sense.
    pub fn chunks(&self) -> Option<u32> {
        chunks(self.size, self.chunk)
    }
}

/// How many chunks a file has; none where a journal can't hold that many.
pub fn chunks(size: u64, chunk: u64) -> Option<u32> {
    let chunks = (chunk > 0).then(|| size.div_ceil(chunk))?;
    (chunks / 8 < MAX_RECORD as u64 / 2).then(|| u32::try_from(chunks).ok()).flatten()
}

/// The mark of an entry: everything that it says but where it comes from and when it was read.
pub fn mark(entry: &linerate_wire::entry::Entry) -> Mark {
    let said = (&entry.kind, entry.mode, entry.mtime, &entry.extra);
    let hash = blake3::hash(&postcard::to_stdvec(&said).unwrap_or_default());
    let mut mark = Mark::default();
    mark.copy_from_slice(&hash.as_bytes()[..size_of::<Mark>()]);
    mark
}

/// The mark of an entry that is this very file at the source: another one of the same size and time has another.
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
