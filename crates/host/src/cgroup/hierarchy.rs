//! The control groups of a process: /proc/PID/cgroup and the mounts of /proc/self/mountinfo.

use crate::Fact;
use crate::root::Root;

/// The most nested groups that are examined. No process is in a group that is nested more deeply.
const DEEPEST: usize = 64;

/// The version of the kernel's interface for control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HierarchyVersion {
    /// Version 1 (Documentation/admin-guide/cgroup-v1).
    One,
    /// Version 2 (Documentation/admin-guide/cgroup-v2.rst).
    Two,
}

/// A control group and all groups above it that are visible from here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hierarchy {
    pub version: HierarchyVersion,
    controller: String,
    /// The groups; the process's own group is the first.
    pub groups: Vec<ControlGroup>,
}

/// A control group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ControlGroup {
    /// The group's path in the hierarchy, as /proc/PID/cgroup writes it.
    pub name: String,
    /// The group's directory, without the leading slash.
    pub dir: String,
}

impl Hierarchy {
    /// The groups of a process (`self`, or a process ID) on which a controller acts; not applicable on a kernel without
    /// control groups.
    pub fn of(root: &Root<'_>, process: &str, controller: &str) -> Fact<Self> {
        root.text(&format!("proc/{process}/cgroup")).and_then(|text| {
            let Some((version, path)) = membership(&text, controller) else { return Fact::NotApplicable };
            root.needed("proc/self/mountinfo").and_then(|mounts| {
                let mounted = mounts.lines().filter_map(|line| GroupMount::parse(line, version, controller));
                // Each list of groups contains at least the group that is mounted.
                match mounted.filter_map(|mount| mount.groups(path)).max_by_key(Vec::len) {
                    Some(groups) => Fact::Known(Self { version, controller: controller.to_owned(), groups }),
                    None => Fact::Unreadable(format!(
                        "/proc/self/mountinfo holds no mount of the control group {path}"
                    )),
                }
            })
        })
    }

    /// The process's own group.
    pub fn own(&self) -> &ControlGroup {
        &self.groups[0]
    }

    /// The text of `file` in each group that has this file; the process's own group is the first. Not
    /// applicable if no group has the file.
    pub fn texts(&self, root: &Root<'_>, file: &str) -> Fact<Vec<(&ControlGroup, String)>> {
        let (mut texts, mut missing) = (Vec::new(), None);
        for (at, group) in self.groups.iter().enumerate() {
            match self.has_controller(root, group) {
                Fact::Known(true) => {}
                Fact::Known(false) | Fact::NotApplicable => continue,
                Fact::Unreadable(reason) => return Fact::Unreadable(reason),
            }
            let path = format!("{}/{file}", group.dir);
            match root.text(&path) {
                Fact::Known(text) => texts.push((group, text)),
                // The root of the hierarchy has no files with limits.
                Fact::NotApplicable if at + 1 == self.groups.len() => {}
                Fact::NotApplicable => missing = Some(path),
                Fact::Unreadable(reason) => return Fact::Unreadable(reason),
            }
        }
        match missing {
            Some(path) if !texts.is_empty() => Fact::Unreadable(format!("/{path} is missing")),
            _ if texts.is_empty() => Fact::NotApplicable,
            _ => Fact::Known(texts),
        }
    }

    /// True if the group has the controller. In version 2, a group has a controller only if the group above passes the
    /// controller on.
    fn has_controller(&self, root: &Root<'_>, group: &ControlGroup) -> Fact<bool> {
        match self.version {
            HierarchyVersion::One => Fact::Known(true),
            HierarchyVersion::Two => root
                .needed(&format!("{}/cgroup.controllers", group.dir))
                .map(|names| names.split_whitespace().any(|name| name == self.controller)),
        }
    }
}

/// The version and path in the line of /proc/PID/cgroup (`ID:CONTROLLERS:PATH`) with this controller; if no line has
/// the controller, those in the line of version 2 (`0::PATH`).
fn membership<'a>(text: &'a str, controller: &str) -> Option<(HierarchyVersion, &'a str)> {
    let lines = || {
        text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        })
    };
    let one = lines().find(|(names, _)| names.split(',').any(|name| name == controller));
    let two = || lines().find(|(names, _)| names.is_empty());
    one.map(|(_, path)| (HierarchyVersion::One, path))
        .or_else(|| two().map(|(_, path)| (HierarchyVersion::Two, path)))
}

