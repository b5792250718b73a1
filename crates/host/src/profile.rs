//! The profile of a host: the few facts that are stored with results.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Fact;
use crate::facts::{Facts, Port};

/// The facts of a host that a result contains: enough to compare it with another host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// The host's name.
    pub hostname: Fact<String>,
    /// The kernel release, as `uname -r` prints it.
    pub kernel: Fact<String>,
    /// The distribution: PRETTY_NAME of os-release.
    pub distribution: Fact<String>,
    /// The name of the processor's model.
    pub cpu_model: Fact<String>,
    /// The number of online logical processors.
    pub processors: Fact<u32>,
    /// The processor's instruction sets that matter to ciphers and hashes, such as `aes`, `vaes` and `avx512f`.
    pub cpu_features: Fact<Vec<String>>,
    /// The frequency governors in use, separated by commas.
    pub governor: Fact<String>,
    /// The hypervisor's name, if the host is a guest.
    pub hypervisor: Fact<String>,
    /// The host's memory in bytes.
    pub memory_bytes: Fact<u64>,
    /// The name of the default TCP congestion control.
    pub congestion_control: Fact<String>,
    /// The sizes of TCP's receive buffer in bytes: minimum, default, maximum.
    pub tcp_rmem: Fact<[u64; 3]>,
    /// The sizes of TCP's send buffer in bytes: minimum, default, maximum.
    pub tcp_wmem: Fact<[u64; 3]>,
    /// The host's network interfaces, except for loopback.
    pub interfaces: Vec<Interface>,
}

/// One network interface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The name of the kernel driver.
    pub driver: Fact<String>,
    /// The port's speed in Mbit/s.
    pub speed_mbps: Fact<u64>,
    /// The maximum transmission unit in bytes.
    pub mtu: Fact<u32>,
    /// The number of receive queues.
    pub rx_queues: Fact<u32>,
    /// The number of transmit queues.
    pub tx_queues: Fact<u32>,
}

impl Profile {
    /// Reads the facts of the host whose `/` is `root` from files only, without requests to drivers or other
    /// programs. This never fails: an unreadable fact holds the reason.
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
