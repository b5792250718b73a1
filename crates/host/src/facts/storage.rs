//! File systems of given paths and the devices below: /proc/self/mountinfo and /sys/class/block.

use serde::{Deserialize, Serialize};

use super::Fact;

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
