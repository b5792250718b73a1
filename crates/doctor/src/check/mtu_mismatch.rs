//! Ports of one host whose MTUs don't match: a bond or bridge and its members, a VLAN and the port below it.

use linerate_host::facts::{Facts, Port};

use super::{Check, CheckRun, overlay};
use crate::along::leads_in;
use crate::formula::goodput::Segments;
use crate::same_cause::once_at_each;
use crate::source::{BRIDGE, ESNET_MTU};
use crate::stack::with_lower;
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "mtu-mismatch",
    about: "ports of one host whose MTUs don't match",
    sources: &[ESNET_MTU, BRIDGE],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    let lost = host.linked().flat_map(|port| lost(host.facts, port));
    // All ports of a bridge that lead to guests or containers have one finding together.
    let lost = once_at_each(lost, |place| format!("{place} takes only smaller packets too")).into_iter();
    let small = host.linked().filter_map(|port| small(host, port));
    lost.chain(small).collect()
}

/// A bridge, bond or team sends through its members. A VRF has members too, but sends nothing itself: its MTU has no
/// effect.
fn forwards(master: &Port) -> bool {
    master.driver.known().is_some_and(|driver| ["bridge", "bonding", "team"].contains(&driver.as_str()))
}

/// The findings about a VLAN and the port below it, and about a master and its port, which may be a VLAN. Each has a
/// key, by which findings are merged.
fn lost(facts: &Facts, port: &Port) -> Vec<(String, Finding)> {
    let below = port.vlan.known().and_then(|vlan| facts.port(&vlan.lower));
    let master = port.master.known().and_then(|name| facts.port(name)).filter(|master| forwards(master));
    let pairs = below.map(|lower| (port, lower)).into_iter().chain(master.map(|upper| (upper, port)));
    let found = pairs.filter_map(|(upper, lower)| {
        let key = if leads_in(lower) {
            format!("within {}", upper.name)
        } else {
            format!("{} {}", upper.name, lower.name)
        };
        Some((key, too_large(facts, upper, lower, port)?))
    });
    found.collect()
}

/// The finding that the upper port sends packets that are too large for the lower one.
fn too_large(facts: &Facts, upper: &Port, lower: &Port, port: &Port) -> Option<Finding> {
    let (above, below) = (upper.mtu.get()?, lower.mtu.get()?);
    if above <= below {
        return None;
    }
    let title = format!(
        "{} sends packets of {above} bytes, but {} below it takes only {below}",
        upper.name, lower.name
    );
    // Only larger packets to one guest or container are lost, and none of the host's own packets.
    let severity = if leads_in(lower) { Severity::Minor } else { Severity::Major };
    let finding = Finding::new(severity, title)
        .at(&port.name)
        .evidence(format!("MTU of {}: {above}; of {}: {below}", upper.name, lower.name))
        .evidence("small segments pass, full segments are dropped or cut: connections open, and then hang");
    Some(if leads_in(lower) {
        within(finding, upper, above, below)
    } else {
        matched(finding, facts, upper, lower)
    })
}

/// The fix for a port whose other end is in a guest or a container. The MTU of that end decides, and can't be seen from
/// here.
fn within(finding: Finding, upper: &Port, above: u32, below: u32) -> Finding {
    let set = |mtu: u32| format!("ip link set {} mtu {mtu}", upper.name);
    finding
        .fix(format!(
            "set MTU {above} where the network of the guests or containers is configured, and start them anew; or {}",
            set(below)
        ))
        .undo(set(above))
        .conflict("don't only run ip link on the port here: its other end keeps its MTU, and full packets to it are then lost unseen")
}

/// The fix: raise the MTU of the lower port, after those of the ports below it; or, if one of these MTUs can't be
/// raised, lower the MTU of the upper port.
fn matched(finding: Finding, facts: &Facts, upper: &Port, lower: &Port) -> Finding {
    let (above, below) = (upper.mtu.get().unwrap_or(0), lower.mtu.get().unwrap_or(0));
    let ports = with_lower(facts, lower);
    let most = ports.iter().filter_map(|port| port.layer.known()?.max_mtu).min().unwrap_or(u32::MAX);
    if above > most {
        let set = |mtu: u32| format!("ip link set {} mtu {mtu}", upper.name);
        return finding.fix(set(below)).undo(set(above));
    }
    let small: Vec<(&str, u32)> = ports
        .iter()
        .filter_map(|port| Some((port.name.as_str(), port.mtu.get().filter(|mtu| *mtu < above)?)))
        .collect();
    let set = |name: &str, mtu: u32| format!("ip link set {name} mtu {mtu}");
    let joined = |commands: Vec<String>| commands.join("; ");
    let fix = small.iter().map(|(name, _)| set(name, above)).collect();
    let undo = small.iter().rev().map(|(name, now)| set(name, *now)).collect();
    finding.fix(joined(fix)).undo(joined(undo))
}

