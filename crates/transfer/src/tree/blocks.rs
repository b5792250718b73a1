//! Blocks of an older version of a file: their size, and the rolling sum by which a sender finds the same
//! block at any offset of the new version.

use blake3::Hasher;
use linerate_wire::control::{BlockSum, Digest};
use multiversion::multiversion;

/// The multiplier of the rolling sum. Its upper digits are those of the golden ratio. It is 5 modulo 8, so that its
/// powers repeat as late as possible.
const BASE: u32 = 0x9e37_79b5;
/// The smallest block in bytes; a block's size is a power of two.
pub const BLOCK_LEAST: u64 = 4 << 10;
/// The largest block in bytes.
pub const BLOCK_MOST: u64 = 16 << 20;

/// A rolling sum: the polynomial sum of a window of fixed length over a file (Karp and Rabin, 1987), modulo
/// 2^32. Moving the window by a byte takes two multiplications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rolling(u32);

impl Rolling {
    /// The sum of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let (rows, rest) = bytes.as_chunks::<LANES>();
        let sum = sum_of(rows);
        let next = |sum: u32, byte: &u8| sum.wrapping_mul(BASE).wrapping_add(u32::from(*byte));
        Self(rest.iter().fold(sum, next))
    }

    /// The sum after the window has moved by one byte: the byte `out` leaves the window, `new` enters it.
    /// `power` is [`Rolling::power`] of the window's length.
    #[must_use]
    pub fn roll(self, out: u8, new: u8, power: u32) -> Self {
        let change = u32::from(new).wrapping_sub(u32::from(out).wrapping_mul(power));
        Self(self.0.wrapping_mul(BASE).wrapping_add(change))
    }

    /// The factor with which the sum contains the byte that leaves a window of `length` bytes.
    pub fn power(length: usize) -> u32 {
        BASE.wrapping_pow(u32::try_from(length).unwrap_or(u32::MAX))
    }

    /// The sum as a number. Only its upper bits depend on all bits of the bytes.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The number of sums that are computed in parallel, each over every `LANES`th byte. With this number, the
/// multipliers of a processor that multiplies 8 or 16 numbers at once in 10 cycles are always busy.
const LANES: usize = 128;
/// The factor between a byte and the next one of its lane.
const LANE_BASE: u32 = BASE.wrapping_pow(LANES as u32);

/// The sum of rows of bytes. The function is compiled for several processor types, and the variant for this
/// processor is called.
#[multiversion(targets("x86_64+avx2", "x86_64+avx512f+avx512bw+avx512dq+avx512vl"))]
fn sum_of(rows: &[[u8; LANES]]) -> u32 {
    let mut sums = [0u32; LANES];
    for row in rows {
        for (sum, byte) in sums.iter_mut().zip(row) {
            *sum = sum.wrapping_mul(LANE_BASE).wrapping_add(u32::from(*byte));
        }
    }
    sums.iter().fold(0, |whole, sum| whole.wrapping_mul(BASE).wrapping_add(*sum))
}

/// The BLAKE3 of a block, in two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHash {
    /// The half of the hash by which the receiver identifies the block to the sender.
    pub digest: [u8; 16],
    /// The half of the hash by which a sender proves that it has the block, and not only the block's sum.
    pub proof: [u8; 16],
}

impl BlockHash {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::finished(Hasher::new().update(bytes))
    }

    /// The hash of all bytes that were added to `hasher`.
    pub fn finished(hasher: &Hasher) -> Self {
        let hash = *hasher.finalize().as_bytes();
        let (mut digest, mut proof) = ([0; 16], [0; 16]);
        digest.copy_from_slice(&hash[..16]);
        proof.copy_from_slice(&hash[16..]);
        Self { digest, proof }
    }
}

/// The proof that a sender has the pieces of the older version to which a part refers: a hash over all of
/// them.
#[derive(Debug, Default)]
pub struct MovedProof(Hasher);

impl MovedProof {
    /// Adds a whole block by its hash.
    pub fn block(&mut self, hash: BlockHash) {
        self.0.update(&[0]).update(&hash.proof);
    }

    /// Adds the length of a piece of a block that the part's beginning or end cuts. The piece's bytes must be
    /// added next, by [`MovedProof::bytes`].
    pub fn piece(&mut self, length: u64) {
        self.0.update(&[1]).update(&length.to_le_bytes());
    }

    /// Adds bytes of the piece that was announced by [`MovedProof::piece`].
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of everything that was added.
    pub fn finish(&self) -> Digest {
        *self.0.finalize().as_bytes()
    }
}

/// The rolling sum and the digest of a block, which a receiver sends to the sender.
pub fn block_sum(bytes: &[u8]) -> BlockSum {
    BlockSum { rolling: Rolling::of(bytes).number().to_le_bytes(), digest: BlockHash::of(bytes).digest }
}

/// The block size in bytes for an older version of `older` bytes with at most `most` blocks; `None` if even
/// the largest blocks would be too many. The block size grows with the square root of the file's size, so
/// that the number of sums and the cost of one change grow at the same rate.
pub fn block_of(older: u64, most: u64) -> Option<u64> {
    let block = older.isqrt().saturating_mul(2).checked_next_power_of_two()?;
    let least = older.checked_div(most)?.checked_next_power_of_two()?;
    let block = block.max(least).max(BLOCK_LEAST);
    (block <= BLOCK_MOST).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_rolled_is_that_of_the_window() {
        let bytes: Vec<u8> = (0..1000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in [1, 7, 127, 128, 129, 256, 333] {
            let by_byte = |sum: u32, byte: &u8| sum.wrapping_mul(BASE).wrapping_add(u32::from(*byte));
            let mut sum = Rolling::of(&bytes[..length]);
            assert_eq!(sum.number(), bytes[..length].iter().fold(0, by_byte));
            for at in 1..=bytes.len() - length {
                sum = sum.roll(bytes[at - 1], bytes[at + length - 1], Rolling::power(length));
                assert_eq!(sum, Rolling::of(&bytes[at..at + length]), "{length} at {at}");
            }
        }
    }

    #[test]
    fn blocks_grow_with_the_root_of_a_file_and_stay_within_their_number() {
        assert_eq!(block_of(4 << 20, 1 << 19), Some(4 << 10));
        assert_eq!(block_of(1_000_000_000, 1 << 19), Some(64 << 10));
        assert_eq!(block_of(1 << 40, 1 << 19), Some(2 << 20));
        assert_eq!(block_of(1 << 30, 1 << 10), Some(1 << 20), "many files share an answer");
        assert_eq!((block_of(1 << 40, 4), block_of(1 << 30, 0)), (None, None));
        for exponent in 20..43 {
            let (older, most) = (3 << exponent, 1 << 19);
            if let Some(block) = block_of(older, most) {
                assert!(block.is_power_of_two() && older / block <= most, "{older}");
            }
        }
    }
}
