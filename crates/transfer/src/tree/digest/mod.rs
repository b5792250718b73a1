//! BLAKE3 of files from their parts: each part is hashed by the thread that reads it, and the hashes are joined into
//! the ordinary root hash, which b3sum prints.
//!
//! BLAKE3 is a tree over chunks of 1 KiB. A part that is a whole subtree has a chaining value that depends only on its
//! contents and its offset, and the root hash depends only on the chaining values (the BLAKE3 paper, sections 2.1 and
//! 2.4).

pub mod ledger;
pub mod manifest;

use blake3::Hasher;
use blake3::hazmat::{self, HasherExt, Mode};
use linerate_wire::control::Digest;
use std::io::IoSliceMut;

/// Computes the digest of a file, or of a part of a file, while it is read.
pub struct Hashing {
    hasher: Hasher,
    whole: bool,
    /// Digests of parts that other code has computed. If there are any, they are used instead of the bytes.
    parts: Vec<DigestPart>,
}

impl Hashing {
    /// Starts a digest of `length` bytes at `offset` in a file of `size` bytes; `None` if the bytes aren't a subtree of
    /// the file's hash tree.
    pub fn of(offset: u64, length: u64, size: u64) -> Option<Self> {
        let whole = offset == 0 && length == size;
        if !whole && !is_subtree(offset, length, size) {
            return None;
        }
        let mut hasher = Hasher::new();
        hasher.set_input_offset(offset);
        Some(Self { hasher, whole, parts: Vec::new() })
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// Adds the bytes in `places`, in order.
    pub fn update_from(&mut self, places: &[IoSliceMut<'_>]) {
        places.iter().for_each(|place| self.update(place));
    }

    /// Adds the next `length` bytes, which are zeros.
    pub fn update_zeros(&mut self, mut length: u64) {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        while length > 0 {
            let piece = usize::try_from(length).unwrap_or(ZEROS.len()).min(ZEROS.len());
            self.update(&ZEROS[..piece]);
            length -= piece as u64;
        }
    }

    /// Adds the next bytes by their digest, which other code has computed: a subtree of the file, or the whole file. If
    /// one part is added in this way, all parts must be.
    pub fn part(&mut self, offset: u64, length: u64, digest: Digest) {
        self.parts.push(DigestPart { offset, length, digest });
    }

    /// Makes this the digest of a part, even if the bytes so far began at the file's beginning: they are a
    /// subtree, and not the whole file.
    pub fn as_part(self) -> Self {
        Self { whole: false, ..self }
    }

    /// The root hash if the whole file was added, else the chaining value of the part.
    pub fn finish(self) -> Digest {
        if !self.parts.is_empty() {
            return self.joined().expect("parts of a subtree that follow one another, cut at subtrees");
        }
        if self.whole { *self.hasher.finalize().as_bytes() } else { self.hasher.finalize_non_root() }
    }
}

impl Hashing {
    fn joined(self) -> Option<Digest> {
        let (offset, length) =
            (self.parts.first()?.offset, self.parts.iter().map(|part| part.length).sum::<u64>());
        if self.whole { join(self.parts, length) } else { value(&self.parts, offset, length) }
    }
}

/// True if the range is a subtree of the file's hash tree: its length is a power of two and its offset a
/// multiple of that length, or it is a shorter range at the end of the file.
fn is_subtree(offset: u64, length: u64, size: u64) -> bool {
    const CHUNK: u64 = blake3::CHUNK_LEN as u64;
    let Some(end) = offset.checked_add(length) else { return false };
    if length == 0 || end > size || !offset.is_multiple_of(CHUNK) {
        return false;
    }
    let full = length.is_power_of_two() && length >= CHUNK && offset.is_multiple_of(length);
    let last = end == size && hazmat::max_subtree_len(offset).is_some_and(|most| length <= most);
    full || last
}

/// BLAKE3 of bytes that are all in memory.
pub fn of_bytes(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

/// The digest of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestPart {
    /// The part's offset in the file, in bytes.
    pub offset: u64,
    /// The part's length in bytes.
    pub length: u64,
    /// The part's chaining value, or the root hash if the part is the whole file.
    pub digest: Digest,
}

/// The BLAKE3 hash of a file of `size` bytes. `None` if the parts don't follow each other from the beginning of the
/// file to its end, or aren't subtrees of the file's hash tree.
pub fn join(mut parts: Vec<DigestPart>, size: u64) -> Option<Digest> {
    parts.sort_unstable_by_key(|part| part.offset);
    if let [whole] = parts[..] {
        return (whole.offset == 0 && whole.length == size).then_some(whole.digest);
    }
    let (left, right) = halves(&parts, 0, size)?;
    Some(*hazmat::merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
}

/// The chaining value of the subtree of `length` bytes at `offset`, computed from `parts`.
fn value(parts: &[DigestPart], offset: u64, length: u64) -> Option<Digest> {
    if let [part] = parts {
        return (part.offset == offset && part.length == length).then_some(part.digest);
    }
    let (left, right) = halves(parts, offset, length)?;
    Some(hazmat::merge_subtrees_non_root(&left, &right, Mode::Hash))
}

fn halves(parts: &[DigestPart], offset: u64, length: u64) -> Option<(Digest, Digest)> {
    if parts.len() < 2 || length <= blake3::CHUNK_LEN as u64 {
        return None;
    }
    let left = hazmat::left_subtree_len(length);
    let (before, behind) = parts.split_at(parts.partition_point(|part| part.offset < offset + left));
    Some((value(before, offset, left)?, value(behind, offset + left, length - left)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contents(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
    }

    /// The parts of `bytes`, which is cut at multiples of `cut`. The bytes of each part are added in pieces
    /// of `piece` bytes.
    fn parts(bytes: &[u8], cut: usize, piece: usize) -> Vec<DigestPart> {
        let size = bytes.len() as u64;
        let of = |(number, part): (usize, &[u8])| {
            let (offset, length) = ((number * cut) as u64, part.len() as u64);
            let mut hashing = Hashing::of(offset, length, size).expect("a subtree");
            part.chunks(piece).for_each(|piece| hashing.update(piece));
            DigestPart { offset, length, digest: hashing.finish() }
        };
        bytes.chunks(cut).enumerate().map(of).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn parts_of_any_size_and_order_join_into_the_ordinary_root(
            size in 1usize..300_000,
            exponent in 10u32..19,
            piece in 1usize..70_000,
            turn: usize,
        ) {
            let bytes = contents(size);
            let mut parts = parts(&bytes, 1 << exponent, piece);
            let middle = turn % parts.len();
            parts.rotate_left(middle);
            prop_assert_eq!(join(parts, size as u64), Some(of_bytes(&bytes)));
        }

        #[test]
        fn parts_that_are_not_the_file_join_into_nothing(
            offsets in prop::collection::vec((0u64..5000, 0u64..5000), 0..6),
            size in 0u64..10_000,
        ) {
            let parts: Vec<_> = offsets.iter()
                .map(|&(offset, length)| DigestPart { offset, length, digest: [7; 32] })
                .collect();
            let covered = {
                let mut sorted = parts.clone();
                sorted.sort_unstable_by_key(|part| part.offset);
                sorted.iter().try_fold(0, |at, part| (part.offset == at).then_some(at + part.length)) == Some(size)
            };
            prop_assert!(covered || join(parts, size).is_none());
        }
    }

    #[test]
    fn the_cuts_of_large_files_join_too() {
        let bytes = contents((16 << 20) + 1);
        for cut in [4 << 20, 8 << 20, 16 << 20, 64 << 20] {
            let parts = parts(&bytes, cut, 64 << 10);
            assert_eq!(join(parts, bytes.len() as u64), Some(of_bytes(&bytes)), "{cut}");
        }
    }

    #[test]
    fn parts_of_different_sizes_join() {
        let bytes = contents(20_480);
        let cuts = [(0, 8192), (8192, 4096), (12_288, 4096), (16_384, 4096)];
        let part = |(offset, length): (usize, usize)| {
            let mut hashing = Hashing::of(offset as u64, length as u64, 20_480).unwrap();
            hashing.update(&bytes[offset..offset + length]);
            DigestPart { offset: offset as u64, length: length as u64, digest: hashing.finish() }
        };
        assert_eq!(join(cuts.map(part).to_vec(), 20_480), Some(of_bytes(&bytes)));
    }

    #[test]
    fn what_is_no_subtree_is_refused() {
        for (offset, length, size) in [
            (1024, 0, 4096),
            (1, 1024, 4096),
            (1024, 2048, 4096),
            (0, 1500, 4096),
            (u64::MAX, 2, 3),
            (4096, 1, 4096),
        ] {
            assert!(Hashing::of(offset, length, size).is_none(), "{offset} {length} {size}");
        }
        assert!(Hashing::of(0, 0, 0).is_some(), "an empty file is whole");
    }
}
