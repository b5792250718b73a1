//! Facts about the file systems of given paths, and about the block devices of these file systems: /proc/self/mountinfo
//! and /sys/class/block.

use serde::{Deserialize, Serialize};

use linerate_sys::mounts::Mount;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::layers::{BlockLayer, of_btrfs, whole};
use super::read::{flag, number, or_odd, pairs};
use super::{Fact, Pci};
use crate::root::Root;
use std::io;
use std::path::{Path, PathBuf};

/// The paths whose file systems are reported by default: `/` and the current directory.
pub fn usual_paths() -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("/")];
    paths.extend(std::env::current_dir().ok().filter(|here| here != Path::new("/")));
    paths
}

/// Facts about the file system of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSystem {
    /// The path that was given.
    pub path: String,
    /// The mount point of the path's file system.
    pub mount_point: Fact<String>,
    /// The type of the file system: `ext4`, `xfs`, `btrfs`, `tmpfs`, `nfs4`, `overlay`.
    pub kind: Fact<String>,
    /// The source of the mount, such as `/dev/sda1` or `server:/export`.
    pub source: Fact<String>,
    /// The options of the mount and of the file system.
    pub options: Fact<Vec<String>>,
    /// The total size in bytes.
    pub total: Fact<u64>,
    /// The bytes that are free for an ordinary user.
    pub free: Fact<u64>,
    /// The block device; not applicable to file systems without one (tmpfs, network file systems).
    pub device: Fact<BlockDevice>,
}

/// Facts about a whole block device, not a partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockDevice {
    /// The device's name: `nvme0n1`, `sda`, `vda`, `dm-0`, `md127`.
    pub name: String,
    /// The device's model.
    pub model: Fact<String>,
    /// True for a rotating disk.
    pub rotational: Fact<bool>,
    /// The device's size in bytes.
    pub size: Fact<u64>,
    /// The I/O scheduler in use.
    pub scheduler: Fact<String>,
    /// The I/O schedulers that the kernel offers for the device.
    pub schedulers: Fact<Vec<String>>,
    /// The kind of the device's zones: `none`, `host-aware` or `host-managed`.
    pub zoned: Fact<String>,
    /// The size of read-ahead in bytes.
    pub read_ahead: Fact<u64>,
    /// The mode of the write cache: `write back` or `write through`.
    pub write_cache: Fact<String>,
    /// The number of queues that the kernel has for requests to the device.
    pub queues: Fact<u32>,
    /// The level of a Linux software RAID (md): `raid0`, `raid1`, `raid10`, `raid5`, `raid6`.
    pub raid: Fact<String>,
    /// The major and minor number by which control groups name the device, such as `259:0`.
    pub number: Fact<String>,
    /// The PCI devices through which the device or its component devices are attached; each is included once. Empty if
    /// the kernel names no PCI device (native multipath, network block devices).
    pub pci: Vec<Pci>,
    /// The names of the component devices of a RAID or a logical volume.
    pub made_of: Fact<Vec<String>>,
    /// The layers of the device: the device itself and all its component devices, down to the disks. For a btrfs file
    /// system on several devices, the layers of all its devices. Each device is included once, the uppermost first.
    pub layers: Vec<BlockLayer>,
    /// The first device that is encrypted with dm-crypt: this device or one of its component devices. Not
    /// applicable if there is none.
    pub encrypted: Fact<EncryptedDevice>,
}

/// A device that is encrypted with dm-crypt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EncryptedDevice {
    /// The name of the device's mapping, as cryptsetup(8) expects it.
    pub mapping: String,
    /// The format of the device's header: `LUKS2`, `LUKS1`, `PLAIN`, `TCRYPT`, `BITLK`.
    pub format: String,
}

/// Facts about file systems and storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// The file system of each given path.
    pub file_systems: Fact<Vec<FileSystem>>,
    /// Fibre Channel hosts, including those over Ethernet, by their symbolic names: `fcoe v0.1 over eth2`.
    pub fc_hosts: Fact<Vec<FcHost>>,
}

/// A Fibre Channel host (adapter).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FcHost {
    /// The host's name, such as `host7`.
    pub name: String,
    /// The text with which the host describes itself: the driver and, over Ethernet, the interface.
    pub symbolic_name: Fact<String>,
}

/// The types of file systems on which each call waits for a server, or for another host.
const WAITING: [&str; 14] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "gfs2",
    "glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
    "virtiofs",
];

/// The types in [`WAITING`] whose server is the host of this guest.
const OF_HOSTS: [&str; 2] = ["9p", "virtiofs"];

