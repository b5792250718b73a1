//! Where a received file is stored until it gets its name. The names are those of rsync's options.

use serde::{Deserialize, Serialize};

/// Where a received file is stored until it gets its name. The fields have the names of rsync's options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    /// The directory of temporary files, relative to the destination; `None` means the directory of the final
    /// file.
    pub temporary: Option<Vec<u8>>,
    /// The directory that keeps an incomplete file if a transfer ends early: an absolute path, or a path relative to
    /// the file's own directory.
    pub partial: Option<Vec<u8>>,
    /// True if complete files wait in the directory `partial`, and get their names when all files have arrived;
    /// requires [`Placing::partial`].
    pub delayed: bool,
    /// Whether a file that is shorter at the receiver gets the missing bytes appended.
    pub append: Appending,
    /// The level of `--fuzzy`; 0 means that the option is off. From 1 on, a new file is compared with a file of a
    /// similar name in its directory; from 2 on, also with files in the same directory of each of the
    /// [`OtherTrees`](super::OtherTrees).
    pub fuzzy: u8,
}

/// Whether the missing bytes are appended to a file that is shorter at the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Appending {
    /// Bytes aren't appended: the file is replaced like other files.
    #[default]
    Never,
    /// Bytes are appended without comparing the existing bytes.
    Trusting,
    /// Bytes are appended if the existing bytes equal the beginning of the sender's file.
    Comparing,
}
