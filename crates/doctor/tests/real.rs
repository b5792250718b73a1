//! Hosts of other people, as far as they published what they saw: values of ethtool, lspci, ip and inxi in the form of a
//! snapshot, each with the address where they are. The doctor finds on each what its file says behind `finds`, with its advice.
//!
//! `LINERATE_EXPECTED=write cargo test -p linerate-doctor --test real` writes the findings anew; `git diff` shows what changed.
//! Look at each line as an engineer of that host's: is it so, and would the advice help?

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use linerate_doctor::{Finding, Host, Need, Severity, examine_host};
use linerate_host::{Facts, Snapshot};

const FINDS: &str = "finds\n";

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The host in a file, and what is found on it.
fn host(path: &Path) -> (String, String) {
    let text = fs::read_to_string(path).unwrap();
    let (host, found) = text.split_once(FINDS).unwrap_or((&text, ""));
    (host.to_owned(), found.to_owned())
}

fn facts(path: &Path) -> Facts {
    Facts::of_snapshot(&Snapshot::parse(&host(path).0).unwrap_or_else(|why| panic!("{path:?}: {why}")))
}

fn findings(facts: &Facts) -> Vec<Finding> {
    examine_host(&Host::alone("h", facts, Need::OfPorts))
}

fn reported(finding: &Finding) -> String {
    let fix = finding.fix.as_deref().unwrap_or("-");
    format!("{}\n  {}\n  fix {fix}\n", finding.line(), finding.title)
}

#[test]
fn each_host_has_exactly_its_findings() {
    let mut wrong = Vec::new();
    for path in files() {
        let (given, expected) = host(&path);
        let mut lines: Vec<String> = findings(&facts(&path)).iter().map(reported).collect();
        lines.sort();
        let found = lines.concat();
        if std::env::var_os("LINERATE_EXPECTED").is_some_and(|value| value == "write") {
            fs::write(&path, format!("{given}{FINDS}{found}")).unwrap();
        } else if found != expected {
            wrong.push(format!("{}: expected\n{expected}found\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_host_says_where_it_is_from() {
    let all = files();
    assert!(all.len() >= 20, "{}", all.len());
    for path in &all {
        let (given, _) = host(path);
        assert!(given.lines().any(|line| line.starts_with('#') && line.contains("https://")), "{path:?}");
        assert!(facts(path).ports.known().is_some_and(|ports| !ports.is_empty()), "{path:?}");
    }
    let drivers: BTreeSet<String> = all
        .iter()
        .flat_map(|path| facts(path).ports.known().cloned().unwrap_or_default())
        .filter_map(|port| port.driver.known().cloned())
        .collect();
    assert!(drivers.len() >= 15, "{drivers:?}");
}

/// What others' hosts show alone, without a path or a target, is seldom more than minor.
#[test]
fn no_host_is_alarmed_without_a_reason() {
    for path in files() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let severe: Vec<String> = findings(&facts(&path))
            .into_iter()
            .filter(|finding| finding.severity >= Severity::Major)
            .map(|finding| format!("{name} {}", finding.check))
            .collect();
        let known = [
            // A tenth of the card's lanes.
            "raspberry-82599 pcie-width",
            // A lane of the third generation below a card of 10 Gbit/s: its owner's iperf3 had 6.04 Gbit/s.
            "raspberry-aqc113 pcie-width",
            // No virtual function though one was ordered.
            "azure-without-function accelerated-networking",
        ];
        assert!(severe.iter().all(|each| known.contains(&each.as_str())), "{severe:?}");
    }
}
