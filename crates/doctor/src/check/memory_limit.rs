//! A memory limit of the control group in which linerate runs.

use super::control_group::lifted;
use super::{Check, CheckRun};
use crate::formula::{bytes, gbit};
use crate::source::{CGROUPS, VM_SYSCTL};
use crate::{Finding, Host, Severity};
use linerate_host::facts::MemoryLimit;

/// Seconds of writing at the needed rate for which there should be room, as for the host's own limit (write-back).
const PAUSE: f64 = 1.0;

pub(super) const CHECK: Check = Check {
    name: "memory-limit",
    about: "a control group whose memory limit holds less than one second of unwritten data",
    sources: &[CGROUPS, VM_SYSCTL],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let (groups, memory) = (&host.facts.groups, &host.facts.memory);
    let high = groups.memory_high.known().map(|limit| ("MemoryHigh", limit));
    let limits = groups.memory_max.known().map(|limit| ("MemoryMax", limit)).into_iter().chain(high);
    let (property, limit) = limits.min_by_key(|(_, limit)| limit.bytes)?;
    let (ratio, background) = (memory.dirty_ratio.get()?, memory.dirty_background_ratio.get()?);
    let share = if has_own_writers(host) { (f64::from(ratio) + f64::from(background)) / 200.0 } else { 1.0 };
    let room = limit.bytes as f64 * share;
    let seconds = room * 8.0 / host.rate();
    if ratio == 0 || seconds >= PAUSE || memory.total.get().is_some_and(|total| limit.bytes >= total) {
        return None;
    }
    let finding = Finding::new(
        Severity::Minor,
        format!("a control group limits linerate's memory to {}", bytes(limit.bytes as f64)),
    )
    .evidence(used(limit))
    .evidence(format!(
        "the page cache of written files counts too: writers wait for the disk after {}, {:.0} ms at {} ({})",
        bytes(room),
        seconds * 1e3,
        gbit(host.rate()),
        if share < 1.0 {
            format!("dirty_ratio {ratio} %, dirty_background_ratio {background} % of the limit")
        } else {
            "the limit itself".into()
        }
    ));
    let words = "raise the container's limit: docker update --memory, or resources.limits.memory in Kubernetes; or write a \
                 larger limit to the group's memory.max (version 1: memory.limit_in_bytes)";
    let now = limit.bytes.to_string();
    Some(
        lifted(finding, &limit.group, property, "infinity", &now, words)
            .conflict("the limit protects the memory of the host's other work"),
    )
}

/// File systems for which the kernel counts unwritten data by control group (cgroup-v2.rst, "Writeback").
const COUNTED: [&str; 5] = ["ext2", "ext4", "btrfs", "f2fs", "xfs"];

/// True if the dirty ratios apply to the group. In version 1 they don't, and for file systems outside of `COUNTED` the
/// kernel doesn't count by group.
fn has_own_writers(host: &Host<'_>) -> bool {
    let systems = host.facts.storage.file_systems.known().into_iter().flatten();
    let kinds: Vec<&String> = systems.filter_map(|fs| fs.kind.known()).collect();
    let is_counted = kinds.is_empty() || kinds.iter().any(|kind| COUNTED.contains(&kind.as_str()));
    host.facts.groups.version.get() == Some(2) && is_counted
}

fn used(limit: &MemoryLimit) -> String {
    let of = format!("the limit of the control group {}", limit.group);
    match limit.used.get() {
        Some(used) => format!("{of}; {} are in use", bytes(used as f64)),
        None => of,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::{Fact, Facts};

    fn limit(bytes: u64) -> Fact<MemoryLimit> {
        let group = "/system.slice/ssh.service".into();
        Fact::Known(MemoryLimit { group, bytes, used: Fact::Known(1 << 20) })
    }

    fn with(max: Fact<MemoryLimit>, high: Fact<MemoryLimit>) -> Facts {
        changed("stock-10g", |facts| (facts.groups.memory_max, facts.groups.memory_high) = (max, high))
    }

    #[test]
    fn little_memory_is_found_by_the_smaller_of_both_limits() {
        let max = found(&CHECK, &with(limit(200 << 20), Fact::NotApplicable));
        assert_eq!(lines(&max), ["memory-limit - minor -"]);
        assert_eq!(
            max[0].evidence[0],
            "the limit of the control group /system.slice/ssh.service; 1.0 MiB are in use"
        );
        assert_eq!(
            max[0].fix.as_deref(),
            Some("systemctl set-property --runtime ssh.service MemoryMax=infinity")
        );
        let high = found(&CHECK, &with(limit(2 << 30), limit(1 << 30)));
        assert!(high[0].fix.as_ref().unwrap().contains("MemoryHigh=infinity"), "{high:?}");
    }

    #[test]
    fn enough_memory_and_none_set_are_not() {
        assert!(found(&CHECK, &with(limit(12 << 30), Fact::NotApplicable)).is_empty());
        assert!(
            found(&CHECK, &with(limit(1 << 50), Fact::NotApplicable)).is_empty(),
            "more than the host has"
        );
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
