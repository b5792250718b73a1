//! Determines the kind of an interface from its driver.

use serde::{Deserialize, Serialize};

use super::{Fact, Pci};

/// The kind of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortKind {
    /// A physical device, or a device that behaves like one.
    Physical,
    /// A virtual function of a physical device: igbvf, ixgbevf, iavf, or any device with a `physfn`.
    VirtualFunction,
    /// A device that a hypervisor emulates after a physical model: e1000, e1000e in a guest, 8139cp, pcnet32.
    Emulated,
    /// A device that was designed for guests: virtio, vmxnet3, and those of Hyper-V, Xen, Amazon and Google.
    Paravirtual,
    /// An interface that the kernel itself provides: bond, bridge, VLAN, veth, tap, tunnel.
    Software,
}

/// Drivers of virtual functions.
const LENT: [&str; 5] = ["igbvf", "ixgbevf", "iavf", "i40evf", "enic_vf"];
/// Drivers of old devices that hypervisors emulate. On a physical host, these devices are physical.
const IMITATED: [&str; 7] = ["e1000", "e1000e", "8139cp", "8139too", "pcnet32", "ne2k-pci", "tulip"];
/// Drivers of paravirtual devices.
const FOR_GUESTS: [&str; 8] =
    ["virtio_net", "vmxnet3", "hv_netvsc", "vif", "xen-netfront", "netfront", "ena", "gve"];
/// Drivers of the kernel's own interfaces.
const SOFTWARE: [&str; 33] = [
    "bonding",
    "bridge",
    "team",
    "802.1Q VLAN Support",
    "veth",
    "tun",
    "dummy",
    "ifb",
    "vxlan",
    "macvlan",
    "macvtap",
    "ipvlan",
    "wireguard",
    "openvswitch",
    "geneve",
    "gre",
    "netkit",
    "vrf",
    "ipip",
    "gretap",
    "ip6gre",
    "erspan",
    "sit",
    "ip6tnl",
    "vti",
    "xfrm",
    "macsec",
    "bareudp",
    "amt",
    "hsr",
    "batadv",
    "ipvtap",
    "nlmon",
];
/// The drivers in [`SOFTWARE`] that report the rate of the ports below the interface.
const ABOVE_OTHERS: [&str; 3] = ["bonding", "team", "802.1Q VLAN Support"];
/// The part of sysfs that holds interfaces without a device.
const VIRTUAL: &str = "/devices/virtual/";
/// The vendor number of Mellanox, and the device numbers of its virtual functions.
const MELLANOX: u16 = 0x15b3;
const MELLANOX_LENT: [u16; 9] = [0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e, 0x1020];

/// True if the rate that this driver reports is that of a link, and not a nominal one.
pub fn has_rate_of_its_own(driver: &str) -> bool {
    let is_nominal = [&SOFTWARE[..], &FOR_GUESTS, &IMITATED].iter().any(|names| names.contains(&driver));
    !is_nominal || ABOVE_OTHERS.contains(&driver)
}

/// The kind of a port with this driver and PCI device, at the path `place` in sysfs. `guest` states whether
/// the host is a guest.
pub(super) fn of(
    driver: &Fact<String>,
    guest: &Fact<bool>,
    place: &Fact<String>,
    pci: &Fact<Pci>,
) -> Fact<PortKind> {
    // For a tunnel, the kernel reports the kind of the link as the driver (net/ethtool/ioctl.c).
    if place.known().is_some_and(|place| place.contains(VIRTUAL)) {
        return Fact::Known(PortKind::Software);
    }
    driver.clone().and_then(|driver| match driver.as_str() {
        name if LENT.contains(&name) => Fact::Known(PortKind::VirtualFunction),
        name if FOR_GUESTS.contains(&name) => Fact::Known(PortKind::Paravirtual),
        name if SOFTWARE.contains(&name) => Fact::Known(PortKind::Software),
        // On a physical host (according to x86's flag), these drivers belong to physical devices.
        name if IMITATED.contains(&name) => match guest {
            Fact::Known(true) => Fact::Known(PortKind::Emulated),
            Fact::Known(false) | Fact::NotApplicable => Fact::Known(PortKind::Physical),
            Fact::Unreadable(reason) => Fact::Unreadable(reason.clone()),
        },
        "mlx4_core" | "mlx5_core" => of_mellanox(pci),
        _ => Fact::Known(PortKind::Physical),
    })
}

/// The kind of a Mellanox device, by its device number, since one driver serves both physical and virtual
/// functions.
fn of_mellanox(pci: &Fact<Pci>) -> Fact<PortKind> {
    pci.clone().and_then(|pci| {
        let is_lent = |device| pci.vendor.known() == Some(&MELLANOX) && MELLANOX_LENT.contains(&device);
        let kind = |device| if is_lent(device) { PortKind::VirtualFunction } else { PortKind::Physical };
        pci.vendor.clone().and_then(|_| pci.device.clone().map(kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_veths_rate_is_nominal_and_a_bonds_is_that_of_its_ports() {
        for driver in ["mlx5_core", "ice", "ixgbevf", "bonding"] {
            assert!(has_rate_of_its_own(driver), "{driver}");
        }
        for driver in ["veth", "tun", "vmxnet3", "virtio_net", "e1000"] {
            assert!(!has_rate_of_its_own(driver), "{driver}");
        }
    }

    #[test]
    fn a_driver_and_its_place_make_the_kind() {
        let kind = |driver: &str, guest| {
            of(
                &Fact::Known(driver.into()),
                &Fact::Known(guest),
                &Fact::Known("/sys/devices/x".into()),
                &Fact::NotApplicable,
            )
            .get()
        };
        assert_eq!(
            (kind("e1000e", true), kind("e1000e", false)),
            (Some(PortKind::Emulated), Some(PortKind::Physical))
        );
        assert_eq!(kind("ena", true), Some(PortKind::Paravirtual));
        assert_eq!(kind("ixgbevf", true), Some(PortKind::VirtualFunction));
        assert_eq!(
            (kind("bonding", false), kind("ixgbe", false)),
            (Some(PortKind::Software), Some(PortKind::Physical))
        );
    }

    #[test]
    fn a_tunnel_is_software_by_its_place_and_by_the_kind_that_the_kernel_answers() {
        let kind = |driver: &str, place: Fact<String>| {
            of(&Fact::Known(driver.to_owned()), &Fact::Known(true), &place, &Fact::NotApplicable).get()
        };
        for driver in ["ipip", "sit", "xfrm", "macsec", "bareudp"] {
            assert_eq!(kind(driver, Fact::NotApplicable), Some(PortKind::Software), "{driver}");
        }
        let place = Fact::Known("/sys/devices/virtual/net/tunl0".into());
        assert_eq!(kind("of a later kernel", place), Some(PortKind::Software));
    }

    #[test]
    fn one_driver_of_two_kinds_is_told_by_the_device() {
        let pci =
            |device| Pci { vendor: Fact::Known(MELLANOX), device: Fact::Known(device), ..Pci::default() };
        let kind = |device| {
            let real = Fact::Known("/sys/devices/x".into());
            of(&Fact::Known("mlx5_core".into()), &Fact::Known(true), &real, &Fact::Known(pci(device))).get()
        };
        assert_eq!((kind(0x1017), kind(0x1018)), (Some(PortKind::Physical), Some(PortKind::VirtualFunction)));
    }
}
