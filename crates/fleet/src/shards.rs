//! Divides entries into shards with about the same number of bytes and of files.
//!
//! The entries are in the order of the scan. They are cut into *pieces*: runs of neighbouring entries, each a
//! small fraction of a shard, so that whole directories stay together if possible. The pieces are then
//! assigned, the largest first, to the shard with the smallest load so far.

use std::collections::BTreeSet;

/// The greatest number of shards of a plan.
pub const MAX_SHARDS: u32 = 10_000;
/// The number of least loaded shards that are considered for a piece.
const CANDIDATES: usize = 16;
/// The range of the number of pieces of a mean shard; within this range, all shards together have about [`PIECES`]
/// pieces.
const PIECES_OF_A_SHARD: std::ops::RangeInclusive<u64> = 16..=64;
const PIECES: u64 = 640_000;

/// A load: a number of bytes and a number of files, which includes links and special files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burden {
    /// The bytes of contents.
    pub bytes: u64,
    /// The number of names of files, links and special files; each hard link is one name.
    pub files: u64,
}

/// A piece: neighbouring entries that are put in the same shard. It begins where the previous piece ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number of entries in the piece.
    pub entries: u64,
    /// The load of the piece's entries.
    pub burden: Burden,
}

impl Burden {
    /// The sum of two loads.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }
}

/// Cuts a sequence of entries into pieces.
#[derive(Debug)]
pub struct Cutter {
    most: Burden,
    open: Piece,
    pieces: Vec<Piece>,
}

impl Cutter {
    /// Prepares to cut entries with the total load `all`, for `shards` shards.
    pub fn new(all: Burden, shards: u32) -> Self {
        let shards = u64::from(shards.max(1));
        let of_each = (PIECES / shards).clamp(*PIECES_OF_A_SHARD.start(), *PIECES_OF_A_SHARD.end());
        let part = |sum: u64| (sum / (shards * of_each)).max(1);
        let most = Burden { bytes: part(all.bytes), files: part(all.files) };
        Self { most, open: NOTHING, pieces: Vec::new() }
    }

    /// Adds the load of the next entry.
    pub fn add(&mut self, burden: Burden) {
        // A large file becomes a separate piece.
        if burden.bytes >= self.most.bytes {
            self.close();
        }
        self.open.entries += 1;
        self.open.burden = self.open.burden.and(burden);
        if self.open.burden.bytes >= self.most.bytes || self.open.burden.files >= self.most.files {
            self.close();
        }
    }

    /// Returns all pieces, in the order of the entries.
    pub fn finish(mut self) -> Vec<Piece> {
        self.close();
        self.pieces
    }

    fn close(&mut self) {
        if self.open.entries > 0 {
            self.pieces.push(std::mem::replace(&mut self.open, NOTHING));
        }
    }
}

const NOTHING: Piece = Piece { entries: 0, burden: Burden { bytes: 0, files: 0 } };

/// Assigns each piece to a shard. Returns the shard number of each piece, and the final load of each shard;
/// `loads` are the initial loads.
pub fn assign_over(pieces: &[Piece], mut loads: Vec<Burden>) -> (Vec<u32>, Vec<Burden>) {
    let burdens = pieces.iter().map(|piece| piece.burden).chain(loads.iter().copied());
    let all = burdens.fold(Burden::default(), Burden::and);
    let mean = |sum: u64| (sum as f64 / loads.len().max(1) as f64).max(f64::MIN_POSITIVE);
    let scale = Scale { bytes: mean(all.bytes), files: mean(all.files) };
    let mut order: Vec<u32> = (0..).take(pieces.len()).collect();
    let weight = |number: &u32| scale.most(pieces[*number as usize].burden);
    order.sort_by(|one, other| weight(other).total_cmp(&weight(one)).then(one.cmp(other)));
    let mut least: BTreeSet<(u64, u32)> = loads.iter().map(|load| scale.sum(*load)).zip(0..).collect();
    let mut owners = vec![0; pieces.len()];
    for number in order {
        let burden = pieces[number as usize].burden;
        let with = |shard: u32| scale.most(loads[shard as usize].and(burden));
        let candidates = least.iter().take(CANDIDATES).copied();
        let best = candidates.min_by(|one, other| with(one.1).total_cmp(&with(other.1)).then(one.cmp(other)));
        let Some((sum, shard)) = best else { continue };
        least.remove(&(sum, shard));
        let load = &mut loads[shard as usize];
        *load = load.and(burden);
        least.insert((scale.sum(*load), shard));
        owners[number as usize] = shard;
    }
    (owners, loads)
}

/// The load of a mean shard, by which loads are measured.
struct Scale {
    bytes: f64,
    files: f64,
}

impl Scale {
    /// A load in multiples of a mean shard, by bytes or by files, whichever is larger.
    fn most(&self, burden: Burden) -> f64 {
        (burden.bytes as f64 / self.bytes).max(burden.files as f64 / self.files)
    }