impl Storage {
    /// Reads the facts about the file systems of these paths on this host.
    pub fn here(paths: &[PathBuf]) -> Self {
        Self::read(&Root::dir(Path::new("/")), paths)
    }

    /// On a live host, reads the facts about the file systems of these paths. From a snapshot, reads the
    /// facts for the paths in the snapshot.
    pub(super) fn read(root: &Root, paths: &[PathBuf]) -> Self {
        let paths = root.answer("live/paths", || Ok(real(paths)));
        let mounts =
            root.needed("proc/self/mountinfo").map(|text| text.lines().filter_map(Mount::parse).collect());
        Self {
            file_systems: paths.map(|text| {
                let each = text.lines().enumerate();
                each.map(|(at, path)| FileSystem::read(root, &mounts, at, path)).collect()
            }),
            fc_hosts: root
                .names("sys/class/fc_host")
                .map(|names| names.into_iter().map(|name| FcHost::read(root, name)).collect()),
        }
    }
}

/// The paths, one per line. A path that can be resolved is made absolute, and its symbolic links are resolved.
fn real(paths: &[PathBuf]) -> String {
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let lines = paths.iter().map(|path| real(path).to_string_lossy().replace('\n', "?"));
    lines.collect::<Vec<_>>().join("\n")
}

impl FcHost {
    fn read(root: &Root, name: String) -> Self {
        let symbolic_name = root.text(&format!("sys/class/fc_host/{name}/symbolic_name"));
        Self { name, symbolic_name }
    }
}

impl FileSystem {
    /// True if each call on the file system waits for a server or for another process (network file systems
    /// and FUSE).
    pub fn waits(&self) -> bool {
        let waits = |kind: &String| kind.starts_with("fuse") || WAITING.contains(&kind.as_str());
        self.kind.known().is_some_and(waits)
    }

    /// True if the kernel reaches the file system over a network.
    pub fn is_over_network(&self) -> bool {
        let is = |kind: &String| WAITING.contains(&kind.as_str()) && !OF_HOSTS.contains(&kind.as_str());
        self.kind.known().is_some_and(is)
    }

    /// True if the file system is on a rotating disk. False if the host is, or may be, a guest, because hypervisors
    /// report most disks as rotating.
    pub fn rotates(&self, guest: &Fact<bool>) -> bool {
        let turns = self.device.known().and_then(|device| device.rotational.get());
        turns == Some(true) && guest.get() == Some(false)
    }

    fn read(root: &Root, mounts: &Fact<Vec<Mount>>, at: usize, path: &str) -> Self {
        let name = format!("live/space/{at}");
        let space = root.answer(&name, || space(path)).and_then(|text| of_path(&name, text, path));
        let bytes = |key: &str| {
            space.clone().and_then(|text| {
                or_odd(&name, &text, pairs(&text).get(key).and_then(|value| value.parse().ok()))
            })
        };
        let mount = space.as_ref().and_then(|text| mounts.as_ref().and_then(|all| below(all, text, path)));
        let of = |field: fn(&Mount) -> &String| mount.clone().map(|mount| field(mount).clone());
        Self {
            path: path.to_owned(),
            mount_point: of(|mount| &mount.point),
            kind: of(|mount| &mount.kind),
            source: of(|mount| &mount.source),
            options: mount.clone().map(|mount| mount.options.clone()),
            total: bytes("total"),
            free: bytes("free"),
            device: mount.and_then(|mount| BlockDevice::below(root, mount)),
        }
    }
}

fn space(path: &str) -> io::Result<String> {
    let reported = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(reported.f_frsize);
    let (total, free, mount) = (bytes(reported.f_blocks), bytes(reported.f_bavail), mount_id(path));
    Ok(format!("path {path}\nmount {mount}\ntotal {total}\nfree {free}"))
}

/// The ID of a path's mount in mountinfo; `-` if the kernel (before Linux 5.8) doesn't report it.
fn mount_id(path: &str) -> String {
    let reported = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID);
    let reported = reported.ok().filter(|reported| reported.stx_mask & StatxFlags::MNT_ID.bits() != 0);
    reported.map_or("-".into(), |reported| reported.stx_mnt_id.to_string())
}

/// The answer for a path. In a snapshot, answers are numbered, so each answer also has its path, which is compared with
/// `path` here.
fn of_path(name: &str, text: String, path: &str) -> Fact<String> {
    match pairs(&text).get("path") {
        Some(of) if *of == path.trim() => Fact::Known(text),
        _ => Fact::Unreadable(format!("/{name} isn't about {path}")),
    }
}

