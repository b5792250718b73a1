//! Divides large files among shards. The bytes of large files fill the shards one after the other; if a shard
//! becomes full before a file ends, the file is divided there, at a boundary between two of its pieces.

use linerate_wire::control::{DividedFile, LEAST_PIECE, MAX_DIVIDED, MAX_PIECES};
use serde::{Deserialize, Serialize};

use crate::catalogue::EntryStamp;
use crate::shards::Burden;

/// The greatest size, in bytes, of files that are never divided: for such a file, the cost of one more task is greater
/// than the time that the task saves.
const LEAST_DIVIDED: u64 = 16 << 20;
/// A large file has more than 1/`LARGE` of the bytes of a mean shard.
const LARGE: u64 = 16;
/// A file is divided only if a shard would otherwise differ from its planned size by more than 1/`TOLERANCE` of a mean
/// shard.
const TOLERANCE: u64 = 32;
/// The approximate number of pieces in a mean shard of large files: a piece has at most 1/`PIECES` of the bytes of a
/// mean shard, unless this is less than [`LEAST_PIECE`], or the file would have more than [`MAX_PIECES`] pieces.
const PIECES: u64 = 64;
const LARGEST_PIECE: u64 = 1 << 30;
/// The greatest total number of bytes of the paths of all divided files, because one task gets all these paths in one
/// message of at most 1 MiB.
const PATHS: usize = 512 << 10;

/// A large file.
#[derive(Clone, Copy, Debug)]
pub struct LargeFile {
    /// The size of the file in bytes.
    pub size: u64,
    /// The number of bytes of the file's path.
    pub path: usize,
}

/// The shard or shards that move a large file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LargePlace {
    /// One shard moves the whole file.
    Whole(u32),
    /// Several shards move the file, each some of its pieces, in the order of the shards.
    Divided {
        /// The size of a piece, in bytes.
        piece: u64,
        /// The pieces that each shard moves.
        ranges: Vec<PieceRange>,
    },
}

/// The pieces of a file that one shard moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRange {
    /// The number of the shard.
    pub shard: u32,
    /// The index of the first piece.
    pub first: u32,
    /// The number of pieces.
    pub pieces: u32,
}

/// A file that is divided among several shards, as the plan records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFile {
    /// The size of the file in bytes.
    pub size: u64,
    /// Time of modification: seconds, nanoseconds.
    pub mtime: (i64, u32),
    /// Time of the inode's last change.
    pub ctime: (i64, u32),
    /// The inode's number.
    pub inode: u64,
    /// The size of a piece, in bytes.
    pub piece: u64,
    /// The pieces that each shard moves.
    pub ranges: Vec<PieceRange>,
}

impl PlannedFile {
    /// A file with this stamp, which is divided into these pieces.
    pub fn new(stamp: EntryStamp, piece: u64, ranges: Vec<PieceRange>) -> Self {
        let EntryStamp { size, mtime, ctime, inode } = stamp;
        Self { size, mtime, ctime, inode, piece, ranges }
    }

    /// The number of bytes in a range of the file's pieces.
    pub fn bytes_of(&self, range: &PieceRange) -> u64 {
        range.bytes(self.size, self.piece)
    }
}

impl PieceRange {
    /// The number of bytes in these pieces; `size` and `piece` are the sizes of the file and of a piece.
    fn bytes(&self, size: u64, piece: u64) -> u64 {
        let end = |pieces: u64| pieces.saturating_mul(piece).min(size);
        end(u64::from(self.first) + u64::from(self.pieces)) - end(self.first.into())
    }
}

/// Decides which files are large, and which shards move them.
#[derive(Clone, Copy, Debug)]
pub struct Divider {
    shards: u32,
    /// The number of bytes of a mean shard.
    mean: u64,
}

impl Divider {
    /// A divider for entries whose total load is `all`, and which are distributed among `shards` shards.
    pub fn new(all: Burden, shards: u32) -> Self {
        Self { shards: shards.max(1), mean: all.bytes / u64::from(shards.max(1)) }
    }

    /// Whether a file with this number of bytes is large, and so may be divided.
    pub fn is_large(&self, size: u64) -> bool {
        let most = LARGEST_PIECE.saturating_mul(MAX_PIECES).saturating_mul(MAX_PIECES);
        self.shards > 1 && size > self.mean / LARGE && (LEAST_DIVIDED + 1..most).contains(&size)
    }

