//! The leftovers of abandoned transfers.

use serde::{Deserialize, Serialize};

/// Something that a transfer left under a temporary name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Its path, as a user of that end would write it, in raw bytes.
    pub path: Vec<u8>,
    /// Its size in bytes.
    pub size: u64,
    /// Its kind.
    pub kind: LeftoverKind,
}

/// The kinds of leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftoverKind {
    /// A journal. If the command that wrote it is run again, it resumes from there.
    Journal,
    /// A file that is incomplete, or doesn't have its final name yet.
    Partial,
    /// A link, directory or special file that doesn't have its final name yet.
    Other,
}
