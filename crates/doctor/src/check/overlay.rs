//! Ports that wrap packets into others: overlays of containers, tunnels, VPNs.

use super::{Check, CheckRun};
use crate::formula::bounds::LARGEST_MTU;
use crate::formula::goodput::Segments;
use crate::formula::{gbit, percent};
use crate::source::{IP_LINK, SEGMENTATION};
use crate::{Citation, Finding, Host, Severity};
use linerate_host::facts::Port;

/// Kinds of the kernel's tunnels, and the bytes that each adds to a packet (over IPv4).
const TUNNELS: [(&str, u32); 11] = [
    ("vxlan", 50),
    ("geneve", 50),
    ("gretap", 38),
    ("gre", 24),
    ("ip6gre", 44),
    ("ipip", 20),
    ("sit", 20),
    ("ip6tnl", 40),
    ("wireguard", 60),
    // ESP in a tunnel, with AES-GCM: 20 for IP, 8 for ESP, 8 for the nonce, 2 for padding and 16 for the tag.
    (XFRM, 54),
    // 20 for IP, 8 for UDP, 4 for the opcode and peer, 4 of the nonce and 16 for the tag (drivers/net/ovpn/proto.h).
    ("ovpn", 52),
];
/// Bytes by which a header of IPv6 is longer than one of IPv4.
const LONGER_IPV6: u32 = 20;
/// The kind of IPsec's interfaces. Their MTUs don't count: the kernel knows the room that each cipher leaves, and
/// reports it to the connections of this host, and by ICMP to others (net/xfrm/xfrm_interface_core.c).
const XFRM: &str = "xfrm";
/// Tunnels of whole packets of IP. With path MTU discovery, which is their default, the kernel reports the size that
/// fits to each connection (tnl_update_pmtu in net/ipv4/ip_tunnel.c).
const TELLING: [&str; 5] = ["gre", "ip6gre", "ipip", "sit", "ip6tnl"];
/// Kinds whose packets the kernel encrypts.
const SEALED: [&str; 3] = ["wireguard", XFRM, "ovpn"];

