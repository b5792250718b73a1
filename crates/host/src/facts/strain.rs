//! What others take from the host, and what it waits for: /proc/stat and /proc/pressure.

use serde::{Deserialize, Serialize};

use super::Fact;

/// How strained the host is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Strain {
    /// Share of processor time since boot in which a processor was ready to run and the hypervisor ran others: 0 to 1.
    pub steal: Fact<f64>,
    /// Share of processor time since boot that was worked: 0 to 1.
    pub busy: Fact<f64>,
    /// Waiting for a processor.
    pub cpu: Fact<Stall>,
    /// Waiting for storage.
    pub io: Fact<Stall>,
    /// Waiting for memory.
    pub memory: Fact<Stall>,
}

/// Percent of time in which tasks waited (the kernel's Documentation/accounting/psi.rst).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stall {
    /// Some task, in the last 10 seconds.
    pub some_10: f64,
    /// Some task, in the last 60 seconds.
    pub some_60: f64,
    /// Some task, in the last 300 seconds.
    pub some_300: f64,
    /// All tasks at once, in the last 10 seconds; 0 where the kernel doesn't tell.
    pub full_10: f64,
}