    /// The sum of a load's bytes and files, each measured in millionths of a mean shard.
    fn sum(&self, burden: Burden) -> u64 {
        ((burden.bytes as f64 / self.bytes + burden.files as f64 / self.files) * 1e6) as u64
    }
}

/// The ratio of the largest shard to the mean shard, by bytes and by files; 1 if there are no entries.
pub fn evenness(loads: &[Burden]) -> (f64, f64) {
    let of = |part: fn(&Burden) -> u64| {
        let (most, sum) = (loads.iter().map(part).max().unwrap_or(0), loads.iter().map(part).sum::<u64>());
        if sum == 0 { 1.0 } else { most as f64 * loads.len() as f64 / sum as f64 }
    };
    (of(|load| load.bytes), of(|load| load.files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shards(sizes: &[u64], count: u32) -> (Vec<Piece>, Vec<u32>, Vec<Burden>) {
        let all = Burden { bytes: sizes.iter().sum(), files: sizes.len() as u64 };
        let mut cutter = Cutter::new(all, count);
        sizes.iter().for_each(|size| cutter.add(Burden { bytes: *size, files: 1 }));
        let pieces = cutter.finish();
        let (owners, loads) = assign_over(&pieces, vec![Burden::default(); count as usize]);
        (pieces, owners, loads)
    }

    /// Sizes from 1 byte to 20 GB, spread over all orders of magnitude.
    fn wide(seed: u64, count: usize) -> Vec<u64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let top = 20e9_f64.ln();
        (0..count).map(|_| (random.f64() * top).exp() as u64).collect()
    }

    #[test]
    fn sizes_from_a_byte_to_20_gb_are_even_within_a_tenth() {
        for (seed, shard_count) in [(1, 2), (2, 8), (3, 16), (4, 64), (5, 200)] {
            let mut sizes = wide(seed, 200_000);
            sizes.extend([20_000_000_000; 3]);
            let (_, _, loads) = shards(&sizes, shard_count);
            let (bytes, files) = evenness(&loads);
            assert!(bytes <= 1.1 && files <= 1.1, "{shard_count} shards: bytes {bytes}, files {files}");
        }
    }

    #[test]
    fn small_files_in_one_place_and_large_ones_in_another_are_even_too() {
        let mut sizes = vec![1; 300_000];
        sizes.extend(wide(9, 2_000));
        sizes.extend(vec![5_000_000_000; 40]);
        sizes.extend(vec![0; 100_000]);
        let (_, _, loads) = shards(&sizes, 32);
        let (bytes, files) = evenness(&loads);
        assert!(bytes <= 1.1 && files <= 1.1, "bytes {bytes}, files {files}");
    }

    /// Without dividing files, the largest file determines the best possible result.
    #[test]
    fn a_file_larger_than_a_shard_has_one_for_itself() {
        let mut sizes = vec![1_000; 10_000];
        sizes.insert(5_000, 1_000_000_000);
        let (_, _, loads) = shards(&sizes, 4);
        let large = loads.iter().filter(|load| load.bytes >= 1_000_000_000).count();
        let (_, files) = evenness(&loads);
        assert_eq!(large, 1);
        assert!(files < 1.5, "{files}");
    }

    #[test]
    fn many_shards_of_many_files_take_little_time() {
        let begun = std::time::Instant::now();
        let (pieces, _, loads) = shards(&vec![100_000; 1_000_000], 10_000);
        let (bytes, files) = evenness(&loads);
        assert!(bytes <= 1.1 && files <= 1.1, "bytes {bytes}, files {files}, {} pieces", pieces.len());
        assert!(begun.elapsed().as_secs() < 60);
    }

    proptest! {
        /// Checks by a simple model that every entry is in exactly one shard, that the sums agree, and that no shard
        /// exceeds a bound that follows from the mean shard and the largest piece.
        #[test]
        fn nothing_is_lost_and_no_shard_is_far_above_the_mean(
            sizes in proptest::collection::vec(prop_oneof![0..10_u64, 0..100_000_u64, 0..20_000_000_000_u64], 1..400),
            count in 1..40_u32,
        ) {
            let (pieces, owners, loads) = shards(&sizes, count);
            prop_assert_eq!(pieces.iter().map(|piece| piece.entries).sum::<u64>(), sizes.len() as u64);
            let mut model = vec![Burden::default(); count as usize];
            let mut at = 0;
            for (piece, owner) in pieces.iter().zip(&owners) {
                for size in &sizes[at..at + piece.entries as usize] {
                    let load = &mut model[*owner as usize];
                    *load = load.and(Burden { bytes: *size, files: 1 });
                }
                at += piece.entries as usize;
            }
            prop_assert_eq!(&model, &loads);
            let (sum, largest) = (sizes.iter().sum::<u64>(), *sizes.iter().max().unwrap());
            let mean = sum as f64 / f64::from(count);
            let most = loads.iter().map(|load| load.bytes).max().unwrap() as f64;
            // This is twice the bound of list scheduling, because there are two measures, bytes and files.
            prop_assert!(most <= 2.0 * mean + 2.0 * largest as f64 + 2.0, "most {} mean {} largest {}", most, mean, largest);
        }
    }
}