pub(super) const CHECK: Check = Check {
    name: "overlay",
    about: "tunnels, overlays and VPNs, whose packets are wrapped into others",
    sources: &[
        Citation { name: "RFC 7348, VXLAN", url: "https://www.rfc-editor.org/rfc/rfc7348" },
        IP_LINK,
        SEGMENTATION,
    ],
    run: CheckRun::Host(|host| host.linked().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let layer = port.layer.known()?;
    let kind = layer.kind.as_deref()?;
    let (_, over_ipv4) = TUNNELS.iter().find(|(name, _)| *name == kind)?;
    let header = if layer.is_over_ipv6 { over_ipv4 + LONGER_IPV6 } else { *over_ipv4 };
    let mtu = port.mtu.get()?;
    let below = layer.below.as_deref().and_then(|name| host.facts.port(name));
    let outer = below.and_then(|port| port.mtu.get());
    if let (Some(below), Some(outer)) =
        (below, outer.filter(|outer| kind != XFRM && mtu.saturating_add(header) > *outer))
    {
        return Some(too_large(port, kind, mtu, header, below, outer));
    }
    // Packets of xfrm are as large as the port below allows.
    let mtu = outer.filter(|_| kind == XFRM).map_or(mtu, |outer| mtu.min(outer.saturating_sub(header)));
    let over = layer.below.as_deref().map_or(String::new(), |name| format!(" over {name}"));
    let (costs, size) = costs(kind, mtu, header, below.is_some());
    let title = format!("{} wraps each packet ({kind}{over}): {costs}", port.name);
    let finding = Finding::new(Severity::Note, title)
        .at(&port.name)
        .evidence(size)
        .evidence(if SEALED.contains(&kind) {
            "the kernel encrypts each packet a second time: linerate's streams are already encrypted"
        } else {
            "the receiver can join the tunnel's packets only if the card parses the headers inside of the tunnel"
        });
    let finding = match below.filter(|below| is_cut(kind, below)) {
        Some(below) => finding.evidence(format!(
            "{} doesn't segment inside of tunnels (tx-udp_tnl-segmentation off): the kernel cuts each packet",
            below.name
        )),
        None => finding,
    };
    Some(
        finding
            .evidence(format!("needed: {}; the other checks examine the ports below", gbit(host.rate())))
            .fix("send bulk data outside the tunnel: by the hosts' own addresses, or over a routed network without an overlay"),
    )
}

/// A text about the cost of the headers, and a text about the sizes from which the cost is computed.
fn costs(kind: &str, mtu: u32, header: u32, is_over_a_port: bool) -> (String, String) {
    // The tunnels of OVS have an MTU of 65,000 or so, whatever the size of their packets is.
    if !is_over_a_port && mtu > LARGEST_MTU {
        let sizes = format!("its MTU of {mtu} doesn't bound the packets: the senders' MTU does");
        return (format!("each packet becomes {header} bytes larger"), sizes);
    }
    let share = Segments::usual(mtu).share() * f64::from(mtu) / f64::from(mtu + header);
    (format!("{} of the rate is payload", percent(share)), size(kind, mtu, header))
}

/// True for a port that wraps each packet into another one.
pub(super) fn is_tunnel(port: &Port) -> bool {
    let kind = port.layer.known().and_then(|layer| layer.kind.as_deref());
    kind.is_some_and(|kind| TUNNELS.iter().any(|(name, _)| *name == kind))
}

/// True if the port cuts each packet of a tunnel in software.
fn is_cut(kind: &str, below: &Port) -> bool {
    below.offload("tx-udp_tnl-segmentation").get() == Some(false) && ["vxlan", "geneve"].contains(&kind)
}

fn size(kind: &str, mtu: u32, header: u32) -> String {
    if kind == XFRM {
        return format!(
            "packets of {mtu} bytes; {kind} adds {header} bytes to each packet with AES-GCM (other ciphers differ)"
        );
    }
    format!("MTU {mtu}; {kind} adds {header} bytes to each packet")
}

/// The finding that full packets, once wrapped, are too large for the port below.
fn too_large(port: &Port, kind: &str, mtu: u32, header: u32, below: &Port, outer: u32) -> Finding {
    let fitting = outer.saturating_sub(header);
    let title = format!(
        "{}'s packets of {mtu} bytes don't fit into {} with the {header} bytes that {kind} adds",
        port.name, below.name
    );
    let (severity, effect) = if TELLING.contains(&kind) {
        (
            Severity::Minor,
            "the kernel refuses the first full packets of each connection, until the connection knows the size that fits; with nopmtudisc, full packets are fragmented",
        )
    } else {
        (Severity::Major, "full packets are fragmented or dropped: connections open, and are slow or hang")
    };
    Finding::new(severity, title)
        .at(&port.name)
        .evidence(format!("MTU of {}: {mtu}; of {}: {outer}", port.name, below.name))
        .evidence(effect)
        .fix(format!("ip link set {} mtu {fitting}, at both ends of the tunnel", port.name))
        .undo(format!("ip link set {} mtu {mtu}", port.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::facts::{PortKind, PortLayer};
    use linerate_host::{Fact, Facts};

    fn with(kind: &str, mtu: u32) -> Facts {
        changed("stock-10g", |facts| {
            let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
            ports.push(Port {
                name: "flannel.1".into(),
                kind: Fact::Known(PortKind::Software),
                state: Fact::Known("unknown".into()),
                mtu: Fact::Known(mtu),
                layer: Fact::Known(PortLayer {
                    kind: Some(kind.into()),
                    below: Some("eno1".into()),
                    ..PortLayer::default()
                }),
                ..Port::default()
            });
        })
    }

    #[test]
    fn an_overlay_is_named_with_what_it_costs() {
        let named = found(&CHECK, &with("vxlan", 1450));
        assert_eq!(lines(&named), ["overlay flannel.1 note -"]);
        assert!(named[0].title.contains("vxlan over eno1"), "{named:?}");
        assert!(found(&CHECK, &with("wireguard", 1420))[0].evidence[1].contains("encrypts"));
        assert!(found(&CHECK, &with("bridge", 1500)).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }

    /// As `ip -d link` shows a tunnel of OVN: mtu 65000, geneve external, without a port below.
    #[test]
    fn the_mtu_of_a_tunnel_of_ovs_bounds_nothing() {
        let mut host = with("geneve", 65_000);
        crate::testing::port_of(&mut host, "flannel.1").layer =
            Fact::Known(PortLayer { kind: Some("geneve".into()), ..PortLayer::default() });
        let named = found(&CHECK, &host).remove(0);
        assert_eq!(named.title, "flannel.1 wraps each packet (geneve): each packet becomes 50 bytes larger");
        assert!(named.evidence[0].starts_with("its MTU of 65000 doesn't bound"), "{named:?}");
    }

    /// The kernel itself makes the packets of IPsec small enough, whatever the interface's MTU is.
    #[test]
    fn the_mtu_of_ipsec_is_no_fault() {
        let ipsec = found(&CHECK, &with("xfrm", 1500));
        assert_eq!(lines(&ipsec), ["overlay flannel.1 note -"]);
        assert!(ipsec[0].evidence[0].starts_with("packets of 1446 bytes"), "{ipsec:?}");
        assert!(!ipsec[0].fix.as_ref().unwrap().contains("mtu"), "{ipsec:?}");
    }

    #[test]
    fn packets_that_dont_fit_below_are_a_fault() {
        let large = found(&CHECK, &with("vxlan", 1500));
        assert_eq!(lines(&large), ["overlay flannel.1 major -"]);
        for kind in TELLING {
            let large = found(&CHECK, &with(kind, 1500));
            assert_eq!(lines(&large), ["overlay flannel.1 minor -"], "{kind}");
            assert!(!large[0].evidence[1].contains("hang"), "{large:?}");
        }
        assert!(large[0].fix.as_ref().unwrap().starts_with("ip link set flannel.1 mtu 1450"), "{large:?}");
    }
}
