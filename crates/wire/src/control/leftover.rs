//! Leftovers: the entries that abandoned transfers have left behind.

use serde::{Deserialize, Serialize};

/// An entry that an abandoned transfer has left behind: a journal, or an entry with a temporary name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The entry's path, as a user on the agent's host would write it, as raw bytes.
    pub path: Vec<u8>,
    /// The entry's size in bytes.
    pub size: u64,
    /// The kind of leftover.
    pub kind: LeftoverKind,
}

/// The kinds of leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftoverKind {
    /// A journal. If the command that wrote the journal is run again, it uses the journal to resume.
    Journal,
    /// A file that is incomplete, or that hasn't got its final name yet.
    Partial,
    /// A link, directory or special file that hasn't got its final name yet.
    Other,
}
