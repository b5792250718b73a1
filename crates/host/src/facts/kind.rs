//! Determines the kind of an interface from its driver.

use serde::{Deserialize, Serialize};

use super::{Fact, Pci};

/// The kind of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortKind {
    /// A physical device, or a device that behaves like one.
    Physical,
    /// A virtual function of a physical device: by its driver (igbvf, ixgbevf, iavf), its device number, or its
    /// `physfn`.
    VirtualFunction,
    /// A device that a hypervisor emulates after a physical model, such as one with the driver e1000, e1000e, 8139cp or
    /// pcnet32.
    Emulated,
    /// A device that was designed for guests: virtio, vmxnet3, and those of Hyper-V, Xen, Amazon and Google.
    Paravirtual,
    /// An interface that the kernel itself provides: bond, bridge, VLAN, veth, tap, tunnel.
    Software,
}

/// Drivers of virtual functions, by the names that they report.
const LENT: [&str; 18] = [
    "igbvf",
    "ixgbevf",
    "iavf",
    "i40evf",
    "enic_vf",
    "cxgb4vf",
    "liquidio_vf",
    "LiquidIO_VF",
    "thunder-nicvf",
    "nicvf",
    "octeontx2-nicvf",
    "rvu-nicvf",
    "rvu_nicvf",
    "octeon_ep_vf",
    "nfp_netvf",
    "fsl_enetc_vf",
    "ngbevf",
    "txgbevf",
];
/// Drivers of old devices that hypervisors emulate. On a physical host, devices with these drivers are physical.
const IMITATED: [&str; 7] = ["e1000", "e1000e", "8139cp", "8139too", "pcnet32", "ne2k-pci", "tulip"];
/// Drivers of paravirtual devices.
const FOR_GUESTS: [&str; 9] =
    ["virtio_net", "vmxnet3", "hv_netvsc", "vif", "xen-netfront", "netfront", "ena", "gve", "ibmveth"];
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
/// Vendor numbers, each with the device numbers of that vendor's virtual functions. The numbers come from the drivers'
/// tables of devices in Linux 6.12 (for hinic and bnxt_en, also from the drivers of the makers). Each of the named
/// drivers serves both physical and virtual functions.
#[rustfmt::skip]
const FUNCTIONS: [(u16, &[u16]); 14] = [
    // mlx4_core and mlx5_core.
    (0x15b3, &[0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e, 0x1020, 0xa2d3]),
    // bnxt_en, and from 0x163f on bnx2x.
    (0x14e4, &[
        0x1606, 0x1607, 0x1608, 0x1609, 0x16bd, 0x16c1, 0x16c2, 0x16c3, 0x16c4, 0x16c5, 0x16cb, 0x16d3, 0x16dc, 0x16e1, 0x16e5,
        0x16e6, 0x1806, 0x1807, 0x1808, 0x1809, 0x1819, 0x181b, 0xd800, 0x163f, 0x166f, 0x16a9, 0x16ad, 0x16af,
    ]),
    // qede.
    (0x1077, &[0x1664, 0x8090]),
    // hinic, hinic3, hns3.
    (0x19e5, &[0x375e, 0x379e, 0x375f, 0xa22e, 0xa22f]),
    // fm10k, idpf.
    (0x8086, &[0x15a5, 0x145c]),
    // ionic.
    (0x1dd8, &[0x1003]),
    // sfc, sfc_ef100.
    (0x1924, &[0x1903, 0x1923, 0x1a03, 0x1b03]),
    (0x10ee, &[0x1100]),
    // enic.
    (0x1137, &[0x0071, 0x02b7]),
    // nfp, of both of its vendors.
    (0x19ee, &[0x3803, 0x6003]),
    (0x1da8, &[0x3803, 0x6003]),
    // mana.
    (0x1414, &[0x00ba]),
    // liquidio.
    (0x177d, &[0x9712]),
    // fsl_enetc.
    (0x1957, &[0xef00]),
];

/// True if the rate that this driver reports is the rate of a link, and not a nominal rate.
pub fn has_rate_of_its_own(driver: &str) -> bool {
    let is_nominal = [&SOFTWARE[..], &FOR_GUESTS, &IMITATED].iter().any(|names| names.contains(&driver));
    !is_nominal || ABOVE_OTHERS.contains(&driver)
}

/// True for the name that the driver gives to a port of a switch in the card: the representor of a virtual function or of a
/// subfunction, such as `pf0vf1`, `c1pf0vf1` or `pf0sf88` (devlink-port.rst). Guests' packets don't pass through its queues.
pub(super) fn is_representor(port_name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((controller, function)) = port_name.split_once("pf") else { return false };
    let function = function.split_once("vf").or_else(|| function.split_once("sf"));
    let is_controller = controller.is_empty() || controller.strip_prefix('c').is_some_and(digits);
    is_controller && function.is_some_and(|(above, own)| digits(above) && digits(own))
}

