//! Hosts for the tests of checks: the snapshots of crates/host/tests/fixtures, and edits of them.

use std::path::Path;

use linerate_host::facts::Port;
use linerate_host::{Fact, Facts, Snapshot};

use crate::check::{Check, CheckRun};
use crate::{Finding, Host, Need, PathMeasurements};

/// The host of a fixture.
pub fn fixture(name: &str) -> Facts {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures").join(format!("{name}.txt"));
    Facts::of_snapshot(&Snapshot::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The host of a fixture with one of its ports changed.
pub fn edited(name: &str, port: &str, change: impl FnOnce(&mut Port)) -> Facts {
    let mut facts = fixture(name);
    change(port_of(&mut facts, port));
    facts
}

/// The host of a fixture with anything changed.
pub fn changed(name: &str, change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = fixture(name);
    change(&mut facts);
    facts
}

/// A port, to be changed.
pub fn port_of<'a>(facts: &'a mut Facts, name: &str) -> &'a mut Port {
    let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
    ports.iter_mut().find(|port| port.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The findings of a check on a host, with the check's name and sources.
pub fn found(check: &Check, facts: &Facts) -> Vec<Finding> {
    found_for(check, facts, Need::OfPorts)
}

/// The same for a target in bits a second.
pub fn found_for(check: &Check, facts: &Facts, need: Need) -> Vec<Finding> {
    assert!(!matches!(check.run, CheckRun::Path(_)), "{} looks at paths", check.name);
    check.on_host(&Host { name: "h", facts, need })
}

/// The finding of a check between two hosts.
pub fn found_between(check: &Check, from: &Facts, to: &Facts, measured: PathMeasurements) -> Vec<Finding> {
    let host = |name, facts| Host { name, facts, need: Need::OfPorts };
    let path = crate::Path { from: host("a", from), to: host("b", to), measured };
    assert!(matches!(check.run, CheckRun::Path(_)), "{} looks at hosts", check.name);
    check.on_path(&path).into_iter().collect()
}

/// Names of findings, with their places.
pub fn lines(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::line).collect()
}
