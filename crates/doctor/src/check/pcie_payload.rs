//! The payload size of a card's PCI Express packets, if the link is too slow with this size; and the size of the card's
//! read requests.

use linerate_host::facts::{Pci, Port, PortKind};

use super::pcie_width::is_within_chip;
use super::{Check, CheckRun};
use crate::formula::{gbit, pcie};
use crate::source::{ESNET_NIC, PCIE};
use crate::{Finding, Host, Severity};

/// The payload size in bytes that most devices and bridges support.
const BETTER: u32 = 256;
/// Bytes of a read request below which a card needs too many requests to fetch the data that it sends.
const LEAST_REQUEST: u32 = 512;
/// The needed rate in bits a second at or above which small requests are too many.
const LEAST_RATE: f64 = 10e9;

pub(super) const CHECK: Check = Check {
    name: "pcie-payload",
    about: "small packets on a card's PCI Express link",
    sources: &[PCIE, ESNET_NIC],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    // Linux's vfio shows a guest emulated registers instead of the card's (commit 523184972b28).
    if host.is_guest() {
        return Vec::new();
    }
    let both = |port: &Port| [payload(host, port), request(host, port)];
    // A virtual function has no such settings: those of its physical function count (pci_configure_mps() in
    // drivers/pci/probe.c).
    let ports = host.hardware().filter(|port| port.kind.get() != Some(PortKind::VirtualFunction));
    ports.flat_map(both).flatten().collect()
}

fn payload(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let (pci, need) = (port.pci.known().filter(|_| !is_within_chip(port))?, host.rate_of(port)?);
    let set = pci.max_payload.get().filter(|set| *set < BETTER)?;
    let carries = |payload| pcie::effective(pci.link.speed.get()?, pci.link.width.get()?, payload);
    let (now, better) = (carries(set)?.low, carries(BETTER)?.low);
    if now >= need {
        return None;
    }
    let title = format!(
        "PCI Express packets of {} hold {set} bytes: with {BETTER}, the link would carry {}",
        port.name,
        gbit(better)
    );
    let finding = Finding::leaves(now, need, title)
        .at(&port.name)
        .evidence(format!("PCI device {}: MaxPayload {set}", pci.address))
        .fix("set the payload in the firmware, or start the kernel with pci=pcie_bus_perf")
        .undo("start the kernel without that option")
        .conflict(
            "the smallest payload below a bridge applies to all its devices, and read requests become no larger than the payload; hot \
             plugging may then fail",
        );
    Some(finding)
}

fn request(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let pci = port.pci.known().filter(|_| host.rate_of(port).is_some_and(|need| need >= LEAST_RATE))?;
    let set = pci.max_read_request.get().filter(|set| *set < LEAST_REQUEST)?;
    // pci=pcie_bus_perf limits requests to the payload, because answers may then not be larger (pcie_write_mrrs() in
    // drivers/pci/probe.c); bridges of Loongson can't answer more either (no_inc_mrrs).
    if pci.max_payload.get().is_none_or(|payload| set <= payload) {
        return None;
    }
    let finding = Finding::new(
        Severity::Minor,
        format!("{} reads the data that it sends only {set} bytes at a time", port.name),
    )
    .at(&port.name)
    .evidence(format!("PCI device {}: MaxReadReq {set}", pci.address));
    Some(change(finding, pci))
}

/// Adds the fix, which sets the size in bits 14 to 12 of Device Control, in the PCI Express capability.
fn change(finding: Finding, pci: &Pci) -> Finding {
    let old = pci.max_read_request.get().unwrap_or(LEAST_REQUEST).max(128).trailing_zeros() - 7;
    let set = |code: u32| format!("setpci -s {} CAP_EXP+8.w={code}000:7000", pci.address);
    finding
        .fix(set(2))
        .undo(set(old))
        .conflict("some guides set 4096 (ESnet for 100 Gbit/s); other devices on the bus then wait longer")
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    fn with(change: impl FnOnce(&mut Pci)) -> Vec<String> {
        let host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
            let Fact::Known(pci) = &mut port.pci else { panic!("no device") };
            change(pci);
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn small_packets_on_a_link_that_is_just_wide_enough_are_found() {
        let narrow = |pci: &mut Pci| {
            pci.max_payload = Fact::Known(128);
            pci.link.width = Fact::Known(3);
        };
        assert_eq!(with(narrow), ["pcie-payload ens1f0np0 major 19.4 Gbit/s"]);
        let asking = |payload, request| {
            with(|pci| {
                (pci.max_payload, pci.max_read_request) = (Fact::Known(payload), Fact::Known(request));
            })
        };
        assert_eq!(asking(128, 256), ["pcie-payload ens1f0np0 minor -"]);
        assert!(asking(256, 256).is_empty(), "as pci=pcie_bus_perf sets them");
    }

    #[test]
    fn a_guests_payload_and_a_link_that_does_not_exist_are_no_finding() {
        let mut narrow = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
            let Fact::Known(pci) = &mut port.pci else { panic!("no device") };
            (pci.max_payload, pci.link.width) = (Fact::Known(128), Fact::Known(3));
        });
        assert_eq!(found(&CHECK, &narrow).len(), 1);
        crate::testing::port_of(&mut narrow, "ens1f0np0").kind = Fact::Known(PortKind::VirtualFunction);
        assert!(found(&CHECK, &narrow).is_empty(), "a virtual function");
        crate::testing::port_of(&mut narrow, "ens1f0np0").kind = Fact::Known(PortKind::Physical);
        narrow.machine.guest = Fact::Known(true);
        assert!(found(&CHECK, &narrow).is_empty());
        let within = |pci: &mut Pci| {
            pci.max_payload = Fact::Known(128);
            (pci.link.speed, pci.link.width) = (Fact::Known(2.5), Fact::Known(1));
            (pci.link.max_speed, pci.link.max_width) = (Fact::Known(2.5), Fact::Known(1));
        };
        assert!(with(within).is_empty(), "within a chip");
    }

    #[test]
    fn wide_links_bear_small_packets() {
        assert!(with(|pci| pci.max_payload = Fact::Known(128)).is_empty());
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("bare-gen1-x4")).is_empty(), "unreadable is no finding");
        let slow = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
            port.speed_mbps = Fact::Known(1000);
            let Fact::Known(pci) = &mut port.pci else { panic!("no device") };
            pci.max_read_request = Fact::Known(128);
        });
        assert!(found(&CHECK, &slow).is_empty(), "a gigabit");
    }
}
