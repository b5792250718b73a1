//! Pieces of an older version that are somewhere else in the new one.

use rustix::io::Errno;
use std::os::fd::AsFd;

use super::ReceiveWorker;
use super::assembly::Assembly;
use super::basis::Basis;
use super::parts::Target;
use crate::base::lock::lock;
use crate::net::clock::Stage;
use crate::net::stream::StreamError;
use crate::tree::digest::Hashing;
use crate::tree::reading::read_while;

/// Blocks that two parts have in common, of one file, at most.
const MOST_EDGES: usize = 65_536;

/// Where blocks are cut by the parts of the new version: offsets there and in the older version.
#[derive(Debug, Default)]
pub(super) struct Edges {
    heads: Vec<(u64, u64)>,
    tails: Vec<(u64, u64)>,
}

impl Edges {
    /// A piece goes on in the part behind, or began in the one before; false where there are too many.
    fn add(&mut self, is_tail: bool, edge: (u64, u64)) -> bool {
        let edges = if is_tail { &mut self.tails } else { &mut self.heads };
        edges.push(edge);
        edges.len() <= MOST_EDGES
    }

    /// True where each block that a part ends in goes on in the next one.
    pub(super) fn fit(&mut self) -> bool {
        self.heads.sort_unstable();
        self.tails.sort_unstable();
        self.heads == self.tails
    }
}

/// A piece of the older version, as the sender names it.
struct MovedPiece {
    from: u64,
    at: u64,
    length: u64,
}

impl ReceiveWorker<'_> {
    /// The next bytes of the part are in blocks of the older version.
    pub(super) fn moved(&mut self) -> Result<(), StreamError> {
        let unasked = StreamError::Protocol("a piece of an older version that this end didn't name");
        let Some(part) = &mut self.part else { return Err(unasked) };
        let (at, left, is_first) = (part.at, part.left(), part.is_untouched());
        let Some(MovedPiece { from, length, .. }) =
            piece(&self.payload, at).filter(|piece| piece.length <= left)
        else {
            return Err(unasked);
        };
        let offset = part.end - part.length;
        part.at += length;
        part.has_copied = true;
        let is_last = part.is_whole();
        let copied = match &part.target {
            Target::Shared(assembly) => {
                let Some(basis) = assembly.basis.as_ref().filter(|basis| basis.has_blocks(from, length))
                else {
                    return Err(unasked);
                };
                part.has_edges |= assembly.note_edges(MovedPiece { from, at, length }, is_first, is_last)?;
                match assembly.has_failed() {
                    true => Ok(()),
                    false => {
                        assembly.begin_digest(&mut part.hashing, (offset, part.length), at).and_then(|()| {
                            let each = &mut |bytes: &[u8]| see(&mut part.hashing, bytes);
                            basis.bring(assembly.file.as_fd(), (from, length), at, each)
                        })
                    }
                }
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

/// What is written into a part goes into its digest once that has begun.
pub(super) fn see(hashing: &mut Option<Hashing>, bytes: &[u8]) {
    hashing.iter_mut().for_each(|hashing| hashing.update(bytes));
}

/// A piece as it was named, at `at`; none of no bytes.
fn piece(named: &[u8], at: u64) -> Option<MovedPiece> {
    let (from, length) = named.split_first_chunk::<8>()?;
    let length = u64::from_le_bytes(length.try_into().ok()?);
    (length > 0).then_some(MovedPiece { from: u64::from_le_bytes(*from), at, length })
}

impl Assembly {
    /// Whole blocks are taken, or else a sender that can't read the file could find out what its bytes are one by one, by
    /// which digest is taken for right. Parts cut through blocks, so that the two pieces have to fit. True where it is such a piece.
    fn note_edges(&self, piece: MovedPiece, is_first: bool, is_last: bool) -> Result<bool, StreamError> {
        let MovedPiece { from, at, length } = piece;
        let block = self.basis.as_ref().and_then(Basis::block).unwrap_or(1);
        let (is_head, is_tail) = (!from.is_multiple_of(block), !(from + length).is_multiple_of(block));
        if is_head && !is_first || is_tail && !is_last {
            return Err(StreamError::Protocol("a piece of a block of an older version"));
        }
        let mut edges = lock(&self.edges);
        let fits = (!is_head || edges.add(false, (at, from)))
            && (!is_tail || edges.add(true, (at + length, from + length)));
        if fits { Ok(is_head || is_tail) } else { Err(StreamError::Protocol("too many pieces of blocks")) }
    }

    /// From `at` on the digest of the part goes along; the bytes of it that are there before are read once more. There is none of
    /// what is no part of a hash tree.
    fn begin_digest(
        &self,
        hashing: &mut Option<Hashing>,
        (offset, length): (u64, u64),
        at: u64,
    ) -> Result<(), Errno> {
        if hashing.is_some() {
            return Ok(());
        }
        *hashing = Hashing::of(offset, length, self.size().unwrap_or(0));
        let each = |read: &[u8]| see(hashing, read);
        let is_all = read_while(self.file.as_fd(), offset, at - offset, &mut Vec::new(), || true, each)?;
        if is_all { Ok(()) } else { Err(Errno::IO) }
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
