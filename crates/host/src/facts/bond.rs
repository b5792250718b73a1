//! Bonds of interfaces: /sys/class/net/BOND/bonding (the kernel's Documentation/networking/bonding.rst).

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{number, words};
use crate::root::Root;

/// The settings of a bond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bond {
    /// The bond's mode: `balance-rr`, `active-backup`, `balance-xor`, `broadcast`, `802.3ad`, `balance-tlb`
    /// or `balance-alb`.
    pub mode: Fact<String>,
    /// The policy of the hash that chooses the slave for a flow: `layer2`, `layer2+3`, `layer3+4`,
    /// `encap2+3`, `encap3+4`, `vlan+srcmac`.
    pub hash_policy: Fact<String>,
    /// The interfaces that belong to the bond.
    pub slaves: Fact<Vec<String>>,
    /// The active interface, in a mode that uses one interface at a time.
    pub active_slave: Fact<String>,
    /// How often LACP packets are sent in mode 802.3ad: `slow` or `fast`.
    pub lacp_rate: Fact<String>,
    /// Milliseconds between two checks of the slaves' carriers; 0 if the carriers are never checked.
    pub miimon: Fact<u32>,
}

impl Bond {
    /// The bond with this name; not applicable if the interface isn't a bond.
    pub(super) fn read(root: &Root, name: &str, driver: &Fact<String>) -> Fact<Self> {
        match driver {
            Fact::Known(driver) if driver == "bonding" => {}
            Fact::Unreadable(reason) => return Fact::Unreadable(reason.clone()),
            _ => return Fact::NotApplicable,
        }
        let dir = format!("sys/class/net/{name}/bonding");
        // Each of these files contains a name and the kernel's number for that name.
        let first = |file: &str| root.text(&format!("{dir}/{file}")).and_then(|text| first_word(&text));
        Fact::Known(Self {
            mode: first("mode"),
            hash_policy: first("xmit_hash_policy"),
            slaves: words(root, &format!("{dir}/slaves")),
            active_slave: first("active_slave"),
            lacp_rate: first("lacp_rate"),
            miimon: number(root, &format!("{dir}/miimon")),
        })
    }
}

fn first_word(text: &str) -> Fact<String> {
    text.split_whitespace().next().map_or(Fact::NotApplicable, |word| Fact::Known(word.to_owned()))
}