/// The kind of a port with this driver and PCI device, at the path `place` in sysfs. `guest` states whether
/// the host is a guest, and `above` is the physical function of the device.
pub(super) fn of(
    driver: &Fact<String>,
    guest: &Fact<bool>,
    place: &Fact<String>,
    pci: &Fact<Pci>,
    above: &Fact<String>,
) -> Fact<PortKind> {
    // For a tunnel, the kernel reports the kind of the link as the driver (net/ethtool/ioctl.c).
    if place.known().is_some_and(|place| place.contains(VIRTUAL)) {
        return Fact::Known(PortKind::Software);
    }
    driver.clone().and_then(|driver| match driver.as_str() {
        name if LENT.contains(&name) => Fact::Known(PortKind::VirtualFunction),
        name if FOR_GUESTS.contains(&name) => Fact::Known(PortKind::Paravirtual),
        name if SOFTWARE.contains(&name) => Fact::Known(PortKind::Software),
        // On a physical host (according to x86's flag), and on Arm, which has no such flag, these drivers belong to
        // physical devices.
        name if IMITATED.contains(&name) => match guest {
            Fact::Known(true) => Fact::Known(PortKind::Emulated),
            Fact::Known(false) | Fact::NotApplicable => Fact::Known(PortKind::Physical),
            Fact::Unreadable(reason) => Fact::Unreadable(reason.clone()),
        },
        _ if above.known().is_some() => Fact::Known(PortKind::VirtualFunction),
        // In the guests of clouds, most devices of these drivers are virtual functions. So a device with an unknown
        // number may be a physical or a virtual function.
        "mlx4_core" | "mlx4_en" | "mlx5_core" => of_device(pci),
        _ => Fact::Known(of_device(pci).get().unwrap_or(PortKind::Physical)),
    })
}

/// The kind of a device by its number, for drivers that serve both physical and virtual functions.
fn of_device(pci: &Fact<Pci>) -> Fact<PortKind> {
    pci.clone().and_then(|pci| {
        let is_lent = |vendor, device| {
            FUNCTIONS.iter().any(|(maker, devices)| *maker == vendor && devices.contains(&device))
        };
        let kind = |vendor, device| match is_lent(vendor, device) {
            true => PortKind::VirtualFunction,
            false => PortKind::Physical,
        };
        pci.vendor.and_then(|vendor| pci.device.map(|device| kind(vendor, device)))
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
    fn a_representor_is_known_by_its_name() {
        for name in ["pf0vf1", "c1pf0vf12", "pf1sf88"] {
            assert!(is_representor(name), "{name}");
        }
        for name in ["p0", "pf0", "pf0vf", "eth0vf1", "", "xpf0vf1"] {
            assert!(!is_representor(name), "{name}");
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
            let driver = Fact::Known(driver.to_owned());
            of(&driver, &Fact::Known(true), &place, &Fact::NotApplicable, &Fact::NotApplicable).get()
        };
        for driver in ["ipip", "sit", "xfrm", "macsec", "bareudp"] {
            assert_eq!(kind(driver, Fact::NotApplicable), Some(PortKind::Software), "{driver}");
        }
        let place = Fact::Known("/sys/devices/virtual/net/tunl0".into());
        assert_eq!(kind("of a later kernel", place), Some(PortKind::Software));
    }

    /// The kind of a port whose driver serves physical and virtual functions.
    fn of_pci(driver: &str, vendor: u16, device: u16, above: Fact<String>) -> Option<PortKind> {
        let pci = Pci { vendor: Fact::Known(vendor), device: Fact::Known(device), ..Pci::default() };
        let real = Fact::Known("/sys/devices/x".into());
        of(&Fact::Known(driver.into()), &Fact::Known(true), &real, &Fact::Known(pci), &above).get()
    }

    #[test]
    fn one_driver_of_two_kinds_is_recognised_by_the_device() {
        let pairs = [
            ("mlx5_core", 0x15b3, 0x1017, 0x1018),
            ("mlx4_en", 0x15b3, 0x1003, 0x1004),
            ("bnxt_en", 0x14e4, 0x16d7, 0x16dc),
            ("bnxt_en", 0x14e4, 0x16c9, 0x16e1),
            ("bnxt_en", 0x14e4, 0x1751, 0x1806),
            ("bnx2x", 0x14e4, 0x168e, 0x16af),
            ("qede", 0x1077, 0x1656, 0x1664),
            ("qede", 0x1077, 0x8070, 0x8090),
            ("hinic", 0x19e5, 0x1822, 0x375e),
            ("hns3", 0x19e5, 0xa222, 0xa22f),
            ("ionic", 0x1dd8, 0x1002, 0x1003),
            ("sfc", 0x1924, 0x0a03, 0x1a03),
            ("sfc_ef100", 0x10ee, 0x0100, 0x1100),
            ("enic", 0x1137, 0x0043, 0x0071),
            ("nfp", 0x19ee, 0x6000, 0x6003),
            ("mana", 0x1414, 0x00b9, 0x00ba),
            ("idpf", 0x8086, 0x1452, 0x145c),
        ];
        for (driver, vendor, physical, function) in pairs {
            let kind = |device| of_pci(driver, vendor, device, Fact::NotApplicable);
            assert_eq!(kind(physical), Some(PortKind::Physical), "{driver} {physical:04x}");
            assert_eq!(kind(function), Some(PortKind::VirtualFunction), "{driver} {function:04x}");
        }
    }

    /// On the host that owns the physical function, sysfs names the physical function of each virtual function.
    #[test]
    fn a_function_of_a_physical_one_is_virtual() {
        let above = Fact::Known("0000:01:00.0".to_owned());
        assert_eq!(of_pci("any", 0x1234, 0x5678, above.clone()), Some(PortKind::VirtualFunction));
        assert_eq!(of_pci("virtio_net", 0x1af4, 0x1041, above), Some(PortKind::Paravirtual));
    }
}
