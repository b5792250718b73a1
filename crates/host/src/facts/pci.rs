//! PCI Express: the link of a device and of every bridge above it, /sys/bus/pci/devices.

use serde::{Deserialize, Serialize};

use super::Fact;

/// A PCI device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pci {
    /// Domain, bus, device and function: `0000:03:00.0`.
    pub address: String,
    /// Vendor's number.
    pub vendor: Fact<u16>,
    /// Device's number.
    pub device: Fact<u16>,
    /// Its link to what is above it.
    pub link: PciLink,
    /// The bridges above it, the nearest first, each with its link: a port's link is the one below it, for a port of
    /// the processor or a switch's lower side; the one above it, for a switch's upper side.
    pub bridges: Vec<Bridge>,
    /// Its NUMA node; not applicable where the firmware names none.
    pub numa_node: Fact<u32>,
    /// The processors next to it.
    pub local_cpus: Fact<Vec<u32>>,
    /// Bytes of payload in a packet, at most, as set. Readable by root only.
    pub max_payload: Fact<u32>,
    /// Bytes in a read request, at most, as set. Readable by root only.
    pub max_read_request: Fact<u32>,
}

/// A bridge above a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bridge {
    /// Its address.
    pub address: String,
    /// Its link.
    pub link: PciLink,
}

/// One PCI Express link. Not applicable where the device has none (a virtual one, or plain PCI).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PciLink {
    /// Gigatransfers a second of each lane now: 2.5, 5, 8, 16, 32, 64. Idle links may be slower than they can be.
    pub speed: Fact<f64>,
    /// The same at most.
    pub max_speed: Fact<f64>,
    /// Lanes now.
    pub width: Fact<u32>,
    /// Lanes at most.
    pub max_width: Fact<u32>,
}
