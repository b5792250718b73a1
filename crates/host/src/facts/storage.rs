//! File systems of given paths and the devices below: /proc/self/mountinfo and /sys/class/block.

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{flag, number, or_odd, pairs};
use crate::root::Root;
use std::io;
use std::path::{Path, PathBuf};

/// The file system of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSystem {
    /// The path that was asked about.
    pub path: String,
    /// Where its file system is mounted.
    pub mount_point: Fact<String>,
    /// `ext4`, `xfs`, `btrfs`, `tmpfs`, `nfs4`, `overlay`.
    pub kind: Fact<String>,
    /// What is mounted: `/dev/sda1`, `server:/export`.
    pub source: Fact<String>,
    /// Options, of the mount and of the file system.
    pub options: Fact<Vec<String>>,
    /// Bytes in all.
    pub total: Fact<u64>,
    /// Bytes that an ordinary user can still write.
    pub free: Fact<u64>,
    /// The block device; not applicable where there is none below (tmpfs, a network's).
    pub device: Fact<BlockDevice>,
}

/// A block device: the whole one, of which a partition is a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockDevice {
    /// Its name: `nvme0n1`, `sda`, `vda`, `dm-0`, `md127`.
    pub name: String,
    /// Its model.
    pub model: Fact<String>,
    /// Whether it turns.
    pub rotational: Fact<bool>,
    /// Bytes.
    pub size: Fact<u64>,
    /// Scheduler in force.
    pub scheduler: Fact<String>,
    /// Bytes that are read ahead.
    pub read_ahead: Fact<u64>,
    /// `write back` or `write through`.
    pub write_cache: Fact<String>,
    /// Queues of requests.
    pub queues: Fact<u32>,
    /// Devices that it is made of: those of a RAID or a logical volume.
    pub made_of: Fact<Vec<String>>,
}

/// Storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// One for each path that was asked about.
    pub file_systems: Fact<Vec<FileSystem>>,
    /// Fibre Channel hosts, over Ethernet too, by their symbolic names: `fcoe v0.1 over eth2`.
    pub fc_hosts: Fact<Vec<FcHost>>,
}

/// A Fibre Channel host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FcHost {
    /// Its name: `host7`.
    pub name: String,
    /// What it says about itself: driver and, over Ethernet, the port.
    pub symbolic_name: Fact<String>,
}

/// One line of mountinfo.
struct Mount {
    number: String,
    point: String,
    kind: String,
    source: String,
    options: Vec<String>,
}

impl Storage {
    /// Of the paths on a live host; elsewhere of those that were asked about when the snapshot was made.
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

/// Paths a line, absolute and without symbolic links, where that can be had.
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
    fn read(root: &Root, mounts: &Fact<Vec<Mount>>, at: usize, path: &str) -> Self {
        let mount = mounts.as_ref().and_then(|mounts| {
            // Of those mounted at one place, the last hides the others.
            let covering = mounts.iter().filter(|mount| Path::new(path).starts_with(&mount.point));
            covering.max_by_key(|mount| mount.point.len()).map_or(Fact::NotApplicable, Fact::Known)
        });
        let name = format!("live/space/{at}");
        let space = root.answer(&name, || space(path));
        let bytes = |key: &str| {
            space.clone().and_then(|text| {
                or_odd(&name, &text, pairs(&text).get(key).and_then(|value| value.parse().ok()))
            })
        };
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
    let told = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(told.f_frsize);
    Ok(format!("total {}\nfree {}", bytes(told.f_blocks), bytes(told.f_bavail)))
}

impl Mount {
    /// proc_pid_mountinfo(5): `36 35 98:0 / /mnt rw,noatime shared:1 - ext4 /dev/root rw,errors=continue`.
    fn parse(line: &str) -> Option<Self> {
        let (own, file_system) = line.split_once(" - ")?;
        let mut own = own.split(' ').skip(2);
        let (number, point) = (own.next()?.to_owned(), unescaped(own.nth(1)?));
        let mut about = file_system.split(' ');
        let (kind, source) = (about.next()?.to_owned(), unescaped(about.next()?));
        let mut options: Vec<String> = own.next()?.split(',').map(str::to_owned).collect();
        for option in about.next().unwrap_or_default().split(',') {
            if !option.is_empty() && !options.iter().any(|known| known == option) {
                options.push(option.to_owned());
            }
        }
        Some(Self { number, point, kind, source, options })
    }
}

/// White space and backslashes stand as three octal digits.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

impl BlockDevice {
    /// Major number 0 is no device's; some file systems over several devices have it and name one of them.
    fn below(root: &Root, mount: &Mount) -> Fact<Self> {
        let real = if mount.number.starts_with("0:") {
            match mount.source.strip_prefix("/dev/").filter(|name| !name.contains(['/', ' '])) {
                Some(name) => root.real(&format!("sys/class/block/{name}")),
                None => Fact::NotApplicable,
            }
        } else {
            root.real(&format!("sys/dev/block/{}", mount.number))
        };
        // A partition's directory is in its device's: .../block/sda/sda1.
        let name = |real: String| real.split("/block/").nth(1)?.split('/').next().map(str::to_owned);
        real.and_then(|real| name(real).map_or(Fact::NotApplicable, Fact::Known))
            .map(|name| Self::read(root, name))
    }

    fn read(root: &Root, name: String) -> Self {
        let path = |file: &str| format!("sys/class/block/{name}/{file}");
        let sectors: Fact<u64> = number(root, &path("size"));
        let count = |names: Vec<String>| u32::try_from(names.len()).unwrap_or(u32::MAX);
        let some =
            |names: Vec<String>| if names.is_empty() { Fact::NotApplicable } else { Fact::Known(names) };
        Self {
            model: root.text(&path("device/model")),
            rotational: flag(root, &path("queue/rotational")),
            // A sector is 512 bytes here, whatever the device's are.
            size: sectors.map(|sectors| sectors.saturating_mul(512)),
            scheduler: root.text(&path("queue/scheduler")).map(|text| in_force(&text)),
            read_ahead: number(root, &path("queue/read_ahead_kb")).map(|kib: u64| kib.saturating_mul(1024)),
            write_cache: root.text(&path("queue/write_cache")),
            queues: root.names(&path("mq")).map(count),
            made_of: root.names(&path("slaves")).and_then(some),
            name,
        }
    }
}

/// `none [mq-deadline] kyber`.
fn in_force(text: &str) -> String {
    let marked = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    marked.map_or(text, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_taken_apart() {
        let line =
            "36 35 98:0 /sub /mnt\\040x rw,noatime shared:1 master:2 - ext4 /dev/root rw,errors=continue";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.number.as_str(), mount.point.as_str()), ("98:0", "/mnt x"));
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext4", "/dev/root"));
        assert_eq!(mount.options, ["rw", "noatime", "errors=continue"]);
        assert!(Mount::parse("36 35 - x").is_none());
        assert_eq!(
            (in_force("none [mq-deadline] kyber"), in_force("none")),
            ("mq-deadline".into(), "none".into())
        );
    }
}
