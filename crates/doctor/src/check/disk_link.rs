//! The PCI Express links of the data's disks, compared with the needed rate.

use linerate_host::facts::{FileSystem, Pci};

use super::disk_slower_than_link::file_systems;
use super::pcie_bridge::{carries, lanes};
use super::{Check, CheckRun};
use crate::formula::{gbit, pcie};
use crate::source::{PCIE, SYSFS_PCI};
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "disk-link",
    about: "disks behind too few or too slow lanes",
    sources: &[SYSFS_PCI, PCIE],
    run: CheckRun::Host(|host| file_systems(host).filter_map(|fs| of(host, fs)).collect()),
};

fn of(host: &Host<'_>, fs: &FileSystem) -> Option<Finding> {
    let disks = &fs.device.known()?.pci;
    // If a device has no link, such as a guest's virtual disk, nothing is found.
    let each = disks.iter().map(narrowest).collect::<Option<Vec<f64>>>()?;
    let (sum, need) = (each.iter().sum::<f64>(), host.rate());
    if disks.is_empty() || sum >= need {
        return None;
    }
    let whose = if disks.len() == 1 { "link of the disk" } else { "links of the disks" };
    let mut finding =
        Finding::leaves(sum, need, format!("the {whose} of {} carries {}", fs.path, gbit(sum))).at(&fs.path);
    for pci in disks {
        finding = finding.evidence(format!("PCI device {}: {}", pci.address, lanes(&pci.link)));
    }
    let address = &disks[0].address;
    Some(
        finding
            .evidence(format!("needed: {}", gbit(need)))
            .fix(format!(
                "put the disks into slots with more lanes; lspci -vv -s {address} shows LnkCap and LnkSta, lspci -tv the bridges"
            ))
            .conflict("an idle link may run below its speed: check again during a transfer"),
    )
}

/// Bits a second of the narrowest link on the way to a device.
fn narrowest(pci: &Pci) -> Option<f64> {
    let payload = pci.max_payload.get().unwrap_or(pcie::USUAL_PAYLOAD);
    let own = carries(&pci.link, payload)?.low;
    let bridges = pci.bridges.iter().filter_map(|bridge| Some(carries(&bridge.link, payload)?.low));
    Some(bridges.fold(own, f64::min))
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::with_device;
    use super::*;
    use crate::testing::{fixture, found, lines};
    use linerate_host::Fact;
    use linerate_host::facts::{Bridge, PciLink};

    fn link(speed: f64, width: u32) -> PciLink {
        let (speed, width) = (Fact::Known(speed), Fact::Known(width));
        PciLink { max_speed: speed.clone(), max_width: width.clone(), speed, width }
    }

    fn disks(links: &[(f64, u32)]) -> Vec<String> {
        let device = |(at, (speed, width)): (usize, &(f64, u32))| Pci {
            address: format!("0000:0{at}:00.0"),
            link: link(*speed, *width),
            ..Pci::default()
        };
        let pci: Vec<Pci> = links.iter().enumerate().map(device).collect();
        lines(&found(&CHECK, &with_device("stock-10g", |disk| disk.pci = pci)))
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
        let below = with_device("stock-10g", |disk| {
            let bridges = vec![Bridge { address: "0000:00:1c.0".into(), link: link(2.5, 1) }];
            disk.pci = vec![Pci { link: link(8.0, 4), bridges, ..Pci::default() }];
        });
        assert_eq!(lines(&found(&CHECK, &below)), ["disk-link / critical 1.64 Gbit/s"]);
        let guest = with_device("stock-10g", |disk| disk.pci = vec![Pci::default()]);
        assert!(found(&CHECK, &guest).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
