//! The PCI Express links of the data's disks, compared with the needed rate.

use linerate_host::facts::{BlockDevice, BlockLayer, FileSystem, Paths, Pci};

use super::disk_slower_than_link::file_systems;
use super::pcie_bridge::{bridges, carries, lanes};
use super::{Check, CheckRun};
use crate::formula::{gbit, pcie};
use crate::same_cause::once_at_each;
use crate::source::{PCIE, SYSFS_PCI};
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "disk-link",
    about: "disks behind too few or too slow lanes",
    sources: &[SYSFS_PCI, PCIE],
    run: CheckRun::Host(|host| {
        let found = file_systems(host).filter_map(|fs| of(host, fs));
        once_at_each(found, |path| format!("{path} is on the same disks"))
    }),
};

/// The finding with the addresses of its PCI devices, which several file systems may share.
fn of<'a>(host: &Host<'_>, fs: &'a FileSystem) -> Option<(Vec<&'a str>, Finding)> {
    // The links that a guest sees needn't exist.
    if host.facts.machine.hypervisor().known().is_some() {
        return None;
    }
    let device = fs.device.known()?;
    // If a device has no link, such as a virtual disk, nothing is found.
    let (all, need) = (carried(device, narrowest)?, host.rate());
    // If the disks' own links have their maximum, no other slot helps.
    if all >= need || carried(device, widest)? <= all {
        return None;
    }
    let disks = &device.pci;
    let whose = if disks.len() == 1 { "link of the disk" } else { "links of the disks" };
    let mut finding =
        Finding::leaves(all, need, format!("the {whose} of {} carries {}", fs.path, gbit(all))).at(&fs.path);
    for pci in disks {
        finding = finding.evidence(format!("PCI device {}: {}", pci.address, lanes(&pci.link)));
    }
    let address = &disks[0].address;
    let finding = finding
        .evidence(format!("needed: {}", gbit(need)))
        .fix(format!(
            "put the disks into slots with more lanes; lspci -vv -s {address} shows LnkCap and LnkSta, lspci -tv shows the bridges"
        ))
        .conflict("an idle link may run below its speed: check again during a transfer");
    Some((disks.iter().map(|pci| pci.address.as_str()).collect(), finding))
}

/// The rate in bits a second at which the links of a device's disks carry what is written to the device. Disks behind
/// one card share its link.
fn carried(device: &BlockDevice, of: impl Fn(&Pci) -> Option<f64>) -> Option<f64> {
    let is_behind = |pci: &Pci, disk: &BlockLayer| disk.pci.known() == Some(&pci.address);
    let of_disk = |disk: &BlockLayer| {
        let pci = device.pci.iter().find(|pci| is_behind(pci, disk))?;
        Some(of(pci)? / device.disks().filter(|disk| is_behind(pci, disk)).count() as f64)
    };
    device.writes(Paths::AddUp, &of_disk)
}

/// Bits a second of a PCI device's own link at its best.
fn widest(pci: &Pci) -> Option<f64> {
    let payload = pci.max_payload.get().unwrap_or(pcie::USUAL_PAYLOAD);
    Some(pcie::effective(pci.link.max_speed.get()?, pci.link.max_width.get()?, payload)?.low)
}

