//! Changes that the receiver makes, as they are printed for the user.

use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// The most elements of one [`super::Message::Changes`].
pub const MAX_CHANGES: usize = 1024;

/// The change of one entry at the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The change in the form of rsync's `--itemize-changes`.
    pub item: [u8; 11],
    /// The entry's path below its source.
    pub path: RelPath,
    /// True if the entry is, or was, a directory.
    pub directory: bool,
    /// The target of the link that is printed after the path, if the entry is a link.
    pub link: Option<Link>,
    /// Properties of the sender's entry, if [`Sync::facts`](super::Sync::facts) requests them.
    pub facts: Option<EntryFacts>,
}

/// Properties of an entry that are printed with its change if the user requests them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryFacts {
    /// The bytes of a file or of a symbolic link's text; 0 for other entries.
    pub size: u64,
    /// The modification time in seconds since 1970.
    pub mtime: i64,
    /// The permission bits.
    pub mode: u32,
    /// The numbers of the user and the group, if owners are kept.
    pub owner: Option<(u32, u32)>,
}

impl Change {
    /// The item for an entry that is deleted; `path` is its path.
    pub const DELETED: [u8; 11] = *b"*deleting  ";
    /// The item for the destination directory itself, if the receiver creates it; `path` is empty. It is only sent if
    /// [`Sync::into`](super::Sync::into) is set.
    pub const MADE: [u8; 11] = *b"*creating  ";
    /// The item for a file that is skipped because the existing file is newer. Items for skipped entries are only sent
    /// if [`Sync::unchanged`](super::Sync::unchanged) is set.
    pub const NEWER: [u8; 11] = *b"*newer     ";
    /// The item for an entry that is skipped because it exists at the receiver.
    pub const EXISTS: [u8; 11] = *b"*exists    ";
    /// The item for an entry that is skipped because it doesn't exist at the receiver.
    pub const MISSING: [u8; 11] = *b"*missing   ";
    /// The item for a file that is skipped because it is larger than the user's limit.
    pub const OVER: [u8; 11] = *b"*over      ";
    /// The item for a file that is skipped because it is smaller than the user's limit.
    pub const UNDER: [u8; 11] = *b"*under     ";
}

/// The target of a symbolic or hard link whose change is printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// The text of a symbolic link.
    Target(Vec<u8>),
    /// The first name of the file of a hard link, as its path below its source.
    SameAs(RelPath),
}
