//! Ports of one host whose MTUs don't match: a bond or bridge and its members, a VLAN and the port below it.

use linerate_host::facts::{Facts, Port};

use super::{Check, CheckRun};
use crate::along::leads_in;
use crate::formula::goodput::Segments;
use crate::source::{BRIDGE, ESNET_MTU};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "mtu-mismatch",
    about: "ports of one host whose MTUs don't match",
    sources: &[ESNET_MTU, BRIDGE],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    let lost = host.linked().filter_map(|port| lost(host.facts, port));
    let small = host.linked().filter_map(|port| small(host, port));
    lost.chain(small).collect()
}

/// A bridge, bond or team sends through its members. A VRF has members too, but sends nothing itself: its MTU has no effect.
fn forwards(master: &Port) -> bool {
    master.driver.known().is_some_and(|driver| ["bridge", "bonding", "team"].contains(&driver.as_str()))
}

/// The upper port sends packets that are too large for the lower one.
fn lost(facts: &Facts, port: &Port) -> Option<Finding> {
    let (upper, lower) = match (port.vlan.known(), port.master.known()) {
        (Some(vlan), _) => (port, facts.port(&vlan.lower)?),
        (_, Some(master)) => (facts.port(master).filter(|master| forwards(master))?, port),
        _ => return None,
    };
    let (above, below) = (upper.mtu.get()?, lower.mtu.get()?);
    if above <= below {
        return None;
    }
    let title = format!(
        "{} sends packets of {above} bytes, but {} below it takes only {below}",
        upper.name, lower.name
    );
    // A larger packet to one guest or container is lost, and none of the host's own.
    let severity = if leads_in(lower) { Severity::Minor } else { Severity::Major };
    let finding = Finding::new(severity, title)
        .at(&port.name)
        .evidence(format!("MTU of {}: {above}; of {}: {below}", upper.name, lower.name))
        .evidence("small segments pass, full ones are dropped or cut: connections are made, and then hang");
    // The lower port may not take as much: then the upper one must send less.
    let most = lower.layer.known().and_then(|layer| layer.max_mtu).unwrap_or(u32::MAX);
    let (name, now, then) =
        if above <= most { (&lower.name, below, above) } else { (&upper.name, above, below) };
    Some(finding.fix(format!("ip link set {name} mtu {then}")).undo(format!("ip link set {name} mtu {now}")))
}

/// Containers behind a bridge send smaller packets than the host's port allows.
fn small(host: &Host<'_>, bridge: &Port) -> Option<Finding> {
    let members = bridge.bridge_ports.known()?;
    let is_veth =
        |name: &String| host.facts.port(name).is_some_and(|p| p.driver.known().is_some_and(|d| d == "veth"));
    let outside =
        host.devices().filter(|port| !members.contains(&port.name)).max_by_key(|port| port.mtu.get())?;
    let (own, outer) = (bridge.mtu.get()?, outside.mtu.get()?);
    if own >= outer || !members.iter().any(is_veth) {
        return None;
    }
    let need = host.rate_of(outside)?;
    let payload = |mtu| Segments::usual(mtu).share() * need;
    let finding = Finding::leaves(
        payload(own),
        payload(outer),
        format!("containers on {} send packets of {own} bytes", bridge.name),
    )
    .at(&bridge.name)
    .evidence(format!("MTU of {} is {own}, of {} {outer}", bridge.name, outside.name))
    .fix(format!(
        "set MTU {outer} where the containers' network is configured, and create the containers anew (docker: \"mtu\": {outer} in \
         daemon.json; a network of its own: --opt com.docker.network.driver.mtu={outer})"
    ))
    .conflict("not by ip link on the bridge alone: running containers keep their MTU, and full packets to them are then lost");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, edited, fixture, found, lines, port_of};
    use linerate_host::Fact;

    #[test]
    fn containers_with_small_packets_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("veth-host"))), ["mtu-mismatch docker0 minor 9.41 Gbit/s"]);
    }

    #[test]
    fn a_member_that_takes_less_is_worse() {
        let small = edited("bond-layer2", "eth1", |port| port.mtu = Fact::Known(1500));
        assert_eq!(lines(&found(&CHECK, &small)), ["mtu-mismatch eth1 major -"]);
    }

    #[test]
    fn a_guest_that_takes_less_costs_the_host_nothing() {
        let small = edited("kvm-host-no-vhost", "tap0", |port| port.mtu = Fact::Known(1400));
        assert_eq!(lines(&found(&CHECK, &small)), ["mtu-mismatch tap0 minor -"]);
    }

    #[test]
    fn a_vrf_takes_no_packets_of_its_own_size() {
        let vrf = changed("bond-layer2", |facts| {
            let bond = facts.port("eth1").and_then(|port| port.master.known().cloned()).expect("a bond");
            let master = port_of(facts, &bond);
            (master.driver, master.mtu) = (Fact::Known("vrf".into()), Fact::Known(65_575));
        });
        assert!(found(&CHECK, &vrf).is_empty());
    }

    #[test]
    fn a_port_that_cant_take_more_is_left_as_it_is() {
        let fix = |most| {
            let small = edited("bond-layer2", "eth1", |port| {
                let layer = port.layer.known().cloned().unwrap_or_default();
                port.mtu = Fact::Known(1500);
                port.layer = Fact::Known(linerate_host::facts::PortLayer { max_mtu: Some(most), ..layer });
            });
            found(&CHECK, &small).remove(0).fix.unwrap()
        };
        assert!(fix(9600).starts_with("ip link set eth1 mtu "), "{}", fix(9600));
        assert_eq!(fix(1500), "ip link set bond0 mtu 1500");
    }

    /// With a larger bridge, the host would send packets that a running container doesn't take.
    #[test]
    fn a_bridge_of_running_containers_isnt_changed() {
        let found = found(&CHECK, &fixture("veth-host"));
        let fix = found[0].fix.as_ref().unwrap();
        assert!(!fix.contains("ip link") && fix.contains("daemon.json"), "{fix}");
        assert_eq!(found[0].undo, None);
    }

    #[test]
    fn equal_ones_are_not() {
        assert!(found(&CHECK, &fixture("bond-layer2")).is_empty());
        assert!(found(&CHECK, &fixture("kvm-host-no-vhost")).is_empty());
    }
}
