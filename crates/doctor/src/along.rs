//! The ports that a path takes: those of its route, and those below them.

use linerate_host::facts::{BesidePort, Port, PortKind, TakenRoute};
use linerate_host::{Fact, Facts};

use crate::subject::{is_line, is_up};

/// Drivers of ports that lead to guests and containers. A bridge has them beside the port that leads out.
const INWARDS: [&str; 3] = ["veth", "tun", "netkit"];

/// The facts of a path's end without the ports that its route doesn't take. They stay as they are where the route isn't known, or
/// where it isn't known what its port stands on: below a tunnel or a virtual switch, any port may carry the packets.
pub fn along_route(mut facts: Facts) -> Facts {
    let Some(names) = taken(&facts) else { return facts };
    let Fact::Known(ports) = &mut facts.ports else { return facts };
    let (on, beside): (Vec<_>, Vec<_>) =
        std::mem::take(ports).into_iter().partition(|port| names.contains(&port.name));
    *ports = on;
    if let Fact::Known(route) = &mut facts.route {
        route.beside = fastest(&beside);
    }
    facts
}

/// The names of all ports that the route takes.
fn taken(facts: &Facts) -> Option<Vec<String>> {
    let (all, route) = (facts.ports.known()?, facts.route.known()?);
    let first = used(route, facts).iter().filter_map(|name| all.iter().find(|port| port.name == *name));
    let mut found: Vec<&Port> = first.collect();
    let mut next = 0;
    while let Some(port) = found.get(next).copied() {
        for below in all.iter().filter(|other| is_below(other, port)) {
            if found.iter().all(|other| other.name != below.name) {
                found.push(below);
            }
        }
        next += 1;
    }
    let leads_out = found.iter().any(|port| is_end(port));
    leads_out.then(|| found.into_iter().map(|port| port.name.clone()).collect())
}

/// All next hops, unless the kernel has all packets between two hosts take the same: without a setting it chooses by the two
/// addresses of IPv4.
fn used<'a>(route: &'a TakenRoute, facts: &Facts) -> &'a [String] {
    let is_one = !route.is_v6 && facts.tcp.multipath_hash.get().unwrap_or(0) == 0;
    if is_one || route.ways.len() < 2 { &route.ports } else { &route.ways }
}

/// True if `other` carries packets of `port`, which stands on it or is made of it.
fn is_below(other: &Port, port: &Port) -> bool {
    let driver = |port: &Port, names: &[&str]| {
        port.driver.known().is_some_and(|driver| names.contains(&driver.as_str()))
    };
    let layer = port.layer.known();
    let stands = port.vlan.known().is_some_and(|vlan| vlan.lower == other.name)
        || layer.is_some_and(|layer| !layer.is_elsewhere && layer.below.as_ref() == Some(&other.name));
    // Within a VRF the route names the port itself.
    let is_vrf = driver(port, &["vrf"]) || layer.is_some_and(|layer| layer.kind.as_deref() == Some("vrf"));
    let is_part = other.master.known() == Some(&port.name) && !is_vrf && !driver(other, &INWARDS);
    let lends = port
        .physical_function
        .known()
        .is_some_and(|function| other.pci.known().is_some_and(|pci| pci.address == *function));
    stands || is_part || lends
}

/// A device, or a port whose other end is in another namespace: below it nothing can be seen from here.
fn is_end(port: &Port) -> bool {
    port.kind.get().is_some_and(|kind| kind != PortKind::Software)
        || port.layer.known().is_some_and(|layer| layer.is_elsewhere)
}

fn fastest(ports: &[Port]) -> Option<BesidePort> {
    let lines = ports.iter().filter(|port| is_up(port) && is_line(port));
    let (port, mbps) =
        lines.filter_map(|port| Some((port, port.speed_mbps.get()?))).max_by_key(|(_, mbps)| *mbps)?;
    Some(BesidePort { name: port.name.clone(), mbps })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture};
    use linerate_host::facts::PortLayer;

    fn names(facts: &Facts) -> Vec<&str> {
        facts.ports.known().unwrap().iter().map(|port| port.name.as_str()).collect()
    }

    fn over(name: &str, ports: &[&str], change: impl FnOnce(&mut Facts)) -> Facts {
        along_route(changed(name, |facts| {
            let ports = ports.iter().map(|port| (*port).to_owned()).collect();
            facts.route = Fact::Known(TakenRoute { ports, ..TakenRoute::default() });
            change(facts);
        }))
    }

    #[test]
    fn ports_beside_the_route_are_left_out() {
        let whole = fixture("igb-sriov");
        assert!(names(&whole).len() > 2, "{:?}", names(&whole));
        let one = over("igb-sriov", &["eth0"], |_| ());
        assert_eq!(names(&one), ["eth0"]);
        assert_eq!(names(&along_route(whole.clone())), names(&whole), "without a route");
    }

    #[test]
    fn a_bond_is_all_of_its_ports() {
        let bond = over("bond-layer2", &["bond0"], |_| ());
        assert_eq!(names(&bond), ["bond0", "eth0", "eth1"]);
    }

    #[test]
    fn the_fastest_port_beside_the_route_is_remembered() {
        let slow = over("bond-layer2", &["eth0"], |facts| {
            let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
            ports.iter_mut().find(|port| port.name == "eth1").unwrap().speed_mbps = Fact::Known(100_000);
        });
        let beside = slow.route.known().unwrap().beside.clone().unwrap();
        assert_eq!((beside.name.as_str(), beside.mbps), ("eth1", 100_000));
    }

    #[test]
    fn next_hops_count_where_connections_are_spread_over_them() {
        let hops = |policy: Option<u32>, is_v6| {
            let facts = over("bond-layer2", &["eth0"], |facts| {
                let Fact::Known(route) = &mut facts.route else { panic!("none") };
                (route.ways, route.is_v6) = (vec!["eth0".into(), "eth1".into()], is_v6);
                facts.tcp.multipath_hash = policy.map_or(Fact::NotApplicable, Fact::Known);
            });
            names(&facts).len()
        };
        assert_eq!(
            (hops(None, false), hops(Some(0), false), hops(Some(1), false), hops(Some(0), true)),
            (1, 1, 2, 2)
        );
    }

    #[test]
    fn below_a_tunnel_any_port_may_be() {
        let tunnel = |elsewhere: bool| {
            let facts = over("stock-10g", &["tun0"], |facts| {
                let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
                let layer = PortLayer { is_elsewhere: elsewhere, ..PortLayer::default() };
                let kind = Fact::Known(PortKind::Software);
                let name = "tun0".into();
                ports.push(Port { name, kind, layer: Fact::Known(layer), ..Port::default() });
            });
            names(&facts).len()
        };
        assert_eq!(tunnel(false), names(&fixture("stock-10g")).len() + 1);
        assert_eq!(tunnel(true), 1, "its other end is in another namespace");
    }
}
