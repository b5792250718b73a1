//! Finds blocks of the older version in the new version, at any offset. This module doesn't read or send
//! anything itself.

use linerate_wire::control::BlockSum;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::tree::blocks::{BlockHash, Rolling};

/// The most bytes of a [`Piece::New`].
const PIECE: usize = 64 << 10;
/// The most digests that are computed without a match when a block is searched across the boundary between
/// two parts.
const MOST_MISSES: usize = 64;

/// The blocks of an older version, with an index by their sums.
#[derive(Debug)]
pub struct BlockTable {
    block: usize,
    power: u32,
    sums: Vec<BlockSum>,
    by_digest: HashMap<[u8; 16], u32>,
    rolling: HashSet<u32>,
    /// A filter with a bit for each value of a sum's upper bits. For most windows, which are the stretches of the new
    /// version that are compared with the blocks, the filter shows that no block is equal.
    filter: Vec<u64>,
    shift: u32,
    /// The number of blocks in all tables.
    live: Arc<AtomicU64>,
}

/// The most likely blocks for a window. If several blocks are equal to the window, one of these is preferred.
#[derive(Clone, Copy, Debug, Default)]
struct Hints {
    /// The block after the block that was found last.
    next: Option<u32>,
    /// The block at the same offset in the older version.
    same: Option<u32>,
}

/// The result of comparing a window with the blocks.
enum WindowMatch {
    Block(u32, BlockHash),
    /// A block has the same rolling sum as the window, but a different digest.
    OnlyAlike,
    Nothing,
}

/// A block that crosses the boundary between two parts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Straddling {
    /// The offset of the block in the new version.
    pub at: u64,
    /// The offset of the block in the older version.
    pub from: u64,
}

