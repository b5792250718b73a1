//! Copies pieces of an older version that are at other offsets in the new version.

use blake3::Hasher;
use linerate_wire::control::Digest;
use std::os::fd::AsFd;

use super::ReceiveWorker;
use super::assembly::Assembly;
use super::part::Target;
use crate::base::lock::lock;
use crate::net::clock::Stage;
use crate::net::stream::StreamError;
use crate::tree::blocks::{BlockHash, MovedProof};

/// The most blocks of an older version that may be cut by boundaries between parts of one file.
const MOST_EDGES: usize = 65_536;

/// The blocks that are cut by boundaries between parts: for each, the offset of the cut in the new version
/// and in the older version.
#[derive(Debug, Default)]
pub(super) struct Edges {
    heads: Vec<(u64, u64)>,
    tails: Vec<(u64, u64)>,
}

impl Edges {
    /// Records a block that is cut at a boundary. `is_tail` is true if the rest of the block continues in the next
    /// part, and false if the block began in the previous part. Returns false if too many blocks are cut.
    fn add(&mut self, is_tail: bool, edge: (u64, u64)) -> bool {
        let edges = if is_tail { &mut self.tails } else { &mut self.heads };
        edges.push(edge);
        edges.len() <= MOST_EDGES
    }

    /// True if each block that is cut at the end of one part continues in the next part.
    pub(super) fn fit(&mut self) -> bool {
        self.heads.sort_unstable();
        self.tails.sort_unstable();
        self.heads == self.tails
    }
}

/// A piece of the older version to which the sender refers.
struct MovedPiece {
    from: u64,
    at: u64,
    length: u64,
}

impl ReceiveWorker<'_> {
    /// Handles a reference to the older version: copies the next bytes of the part from the older version's blocks.
    pub(super) fn moved(&mut self) -> Result<(), StreamError> {
        let unasked = StreamError::Protocol("a piece of an older version that this end didn't offer");
        let Some(part) = &mut self.part else { return Err(unasked) };
        let (at, left, is_first) = (part.at, part.left(), part.is_untouched());
        let Some(piece) = piece(&self.payload, at).filter(|piece| piece.length <= left) else {
            return Err(unasked);
        };
        let MovedPiece { from, length, .. } = piece;
        part.at += length;
        let is_last = part.is_whole();
        let brought = part.brought.get_or_insert_default();
        let copied = match &part.target {
            Target::Shared(assembly) => {
                let Some(basis) = assembly.basis.as_ref().filter(|basis| basis.has_blocks(from, length))
                else {
                    return Err(unasked);
                };
                let block = basis.block().unwrap_or(1);
                part.has_edges |= assembly.note_edges(&piece, block, is_first, is_last)?;
                let bring = |each: &mut dyn FnMut(&[u8])| {
                    basis.bring(assembly.file.as_fd(), (from, length), at, each)
                };
                if assembly.has_failed() { Ok(()) } else { brought.see(&piece, block, bring) }
            }
            Target::Dropped => Ok(()),
            Target::Whole(..) | Target::Standing(..) => return Err(unasked),
        };
        copied.or_else(|error| self.part_failed(error))?;
        self.shared.reports.counters.matches(length);
        self.clock.lap(Stage::Write);
        self.came()
    }
}

/// Hashes the copied bytes, so that the digest shows whether the sender has the same bytes.
#[derive(Default)]
pub(super) struct Brought {
    proof: MovedProof,
    /// The block that is being copied.
    block: Hasher,
}

/// Bytes of the older version within one of its blocks.
struct Segment {
    left: u64,
    is_whole: bool,
}

impl Segment {
    /// The segment from `at` to the end of its block, but at most to `end`, where the range ends.
    fn at(at: u64, end: u64, block: u64) -> Self {
        let left = (block - at % block).min(end - at);
        Self { left, is_whole: left == block }
    }
}

impl Brought {
    /// Hashes the bytes of `piece`, block by block; `bring` copies and provides each block's bytes.
    fn see<T>(
        &mut self,
        piece: &MovedPiece,
        block: u64,
        bring: impl FnOnce(&mut dyn FnMut(&[u8])) -> T,
    ) -> T {
        let (mut at, end) = (piece.from, piece.from + piece.length);
        let mut segment = self.begin(at, end, block);
        bring(&mut |mut bytes| {
            while at < end && !bytes.is_empty() {
                let length = usize::try_from(segment.left).unwrap_or(usize::MAX).min(bytes.len());
                let (now, later) = bytes.split_at(length);
                if segment.is_whole {
                    self.block.update(now);
                } else {
                    self.proof.bytes(now);
                }
                (at, bytes) = (at + length as u64, later);
                segment.left -= length as u64;
                if segment.left == 0 {
                    self.end(&segment);
                    segment = self.begin(at, end, block);
                }
            }
        })
    }

    fn begin(&mut self, at: u64, end: u64, block: u64) -> Segment {
        let segment = Segment::at(at, end, block);
        if segment.left > 0 && !segment.is_whole {
            self.proof.piece(segment.left);
        }
        segment
    }

    fn end(&mut self, segment: &Segment) {
        if segment.is_whole {
            self.proof.block(BlockHash::finished(&self.block));
            self.block.reset();
        }
    }

    /// The digest of all bytes that were copied.
    pub(super) fn finish(&self) -> Digest {
        self.proof.finish()
    }
}

/// Parses a reference to a piece for the offset `at`; `None` if the piece is empty or invalid.
fn piece(named: &[u8], at: u64) -> Option<MovedPiece> {
    let (from, length) = named.split_first_chunk::<8>()?;
    let length = u64::from_le_bytes(length.try_into().ok()?);
    (length > 0).then_some(MovedPiece { from: u64::from_le_bytes(*from), at, length })
}

impl Assembly {
    /// Checks a reference for pieces that aren't whole blocks, and records them; true if there are any. Only
    /// whole blocks may be used: otherwise a sender that can't read the file could find out its bytes one by
    /// one, by trying which digest is accepted. Only boundaries between parts may cut a block, and then the
    /// two pieces must fit together.
    fn note_edges(
        &self,
        piece: &MovedPiece,
        block: u64,
        is_first: bool,
        is_last: bool,
    ) -> Result<bool, StreamError> {
        let &MovedPiece { from, at, length } = piece;
        let (is_head, is_tail) = (!from.is_multiple_of(block), !(from + length).is_multiple_of(block));
        if is_head && !is_first || is_tail && !is_last {
            return Err(StreamError::Protocol(
                "a part of an older version's block that isn't at the beginning or end of the sent part",
            ));
        }
        let mut edges = lock(&self.edges);
        let fits = (!is_head || edges.add(false, (at, from)))
            && (!is_tail || edges.add(true, (at + length, from + length)));
        if fits { Ok(is_head || is_tail) } else { Err(StreamError::Protocol("too many partial blocks")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_a_block_have_to_fit() {
        let mut edges = Edges::default();
        assert!(edges.fit());
        assert!(edges.add(true, (100, 7)) && !edges.fit() && edges.add(false, (100, 7)) && edges.fit());
        assert!(edges.add(true, (200, 9)) && edges.add(false, (200, 10)) && !edges.fit());
    }
}
