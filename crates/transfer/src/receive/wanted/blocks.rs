//! Sums of an older version's blocks. With them, the sender finds the same blocks at any offset of the new
//! version.

use linerate_wire::control::{BlockSum, MAX_ANSWER_BLOCKS};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

use super::delta::{DeltaBounds, each_chunk};
use crate::tree::blocks::{block_of, block_sum};
use crate::tree::reading::append_from;

/// The block size in bytes and the number of blocks, for a comparison of a file of `size` bytes with an older
/// version of `older` bytes. `shared_by` is the number of such files in one answer. `None` if the comparison
/// isn't worthwhile.
pub fn blocks_of(bounds: DeltaBounds, size: u64, older: u64, shared_by: u64) -> Option<(u64, u32)> {
    if !bounds.pays(size, older) {
        return None;
    }
    let block = block_of(older, MAX_ANSWER_BLOCKS as u64 / shared_by.max(1))?;
    let count = u32::try_from(older / block).ok()?;
    (count > 0 && block <= size / 8).then_some((block, count))
}

/// The sums of the first `count` blocks; fewer if the file is shorter.
///
/// # Errors
/// If the file can't be read.
pub fn sums(file: &OwnedFd, block: u64, count: u32) -> Result<Vec<BlockSum>, Errno> {
    each_chunk(u64::from(count), |number, buffer| {
        buffer.clear();
        append_from(file.as_fd(), number * block, block as usize, buffer)?;
        Ok((buffer.len() as u64 == block).then(|| block_sum(buffer)))
    })
}
