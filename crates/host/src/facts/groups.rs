//! The limits of linerate's own control groups: /proc/self/cgroup, and the files of the groups.

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{cpu_list_of, or_odd, parsed};
use crate::cgroup::{ControlGroup, CpuQuota, Hierarchy, HierarchyVersion, STAT, Throttling, throttling};
use crate::root::Root;

/// If a limit of version 1 is at least this number of bytes, no limit is set; the kernel then writes a number near
/// 2^63.
const NO_LIMIT: u64 = 1 << 62;

/// The limits of linerate's own control group and of the visible groups above it: in a container, up to the container's
/// group. A limit that isn't set is not applicable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupFacts {
    /// The version (1 or 2) of the hierarchy with the `cpu` controller.
    pub version: Fact<u32>,
    /// The path of the group on which the `cpu` controller acts.
    pub name: Fact<String>,
    /// The smallest quota of processor time of any of these groups.
    pub cpu_quota: Fact<CpuQuota>,
    /// How often [`Self::cpu_quota`] has stopped its group since the group was created.
    pub throttling: Fact<Throttling>,
    /// The processors of the group's cpuset.
    pub cpuset: Fact<Vec<u32>>,
    /// The path of the uppermost group whose cpuset has these processors only; the groups below have it from this one.
    pub cpuset_group: Fact<String>,
    /// The processors on which linerate may run: those that both the cpuset and the affinity allow.
    pub allowed: Fact<Vec<u32>>,
    /// The smallest limit of memory of any of these groups. When a group reaches its limit, its caches are reduced; if
    /// that isn't enough, some of its processes are killed.
    pub memory_max: Fact<MemoryLimit>,
    /// The smallest limit of any of these groups above which the kernel slows down the group's processes
    /// (`memory.high`).
    pub memory_high: Fact<MemoryLimit>,
    /// The limits on the rates of block devices.
    pub io: Fact<Vec<IoLimit>>,
}

/// A limit on the rate at which a group, and all groups below it, read or write a block device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoLimit {
    /// The path of the group that has the limit.
    pub group: String,
    /// The device's major and minor number, such as `259:0`.
    pub device: String,
    /// Bytes per second that the group may read.
    pub read: Option<u64>,
    /// Bytes per second that the group may write.
    pub write: Option<u64>,
}

/// A limit on the memory of a group and of all groups below it, including the page cache of their files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryLimit {
    /// The path of the group that has the limit.
    pub group: String,
    /// The limit in bytes.
    pub bytes: u64,
    /// The bytes that the group uses.
    pub used: Fact<u64>,
}

