//! Hosts for the tests of checks: the snapshots of crates/host/tests/fixtures, and edits of them.

use std::path::Path;

use linerate_host::facts::{Port, PortKind, Vlan};
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

/// A port of these facts, to be changed.
pub fn port_of<'a>(facts: &'a mut Facts, name: &str) -> &'a mut Port {
    let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
    ports.iter_mut().find(|port| port.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The bond of `bond-layer2` with a VLAN above it, and a bridge whose only port is the VLAN, with these MTUs. Ports of
/// these that aren't named are left out.
pub fn stacked(mtus: &[(&str, u32)]) -> Facts {
    changed("bond-layer2", |facts| {
        let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
        let state = Fact::Known("up".to_owned());
        let kind = Fact::Known(PortKind::Software);
        let vlan = Vlan { id: 100, lower: "bond0".into() };
        let above =
            Port { name: "bond0.100".into(), kind: kind.clone(), vlan: Fact::Known(vlan), ..Port::default() };
        let members = Fact::Known(vec!["bond0.100".to_owned()]);
        let bridge = Port { name: "br0".into(), kind, bridge_ports: members, ..Port::default() };
        let has_bridge = mtus.iter().any(|(name, _)| *name == "br0");
        let master = if has_bridge { Fact::Known("br0".to_owned()) } else { Fact::NotApplicable };
        ports.push(Port { state: state.clone(), master, ..above });
        ports.push(Port {
            state,
            driver: Fact::Known("bridge".into()),
            master: Fact::NotApplicable,
            ..bridge
        });
        ports.retain(|port| port.name.starts_with("eth") || mtus.iter().any(|(name, _)| *name == port.name));
        for (name, mtu) in mtus {
            port_of(facts, name).mtu = Fact::Known(*mtu);
        }
        for name in ["eth0", "eth1"] {
            port_of(facts, name).mtu = Fact::Known(mtus[0].1);
        }
    })
}

/// The findings of a check on a host, with the check's name and sources.
pub fn found(check: &Check, facts: &Facts) -> Vec<Finding> {
    found_for(check, facts, Need::OfPorts)
}

/// Like [`found`], for this needed rate.
pub fn found_for(check: &Check, facts: &Facts, need: Need) -> Vec<Finding> {
    assert!(!matches!(check.run, CheckRun::Path(_)), "{} looks at paths", check.name);
    check.on_host(&Host::alone("h", facts, need))
}

/// Like [`found`], for an end of a path with this round trip, in seconds.
pub fn found_over(check: &Check, facts: &Facts, rtt: f64) -> Vec<Finding> {
    check.on_host(&Host { rtt: Some(rtt), ..Host::alone("h", facts, Need::OfPorts) })
}

/// The finding of a check between two hosts.
pub fn found_between(check: &Check, from: &Facts, to: &Facts, measured: PathMeasurements) -> Vec<Finding> {
    let host = |name, facts| Host::alone(name, facts, Need::OfPorts);
    let path = crate::Path { from: host("a", from), to: host("b", to), measured };
    assert!(matches!(check.run, CheckRun::Path(_)), "{} looks at hosts", check.name);
    check.on_path(&path).into_iter().collect()
}

/// The line of each finding: check, place, severity and ceiling.
pub fn lines(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::line).collect()
}
