//! The backlogs in which received packets wait for a processor: /proc/net/softnet_stat and
//! /proc/sys/net/core.

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{flag, number, or_odd};
use crate::root::Root;

const STAT: &str = "proc/net/softnet_stat";

/// The settings and counters of the kernel's receive path. These facts are about the whole host, even if they are read
/// in a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftnetFacts {
    /// The counters of each processor.
    pub cpus: Fact<Vec<SoftnetCpu>>,
    /// The most packets that may wait in a processor's backlog (`netdev_max_backlog`).
    pub max_backlog: Fact<u32>,
    /// The most packets that one poll processes (`netdev_budget`).
    pub budget: Fact<u32>,
    /// The most microseconds that one poll takes (`netdev_budget_usecs`).
    pub budget_usecs: Fact<u32>,
    /// The total number of flows that RFS can steer (`rps_sock_flow_entries`); 0 means that RFS is off.
    pub rps_sock_flow_entries: Fact<u32>,
    /// Microseconds for which poll(2) and select(2) actively wait for a packet (`busy_poll`); 0 means off.
    pub busy_poll: Fact<u32>,
    /// Microseconds for which a read actively waits for a packet (`busy_read`); 0 means off.
    pub busy_read: Fact<u32>,
    /// The processors that, when their backlog fills, drop packets of large flows first, as a mask in the kernel's form
    /// (`flow_limit_cpu_bitmap`).
    pub flow_limit_cpus: Fact<String>,
    /// True if bridged packets pass through iptables (`bridge-nf-call-iptables`); not applicable without
    /// br_netfilter.
    pub bridge_calls_iptables: Fact<bool>,
}

/// One processor's counters since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftnetCpu {
    /// The processor's number. Before Linux 5.10, this is the number of the line, and only online processors have a
    /// line.
    pub cpu: u32,
    /// The number of packets processed.
    pub processed: u64,
    /// The number of packets dropped because the backlog was full.
    pub dropped: u64,
    /// The number of times that a poll's budget was exhausted.
    pub squeezed: u64,
    /// The number of times that another processor gave packets to this one (RPS).
    pub rps: u64,
    /// The number of packets dropped because their flow had too many packets.
    pub flow_limit: u64,
}

impl SoftnetFacts {
    pub(super) fn read(root: &Root) -> Self {
        let core = |name: &str| number(root, &format!("proc/sys/net/core/{name}"));
        Self {
            cpus: root.text(STAT).and_then(|text| or_odd(STAT, &text, rows(&text))),
            max_backlog: core("netdev_max_backlog"),
            budget: core("netdev_budget"),
            budget_usecs: core("netdev_budget_usecs"),
            rps_sock_flow_entries: core("rps_sock_flow_entries"),
            busy_poll: core("busy_poll"),
            busy_read: core("busy_read"),
            flow_limit_cpus: root.text("proc/sys/net/core/flow_limit_cpu_bitmap"),
            bridge_calls_iptables: flag(root, "proc/sys/net/bridge/bridge-nf-call-iptables"),
        }
    }
}

fn rows(text: &str) -> Option<Vec<SoftnetCpu>> {
    text.lines().enumerate().map(|(at, line)| row(at, line)).collect()
}

/// Parses a line of the kernel's softnet_seq_show, whose columns are hexadecimal. Older kernels have fewer
/// columns.
fn row(at: usize, line: &str) -> Option<SoftnetCpu> {
    let columns = line.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok());
    let columns = columns.collect::<Option<Vec<u64>>>()?;
    let column = |i: usize| columns.get(i).copied();
    let cpu = column(12).map_or_else(|| u32::try_from(at), u32::try_from).ok()?;
    Some(SoftnetCpu {
        cpu,
        processed: column(0)?,
        dropped: column(1)?,
        squeezed: column(2)?,
        rps: column(9).unwrap_or(0),
        flow_limit: column(10).unwrap_or(0),
    })
}
