//! The checks. Each has a file with a pure function of the facts, and one line below that registers it.
//!
//! A check looks only at known facts. If a fact that it needs is unknown, the check finds nothing, so that no finding
//! comes from a guess.

mod shared;

use crate::{Citation, Finding, Host, Path};

use shared::{control_group, lost_packets, processors, ring, shell};

pub(crate) use shell::word;

/// One check.
pub struct Check {
    /// Stable name, like `pcie-width`.
    pub name: &'static str,
    /// The situation that the check looks for, as a part of a sentence.
    pub about: &'static str,
    /// Documents behind the advice.
    pub sources: &'static [Citation],
    /// The check itself.
    pub run: CheckRun,
}

/// The function of a check.
#[derive(Clone, Copy)]
pub enum CheckRun {
    /// Looks at a host, and returns any number of findings.
    Host(fn(&Host<'_>) -> Vec<Finding>),
    /// Looks at a host, and returns one finding at most.
    HostOne(fn(&Host<'_>) -> Option<Finding>),
    /// Looks at a path with both of its ends, and returns one finding at most.
    Path(fn(&Path<'_>) -> Option<Finding>),
}

impl Check {
    /// Findings on a host, with the check's name and sources; a check of paths returns none.
    pub(crate) fn on_host(&self, host: &Host<'_>) -> Vec<Finding> {
        match self.run {
            CheckRun::Host(run) => {
                run(host).into_iter().map(|finding| self.sign(finding, host.name)).collect()
            }
            CheckRun::HostOne(run) => {
                run(host).map(|finding| self.sign(finding, host.name)).into_iter().collect()
            }
            CheckRun::Path(_) => Vec::new(),
        }
    }

    /// The finding on a path, with the check's name and sources; a check of hosts returns none.
    pub(crate) fn on_path(&self, path: &Path<'_>) -> Option<Finding> {
        let name = format!("{} -> {}", path.from.name, path.to.name);
        match self.run {
            CheckRun::Path(run) => run(path).map(|finding| self.sign(finding, &name)),
            CheckRun::Host(_) | CheckRun::HostOne(_) => None,
        }
    }

    fn sign(&self, mut finding: Finding, host: &str) -> Finding {
        debug_assert!(finding.changes_something(), "{} proposes the present value: {finding:#?}", self.name);
        // Only a path names the host of each remedy.
        finding
            .remedies
            .iter_mut()
            .filter(|remedy| remedy.host.is_empty())
            .for_each(|remedy| remedy.host = host.into());
        Finding { check: self.name, host: host.into(), sources: self.sources, ..finding }
    }
}

/// Declares the other files of this directory, each of which holds a `CHECK`. `rustfmt` skips files that a macro
/// declares: see CONTRIBUTING.md.
macro_rules! checks {
    ($($file:ident),* $(,)?) => {
        $(mod $file;)*
        /// All checks, in the order in which findings of equal cost are reported.
        pub static CHECKS: &[&Check] = &[$(&$file::CHECK),*];
    };
}

// One line for each check, in the order in which packets pass them: slot, port, queues, processors, kernel, path.
checks! {
    // Slot, port, interrupts, queues, processors.
    pcie_width,
    pcie_bridge,
    pcie_payload,
    iommu_strict,
    nic_model,
    nic_speed,
    module_speed,
    module_light,
    module_heat,
    fec,
    queues_vs_cores,
    irq_one_cpu,
    irq_siblings,
    irq_far_node,
    rx_ring,
    tx_ring,
    coalescing,
    offload_off,
    big_tcp,
    rss_indirection,
    idle_queues,
    rps_off,
    xps_off,
    flow_control,
    paused,
    drops,
    softnet_squeezed,
    softnet_backlog,
    numa_remote,
    governor,
    frequency_cap,
    clock_source,
    tuned_profile,
    turbo_off,
    smt_off,
    idle_states,
    mitigations,
    bond_hash,
    bond_single_flow,
    bridge_in_path,
    vlan_offload,
    rate_limit,
    overlay,
    container,
    taps,
    conntrack,
    // Guests, TCP, storage, tools.
    vm_emulated_nic,
    virtio_one_queue,
    vmxnet3_one_queue,
    accelerated_networking,
    cloud_allowance,
    cloud_flow_limit,
    no_vhost,
    sriov_available,
    sriov_tradeoffs,
    vf_rate,
    netqueue_mismatch,
    guest_vcpus,
    steal,
    jumbo_frames,
    mtu_mismatch,
    fcoe_mtu,
    tcp_buffers,
    core_buffers,
    tcp_autotuning,
    tcp_window_scaling,
    tcp_timestamps,
    tcp_sack,
    mtu_probing,
    slow_start_idle,
    hystart,
    tcp_metrics,
    congestion_control,
    qdisc_pacing,
    retransmits,
    receive_queue,
    listen_queue,
    tcp_memory,
    tcp_ecn,
    optmem,
    busy_poll,
    route_settings,
    no_aes,
    no_vaes,
    cipher_slow,
    ssh_cipher,
    tool_single_thread,
    disk_slower_than_link,
    disk_link,
    disk_encryption,
    io_limit,
    file_system_full,
    network_file_system,
    mount_sync,
    io_scheduler,
    read_ahead,
    write_back,
    tmpfs_room,
    memory_pressure,
    swap_used,
    cpu_quota,
    cpuset,
    memory_limit,
    pressure_cpu,
    pressure_io,
    kernel_old,
    // Paths.
    black_hole,
    path_loss,
    window_vs_bdp,
    path_rate,
    path_rtt,
    route_port,
    multipath_hash,
    path_mtu,
    stream_count,
    ssh_window,
}

/// The check with this name.
pub fn named(name: &str) -> Option<&'static Check> {
    CHECKS.iter().copied().find(|check| check.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The papers are listed on one page; each other document has its own address.
    #[test]
    fn a_document_has_one_title() {
        let mut titles = std::collections::BTreeMap::new();
        let cited = CHECKS.iter().flat_map(|check| check.sources);
        for Citation { name, url } in cited.filter(|source| source.url != "docs/papers.md") {
            let first = titles.entry(url).or_insert(name);
            assert_eq!(first, &name, "two titles of {url}");
        }
    }

    #[test]
    fn names_are_stable_and_sources_are_there() {
        for (at, check) in CHECKS.iter().enumerate() {
            let is_stable =
                check.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            assert!(is_stable && !check.about.is_empty(), "{}", check.name);
            assert!(!check.sources.is_empty(), "{}", check.name);
            let is_address =
                |source: &Citation| source.url.starts_with("https://") || source.url == "docs/papers.md";
            assert!(check.sources.iter().all(is_address), "{}", check.name);
            assert!(CHECKS[..at].iter().all(|other| other.name != check.name), "{} twice", check.name);
        }
        assert!(named("pcie-width").is_some() && named("none").is_none());
    }
}
