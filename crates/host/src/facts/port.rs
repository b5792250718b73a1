//! Facts about network interfaces: /proc/net/dev, /sys/class/net and drivers' answers to ethtool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bond::Bond;
use super::driver::{Channels, Coalescing, Media, Offload, Pause, Rings, Rss};
use super::irqs::Irq;
use super::pci::Pci;
use super::qdisc::{Policers, Qdisc};
use super::steering::{RxQueue, TxQueue};
use super::{Fact, Fec, FunctionRate, LinkModes, Module, PortKind, PortLayer};

/// Facts about a network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// The interface's name.
    pub name: String,
    /// The kernel driver: `ixgbe`, `virtio_net`, `bonding`, `802.1Q VLAN Support`.
    pub driver: Fact<String>,
    /// The driver's version; since 2020 this is usually the kernel's version.
    pub driver_version: Fact<String>,
    /// The version of the device's firmware.
    pub firmware: Fact<String>,
    /// The kind of interface, determined from its driver.
    pub kind: Fact<PortKind>,
    /// The options of the driver's module, by name. Some of these options can be read only by root.
    pub module_options: Fact<BTreeMap<String, Fact<String>>>,
    /// The operational state: `up`, `down`, `unknown`, `lowerlayerdown` and so on.
    pub state: Fact<String>,
    /// True if the interface has a carrier; not applicable while it is down.
    pub carrier: Fact<bool>,
    /// The maximum transmission unit in bytes.
    pub mtu: Fact<u32>,
    /// The speed in Mbit/s; not applicable to an interface without a speed of its own, or without a carrier.
    pub speed_mbps: Fact<u64>,
    /// The duplex mode: `full` or `half`.
    pub duplex: Fact<String>,
    /// The port's connector.
    pub media: Fact<Media>,
    /// The port's link modes.
    pub modes: Fact<LinkModes>,
    /// The port's forward error correction; not applicable if the driver has none.
    pub fec: Fact<Fec>,
    /// The module that is plugged into the port. Only root can read it.
    pub module: Fact<Module>,
    /// The most packets that may wait in the interface (`txqueuelen`).
    pub tx_queue_len: Fact<u32>,
    /// The numbers of queues in use, and the largest possible numbers.
    pub channels: Fact<Channels>,
    /// The receive queues with their steering (RPS and RFS).
    pub rx_queues: Fact<Vec<RxQueue>>,
    /// The transmit queues with their steering (XPS).
    pub tx_queues: Fact<Vec<TxQueue>>,
    /// The sizes of the rings between host and device.
    pub rings: Fact<Rings>,
    /// The settings of interrupt coalescing.
    pub coalescing: Fact<Coalescing>,
    /// The settings of interrupt coalescing that the driver has, as `ethtool -C` names them: `rx-usecs`, `adaptive-rx`.
    /// All other settings are 0 in `coalescing`, and `n/a` in the output of `ethtool -c`. Unreadable before Linux 5.7.
    pub coalescing_names: Fact<Vec<String>>,
    /// The offload features, by the kernel's names: `tx-tcp-segmentation`, `rx-gro`, `rx-lro`,
    /// `tx-checksum-ip-generic`.
    pub offloads: Fact<BTreeMap<String, Offload>>,
    /// The settings of flow control.
    pub pause: Fact<Pause>,
    /// The settings of receive side scaling.
    pub rss: Fact<Rss>,
    /// The driver's statistics, by the driver's names. Only values other than 0 are included. Counters of single queues
    /// are included only if they count drops or errors.
    pub statistics: Fact<BTreeMap<String, u64>>,
    /// The packets received by each queue, as the driver counts them. Queues without packets may be missing.
    pub queue_packets: Fact<BTreeMap<u32, u64>>,
    /// The kernel's counters: /sys/class/net/PORT/statistics.
    pub counters: PortCounters,
    /// The PCI device of the interface. For virtio, this is the parent of the virtio device.
    pub pci: Fact<Pci>,
    /// For a virtual function, the PCI address of the physical function.
    pub physical_function: Fact<String>,
    /// The most virtual functions that the device supports; not applicable if it supports none.
    pub total_vfs: Fact<u32>,
    /// The number of virtual functions that exist now.
    pub vfs: Fact<u32>,
    /// The rate limits of the port's virtual functions; not applicable if no function has a limit.
    pub function_rates: Fact<Vec<FunctionRate>>,
    /// The interrupts of the device.
    pub interrupts: Fact<Vec<Irq>>,
    /// The queueing disciplines: the root discipline, and the disciplines below `mq`.
    pub qdiscs: Fact<Vec<Qdisc>>,
    /// The policers, which drop packets above their limits, and the filters that redirect packets; not applicable if
    /// the interface has none.
    pub policers: Fact<Policers>,
    /// The interface below this one, and other facts from RTM_GETLINK.
    pub layer: Fact<PortLayer>,
    /// The name of the bond or bridge to which the interface belongs.
    pub master: Fact<String>,
    /// The settings of a bond; not applicable to other interfaces.
    pub bond: Fact<Bond>,
    /// The settings of a VLAN; not applicable to other interfaces.
    pub vlan: Fact<Vlan>,
    /// The VLANs above the interface, in the kernel's order. A port with several VLANs is a trunk.
    pub vlans: Fact<Vec<VlanAbove>>,
    /// The ports of a bridge.
    pub bridge_ports: Fact<Vec<String>>,
    /// True if the interface is a bridge that forwards packets by VLAN.
    pub vlan_filtering: Fact<bool>,
}

