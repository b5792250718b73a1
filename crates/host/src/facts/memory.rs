//! Facts about memory: /proc/meminfo.

use serde::{Deserialize, Serialize};
use std::path::Path;

use super::Fact;
use super::groups::GroupFacts;
use super::read::{number, parsed};
use crate::root::Root;

/// Facts about memory. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryFacts {
    /// All memory that the kernel manages.
    pub total: Fact<u64>,
    /// Memory that is available to programs without swapping.
    pub available: Fact<u64>,
    /// Memory that waits to be written to storage.
    pub dirty: Fact<u64>,
    /// Swap space; 0 if there is none.
    pub swap_total: Fact<u64>,
    /// Unused swap space.
    pub swap_free: Fact<u64>,
    /// The devices and files that contain swap space, such as `/dev/zram0`. Empty if there are none.
    pub swap_areas: Fact<Vec<String>>,
    /// Memory that is reserved as huge pages. Caches can't use this memory.
    pub huge: Fact<u64>,
    /// The part of ZFS's cache (ARC) above its minimum size. This part shrinks like the page cache, but the kernel
    /// doesn't count it as available. Not applicable without ZFS.
    pub arc: Fact<u64>,
    /// The size of a page in bytes.
    pub page: Fact<u64>,
    /// `vm.dirty_ratio`: when this percentage of the available memory waits to be written to storage, writers begin to
    /// wait; 0 if a limit in bytes is set instead.
    pub dirty_ratio: Fact<u32>,
    /// `vm.dirty_background_ratio`: when this percentage of the available memory waits to be written to storage, the
    /// kernel begins to write in the background.
    pub dirty_background_ratio: Fact<u32>,
    /// `vm.swappiness`: the preference, from 0 to 200, for swapping programs' memory rather than shrinking
    /// the page cache.
    pub swappiness: Fact<u32>,
    /// `vm.min_free_kbytes`, the memory that the kernel keeps free, in bytes.
    pub min_free: Fact<u64>,
}

impl MemoryFacts {
    pub(super) fn read(root: &Root) -> Self {
        let info = root.needed("proc/meminfo");
        let of = |key: &str| info.clone().and_then(|text| bytes(&text, key));
        Self {
            total: of("MemTotal"),
            available: of("MemAvailable"),
            dirty: of("Dirty"),
            huge: info.clone().map(|text| bytes(&text, "Hugetlb").get().unwrap_or(0)),
            arc: arc(root),
            page: root
                .answer("live/page", || Ok(rustix::param::page_size().to_string()))
                .and_then(|text| parsed("live/page", &text)),
            swap_total: of("SwapTotal"),
            swap_free: of("SwapFree"),
            swap_areas: root.text("proc/swaps").map(|text| areas(&text)),
            dirty_ratio: number(root, "proc/sys/vm/dirty_ratio"),
            dirty_background_ratio: number(root, "proc/sys/vm/dirty_background_ratio"),
            swappiness: number(root, "proc/sys/vm/swappiness"),
            min_free: number(root, "proc/sys/vm/min_free_kbytes").map(|kib: u64| kib.saturating_mul(1024)),
        }
    }
}

/// The host's available memory in bytes, or the smallest memory limit of this process's control groups if that is less.
/// `None` if the available memory is unknown.
pub fn available_memory(root: &Path) -> Option<u64> {
    let root = Root::files(root);
    let available = *MemoryFacts::read(&root).available.known()?;
    let limit = GroupFacts::read(&root).memory_max;
    Some(limit.known().map_or(available, |limit| available.min(limit.bytes)))
}

/// The names of the swap areas: the first words of the lines below the heading of /proc/swaps.
fn areas(text: &str) -> Vec<String> {
    text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The size of ZFS's cache minus the size below which it doesn't shrink, from lines `NAME TYPE VALUE` of
/// ZFS's statistics.
fn arc(root: &Root) -> Fact<u64> {
    root.text("proc/spl/kstat/zfs/arcstats").and_then(|text| {
        let of = |key: &str| {
            let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            lines
                .find(|words| words.first() == Some(&key))
                .and_then(|words| words.get(2)?.parse::<u64>().ok())
        };
        match of("size").zip(of("c_min")) {
            Some((size, least)) => Fact::Known(size.saturating_sub(least)),
            None => Fact::Unreadable("/proc/spl/kstat/zfs/arcstats holds no size".into()),
        }
    })
}

fn bytes(text: &str, key: &str) -> Fact<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kib = value.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    match kib.and_then(|kib| kib.checked_mul(1024)) {
        Some(bytes) => Fact::Known(bytes),
        None => Fact::Unreadable(format!("/proc/meminfo holds no {key} in kB")),
    }
}