impl BlockTable {
    /// A table of `sums`, for blocks of `block` bytes; `live` counts the blocks of all tables.
    pub fn new(block: u64, sums: Vec<BlockSum>, live: &Arc<AtomicU64>) -> Self {
        live.fetch_add(sums.len() as u64, Ordering::AcqRel);
        let bits = (sums.len().max(1) as u64 * 64).next_power_of_two().clamp(1 << 12, 1 << 27);
        let shift = 32 - bits.trailing_zeros();
        let mut filter = vec![0u64; (bits / 64) as usize];
        let (mut by_digest, mut rolling) =
            (HashMap::with_capacity(sums.len()), HashSet::with_capacity(sums.len()));
        for (index, sum) in (0..).zip(&sums) {
            let number = u32::from_le_bytes(sum.rolling);
            by_digest.entry(sum.digest).or_insert(index);
            rolling.insert(number);
            let bit = number >> shift;
            filter[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        let block = block as usize;
        let (power, live) = (Rolling::power(block), live.clone());
        Self { block, power, sums, by_digest, rolling, filter, shift, live }
    }

    /// Bytes of a block.
    pub fn block(&self) -> usize {
        self.block
    }

    fn may_have(&self, sum: Rolling) -> bool {
        let bit = sum.number() >> self.shift;
        self.filter[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    fn is_block(&self, index: u32, hash: BlockHash) -> bool {
        self.sums.get(index as usize).is_some_and(|sum| sum.digest == hash.digest)
    }

    fn look(&self, sum: Rolling, window: &[u8], hints: Hints) -> WindowMatch {
        if !self.may_have(sum) || !self.rolling.contains(&sum.number()) {
            return WindowMatch::Nothing;
        }
        let hash = BlockHash::of(window);
        let is_that = |index: &u32| self.is_block(*index, hash);
        let hinted = hints.next.filter(is_that).or(hints.same.filter(is_that));
        hinted
            .or_else(|| self.by_digest.get(&hash.digest).copied())
            .map_or(WindowMatch::OnlyAlike, |index| WindowMatch::Block(index, hash))
    }

    /// The block that crosses the offset `middle`; `around` contains the bytes of one block before and one
    /// block after `middle`. The result depends only on these bytes, so the workers of both parts find the
    /// same block. `None` if a block begins or ends exactly at `middle`.
    pub fn straddling(&self, around: &[u8], middle: u64) -> Option<Straddling> {
        let block = self.block;
        let is_block = |window: &[u8]| self.by_digest.contains_key(&BlockHash::of(window).digest);
        if around.len() != 2 * block || is_block(&around[..block]) || is_block(&around[block..]) {
            return None;
        }
        let (mut sum, mut patience) = (Rolling::of(&around[..block]), MOST_MISSES);
        for at in 1..block {
            sum = sum.roll(around[at - 1], around[at + block - 1], self.power);
            match self.look(sum, &around[at..at + block], Hints::default()) {
                WindowMatch::Block(index, _) => {
                    let at = middle - block as u64 + at as u64;
                    return Some(Straddling { at, from: u64::from(index) * block as u64 });
                }
                WindowMatch::OnlyAlike if patience == 0 => return None,
                WindowMatch::OnlyAlike => patience -= 1,
                WindowMatch::Nothing => {}
            }
        }
        None
    }
}

impl Drop for BlockTable {
    fn drop(&mut self) {
        self.live.fetch_sub(self.sums.len() as u64, Ordering::AcqRel);
    }
}

/// The next result of the search.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes that were not found in the older version.
    New(Range<usize>),
    /// A block of the older version: its range in the bytes of the new version, its offset in the older version, and
    /// its hash.
    Old(Range<usize>, u64, BlockHash),
    /// Undecided until more bytes are available; the first N bytes are done and can be dropped.
    More(usize),
    /// All bytes have been returned.
    End,
}

/// A search for blocks in bytes that arrive in order.
pub struct Search<'t> {
    table: &'t BlockTable,
    /// The offset in the new version of the first byte that is available.
    base: u64,
    /// The beginning of the window. `kept` is the beginning of the bytes that haven't been returned yet.
    at: usize,
    kept: usize,
    sum: Option<Rolling>,
    found: Option<(u32, BlockHash)>,
    next: Option<u32>,
    /// True if the window begins at the end of a block that was found, and hasn't been compared yet.
    follows: bool,
    /// The number of bytes whose digests were computed without a match. `looked` is the number of all bytes
    /// that were searched.
    wasted: u64,
    looked: u64,
}

impl<'t> Search<'t> {
    /// A search in bytes whose first has the offset `base` in the new version.
    pub fn new(table: &'t BlockTable, base: u64) -> Self {
        let (at, kept, wasted, looked) = (0, 0, 0, 0);
        Self { table, base, at, kept, sum: None, found: None, next: None, follows: false, wasted, looked }
    }

    /// The offset in the new version of the byte at index `at`.
    pub fn place(&self, at: usize) -> u64 {
        self.base + at as u64
    }

    /// Drops the first `gone` bytes.
    pub fn forget(&mut self, gone: usize) {
        self.base += gone as u64;
        self.at -= gone;
        self.kept -= gone;
    }

    /// The next result for `bytes`. `last` states that no more bytes follow. Unless `everywhere` is set, only
    /// windows that don't overlap are compared.
    pub fn next(&mut self, bytes: &[u8], last: bool, everywhere: bool) -> Piece {
        let block = self.table.block;
        loop {
            if let Some((index, hash)) = self.found {
                return self.hand_on(index, hash);
            }
            if self.at - self.kept >= PIECE {
                return self.new_bytes(self.kept + PIECE);
            }
            if self.at + block > bytes.len() {
                return self.at_end(bytes.len(), last);
            }
            self.step(bytes, everywhere);
        }
    }

    fn hand_on(&mut self, index: u32, hash: BlockHash) -> Piece {
        if self.at > self.kept {
            return self.new_bytes(self.at);
        }
        let (block, start) = (self.table.block, self.at);
        self.at += block;
        (self.kept, self.found, self.sum, self.next) = (self.at, None, None, index.checked_add(1));
        self.follows = true;
        Piece::Old(start..self.at, u64::from(index) * block as u64, hash)
    }

    fn new_bytes(&mut self, end: usize) -> Piece {
        let start = std::mem::replace(&mut self.kept, end);
        Piece::New(start..end)
    }

    fn at_end(&mut self, length: usize, last: bool) -> Piece {
        if last {
            self.at = length;
        }
        match self.at > self.kept {
            true => self.new_bytes(self.at.min(self.kept + PIECE)),
            false if last => Piece::End,
            false => Piece::More(self.kept),
        }
    }

    /// Compares one window, and moves on to the next window that may be equal to a block.
    fn step(&mut self, bytes: &[u8], everywhere: bool) {
        let (table, block) = (self.table, self.table.block);
        if self.is_next(bytes) {
            return;
        }
        let sum = *self.sum.get_or_insert_with(|| Rolling::of(&bytes[self.at..self.at + block]));
        match table.look(sum, &bytes[self.at..self.at + block], self.hints()) {
            WindowMatch::Block(index, hash) => {
                self.found = Some((index, hash));
                self.looked += block as u64;
                return;
            }
            WindowMatch::OnlyAlike => self.wasted += block as u64,
            WindowMatch::Nothing => {}
        }
        // A limit for wasted digests is needed, because a hostile receiver can send sums that match in many windows.
        if !everywhere || self.wasted > 2 * self.looked + 64 * block as u64 {
            self.at += block;
            self.looked += block as u64;
            self.sum = None;
        } else {
            self.roll(bytes, sum);
        }
    }

    /// After a block was found, compares the window with the block after it, which is the most likely one.
    /// This needs no rolling sum.
    fn is_next(&mut self, bytes: &[u8]) -> bool {
        let (table, block) = (self.table, self.table.block);
        let Some(next) = self.next.filter(|_| std::mem::take(&mut self.follows)) else { return false };
        let hash = BlockHash::of(&bytes[self.at..self.at + block]);
        let is_next = table.is_block(next, hash);
        if is_next {
            self.found = Some((next, hash));
            self.looked += block as u64;
        } else {
            self.wasted += block as u64;
        }
        is_next
    }

    /// Moves the window to the next position that may be a block.
    fn roll(&mut self, bytes: &[u8], mut sum: Rolling) {
        let (table, begun) = (self.table, self.at);
        let behind = &bytes[begun + table.block..];
        let length = behind.len().min((self.kept + PIECE).saturating_sub(begun));
        let mut moves = bytes[begun..].iter().zip(&behind[..length]);
        let found = moves.position(|(out, new)| {
            sum = sum.roll(*out, *new, table.power);
            table.may_have(sum)
        });
        // At the end of the bytes, no next window exists.
        let moved = found.map_or(length, |place| place + 1);
        self.at += moved.max(1);
        self.sum = (moved > 0).then_some(sum);
        self.looked += moved.max(1) as u64;
    }

    fn hints(&self) -> Hints {
        let (block, place) = (self.table.block as u64, self.place(self.at));
        let same = place.is_multiple_of(block).then(|| u32::try_from(place / block).ok()).flatten();
        Hints { next: self.next, same }
    }
}

#[cfg(test)]
mod cost_measured;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::blocks::block_sum;
    use proptest::prelude::*;

    const BLOCK: usize = 64;

    fn table(older: &[u8]) -> BlockTable {
        BlockTable::new(BLOCK as u64, older.chunks_exact(BLOCK).map(block_sum).collect(), &Arc::default())
    }

    /// Rebuilds the new version from the results of a search, as a receiver does; also returns the number of
    /// new bytes. `step` bytes become available at a time.
    fn made(older: &[u8], new: &[u8], step: usize, everywhere: bool) -> (Vec<u8>, usize) {
        let table = table(older);
        let mut search = Search::new(&table, 0);
        let (mut bytes, mut read, mut made, mut fresh) = (Vec::new(), 0, Vec::new(), 0);
        loop {
            match search.next(&bytes, read == new.len(), everywhere) {
                Piece::New(range) => {
                    fresh += range.len();
                    made.extend_from_slice(&bytes[range]);
                }
                Piece::Old(range, from, _) => {
                    made.extend_from_slice(&older[from as usize..from as usize + range.len()]);
                }
                Piece::More(gone) => {
                    bytes.drain(..gone);
                    search.forget(gone);
                    let more = step.min(new.len() - read);
                    bytes.extend_from_slice(&new[read..read + more]);
                    read += more;
                }
                Piece::End => return (made, fresh),
            }
        }
    }

    fn noise(length: usize, seed: u32) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 16) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn what_moved_is_found_and_only_what_is_new_is_new() {
        let older = noise(100 * BLOCK, 7);
        let inserted = [&noise(100, 9)[..], &older].concat();
        assert_eq!(made(&older, &inserted, 1000, true), (inserted.clone(), 100));
        let moved = [&older[50 * BLOCK..], &older[..50 * BLOCK]].concat();
        assert_eq!(made(&older, &moved, 777, true), (moved.clone(), 0));
        let appended = [&older[..], &noise(1000, 5)].concat();
        assert_eq!(made(&older, &appended, 777, true), (appended.clone(), 1000));
        let (same, fresh) = made(&older, &inserted, 1000, false);
        assert!(
            same == inserted && fresh > 99 * BLOCK,
            "without looking everywhere nothing is found: {fresh}"
        );
        assert_eq!(made(&older, &older, 100, false), (older.clone(), 0));
    }

