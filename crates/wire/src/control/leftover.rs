//! The leftovers of abandoned transfers.

use serde::{Deserialize, Serialize};

/// An entry that a transfer left under a temporary name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The entry's path, as a user at that end would write it, as raw bytes.
    pub path: Vec<u8>,
    /// The entry's size in bytes.
    pub size: u64,
    /// The kind of leftover.
    pub kind: LeftoverKind,
}

/// The kinds of leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftoverKind {
    /// A journal. If the command that wrote the journal is run again, it resumes with it.
    Journal,
    /// A file that is incomplete, or that hasn't got its final name yet.
    Partial,
    /// A link, directory or special file that hasn't got its final name yet.
    Other,
}
