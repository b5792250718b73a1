//! Limits of control groups on the hosts of tests/groups. Their values are from public reports.

use std::path::{Path, PathBuf};

use linerate_host::facts::{GroupFacts, MemoryLimit};
use linerate_host::{CpuQuota, Fact, Facts, Snapshot, Throttling};

fn snapshot(name: &str) -> Snapshot {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/groups");
    Snapshot::open(&dir.join(format!("{name}.txt"))).unwrap()
}

fn groups(name: &str) -> GroupFacts {
    Facts::of_snapshot(&snapshot(name)).groups
}

const CONTAINER: &str = "/kubepods.slice/kubepods-pod2fdafb62_3de2_43e6_900a_eda4bf1982db.slice/\
    cri-containerd-d30a5394062be7df6b9d9297e4fb6e30561e1c5f949e66acded795d17f05528b.scope";

#[test]
fn a_pod_of_version_1_has_a_quota_a_cpuset_and_a_memory_limit() {
    let GroupFacts {
        version, name, cpu_quota, throttling, cpuset, allowed, memory_max, memory_high, io, ..
    } = groups("v1-kubepods");
    let group = "/kubepods.slice/kubepods-podxxx".to_owned();
    assert_eq!(version, Fact::Known(1));
    assert_eq!(name, Fact::Known(group.clone()));
    assert_eq!(
        cpu_quota,
        Fact::Known(CpuQuota { group: group.clone(), processors: 1.0, period_us: 100_000 })
    );
    assert_eq!(throttling, Fact::Known(Throttling { periods: 3076, throttled: 34, throttled_us: 12_070 }));
    assert_eq!((cpuset, allowed), (Fact::Known(vec![2]), Fact::Known(vec![2])));
    assert_eq!(memory_max, Fact::Known(MemoryLimit { group, bytes: 2 << 30, used: Fact::Known(901_120) }));
    assert_eq!((memory_high, io), (Fact::NotApplicable, Fact::NotApplicable));
}

#[test]
fn a_container_of_version_2_has_the_smallest_limits_of_its_own_and_its_pods_group() {
    let facts = groups("v2-kubepods");
    assert_eq!(facts.version, Fact::Known(2));
    assert_eq!(facts.name, Fact::Known(CONTAINER.into()));
    let pod = CONTAINER.rsplit_once('/').unwrap().0.to_owned();
    let quota = facts.cpu_quota.known().unwrap();
    assert_eq!((&quota.group, quota.processors), (&pod, 4.0), "smaller than the container's 4.1");
    assert_eq!(
        facts.throttling,
        Fact::Known(Throttling { periods: 7607, throttled: 4174, throttled_us: 3_322_148_518 })
    );
    assert_eq!(facts.cpuset, Fact::Known(vec![2, 3, 66, 67]));
    assert_eq!(
        facts.memory_max.known().map(|limit| (limit.group.as_str(), limit.bytes)),
        Some((CONTAINER, 4 << 30))
    );
    assert_eq!(facts.memory_high, Fact::NotApplicable);
}

#[test]
fn a_docker_container_with_a_namespace_of_its_own_sees_only_its_group() {
    let facts = groups("v2-docker");
    let quota = facts.cpu_quota.known().unwrap();
    assert_eq!((facts.name, quota.group.as_str(), quota.processors), (Fact::Known("/".into()), "/", 0.25));
    assert_eq!(facts.memory_max.known().map(|limit| limit.bytes), Some(67_108_864));
    assert_eq!(facts.throttling.known().map(|of| (of.periods, of.throttled)), Some((30, 30)));
}

#[test]
fn a_login_without_limits_has_none() {
    let facts = groups("v2-login");
    assert_eq!(facts.name, Fact::Known("/user.slice/user-1000.slice/session-41.scope".into()));
    assert_eq!((facts.cpu_quota, facts.throttling), (Fact::NotApplicable, Fact::NotApplicable));
    assert_eq!((facts.memory_max, facts.memory_high), (Fact::NotApplicable, Fact::NotApplicable));
    assert_eq!(facts.cpuset.known().map(Vec::len), Some(24));
}

/// If a source is missing, a limit is unknown, and never has a wrong value.
#[test]
fn without_a_source_no_limit_is_another() {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/groups"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
    files.sort();
    assert!(files.len() >= 4);
    for path in files {
        let whole = Snapshot::open(&path).unwrap();
        let before = serde_json::to_value(Facts::of_snapshot(&whole).groups).unwrap();
        for source in whole.paths() {
            let mut rest = whole.clone();
            assert!(rest.remove(&source));
            let after = serde_json::to_value(Facts::of_snapshot(&rest).groups).unwrap();
            for (name, value) in after.as_object().unwrap() {
                let is_unknown = value == "not_applicable" || value.get("unreadable").is_some();
                let loses_use = source.ends_with("memory.current") || source.ends_with("usage_in_bytes");
                assert!(
                    is_unknown || *value == before[name] || loses_use,
                    "{path:?} without {source}: {name}: {value}"
                );
            }
        }
    }
}
