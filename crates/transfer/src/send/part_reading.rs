//! Reads the bytes of a part of a large file, either for this transfer only or shared with other transfers.

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
    /// True if the digest of the part is computed from the digests of its pieces.
    by_pieces: bool,
    piece: Option<Arc<FanPiece>>,
}

impl<'a> PartReading<'a> {
    /// Starts to read the part with this offset and length of a file. With a `member`, the read pieces are
    /// shared with other transfers.
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

    /// Fills `places` in order, from `offset` on, and hashes the bytes; returns the number of bytes.
    pub(super) fn fill(
        &mut self,
        places: &mut [IoSliceMut<'_>],
        offset: u64,
        hashing: Option<&mut Hashing>,
    ) -> Result<usize, Errno> {
        let Some(member) = self.member else {
            let got = read_full(self.opened.as_fd(), places, offset)?;
            // The bytes are hashed here, while they are in the processor's caches and before they are
            // encrypted.
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

    /// Hashes `bytes`, which are a piece's bytes from the offset `at` on. If the part's digest is computed from those
    /// of its pieces, the digest of the whole piece is added when the piece's first byte is read.
    fn hash(&self, hashing: &mut Hashing, piece: &FanPiece, at: u64, bytes: &[u8]) {
        if !self.by_pieces {
            return hashing.update(bytes);
        }
        let key = piece.key();
        // A piece without a digest is too short, so the part will be given up.
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
