//! A large file that an earlier run began, opened again.

use linerate_wire::entry::{Chunk, Kind};
use std::collections::HashSet;
use std::sync::Arc;

use crate::receive::journal::{Earlier, Partial, bits, mark};
use crate::tree::root::Directory;
use crate::tree::temporary::Temporary;

/// The part of a large file that exists.
pub struct Resumed {
    /// The file.
    pub temporary: Temporary,
    /// The file as the journal has it.
    pub partial: Partial,
    /// The chunks that are there.
    pub there: HashSet<u32>,
}

impl Resumed {
    /// Opens what an earlier run left in `parent`; none where it can't be believed.
    ///
    /// Data that was only handed to the kernel goes to stable storage first: a write-back that failed
    /// meanwhile is told to whoever opens the file next and asks (fsync(2)), and to nobody later.
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

    /// The chunks as the sender gets them.
    pub fn present(&self) -> Vec<u8> {
        let mut bits = bits(&self.there);
        bits.resize(self.partial.chunks().unwrap_or(0).div_ceil(8) as usize, 0);
        bits
    }

    /// True where the sender goes on with this very file, in the same chunks.
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
