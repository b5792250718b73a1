//! Processors: /proc/cpuinfo and /sys/devices/system/{cpu,node}.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::read::{all, cpu_list, cpu_list_of, flag, number, or_odd};
use super::{Fact, Idle};
use crate::root::Root;
use crate::{cpuinfo, rates};

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";
/// The distance between nodes that Linux assumes if the firmware states none (`REMOTE_DISTANCE` in
/// include/linux/topology.h). Firmware states distances of 11 to 15 between nodes of one socket (sub-NUMA clusters,
/// AMD's NPS modes), and distances of 20 to 32 between nodes of different sockets.
const REMOTE_DISTANCE: u32 = 20;

/// Facts about the processors of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuFacts {
    /// The name of the processor's model.
    pub model: Fact<String>,
    /// The numbers of the online logical processors.
    pub online: Fact<Vec<u32>>,
    /// The processors that the kernel's scheduler doesn't use by itself (`isolcpus=`); empty if there are none.
    pub isolated: Fact<Vec<u32>>,
    /// The processors without a regular tick (`nohz_full=`); empty if there are none. Not applicable on a kernel
    /// without CONFIG_NO_HZ_FULL.
    pub nohz_full: Fact<Vec<u32>>,
    /// The number of cores with an online thread.
    pub cores: Fact<u32>,
    /// The online logical processors of each core: `[[0, 4], [1, 5]]`.
    pub siblings: Fact<Vec<Vec<u32>>>,
    /// The number of sockets with an online processor.
    pub sockets: Fact<u32>,
    /// The host's NUMA nodes.
    pub nodes: Fact<Vec<Node>>,
    /// The processor's instruction sets that matter to ciphers and hashes, by the kernel's names: `aes`, `pclmulqdq`,
    /// `vaes`, `vpclmulqdq`, `avx2`, `avx512f`, `sha_ni`; on Arm `aes`, `pmull`, `sha2`, `sve2`.
    pub features: Fact<Vec<String>>,
    /// Frequency governors of the online processors, by name; each with the number of processors that it governs.
    pub governors: Fact<BTreeMap<String, u32>>,
    /// Preferences between energy and speed (`energy_performance_preference`), each with its number of processors:
    /// `performance`, `balance_performance`, `balance_power`, `power`. Not applicable if the frequency driver has no
    /// such preference.
    pub energy: Fact<BTreeMap<String, u32>>,
    /// The name of the frequency driver, such as `intel_pstate`, `amd-pstate-epp` or `acpi-cpufreq`.
    pub frequency_driver: Fact<String>,
    /// The highest frequency of processor 0 in kHz.
    pub max_khz: Fact<u64>,
    /// The highest frequency that each online processor supports, in kHz.
    pub highest_khz: Fact<Vec<u64>>,
    /// The highest frequency at which each online processor may run now (`scaling_max_freq`), in kHz.
    pub allowed_khz: Fact<Vec<u64>>,
    /// True if the processors may run above their nominal frequency.
    pub turbo: Fact<bool>,
    /// The state of SMT (two threads per core): `on`, `off`, `forceoff`, `notsupported`, `notimplemented`.
    pub smt: Fact<String>,
    /// The idle states of the processors.
    pub idle: Idle,
    /// The vulnerabilities that the kernel knows, by name, each with the kernel's text about the processors'
    /// vulnerability and its mitigation.
    pub mitigations: Fact<BTreeMap<String, String>>,
    /// The rate of AES-128-GCM on one thread in bytes per second, measured on a live host.
    pub aes_128_gcm: Fact<f64>,
    /// The rate of BLAKE3 on one thread in bytes per second, measured on a live host.
    pub blake3: Fact<f64>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// The node's number.
    pub number: u32,
    /// The node's online processors; empty for a node that has only memory.
    pub cpus: Fact<Vec<u32>>,
    /// The distances from this node to all nodes, in the order of the nodes; the distance to itself is 10.
    pub distances: Fact<Vec<u32>>,
}

impl CpuFacts {
    /// The number of online logical processors.
    pub fn threads(&self) -> Fact<u32> {
        self.online.as_ref().map(|cpus| u32::try_from(cpus.len()).unwrap_or(u32::MAX))
    }

