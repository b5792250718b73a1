//! Assigns each entry to its shard, while the scan's file is read for the last time.

use anyhow::Context;

use super::ALONE;
use crate::catalogue::{CataloguedEntry, EntryKind, IN_NONE, IN_PLACE};
use crate::divide::{Divider, LargePlace, PieceRange};

/// The shards of all entries, in the order of the scan.
pub struct Owners {
    divider: Option<Divider>,
    large: std::vec::IntoIter<LargePlace>,
    /// The pieces that follow: the number of entries in each piece, and the piece's shard.
    pieces: std::vec::IntoIter<(u64, u32)>,
    /// The present piece: the number of its remaining entries, and its shard.
    piece: (u64, u32),
    /// The shards of files with several hard links, by the file's number.
    of_linked: Vec<u32>,
}

/// The shard or shards of an entry.
pub enum EntryPlace {
    /// The number of one shard, or [`IN_NONE`] or [`IN_PLACE`].
    Shard(u32),
    /// Several shards; the file is divided into pieces of this number of bytes.
    Several(u64, Vec<PieceRange>),
}

impl Owners {
    /// Prepares the assignment of large files and of pieces; `linked` is the number of files with several hard links.
    pub fn new(
        divider: Option<Divider>,
        large: Vec<LargePlace>,
        pieces: Vec<(u64, u32)>,
        linked: usize,
    ) -> Self {
        let (large, pieces) = (large.into_iter(), pieces.into_iter());
        Self { divider, large, pieces, piece: (0, 0), of_linked: vec![0; linked] }
    }

    /// The shard or shards of the next entry. `counts` means that the entry isn't a directory, isn't in place yet, and
    /// is the first name of its file.
    pub fn place(&mut self, entry: &CataloguedEntry, counts: bool) -> anyhow::Result<EntryPlace> {
        if is_large(self.divider.as_ref(), entry) {
            let place = self.large.next().context("there are more large files than were counted")?;
            return Ok(match place {
                LargePlace::Whole(shard) => EntryPlace::Shard(shard),
                LargePlace::Divided { piece, ranges } => EntryPlace::Several(piece, ranges),
            });
        }
        if counts {
            while self.piece.0 == 0 {
                self.piece = self.pieces.next().context("there are more entries than were counted")?;
            }
            self.piece.0 -= 1;
        }
        let shard = self.piece.1;
        Ok(EntryPlace::Shard(match entry.shard {
            IN_NONE => IN_NONE,
            IN_PLACE => IN_PLACE,
            ALONE => shard,
            number => {
                let of_linked = &mut self.of_linked[number as usize];
                if counts {
                    *of_linked = shard;
                }
                *of_linked
            }
        }))
    }
}

/// Whether a file is large enough to be divided. A file with several hard links stays whole.
pub fn is_large(divider: Option<&Divider>, entry: &CataloguedEntry) -> bool {
    let may_be = (entry.kind, entry.shard) == (EntryKind::File, ALONE);
    may_be && divider.is_some_and(|divider| divider.is_large(entry.stamp.size))
}
