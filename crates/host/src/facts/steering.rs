//! Packet steering: which processors handle a queue's packets, by RPS, RFS and XPS (the kernel's
//! Documentation/networking/scaling.rst).

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{cpu_mask, number};
use crate::root::Root;

/// A receive queue and its steering.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RxQueue {
    /// The queue's number.
    pub number: u32,
    /// The processors over which the kernel distributes the queue's packets (RPS); empty if RPS is off.
    pub rps_cpus: Fact<Vec<u32>>,
    /// The number of flows of this queue that RFS can steer to the processors of their programs.
    pub rps_flow_count: Fact<u32>,
}

/// A transmit queue and its steering.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TxQueue {
    /// The queue's number.
    pub number: u32,
    /// The processors that send through the queue (XPS). Not applicable if there is only one queue.
    pub xps_cpus: Fact<Vec<u32>>,
    /// The receive queues of the connections whose packets are sent through this queue (XPS by receive queues). This
    /// setting takes precedence over `xps_cpus`. Linux 4.18 or later.
    pub xps_rxqs: Fact<Vec<u32>>,
    /// The limit of the queue's rate in Mbit/s (`tx_maxrate`); 0 if it has none.
    pub max_mbps: Fact<u64>,
    /// The current limit, in bytes, of the data that waits in the device to be sent (byte queue limits).
    pub byte_limit: Fact<u64>,
}

impl RxQueue {
    pub(super) fn read(root: &Root, port: &str) -> Fact<Vec<Self>> {
        numbered(root, port, "rx-")
            .map(|queues| queues.into_iter().map(|n| Self::one(root, port, n)).collect())
    }

    fn one(root: &Root, port: &str, number: u32) -> Self {
        let dir = format!("sys/class/net/{port}/queues/rx-{number}");
        Self {
            number,
            rps_cpus: cpu_mask(root, &format!("{dir}/rps_cpus")),
            rps_flow_count: super::read::number(root, &format!("{dir}/rps_flow_cnt")),
        }
    }
}

impl TxQueue {
    pub(super) fn read(root: &Root, port: &str) -> Fact<Vec<Self>> {
        numbered(root, port, "tx-")
            .map(|queues| queues.into_iter().map(|n| Self::one(root, port, n)).collect())
    }

    fn one(root: &Root, port: &str, queue: u32) -> Self {
        let dir = format!("sys/class/net/{port}/queues/tx-{queue}");
        Self {
            number: queue,
            xps_cpus: cpu_mask(root, &format!("{dir}/xps_cpus")),
            xps_rxqs: cpu_mask(root, &format!("{dir}/xps_rxqs")),
            max_mbps: number(root, &format!("{dir}/tx_maxrate")),
            byte_limit: number(root, &format!("{dir}/byte_queue_limits/limit")),
        }
    }
}

/// The numbers of the queues of an interface whose names have this prefix.
fn numbered(root: &Root, port: &str, prefix: &str) -> Fact<Vec<u32>> {
    let dir = format!("sys/class/net/{port}/queues");
    let names = root.names(&dir).or_else(|| Fact::Unreadable(format!("/{dir} is missing")));
    names.map(|names| {
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    })
}
