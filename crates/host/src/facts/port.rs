//! Network interfaces: /proc/net/dev, /sys/class/net and drivers' answers to ethtool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bond::Bond;
use super::driver::{Channels, Coalescing, Media, Offload, Pause, Rings, Rss};
use super::irqs::Irq;
use super::pci::Pci;
use super::qdisc::{Policers, Qdisc};
use super::steering::{RxQueue, TxQueue};
use super::{Fact, Fec, FunctionRate, LinkModes, Module, PortKind, PortLayer};

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Kernel driver: `ixgbe`, `virtio_net`, `bonding`, `802.1Q VLAN Support`.
    pub driver: Fact<String>,
    /// The driver's version; since 2020 this is usually the kernel's version.
    pub driver_version: Fact<String>,
    /// Its firmware's version.
    pub firmware: Fact<String>,
    /// Its kind, by its driver.
    pub kind: Fact<PortKind>,
    /// Options of the driver's module, by name; some are readable by root only.
    pub module_options: Fact<BTreeMap<String, Fact<String>>>,
    /// `up`, `down`, `unknown`, `lowerlayerdown` ...
    pub state: Fact<String>,
    /// True if it has a carrier; not applicable while it is down.
    pub carrier: Fact<bool>,
    /// Maximum transmission unit in bytes.
    pub mtu: Fact<u32>,
    /// Speed in Mbit/s; not applicable to a port that has no speed of its own or no carrier.
    pub speed_mbps: Fact<u64>,
    /// `full` or `half`.
    pub duplex: Fact<String>,
    /// Its connector.
    pub media: Fact<Media>,
    /// Its link modes.
    pub modes: Fact<LinkModes>,
    /// Its forward error correction; not applicable if its driver has none.
    pub fec: Fact<Fec>,
    /// The module plugged into it; readable by root only.
    pub module: Fact<Module>,
    /// The most packets that may wait in it (`txqueuelen`).
    pub tx_queue_len: Fact<u32>,
    /// The number of queues in use, and the maximum.
    pub channels: Fact<Channels>,
    /// Receive queues with their steering.
    pub rx_queues: Fact<Vec<RxQueue>>,
    /// Transmit queues with their steering.
    pub tx_queues: Fact<Vec<TxQueue>>,
    /// Rings between host and device.
    pub rings: Fact<Rings>,
    /// Its interrupt coalescing.
    pub coalescing: Fact<Coalescing>,
    /// The parts of it that the driver has, as `ethtool -C` names them: `rx-usecs`, `adaptive-rx`. Of the others `coalescing` says 0, and
    /// `ethtool -c` says `n/a`. Linux 5.7 or later.
    pub coalescing_names: Fact<Vec<String>>,
    /// Features, by the kernel's names: `tx-tcp-segmentation`, `rx-gro`, `rx-lro`, `tx-checksum-ip-generic`.
    pub offloads: Fact<BTreeMap<String, Offload>>,
    /// Flow control.
    pub pause: Fact<Pause>,
    /// Its receive side scaling.
    pub rss: Fact<Rss>,
    /// The driver's statistics, by the driver's names. Only values other than 0; of the counters of single
    /// queues, only drops and errors.
    pub statistics: Fact<BTreeMap<String, u64>>,
    /// Packets received by queue, as the driver counts them; queues without packets may be missing.
    pub queue_packets: Fact<BTreeMap<u32, u64>>,
    /// The kernel's counters: /sys/class/net/PORT/statistics.
    pub counters: PortCounters,
    /// Its PCI device; for virtio, that is the parent of the port's device.
    pub pci: Fact<Pci>,
    /// For a virtual function, the PCI address of the physical one.
    pub physical_function: Fact<String>,
    /// The most virtual functions that it supports; not applicable if it supports none.
    pub total_vfs: Fact<u32>,
    /// The number of virtual functions that exist now.
    pub vfs: Fact<u32>,
    /// The rates to which it limits its virtual functions; not applicable if no function has a rate.
    pub function_rates: Fact<Vec<FunctionRate>>,
    /// Its interrupts.
    pub interrupts: Fact<Vec<Irq>>,
    /// Queueing disciplines: the root discipline, and the disciplines below `mq`.
    pub qdiscs: Fact<Vec<Qdisc>>,
    /// Policers, which drop packets above their limits, and filters that redirect packets; not applicable if there are none.
    pub policers: Fact<Policers>,
    /// The interface below it, and other facts from RTM_GETLINK.
    pub layer: Fact<PortLayer>,
    /// The bond or bridge that it belongs to.
    pub master: Fact<String>,
    /// The values of a bond; not applicable to other ports.
    pub bond: Fact<Bond>,
    /// The values of a VLAN; not applicable to other ports.
    pub vlan: Fact<Vlan>,
    /// The VLANs above it, in the kernel's order. A port with several VLANs is a trunk.
    pub vlans: Fact<Vec<VlanAbove>>,
    /// A bridge's ports.
    pub bridge_ports: Fact<Vec<String>>,
    /// True if it is a bridge that forwards by VLAN.
    pub vlan_filtering: Fact<bool>,
}

