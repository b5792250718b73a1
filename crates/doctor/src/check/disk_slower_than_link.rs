//! The rate of rotating disks and memory cards, compared with the needed rate.

use linerate_host::facts::{BlockDevice, BlockLayer, FileSystem, Paths};

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::same_cause::once_at_each;
use crate::source::{BLOCK, ESNET_DISK};
use crate::{Finding, Host};

/// Sequential bytes a second of one rotating disk at its outer tracks: data sheets give 250 to 285 MB/s.
const ROTATING: f64 = 285e6;
/// The most bytes a second of eMMC (HS400) and of SD cards (UHS-I).
const CARD: f64 = 400e6;

pub(super) const CHECK: Check = Check {
    name: "disk-slower-than-link",
    about: "disks slower than the needed rate",
    sources: &[BLOCK, ESNET_DISK],
    run: CheckRun::Host(|host| {
        let found = file_systems(host).filter_map(|fs| of(host, fs));
        once_at_each(found, |path| format!("{path} is on the same disks"))
    }),
};

/// File systems of the paths that the user named, or of the host's usual ones.
pub(super) fn file_systems<'a>(host: &Host<'a>) -> impl Iterator<Item = &'a FileSystem> + use<'a> {
    host.facts.storage.file_systems.known().into_iter().flatten()
}

/// The finding with the names of its disks, which several file systems may share.
fn of<'a>(host: &Host<'_>, fs: &'a FileSystem) -> Option<(Vec<&'a str>, Finding)> {
    let device = fs.device.known()?;
    let rate = |disk: &BlockLayer| Some(kind(host, disk)?.1);
    let most = device.writes(Paths::OfOne, &rate)?;
    // The rate of a mirror, or of a RAID with parity, is that of its slow disks.
    let (kind, each) = device.disks().find_map(|disk| kind(host, disk))?;
    if most * 8.0 >= host.rate() {
        return None;
    }
    let (title, parts) = (format!("{} writes at most {}", fs.path, gbit(most * 8.0)), (most / each).round());
    let finding = Finding::leaves(most * 8.0, host.rate(), title)
        .at(&fs.path)
        .evidence(format!(
            "{}{}: {parts} x {kind}, at most {} each",
            device.name,
            model(device),
            gbit(each * 8.0)
        ))
        .evidence(format!("needed: {}", gbit(host.rate())))
        .evidence("files are faster as long as the page cache holds them; many small files are slower")
        .fix(
            "use NVMe, or more disks in a RAID; \
        to measure the network alone, copy between file systems in memory (tmpfs)",
        )
        .conflict("estimated from the kind of disk: nothing was read or written");
    Some((device.disks().map(|disk| disk.name.as_str()).collect(), finding))
}

/// The kind of a disk and its bytes a second. In a guest the kind is unknown: hypervisors report most disks as
/// rotating.
fn kind(host: &Host<'_>, disk: &BlockLayer) -> Option<(&'static str, f64)> {
    if disk.name.starts_with("mmcblk") {
        return Some(("memory card", CARD));
    }
    (host.is_physical() && disk.is_rotating_disk()).then_some(("rotating disk", ROTATING))
}

