//! What linerate's own control groups allow it: /proc/self/cgroup, and the files of the groups.

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{cpu_list_of, or_odd, parsed};
use crate::cgroup::{ControlGroup, CpuQuota, Hierarchy, HierarchyVersion, STAT, Throttling, throttling};
use crate::root::Root;

/// Version 1 writes a limit near 2^63 where none is set.
const NO_LIMIT: u64 = 1 << 62;

/// The limits of linerate's own control group and of the groups above it, as far as they can be seen: in a container,
/// up to the container's. Not applicable where no limit is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupFacts {
    /// The version of the kernel's interface that the processors' controller has: 1 or 2.
    pub version: Fact<u32>,
    /// The group that the processors' controller acts on, by its path.
    pub name: Fact<String>,
    /// The smallest quota of processor time.
    pub cpu_quota: Fact<CpuQuota>,
    /// How often it stopped its group since the group was made.
    pub throttling: Fact<Throttling>,
    /// The processors of the group's cpuset.
    pub cpuset: Fact<Vec<u32>>,
    /// The processors on which linerate may run: cpuset and affinity together.
    pub allowed: Fact<Vec<u32>>,
    /// The smallest limit of memory, at which the group's caches shrink, and then its processes are killed.
    pub memory_max: Fact<MemoryLimit>,
    /// The smallest limit of memory from which its processes are slowed down.
    pub memory_high: Fact<MemoryLimit>,
}

/// A limit on the memory of a group and of all groups below it, the page cache of their files included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryLimit {
    /// The group, by its path.
    pub group: String,
    /// The limit in bytes.
    pub bytes: u64,
    /// Bytes in use.
    pub used: Fact<u64>,
}

impl GroupFacts {
    pub(super) fn read(root: &Root<'_>) -> Self {
        let of = |controller: &str| Hierarchy::of(root, "self", controller);
        let (cpu, memory) = (of("cpu"), of("memory"));
        let quota = cpu.as_ref().and_then(|groups| smallest_quota(root, groups));
        Self {
            version: cpu.as_ref().map(|groups| match groups.version {
                HierarchyVersion::One => 1,
                HierarchyVersion::Two => 2,
            }),
            name: cpu.as_ref().map(|groups| groups.own().name.clone()),
            throttling: cpu.as_ref().and_then(|groups| {
                quota.as_ref().and_then(|quota| throttling_of(root, groups, &quota.group))
            }),
            cpu_quota: quota,
            cpuset: of("cpuset").and_then(|groups| cpuset(root, &groups)),
            allowed: allowed(root),
            memory_max: memory.as_ref().and_then(|groups| match groups.version {
                HierarchyVersion::One => smallest_limit(root, groups, "memory.limit_in_bytes"),
                HierarchyVersion::Two => smallest_limit(root, groups, "memory.max"),
            }),
            memory_high: memory.and_then(|groups| match groups.version {
                HierarchyVersion::One => Fact::NotApplicable,
                HierarchyVersion::Two => smallest_limit(root, &groups, "memory.high"),
            }),
        }
    }
}

fn smallest_quota(root: &Root<'_>, groups: &Hierarchy) -> Fact<CpuQuota> {
    CpuQuota::of(root, groups).and_then(|quotas| {
        let smallest = quotas.into_iter().min_by(|a, b| a.processors.total_cmp(&b.processors));
        smallest.map_or(Fact::NotApplicable, Fact::Known)
    })
}

fn throttling_of(root: &Root<'_>, groups: &Hierarchy, name: &str) -> Fact<Throttling> {
    let Some(group) = groups.groups.iter().find(|group| group.name == name) else {
        return Fact::NotApplicable;
    };
    let path = format!("{}/{STAT}", group.dir);
    root.needed(&path).and_then(|text| or_odd(&path, &text, throttling(&text)))
}

/// A group without a cpuset of its own has that of the group above.
fn cpuset(root: &Root<'_>, groups: &Hierarchy) -> Fact<Vec<u32>> {
    let file = match groups.version {
        HierarchyVersion::One => "cpuset.cpus",
        HierarchyVersion::Two => "cpuset.cpus.effective",
    };
    groups.texts(root, file).and_then(|texts| match texts.first() {
        Some((group, text)) => cpu_list_of(&format!("{}/{file}", group.dir), text),
        None => Fact::NotApplicable,
    })
}

/// proc_pid_status(5): `Cpus_allowed_list`.
fn allowed(root: &Root<'_>) -> Fact<Vec<u32>> {
    let path = "proc/self/status";
    root.text(path).and_then(|text| {
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.map_or_else(
            || Fact::Unreadable(format!("/{path} holds no Cpus_allowed_list")),
            |list| cpu_list_of(path, list.trim()),
        )
    })
}

fn smallest_limit(root: &Root<'_>, groups: &Hierarchy, file: &str) -> Fact<MemoryLimit> {
    let usage = match groups.version {
        HierarchyVersion::One => "memory.usage_in_bytes",
        HierarchyVersion::Two => "memory.current",
    };
    groups.texts(root, file).and_then(|texts| {
        let mut smallest: Option<(&ControlGroup, u64)> = None;
        for (group, text) in texts.iter().filter(|(_, text)| text != "max") {
            match parsed::<u64>(&format!("{}/{file}", group.dir), text) {
                Fact::Known(bytes) if bytes >= NO_LIMIT => {}
                Fact::Known(bytes) if smallest.is_some_and(|(_, least)| least <= bytes) => {}
                Fact::Known(bytes) => smallest = Some((group, bytes)),
                Fact::NotApplicable => {}
                Fact::Unreadable(reason) => return Fact::Unreadable(reason),
            }
        }
        smallest.map_or(Fact::NotApplicable, |(group, bytes)| {
            let used = super::read::number(root, &format!("{}/{usage}", group.dir));
            Fact::Known(MemoryLimit { group: group.name.clone(), bytes, used })
        })
    })
}
