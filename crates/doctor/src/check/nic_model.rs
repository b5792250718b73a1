//! Cards with known limits of their bus or their queues.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::{FEDEX, WEB};
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "nic-model",
    about: "a card or adapter known to be slow or to lack features",
    sources: &[
        WEB,
        FEDEX,
        Citation {
            name: "Linux, drivers/net/ethernet: the drivers' own descriptions",
            url: "https://docs.kernel.org/networking/device_drivers/ethernet/index.html",
        },
    ],
    run: CheckRun::Host(run),
};

/// Known limits of a driver's devices.
struct Model {
    driver: &'static str,
    limit: &'static str,
    /// Bits a second of the device's bus, if the bus is slower than the device's port.
    bus: Option<f64>,
}

const fn model(driver: &'static str, limit: &'static str, bus: Option<f64>) -> Model {
    Model { driver, limit, bus }
}

/// Buses: PCI-X of 133 MHz and 64 bits has 8.5 Gbit/s, of which bursts leave about 85 %; PCI of 33 MHz and 32
/// bits 1.06 Gbit/s; USB 2 480 Mbit/s and USB 3 5 Gbit/s, less encoding and protocol.
const MODELS: [Model; 14] = [
    model("ixgb", "uses PCI-X", Some(7.2e9)),
    model("s2io", "uses PCI-X", Some(7.2e9)),
    model("cxgb", "uses PCI-X", Some(7.2e9)),
    model("8139too", "uses PCI, without offloads", Some(0.9e9)),
    model("8139cp", "uses PCI", Some(0.9e9)),
    model("e1000", "has one queue; cards on plain PCI share about 1 Gbit/s", None),
    model("forcedeth", "has one queue", None),
    model("sky2", "has one queue", None),
    model("r8169", "has one receive queue in most models, and no receive hashing", None),
    model("netxen_nic", "is no longer maintained", None),
    model("asix", "is on USB 2", Some(0.3e9)),
    model("ax88179_178a", "is on USB", Some(3.5e9)),
    model("r8152", "is on USB", Some(3.5e9)),
    model("cdc_ncm", "is on USB", Some(3.5e9)),
];
const INTEL: u16 = 0x8086;
/// Intel's 82598: PCI Express of the first generation only.
const I82598: [u16; 10] = [0x10b6, 0x10c6, 0x10c7, 0x10c8, 0x10dd, 0x10ec, 0x10f1, 0x10e1, 0x10f4, 0x1508];

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(|port| of(port, host.rate_of(port)?)).collect()
}

fn of(port: &Port, need: f64) -> Option<Finding> {
    let driver = port.driver.known()?;
    if is_82598(port) {
        return Some(
            remedy(port, Finding::new(Severity::Note, format!("{} is an Intel 82598 of 2007", port.name)))
                .evidence("the card has PCI Express of the first generation only, and no SR-IOV"),
        );
    }
    let model = MODELS.iter().find(|model| model.driver == driver)?;
    let title = format!("{} ({driver}) {}", port.name, model.limit);
    match model.bus {
        Some(bus) if bus < need => Some(
            remedy(port, Finding::leaves(bus, need, title))
                .evidence(format!("its bus carries about {}", gbit(bus))),
        ),
        // One queue is enough for a gigabit.
        None if need > 1.1e9 => Some(remedy(port, Finding::new(Severity::Minor, title))),
        _ => None,
    }
}

fn is_82598(port: &Port) -> bool {
    let ids = port.pci.known().and_then(|pci| Some((pci.vendor.get()?, pci.device.get()?)));
    ids.is_some_and(|(vendor, device)| vendor == INTEL && I82598.contains(&device))
}

fn remedy(port: &Port, finding: Finding) -> Finding {
    let driver = port.driver.known().map_or("?", String::as_str);
    finding
        .at(&port.name)
        .evidence(format!("driver {driver}"))
        .fix("use a PCI Express card with a queue for each core")
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn old_buses_and_cards_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("bare-gen1-x4"))), ["nic-model eth2 note -"]);
        let old = edited("stock-10g", "eno1", |port| port.driver = Fact::Known("s2io".into()));
        assert_eq!(lines(&found(&CHECK, &old)), ["nic-model eno1 major 7.20 Gbit/s"]);
        let small = edited("stock-10g", "eno1", |port| port.driver = Fact::Known("r8169".into()));
        assert_eq!(lines(&found(&CHECK, &small)), ["nic-model eno1 minor -"]);
    }

    #[test]
    fn what_is_enough_is_not_found() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        let desktop = edited("e1000e-desktop", "eno1", |port| port.driver = Fact::Known("r8169".into()));
        assert!(found(&CHECK, &desktop).is_empty(), "a gigabit");
        assert!(found(&CHECK, &fixture("e1000")).is_empty(), "imitated, which is another check's");
    }
}
