//! Where received packets wait for a processor: /proc/net/softnet_stat and /proc/sys/net/core.

use serde::{Deserialize, Serialize};

use super::Fact;

/// The kernel's receive path. It is the host's, also when it is read in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Softnet {
    /// Counters of each processor.
    pub cpus: Fact<Vec<SoftnetCpu>>,
    /// Packets that may wait for a processor (`netdev_max_backlog`).
    pub max_backlog: Fact<u32>,
    /// Packets in one go (`netdev_budget`).
    pub budget: Fact<u32>,
    /// Microseconds in one go (`netdev_budget_usecs`).
    pub budget_usecs: Fact<u32>,
    /// Flows that are followed in all (`rps_sock_flow_entries`); 0: RFS is off.
    pub rps_sock_flow_entries: Fact<u32>,
    /// Microseconds of polling for a packet (`busy_poll`); 0: off.
    pub busy_poll: Fact<u32>,
    /// The same for reads (`busy_read`).
    pub busy_read: Fact<u32>,
}

/// One processor's counters since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftnetCpu {
    /// Its number; before Linux 5.10 the line's place among those on line.
    pub cpu: u32,
    /// Packets worked on.
    pub processed: u64,
    /// Dropped since the backlog was full.
    pub dropped: u64,
    /// Times that the budget was used up.
    pub squeezed: u64,
    /// Times that another processor handed it packets (RPS).
    pub rps: u64,
    /// Dropped since one flow had too many.
    pub flow_limit: u64,
}
