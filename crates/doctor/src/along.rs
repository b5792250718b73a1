//! The ports that a path takes: the ports of its route, and the ports below these.

use linerate_host::facts::{BesidePort, Port, PortKind, TakenRoute};
use linerate_host::{Fact, Facts};

use crate::subject::{is_line, is_up};

/// Drivers of ports that lead to guests and containers. A bridge has such ports in addition to the port that leads out
/// of the host.
const INWARDS: [&str; 3] = ["veth", "tun", "netkit"];

/// The bits of the multipath hash's fields that stand for the connections' ports: FIB_MULTIPATH_HASH_FIELD_SRC_PORT and
/// _DST_PORT.
const HASHED_PORTS: u32 = 0x10 | 0x20;

/// The facts of a path's end without the ports that its route doesn't take. All ports stay if the route isn't known, or
/// if it isn't known which ports are below the route's ports: below a tunnel or a virtual switch, any port may carry
/// the packets.
pub fn along_route(mut facts: Facts) -> Facts {
    let taken = taken(&facts);
    if let Fact::Known(route) = &mut facts.route {
        let taken = taken.as_ref();
        route.arrives_mbps = taken.and_then(|taken| taken.arrives_mbps);
        route.beside = taken.and_then(|taken| taken.beside.clone());
    }
    if let (Some(taken), Fact::Known(ports)) = (taken, &mut facts.ports) {
        let elsewhere: Vec<String> = ports.iter().flat_map(detours).cloned().collect();
        ports.retain(|port| {
            let is_open = is_detour(port) && !elsewhere.contains(&port.name);
            taken.names.contains(&port.name) || is_open
        });
    }
    facts
}

/// The ports of a route.
struct TakenPorts {
    names: Vec<String>,
    /// The speed of the fastest port by which packets arrive, if it is known.
    arrives_mbps: Option<u64>,
    /// The fastest port that the data doesn't take.
    beside: Option<BesidePort>,
}

/// The ports that the route takes; `None` if any port may carry the packets. Packets may arrive over other ports than
/// those over which they leave.
fn taken(facts: &Facts) -> Option<TakenPorts> {
    let (all, route) = (facts.ports.known()?, facts.route.known()?);
    let out = with_lower(used(route, facts), all)?;
    let arriving = if route.arrives.is_empty() { Vec::new() } else { with_lower(&route.arrives, all)? };
    let has = |ports: &[&Port], port: &Port| ports.iter().any(|other| other.name == port.name);
    let of_data = if arriving.is_empty() { &out } else { &arriving };
    let beside = fastest(all.iter().filter(|port| !has(of_data, port)));
    let arrives_mbps = fastest(arriving.iter().copied()).map(|port| port.mbps);
    let names = out.iter().chain(&arriving).map(|port| port.name.clone()).collect();
    Some(TakenPorts { names, arrives_mbps, beside })
}

/// True for a port of the kind ifb: a filter sends it packets that another port received, so that they pass a queueing
/// discipline. If no such filter is known, the other port may be any port.
fn is_detour(port: &Port) -> bool {
    is_of(port, "ifb")
}

/// The ports to which filters redirect a port's packets.
fn detours(port: &Port) -> impl Iterator<Item = &String> {
    let filters = port.policers.known();
    filters.into_iter().flat_map(|filters| filters.inwards_over.iter().chain(&filters.outwards_over))
}

/// True for a port with this driver, or of this kind.
pub(crate) fn is_of(port: &Port, kind: &str) -> bool {
    port.driver.known().is_some_and(|driver| driver == kind)
        || port.layer.known().is_some_and(|layer| layer.kind.as_deref() == Some(kind))
}

/// The ports with these names and all below them; `None` if none of them leads out of this host.
fn with_lower<'a>(names: &[String], all: &'a [Port]) -> Option<Vec<&'a Port>> {
    let mut found: Vec<&Port> =
        names.iter().filter_map(|name| all.iter().find(|port| port.name == *name)).collect();
    let mut next = 0;
    while let Some(port) = found.get(next).copied() {
        for below in all.iter().filter(|other| is_below(other, port)) {
            if found.iter().all(|other| other.name != below.name) {
                found.push(below);
            }
        }
        next += 1;
    }
    found.iter().any(|port| is_end(port)).then_some(found)
}

/// The ports of all next hops, unless the kernel sends all packets between two hosts over the same next hop.
fn used<'a>(route: &'a TakenRoute, facts: &Facts) -> &'a [String] {
    if is_one_hop(route, facts) || route.ways.len() < 2 { &route.ports } else { &route.ways }
}

/// True if all connections between two hosts take the same one of a route's next hops. Over IPv4 they do so if the
/// policy ignores the connections' ports. Without a setting the kernel chooses by the two addresses.
pub(crate) fn is_one_hop(route: &TakenRoute, facts: &Facts) -> bool {
    let is_one = match facts.tcp.multipath_hash.get().unwrap_or(0) {
        0 | 2 => true,
        3 => facts.tcp.multipath_fields.get().is_some_and(|fields| fields & HASHED_PORTS == 0),
        _ => false,
    };
    is_one && !route.is_v6
}

/// True if `other` carries packets of `port`, because `port` is on top of it, has it as a member, or redirects packets
/// to it.
fn is_below(other: &Port, port: &Port) -> bool {
    let layer = port.layer.known();
    let stands = port.vlan.known().is_some_and(|vlan| vlan.lower == other.name)
        || layer.is_some_and(|layer| !layer.is_elsewhere && layer.below.as_ref() == Some(&other.name));
    // Within a VRF the route names the port itself.
    let is_part = other.master.known() == Some(&port.name) && !is_of(port, "vrf") && !leads_in(other);
    let lends = port
        .physical_function
        .known()
        .is_some_and(|function| other.pci.known().is_some_and(|pci| pci.address == *function));
    let is_detour = is_detour(other) && detours(port).any(|name| *name == other.name);
    stands || is_part || lends || is_detour
}

