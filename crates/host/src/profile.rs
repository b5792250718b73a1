//! The few facts of a host that are kept with results.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Fact;
use crate::facts::{Facts, Port};

/// The facts of a host that a result contains: enough to compare it with another host.
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
    /// Online logical processors.
    pub processors: Fact<u32>,
    /// The processor's instruction sets that matter to ciphers and hashes: `aes`, `vaes`, `avx512f`.
    pub cpu_features: Fact<Vec<String>>,
    /// Frequency governors, separated by commas.
    pub governor: Fact<String>,
    /// The hypervisor's name, if the host is a guest.
    pub hypervisor: Fact<String>,
    /// Memory in bytes.
    pub memory_bytes: Fact<u64>,
    /// The default TCP congestion control.
    pub congestion_control: Fact<String>,
    /// Receive buffer: minimum, default, maximum in bytes.
    pub tcp_rmem: Fact<[u64; 3]>,
    /// Send buffer: minimum, default, maximum in bytes.
    pub tcp_wmem: Fact<[u64; 3]>,
    /// The host's network interfaces, without loopback.
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

impl Profile {
    /// Reads the facts of the host whose `/` is `root`, only from files: asks no driver and runs no program.
    /// The call never fails: an unreadable fact holds the reason.
    pub fn read(root: &Path) -> Self {
        Self::from(&Facts::of_files(root))
    }
}

impl From<&Facts> for Profile {
    fn from(facts: &Facts) -> Self {
        let governor =
            facts.cpu.governors.as_ref().map(|all| all.keys().cloned().collect::<Vec<_>>().join(","));
        Self {
            hostname: facts.hostname.clone(),
            kernel: facts.kernel.clone(),
            distribution: facts.distribution.clone(),
            cpu_model: facts.cpu.model.clone(),
            processors: facts.cpu.threads(),
            cpu_features: facts.cpu.features.clone(),
            governor,
            hypervisor: facts.machine.hypervisor(),
            memory_bytes: facts.memory.total.clone(),
            congestion_control: facts.tcp.congestion_control.clone(),
            tcp_rmem: facts.tcp.rmem.clone(),
            tcp_wmem: facts.tcp.wmem.clone(),
            interfaces: facts.ports.known().into_iter().flatten().map(Interface::from).collect(),
        }
    }
}

impl From<&Port> for Interface {
    fn from(port: &Port) -> Self {
        Self {
            name: port.name.clone(),
            driver: port.driver.clone(),
            speed_mbps: port.speed_mbps.clone(),
            mtu: port.mtu.clone(),
            rx_queues: port.rx_count(),
            tx_queues: port.tx_count(),
        }
    }
}
