//! Interrupts of a device: which, where, and how often: /proc/interrupts and /proc/irq.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;

/// One interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Irq {
    /// Its number.
    pub number: u32,
    /// The driver's name for it: `eth0-TxRx-0`; not applicable while nobody asks for it.
    pub name: Fact<String>,
    /// Processors that may serve it.
    pub affinity: Fact<Vec<u32>>,
    /// Processors that do.
    pub effective: Fact<Vec<u32>>,
    /// How often each processor served it since boot; processors that never did are left out.
    pub counts: Fact<BTreeMap<u32, u64>>,
}

impl Irq {
    /// How often it came since boot.
    pub fn total(&self) -> Fact<u64> {
        self.counts.as_ref().map(|counts| counts.values().sum())
    }
}
