//! Which processors work on a queue's packets: RPS, RFS and XPS (the kernel's Documentation/networking/scaling.rst).

use serde::{Deserialize, Serialize};

use super::Fact;

/// A receive queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RxQueue {
    /// Its number.
    pub number: u32,
    /// Processors that its packets are spread over by software (RPS); empty where they stay.
    pub rps_cpus: Fact<Vec<u32>>,
    /// Flows that are followed to their programs (RFS).
    pub rps_flow_count: Fact<u32>,
}

/// A transmit queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TxQueue {
    /// Its number.
    pub number: u32,
    /// Processors that send by it (XPS). Not applicable where there is but one queue.
    pub xps_cpus: Fact<Vec<u32>>,
    /// Bytes that may be in the device at once now (byte queue limits).
    pub byte_limit: Fact<u64>,
}
