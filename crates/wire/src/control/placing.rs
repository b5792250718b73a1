//! How a received file comes to its place, by rsync's names.

use serde::{Deserialize, Serialize};

/// How a received file comes to its place, by rsync's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    /// The directory of files that are under way, relative to the destination; none: beside their places.
    pub temporary: Option<Vec<u8>>,
    /// The directory that keeps what has come of a file when a transfer ends early, relative to the file's own.
    pub partial: Option<Vec<u8>>,
    /// Whole files wait there, and get their names when all have come; needs [`Placing::partial`].
    pub delayed: bool,
    /// A file that is shorter at the receiver gets what it lacks behind its end.
    pub append: Appending,
    /// A new file is compared with one of a similar name in its directory; from 2 on also in that of each of
    /// [`OtherTrees`](super::OtherTrees).
    pub fuzzy: u8,
}

/// Whether a shorter file gets what it lacks behind its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Appending {
    /// No: the file is replaced, as others are.
    #[default]
    Never,
    /// Whatever is there.
    Trusting,
    /// If what is there is the file's beginning at the sender, too.
    Comparing,
}