/// The finding that containers behind a bridge send smaller packets than each device of the host allows. On a host with
/// a tunnel the packets may be smaller on purpose, because the tunnel's headers need room.
fn small(host: &Host<'_>, bridge: &Port) -> Option<Finding> {
    let members = bridge.bridge_ports.known()?;
    // If the bridge itself leads to a network, packets leave by that member, whose MTU is the bridge's.
    let is_within = |name: &String| host.facts.port(name).is_none_or(leads_in);
    if !members.iter().all(is_within) {
        return None;
    }
    let is_veth =
        |name: &String| host.facts.port(name).is_some_and(|p| p.driver.known().is_some_and(|d| d == "veth"));
    // It isn't known through which port the containers' packets leave.
    let outside =
        host.devices().filter(|port| !members.contains(&port.name)).min_by_key(|port| port.mtu.get())?;
    let (own, outer) = (bridge.mtu.get()?, outside.mtu.get()?);
    if own >= outer || !members.iter().any(is_veth) || host.linked().any(overlay::is_tunnel) {
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
        "set MTU {outer} where the containers' network is configured, and recreate the containers (docker: \"mtu\": {outer} in daemon.json; for a user-defined network: --opt com.docker.network.driver.mtu={outer})"
    ))
    .conflict("don't only run ip link on the bridge: running containers keep their MTU, and full packets to them are then lost");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, edited, fixture, found, lines, port_of};
    use linerate_host::Fact;
    use linerate_host::facts::{PortKind, PortLayer};

    #[test]
    fn containers_with_small_packets_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("veth-host"))), ["mtu-mismatch docker0 minor 9.41 Gbit/s"]);
    }

    /// The headers of a tunnel need room. With ports of two MTUs it isn't known which port the containers use.
    #[test]
    fn small_packets_for_a_tunnel_or_a_second_port_are_right() {
        let with = |name: &str, change: fn(&mut Port), then: fn(&mut Facts)| {
            changed("veth-host", |facts| {
                let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
                let card = ports.iter().find(|port| port.kind.get() == Some(PortKind::Physical));
                let mut port = Port { name: name.into(), ..card.expect("a card").clone() };
                change(&mut port);
                ports.push(port);
                then(facts);
            })
        };
        let beside = |change: fn(&mut Port)| with("other0", change, |_| ());
        let tunnel = beside(|port| {
            port.kind = Fact::Known(PortKind::Software);
            port.layer = Fact::Known(PortLayer { kind: Some("vxlan".into()), ..PortLayer::default() });
        });
        assert!(found(&CHECK, &tunnel).is_empty());
        let small: fn(&mut Port) = |port| port.mtu = Fact::Known(1500);
        let uplink = with("up0", small, |facts| {
            let Fact::Known(members) = &mut port_of(facts, "docker0").bridge_ports else {
                panic!("no members")
            };
            members.push("up0".into());
        });
        assert!(found(&CHECK, &uplink).iter().all(|finding| !finding.title.starts_with("containers")));
        assert!(found(&CHECK, &beside(small)).is_empty());
        assert_eq!(found(&CHECK, &beside(|_| ())).len(), 1);
    }

    #[test]
    fn a_member_that_takes_less_is_worse() {
        let small = edited("bond-layer2", "eth1", |port| port.mtu = Fact::Known(1500));
        assert_eq!(lines(&found(&CHECK, &small)), ["mtu-mismatch eth1 major -"]);
    }

    #[test]
    fn a_guest_that_takes_less_costs_the_host_nothing() {
        let small = edited("kvm-host-no-vhost", "tap0", |port| port.mtu = Fact::Known(1400));
        let found = found(&CHECK, &small);
        assert_eq!(lines(&found), ["mtu-mismatch tap0 minor -"]);
        let fix = found[0].fix.as_deref().unwrap();
        assert!(!fix.contains("ip link set tap0") && fix.ends_with(" mtu 1400"), "{fix}");
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

    /// A bridge of 9000 bytes over a VLAN of 1500 over a bond of 1500: the kernel refuses more for the VLAN than for
    /// the bond.
    #[test]
    fn the_ports_below_come_first() {
        let stacked = crate::testing::stacked(&[("bond0", 1500), ("bond0.100", 1500), ("br0", 9000)]);
        let found = found(&CHECK, &stacked);
        assert_eq!(lines(&found), ["mtu-mismatch bond0.100 major -"]);
        assert_eq!(
            found[0].fix.as_deref(),
            Some("ip link set bond0 mtu 9000; ip link set bond0.100 mtu 9000")
        );
        assert_eq!(
            found[0].undo.as_deref(),
            Some("ip link set bond0.100 mtu 1500; ip link set bond0 mtu 1500")
        );
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