/// A VLAN interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vlan {
    /// The VLAN's number.
    pub id: u32,
    /// The interface below the VLAN.
    pub lower: String,
}

/// A VLAN above an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VlanAbove {
    /// The name of the VLAN's interface.
    pub name: String,
    /// The VLAN's number.
    pub id: u32,
}

/// The kernel's counters of an interface since the interface was created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortCounters {
    /// The number of received bytes.
    pub rx_bytes: Fact<u64>,
    /// The number of received packets.
    pub rx_packets: Fact<u64>,
    /// The number of packets received with any error.
    pub rx_errors: Fact<u64>,
    /// The number of received packets that the kernel or the driver dropped, for example because there was no memory or
    /// no listener.
    pub rx_dropped: Fact<u64>,
    /// The number of packets that the device lost because the host didn't fetch packets in time.
    pub rx_missed: Fact<u64>,
    /// The number of packets that were lost because a buffer was full.
    pub rx_fifo: Fact<u64>,
    /// The number of frames with wrong checksums, usually caused by a bad cable or transceiver.
    pub rx_crc: Fact<u64>,
    /// The number of received packets that no handler accepted, for example because of the wrong VLAN or an
    /// unknown protocol.
    pub rx_nohandler: Fact<u64>,
    /// The number of sent bytes.
    pub tx_bytes: Fact<u64>,
    /// The number of sent packets.
    pub tx_packets: Fact<u64>,
    /// The number of packets that could not be sent because of an error.
    pub tx_errors: Fact<u64>,
    /// The number of packets that were dropped before they were sent.
    pub tx_dropped: Fact<u64>,
    /// The number of times that the carrier was lost or found.
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
        self.or_reported(queues, |layer| layer.rx_queues)
    }

    /// The number of transmit queues.
    pub fn tx_count(&self) -> Fact<u32> {
        let queues = self.tx_queues.as_ref().map(|queues| u32::try_from(queues.len()).unwrap_or(u32::MAX));
        self.or_reported(queues, |layer| layer.tx_queues)
    }

    /// The fact `read`, which comes from /sys. If it is unreadable, as it is if /sys shows another network namespace,
    /// the fact `reported` of RTM_GETLINK.
    fn or_reported(&self, read: Fact<u32>, reported: fn(&PortLayer) -> Option<u32>) -> Fact<u32> {
        let reported = self.layer.known().and_then(reported);
        match (read, reported) {
            (Fact::Unreadable(_), Some(reported)) => Fact::Known(reported),
            (read, _) => read,
        }
    }

    /// True if the offload feature `name` is on.
    pub fn offload(&self, name: &str) -> Fact<bool> {
        self.offloads
            .as_ref()
            .and_then(|all| all.get(name).map_or(Fact::NotApplicable, |o| Fact::Known(o.on)))
    }

    /// True if it is known that the driver can't change the offload feature `name`.
    pub fn has_fixed(&self, name: &str) -> bool {
        self.offloads.known().and_then(|all| all.get(name)).is_some_and(|offload| offload.fixed)
    }
}
