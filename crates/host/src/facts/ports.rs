//! Reads the facts about network interfaces.

use super::bond::Bond;
use super::drivers::Drivers;
use super::irqs::{InterruptTable, Irq};
use super::read::{flag, number, unless_down};
use super::{
    Fact, Fec, FunctionRate, Pci, Policers, Port, PortCounters, PortKind, PortLayer, Qdisc, RxQueue, TxQueue,
    Vlan, VlanAbove, fec, functions, kind, layer, qdisc,
};
use crate::netlink;
use crate::root::Root;
use std::collections::BTreeMap;

const NET: &str = "sys/class/net";

/// Data that is read once, for all interfaces.
struct PortInputs<'a> {
    root: &'a Root<'a>,
    drivers: Drivers,
    interrupts: InterruptTable,
    qdiscs: Fact<Vec<(String, Qdisc)>>,
    policers: Fact<BTreeMap<String, Policers>>,
    layers: Fact<BTreeMap<String, PortLayer>>,
    fec: Fact<BTreeMap<String, Fec>>,
    coalescing: Fact<BTreeMap<String, Vec<String>>>,
    functions: Fact<BTreeMap<String, Vec<FunctionRate>>>,
    vlans: Fact<String>,
    guest: &'a Fact<bool>,
}

/// The interfaces of the reader's network namespace, sorted by name, without loopback.
///
/// /proc/net/dev shows the network namespace of the process, but /sys shows the network namespace in which it was
/// mounted. Therefore the names are read from /proc/net/dev, and files that are missing in /sys are reported as
/// unreadable.
pub(super) fn read(root: &Root, guest: &Fact<bool>) -> Fact<Vec<Port>> {
    root.needed("proc/net/dev").map(|text| {
        let host = PortInputs {
            root,
            drivers: Drivers::new(root),
            interrupts: InterruptTable::read(root),
            qdiscs: qdisc::read(root),
            policers: qdisc::policers(root),
            layers: layer::read(root),
            fec: fec::read(root),
            coalescing: coalescing(root),
            functions: functions::read(root),
            vlans: root.text("proc/net/vlan/config"),
            guest,
        };
        let mut names = names(&text);
        names.sort();
        names.dedup();
        names.into_iter().map(|name| host.port(name)).collect()
    })
}

fn names(text: &str) -> Vec<String> {
    // The two heading lines contain '|' and no colon.
    text.lines()
        .filter(|line| !line.contains('|'))
        .filter_map(|line| line.split_once(':').map(|(name, _)| name.trim().to_owned()))
        .filter(|name| is_plain(name) && name != "lo")
        .collect()
}

/// True if an interface's name is safe to use. The name becomes a part of paths, so it must be a single component of a
/// path. The name also becomes a part of commands that users paste into a shell, so it must be a single word.
pub(super) fn is_plain(name: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "/;&|<>()$`\\\"'*?[]{}!#~".contains(c);
    !name.is_empty() && name != "." && name != ".." && !name.contains(odd)
}

