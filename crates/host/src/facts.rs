//! Facts about a host: each is known, not applicable, or unreadable with the reason.

use serde::{Deserialize, Serialize};

/// One value read from a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// The value.
    Known(T),
    /// The host has no such thing.
    NotApplicable,
    /// It could not be read, and why.
    Unreadable(String),
}

/// What a host says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
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