/// A VLAN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vlan {
    /// Its number.
    pub id: u32,
    /// The interface below.
    pub lower: String,
}

/// A VLAN above a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VlanAbove {
    /// Its interface.
    pub name: String,
    /// Its number.
    pub id: u32,
}

/// The kernel's counters of an interface since it was created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortCounters {
    /// Bytes received.
    pub rx_bytes: Fact<u64>,
    /// Packets received.
    pub rx_packets: Fact<u64>,
    /// Received with any error.
    pub rx_errors: Fact<u64>,
    /// Received and dropped by the kernel or its driver: no memory, no listener.
    pub rx_dropped: Fact<u64>,
    /// Lost by the device because the host didn't fetch packets in time.
    pub rx_missed: Fact<u64>,
    /// Lost because a buffer was full.
    pub rx_fifo: Fact<u64>,
    /// Frames with wrong checksums, by a bad cable or transceiver.
    pub rx_crc: Fact<u64>,
    /// Received, but not accepted by any handler: wrong VLAN, unknown protocol.
    pub rx_nohandler: Fact<u64>,
    /// Bytes sent.
    pub tx_bytes: Fact<u64>,
    /// Packets sent.
    pub tx_packets: Fact<u64>,
    /// Not sent because of an error.
    pub tx_errors: Fact<u64>,
    /// Dropped before sending.
    pub tx_dropped: Fact<u64>,
    /// Changes of the carrier.
    pub carrier_changes: Fact<u64>,
}

impl Port {
    /// The names of the link modes that the port may be using at its current speed; usually only one.
    pub fn modes_in_force(&self) -> Fact<Vec<String>> {
        self.speed_mbps.as_ref().and_then(|speed| {
            let names =
                |modes: &LinkModes| modes.at(*speed).into_iter().map(|mode| mode.name.clone()).collect();
            self.modes.as_ref().map(names)
        })
    }

    /// The number of receive queues.
    pub fn rx_count(&self) -> Fact<u32> {
        let queues = self.rx_queues.as_ref().map(|queues| u32::try_from(queues.len()).unwrap_or(u32::MAX));
        self.or_told(queues, |layer| layer.rx_queues)
    }

    /// The number of transmit queues.
    pub fn tx_count(&self) -> Fact<u32> {
        let queues = self.tx_queues.as_ref().map(|queues| u32::try_from(queues.len()).unwrap_or(u32::MAX));
        self.or_told(queues, |layer| layer.tx_queues)
    }

    /// A fact from /sys, or that of RTM_GETLINK if /sys shows another network namespace.
    fn or_told(&self, read: Fact<u32>, told: fn(&PortLayer) -> Option<u32>) -> Fact<u32> {
        let told = self.layer.known().and_then(told);
        match (read, told) {
            (Fact::Unreadable(_), Some(told)) => Fact::Known(told),
            (read, _) => read,
        }
    }

    /// True if a feature is on.
    pub fn offload(&self, name: &str) -> Fact<bool> {
        self.offloads
            .as_ref()
            .and_then(|all| all.get(name).map_or(Fact::NotApplicable, |o| Fact::Known(o.on)))
    }

    /// True if it is known that the driver can't change a feature.
    pub fn has_fixed(&self, name: &str) -> bool {
        self.offloads.known().and_then(|all| all.get(name)).is_some_and(|offload| offload.fixed)
    }
}
