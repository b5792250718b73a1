//! The shard of each entry, while the scan is read once more.

use anyhow::Context;

use super::ALONE;
use crate::catalogue::{CataloguedEntry, EntryKind, IN_NONE, IN_PLACE};
use crate::divide::{Divider, LargePlace, PieceRange};

/// The places of all entries, in the order of the scan.
pub struct Owners {
    divider: Option<Divider>,
    large: std::vec::IntoIter<LargePlace>,
    /// Neighbours: the number of entries, and their shard.
    pieces: std::vec::IntoIter<(u64, u32)>,
    /// The number of remaining entries of the present piece, and its shard.
    piece: (u64, u32),
    /// The shards of files with several names, by number.
    of_linked: Vec<u32>,
}

/// The place of an entry.
pub enum EntryPlace {
    /// In this shard, or in none.
    Shard(u32),
    /// In several shards, in pieces of this size.
    Several(u64, Vec<PieceRange>),
}

impl Owners {
    /// The places of large files and of pieces; `linked` files have several names.
    pub fn new(
        divider: Option<Divider>,
        large: Vec<LargePlace>,
        pieces: Vec<(u64, u32)>,
        linked: usize,
    ) -> Self {
        let (large, pieces) = (large.into_iter(), pieces.into_iter());
        Self { divider, large, pieces, piece: (0, 0), of_linked: vec![0; linked] }
    }

    /// The place of the next entry; `counts`: it isn't a directory, isn't in place yet, and is the first name of its file.
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

/// Whether a file may be divided. One with several names stays whole.
pub fn is_large(divider: Option<&Divider>, entry: &CataloguedEntry) -> bool {
    let may_be = (entry.kind, entry.shard) == (EntryKind::File, ALONE);
    may_be && divider.is_some_and(|divider| divider.is_large(entry.stamp.size))
}
