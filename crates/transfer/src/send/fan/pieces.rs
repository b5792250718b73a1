//! Pieces of files. The pieces that were read last are kept for the other transfers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

use linerate_wire::control::Digest;
use linerate_wire::entry::Timestamp;

use crate::tree::digest::{Hashing, of_bytes};

/// Bytes of a piece, except the last piece of a file: a power of two, so that a piece is a subtree of the file's hash
/// tree.
pub const PIECE: u64 = 256 << 10;
/// The number of bytes of pieces that are kept in memory.
pub(super) const KEPT: u64 = 64 << 20;

/// Identifies a piece by the file, the file's state, and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PieceKey {
    /// The file's device and inode numbers.
    pub file: (u64, u64),
    /// The file's change time, and its size when the scan found it.
    pub state: (i64, u32, u64),
    /// The offset of the piece in bytes.
    pub offset: u64,
}

/// A piece of a file in memory.
pub struct FanPiece {
    key: PieceKey,
    bytes: Vec<u8>,
    digest: OnceLock<Option<Digest>>,
}

/// A slot for a piece, which a transfer is reading or has read.
type PieceSlot = Arc<Mutex<Option<Arc<FanPiece>>>>;

/// The pieces of files that were read last.
#[derive(Default)]
pub(super) struct KeptPieces {
    pub(super) slots: HashMap<PieceKey, KeptPiece>,
    /// The keys of pieces in the order in which they were read. Some of these pieces may have been dropped
    /// already.
    pub(super) order: VecDeque<PieceKey>,
    /// The keys of pieces that have been taken by all transfers that wait for each other.
    had: VecDeque<PieceKey>,
    pub(super) bytes: u64,
}

pub(super) struct KeptPiece {
    slot: PieceSlot,
    bytes: u64,
    /// A set of the transfers that have taken the piece, with a bit for each.
    by: u64,
}

impl KeptPieces {
    /// The slot of a piece, from which the transfer with the bit `bit` takes the piece. `together` are the bits of the
    /// transfers that wait for each other. If the piece has no slot, a transfer that is one of these gets a new slot,
    /// for which other pieces may be dropped; any other transfer gets `None`.
    pub(super) fn slot(&mut self, key: PieceKey, bit: u64, together: u64) -> Option<PieceSlot> {
        if let Some(kept) = self.slots.get_mut(&key) {
            let had = kept.by & together == together;
            kept.by |= bit;
            if !had && kept.by & together == together {
                self.had.push_back(key);
            }
            return Some(kept.slot.clone());
        }
        if bit & together == 0 {
            return None;
        }
        let slot = PieceSlot::default();
        // A small piece takes more memory than its bytes.
        let bytes = key.length().max(1 << 10);
        self.slots.insert(key, KeptPiece { slot: slot.clone(), bytes, by: bit });
        self.order.push_back(key);
        self.bytes += bytes;
        while self.bytes > KEPT
            && let Some(next) = self.had.pop_front().or_else(|| self.order.pop_front())
        {
            self.forget(&next);
        }
        Some(slot)
    }

    fn forget(&mut self, key: &PieceKey) {
        self.bytes -= self.slots.remove(key).map_or(0, |kept| kept.bytes);
        // `order` still contains the keys of pieces that were dropped.
        if self.order.len() > 2 * self.slots.len() + 1024 {
            self.order.retain(|key| self.slots.contains_key(key));
        }
    }
}

impl PieceKey {
    /// The piece that contains the byte at `offset`, of a file in this state.
    pub fn of(file: (u64, u64), ctime: Timestamp, size: u64, offset: u64) -> Self {
        let state = (ctime.seconds, ctime.nanoseconds, size);
        Self { file, state, offset: offset / PIECE * PIECE }
    }

    /// The number of the piece's bytes, if the file still has the size that the scan found.
    pub fn length(&self) -> u64 {
        let (.., size) = self.state;
        size.saturating_sub(self.offset).min(PIECE)
    }
}

impl FanPiece {
    pub(super) fn new(key: PieceKey, bytes: Vec<u8>) -> Self {
        Self { key, bytes, digest: OnceLock::new() }
    }

    /// The key of the piece.
    pub fn key(&self) -> PieceKey {
        self.key
    }

    /// The bytes of the piece. If the file has become shorter, they are fewer than the key states.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The chaining value of the piece, or the root hash if the piece is the whole file; `None` if the file
    /// has become shorter.
    pub fn digest(&self) -> Option<Digest> {
        let (.., size) = self.key.state;
        *self.digest.get_or_init(|| {
            let length = self.bytes.len() as u64;
            if length != self.key.length() {
                return None;
            }
            if length == 0 {
                return Some(of_bytes(&[]));
            }
            let mut hashing = Hashing::of(self.key.offset, length, size)?;
            hashing.update(&self.bytes);
            Some(hashing.finish())
        })
    }
}