fn model(device: &BlockDevice) -> String {
    device.model.known().map_or_else(String::new, |model| format!(" ({model})"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::{Fact, Facts};

    /// A host with its first file system changed.
    pub fn with(name: &str, change: impl FnOnce(&mut FileSystem)) -> Facts {
        changed(name, |facts| {
            let Fact::Known(all) = &mut facts.storage.file_systems else { panic!("no file systems") };
            change(&mut all[0]);
        })
    }

    /// A host with the device of its first file system changed.
    pub fn with_device(name: &str, change: impl FnOnce(&mut BlockDevice)) -> Facts {
        with(name, |fs| {
            let Fact::Known(device) = &mut fs.device else { panic!("no device") };
            change(device);
        })
    }

    /// Disks that rotate.
    fn rotating(names: &[&str]) -> Vec<BlockLayer> {
        let disk = |name: &&str| BlockLayer {
            name: (*name).to_owned(),
            vendor: Fact::Known("ATA".into()),
            model: Fact::Known("ST8000NM0055-1RM".into()),
            rotational: Fact::Known(true),
            ..BlockLayer::default()
        };
        names.iter().map(disk).collect()
    }

    /// A layer above others.
    pub fn above(name: &str, raid: Option<&str>, parts: &[BlockLayer]) -> BlockLayer {
        BlockLayer {
            name: name.to_owned(),
            made_of: parts.iter().map(|part| part.name.clone()).collect(),
            raid: raid.map_or(Fact::NotApplicable, |level| Fact::Known(level.to_owned())),
            ..BlockLayer::default()
        }
    }

    fn of_layers(name: &str, layers: Vec<BlockLayer>) -> Facts {
        with_device(name, |device| device.layers = layers)
    }

    fn of_array(raid: Option<&str>, names: &[&str]) -> Vec<String> {
        let mut layers = rotating(names);
        layers.insert(0, above("md0", raid, &layers));
        lines(&found(&CHECK, &of_layers("stock-10g", layers)))
    }

    #[test]
    fn disks_that_turn_are_slow_and_many_are_less_so() {
        let one = of_layers("stock-10g", rotating(&["sda"]));
        assert_eq!(lines(&found(&CHECK, &one)), ["disk-slower-than-link / critical 2.28 Gbit/s"]);
        let disks = ["sda", "sdb", "sdc", "sdd"];
        assert_eq!(of_array(None, &disks), ["disk-slower-than-link / minor 9.12 Gbit/s"]);
        assert_eq!(of_array(Some("raid5"), &disks), ["disk-slower-than-link / major 6.84 Gbit/s"]);
        assert_eq!(of_array(Some("raid10"), &disks), ["disk-slower-than-link / critical 4.56 Gbit/s"]);
        assert_eq!(of_array(Some("raid1"), &disks), ["disk-slower-than-link / critical 2.28 Gbit/s"]);
    }

    /// A logical volume on md's RAID has the rate of the RAID's disks.
    #[test]
    fn a_volume_on_a_raid_is_as_fast_as_the_raid() {
        let of = |below: Vec<BlockLayer>| {
            let mut layers = vec![above("dm-0", None, &below[..1])];
            layers.extend(below);
            of_layers("stock-10g", layers)
        };
        let mut raid = rotating(&["sda", "sdb", "sdc", "sdd", "sde", "sdf", "sdg"]);
        raid.insert(0, above("md127", Some("raid6"), &raid));
        assert!(found(&CHECK, &of(raid.clone())).is_empty());
        raid.truncate(6);
        raid[0] = above("md127", Some("raid6"), &raid[1..]);
        let found = found(&CHECK, &of(raid));
        assert_eq!(lines(&found), ["disk-slower-than-link / major 6.84 Gbit/s"]);
        assert!(found[0].evidence[0].contains(": 3 x rotating disk, "), "{found:?}");
    }

    /// Four paths to one disk are one disk; two partitions of a disk are one, too.
    #[test]
    fn paths_and_partitions_do_not_add_up() {
        let mut layers = rotating(&["sda", "sdb", "sdc", "sdd"]);
        let mapping = Fact::Known("mpath-35000c500a1b2c3d4".into());
        layers.insert(0, BlockLayer { mapping, ..above("dm-0", None, &layers) });
        let line = ["disk-slower-than-link / critical 2.28 Gbit/s"];
        assert_eq!(lines(&found(&CHECK, &of_layers("stock-10g", layers))), line);
        let disk = rotating(&["sda"]);
        let parts = [above("sda1", None, &disk), above("sda2", None, &disk)];
        let layers = [vec![above("dm-0", None, &parts)], parts.to_vec(), disk].concat();
        assert_eq!(lines(&found(&CHECK, &of_layers("stock-10g", layers))), line);
    }

    /// The volumes of a RAID controller or an array, and a USB bridge, report that they rotate, whatever disks they
    /// consist of.
    #[test]
    fn of_a_controllers_volume_the_disks_are_unknown() {
        for (vendor, model) in [
            ("HP", "LOGICAL VOLUME"),
            ("DELL", "PERC H730 Mini"),
            ("AVAGO", "MR9361-8i"),
            ("LSI", "Logical Volume"),
            ("ASR8405", "data"),
            ("ATA", "MARVELL Virtual"),
            ("HITACHI", "OPEN-V"),
            ("NETAPP", "LUN C-Mode"),
            ("Samsung", "Portable SSD T5"),
        ] {
            let mut disk = rotating(&["sda"]);
            (disk[0].vendor, disk[0].model) = (Fact::Known(vendor.into()), Fact::Known(model.into()));
            assert!(found(&CHECK, &of_layers("stock-10g", disk)).is_empty(), "{vendor} {model}");
        }
        let mut disk = rotating(&["sda"]);
        (disk[0].vendor, disk[0].model) =
            (Fact::Known("SEAGATE".into()), Fact::Known("ST12000NM0027".into()));
        assert_eq!(found(&CHECK, &of_layers("stock-10g", disk)).len(), 1);
    }

    #[test]
    fn file_systems_on_one_disk_are_found_once() {
        let mut facts = of_layers("stock-10g", rotating(&["sda"]));
        let Fact::Known(all) = &mut facts.storage.file_systems else { panic!("no file systems") };
        all.push(FileSystem { path: "/home".into(), ..all[0].clone() });
        let found = found(&CHECK, &facts);
        assert_eq!(lines(&found), ["disk-slower-than-link / critical 2.28 Gbit/s"]);
        assert!(found[0].evidence.contains(&"/home is on the same disks".to_owned()), "{found:?}");
    }

    #[test]
    fn fast_ones_and_guests_are_not_found() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert!(found(&CHECK, &fixture("firecracker")).is_empty());
    }
}
