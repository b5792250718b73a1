//! Summarizes a recording in a few numbers: the traffic, and the cost of the traffic in processor time.

use serde::{Deserialize, Serialize};

use super::ports::PortTotals;
use super::pressure::Stall;
use super::processes::ProcessSeconds;
use super::softnet::Softnet;
use super::tcp::TcpTotals;
use super::{Recording, cpu, memory, ports, pressure, processes, softnet, tcp};
use crate::CpuSeconds;

/// The summary of a recording, from the first sample to the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The duration in wall-clock seconds.
    pub seconds: f64,
    /// The number of samples.
    pub samples: usize,
    /// The processor time of the whole host; `None` if it couldn't be read.
    pub cpu: Option<CpuSeconds>,
    /// The busy share of all processors in the busiest interval, in percent.
    pub peak_busy_percent: Option<f64>,
    /// The traffic of each network interface, loopback included.
    pub ports: Vec<PortTotals>,
    /// The counters of the processors' network backlogs, summed over all processors.
    pub softnet: Softnet,
    /// TCP's numbers of segments, losses and timeouts.
    pub tcp: TcpTotals,
    /// The time that tasks waited for each resource.
    pub stalls: Vec<Stall>,
    /// The smallest amount of available memory in any sample, in bytes.
    pub least_memory: Option<u64>,
    /// The followed processes, sorted by processor time in descending order.
    pub processes: Vec<ProcessSeconds>,
}

impl Cost {
    /// Computes the summary of `recording`.
    pub fn of(recording: &Recording) -> Self {
        Self {
            seconds: recording.seconds(),
            samples: recording.samples.len(),
            cpu: cpu::cpu_seconds(recording),
            peak_busy_percent: cpu::peak_busy_percent(recording),
            ports: ports::ports(recording),
            softnet: softnet::softnet(recording),
            tcp: tcp::tcp_totals(recording),
            stalls: pressure::stalls(recording),
            least_memory: memory::least_available(recording),
            processes: processes::process_seconds(recording),
        }
    }

    /// The bytes in the busier direction on all interfaces except loopback. Data that passes through several
    /// interfaces, for example those of a bridge, is counted on each of these interfaces.
    pub fn carried(&self) -> u64 {
        let ports = || self.ports.iter().filter(|port| port.name != "lo");
        let received: u64 = ports().map(|port| port.received.bytes).fold(0, u64::saturating_add);
        let sent = ports().map(|port| port.sent.bytes).fold(0, u64::saturating_add);
        received.max(sent)
    }

    /// The busy share of all processors in percent.
    pub fn busy_percent(&self) -> Option<f64> {
        let cpu = self.cpu.as_ref().filter(|cpu| cpu.total() > 0.0)?;
        Some(100.0 * cpu.busy() / cpu.total())
    }

    /// The processor seconds of all followed processes together.
    pub fn process_seconds(&self) -> f64 {
        self.processes.iter().map(|process| process.seconds).sum()
    }
}
