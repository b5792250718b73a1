//! Queueing disciplines of an interface, from the kernel (RTM_GETQDISC, rtnetlink(7)).

use serde::{Deserialize, Serialize};

/// One discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qdisc {
    /// `fq`, `fq_codel`, `mq`, `pfifo_fast`, `noqueue`.
    pub kind: String,
    /// Whether it is the interface's root; the others are below `mq` and its like.
    pub root: bool,
    /// Packets that it dropped.
    pub drops: u64,
    /// Packets that had to wait for the device to take them.
    pub requeues: u64,
    /// Packets that went over their limit.
    pub overlimits: u64,
}
