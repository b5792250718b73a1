//! Processors: /proc/cpuinfo and /sys/devices/system/{cpu,node}.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;

/// The processors of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Model, as the processor names itself.
    pub model: Fact<String>,
    /// Numbers of the logical processors on line.
    pub online: Fact<Vec<u32>>,
    /// Cores on line: sets of threads that share one.
    pub cores: Fact<u32>,
    /// Sockets with a processor on line.
    pub sockets: Fact<u32>,
    /// NUMA nodes.
    pub nodes: Fact<Vec<Node>>,
    /// Of the instruction sets that matter to ciphers and hashes, those that are there, by the kernel's names: `aes`,
    /// `pclmulqdq`, `vaes`, `vpclmulqdq`, `avx2`, `avx512f`, `sha_ni`; on Arm `aes`, `pmull`, `sha2`, `sve2`.
    pub features: Fact<Vec<String>>,
    /// Frequency governor of each processor on line, by name, with how many have it.
    pub governors: Fact<BTreeMap<String, u32>>,
    /// What sets the frequency: `intel_pstate`, `amd-pstate-epp`, `acpi-cpufreq`.
    pub frequency_driver: Fact<String>,
    /// The highest frequency of processor 0 in kHz.
    pub max_khz: Fact<u64>,
    /// Whether the processors may run above their nominal frequency.
    pub turbo: Fact<bool>,
    /// Two threads a core: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`.
    pub smt: Fact<String>,
    /// Weaknesses of the processors, by name, and what the kernel does about them.
    pub mitigations: Fact<BTreeMap<String, String>>,
    /// AES-128-GCM on one thread in bytes a second, measured where the host is this one.
    pub aes_128_gcm: Fact<f64>,
    /// BLAKE3 on one thread in bytes a second, measured where the host is this one.
    pub blake3: Fact<f64>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its number.
    pub number: u32,
    /// Its processors on line; none where it is only memory.
    pub cpus: Fact<Vec<u32>>,
    /// Distances to the nodes in their order; 10 is to itself.
    pub distances: Fact<Vec<u32>>,
}

impl Cpu {
    /// Logical processors on line.
    pub fn threads(&self) -> Fact<u32> {
        self.online.as_ref().map(|cpus| u32::try_from(cpus.len()).unwrap_or(u32::MAX))
    }

    /// The node of a processor.
    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        let has = |node: &&Node| node.cpus.known().is_some_and(|cpus| cpus.contains(&cpu));
        self.nodes.known()?.iter().find(has).map(|node| node.number)
    }

    /// Whether an instruction set is there.
    pub fn has(&self, feature: &str) -> Fact<bool> {
        self.features.as_ref().map(|names| names.iter().any(|name| name == feature))
    }
}
