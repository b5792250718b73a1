//! What abandoned transfers leave.

use serde::{Deserialize, Serialize};

/// Something that a transfer left under a temporary name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Its path as that end's user would write it, raw bytes.
    pub path: Vec<u8>,
    /// Its size in bytes.
    pub size: u64,
    /// Its kind.
    pub kind: LeftoverKind,
}

/// The kinds of leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftoverKind {
    /// A journal: the command that wrote it goes on from there when it is run again.
    Journal,
    /// A file that isn't whole, or hasn't got its name yet.
    Partial,
    /// A link, directory or special file that hasn't got its name yet.
    Other,
}