impl GroupFacts {
    pub(super) fn read(root: &Root<'_>) -> Self {
        let of = |controller: &str| Hierarchy::of(root, "self", controller);
        let (cpu, memory) = (of("cpu"), of("memory"));
        let quota = cpu.as_ref().and_then(|groups| smallest_quota(root, groups));
        let cpuset = of("cpuset").and_then(|groups| cpuset(root, &groups));
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
            io: io(root, &of),
            cpuset: cpuset.clone().map(|(processors, _)| processors),
            cpuset_group: cpuset.map(|(_, group)| group),
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

/// The cpuset of the nearest group that has a cpuset, which also applies to the groups below that group; and the path of the
/// uppermost group that has the same one.
fn cpuset(root: &Root<'_>, groups: &Hierarchy) -> Fact<(Vec<u32>, String)> {
    let file = match groups.version {
        HierarchyVersion::One => "cpuset.cpus",
        HierarchyVersion::Two => "cpuset.cpus.effective",
    };
    groups.texts(root, file).and_then(|texts| {
        let Some((nearest, text)) = texts.first() else { return Fact::NotApplicable };
        let limiting = texts.iter().take_while(|(_, same)| same == text).last();
        let name = limiting.map_or(&nearest.name, |(group, _)| &group.name);
        cpu_list_of(&format!("{}/{file}", nearest.dir), text).map(|processors| (processors, name.clone()))
    })
}

/// The processors in `Cpus_allowed_list` of proc_pid_status(5).
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

/// The limits on block devices. Version 1 has one file for reads and one for writes, version 2 has one file
/// for both.
fn io(root: &Root<'_>, of: &dyn Fn(&str) -> Fact<Hierarchy>) -> Fact<Vec<IoLimit>> {
    let limits = of("blkio").and_then(|groups| match groups.version {
        HierarchyVersion::One => {
            let read = io_limits(root, &groups, "blkio.throttle.read_bps_device", |limit, rest| {
                bytes_a_second(rest).map(|bytes| limit.read = bytes)
            });
            let write = io_limits(root, &groups, "blkio.throttle.write_bps_device", |limit, rest| {
                bytes_a_second(rest).map(|bytes| limit.write = bytes)
            });
            let [read, write] = [read, write].map(|limits| limits.or_else(|| Fact::Known(Vec::new())));
            read.and_then(|read| write.map(|write| [read, write].concat()))
        }
        HierarchyVersion::Two => Fact::NotApplicable,
    });
    let limits = limits.or_else(|| of("io").and_then(|groups| io_limits(root, &groups, "io.max", both_ways)));
    limits.and_then(|limits| if limits.is_empty() { Fact::NotApplicable } else { Fact::Known(limits) })
}

/// The limits in the file `file` of each group. Each line begins with a device; `read` parses the rest of the line, and
/// returns `None` if the rest is malformed.
fn io_limits(
    root: &Root<'_>,
    groups: &Hierarchy,
    file: &str,
    read: impl Fn(&mut IoLimit, &str) -> Option<()>,
) -> Fact<Vec<IoLimit>> {
    groups.texts(root, file).and_then(|texts| {
        let mut limits = Vec::new();
        for (group, text) in &texts {
            for line in text.lines() {
                let (device, rest) = line.split_once(' ').unwrap_or((line, ""));
                let mut limit =
                    IoLimit { group: group.name.clone(), device: device.to_owned(), ..IoLimit::default() };
                if read(&mut limit, rest).is_none() {
                    return or_odd(&format!("{}/{file}", group.dir), line, None);
                }
                limits.extend((limit.read.is_some() || limit.write.is_some()).then_some(limit));
            }
        }
        Fact::Known(limits)
    })
}

/// Parses the limits of a device in version 2, such as `rbps=2097152 wbps=max riops=max wiops=max`.
fn both_ways(limit: &mut IoLimit, rest: &str) -> Option<()> {
    for pair in rest.split_whitespace() {
        match pair.split_once('=')? {
            ("rbps", value) => limit.read = bytes_a_second(value)?,
            ("wbps", value) => limit.write = bytes_a_second(value)?,
            _ => {}
        }
    }
    Some(())
}

/// Parses a rate in bytes per second; `Some(None)` for `max`, and `None` for invalid text.
fn bytes_a_second(text: &str) -> Option<Option<u64>> {
    if text == "max" { Some(None) } else { text.trim().parse().ok().map(Some) }
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn read(files: &[(&str, &str)], unreadable: &[&str]) -> Fact<Vec<IoLimit>> {
        let root = tempfile::TempDir::new().unwrap();
        let place = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            path
        };
        files.iter().for_each(|(path, text)| fs::write(place(path), text).unwrap());
        // Directories take the places of the files, because even root can't read a directory as a file.
        unreadable.iter().for_each(|path| fs::create_dir(place(path)).unwrap());
        GroupFacts::read(&Root::files(root.path())).io
    }

    fn limits(files: &[(&str, &str)]) -> Vec<(String, Option<u64>, Option<u64>)> {
        let all = read(files, &[]).known().cloned().unwrap_or_default();
        all.into_iter()
            .map(|limit| (format!("{} {}", limit.group, limit.device), limit.read, limit.write))
            .collect()
    }

    #[test]
    fn rates_of_devices_are_read_in_both_versions() {
        let two = limits(&[
            ("proc/self/cgroup", "0::/pod/one\n"),
            ("proc/self/mountinfo", "28 21 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "io\n"),
            ("sys/fs/cgroup/pod/cgroup.controllers", "io\n"),
            ("sys/fs/cgroup/pod/io.max", "8:16 rbps=2097152 wbps=max riops=max wiops=120\n"),
            ("sys/fs/cgroup/pod/one/cgroup.controllers", "io\n"),
            (
                "sys/fs/cgroup/pod/one/io.max",
                "8:16 rbps=max wbps=max riops=5 wiops=5\n259:0 rbps=max wbps=7\n",
            ),
        ]);
        assert_eq!(
            two,
            [("/pod/one 259:0".into(), None, Some(7)), ("/pod 8:16".into(), Some(2_097_152), None)]
        );
        let one = limits(&[
            ("proc/self/cgroup", "4:blkio:/docker/3f8\n"),
            (
                "proc/self/mountinfo",
                "711 701 0:29 /docker/3f8 /sys/fs/cgroup/blkio ro - cgroup cgroup rw,blkio\n",
            ),
            ("sys/fs/cgroup/blkio/blkio.throttle.read_bps_device", "8:0 1048576\n"),
            ("sys/fs/cgroup/blkio/blkio.throttle.write_bps_device", "8:0 524288\n"),
        ]);
        let group = || "/docker/3f8 8:0".to_owned();
        assert_eq!(one, [(group(), Some(1_048_576), None), (group(), None, Some(524_288))]);
        assert!(limits(&[("proc/self/cgroup", "0::/\n")]).is_empty());
    }

    #[test]
    fn limits_that_cannot_be_read_are_not_missing_ones() {
        const MEMBER: (&str, &str) = ("proc/self/cgroup", "4:blkio:/docker/3f8\n0::/docker/3f8\n");
        const MOUNT: (&str, &str) = (
            "proc/self/mountinfo",
            "711 701 0:29 /docker/3f8 /sys/fs/cgroup/blkio ro - cgroup cgroup rw,blkio\n",
        );
        const READS: &str = "sys/fs/cgroup/blkio/blkio.throttle.read_bps_device";
        const WRITES: &str = "sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";
        let reason = |io: Fact<Vec<IoLimit>>| match io {
            Fact::Unreadable(reason) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason(read(&[MEMBER, MOUNT, (WRITES, "")], &[READS])).contains(READS));
        assert!(reason(read(&[MEMBER, MOUNT, (READS, "8:0 1048576\n")], &[WRITES])).contains(WRITES));
        assert!(reason(read(&[MEMBER, MOUNT, (READS, "8:0 x\n"), (WRITES, "")], &[])).contains("8:0 x"));
        let hybrid = ("proc/self/mountinfo", "28 21 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        assert!(reason(read(&[MEMBER, hybrid], &[])).contains("/docker/3f8"), "its mount isn't there");
        assert_eq!(read(&[MEMBER, MOUNT, (READS, ""), (WRITES, "")], &[]), Fact::NotApplicable);
        assert_eq!(read(&[MEMBER, MOUNT], &[]), Fact::NotApplicable, "the kernel doesn't throttle");
    }
}