/// True for a port that leads to a guest or a container.
pub(crate) fn leads_in(port: &Port) -> bool {
    port.driver.known().is_some_and(|driver| INWARDS.contains(&driver.as_str()))
}

/// True for a device, and for a port whose other end is in another namespace: below such a port nothing can be seen
/// from here.
fn is_end(port: &Port) -> bool {
    port.kind.get().is_some_and(|kind| kind != PortKind::Software)
        || port.layer.known().is_some_and(|layer| layer.is_elsewhere)
}

fn fastest<'a>(ports: impl Iterator<Item = &'a Port>) -> Option<BesidePort> {
    let lines = ports.filter(|port| is_up(port) && is_line(port));
    let (port, mbps) =
        lines.filter_map(|port| Some((port, port.speed_mbps.get()?))).max_by_key(|(_, mbps)| *mbps)?;
    Some(BesidePort { name: port.name.clone(), mbps })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, port_of};
    use crate::{Host, Need};
    use linerate_host::facts::{Policers, PortLayer};

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

    /// The default route leaves by the slow port, and the login came to the address of the fast port; or the other way
    /// round.
    #[test]
    fn packets_may_arrive_by_another_port_than_they_leave() {
        let by = |out: &str, into: &[&str]| {
            over("bond-layer2", &[out], |facts| {
                let Fact::Known(route) = &mut facts.route else { panic!("none") };
                route.arrives = into.iter().map(|name| (*name).to_owned()).collect();
                port_of(facts, "eth0").speed_mbps = Fact::Known(1_000);
                port_of(facts, "eth1").speed_mbps = Fact::Known(100_000);
            })
        };
        let beside = |facts: &Facts| facts.route.known().unwrap().beside.clone().map(|port| port.name);
        let fastest = |facts: &Facts| Host::alone("h", facts, Need::OfPorts).fastest();
        let fast = by("eth0", &["eth1"]);
        assert_eq!((names(&fast), fastest(&fast)), (vec!["eth0", "eth1"], Some(100e9)));
        let slow = by("eth1", &["eth0"]);
        assert_eq!((names(&slow), fastest(&slow)), (vec!["eth0", "eth1"], Some(1e9)));
        assert_eq!(beside(&slow).as_deref(), Some("eth1"), "only the packets sent back take this port");
        let any = by("eth0", &["lo"]);
        assert_eq!(
            (names(&any), beside(&any)),
            (names(&fixture("bond-layer2")), None),
            "any port may lead to the host"
        );
    }

    #[test]
    fn a_detour_of_received_packets_stays() {
        let facts = over("igb-sriov", &["eth0"], |facts| {
            let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
            let (kind, driver) = (Fact::Known(PortKind::Software), Fact::Known("ifb".into()));
            ports.push(Port { name: "ifb0".into(), kind, driver, ..Port::default() });
        });
        assert_eq!(names(&facts), ["eth0", "ifb0"]);
    }

    #[test]
    fn a_detour_of_another_ports_packets_is_left_out() {
        let of = |redirecting: &str| {
            let facts = over("bond-layer2", &["eth0"], |facts| {
                let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
                let (kind, driver) = (Fact::Known(PortKind::Software), Fact::Known("ifb".into()));
                ports.push(Port { name: "ifb0".into(), kind, driver, ..Port::default() });
                let over = Policers { inwards_over: vec!["ifb0".into()], ..Policers::default() };
                port_of(facts, redirecting).policers = Fact::Known(over);
            });
            names(&facts).contains(&"ifb0")
        };
        assert_eq!([of("eth0"), of("eth1")], [true, false]);
    }

    #[test]
    fn the_fastest_port_beside_the_route_is_remembered() {
        let slow = over("bond-layer2", &["eth0"], |facts| {
            port_of(facts, "eth1").speed_mbps = Fact::Known(100_000);
        });
        let beside = slow.route.known().unwrap().beside.clone().unwrap();
        assert_eq!((beside.name.as_str(), beside.mbps), ("eth1", 100_000));
    }

    #[test]
    fn next_hops_count_where_connections_are_spread_over_them() {
        let hops = |policy: Option<u32>, fields: Option<u32>, is_v6| {
            let facts = over("bond-layer2", &["eth0"], |facts| {
                let Fact::Known(route) = &mut facts.route else { panic!("none") };
                (route.ways, route.is_v6) = (vec!["eth0".into(), "eth1".into()], is_v6);
                facts.tcp.multipath_hash = policy.map_or(Fact::NotApplicable, Fact::Known);
                facts.tcp.multipath_fields = fields.map_or(Fact::NotApplicable, Fact::Known);
            });
            names(&facts).len()
        };
        let of_v4 = |policy, fields| hops(policy, fields, false);
        assert_eq!([of_v4(None, None), of_v4(Some(0), None), of_v4(Some(2), None)], [1; 3]);
        assert_eq!([of_v4(Some(1), None), hops(Some(0), None, true)], [2; 2]);
        // By default the fields are both addresses and the protocol.
        assert_eq!(
            [Some(7), Some(0x10), Some(0x37), None].map(|fields| of_v4(Some(3), fields)),
            [1, 2, 2, 2]
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
