//! Measures how often CPU quotas stopped this process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::hierarchy::Hierarchy;
use super::quota::{CpuQuota, QuotaUse, STAT, Throttling, throttling};
use crate::Fact;
use crate::root::Root;

/// Reads the quotas of this process's groups, from its own group up to the mount.
pub struct QuotaMeter {
    root: PathBuf,
    groups: Option<Hierarchy>,
    first: BTreeMap<String, Throttling>,
}

impl QuotaMeter {
    /// Starts to count now. `root` is the directory that is used in place of `/`.
    pub fn start(root: &Path) -> Self {
        let groups = Hierarchy::of(&Root::files(root), "self", "cpu").known().cloned();
        let mut meter = Self { root: root.to_owned(), groups, first: BTreeMap::new() };
        meter.first = meter.now();
        meter
    }

    /// The quota that stopped the process most often since the start; `None` if no group has a quota.
    pub fn since_start(&self) -> Option<QuotaUse> {
        let groups = self.groups.as_ref()?;
        let Fact::Known(quotas) = CpuQuota::of(&Root::files(&self.root), groups) else { return None };
        if quotas.is_empty() {
            return None;
        }
        let now = self.now();
        let used = quotas.into_iter().filter_map(|quota| {
            let throttling = *now.get(&quota.group)?;
            // If a group had no counters at the start, its controller was enabled later, so its counters
            // began at 0.
            let throttling = throttling.since(&self.first.get(&quota.group).copied().unwrap_or_default());
            Some(QuotaUse { quota, throttling })
        });
        used.max_by(|a, b| a.stopped_seconds().total_cmp(&b.stopped_seconds()))
    }

    fn now(&self) -> BTreeMap<String, Throttling> {
        let root = Root::files(&self.root);
        let groups = self.groups.iter().flat_map(|hierarchy| &hierarchy.groups);
        let read = |dir: &str| throttling(root.text(&format!("{dir}/{STAT}")).known()?);
        groups.filter_map(|group| Some((group.name.clone(), read(&group.dir)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    /// A directory that is used in place of `/`, with these files of this process's groups.
    fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = TempDir::new().unwrap();
        files.iter().for_each(|(path, text)| put(&root, path, text));
        root
    }

    fn put(root: &TempDir, path: &str, text: &str) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stat(periods: u64, throttled: u64) -> String {
        format!(
            "usage_usec 5\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {}\n",
            throttled * 85_000
        )
    }

    #[test]
    fn the_quota_of_a_group_above_counts_in_version_2() {
        let root = tree(&[
            ("proc/self/cgroup", "0::/pod/container\n"),
            (
                "proc/self/mountinfo",
                "28 21 0:25 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
            ),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n"),
            ("sys/fs/cgroup/pod/cgroup.controllers", "cpuset cpu memory\n"),
            ("sys/fs/cgroup/pod/container/cgroup.controllers", "cpuset cpu memory\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 5\nuser_usec 5\nsystem_usec 0\n"),
            ("sys/fs/cgroup/pod/cpu.max", "15000 100000\n"),
            ("sys/fs/cgroup/pod/cpu.stat", &stat(100, 50)),
            ("sys/fs/cgroup/pod/container/cpu.max", "200000 100000\n"),
            ("sys/fs/cgroup/pod/container/cpu.stat", &stat(100, 3)),
        ]);
        let meter = QuotaMeter::start(root.path());
        assert_eq!(meter.since_start().unwrap().throttling.throttled, 0);
        put(&root, "sys/fs/cgroup/pod/cpu.stat", &stat(150, 98));
        put(&root, "sys/fs/cgroup/pod/container/cpu.stat", &stat(150, 3));
        let used = meter.since_start().unwrap();
        assert_eq!((used.quota.group.as_str(), used.quota.processors), ("/pod", 0.15));
        assert_eq!(used.throttling, Throttling { periods: 50, throttled: 48, throttled_us: 48 * 85_000 });
        assert!((used.stopped_seconds() - 4.8).abs() < 1e-9);
    }

    #[test]
    fn a_docker_container_of_version_1_has_a_mount_of_its_own() {
        let root = tree(&[
            ("proc/self/cgroup", "4:cpu,cpuacct:/docker/3f8\n0::/docker/3f8\n"),
            (
                "proc/self/mountinfo",
                "711 701 0:29 /docker/3f8 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            (
                "sys/fs/cgroup/cpu,cpuacct/cpu.stat",
                "nr_periods 10\nnr_throttled 4\nthrottled_time 90000000\n",
            ),
        ]);
        let meter = QuotaMeter::start(root.path());
        put(
            &root,
            "sys/fs/cgroup/cpu,cpuacct/cpu.stat",
            "nr_periods 30\nnr_throttled 22\nthrottled_time 990000000\n",
        );
        let used = meter.since_start().unwrap();
        assert_eq!(
            (used.quota.processors, used.throttling.throttled, used.throttling.throttled_us),
            (0.5, 18, 900_000)
        );
    }

    #[test]
    fn without_a_quota_there_is_nothing_to_count() {
        let without = tree(&[
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/self/mountinfo", "28 21 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
            ("sys/fs/cgroup/a/cgroup.controllers", "cpu\n"),
            ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/cpu.stat", &stat(0, 0)),
        ]);
        assert_eq!(QuotaMeter::start(without.path()).since_start(), None);
        assert_eq!(QuotaMeter::start(tree(&[]).path()).since_start(), None, "no control groups");
    }
}