impl PortInputs<'_> {
    fn kind(&self, dir: &str, driver: &Fact<String>, pci: &Fact<Pci>, files: &Port) -> Fact<PortKind> {
        match self.root.text(&format!("{dir}/phys_port_name")).known() {
            Some(name) if kind::is_representor(name) => Fact::Known(PortKind::Software),
            _ => kind::of(driver, self.guest, &self.root.real(dir), pci, &files.physical_function),
        }
    }

    fn port(&self, name: String) -> Port {
        let (root, drivers, n) = (self.root, &self.drivers, name.as_str());
        let dir = format!("{NET}/{n}");
        let (about, statistics) = (drivers.about(root, n), drivers.statistics(root, n));
        let driver = self.driver(&dir, about.name);
        let files = self.files(&dir).or_as(own(&self.layers, n));
        let pci = root.real(&format!("{dir}/device")).and_then(|real| Pci::of(root, &real));
        Port {
            driver_version: about.version,
            firmware: about.firmware,
            kind: self.kind(&dir, &driver, &pci, &files),
            module_options: self.options(&driver),
            media: drivers.media(root, n),
            modes: drivers.modes(root, n),
            fec: own(&self.fec, n),
            module: drivers.module(root, n),
            channels: drivers.channels(root, n),
            rx_queues: RxQueue::read(root, n),
            tx_queues: TxQueue::read(root, n),
            rings: drivers.rings(root, n),
            coalescing: drivers.coalescing(root, n),
            coalescing_names: own(&self.coalescing, n),
            offloads: drivers.offloads(root, n),
            pause: drivers.pause(root, n),
            rss: drivers.rss(root, n),
            statistics: statistics.all,
            queue_packets: statistics.by_queue,
            interrupts: self.interrupts(&pci, n),
            qdiscs: self.qdiscs(n),
            policers: own(&self.policers, n),
            function_rates: own(&self.functions, n),
            bond: Bond::read(root, n, &driver),
            vlan: self.vlan(n),
            vlans: self.vlans_on(n),
            driver,
            pci,
            name,
            ..files
        }
    }

    /// Reads the facts in an interface's directory; all other fields keep their defaults.
    fn files(&self, dir: &str) -> Port {
        let root = self.root;
        Port {
            state: there(root.text(&format!("{dir}/operstate")), dir, "operstate"),
            carrier: unless_down(there(flag(root, &format!("{dir}/carrier")), dir, "carrier")),
            mtu: there(number(root, &format!("{dir}/mtu")), dir, "mtu"),
            speed_mbps: unless_down(there(number(root, &format!("{dir}/speed")), dir, "speed"))
                .and_then(speed),
            duplex: unless_down(root.text(&format!("{dir}/duplex"))).and_then(duplex),
            tx_queue_len: number(root, &format!("{dir}/tx_queue_len")),
            counters: counters(root, dir),
            physical_function: root.link_name(&format!("{dir}/device/physfn")),
            total_vfs: number(root, &format!("{dir}/device/sriov_totalvfs")),
            vfs: number(root, &format!("{dir}/device/sriov_numvfs")),
            master: root.link_name(&format!("{dir}/master")),
            bridge_ports: root.names(&format!("{dir}/brif")),
            vlan_filtering: flag(root, &format!("{dir}/bridge/vlan_filtering")),
            ..Port::default()
        }
    }

    /// The driver of an interface: the name that the driver reports on a live host, otherwise the name in /sys. The
    /// kernel's own interfaces have no device, so /sys has no name for them.
    fn driver(&self, dir: &str, reported: Fact<String>) -> Fact<String> {
        match reported {
            Fact::Known(name) => Fact::Known(name),
            _ => self.root.link_name(&format!("{dir}/device/driver")),
        }
    }

    fn options(&self, driver: &Fact<String>) -> Fact<BTreeMap<String, Fact<String>>> {
        let dir = driver.clone().map(|driver| format!("sys/module/{driver}/parameters"));
        let option = |dir: &str, name: String| (name.clone(), self.root.text(&format!("{dir}/{name}")));
        dir.and_then(|dir| {
            // A driver's name with blanks, such as "802.1Q VLAN Support", isn't the name of a module.
            let names = if dir.contains(' ') { Fact::NotApplicable } else { self.root.names(&dir) };
            names.map(|names| names.into_iter().map(|name| option(&dir, name)).collect())
        })
    }

    fn interrupts(&self, pci: &Fact<Pci>, port: &str) -> Fact<Vec<Irq>> {
        pci.as_ref().and_then(|pci| self.interrupts.of(self.root, &pci.address, port))
    }

    fn qdiscs(&self, port: &str) -> Fact<Vec<Qdisc>> {
        self.qdiscs.as_ref().map(|all| {
            let own = all.iter().filter(|(name, _)| name == port);
            own.map(|(_, qdisc)| qdisc.clone()).collect()
        })
    }

    fn vlan(&self, port: &str) -> Fact<Vlan> {
        let own = |text: &String| vlan_lines(text).find(|(name, _)| *name == port).map(|(_, vlan)| vlan);
        self.vlans.as_ref().and_then(|text| own(text).map_or(Fact::NotApplicable, Fact::Known))
    }

    fn vlans_on(&self, port: &str) -> Fact<Vec<VlanAbove>> {
        self.vlans.as_ref().and_then(|text| {
            let above = vlan_lines(text).filter(|(_, vlan)| vlan.lower == port);
            let all: Vec<_> =
                above.map(|(name, vlan)| VlanAbove { name: name.to_owned(), id: vlan.id }).collect();
            if all.is_empty() { Fact::NotApplicable } else { Fact::Known(all) }
        })
    }
}

/// Kinds of interfaces without hardware below them. The speed that such interfaces report has no meaning.
const WITHOUT_SPEED: [&str; 4] = ["veth", "bridge", "tun", "dummy"];

impl Port {
    /// The interface's facts. If /sys shows another network namespace, the state, the carrier and the MTU come from
    /// RTM_GETLINK instead.
    fn or_as(mut self, layer: Fact<PortLayer>) -> Self {
        if let Fact::Known(reported) = &layer {
            let is_other = matches!((&self.state, &self.mtu), (Fact::Unreadable(_), Fact::Unreadable(_)));
            if let (true, Some(state), Some(mtu)) = (is_other, &reported.state, reported.mtu) {
                // Tunnels report no state.
                let carrier =
                    if state == "unknown" { Fact::NotApplicable } else { Fact::Known(state == "up") };
                self.carrier = carrier;
                (self.state, self.mtu) = (Fact::Known(state.clone()), Fact::Known(mtu));
                if reported.kind.as_deref().is_some_and(|kind| WITHOUT_SPEED.contains(&kind)) {
                    self.speed_mbps = Fact::NotApplicable;
                }
            }
        }
        Self { layer, ..self }
    }
}

