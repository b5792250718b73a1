//! Files that several transfers send together: each transfer sends some pieces of a file.

use crate::entry::Timestamp;
use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// The largest number of elements of [`Details::divided`](super::Details::divided).
pub const MAX_DIVIDED: usize = 512;
/// The largest number of pieces of one file.
pub const MAX_PIECES: u64 = 1024;
/// The smallest size of a piece in bytes. Only the last piece of a file may be smaller.
pub const LEAST_PIECE: u64 = 1 << 20;

/// A file of which this transfer sends some pieces, and other transfers send the other pieces. The transfer that brings
/// the last missing piece gives the file its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DividedFile {
    /// The file's path below its source.
    pub path: RelPath,
    /// A key that is the same in all transfers that send pieces of this file, and differs in all other
    /// transfers.
    pub key: [u8; 16],
    /// The file's size in bytes. If a file has another size, `mtime`, `ctime` or `inode`, it isn't the file that was
    /// divided.
    pub size: u64,
    /// The modification time of the file's contents.
    pub mtime: Timestamp,
    /// The change time of the file's inode.
    pub ctime: Timestamp,
    /// The file's inode number.
    pub inode: u64,
    /// The size of a piece in bytes, a power of two; the last piece may be shorter.
    pub piece: u64,
    /// The number of the first piece that this transfer sends.
    pub first: u32,
    /// The number of pieces that this transfer sends. If it is 0, the transfer only gives the file its name,
    /// after all pieces have arrived.
    pub count: u32,
}

impl DividedFile {
    /// The number of the file's pieces.
    pub fn pieces(&self) -> u64 {
        self.size.div_ceil(self.piece.max(1))
    }

    /// True if this transfer sends pieces of the file; false if it only gives the complete file its name.
    pub fn brings(&self) -> bool {
        self.count > 0
    }

    /// True if the size of a piece and the numbers of pieces are valid, and this transfer's pieces are within the file.
    pub fn is_consistent(&self) -> bool {
        self.piece.is_power_of_two()
            && self.piece >= LEAST_PIECE
            && (2..=MAX_PIECES).contains(&self.pieces())
            && u64::from(self.first) + u64::from(self.count) <= self.pieces()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_powers_of_two_and_all_within_the_file() {
        let (mtime, ctime) = (Timestamp::default(), Timestamp::default());
        let size = 5 * LEAST_PIECE + 1;
        let (piece, first, count) = (LEAST_PIECE, 2, 4);
        let path = RelPath::root();
        let good = DividedFile { path, key: [0; 16], size, mtime, ctime, inode: 1, piece, first, count };
        assert!(good.is_consistent() && good.pieces() == 6);
        let with = |change: fn(&mut DividedFile)| {
            let mut changed = good.clone();
            change(&mut changed);
            changed.is_consistent()
        };
        assert!(with(|file| (file.first, file.count) = (6, 0)));
        assert!(!with(|file| file.count = 5));
        assert!(!with(|file| file.first = u32::MAX));
        assert!(!with(|file| file.piece = 0));
        assert!(!with(|file| file.piece += 1));
        assert!(!with(|file| file.piece /= 2));
        assert!(!with(|file| file.piece *= 8), "one piece is no division");
        assert!(!with(|file| file.size = u64::MAX));
    }
}