/// The mount that the kernel names for a path. If the kernel names none, the mount whose mount point is nearest above
/// the path. If several mounts have the same mount point, the last one hides the others.
fn below<'a>(mounts: &'a [Mount], space: &str, path: &str) -> Fact<&'a Mount> {
    let found = match pairs(space).get("mount") {
        Some(&"-") => {
            let covering = mounts.iter().filter(|mount| Path::new(path).starts_with(&mount.point));
            covering.max_by_key(|mount| mount.point.len())
        }
        Some(id) => mounts.iter().find(|mount| mount.id == *id),
        None => None,
    };
    let missing = || Fact::Unreadable(format!("/proc/self/mountinfo holds no mount of {path}"));
    found.map_or_else(missing, Fact::Known)
}

impl BlockDevice {
    /// The block device of a mount. If the mount's major number is 0, the file system has no single device. Some file
    /// systems on several devices have this number, and the source of their mounts is one of these devices.
    fn below(root: &Root, mount: &Mount) -> Fact<Self> {
        let real = if mount.number.starts_with("0:") {
            let source = mount.source.strip_prefix("/dev/").unwrap_or_default();
            let mapped = source.strip_prefix("mapper/").and_then(|mapping| mapped(root, mapping));
            match mapped.as_deref().unwrap_or(source) {
                name if name.is_empty() || name.contains(['/', ' ']) => Fact::NotApplicable,
                name => root.real(&format!("sys/class/block/{name}")),
            }
        } else {
            root.real(&format!("sys/dev/block/{}", mount.number))
        };
        let device = real.as_ref().and_then(|real| whole(real).map_or(Fact::NotApplicable, Fact::Known));
        device.map(|name| {
            let last = real.known().and_then(|real| real.rsplit('/').next());
            let spans = last.filter(|_| mount.kind == "btrfs").and_then(|last| of_btrfs(root, last));
            Self::read(root, name, spans)
        })
    }

    /// Reads a device. If the file system is on several devices, `spans` are the layers of these devices.
    fn read(root: &Root, name: String, spans: Option<Vec<BlockLayer>>) -> Self {
        let path = |file: &str| format!("sys/class/block/{name}/{file}");
        let sectors: Fact<u64> = number(root, &path("size"));
        let count = |names: Vec<String>| u32::try_from(names.len()).unwrap_or(u32::MAX);
        let mut layers = spans.unwrap_or_else(|| BlockLayer::below(root, &name));
        let some =
            |names: Vec<String>| if names.is_empty() { Fact::NotApplicable } else { Fact::Known(names) };
        Self {
            model: root.text(&path("device/model")),
            rotational: flag(root, &path("queue/rotational")),
            // Sectors in /sys always have 512 bytes, whatever the device's own sector size is.
            size: sectors.map(|sectors| sectors.saturating_mul(512)),
            scheduler: root.text(&path("queue/scheduler")).map(|text| in_force(&text)),
            schedulers: root.text(&path("queue/scheduler")).map(|text| offered(&text)),
            zoned: root.text(&path("queue/zoned")),
            read_ahead: number(root, &path("queue/read_ahead_kb")).map(|kib: u64| kib.saturating_mul(1024)),
            write_cache: root.text(&path("queue/write_cache")),
            queues: root.names(&path("mq")).map(count),
            raid: root.text(&path("md/level")),
            number: root.text(&path("dev")),
            pci: pci(root, &mut layers),
            made_of: root.names(&path("slaves")).and_then(some),
            encrypted: encrypted(root, &layers),
            layers,
            name,
        }
    }
}

/// The name (such as `dm-0`) of the device that the device mapper calls `mapping`.
fn mapped(root: &Root, mapping: &str) -> Option<String> {
    let devices = root.names("sys/class/block").known().cloned().unwrap_or_default();
    let is_named = |name: &String| {
        root.text(&format!("sys/class/block/{name}/dm/name")).known().is_some_and(|name| name == mapping)
    };
    devices.into_iter().filter(|name| name.starts_with("dm-")).find(is_named)
}

/// The PCI devices of the disks at the bottom of the layers. Also sets [`BlockLayer::pci`] of these disks.
fn pci(root: &Root, layers: &mut [BlockLayer]) -> Vec<Pci> {
    let mut found = Vec::<Pci>::new();
    for disk in layers.iter_mut().filter(|layer| layer.made_of.is_empty()) {
        let real = root.real(&format!("sys/class/block/{}", disk.name));
        let device = real.and_then(|real| Pci::of(root, &real));
        disk.pci = device.as_ref().map(|pci| pci.address.clone());
        let new = device.known().cloned();
        found.extend(new.filter(|new| found.iter().all(|pci| pci.address != new.address)));
    }
    found
}

