//! Processors on which linerate may not run.

use super::control_group::{leaves, lifted};
use super::{Check, CheckRun};
use crate::source::CGROUPS;
use crate::{Citation, Finding, Host};
use linerate_host::Fact;

pub(super) const CHECK: Check = Check {
    name: "cpuset",
    about: "a cpuset or an affinity that keeps linerate off some processors",
    sources: &[
        CGROUPS,
        Citation {
            name: "sched_setaffinity(2)",
            url: "https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html",
        },
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let groups = &host.facts.groups;
    let (allowed, online) = (groups.allowed.known()?, host.facts.cpu.online.known()?);
    let usable = online.iter().filter(|cpu| allowed.contains(cpu)).count();
    if usable == 0 || usable == online.len() {
        return None;
    }
    let by_group = groups
        .cpuset
        .known()
        .filter(|cpuset| !cpuset.is_empty() && online.iter().any(|cpu| !cpuset.contains(cpu)));
    let title = format!("linerate may run on {usable} of {} processors", online.len());
    let is_open = matches!(groups.cpuset, Fact::Unreadable(_));
    let finding = leaves(host, usable as f64, title).evidence(match by_group {
        Some(cpuset) => format!("the cpuset of linerate's control group has {} of them", cpuset.len()),
        None if is_open => {
            "the cpuset of linerate's control group can't be read: the cpuset or linerate's affinity excludes the other processors".into()
        }
        None => "linerate's affinity excludes the other processors, but its control group doesn't".into(),
    });
    // systemd sets the cpusets of version 2 only.
    let unit = groups.cpuset_group.known().filter(|_| groups.version == Fact::Known(2));
    let finding = match (by_group, unit) {
        (Some(cpuset), Some(group)) => {
            let now: Vec<String> = cpuset.iter().map(u32::to_string).collect();
            let words = "give the container more processors: docker update --cpuset-cpus, or another CPU manager policy in \
                         Kubernetes; or add processors to the group's cpuset.cpus";
            lifted(finding, group, "AllowedCPUs", "", &now.join(","), words)
        }
        (Some(_), None) => finding.fix("add processors to the cpuset.cpus of linerate's control group"),
        (None, _) if is_open => finding.fix(
            "start linerate without taskset, numactl and CPUAffinity=; in a container, raise the container's cpuset where the container is started",
        ),
        (None, _) => {
            finding.fix("start linerate, or the ssh server, without taskset, numactl and CPUAffinity=")
        }
    };
    Some(finding.conflict(
        "somebody may have reserved the other processors; the best processors are those of the card's NUMA node",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Facts;

    fn with(allowed: &[u32], cpuset: &[u32]) -> Facts {
        changed("stock-10g", |facts| {
            facts.groups.version = Fact::Known(2);
            facts.groups.cpuset_group = Fact::Known("/system.slice/ssh.service".into());
            facts.groups.allowed = Fact::Known(allowed.into());
            facts.groups.cpuset = Fact::Known(cpuset.into());
        })
    }

    #[test]
    fn few_processors_are_found_with_what_keeps_the_others() {
        let all = fixture("stock-10g").cpu.online.known().unwrap().clone();
        let by_group = found(&CHECK, &with(&[0], &[0]));
        assert_eq!(lines(&by_group), ["cpuset - note 18.3 Gbit/s"]);
        assert_eq!(by_group[0].evidence[1], "the cpuset of linerate's control group has 1 of them");
        assert_eq!(
            (by_group[0].fix.as_deref(), by_group[0].undo.as_deref()),
            (
                Some("systemctl set-property --runtime ssh.service AllowedCPUs="),
                Some("systemctl set-property --runtime ssh.service AllowedCPUs=0")
            )
        );
        let mut old = with(&[0], &[0]);
        old.groups.version = Fact::Known(1);
        assert_eq!(
            found(&CHECK, &old)[0].fix.as_deref(),
            Some("add processors to the cpuset.cpus of linerate's control group")
        );
        let by_affinity = found(&CHECK, &with(&[0, 1], &all));
        assert!(by_affinity[0].fix.as_ref().unwrap().contains("taskset"), "{by_affinity:?}");
        let mut unread = with(&[0, 1], &all);
        unread.groups.cpuset = Fact::Unreadable("/sys/fs/cgroup: permission denied".into());
        let unread = found(&CHECK, &unread);
        assert!(unread[0].evidence[1].contains("can't be read"), "{unread:?}");
        assert!(unread[0].fix.as_ref().unwrap().contains("cpuset"), "{unread:?}");
        assert!(found(&CHECK, &with(&all, &all)).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty(), "unknown");
    }
}