/// Bits a second of the slowest link on the way to a PCI device.
fn narrowest(pci: &Pci) -> Option<f64> {
    let payload = pci.max_payload.get().unwrap_or(pcie::USUAL_PAYLOAD);
    let own = carries(&pci.link, payload)?.low;
    let bridges = bridges(pci).filter_map(|bridge| Some(carries(&bridge.link, payload)?.low));
    Some(bridges.fold(own, f64::min))
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::{above, with_device};
    use super::*;
    use crate::testing::{fixture, found, lines};
    use linerate_host::facts::{Bridge, PciLink};
    use linerate_host::{Fact, Facts};

    /// The link of a disk that could have four lanes of 16 GT/s.
    fn link(speed: f64, width: u32) -> PciLink {
        let (speed, width) = (Fact::Known(speed), Fact::Known(width));
        PciLink { max_speed: Fact::Known(16.0), max_width: Fact::Known(4), speed, width }
    }

    /// Disks, each behind a link of its own, as one array.
    fn array(name: &str, raid: Option<&str>, links: Vec<PciLink>) -> Facts {
        let device = |(at, link)| Pci { address: format!("0000:0{at}:00.0"), link, ..Pci::default() };
        let pci: Vec<Pci> = links.into_iter().enumerate().map(device).collect();
        let disk = |pci: &Pci| BlockLayer {
            name: format!("nvme-{}", pci.address),
            pci: Fact::Known(pci.address.clone()),
            ..BlockLayer::default()
        };
        let mut layers: Vec<BlockLayer> = pci.iter().map(disk).collect();
        layers.insert(0, above("md0", raid, &layers));
        with_device(name, |device| (device.pci, device.layers) = (pci, layers))
    }

    fn disks(links: &[(f64, u32)]) -> Vec<String> {
        let links = links.iter().map(|(speed, width)| link(*speed, *width)).collect();
        lines(&found(&CHECK, &array("stock-10g", None, links)))
    }

    #[test]
    fn few_lanes_are_found_and_those_of_several_disks_add_up() {
        assert_eq!(disks(&[(5.0, 2)]), ["disk-link / major 6.56 Gbit/s"]);
        assert_eq!(disks(&[(5.0, 1), (5.0, 1)]), ["disk-link / major 6.56 Gbit/s"]);
        assert_eq!(disks(&[(5.0, 2), (5.0, 2)]), [""; 0]);
        assert_eq!(disks(&[(8.0, 4)]), [""; 0]);
    }

    #[test]
    fn a_narrow_bridge_counts_and_a_virtual_disk_does_not() {
        let mut below = array("stock-10g", None, vec![link(8.0, 4)]);
        let Fact::Known(all) = &mut below.storage.file_systems else { panic!("no file systems") };
        let Fact::Known(device) = &mut all[0].device else { panic!("no device") };
        device.pci[0].bridges = vec![Bridge { address: "0000:00:1c.0".into(), link: link(2.5, 1) }];
        assert_eq!(lines(&found(&CHECK, &below)), ["disk-link / critical 1.64 Gbit/s"]);
        below.machine.guest = Fact::Known(true);
        assert!(found(&CHECK, &below).is_empty(), "a guest's bridge");
        assert!(found(&CHECK, &array("stock-10g", None, vec![PciLink::default()])).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }

    /// A mirror writes everything to each disk, and parity travels too.
    #[test]
    fn the_links_of_a_mirror_do_not_add_up() {
        let of = |raid| lines(&found(&CHECK, &array("stock-10g", raid, vec![link(5.0, 2), link(5.0, 2)])));
        assert_eq!(of(None), [""; 0]);
        assert_eq!(of(Some("raid1")), ["disk-link / major 6.56 Gbit/s"]);
        assert_eq!(of(Some("raid5")), ["disk-link / major 6.56 Gbit/s"]);
    }

    /// Behind one card, both copies of a mirror travel over its link.
    #[test]
    fn disks_behind_one_card_share_its_link() {
        let shared = |raid| {
            let mut facts = array("stock-10g", raid, vec![link(5.0, 4)]);
            let Fact::Known(all) = &mut facts.storage.file_systems else { panic!("no file systems") };
            let Fact::Known(device) = &mut all[0].device else { panic!("no device") };
            let other = BlockLayer { name: "other".into(), ..device.layers[1].clone() };
            device.layers[0].made_of.push("other".into());
            device.layers.push(other);
            lines(&found(&CHECK, &facts))
        };
        assert_eq!(shared(None), [""; 0], "13 Gbit/s");
        assert_eq!(shared(Some("raid1")), ["disk-link / major 6.56 Gbit/s"]);
    }

    #[test]
    fn a_link_at_its_disks_best_is_what_the_disk_can_do() {
        let tuned = array("esnet-dtn-100g", None, vec![link(16.0, 4)]);
        assert!(found(&CHECK, &tuned).is_empty(), "{:?}", found(&CHECK, &tuned));
        let narrow = array("esnet-dtn-100g", None, vec![link(16.0, 2)]);
        assert_eq!(found(&CHECK, &narrow).len(), 1);
    }

    #[test]
    fn file_systems_on_one_disk_are_found_once() {
        let mut facts = array("stock-10g", None, vec![link(5.0, 2)]);
        let Fact::Known(all) = &mut facts.storage.file_systems else { panic!("no file systems") };
        all.push(FileSystem { path: "/home".into(), ..all[0].clone() });
        let found = found(&CHECK, &facts);
        assert_eq!(lines(&found), ["disk-link / major 6.56 Gbit/s"]);
        assert!(found[0].evidence.contains(&"/home is on the same disks".to_owned()), "{found:?}");
    }
}
