//! Bounds of proposed values: numbers that the kernel accepts, and parts of the memory.

use linerate_host::Facts;

/// The largest value that the kernel takes for most numbers: that of an `int`.
pub const MOST_INT: u64 = i32::MAX as u64;
/// The largest packets of usual switches, in bytes.
pub const LARGEST_MTU: u32 = 9216;
/// One buffer, queue or table may take one part in this number of the memory.
pub const OF_MEMORY: u64 = 8;

/// The largest number of objects of `each` bytes that the kernel accepts and the memory allows.
pub fn most(facts: &Facts, each: u64) -> u64 {
    facts.memory.total.get().map_or(MOST_INT, |total| total / OF_MEMORY / each).min(MOST_INT)
}
