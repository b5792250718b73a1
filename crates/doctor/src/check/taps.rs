//! Programs that look at each packet of a port: those that capture all packets, and XDP programs in the kernel's
//! generic mode.

use super::{Check, CheckRun};
use crate::source::IP_LINK;
use crate::{Citation, Finding, Severity};
use linerate_host::facts::{Port, PortLayer};

/// The kernel's number for the mode in which XDP runs after the driver, on whole buffers (XDP_ATTACHED_SKB).
const GENERAL: u32 = 2;

pub(super) const CHECK: Check = Check {
    name: "packet-taps",
    about: "programs that look at each packet of a port, or XDP without the driver's help",
    sources: &[
        Citation { name: "packet(7)", url: "https://man7.org/linux/man-pages/man7/packet.7.html" },
        IP_LINK,
    ],
    run: CheckRun::Host(|host| {
        let of = |port: &Port| port.layer.known().map_or_else(Vec::new, |layer| of(port, layer));
        host.devices().flat_map(of).collect()
    }),
};

fn of(port: &Port, layer: &PortLayer) -> Vec<Finding> {
    let general = (layer.xdp == Some(GENERAL)).then(|| {
        Finding::new(Severity::Minor, format!("an XDP program runs on {} in the kernel's generic mode", port.name))
            .at(&port.name)
            .evidence("xdpgeneric: after the kernel has made a packet's buffer, it copies the packet into one piece for the program")
            .fix(format!(
                "load it in the driver (ip link set {0} xdpdrv ...), or remove it: ip link set {0} xdpgeneric off",
                port.name
            ))
            .undo("load it again as before")
    });
    // A member of a bridge or bond receives all packets, because its master asks for them.
    let listened = (layer.taps > 0 && port.master.known().is_none()).then(|| {
        Finding::new(Severity::Note, format!("{} receives all packets (promiscuous mode)", port.name))
            .at(&port.name)
            .evidence(format!(
                "promiscuity {}: programs such as tcpdump, or ports of containers on it",
                layer.taps
            ))
            .fix("during transfers, end the programs that capture packets: ss -0 -p shows them, and ls /proc/net/pf_ring those of PF_RING")
    });
    general.into_iter().chain(listened).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, fixture, found, lines};
    use linerate_host::Fact;

    fn with(layer: PortLayer, master: Option<&str>) -> Vec<String> {
        let host = edited("stock-10g", "eno1", |port| {
            port.layer = Fact::Known(layer);
            port.master = master.map_or(Fact::NotApplicable, |name| Fact::Known(name.into()));
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn listeners_and_general_xdp_are_found() {
        let taps = PortLayer { taps: 1, ..PortLayer::default() };
        assert_eq!(with(taps.clone(), None), ["packet-taps eno1 note -"]);
        assert!(with(taps, Some("br0")).is_empty(), "a bridge's");
        let xdp = |mode| with(PortLayer { xdp: Some(mode), ..PortLayer::default() }, None);
        assert_eq!(xdp(2), ["packet-taps eno1 minor -"]);
        assert!(xdp(1).is_empty() && found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