    #[test]
    fn both_parts_find_the_block_across_the_place_where_they_meet() {
        let older = noise(100 * BLOCK, 7);
        let new = [&noise(100, 9)[..], &older].concat();
        let table = table(&older);
        let around = |middle: usize| &new[middle - BLOCK..middle + BLOCK];
        let found = table.straddling(around(640), 640).unwrap();
        assert_eq!((found.at, found.from), (612, 512));
        assert_eq!(table.straddling(around(612), 612), None, "one begins there");
        assert_eq!(table.straddling(&new[..BLOCK], 10), None);
    }

    #[test]
    fn blocks_that_seem_to_be_everywhere_do_not_hold_a_sender_up() {
        let new = vec![0; 1 << 20];
        let alike = BlockSum { rolling: Rolling::of(&new[..BLOCK]).number().to_le_bytes(), digest: [7; 16] };
        let table = BlockTable::new(BLOCK as u64, vec![alike], &Arc::default());
        let mut search = Search::new(&table, 0);
        while search.next(&new, true, true) != Piece::End {}
        assert!(search.wasted <= 3 * search.looked + 100 * BLOCK as u64, "{}", search.wasted);
    }

    proptest! {
        #[test]
        fn whatever_is_searched_comes_out(
            older in prop::collection::vec(0u8..3, 0..2000),
            new in prop::collection::vec(0u8..3, 0..2000),
            cuts in prop::collection::vec((0usize..2000, 0usize..500), 0..6),
            step in 1usize..700,
            everywhere: bool,
        ) {
            let mut new = new;
            for (at, length) in cuts {
                let at = at.min(older.len());
                new.extend_from_slice(&older[at..(at + length).min(older.len())]);
            }
            prop_assert_eq!(made(&older, &new, step, everywhere).0, new);
        }
    }
}
