//! The layers of an interface: the interface below it, and other parts of the kernel that handle its packets,
//! as RTM_GETLINK reports them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;
use crate::netlink;
use crate::root::Root;

/// The kernel's description of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortLayer {
    /// The kind of a virtual interface, as rtnetlink(7) names it (IFLA_INFO_KIND), such as `veth`, `vxlan` or `bridge`;
    /// `None` if the kernel reports no kind, for example for a physical port.
    pub kind: Option<String>,
    /// The interface below this one, or the interface that carries its packets.
    pub below: Option<String>,
    /// True if the interface below, or the other end of a veth, is in another network namespace, and so isn't visible
    /// here.
    pub is_elsewhere: bool,
    /// True if the outer packets of a vxlan or geneve interface are IPv6 packets.
    pub is_over_ipv6: bool,
    /// The operational state, as in /sys/class/net/PORT/operstate: `up`, `down`, `unknown`.
    pub state: Option<String>,
    /// The maximum transmission unit in bytes.
    pub mtu: Option<u32>,
    /// The largest MTU in bytes that the driver accepts.
    pub max_mtu: Option<u32>,
    /// The size in bytes of the largest packet that the kernel passes to the interface for segmentation.
    pub gso_max: Option<u32>,
    /// The size in bytes of the largest packet that the device can segment (Linux 5.19).
    pub tso_max: Option<u32>,
    /// The size in bytes of the largest packet into which received packets are merged.
    pub gro_max: Option<u32>,
    /// The number of receive queues with which the interface was created.
    pub rx_queues: Option<u32>,
    /// The number of transmit queues with which the interface was created.
    pub tx_queues: Option<u32>,
    /// The number of programs and other interfaces (for example, a bridge) that receive all packets of this interface
    /// (promiscuity).
    pub taps: u32,
    /// How an XDP program is attached: 1 in the driver, 2 generic, 3 in the device, 4 several programs.
    pub xdp: Option<u32>,
}

/// The layers of all interfaces, by interface.
pub(super) fn read(root: &Root) -> Fact<BTreeMap<String, PortLayer>> {
    root.answer("live/links", netlink::links).map(|text| text.lines().filter_map(line).collect())
}

/// Parses a line such as `eth0 kind veth elsewhere 1 max_mtu 65535`.
fn line(line: &str) -> Option<(String, PortLayer)> {
    let mut words = line.split_whitespace();
    let (port, mut layer) = (words.next()?.to_owned(), PortLayer::default());
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        match key {
            "kind" => layer.kind = Some(value.to_owned()),
            "below" => layer.below = Some(value.to_owned()),
            "elsewhere" => layer.is_elsewhere = value == "1",
            "over_ipv6" => layer.is_over_ipv6 = value == "1",
            "state" => layer.state = Some(value.to_owned()),
            "mtu" => layer.mtu = value.parse().ok(),
            "max_mtu" => layer.max_mtu = value.parse().ok().filter(|mtu| *mtu > 0),
            "gso" => layer.gso_max = value.parse().ok(),
            "tso_max" => layer.tso_max = value.parse().ok(),
            "gro" => layer.gro_max = value.parse().ok(),
            "rxq" => layer.rx_queues = value.parse().ok(),
            "txq" => layer.tx_queues = value.parse().ok(),
            "taps" => layer.taps = value.parse().unwrap_or(0),
            "xdp" => layer.xdp = value.parse().ok(),
            _ => {}
        }
    }
    Some((port, layer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let (port, layer) = line("vxlan7 kind vxlan below eth3 max_mtu 65535 gso 65536 later 4").unwrap();
        assert_eq!(
            (port.as_str(), layer.kind.as_deref(), layer.below.as_deref()),
            ("vxlan7", Some("vxlan"), Some("eth3"))
        );
        assert_eq!((layer.max_mtu, layer.is_elsewhere), (Some(65_535), false));
        assert!(line("eth0 elsewhere 1").unwrap().1.is_elsewhere);
        assert_eq!(line("eth0 max_mtu 0").unwrap().1.max_mtu, None, "no limit");
    }
}
