//! The layers of block devices: devices of the device mapper (LVM, multipath, encryption), md's RAIDs, partitions, and
//! the disks below these.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::flag;
use super::storage::BlockDevice;
use crate::root::Root;

/// The most devices of one block device's layers that are read.
const MOST_PARTS: usize = 256;

/// A block device of the layers below a file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockLayer {
    /// The name of the device or partition.
    pub name: String,
    /// The names of the component devices; for a partition, the name of its disk. Empty for a disk.
    pub made_of: Vec<String>,
    /// The level of md's RAID. For a btrfs file system on several devices, the level that corresponds to its profile
    /// for data.
    pub raid: Fact<String>,
    /// The identifier of a device of the device mapper. It begins with the name of the software that made the device:
    /// `LVM-`, `mpath-`, `CRYPT-`.
    pub mapping: Fact<String>,
    /// The vendor that a SCSI device reports: `ATA` for SATA disks.
    pub vendor: Fact<String>,
    /// The device's model.
    pub model: Fact<String>,
    /// True if the device is a rotating disk according to the kernel. This is also true for many devices that don't
    /// report what they are.
    pub rotational: Fact<bool>,
    /// The address of the PCI device through which a disk is attached.
    pub pci: Fact<String>,
}

/// Vendors of SCSI disks, each with the beginning of the model names of the vendor's single disks. RAID controllers,
/// disk arrays and USB bridges have other names. For all SATA disks, the kernel reports the vendor ATA.
const DISKS: [(&str, &str); 16] = [
    ("ATA", ""),
    ("SEAGATE", "ST"),
    ("WDC", "W"),
    ("WD", "W"),
    ("HGST", "H"),
    ("HITACHI", "HU"),
    ("TOSHIBA", "M"),
    ("TOSHIBA", "A"),
    ("FUJITSU", "M"),
    ("IBM-ESXS", ""),
    ("HP", "EG"),
    ("HP", "EH"),
    ("HP", "MB"),
    ("HPE", "EG"),
    ("HPE", "EH"),
    ("HPE", "MB"),
];
/// Parts of the model names of controllers that show several SATA disks as one disk (Marvell, JMicron, ASMedia).
const NO_DISKS: [&str; 6] = ["RAID", "VIRTUAL", "ASMT", "VOLUME", " VD", "LUN"];

impl BlockLayer {
    /// A device and, recursively, its component devices, for example those of a logical volume on a RAID.
    pub(super) fn below(root: &Root, name: &str) -> Vec<Self> {
        let (mut names, mut found) = (vec![name.to_owned()], Vec::new());
        while let Some(name) = names.get(found.len()).filter(|_| found.len() < MOST_PARTS).cloned() {
            let layer = Self::read(root, name);
            let new: Vec<_> = layer.made_of.iter().filter(|part| !names.contains(part)).cloned().collect();
            names.extend(new);
            found.push(layer);
        }
        found
    }

    fn read(root: &Root, name: String) -> Self {
        let path = |file: &str| format!("sys/class/block/{name}/{file}");
        let slaves = root.names(&path("slaves")).known().cloned().unwrap_or_default();
        Self {
            made_of: if slaves.is_empty() { Vec::from_iter(disk(root, &name)) } else { slaves },
            raid: root.text(&path("md/level")),
            mapping: root.text(&path("dm/uuid")),
            vendor: root.text(&path("device/vendor")),
            model: root.text(&path("device/model")),
            rotational: flag(root, &path("queue/rotational")),
            pci: Fact::NotApplicable,
            name,
        }
    }

    /// True for a single disk that rotates. The volumes of RAID controllers and disk arrays, and USB bridges, don't
    /// count: they may report that they rotate although they consist of many disks, or of disks that don't rotate.
    pub fn is_rotating_disk(&self) -> bool {
        let starts =
            |fact: &Fact<String>, with: &str| fact.known().is_some_and(|text| text.starts_with(with));
        let is_vendor = |name: &str| self.vendor.known().is_some_and(|vendor| vendor == name);
        let is_disk = |(vendor, model): &(&str, &str)| is_vendor(vendor) && starts(&self.model, model);
        let model = self.model.known().map(|model| model.to_ascii_uppercase()).unwrap_or_default();
        self.rotational.get() == Some(true)
            && DISKS.iter().any(is_disk)
            && !NO_DISKS.iter().any(|part| model.contains(part))
    }

    fn is_multipath(&self) -> bool {
        self.mapping.known().is_some_and(|uuid| uuid.starts_with("mpath-"))
    }
}

/// The whole disk of a partition; `None` for other devices.
fn disk(root: &Root, name: &str) -> Option<String> {
    let real = root.real(&format!("sys/class/block/{name}"));
    real.known().and_then(|real| whole(real)).filter(|disk| disk != name)
}

/// The name of the whole device at the end of a path below /sys/devices. The directory of a partition is inside the
/// directory of its device: `.../block/sda/sda1`, and for NVMe `.../nvme/nvme0/nvme0n1/nvme0n1p1`.
pub(super) fn whole(real: &str) -> Option<String> {
    if let Some((_, rest)) = real.split_once("/block/") {
        return rest.split('/').next().map(str::to_owned);
    }
    let mut parts = real.rsplit('/');
    let (last, above) = (parts.next()?, parts.next()?);
    let number = last.strip_prefix(above).and_then(|rest| rest.strip_prefix('p'));
    let is_partition = number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    match (last.starts_with("nvme"), is_partition) {
        (true, true) => Some(above.to_owned()),
        (true, false) => Some(last.to_owned()),
        (false, _) => None,
    }
}

