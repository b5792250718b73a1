//! The bytes of a part of a large file: read only for this transfer, or shared with other transfers.

use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::send::fan::{FanMember, FanPiece, PIECE};
use crate::send::plan::LargeFile;
use crate::send::reading::{OpenedSource, file_size, read_full};
use crate::tree::digest::Hashing;
use crate::tree::reading::append_from;

/// A part that is being read.
pub(super) struct PartReading<'a> {
    opened: &'a OpenedSource,
    size: u64,
    member: Option<&'a FanMember>,
    /// The part's digest is computed from digests of pieces.
    by_pieces: bool,
    piece: Option<Arc<FanPiece>>,
}

impl<'a> PartReading<'a> {
    /// Starts to read this part (offset and length) of a file; shared if there is a `member`.
    pub(super) fn new(
        file: &LargeFile,
        opened: &'a OpenedSource,
        (offset, length): (u64, u64),
        member: Option<&'a FanMember>,
    ) -> Self {
        let size = file_size(&file.entry);
        let is_even =
            offset.is_multiple_of(PIECE) && (length.is_multiple_of(PIECE) || offset + length == size);
        let by_pieces = member.is_some() && is_even && !file.sparse;
        Self { opened, size, member, by_pieces, piece: None }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.opened.as_fd()
    }

    /// Fills `places` in order, from `offset` on, and hashes the bytes that it reads; returns their number.
    pub(super) fn fill(
        &mut self,
        places: &mut [IoSliceMut<'_>],
        offset: u64,
        hashing: Option<&mut Hashing>,
    ) -> Result<usize, Errno> {
        let Some(member) = self.member else {
            let got = read_full(self.opened.as_fd(), places, offset)?;
            // The bytes are hashed here, since they are in the processor's caches and not yet encrypted.
            hashing.into_iter().for_each(|hashing| hashing.update_from(places));
            return Ok(got);
        };
        let mut hashing = hashing;
        let mut at = offset;
        for place in places {
            let mut filled = 0;
            while filled < place.len() {
                let piece = self.piece(member, at)?;
                let bytes = piece.bytes().get((at - piece.key().offset) as usize..).unwrap_or_default();
                let count = bytes.len().min(place.len() - filled);
                if count == 0 {
                    return Ok((at - offset) as usize);
                }
                place[filled..filled + count].copy_from_slice(&bytes[..count]);
                if let Some(hashing) = &mut hashing {
                    self.hash(hashing, &piece, at, &bytes[..count]);
                }
                filled += count;
                at += count as u64;
            }
        }
        Ok((at - offset) as usize)
    }

    /// Adds a piece's digest when the piece's first byte is read: the part contains all of it.
    fn hash(&self, hashing: &mut Hashing, piece: &FanPiece, at: u64, bytes: &[u8]) {
        if !self.by_pieces {
            return hashing.update(bytes);
        }
        let key = piece.key();
        // Without a digest the piece is too short, and the part is given up.
        if let Some(digest) = piece.digest().filter(|_| at == key.offset) {
            hashing.part(key.offset, key.length(), digest);
        }
    }

    fn piece(&mut self, member: &FanMember, at: u64) -> Result<Arc<FanPiece>, Errno> {
        let key = self.opened.piece_key(self.size, at);
        if let Some(piece) = self.piece.as_ref().filter(|piece| piece.key() == key) {
            return Ok(piece.clone());
        }
        let piece = member.piece(key, || {
            let mut bytes = Vec::new();
            append_from(self.opened.as_fd(), key.offset, key.length() as usize, &mut bytes)?;
            Ok(bytes)
        })?;
        self.piece = Some(piece.clone());
        Ok(piece)
    }
}