    /// The online processors that are neither isolated nor without a regular tick. These are the kernel's housekeeping
    /// processors, the only ones to which packets may be steered (`rps_cpumask_housekeeping()`).
    pub fn housekeeping(&self) -> Fact<Vec<u32>> {
        let apart = [&self.isolated, &self.nohz_full];
        let is_apart =
            |cpu: &u32| apart.iter().any(|cpus| cpus.known().is_some_and(|cpus| cpus.contains(cpu)));
        self.online.as_ref().map(|online| online.iter().copied().filter(|cpu| !is_apart(cpu)).collect())
    }

    /// The number of cores, or of logical processors if the cores are unknown.
    pub fn cores_at_most(&self) -> Option<u32> {
        self.cores.get().or(self.threads().get())
    }

    /// The number of cores to which these processors belong; `None` if the threads of the cores are unknown.
    pub fn cores_of(&self, cpus: &[u32]) -> Option<u32> {
        let cores = self.siblings.known()?;
        let core = |cpu: &u32| cores.iter().position(|threads| threads.contains(cpu));
        let all = cpus.iter().map(core).collect::<Option<std::collections::BTreeSet<_>>>()?;
        u32::try_from(all.len()).ok()
    }

    /// The node with this number.
    pub fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.known()?.iter().find(|node| node.number == number)
    }

    /// The nodes at other sockets than this node. Nodes at the same socket are left out, because access to their memory
    /// costs little more time. `None` if the nodes are unknown.
    pub fn far_nodes(&self, node: u32) -> Option<Vec<&Node>> {
        let nodes = self.nodes.known()?;
        if self.sockets.get() == Some(1) {
            return Some(Vec::new());
        }
        let own = self.node(node)?;
        let distances = own.distances.known().filter(|distances| distances.len() == nodes.len());
        let is_far = |at: usize| distances.is_none_or(|distances| distances[at] >= REMOTE_DISTANCE);
        let all = nodes.iter().enumerate();
        Some(all.filter(|(at, other)| other.number != node && is_far(*at)).map(|(_, far)| far).collect())
    }

    /// True if the processor has the instruction set `feature`.
    pub fn has(&self, feature: &str) -> Fact<bool> {
        self.features.as_ref().map(|names| names.iter().any(|name| name == feature))
    }
}