    /// The shards that move each of the large files, in the order of `files`.
    pub fn divide(&self, files: &[LargeFile]) -> Vec<LargePlace> {
        let sum = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size));
        let target = (sum / u64::from(self.shards)).max(self.mean / 2).max(1);
        let mut filling =
            Filling { last: self.shards - 1, target, tolerance: self.mean / TOLERANCE, shard: 0, at: 0 };
        let (mut count, mut paths) = (0, 0);
        let place = |file: &LargeFile| {
            let may_be_divided = count < MAX_DIVIDED && paths + file.path <= PATHS;
            let piece = may_be_divided.then(|| self.piece(file.size));
            let place = filling.place(file.size, piece);
            if matches!(place, LargePlace::Divided { .. }) {
                (count, paths) = (count + 1, paths + file.path);
            }
            place
        };
        files.iter().map(place).collect()
    }

    /// The size of a piece of a file with `size` bytes.
    fn piece(&self, size: u64) -> u64 {
        let of_shard = (self.mean / PIECES).clamp(LEAST_PIECE, LARGEST_PIECE);
        let of_shard = (of_shard + 1).next_power_of_two() / 2;
        of_shard.max(size.div_ceil(MAX_PIECES).next_power_of_two())
    }
}

/// The state while shards are filled with large files, one after the other.
struct Filling {
    last: u32,
    /// The number of bytes of large files that each shard should get.
    target: u64,
    tolerance: u64,
    shard: u32,
    /// The number of bytes that were distributed so far.
    at: u64,
}

impl Filling {
    /// Assigns a file to shards. `piece` is the size of a piece in bytes, and the file is divided only at boundaries
    /// between pieces; if `piece` is `None`, the file stays whole.
    fn place(&mut self, size: u64, piece: Option<u64>) -> LargePlace {
        let (mut ranges, mut from) = (Vec::new(), 0);
        while from < size {
            while self.shard < self.last && self.room() <= self.tolerance {
                self.shard += 1;
            }
            let rest = size - from;
            let fits = self.shard == self.last || rest <= self.room().saturating_add(self.tolerance);
            let piece = piece.unwrap_or(size);
            let pieces = if fits { rest.div_ceil(piece) } else { ((self.room() + piece / 2) / piece).max(1) };
            let bytes = pieces.saturating_mul(piece).min(rest);
            let (first, pieces) = ((from / piece) as u32, pieces as u32);
            ranges.push(PieceRange { shard: self.shard, first, pieces });
            from += bytes;
            self.at = self.at.saturating_add(bytes);
            if from < size {
                self.shard = (self.shard + 1).min(self.last);
            }
        }
        match ranges[..] {
            [range] => LargePlace::Whole(range.shard),
            _ => LargePlace::Divided { piece: piece.unwrap_or(size), ranges },
        }
    }

    /// The number of bytes that still fit in the present shard.
    fn room(&self) -> u64 {
        (u64::from(self.shard) + 1).saturating_mul(self.target).saturating_sub(self.at)
    }
}

/// Each shard's share of a large file. In the number of files, the file counts only for the shard with its first piece.
pub fn burdens(size: u64, place: &LargePlace) -> Vec<(u32, Burden)> {
    match place {
        LargePlace::Whole(shard) => vec![(*shard, Burden { bytes: size, files: 1 })],
        LargePlace::Divided { piece, ranges } => {
            let burden = |range: &PieceRange| Burden {
                bytes: range.bytes(size, *piece),
                files: u64::from(range.first == 0),
            };
            ranges.iter().map(|range| (range.shard, burden(range))).collect()
        }
    }
}