/// The entry for this interface; not applicable if there is none.
fn own<T: Clone>(all: &Fact<BTreeMap<String, T>>, port: &str) -> Fact<T> {
    all.as_ref().and_then(|all| all.get(port).map_or(Fact::NotApplicable, |own| Fact::Known(own.clone())))
}

/// The names of the settings of interrupt coalescing that drivers have, by interface.
fn coalescing(root: &Root) -> Fact<BTreeMap<String, Vec<String>>> {
    let line = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.collect()))
    };
    let text = root.answer("live/coalescing", netlink::coalescing::ports);
    text.map(|text| text.lines().filter_map(line).collect())
}

/// Parses lines such as "eth0.100 | 100 | eth0", which come after two heading lines.
fn vlan_lines(text: &str) -> impl Iterator<Item = (&str, Vlan)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split('|').map(str::trim);
        let (name, id, lower) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?.to_owned());
        Some((name, Vlan { id, lower }))
    })
}

/// The fact of a file that every interface has: if the file is missing, the fact is unreadable.
fn there<T>(fact: Fact<T>, dir: &str, file: &str) -> Fact<T> {
    fact.or_else(|| {
        Fact::Unreadable(format!("/{dir}/{file} is missing: /sys may show another network namespace"))
    })
}

/// The speed in Mbit/s. An interface without a speed of its own reports -1 (virtio), or 4294967295 on old
/// kernels.
fn speed(value: i64) -> Fact<u64> {
    match u64::try_from(value) {
        Ok(value) if value != u64::from(u32::MAX) => Fact::Known(value),
        _ => Fact::NotApplicable,
    }
}

fn duplex(text: String) -> Fact<String> {
    if text == "unknown" { Fact::NotApplicable } else { Fact::Known(text) }
}

fn counters(root: &Root, dir: &str) -> PortCounters {
    let of = |name: &str| number(root, &format!("{dir}/statistics/{name}"));
    PortCounters {
        rx_bytes: of("rx_bytes"),
        rx_packets: of("rx_packets"),
        rx_errors: of("rx_errors"),
        rx_dropped: of("rx_dropped"),
        rx_missed: of("rx_missed_errors"),
        rx_fifo: of("rx_fifo_errors"),
        rx_crc: of("rx_crc_errors"),
        rx_nohandler: of("rx_nohandler"),
        tx_bytes: of("tx_bytes"),
        tx_packets: of("tx_packets"),
        tx_errors: of("tx_errors"),
        tx_dropped: of("tx_dropped"),
        carrier_changes: number(root, &format!("{dir}/carrier_changes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_another_namespace_has_what_the_kernel_describes() {
        fn unseen<T>() -> Fact<T> {
            Fact::Unreadable("it is missing".into())
        }
        let port = || Port {
            state: unseen(),
            mtu: unseen(),
            speed_mbps: unseen(),
            rx_queues: unseen(),
            tx_queues: unseen(),
            ..Port::default()
        };
        let layer = PortLayer {
            kind: Some("veth".into()),
            state: Some("up".into()),
            mtu: Some(1500),
            rx_queues: Some(4),
            tx_queues: Some(2),
            ..PortLayer::default()
        };
        let reported = port().or_as(Fact::Known(layer.clone()));
        assert_eq!((reported.rx_count(), reported.tx_count()), (Fact::Known(4), Fact::Known(2)));
        assert_eq!((reported.mtu, reported.speed_mbps), (Fact::Known(1500), Fact::NotApplicable));
        for kind in [None, Some("vlan".to_owned())] {
            let card = port().or_as(Fact::Known(PortLayer { kind, ..layer.clone() }));
            assert!(matches!(card.speed_mbps, Fact::Unreadable(_)), "its speed can't be seen here");
        }
        let unknown = port().or_as(Fact::NotApplicable);
        assert!(matches!(unknown.rx_count(), Fact::Unreadable(_)));
    }

    #[test]
    fn reads_speed_with_its_odd_values() {
        assert_eq!(speed(10_000), Fact::Known(10_000));
        assert_eq!((speed(-1), speed(4_294_967_295)), (Fact::NotApplicable, Fact::NotApplicable));
    }

    #[test]
    fn names_come_from_proc_without_headings_or_paths() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    |bytes\n    lo:    1 2\n  eth0: 9 9\n ../x: 1\n x;reboot: 1\n \
             `id`: 1\n $(id): 1\n e\u{1b}: 1\n br-1.7_x@2: 1\n";
        assert_eq!(names(text), ["eth0", "br-1.7_x@2"]);
    }
}