fn encrypted(root: &Root, layers: &[BlockLayer]) -> Fact<EncryptedDevice> {
    let mut each = layers.iter().map(|layer| EncryptedDevice::read(root, &layer.name));
    each.find(|found| *found != Fact::NotApplicable).unwrap_or(Fact::NotApplicable)
}

impl EncryptedDevice {
    /// Parses the UUID that cryptsetup sets in the device mapper: `CRYPT-LUKS2-UUID-NAME`. The kinds of cryptsetup's
    /// devices that are left out here don't encrypt data themselves.
    fn read(root: &Root, name: &str) -> Fact<Self> {
        let path = |file: &str| format!("sys/class/block/{name}/dm/{file}");
        root.text(&path("uuid")).and_then(|uuid| {
            let format = uuid.strip_prefix("CRYPT-").and_then(|rest| rest.split('-').next());
            match format.filter(|format| !["VERITY", "INTEGRITY", "SUBDEV"].contains(format)) {
                Some(format) => {
                    root.text(&path("name")).map(|mapping| Self { mapping, format: format.to_owned() })
                }
                None => Fact::NotApplicable,
            }
        })
    }
}

/// The word in brackets in a text such as `none [mq-deadline] kyber`, which is the value in use.
fn in_force(text: &str) -> String {
    let marked = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    marked.map_or(text, |(name, _)| name).to_owned()
}