impl CpuFacts {
    pub(super) fn read(root: &Root, cpuinfo: &Fact<String>) -> Self {
        let online = cpu_list(root, &format!("{CPUS}/online"));
        let of_each = |file: &str| all_of(&online, |cpu| root.text(&format!("{CPUS}/cpu{cpu}/{file}")));
        let khz =
            |file: &str| all_of(&online, |cpu| number(root, &format!("{CPUS}/cpu{cpu}/cpufreq/{file}")));
        let allowed_khz = khz("scaling_max_freq");
        let siblings =
            all_of(&online, |cpu| cpu_list(root, &format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list")))
                .map(|mut cores| {
                    cores.sort();
                    cores.dedup();
                    cores
                });
        Self {
            model: cpuinfo.clone().and_then(|text| cpuinfo::model(&text)),
            isolated: cpu_list(root, &format!("{CPUS}/isolated")),
            nohz_full: without_tick(root),
            cores: siblings.as_ref().map(|cores| u32::try_from(cores.len()).unwrap_or(u32::MAX)),
            siblings,
            sockets: of_each("topology/physical_package_id").map(distinct),
            nodes: nodes(root),
            features: cpuinfo.clone().and_then(|text| cpuinfo::features(&text)),
            governors: of_each("cpufreq/scaling_governor").map(counted),
            energy: of_each("cpufreq/energy_performance_preference").map(counted),
            frequency_driver: root.text(&format!("{CPUS}/cpu0/cpufreq/scaling_driver")),
            max_khz: number(root, &format!("{CPUS}/cpu0/cpufreq/cpuinfo_max_freq")),
            highest_khz: allowed_khz.as_ref().and_then(|_| khz("cpuinfo_max_freq")),
            allowed_khz,
            turbo: turbo(root),
            smt: root.text(&format!("{CPUS}/smt/control")),
            idle: Idle::read(root, &online),
            mitigations: mitigations(root),
            aes_128_gcm: rate(root, "aes_128_gcm", rates::aes_128_gcm),
            blake3: rate(root, "blake3", rates::blake3),
            online,
        }
    }
}

/// The processors without a regular tick. If there are none, some kernels print a null pointer, "(null)".
fn without_tick(root: &Root) -> Fact<Vec<u32>> {
    let path = format!("{CPUS}/nohz_full");
    root.text(&path)
        .and_then(|text| if text == "(null)" { Fact::Known(Vec::new()) } else { cpu_list_of(&path, &text) })
}

/// The results of `of` for all processors, combined as by [`all`].
fn all_of<T>(cpus: &Fact<Vec<u32>>, of: impl Fn(u32) -> Fact<T>) -> Fact<Vec<T>> {
    cpus.as_ref().and_then(|cpus| all(cpus.iter().map(|cpu| of(*cpu))))
}

fn distinct(values: Vec<String>) -> u32 {
    u32::try_from(values.into_iter().collect::<std::collections::BTreeSet<_>>().len()).unwrap_or(u32::MAX)
}

fn counted(values: Vec<String>) -> BTreeMap<String, u32> {
    values.into_iter().fold(BTreeMap::new(), |mut counts, value| {
        *counts.entry(value).or_default() += 1;
        counts
    })
}

/// True if turbo is on. Intel's own driver has the file "no_turbo", and other drivers have the file "boost".
fn turbo(root: &Root) -> Fact<bool> {
    flag(root, &format!("{CPUS}/intel_pstate/no_turbo"))
        .map(|no| !no)
        .or_else(|| flag(root, &format!("{CPUS}/cpufreq/boost")))
}

fn mitigations(root: &Root) -> Fact<BTreeMap<String, String>> {
    let dir = format!("{CPUS}/vulnerabilities");
    root.names(&dir).and_then(|names| {
        let value = |name: String| root.needed(&format!("{dir}/{name}")).map(|text| (name, text));
        all(names.into_iter().map(value)).map(|pairs| pairs.into_iter().collect())
    })
}

fn nodes(root: &Root) -> Fact<Vec<Node>> {
    let number = |name: &String| name.strip_prefix("node")?.parse::<u32>().ok();
    root.names(NODES).map(|names| {
        let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| node(root, number)).collect()
    })
}

fn node(root: &Root, number: u32) -> Node {
    let path = format!("{NODES}/node{number}/distance");
    let numbers = |text: &str| text.split_whitespace().map(|word| word.parse().ok()).collect();
    Node {
        number,
        cpus: cpu_list(root, &format!("{NODES}/node{number}/cpulist")),
        distances: root.text(&path).and_then(|text| or_odd(&path, &text, numbers(&text))),
    }
}

fn rate(root: &Root, name: &str, measure: fn() -> std::io::Result<f64>) -> Fact<f64> {
    let path = format!("live/rates/{name}");
    root.answer(&path, || measure().map(|rate| format!("{rate:.0}")))
        .and_then(|text| super::read::parsed(&path, &text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Facts, Snapshot};

    /// The texts of files in /sys/devices/system/cpu: an empty line, a list, or a null pointer.
    #[test]
    fn isolated_processors_are_no_housekeepers() {
        let of = |lines: &str| {
            let text = format!("linerate snapshot 1\n/{CPUS}/online = 0-7\n{lines}");
            Facts::of_snapshot(&Snapshot::parse(&text).unwrap()).cpu
        };
        let both = of(&format!("/{CPUS}/isolated = 2-5\n/{CPUS}/nohz_full = 4-6\n"));
        assert_eq!(both.housekeeping(), Fact::Known(vec![0, 1, 7]));
        let none = of(&format!("/{CPUS}/isolated =\n/{CPUS}/nohz_full = (null)\n"));
        assert_eq!((none.isolated.known(), none.nohz_full.known()), (Some(&vec![]), Some(&vec![])));
        assert_eq!(none.housekeeping(), none.online);
        assert_eq!(of("").housekeeping(), Fact::Known((0..8).collect()));
        assert_eq!(of("").nohz_full, Fact::NotApplicable);
    }
}
