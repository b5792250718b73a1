//! Reads the kind and the layers of interfaces from the kernel (RTM_GETLINK, rtnetlink(7)).

use std::fmt::Write as _;

use super::{FLAGS, attributes, find, number, string};

/// RTM_GETLINK, and the size of its header, struct ifinfomsg.
pub(super) const GET_LINK: u16 = 18;
pub(super) const HEADER: usize = 16;
/// IFLA_LINK: the interface below, or the other end of a veth. IFLA_LINK_NETNSID: the network namespace of that
/// interface, if it isn't this one.
const BELOW: u16 = 5;
const ELSEWHERE: u16 = 37;
/// IFLA_LINKINFO, which contains IFLA_INFO_KIND and IFLA_INFO_DATA. The data of a vxlan contain IFLA_VXLAN_LINK.
const INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VXLAN_BELOW: u16 = 3;
/// Kinds of tunnels, each with an attribute that IFLA_INFO_DATA contains only if the tunnel's outer packets are IPv6
/// packets: IFLA_VXLAN_GROUP6, IFLA_VXLAN_LOCAL6, IFLA_GENEVE_REMOTE6.
const OUTER_IPV6: [(&str, u16); 3] = [("vxlan", 16), ("vxlan", 17), ("geneve", 7)];
/// IFLA_MASTER; and, in IFLA_LINKINFO, IFLA_INFO_SLAVE_KIND, which is the kind of the master.
const MASTER: u16 = 10;
const MASTER_KIND: u16 = 4;
const VRF: &str = "vrf";
/// IFLA_XDP, and IFLA_XDP_ATTACHED, which it contains. The value 2 of IFLA_XDP_ATTACHED means generic (slow) XDP.
const XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;
/// Attributes whose values are numbers.
const NUMBERS: [(u16, &str); 8] = [
    (4, "mtu"),
    (30, "taps"),
    (31, "txq"),
    (32, "rxq"),
    (41, "gso"),
    (51, "max_mtu"),
    (58, "gro"),
    (59, "tso_max"),
];
/// IFLA_OPERSTATE, and the names of its values, as in /sys/class/net/PORT/operstate (RFC 2863).
const STATE: u16 = 16;
const STATES: [&str; 7] = ["unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"];

/// The number of the VRF to which the device belongs; if the device is a VRF itself, its own number.
pub(super) fn vrf(message: &[u8], device: u32) -> Option<u32> {
    let index = number(message, 4, 4).map(|index| index as u32).filter(|index| *index == device)?;
    let inside = message.get(HEADER..)?;
    let info = find(inside, INFO)?;
    let is = |kind| find(info, kind).is_some_and(|name| string(name) == VRF);
    let master = || find(inside, MASTER).and_then(|master| number(master, 0, 4)).map(|index| index as u32);
    if is(INFO_KIND) { Some(index) } else { master().filter(|_| is(MASTER_KIND)) }
}

/// Writes a line about an interface: `eth0 kind veth elsewhere 1 max_mtu 65535 gso 65536 gro 65536`, or
/// `vxlan7 kind vxlan below eth0 ...`.
pub(super) fn link(message: &[u8], name: &dyn Fn(u32) -> Option<String>, text: &mut String) -> Option<()> {
    let index = number(message, 4, 4)? as u32;
    let (mut line, mut below, mut elsewhere) = (name(index)?, None, false);
    for (attribute, value) in attributes(message.get(HEADER..)?) {
        match attribute & !FLAGS {
            BELOW => below = below.or(number(value, 0, 4)),
            ELSEWHERE => elsewhere = true,
            STATE => {
                let state = number(value, 0, 1).and_then(|state| STATES.get(state as usize));
                let _ = state.map(|state| write!(line, " state {state}"));
            }
            INFO => {
                let info = Info::of(value);
                let _ = info.kind.map(|kind| write!(line, " kind {kind}"));
                if info.is_over_ipv6 {
                    line += " over_ipv6 1";
                }
                below = info.carrier.or(below);
            }
            XDP => {
                let _ = find(value, XDP_ATTACHED)
                    .and_then(|attached| number(attached, 0, 1))
                    .filter(|mode| *mode > 0)
                    .map(|mode| write!(line, " xdp {mode}"));
            }
            other => {
                let named = NUMBERS.iter().find(|(number, _)| *number == other);
                let _ = named
                    .and_then(|(_, name)| Some((name, number(value, 0, 4)?)))
                    .map(|(name, value)| write!(line, " {name} {value}"));
            }
        }
    }
    match below.map(|below| below as u32) {
        _ if elsewhere => line += " elsewhere 1",
        // For a bridge or a bond, the kernel names the interface itself as the interface below.
        Some(below) if below != index => {
            let _ = name(below).map(|below| write!(line, " below {below}"));
        }
        _ => {}
    }
    writeln!(text, "{line}").ok()
}

