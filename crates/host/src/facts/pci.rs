//! PCI Express: the links of a device and of every bridge above it, from /sys/bus/pci/devices.

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{cpu_list, number, or_odd};
use crate::root::Root;

const DEVICES: &str = "sys/bus/pci/devices";
/// The number of the PCI Express capability.
const EXPRESS: u8 = 0x10;

/// A PCI device and its links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pci {
    /// The device's address: domain, bus, device and function, such as `0000:03:00.0`.
    pub address: String,
    /// The vendor's number.
    pub vendor: Fact<u16>,
    /// The device's number.
    pub device: Fact<u16>,
    /// The device's upstream link.
    pub link: PciLink,
    /// The bridges above the device, the nearest first, each with its link. The link of a root port, and of a port on
    /// the lower side of a PCI Express switch, is the downstream link; the link of a port on the upper side of a switch
    /// is the upstream link.
    pub bridges: Vec<Bridge>,
    /// The device's NUMA node; not applicable if the firmware states none.
    pub numa_node: Fact<u32>,
    /// The processors of the device's NUMA node.
    pub local_cpus: Fact<Vec<u32>>,
    /// How the IOMMU maps memory for the device: `identity` (not at all), `DMA` (strict: each mapping is
    /// removed at once), `DMA-FQ` (lazy: mappings are removed later, many at a time). Not applicable without
    /// an IOMMU.
    pub iommu: Fact<String>,
    /// True if the device, or a bridge above it, can be removed while the host runs, as behind Thunderbolt or USB4 (since
    /// Linux 5.13).
    pub is_removable: bool,
    /// The configured maximum of a packet's payload in bytes. Only root can read it.
    pub max_payload: Fact<u32>,
    /// The configured maximum of a read request in bytes. Only root can read it.
    pub max_read_request: Fact<u32>,
}

/// A bridge above a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bridge {
    /// The bridge's PCI address.
    pub address: String,
    /// The bridge's link.
    pub link: PciLink,
}

/// A PCI Express link. Its values are not applicable to devices without such a link (virtual devices, or
/// plain PCI).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PciLink {
    /// The current rate of each lane in gigatransfers per second: 2.5, 5, 8, 16, 32 or 64. An idle link may
    /// run below its maximum.
    pub speed: Fact<f64>,
    /// The highest rate of each lane in gigatransfers per second.
    pub max_speed: Fact<f64>,
    /// The current number of lanes.
    pub width: Fact<u32>,
    /// The maximum number of lanes.
    pub max_width: Fact<u32>,
}

impl Pci {
    /// The PCI device at the end of a path below /sys/devices.
    pub(super) fn of(root: &Root, real: &str) -> Fact<Self> {
        let above = real.split('/').filter(|part| is_address(part));
        let removable = |address: &str| {
            root.text(&format!("{DEVICES}/{address}/removable")).known().is_some_and(|is| is == "removable")
        };
        let is_removable = above.clone().any(removable);
        let mut addresses = above.rev();
        let Some(address) = addresses.next() else { return Fact::NotApplicable };
        let dir = format!("{DEVICES}/{address}");
        let control = device_control(root, &format!("{dir}/config"));
        // Both fields of the register have three bits: the value 0 means 128 bytes, and each further value twice as
        // many.
        let size = |shift: u32| control.clone().map(|word| 128_u32 << (u32::from(word) >> shift & 7));
        Fact::Known(Self {
            address: address.to_owned(),
            vendor: hexadecimal(root, &format!("{dir}/vendor")),
            device: hexadecimal(root, &format!("{dir}/device")),
            link: PciLink::read(root, &dir),
            bridges: addresses.map(|address| Bridge::read(root, address)).collect(),
            numa_node: node(root, &dir),
            local_cpus: cpu_list(root, &format!("{dir}/local_cpulist")),
            iommu: root.text(&format!("{dir}/iommu_group/type")),
            is_removable,
            max_payload: size(5),
            max_read_request: size(12),
        })
    }
}

impl Bridge {
    fn read(root: &Root, address: &str) -> Self {
        Self { address: address.to_owned(), link: PciLink::read(root, &format!("{DEVICES}/{address}")) }
    }
}

impl PciLink {
    fn read(root: &Root, dir: &str) -> Self {
        Self {
            speed: speed(root, &format!("{dir}/current_link_speed")),
            max_speed: speed(root, &format!("{dir}/max_link_speed")),
            width: width(root, &format!("{dir}/current_link_width")),
            max_width: width(root, &format!("{dir}/max_link_width")),
        }
    }
}

/// True for a PCI address such as `0000:03:00.0`.
fn is_address(part: &str) -> bool {
    let hex = |digits: &str, n: usize| digits.len() >= n && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let mut fields = part.split([':', '.']);
    let mut next = |n| fields.next().is_some_and(|field| hex(field, n));
    next(4) && next(2) && next(2) && next(1) && fields.next().is_none() && part.contains('.')
}

/// Reads a rate such as "8.0 GT/s PCIe"; not applicable for "Unknown", which means that there is no link.
fn speed(root: &Root, path: &str) -> Fact<f64> {
    root.text(path).and_then(|text| match text.split_whitespace().next() {
        Some("Unknown") => Fact::NotApplicable,
        word => or_odd(path, &text, word.and_then(|word| word.parse().ok())),
    })
}

/// Reads the number of lanes; 0 or 255 means that there is no link.
fn width(root: &Root, path: &str) -> Fact<u32> {
    number(root, path).and_then(|lanes| match lanes {
        0 | 255 => Fact::NotApplicable,
        lanes => Fact::Known(lanes),
    })
}

fn node(root: &Root, dir: &str) -> Fact<u32> {
    number::<i64>(root, &format!("{dir}/numa_node"))
        .and_then(|number| u32::try_from(number).map_or(Fact::NotApplicable, Fact::Known))
}

fn hexadecimal(root: &Root, path: &str) -> Fact<u16> {
    root.text(path).and_then(|text| {
        or_odd(path, &text, text.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok()))
    })
}

/// Reads the Device Control register of PCI Express (PCI Express Base Specification, 7.5.3.4).
fn device_control(root: &Root, path: &str) -> Fact<u16> {
    root.hex(path).and_then(|config| {
        if config.len() <= 64 {
            return Fact::Unreadable(format!(
                "/{path}: without CAP_SYS_ADMIN only its first 64 bytes can be read"
            ));
        }
        let byte = |at: u8| config.get(usize::from(at)).copied();
        let mut at = byte(0x34).unwrap_or(0);
        // The limit of 48 ends the loop even if the list of capabilities is circular.
        for _ in 0..48 {
            if at < 64 {
                return Fact::NotApplicable;
            }
            if byte(at) == Some(EXPRESS) {
                let word = |at: u8| Some(u16::from_le_bytes([byte(at)?, byte(at.checked_add(1)?)?]));
                return at.checked_add(8).and_then(word).map_or(Fact::NotApplicable, Fact::Known);
            }
            at = at.checked_add(1).and_then(byte).unwrap_or(0);
        }
        Fact::NotApplicable
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_from_other_parts() {
        assert!(is_address("0000:03:00.0") && is_address("10000:e1:1f.7"));
        assert!(!is_address("pci0000:00") && !is_address("virtio2") && !is_address("0000:03:00:0"));
        assert!(!is_address("") && !is_address("net"));
    }
}
