//! Changes that the receiver makes, for the user's output.

use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// The most elements of one [`super::Message::Changes`].
pub const MAX_CHANGES: usize = 1024;

/// The change of one entry at the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The change, as rsync's `--itemize-changes` writes it.
    pub item: [u8; 11],
    /// The entry's path below its source.
    pub path: RelPath,
    /// The entry is, or was, a directory.
    pub directory: bool,
    /// The target that is printed after the name.
    pub link: Option<Link>,
    /// Properties of the sender's entry, if [`Sync::facts`](super::Sync::facts) requests them.
    pub facts: Option<EntryFacts>,
}

/// Properties of an entry that are printed with its change if the user asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryFacts {
    /// Bytes of a file or of a symbolic link's text; 0 for other entries.
    pub size: u64,
    /// The modification time in seconds since 1970.
    pub mtime: i64,
    /// Permission bits.
    pub mode: u32,
    /// User and group number, if owners are kept.
    pub owner: Option<(u32, u32)>,
}

impl Change {
    /// The item of an entry that is deleted. Its path is the entry's.
    pub const DELETED: [u8; 11] = *b"*deleting  ";
    /// The item of the destination itself, if it is created for the sources and [`Sync::into`](super::Sync::into) is set;
    /// its path is empty.
    pub const MADE: [u8; 11] = *b"*creating  ";
    /// The item of an entry that is skipped because the existing entry is newer. Items of skipped entries are sent if
    /// [`Sync::unchanged`](super::Sync::unchanged) is set.
    pub const NEWER: [u8; 11] = *b"*newer     ";
    /// The item of an entry that is skipped because an entry exists.
    pub const EXISTS: [u8; 11] = *b"*exists    ";
    /// The item of an entry that is skipped because no entry exists.
    pub const MISSING: [u8; 11] = *b"*missing   ";
    /// The item of a file that is skipped because it has too many bytes.
    pub const OVER: [u8; 11] = *b"*over      ";
    /// The item of a file that is skipped because it has too few bytes.
    pub const UNDER: [u8; 11] = *b"*under     ";
}

/// The target of a changed link, in addition to its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// A symbolic link's text.
    Target(Vec<u8>),
    /// The path below its source of the entry to which it is a hard link.
    SameAs(RelPath),
}
