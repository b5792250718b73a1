//! Bonds: /sys/class/net/BOND/bonding (the kernel's Documentation/networking/bonding.rst).

use serde::{Deserialize, Serialize};

use super::Fact;

/// A bond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bond {
    /// `balance-rr`, `active-backup`, `balance-xor`, `broadcast`, `802.3ad`, `balance-tlb`, `balance-alb`.
    pub mode: Fact<String>,
    /// What a flow's slave is chosen by: `layer2`, `layer2+3`, `layer3+4`, `encap2+3`, `encap3+4`, `vlan+srcmac`.
    pub hash_policy: Fact<String>,
    /// Its interfaces.
    pub slaves: Fact<Vec<String>>,
    /// The one in use, in a mode that uses one at a time.
    pub active_slave: Fact<String>,
    /// `slow` or `fast`, in mode 802.3ad.
    pub lacp_rate: Fact<String>,
    /// Milliseconds between two looks at the slaves' carriers; 0: never.
    pub miimon: Fact<u32>,
}
