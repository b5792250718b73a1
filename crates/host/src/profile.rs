//! The few facts of a host that stand beside results.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::root::Root;
use crate::{Fact, cpuinfo, hypervisor, interfaces};

/// What a result keeps of a host: enough to compare it with another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// Host name.
    pub hostname: Fact<String>,
    /// Kernel release, as `uname -r`.
    pub kernel: Fact<String>,
    /// Distribution, as PRETTY_NAME of os-release.
    pub distribution: Fact<String>,
    /// Processor model.
    pub cpu_model: Fact<String>,
    /// Logical processors on line.
    pub processors: Fact<u32>,
    /// Of the instruction sets that matter to ciphers and hashes, those that are there: `aes`, `vaes`, `avx512f`.
    pub cpu_features: Fact<Vec<String>>,
    /// Frequency governor.
    pub governor: Fact<String>,
    /// Hypervisor's name, where the host is a guest.
    pub hypervisor: Fact<String>,
    /// Memory in bytes.
    pub memory_bytes: Fact<u64>,
    /// TCP congestion control in force by default.
    pub congestion_control: Fact<String>,
    /// Receive buffer: minimum, default, maximum in bytes.
    pub tcp_rmem: Fact<[u64; 3]>,
    /// Send buffer: minimum, default, maximum in bytes.
    pub tcp_wmem: Fact<[u64; 3]>,
    /// The host's network interfaces, loopback left out.
    pub interfaces: Vec<Interface>,
}

impl Profile {
    /// Reads the facts of the host whose `/` is `root`. Never fails: what can't be read says so in its place.
    pub fn read(root: &Path) -> Profile {
        let root = &Root(root);
        let cpuinfo = root.needed("proc/cpuinfo");
        Profile {
            hostname: root.needed("proc/sys/kernel/hostname"),
            kernel: root.needed("proc/sys/kernel/osrelease"),
            distribution: distribution(root),
            cpu_model: cpuinfo.clone().and_then(|text| cpuinfo::model(&text)),
            processors: cpuinfo::processors(root),
            cpu_features: cpuinfo.clone().and_then(|text| cpuinfo::features(&text)),
            governor: root.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            hypervisor: hypervisor::read(root, &cpuinfo),
            memory_bytes: root.needed("proc/meminfo").and_then(|text| memory(&text)),
            congestion_control: root.text("proc/sys/net/ipv4/tcp_congestion_control"),
            tcp_rmem: root.text("proc/sys/net/ipv4/tcp_rmem").and_then(|text| three("tcp_rmem", &text)),
            tcp_wmem: root.text("proc/sys/net/ipv4/tcp_wmem").and_then(|text| three("tcp_wmem", &text)),
            interfaces: interfaces::read(root),
        }
    }
}

/// PRETTY_NAME of os-release (freedesktop's os-release(5)), with its quotes taken off.
fn distribution(root: &Root) -> Fact<String> {
    let text = match root.text("etc/os-release") {
        Fact::NotApplicable => root.text("usr/lib/os-release"),
        fact => fact,
    };
    text.and_then(|text| {
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        name.map_or(Fact::NotApplicable, |name| {
            Fact::Known(name.trim().trim_matches(|c| c == '"' || c == '\'').to_owned())
        })
    })
}

/// MemTotal of /proc/meminfo, which counts in KiB whatever its "kB" says.
fn memory(text: &str) -> Fact<u64> {
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    match kib.and_then(|kib| kib.checked_mul(1024)) {
        Some(bytes) => Fact::Known(bytes),
        None => Fact::Unreadable("/proc/meminfo holds no MemTotal in kB".into()),
    }
}

fn three(name: &str, text: &str) -> Fact<[u64; 3]> {
    let values = text.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
    match values.map(<[u64; 3]>::try_from) {
        Ok(Ok(values)) => Fact::Known(values),
        _ => Fact::Unreadable(format!("{name} holds {text:?} where three numbers belong")),
    }
}

/// One network interface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Kernel driver.
    pub driver: Fact<String>,
    /// Port speed in Mbit/s.
    pub speed_mbps: Fact<u64>,
    /// Maximum transmission unit in bytes.
    pub mtu: Fact<u32>,
    /// Receive queues.
    pub rx_queues: Fact<u32>,
    /// Transmit queues.
    pub tx_queues: Fact<u32>,
}
