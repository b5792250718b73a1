//! What the scanner finds and the sink makes again.

use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// One thing in a tree, without its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Which of the sources it belongs to, in the order of [`crate::control::Message::Sources`].
    pub source: u32,
    /// Where it is below that source; empty for the source itself.
    pub path: RelPath,
    /// What it is.
    pub kind: Kind,
    /// Permission bits (`st_mode & 0o7777`).
    pub mode: u32,
    /// When it was last modified.
    pub mtime: Timestamp,
    /// When it was last read.
    pub atime: Timestamp,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file of so many bytes.
    File {
        /// Its size when it was scanned.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link and what it says.
    Symlink {
        /// The link's text, any bytes but zero.
        target: Vec<u8>,
    },
}

/// A point in time as the file system keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// A part of a large file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The file; its kind is [`Kind::File`].
    pub entry: Entry,
    /// Distinguishes the file from all others of the transfer.
    pub file: u64,
    /// Where the part begins in the file, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub length: u64,
    /// Parts of the whole file; at least one.
    pub parts: u32,
}

impl Chunk {
    /// True where the part lies inside the size that the entry states.
    pub fn is_consistent(&self) -> bool {
        let Kind::File { size } = self.entry.kind else { return false };
        let inside = self.offset.checked_add(self.length).is_some_and(|end| end <= size);
        inside && self.parts > 0 && (self.parts > 1 || (self.offset == 0 && self.length == size))
    }
}
