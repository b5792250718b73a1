//! Each host of crates/host/tests/fixtures has exactly the findings of tests/expected/HOST.txt.
//!
//! `LINERATE_EXPECTED=write cargo test -p linerate-doctor --test hosts` writes them anew; `git diff` shows
//! what changed. One line a finding: check, place, severity, ceiling; sorted, so that additions merge.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use linerate_doctor::{Finding, Host, Need, Severity, examine_host};
use linerate_host::facts::{Node, Port};
use linerate_host::{Fact, Facts, Snapshot};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn hosts() -> BTreeMap<String, Facts> {
    let files = fs::read_dir(here("../host/tests/fixtures")).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, Facts::of_snapshot(&Snapshot::open(&path).unwrap()))
    };
    files.map(read).collect()
}

fn findings(name: &str, facts: &Facts) -> Vec<Finding> {
    examine_host(&Host::alone(name, facts, Need::OfPorts))
}

fn golden(findings: &[Finding]) -> String {
    let mut lines: Vec<String> = findings.iter().map(|finding| finding.line() + "\n").collect();
    lines.sort();
    lines.concat()
}

#[test]
fn each_host_has_exactly_its_findings() {
    let hosts = hosts();
    assert!(hosts.len() >= 15);
    let mut wrong = String::new();
    for (name, facts) in hosts {
        let path = here("tests/expected").join(format!("{name}.txt"));
        let found = golden(&findings(&name, &facts));
        if std::env::var_os("LINERATE_EXPECTED").is_some_and(|value| value == "write") {
            fs::write(&path, &found).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        wrong += &differences(&name, &expected, &found);
    }
    assert!(wrong.is_empty(), "- expected, + found:\n{wrong}");
}

fn differences(host: &str, expected: &str, found: &str) -> String {
    let lacks = |lines: &str, line: &str| !lines.lines().any(|other| other == line);
    let gone = expected.lines().filter(|line| lacks(found, line)).map(|line| format!("{host}: - {line}\n"));
    let new = found.lines().filter(|line| lacks(expected, line)).map(|line| format!("{host}: + {line}\n"));
    gone.chain(new).collect()
}

#[test]
fn tuned_hosts_have_nothing_but_notes() {
    let hosts = hosts();
    for name in ["mlx5-25g-tuned", "esnet-dtn-100g", "e1000e-desktop", "vmxnet3"] {
        let worse: Vec<_> =
            findings(name, &hosts[name]).into_iter().filter(|f| f.severity > Severity::Note).collect();
        assert!(worse.is_empty(), "{name}: {worse:#?}");
    }
}

/// Set as ESnet's guides for transfer hosts say, and then nobody is told anything.
#[test]
fn a_host_tuned_by_the_guide_has_no_finding_at_all() {
    assert_eq!(findings("esnet-dtn-100g", &hosts()["esnet-dtn-100g"]), []);
}

/// The same host with a second socket; with a port of 40 Gbit/s and the buffers that the guide sets for it; after a burst.
#[test]
fn variants_of_such_a_host_have_notes_only() {
    type Change = fn(&mut Facts);
    let two_sockets: Change = |facts| {
        let (Fact::Known(nodes), Fact::Known(cores)) = (&mut facts.cpu.nodes, &mut facts.cpu.siblings) else {
            panic!("no nodes")
        };
        nodes.push(Node { number: 1, cpus: Fact::Known((16..32).collect()), ..nodes[0].clone() });
        cores.extend((16..32).map(|cpu| vec![cpu]));
        facts.cpu.sockets = Fact::Known(2);
    };
    let slower: Change = |facts| {
        facts.tcp.rmem = Fact::Known([4096, 87_380, 64 << 20]);
        facts.tcp.wmem = Fact::Known([4096, 65_536, 64 << 20]);
        port(facts).speed_mbps = Fact::Known(40_000);
    };
    let burst: Change = |facts| {
        port(facts).statistics = Fact::Known([("tx_global_pause".to_owned(), 12)].into());
    };
    for (change, check) in [(two_sockets, "numa-remote"), (slower, "tcp-buffers"), (burst, "flow-control")] {
        let mut facts = hosts().remove("esnet-dtn-100g").unwrap();
        change(&mut facts);
        let found = findings("h", &facts);
        assert!(found.iter().any(|finding| finding.check == check), "{check}: {found:#?}");
        assert!(found.iter().all(|finding| finding.severity == Severity::Note), "{check}: {found:#?}");
    }
}

fn port(facts: &mut Facts) -> &mut Port {
    let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
    &mut ports[0]
}

#[test]
fn each_finding_says_why_and_what_to_do() {
    for (name, facts) in hosts() {
        for finding in findings(&name, &facts) {
            assert!(!finding.evidence.is_empty() && finding.fix.is_some(), "{name}: {finding:#?}");
            assert!(!finding.sources.is_empty() && finding.host == name, "{name}: {finding:#?}");
            assert!(finding.ceiling.is_none_or(|c| c.is_finite() && c >= 0.0), "{name}: {finding:#?}");
        }
    }
}

/// No source, or few of them: a finding less, or another severity, but no panic.
#[test]
fn hosts_without_some_of_their_sources_are_survived() {
    for name in ["bare-gen1-x4", "stock-10g", "virtio-one-queue", "bond-layer2", "kvm-host-no-vhost"] {
        let snapshot = Snapshot::open(&here("../host/tests/fixtures").join(format!("{name}.txt"))).unwrap();
        let paths: Vec<String> = snapshot.paths().collect();
        for path in &paths {
            let mut rest = snapshot.clone();
            assert!(rest.remove(path));
            assert!(findings(name, &Facts::of_snapshot(&rest)).iter().all(|f| !f.title.is_empty()));
        }
        assert_eq!(findings(name, &Facts::default()), []);
    }
}
