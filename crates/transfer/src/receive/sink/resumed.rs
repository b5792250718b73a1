//! A large file that an earlier run began and that this run has reopened.

use linerate_wire::entry::{Chunk, Kind};
use std::collections::HashSet;
use std::sync::Arc;

use crate::receive::journal::{Earlier, Partial, bits, mark};
use crate::tree::root::Directory;
use crate::tree::temporary::Temporary;

/// The existing chunks of a large file.
pub struct Resumed {
    /// The file.
    pub temporary: Temporary,
    /// The file's record in the journal of the earlier run.
    pub partial: Partial,
    /// The chunks that have arrived.
    pub there: HashSet<u32>,
}

impl Resumed {
    /// Opens the file that an earlier run left in `parent`; `None` if it can't be trusted.
    ///
    /// Data that was only passed to the kernel is synced first. If writing the data back has failed, the kernel reports
    /// the failure only to the next process that opens the file and calls fsync(2), and never again.
    pub fn open(earlier: &Earlier, parent: &Arc<Directory>) -> Option<Self> {
        let (partial, there) = (earlier.partial.clone(), earlier.present());
        if there.is_empty() {
            return None;
        }
        let file = partial.reopen(parent).ok()?;
        rustix::fs::fsync(&file).ok()?;
        let temporary = Temporary::adopt(parent.clone(), partial.name, file);
        Some(Self { temporary, partial, there })
    }

    /// The existing chunks, in the form in which they are reported to the sender.
    pub fn present(&self) -> Vec<u8> {
        let mut bits = bits(&self.there);
        bits.resize(self.partial.chunks().unwrap_or(0).div_ceil(8) as usize, 0);
        bits
    }

    /// True if the sender sends the same file in the same chunks as before.
    pub fn fits(&self, chunk: &Chunk) -> bool {
        let Partial { origin, chunk: cut, size, mark: made, .. } = self.partial;
        let last = chunk.offset + chunk.length == size;
        chunk.entry.kind == Kind::File { size }
            && Some(chunk.parts) == self.partial.chunks()
            && (last || chunk.length == cut)
            && origin == chunk.origin
            && mark(&chunk.entry) == made
    }
}
