//! Entries that could be sent, and the receiver's answers.

use super::Digest;
use crate::entry::{Entry, Timestamp};
use serde::{Deserialize, Serialize};

/// The most entries of one [`super::Message::Offer`].
pub const MAX_OFFERS: usize = 1024;
/// The most offers that may wait for an answer.
pub const MAX_OPEN_OFFERS: usize = 16;
/// The most elements of one [`super::Message::Blocks`].
pub const MAX_BLOCKS: usize = 32_768;
/// The most blocks of all files of one [`super::Message::Wanted`].
pub const MAX_ANSWER_BLOCKS: usize = 1 << 19;

/// An entry that could be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The entry.
    pub entry: Entry,
    /// The file's inode number. Together with `ctime` it distinguishes the file from another file of equal size and
    /// times that has replaced it.
    pub inode: u64,
    /// When the inode last changed.
    pub ctime: Timestamp,
    /// BLAKE3 of its contents, if the receiver compares by contents ([`Sync::checksum`](super::Sync::checksum)).
    pub digest: Option<Digest>,
    /// False for a directory that is sent only because a listed path is inside it. Everything in any other directory is
    /// offered.
    pub whole: bool,
}

/// The receiver's answer to an offered entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// Nothing: the receiver has it.
    Nothing,
    /// All of it.
    Whole,
    /// A large file, except for the chunks that an earlier run brought.
    Missing {
        /// Bytes of a chunk; the last chunk may be shorter.
        chunk: u64,
        /// A bit for each chunk, the first one in the lowest bit of the first byte. The bit is set if the receiver has
        /// the chunk.
        present: Vec<u8>,
    },
    /// A large file, except for the chunks that have these digests: the receiver has an older version.
    Differing {
        /// Bytes of a chunk; the last chunk may be shorter.
        chunk: u64,
        /// BLAKE3 of each chunk that lies completely in the old file, in order.
        digests: Vec<Digest>,
    },
    /// Only the digest of the contents at the sender, since the receiver has all of the contents.
    Digest,
    /// Nothing: the user wants the existing entry left unchanged, and it doesn't count as a name of this file.
    LeftAlone,
    /// A large file, except for blocks that an older version has, at any offset. Those blocks were described in
    /// [`super::Message::Blocks`].
    Blocks {
        /// Bytes of a block.
        block: u64,
        /// The number of blocks, counted from the beginning of the older version.
        count: u32,
    },
    /// The rest of the file: the receiver has the first bytes.
    Rest {
        /// The number of first bytes that the receiver has.
        from: u64,
        /// BLAKE3 of those bytes. If the sender's first bytes differ, it sends the whole file.
        digest: Option<Digest>,
    },
}

/// The two sums of a block of an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSum {
    /// Its rolling sum.
    pub rolling: [u8; 4],
    /// The first half of its BLAKE3.
    pub digest: [u8; 16],
}
