//! Memory: /proc/meminfo.

use serde::{Deserialize, Serialize};

use super::Fact;

/// Memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// All that the kernel has.
    pub total: Fact<u64>,
    /// What programs could still get without swapping.
    pub available: Fact<u64>,
    /// Waiting to be written to storage.
    pub dirty: Fact<u64>,
    /// Swap space; 0 where there is none.
    pub swap_total: Fact<u64>,
    /// Of it, unused.
    pub swap_free: Fact<u64>,
    /// `vm.dirty_ratio`: percent of the available memory at which writers begin to wait; 0 where bytes are set.
    pub dirty_ratio: Fact<u32>,
    /// `vm.dirty_background_ratio`: percent at which writing in the background begins.
    pub dirty_background_ratio: Fact<u32>,
    /// `vm.min_free_kbytes`, in bytes.
    pub min_free: Fact<u64>,
}