/// How the rates of the paths to a device with several paths add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// The paths lead to one device, whose rate counts once.
    OfOne,
    /// The paths carry the data together, so their rates add up.
    AddUp,
}

impl BlockDevice {
    /// The rate at which large files are written to the device, computed from the rates `of_disk` of its disks; `None`
    /// if a rate that counts is unknown. A mirror writes all data to each disk; parity takes the share of one or two
    /// disks.
    pub fn writes(&self, paths: Paths, of_disk: &dyn Fn(&BlockLayer) -> Option<f64>) -> Option<f64> {
        let top = self.layers.first()?;
        Writing { layers: &self.layers, paths, of_disk, known: BTreeMap::new() }.rate(&top.name)
    }

    /// The disks at the bottom of the layers.
    pub fn disks(&self) -> impl Iterator<Item = &BlockLayer> {
        self.layers.iter().filter(|layer| layer.made_of.is_empty())
    }
}

/// The rates of a device's layers.
struct Writing<'a> {
    layers: &'a [BlockLayer],
    paths: Paths,
    of_disk: &'a dyn Fn(&BlockLayer) -> Option<f64>,
    /// The rates of the layers that were already computed, so that a layer below several others is computed only once.
    known: BTreeMap<&'a str, Option<f64>>,
}

impl<'a> Writing<'a> {
    fn rate(&mut self, name: &str) -> Option<f64> {
        let layer = self.layers.iter().find(|layer| layer.name == name)?;
        if let Some(rate) = self.known.get(layer.name.as_str()) {
            return *rate;
        }
        self.known.insert(&layer.name, None);
        let rate = if layer.made_of.is_empty() { (self.of_disk)(layer) } else { self.of_parts(layer) };
        self.known.insert(&layer.name, rate);
        rate
    }

    fn of_parts(&mut self, layer: &'a BlockLayer) -> Option<f64> {
        let each: Vec<Option<f64>> = layer.made_of.iter().map(|name| self.rate(name)).collect();
        // The slowest component whose rate is known limits all components that are written at the same time.
        let slowest = each.iter().flatten().copied().reduce(f64::min);
        let times = |disks: usize| slowest.map(|rate| rate * disks.max(1) as f64);
        match layer.raid.known().map(String::as_str) {
            Some("raid1") => slowest,
            Some("raid10") => times(each.len().div_ceil(2)),
            Some("raid4" | "raid5") => times(each.len().saturating_sub(1)),
            Some("raid6") => times(each.len().saturating_sub(2)),
            _ if layer.is_multipath() && self.paths == Paths::OfOne => slowest,
            // Several components may be on one disk.
            _ => Some(each.into_iter().sum::<Option<f64>>()?.min(self.all_disks(layer)?)),
        }
    }

    /// The sum of the rates of all disks below a layer; each disk counts once.
    fn all_disks(&self, layer: &'a BlockLayer) -> Option<f64> {
        let mut names: Vec<&str> = vec![&layer.name];
        let (mut at, mut sum) = (0, 0.0);
        while let Some(name) = names.get(at) {
            let layer = self.layers.iter().find(|layer| layer.name == *name)?;
            if layer.made_of.is_empty() {
                sum += (self.of_disk)(layer)?;
            }
            let new = layer.made_of.iter().map(String::as_str).filter(|part| !names.contains(part));
            let new: Vec<&str> = new.collect();
            names.extend(new);
            at += 1;
        }
        Some(sum)
    }
}

/// The profiles of btrfs, each with the level of md's RAID in which the rates of the disks add up in the same way.
const PROFILES: [(&str, &str); 9] = [
    ("single", "raid0"),
    ("dup", "raid0"),
    ("raid0", "raid0"),
    ("raid1", "raid10"),
    ("raid1c3", "raid10"),
    ("raid1c4", "raid10"),
    ("raid10", "raid10"),
    ("raid5", "raid5"),
    ("raid6", "raid6"),
];

/// The layers of a btrfs file system on several devices, one of which is `device`, the one that the mount names. `None`
/// if the file system is on a single device.
pub(super) fn of_btrfs(root: &Root, device: &str) -> Option<Vec<BlockLayer>> {
    const ALL: &str = "sys/fs/btrfs";
    let systems = root.names(ALL).known().cloned().unwrap_or_default();
    let (system, devices) = systems.into_iter().find_map(|system| {
        let devices = root.names(&format!("{ALL}/{system}/devices")).known().cloned()?;
        devices.iter().any(|name| name == device).then_some((system, devices))
    })?;
    if devices.len() < 2 {
        return None;
    }
    let profiles = root.names(&format!("{ALL}/{system}/allocation/data"));
    let profiles = profiles.known().cloned().unwrap_or_default();
    let level = |name: &String| PROFILES.iter().find(|(profile, _)| profile == name).map(|(_, level)| *level);
    let raid = match profiles.iter().filter_map(level).collect::<Vec<_>>()[..] {
        [one] => Fact::Known(one.to_owned()),
        _ => Fact::NotApplicable,
    };
    let parts: Vec<BlockLayer> =
        devices.iter().take(MOST_PARTS).flat_map(|name| BlockLayer::below(root, name)).collect();
    let top = BlockLayer { name: "btrfs".into(), made_of: devices, raid, ..BlockLayer::default() };
    let mut layers = vec![top];
    for part in parts {
        if layers.iter().all(|layer| layer.name != part.name) {
            layers.push(part);
        }
    }
    Some(layers)
}
