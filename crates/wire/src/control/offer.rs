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
/// The most blocks of all files in the answer to one offer, [`super::Message::Wanted`].
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
    /// The BLAKE3 hash of the file's contents, if the receiver compares files by contents
    /// ([`Sync::checksum`](super::Sync::checksum)).
    pub digest: Option<Digest>,
    /// True if everything in this directory is offered. False for a directory that is only sent because a listed path
    /// is inside it.
    pub whole: bool,
}

/// The part of an offered entry that the receiver requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// Send nothing, because the receiver has the entry.
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
    /// Send a large file without the chunks that have these digests, because the receiver's older version contains
    /// these chunks.
    Differing {
        /// Bytes of a chunk; the last chunk may be shorter.
        chunk: u64,
        /// The BLAKE3 hash of each chunk that lies completely in the older version, in order.
        digests: Vec<Digest>,
    },
    /// Send only the digest of the contents, because the receiver has the contents.
    Digest,
    /// Send nothing, because the user's options leave the destination unchanged. The existing entry, if there is one,
    /// can't serve as the first name of a hard link.
    LeftAlone,
    /// Send a large file without the blocks of the receiver's older version, which may be at any offset in the new
    /// version. The sums of these blocks were sent in [`super::Message::Blocks`].
    Blocks {
        /// Bytes of a block.
        block: u64,
        /// The number of blocks, counted from the beginning of the older version.
        count: u32,
    },
    /// Send the rest of a file, because the receiver has the file's first bytes.
    Rest {
        /// The number of bytes that the receiver has.
        from: u64,
        /// The BLAKE3 hash of the bytes that the receiver has. If the first bytes of the sender's file have another
        /// hash, the sender sends the whole file. `None` means that the sender doesn't compare the bytes.
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
