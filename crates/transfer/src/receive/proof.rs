//! Verifies files before they get their names: compares their contents on stable storage with the contents
//! that the sender read.

use linerate_wire::control::{Digest, MAX_AGAIN, MAX_MESSAGE, Problem, ProblemKind};
use linerate_wire::entry::Entry;
use linerate_wire::path::RelPath;
use rustix::io::Errno;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::receive::commit::Finished;
use crate::receive::read_back::ReadBack;

/// The most bytes of names in a request to send files again. The names must fit into
/// [`linerate_wire::control::Message::Again`].
const NAMES: usize = MAX_MESSAGE / 2;

const ONCE: &str = "differed from the sent data when it was read back";
const TWICE: &str = "differed twice from the sent data when it was read back, so it did not get its final name; the destination's storage or memory can't be trusted";
const TWICE_IN_PLACE: &str = "differed twice from the sent data when it was read back, and is damaged under its final name, because it was updated in place; the destination's storage or memory can't be trusted";

/// The sender's digest of a file, with which the file on storage is compared.
#[derive(Clone, Debug)]
pub struct Proof {
    /// BLAKE3 of the contents that the sender read.
    pub digest: Digest,
    /// The source that the file belongs to.
    pub source: u32,
    /// The file's path below the source.
    pub path: RelPath,
}

impl Proof {
    /// The proof for `entry`, whose contents have the sender's digest `digest`.
    pub fn of(entry: &Entry, digest: Digest) -> Self {
        Self { digest, source: entry.source, path: entry.path.clone() }
    }
}

/// Compares the files of a transfer with the sender's digests, and collects the names of files that must be
/// sent again.
pub struct Verifier<'a> {
    /// Receives problems.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    differing: Mutex<Differing>,
    last_round: AtomicBool,
}

#[derive(Default)]
struct Differing {
    names: Vec<(u32, RelPath)>,
    bytes: usize,
}

impl<'a> Verifier<'a> {
    /// A verifier that reports to `problem` the files that still differ after the second round.
    pub fn new(problem: &'a (dyn Fn(Problem) + Sync)) -> Self {
        Self { problem, differing: Mutex::default(), last_round: AtomicBool::new(false) }
    }

    /// Compares the contents of the entries with the sender's digests. Returns the entries that agree or have no
    /// digest, and removes the others.
    pub fn check(&self, group: Vec<Finished>) -> Vec<Finished> {
        let results = ReadBack::of(&group).run();
        let pairs = group.into_iter().zip(results);
        pairs.filter_map(|(entry, result)| self.judge(entry, result)).collect()
    }

    /// Returns the names of the files that differ, so that they are sent again. If a file differs after this call, it
    /// isn't sent again, but a problem is reported.
    pub fn take_differing(&self) -> Vec<(u32, RelPath)> {
        self.last_round.store(true, Ordering::Relaxed);
        std::mem::take(&mut *lock(&self.differing)).names
    }

    fn judge(&self, entry: Finished, result: Option<Result<Digest, Errno>>) -> Option<Finished> {
        let Some(proof) = &entry.proof else { return Some(entry) };
        match result {
            Some(Ok(digest)) if digest == proof.digest => return Some(entry),
            Some(Err(error)) => self.report(&entry, &format!("reading the file back failed: {error}")),
            // A file that is too short has no digest, so this case covers it too.
            Some(Ok(_)) | None if self.wants_again(proof) => {}
            Some(Ok(_)) | None if self.last_round.load(Ordering::Relaxed) => {
                self.report(&entry, if entry.temporary.is_in_place() { TWICE_IN_PLACE } else { TWICE });
            }
            Some(Ok(_)) | None => self.report(&entry, ONCE),
        }
        // The journal may list the file, but resuming from damaged contents is useless.
        entry.temporary.discard();
        None
    }

    fn wants_again(&self, proof: &Proof) -> bool {
        let mut differing = lock(&self.differing);
        let bytes = differing.bytes + proof.path.as_bytes().len() + 16;
        let full = differing.names.len() >= MAX_AGAIN || bytes > NAMES;
        if full || self.last_round.load(Ordering::Relaxed) {
            return false;
        }
        differing.bytes = bytes;
        differing.names.push((proof.source, proof.path.clone()));
        true
    }

    fn report(&self, entry: &Finished, message: &str) {
        (self.problem)(problem(&entry.shown, ProblemKind::Failed, message));
    }
}