/// All words in a text such as `none [mq-deadline] kyber`.
fn offered(text: &str) -> Vec<String> {
    text.split_whitespace().map(|name| name.trim_matches(['[', ']']).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Paths;
    use super::*;

    #[test]
    fn a_paths_mount_is_the_one_that_the_kernel_named() {
        let line = |id: u32, point: &str| {
            Mount::parse(&format!("{id} 1 8:1 / {point} rw - ext4 /dev/sda{id} rw")).unwrap()
        };
        let mounts = [line(21, "/"), line(44, "/data"), line(45, "/data")];
        let id = |space: &str, path: &str| below(&mounts, space, path).known().map(|mount| mount.id.clone());
        assert_eq!(id("mount 44", "/data/x").as_deref(), Some("44"));
        // Before Linux 5.8, the result is the mount whose mount point is nearest above the path. If several mounts have
        // this mount point, the result is the last mount.
        assert_eq!(id("mount -", "/data/x").as_deref(), Some("45"));
        assert_eq!(id("mount -", "/database").as_deref(), Some("21"));
        assert_eq!((id("mount 46", "/data"), id("total 1", "/data")), (None, None));
    }

    #[test]
    fn a_raid_is_reached_through_the_devices_of_its_parts() {
        let root = tempfile::TempDir::new().unwrap();
        let make = |path: &str| std::fs::create_dir_all(root.path().join("sys").join(path)).unwrap();
        make("class/block");
        let device = |name: &str, dir: &str| {
            make(dir);
            let link = root.path().join("sys/class/block").join(name);
            std::os::unix::fs::symlink(format!("../../{dir}"), link).unwrap();
        };
        for (at, name) in ["nvme0n1", "nvme1n1"].into_iter().enumerate() {
            device(name, &format!("devices/pci0000:00/0000:0{at}:00.0/nvme/nvme{at}/{name}"));
        }
        for (name, parts) in [("md0", ["nvme0n1", "nvme1n1"].as_slice()), ("dm-0", &["md0"])] {
            let dir = format!("devices/virtual/block/{name}");
            device(name, &dir);
            parts.iter().for_each(|part| make(&format!("{dir}/slaves/{part}")));
        }
        let of = |name| {
            let root = Root::files(root.path());
            let found = pci(&root, &mut BlockLayer::below(&root, name));
            found.into_iter().map(|pci| pci.address).collect::<Vec<_>>()
        };
        assert_eq!(of("dm-0"), ["0000:00:00.0", "0000:01:00.0"]);
        assert_eq!(of("nvme1n1"), ["0000:01:00.0"]);
        assert_eq!(of("none"), [""; 0]);
    }

    /// Fedora's default: btrfs, whose mounts have major number 0, on a mapping of cryptsetup.
    #[test]
    fn an_encrypted_device_is_found_by_its_mapping_and_below_a_volume() {
        let root = tempfile::TempDir::new().unwrap();
        let block = root.path().join("sys/class/block");
        let devices = root.path().join("sys/devices/virtual/block");
        let uuid = "5f6a9c3e1b0d4a7e8c2f3d4e5a6b7c8d";
        for (name, mapping, id, part) in [
            ("dm-0", "luks-5f6a9c3e", format!("CRYPT-LUKS2-{uuid}-luks-5f6a9c3e"), "sda3"),
            ("dm-1", "vg-home", "LVM-r5Uq3lE0".to_owned(), "dm-0"),
            ("dm-2", "sealed", format!("CRYPT-VERITY-{uuid}-sealed"), "sdb"),
        ] {
            let of = devices.join(name);
            std::fs::create_dir_all(of.join("dm")).unwrap();
            std::fs::create_dir_all(of.join("slaves").join(part)).unwrap();
            std::fs::write(of.join("dm/name"), format!("{mapping}\n")).unwrap();
            std::fs::write(of.join("dm/uuid"), format!("{id}\n")).unwrap();
            std::fs::create_dir_all(&block).unwrap();
            std::os::unix::fs::symlink(format!("../../devices/virtual/block/{name}"), block.join(name))
                .unwrap();
        }
        let of = |line: &str| {
            let mount = Mount::parse(line).unwrap();
            BlockDevice::below(&Root::files(root.path()), &mount).known().cloned().unwrap()
        };
        let luks = EncryptedDevice { mapping: "luks-5f6a9c3e".into(), format: "LUKS2".into() };
        let btrfs = of("1 1 0:33 / /home rw - btrfs /dev/mapper/luks-5f6a9c3e rw");
        assert_eq!((btrfs.name.as_str(), btrfs.encrypted), ("dm-0", Fact::Known(luks.clone())));
        let volume = of("1 1 0:34 / /home rw - btrfs /dev/mapper/vg-home rw");
        assert_eq!((volume.name.as_str(), volume.encrypted), ("dm-1", Fact::Known(luks)));
        let sealed = of("1 1 0:35 / /usr rw - btrfs /dev/mapper/sealed rw");
        assert_eq!((sealed.name.as_str(), sealed.encrypted), ("dm-2", Fact::NotApplicable));
    }

    /// In /sys, the directory of an NVMe disk is below the directory of its controller, without the directory `block`
    /// in between.
    #[test]
    fn a_partition_belongs_to_its_disk() {
        let pci = "/sys/devices/pci0000:00/0000:00:1d.0/0000:04:00.0";
        for (real, disk) in [
            ("nvme/nvme0/nvme0n1", "nvme0n1"),
            ("nvme/nvme0/nvme0n1/nvme0n1p12", "nvme0n1"),
            ("ata1/host0/target0:0:0/0:0:0:0/block/sda/sda3", "sda"),
            ("virtio1/block/vda", "vda"),
        ] {
            assert_eq!(whole(&format!("{pci}/{real}")).as_deref(), Some(disk));
        }
        let shared = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1";
        assert_eq!(whole(&format!("{shared}/nvme0n1p2")).as_deref(), Some("nvme0n1"));
        assert_eq!(whole("/sys/devices/pci0000:00"), None);
    }

    /// The mounts of a btrfs file system on several disks name one of its devices.
    #[test]
    fn a_btrfs_on_several_disks_has_them_all() {
        let root = tempfile::TempDir::new().unwrap();
        let make = |path: &str| std::fs::create_dir_all(root.path().join("sys").join(path)).unwrap();
        make("class/block");
        for name in ["sda", "sdb"] {
            let part = format!("devices/pci0000:00/0000:00:17.0/ata1/block/{name}/{name}1");
            make(&part);
            make(&format!("fs/btrfs/9c3a/devices/{name}1"));
            let link = |name: &str, to: &str| {
                let link = root.path().join("sys/class/block").join(name);
                std::os::unix::fs::symlink(format!("../../{to}"), link).unwrap();
            };
            link(&format!("{name}1"), &part);
            link(name, part.rsplit_once('/').unwrap().0);
        }
        make("fs/btrfs/9c3a/allocation/data/raid1");
        let mount = Mount::parse("1 1 0:35 / /data rw - btrfs /dev/sda1 rw").unwrap();
        let device = BlockDevice::below(&Root::files(root.path()), &mount).known().cloned().unwrap();
        let disks: Vec<&str> = device.disks().map(|disk| disk.name.as_str()).collect();
        assert_eq!((device.name.as_str(), disks), ("sda", vec!["sda", "sdb"]));
        assert_eq!(device.writes(Paths::OfOne, &|_| Some(5.0)), Some(5.0), "each block twice");
    }

    #[test]
    fn the_choice_among_names_in_brackets_is_taken_apart() {
        assert_eq!(offered("noop deadline [cfq]"), ["noop", "deadline", "cfq"]);
        assert_eq!(
            (in_force("none [mq-deadline] kyber"), in_force("none")),
            ("mq-deadline".into(), "none".into())
        );
    }
}
