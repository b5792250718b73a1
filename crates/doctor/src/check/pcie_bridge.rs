//! Bridges above a card: the slowest link on the way to the card limits it.

use linerate_host::Fact;
use linerate_host::facts::{Bridge, Pci, PciLink, Port};

use super::{Check, CheckRun};
use crate::formula::{Band, gbit, pcie};
use crate::same_cause::once_at_each;
use crate::source::{FEDEX, PCIE, SYSFS_PCI};
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "pcie-bridge",
    about: "a bridge above a card that has fewer or slower lanes than the card",
    sources: &[SYSFS_PCI, PCIE, FEDEX],
    run: CheckRun::Host(run),
};

/// The rate of a lane of Gen 1, in gigatransfers a second.
const GEN1: f64 = 2.5;

fn run(host: &Host<'_>) -> Vec<Finding> {
    // A hypervisor invents the bridges of its guests, and the bridges' links.
    if host.is_guest() {
        return Vec::new();
    }
    let found = host.hardware().filter_map(|port| of(port, host.rate_of(port)?));
    once_at_each(found, |port| format!("{port} is below the same bridge"))
}

/// The finding, with the bridge's address as the key by which ports are merged.
fn of(port: &Port, need: f64) -> Option<(&str, Finding)> {
    let pci = port.pci.known()?;
    let payload = pci.max_payload.get().unwrap_or(pcie::USUAL_PAYLOAD);
    let own = carries(&pci.link, payload)?.low;
    let links = bridges(pci).filter_map(|bridge| Some((bridge, carries(&bridge.link, payload)?)));
    let (bridge, band) = links.min_by(|a, b| a.1.low.total_cmp(&b.1.low))?;
    if band.low >= need || band.low >= own {
        return None;
    }
    let title = format!("the bridge above {} carries {} to {}", port.name, gbit(band.low), gbit(band.high));
    let finding = Finding::leaves(band.low, need, title)
        .at(&port.name)
        .evidence(format!("PCI bridge {}: {}", bridge.address, lanes(&bridge.link)))
        .evidence(format!("the card, {}: {}", pci.address, lanes(&pci.link)))
        .fix(
            "put the card into a slot that is connected to the processor, not to the chipset or a switch: lspci -tv shows the connections",
        );
    Some((&bridge.address, finding))
}

/// The bridges above a device whose links have the rate that they report. The ports through which Thunderbolt and USB4 tunnel
/// PCI Express report Gen 1, whatever their rate (the specification of USB4).
pub(super) fn bridges(pci: &Pci) -> impl Iterator<Item = &Bridge> {
    let is_tunnelled = |bridge: &&Bridge| pci.is_removable && bridge.link.speed == Fact::Known(GEN1);
    pci.bridges.iter().filter(move |bridge| !is_tunnelled(bridge))
}

pub(super) fn carries(link: &PciLink, payload: u32) -> Option<Band> {
    pcie::effective(link.speed.get()?, link.width.get()?, payload)
}

pub(super) fn lanes(link: &PciLink) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "?".into(), |value| value.to_string());
    format!("{} lanes of {} GT/s", number(link.width.get().map(f64::from)), number(link.speed.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn one_lane_above_eight_counts() {
        let found = found(&CHECK, &fixture("narrow-bridge"));
        assert_eq!(lines(&found), ["pcie-bridge enp5s0 critical 3.28 Gbit/s"]);
        assert!(found[0].evidence[0].contains("1 lanes"), "{found:?}");
    }

    /// Both ports of a card, and all cards below the same bridge, have one finding.
    #[test]
    fn a_bridge_is_found_once() {
        let dual = crate::testing::changed("narrow-bridge", |facts| {
            let linerate_host::Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
            let own = ports.iter().find(|port| port.name == "enp5s0").expect("a port");
            let other = Port { name: "enp6s0".into(), ..own.clone() };
            ports.push(other);
        });
        let found = found(&CHECK, &dual);
        assert_eq!(lines(&found), ["pcie-bridge enp5s0 critical 3.28 Gbit/s"]);
        assert_eq!(found[0].evidence[2], "enp6s0 is below the same bridge");
    }

    /// A root port of QEMU (ioh3420) has one lane of the first generation, whatever is below it.
    #[test]
    fn a_guests_bridges_are_no_finding() {
        let guest = |flag, vendor: &str| {
            crate::testing::changed("narrow-bridge", |facts| {
                facts.machine.guest = flag;
                facts.machine.vendor = linerate_host::Fact::Known(vendor.into());
            })
        };
        use linerate_host::Fact::{Known, NotApplicable};
        assert!(found(&CHECK, &guest(Known(true), "QEMU")).is_empty());
        assert!(found(&CHECK, &guest(NotApplicable, "QEMU")).is_empty(), "on Arm");
        assert_eq!(found(&CHECK, &guest(NotApplicable, "Ampere")).len(), 1);
    }

    #[test]
    fn a_bridge_as_wide_as_its_card_is_none() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("bare-gen1-x4")).is_empty(), "the slot's finding is pcie-width's");
    }
}
