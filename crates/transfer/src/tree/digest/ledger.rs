//! Collects the digests of the files that one end of a transfer has read or put in place, and reports each
//! digest as soon as it is known.

use linerate_wire::control::Digest;
use linerate_wire::entry::{Chunk, Entry, Kind};
use linerate_wire::path::RelPath;
use std::collections::HashMap;
use std::sync::Mutex;

use super::{DigestPart, join};
use crate::base::lock::lock;

/// A report about a file's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The digest of the file's contents.
    Digest(Digest),
    /// The file is a further hard link to the file at this path of this source.
    SameAs(u32, RelPath),
    /// Earlier reports about this file are no longer valid.
    Withdrawn,
}

/// A function that receives reports: the number of the file's source, the file's path below it, and the
/// report.
pub type Known<'a> = &'a (dyn Fn(u32, &RelPath, Reported) + Sync);

/// Computes the digests of a sender's files from the digests of their parts, which several workers compute.
pub struct Ledger<'a> {
    known: Known<'a>,
    open: Mutex<HashMap<u64, Vec<DigestPart>>>,
}

impl<'a> Ledger<'a> {
    /// A ledger that reports to `known`.
    pub fn new(known: Known<'a>) -> Self {
        Self { known, open: Mutex::default() }
    }

    /// Records that an entry of a batch was read. `digest` is set if the entry is a file.
    pub fn entry(&self, entry: &Entry, digest: Option<Digest>) {
        let reported = match (&entry.kind, digest) {
            (_, Some(digest)) => Reported::Digest(digest),
            (Kind::HardLink { source, path }, None) => Reported::SameAs(*source, path.clone()),
            _ => return,
        };
        (self.known)(entry.source, &entry.path, reported);
    }

    /// Records that a part of a large file was read. `count` is the number of the file's parts.
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

    /// Reports that earlier reports about a file are no longer valid.
    pub fn withdraw(&self, source: u32, path: &RelPath) {
        (self.known)(source, path, Reported::Withdrawn);
    }

    /// Forgets the parts of a large file that was given up.
    pub fn forget(&self, file: u64) {
        lock(&self.open).remove(&file);
    }
}