/// The key that identifies a divided file at the destination. It changes with each round of a plan, and with
/// each property of the file or its pieces.
pub fn key(plan: &str, round: u32, file: &DividedFile) -> [u8; 16] {
    let DividedFile { path, size, mtime, ctime, inode, piece, .. } = file;
    let said = format!(
        "{plan} {round} {size} {piece} {inode} {}.{} {}.{} ",
        mtime.seconds, mtime.nanoseconds, ctime.seconds, ctime.nanoseconds
    );
    let mut key = [0; 16];
    let hash = blake3::Hasher::new().update(said.as_bytes()).update(path.as_bytes()).finalize();
    key.copy_from_slice(&hash.as_bytes()[..16]);
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shards::{Cutter, assign_over, evenness};
    use linerate_wire::entry::Timestamp;
    use linerate_wire::path::RelPath;
    use proptest::prelude::*;

    /// The shards' loads, and the shards of the large files, for the test.
    fn shards(sizes: &[u64], count: u32) -> (Vec<Burden>, Vec<(u64, LargePlace)>) {
        let all = Burden { bytes: sizes.iter().sum(), files: sizes.len() as u64 };
        let (divider, mut cutter) = (Divider::new(all, count), Cutter::new(all, count));
        let (large, small): (Vec<u64>, Vec<u64>) = sizes.iter().partition(|size| divider.is_large(**size));
        small.iter().for_each(|size| cutter.add(Burden { bytes: *size, files: 1 }));
        let files: Vec<_> = large.iter().map(|size| LargeFile { size: *size, path: 20 }).collect();
        let places = divider.divide(&files);
        let mut loads = vec![Burden::default(); count as usize];
        for (size, place) in large.iter().zip(&places) {
            burdens(*size, place).into_iter().for_each(|(shard, burden)| {
                loads[shard as usize] = loads[shard as usize].and(burden);
            });
        }
        let (_, loads) = assign_over(&cutter.finish(), loads);
        (loads, large.into_iter().zip(places).collect())
    }

    /// Checks the division by a simple model: every piece of a file is in exactly one range, in order, and
    /// the shards have the planned sizes.
    fn assert_whole(size: u64, place: &LargePlace, shards: u32) {
        let LargePlace::Divided { piece, ranges } = place else {
            let LargePlace::Whole(shard) = place else { unreachable!() };
            return assert!(*shard < shards);
        };
        let mut next = 0;
        for (number, range) in ranges.iter().enumerate() {
            assert!(range.first == next && range.pieces > 0 && range.shard < shards, "{ranges:?}");
            assert!(number == 0 || range.shard > ranges[number - 1].shard, "{ranges:?}");
            next += range.pieces;
            let (mtime, ctime) = (Timestamp::default(), Timestamp::default());
            let (path, key, inode) = (RelPath::root(), [0; 16], 0);
            let (piece, first, count) = (*piece, range.first, range.pieces);
            let file = DividedFile { path, key, size, mtime, ctime, inode, piece, first, count };
            assert!(file.is_consistent(), "{file:?}");
        }
        assert_eq!(u64::from(next), size.div_ceil(*piece));
    }

    fn wide(seed: u64, count: usize) -> Vec<u64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let top = 20e9_f64.ln();
        (0..count).map(|_| (random.f64() * top).exp() as u64).collect()
    }

    #[test]
    fn sizes_from_a_byte_to_20_gb_are_even_within_a_tenth_whatever_the_largest_is() {
        for (count, shard_count, further) in
            [(100_000, 4, 1), (1_000, 4, 1), (100_000, 64, 3), (2_000, 200, 0), (0, 8, 1), (10, 7, 2)]
        {
            let mut sizes = wide(count as u64, count);
            sizes.extend(vec![20_000_000_000; further]);
            let (loads, places) = shards(&sizes, shard_count);
            let (bytes, files) = evenness(&loads);
            assert!(bytes <= 1.1, "{count} files, {shard_count} shards: {bytes}");
            assert!(files <= 1.1 || count < 2_000, "{count} files, {shard_count} shards: {files}");
            places.iter().for_each(|(size, place)| assert_whole(*size, place, shard_count));
        }
    }

    #[test]
    fn one_file_beside_a_hundred_thousand_small_ones_is_on_every_shard() {
        let mut sizes = vec![20_000; 100_000];
        sizes.push(20_000_000_000);
        let (loads, places) = shards(&sizes, 4);
        let (bytes, files) = evenness(&loads);
        assert!(bytes <= 1.02 && files <= 1.02, "{bytes} {files}");
        assert!(matches!(&places[0].1, LargePlace::Divided { ranges, .. } if ranges.len() == 4));
    }

    #[test]
    fn what_fits_into_a_shard_about_stays_whole() {
        let sizes = [1_000_000_000; 8];
        let (loads, places) = shards(&sizes, 4);
        assert!(places.iter().all(|(_, place)| matches!(place, LargePlace::Whole(_))), "{places:?}");
        assert!(loads.iter().all(|load| *load == Burden { bytes: 2_000_000_000, files: 2 }));
        assert!(!Divider::new(Burden { bytes: 1 << 40, files: 1 }, 1).is_large(1 << 40), "one shard");
    }

    #[test]
    fn no_more_files_are_divided_than_one_task_can_be_told_of() {
        let sizes = vec![3_000_000_000; 4_000];
        let (loads, places) = shards(&sizes, 3_000);
        let divided = places.iter().filter(|(_, place)| matches!(place, LargePlace::Divided { .. }));
        assert_eq!(divided.count(), MAX_DIVIDED);
        assert_eq!(loads.iter().map(|load| load.bytes).sum::<u64>(), 4_000 * 3_000_000_000);
    }

    proptest! {
        #[test]
        fn every_piece_is_in_one_shard_and_all_are_even(
            sizes in proptest::collection::vec(prop_oneof![0..10_u64, 0..100_000_000_u64, 0..20_000_000_000_u64], 1..60),
            count in 1..40_u32,
        ) {
            let (loads, places) = shards(&sizes, count);
            places.iter().for_each(|(size, place)| assert_whole(*size, place, count));
            let sum: u64 = sizes.iter().sum();
            prop_assert_eq!(loads.iter().map(|load| load.bytes).sum::<u64>(), sum);
            prop_assert_eq!(loads.iter().map(|load| load.files).sum::<u64>(), sizes.len() as u64);
            // Files that are never divided, and pieces of the least size, may be more than a tenth of a small
            // shard.
            if sum / u64::from(count) > 32 * LEAST_DIVIDED {
                prop_assert!(evenness(&loads).0 <= 1.1, "{:?}", loads);
            }
        }
    }
}
