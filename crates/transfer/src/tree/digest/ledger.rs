//! The digests of the files that one end of a transfer has read or put in place, reported as soon as they are known.

use linerate_wire::control::Digest;
use linerate_wire::entry::{Chunk, Entry, Kind};
use linerate_wire::path::RelPath;
use std::collections::HashMap;
use std::sync::Mutex;

use super::{DigestPart, join};
use crate::base::lock::lock;

/// A report about a file's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The digest of its contents.
    Digest(Digest),
    /// The file is a further hard link to the file at this path of this source.
    SameAs(u32, RelPath),
    /// Earlier reports are no longer valid.
    Withdrawn,
}

/// Receives the number of each file's source, the path below it, and the report.
pub type Known<'a> = &'a (dyn Fn(u32, &RelPath, Told) + Sync);

/// Joins the digests of parts of the sender's files, which several workers read.
pub struct Ledger<'a> {
    known: Known<'a>,
    open: Mutex<HashMap<u64, Vec<DigestPart>>>,
}

impl<'a> Ledger<'a> {
    /// A ledger that reports to `known`.
    pub fn new(known: Known<'a>) -> Self {
        Self { known, open: Mutex::default() }
    }

    /// Records an entry of a batch that was read; it has a digest if it is a file.
    pub fn entry(&self, entry: &Entry, digest: Option<Digest>) {
        let told = match (&entry.kind, digest) {
            (_, Some(digest)) => Told::Digest(digest),
            (Kind::HardLink { source, path }, None) => Told::SameAs(*source, path.clone()),
            _ => return,
        };
        (self.known)(entry.source, &entry.path, told);
    }

    /// Records a part of a large file that was read. The file consists of `count` parts.
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

    /// Drops the parts of a large file that is given up.
    pub fn forget(&self, file: u64) {
        lock(&self.open).remove(&file);
    }
}
