//! Offers of entries that the sender could send, and the receiver's answers.

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
    /// The time of the inode's last change.
    pub ctime: Timestamp,
    /// BLAKE3 of the file's contents, if the receiver compares files by contents
    /// ([`Sync::checksum`](super::Sync::checksum)).
    pub digest: Option<Digest>,
    /// False for a directory that is only sent because a listed path is inside it. For any other directory,
    /// all its contents are offered.
    pub whole: bool,
}

/// What the receiver requests of an offered entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// Send nothing, since the receiver has the entry.
    Nothing,
    /// Send the whole entry.
    Whole,
    /// Send a large file without the chunks that an earlier run has received.
    Missing {
        /// Bytes of a chunk; the last chunk may be shorter.
        chunk: u64,
        /// A bit for each chunk, the first one in the lowest bit of the first byte. The bit is set if the receiver has
        /// the chunk.
        present: Vec<u8>,
    },
    /// Send a large file without the chunks that have these digests, since the receiver's older version
    /// contains them.
    Differing {
        /// Bytes of a chunk; the last chunk may be shorter.
        chunk: u64,
        /// BLAKE3 of each chunk that lies completely in the old file, in order.
        digests: Vec<Digest>,
    },
    /// Send only the digest of the contents, since the receiver has the contents.
    Digest,
    /// Send nothing, since the user's options leave the existing entry unchanged. That entry can't serve as
    /// the first name of a hard link.
    LeftAlone,
    /// Send a large file without the blocks that an older version contains at any offset. These blocks were
    /// listed in [`super::Message::Blocks`].
    Blocks {
        /// Bytes of a block.
        block: u64,
        /// The number of blocks, counted from the beginning of the older version.
        count: u32,
    },
    /// Send the rest of a file, since the receiver has its first bytes.
    Rest {
        /// The number of bytes that the receiver has.
        from: u64,
        /// BLAKE3 of those bytes. If the sender's first bytes differ, it sends the whole file.
        digest: Option<Digest>,
    },
}

/// The rolling sum and the digest of a block of an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSum {
    /// The block's rolling sum.
    pub rolling: [u8; 4],
    /// The first half of the block's BLAKE3 hash.
    pub digest: [u8; 16],
}