/// IFLA_LINKINFO of an interface.
struct Info {
    kind: Option<String>,
    /// The interface that carries a vxlan's packets.
    carrier: Option<u64>,
    /// True for a vxlan or geneve tunnel whose outer packets are IPv6 packets.
    is_over_ipv6: bool,
}

impl Info {
    fn of(bytes: &[u8]) -> Self {
        let kind = find(bytes, INFO_KIND).map(string).filter(|kind| !kind.is_empty());
        let name = kind.as_deref().unwrap_or_default();
        let data = find(bytes, INFO_DATA);
        let has = |attribute| data.is_some_and(|data| find(data, attribute).is_some());
        let carrier =
            data.filter(|_| name == "vxlan").and_then(|data| number(find(data, VXLAN_BELOW)?, 0, 4));
        Self {
            carrier: carrier.filter(|carrier| *carrier > 0),
            is_over_ipv6: OUTER_IPV6.iter().any(|(kind, attribute)| *kind == name && has(*attribute)),
            kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attribute;
    use super::*;
    use proptest::prelude::*;

    fn reported(attributes: &[Vec<u8>]) -> String {
        let mut message = vec![0_u8; HEADER];
        message[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        message.extend(attributes.concat());
        let mut text = String::new();
        link(&message, &|index| Some(format!("eth{index}")), &mut text);
        text
    }

    #[test]
    fn a_veths_other_end_and_a_vxlans_carrier_are_reported() {
        let kind = |kind: &[u8], data: &[u8]| {
            attribute(INFO, &[attribute(INFO_KIND, kind), attribute(INFO_DATA, data)].concat())
        };
        let number = |at: u16, value: u32| attribute(at, &value.to_ne_bytes());
        let veth =
            reported(&[number(BELOW, 9), kind(b"veth\0", &[]), number(ELSEWHERE, 0), number(51, 65535)]);
        assert_eq!(veth, "eth7 kind veth max_mtu 65535 elsewhere 1\n");
        let vxlan = reported(&[kind(b"vxlan\0", &number(VXLAN_BELOW, 3))]);
        assert_eq!(vxlan, "eth7 kind vxlan below eth3\n");
        let local = attribute(17, &[0xfd; 16]);
        assert_eq!(reported(&[kind(b"vxlan\0", &local)]), "eth7 kind vxlan over_ipv6 1\n");
        assert_eq!(reported(&[kind(b"bridge\0", &local)]), "eth7 kind bridge\n");
        assert_eq!(reported(&[number(BELOW, 7), kind(b"bridge\0", &[])]), "eth7 kind bridge\n");
        let generic = attribute(XDP, &attribute(XDP_ATTACHED, &[2]));
        assert_eq!(reported(&[generic, number(30, 1)]), "eth7 xdp 2 taps 1\n");
    }

    /// The bytes are Linux 6.1's answers about a VRF (`vrf table 100`), and about a veth whose master is this VRF.
    #[test]
    fn a_vrf_and_its_members_are_known_and_a_bridges_are_not() {
        let of = |inside: &[Vec<u8>], asked: u32| {
            let mut message = vec![0_u8; HEADER];
            message[4..8].copy_from_slice(&7_u32.to_ne_bytes());
            message.extend(inside.concat());
            vrf(&message, asked)
        };
        let master = attribute(MASTER, &3_u32.to_ne_bytes());
        let info = |at, kind: &[u8]| attribute(INFO, &attribute(at, kind));
        assert_eq!(of(&[info(INFO_KIND, b"vrf\0")], 7), Some(7));
        assert_eq!(of(&[master.clone(), info(MASTER_KIND, b"vrf\0")], 7), Some(3));
        assert_eq!(of(&[master.clone(), info(MASTER_KIND, b"vrf\0")], 8), None, "another device");
        assert_eq!(of(&[master, info(MASTER_KIND, b"bridge\0")], 7), None);
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = link(&bytes, &|_| Some(String::new()), &mut String::new());
            let _ = vrf(&bytes, 7);
        }
    }
}
