//! Sums of an older version's blocks, by which the sender finds them wherever they are in the new one.

use linerate_wire::control::{BlockSum, MAX_ANSWER_BLOCKS};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

use super::delta::{DeltaBounds, each_chunk};
use crate::tree::blocks::{block_of, block_sum};
use crate::tree::reading::append_from;

/// The bytes of a block and the number of blocks by which a file of `size` bytes is compared with an older version of `older` bytes,
/// where `shared_by` files of one answer may be; `None` where it isn't worth it.
pub fn blocks_of(bounds: DeltaBounds, size: u64, older: u64, shared_by: u64) -> Option<(u64, u32)> {
    if !bounds.pays(size, older) {
        return None;
    }
    let block = block_of(older, MAX_ANSWER_BLOCKS as u64 / shared_by.max(1))?;
    let count = u32::try_from(older / block).ok()?;
    (count > 0 && block <= size / 8).then_some((block, count))
}

/// The sums of the first `count` blocks; fewer where the file ends before.
///
/// # Errors
/// If it can't be read.
pub fn sums(file: &OwnedFd, block: u64, count: u32) -> Result<Vec<BlockSum>, Errno> {
    each_chunk(u64::from(count), |number, buffer| {
        buffer.clear();
        append_from(file.as_fd(), number * block, block as usize, buffer)?;
        Ok((buffer.len() as u64 == block).then(|| block_sum(buffer)))
    })
}