/// A mount of a hierarchy, or of a part of a hierarchy.
struct GroupMount {
    /// The group that is mounted.
    group: String,
    point: String,
}

impl GroupMount {
    /// Parses a line of mountinfo; `None` unless the line is a mount of this controller's hierarchy.
    fn parse(line: &str, version: HierarchyVersion, controller: &str) -> Option<Self> {
        let (own, file_system) = line.split_once(" - ")?;
        let mut own = own.split(' ').skip(3);
        let (group, point) = (own.next()?, own.next()?);
        let mut about = file_system.split(' ');
        let (kind, options) = (about.next()?, about.nth(1)?);
        let is_it = match version {
            HierarchyVersion::One => {
                kind == "cgroup" && options.split(',').any(|option| option == controller)
            }
            HierarchyVersion::Two => kind == "cgroup2",
        };
        is_it.then(|| Self { group: group.to_owned(), point: point.to_owned() })
    }

    /// The group at `path` and the groups above it up to the mount; `None` if the group isn't below the
    /// mount, or if it is visible only from a parent namespace.
    fn groups(&self, path: &str) -> Option<Vec<ControlGroup>> {
        let mounted = self.group.trim_end_matches('/');
        let below = path.strip_prefix(mounted).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
        if parts.contains(&"..") || mounted.contains("/..") {
            return None;
        }
        let point = self.point.trim_matches('/');
        let group = |depth: usize| {
            let join = |start: &str| [&[start], &parts[..depth]].concat().join("/");
            let name = join(mounted);
            ControlGroup { name: if name.is_empty() { "/".into() } else { name }, dir: join(point) }
        };
        Some((0..=parts.len()).rev().take(DEEPEST).map(group).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKER: &str = "711 701 0:29 /docker/3f8 /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:15 - cgroup cgroup rw,cpu,cpuacct";

    fn groups(line: &str, version: HierarchyVersion, path: &str) -> Vec<(String, String)> {
        let mount = GroupMount::parse(line, version, "cpu").unwrap();
        mount.groups(path).unwrap_or_default().into_iter().map(|group| (group.name, group.dir)).collect()
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(name, dir)| ((*name).into(), (*dir).into())).collect()
    }

    #[test]
    fn a_process_is_in_one_group_of_a_controller() {
        let hybrid = "4:memory:/a\n1:cpu,cpuacct:/b:c\n0::/d\n";
        assert_eq!(membership(hybrid, "cpu"), Some((HierarchyVersion::One, "/b:c")));
        assert_eq!(membership(hybrid, "io"), Some((HierarchyVersion::Two, "/d")));
        assert_eq!(membership("3:cpuset:/\n", "cpu"), None);
    }

    #[test]
    fn a_container_sees_its_own_group() {
        let own = pairs(&[("/docker/3f8", "sys/fs/cgroup/cpu,cpuacct")]);
        assert_eq!(groups(DOCKER, HierarchyVersion::One, "/docker/3f8"), own);
        let inner = groups(DOCKER, HierarchyVersion::One, "/docker/3f8/inner");
        assert_eq!(inner[0].1, "sys/fs/cgroup/cpu,cpuacct/inner");
        assert_eq!(groups(DOCKER, HierarchyVersion::One, "/docker/3f80"), []);
    }

    #[test]
    fn a_host_sees_all_groups_above() {
        let line = "28 21 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let chain = [
            ("/user.slice/user-0.slice", "sys/fs/cgroup/user.slice/user-0.slice"),
            ("/user.slice", "sys/fs/cgroup/user.slice"),
            ("/", "sys/fs/cgroup"),
        ];
        assert_eq!(groups(line, HierarchyVersion::Two, "/user.slice/user-0.slice"), pairs(&chain));
        assert_eq!(groups(line, HierarchyVersion::Two, "/"), pairs(&[("/", "sys/fs/cgroup")]));
        assert_eq!(groups(line, HierarchyVersion::Two, "/../other"), [], "outside of the namespace");
    }

    #[test]
    fn other_mounts_are_not_taken() {
        assert!(GroupMount::parse(DOCKER, HierarchyVersion::Two, "cpu").is_none());
        assert!(GroupMount::parse(DOCKER, HierarchyVersion::One, "cpuset").is_none());
        assert!(GroupMount::parse("36 35 98:0 / / rw - ext4", HierarchyVersion::One, "cpu").is_none());
    }
}
