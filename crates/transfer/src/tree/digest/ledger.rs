//! The digests of the files that one end of a transfer has read or put in place, as they become known.

use linerate_wire::control::Digest;
use linerate_wire::entry::{Chunk, Entry, Kind};
use linerate_wire::path::RelPath;
use std::collections::HashMap;
use std::sync::Mutex;

use super::{DigestPart, join};
use crate::base::lock::lock;

/// Knowledge about a file's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The digest of its contents.
    Digest(Digest),
    /// The file is one more name of the file at this path of this source.
    SameAs(u32, RelPath),
    /// Earlier reports no longer count.
    Withdrawn,
}

/// Receives each file's source, its path there, and the knowledge about its contents.
pub type Known<'a> = &'a (dyn Fn(u32, &RelPath, Told) + Sync);

/// Joins the parts of the sender's files, which several workers read.
pub struct Ledger<'a> {
    known: Known<'a>,
    open: Mutex<HashMap<u64, Vec<DigestPart>>>,
}

impl<'a> Ledger<'a> {
    /// Tells `known`.
    pub fn new(known: Known<'a>) -> Self {
        Self { known, open: Mutex::default() }
    }

    /// An entry of a batch was read, which has a digest where it is a file.
    pub fn entry(&self, entry: &Entry, digest: Option<Digest>) {
        let told = match (&entry.kind, digest) {
            (_, Some(digest)) => Told::Digest(digest),
            (Kind::HardLink { source, path }, None) => Told::SameAs(*source, path.clone()),
            _ => return,
        };
        (self.known)(entry.source, &entry.path, told);
    }

    /// A part of a large file was read, which consists of `count` parts.
    pub fn part(&self, chunk: &Chunk, count: u32, digest: Digest) {
        let Chunk { offset, length, .. } = *chunk;
        let mut open = lock(&self.open);
        let parts = open.entry(chunk.file).or_default();
        parts.push(DigestPart { offset, length, digest });
        if parts.len() < count as usize {
            return;
        }
        let parts = open.remove(&chunk.file).unwrap_or_default();
        drop(open);
        if let Kind::File { size } = chunk.entry.kind
            && let Some(root) = join(parts, size)
        {
            self.entry(&chunk.entry, Some(root));
        }
    }

    /// Withdraws earlier reports about a file.
    pub fn withdraw(&self, source: u32, path: &RelPath) {
        (self.known)(source, path, Told::Withdrawn);
    }

    /// A large file is given up.
    pub fn forget(&self, file: u64) {
        lock(&self.open).remove(&file);
    }
}
