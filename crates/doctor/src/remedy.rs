//! Remedies: settings that a program can change and change back, in addition to the advice in words.
//!
//! A finding's commands are made from its remedies, so that commands and remedies agree. Some advice never becomes a
//! remedy: advice that lowers a number, takes a link down, is about swap, or needs a person.

mod command;
mod judged;
mod proposed;

use std::collections::BTreeSet;
use std::fmt;

use linerate_host::facts::{cpus_of_list, cpus_of_mask};
use serde::{Deserialize, Serialize};

pub use command::{commands, undo_commands};
pub(crate) use command::{handle, noted};
pub use judged::HostBounds;
pub(crate) use judged::{RING_PART, RING_STEP};

/// The longest name of a port (IFNAMSIZ, without the final 0).
const LONGEST_PORT: usize = 15;
/// The trees of sysctls that may be changed.
const TREES: [&str; 2] = ["net.", "vm."];
/// The directory of the governors' tunable numbers, and of the policies that have tunable numbers of their own.
pub const TUNABLES: &str = "/sys/devices/system/cpu/cpufreq";

/// One setting of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Setting {
    /// A sysctl, by its name with dots. Its values are words between single spaces.
    Sysctl {
        /// The sysctl's name, like `net.ipv4.tcp_rmem`.
        key: String,
    },
    /// Descriptors in a port's rings.
    Ring {
        /// The port.
        port: String,
        /// The direction of the ring's packets.
        way: RingWay,
    },
    /// The number of a port's queues.
    Channels {
        /// The port.
        port: String,
        /// The kind of the queues: `combined`, `rx` or `tx`.
        queues: Queues,
    },
    /// A port's interrupt coalescing: pairs of a name and a value, as ethtool -C takes them. The present value has all
    /// pairs of the driver; a new value may have only some of them.
    Coalescing {
        /// The port.
        port: String,
    },
    /// A feature of a port. Its values are `on` and `off`.
    Feature {
        /// The port.
        port: String,
        /// The kernel's name of the feature, like `rx-gro`.
        feature: String,
    },
    /// A port's root queueing discipline, by its kind; `mq KIND` if several queues have the default discipline.
    Qdisc {
        /// The port.
        port: String,
    },
    /// The kind of the disciplines that the kernel has attached to a port by itself, and their quantum, which the
    /// kernel takes from the port's MTU when it makes them: `fq_codel 1514`.
    Quantum {
        /// The port.
        port: String,
    },
    /// The receive queue of each slot of a port's RSS table: `equal 4` if four queues take turns, otherwise the queues'
    /// numbers.
    Rss {
        /// The port.
        port: String,
    },
    /// The processors over which software spreads a receive queue's packets: a mask.
    Rps {
        /// The port.
        port: String,
        /// The queue.
        queue: u32,
    },
    /// The processors that send through a transmit queue: a mask.
    Xps {
        /// The port.
        port: String,
        /// The queue.
        queue: u32,
    },
    /// The frequency governor of all processors; if the governors differ, each with its processors: `powersave 0-3
    /// ondemand 4`.
    Governor,
    /// Every processor's preference between energy and speed, in the governors' form. Some drivers forget it when the
    /// governor changes.
    EnergyPreference,
    /// A tunable number of a governor. The kernel forgets the number when another governor replaces this one.
    Tunable {
        /// The governor's name, like `ondemand`.
        governor: String,
        /// The number of the policy, which is a set of processors that share a frequency; `None` if the tunable belongs
        /// to all policies.
        policy: Option<u32>,
        /// The tunable's name, like `up_threshold`.
        name: String,
    },
    /// The processors that may serve an interrupt: a list such as `0-3,8`.
    IrqAffinity {
        /// The interrupt's number.
        irq: u32,
    },
    /// Bytes of a port's largest packet.
    Mtu {
        /// The port.
        port: String,
    },
    /// Whether a port is open: `up`. This setting is only restored, if a driver has closed the port.
    Link {
        /// The port.
        port: String,
    },
}

/// The direction of a ring's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RingWay {
    /// Receiving.
    Rx,
    /// Sending.
    Tx,
}

/// A kind of queues, by the direction of their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Queues {
    /// Both directions.
    Combined,
    /// Receiving only.
    Rx,
    /// Sending only.
    Tx,
}

/// One change of a setting that a finding proposes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// The user's name for the host.
    pub host: String,
    /// The setting.
    pub setting: Setting,
    /// The setting's value when the facts were read.
    pub now: String,
    /// The proposed value.
    pub new: String,
}

impl Remedy {
    /// A change of a setting of the host that a check examines; `None` if nothing would change, a number would fall, or
    /// checks may not propose the value.
    pub fn of(setting: Setting, now: impl fmt::Display, new: impl fmt::Display) -> Option<Self> {
        let (now, new) = (now.to_string(), new.to_string());
        let is_better = !setting.is_same(&now, &new) && !setting.lowers(&now, &new);
        // The check has already compared the value with the host's memory and processors.
        (is_better && setting.judge(&now, &new, &HostBounds::default()).is_ok()).then(|| Self {
            host: String::new(),
            setting,
            now,
            new,
        })
    }

    /// Like [`Remedy::of`], for a sysctl; `None` also if checks may not propose to change this sysctl.
    pub fn sysctl(key: &str, now: impl fmt::Display, new: impl fmt::Display) -> Option<Self> {
        Self::of(Setting::Sysctl { key: key.into() }, now, new).filter(|remedy| remedy.setting.is_proposed())
    }

    /// The same change, of the host with this name: a path has two hosts.
    pub fn on(self, host: &str) -> Self {
        Self { host: host.into(), ..self }
    }
}

impl Setting {
    /// True if the setting's names are valid in a kernel, and don't lead to other files. Settings from outside the
    /// program must pass this check.
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Sysctl { key } => is_key(key),
            Self::Feature { port, feature } => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                is_port(port) && !feature.is_empty() && feature.chars().all(is_name)
            }
            Self::Tunable { governor, name, .. } => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                [governor, name].iter().all(|one| !one.is_empty() && one.chars().all(is_name))
            }
            Self::Governor | Self::EnergyPreference | Self::IrqAffinity { .. } => true,
            _ => self.port().is_some_and(is_port),
        }
    }

    /// True if a check may propose to change the setting. Other settings are only restored, such as the tunables of
    /// governors.
    pub fn is_proposed(&self) -> bool {
        match self {
            Self::Sysctl { key } => proposed::SYSCTLS.contains(&key.as_str()),
            Self::Tunable { .. } | Self::EnergyPreference | Self::Quantum { .. } | Self::Link { .. } => false,
            _ => true,
        }
    }

    /// True if only the kernel changes the setting, as a side effect of other settings.
    pub fn is_derived(&self) -> bool {
        matches!(self, Self::Quantum { .. })
    }

    /// The port to which the setting belongs.
    pub fn port(&self) -> Option<&str> {
        match self {
            Self::Ring { port, .. }
            | Self::Channels { port, .. }
            | Self::Coalescing { port }
            | Self::Feature { port, .. }
            | Self::Qdisc { port }
            | Self::Quantum { port }
            | Self::Rss { port }
            | Self::Rps { port, .. }
            | Self::Xps { port, .. }
            | Self::Mtu { port }
            | Self::Link { port } => Some(port),
            Self::Sysctl { .. }
            | Self::Governor
            | Self::EnergyPreference
            | Self::Tunable { .. }
            | Self::IrqAffinity { .. } => None,
        }
    }

    /// The same setting of another port; unchanged if the setting has no port.
    #[must_use]
    pub fn of_port(mut self, name: &str) -> Self {
        match &mut self {
            Self::Ring { port, .. }
            | Self::Channels { port, .. }
            | Self::Coalescing { port }
            | Self::Feature { port, .. }
            | Self::Qdisc { port }
            | Self::Quantum { port }
            | Self::Rss { port }
            | Self::Rps { port, .. }
            | Self::Xps { port, .. }
            | Self::Mtu { port }
            | Self::Link { port } => name.clone_into(port),
            Self::Sysctl { .. }
            | Self::Governor
            | Self::EnergyPreference
            | Self::Tunable { .. }
            | Self::IrqAffinity { .. } => {}
        }
        self
    }

    /// True if, during the change, drivers may take the port out of service for a moment, or packets may be lost.
    pub fn interrupts(&self) -> bool {
        self.may_close() || matches!(self, Self::Qdisc { .. })
    }

    /// True if drivers may close the port for the change; some leave it closed if the change fails, as bnxt_open_nic()
    /// does without memory.
    pub fn may_close(&self) -> bool {
        matches!(self, Self::Ring { .. } | Self::Channels { .. } | Self::Feature { .. } | Self::Mtu { .. })
    }

    /// The processors that a value names; `None` if the setting isn't about processors.
    pub fn processors(&self, value: &str) -> Option<BTreeSet<u32>> {
        match self {
            Self::Rps { .. } | Self::Xps { .. } => cpus_of_mask(value).map(BTreeSet::from_iter),
            Self::IrqAffinity { .. } => cpus_of_list(value).map(BTreeSet::from_iter),
            _ => None,
        }
    }

    /// True if both values mean the same.
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        match self {
            Self::Rps { .. } | Self::Xps { .. } | Self::IrqAffinity { .. } => {
                self.processors(one).is_some() && self.processors(one) == self.processors(other)
            }
            _ => one.split_whitespace().eq(other.split_whitespace()),
        }
    }

    /// True if the value `now` contains everything that `new` asks for.
    pub fn holds(&self, now: &str, new: &str) -> bool {
        match self {
            Self::Coalescing { .. } => pairs(new).all(|wanted| pairs(now).any(|pair| pair == wanted)),
            _ => self.is_same(now, new),
        }
    }

    /// The part of `value` that `new` names: a port's coalescing has numbers that a command must leave out, because the
    /// driver refuses every command that has them (ethnl_set_coalesce() in net/ethtool/coalesce.c).
    pub fn named(&self, value: &str, new: &str) -> String {
        let Self::Coalescing { .. } = self else { return value.to_owned() };
        let is_named = |(name, _): &(&str, &str)| pairs(new).any(|(other, _)| other == *name);
        let named: Vec<String> =
            pairs(value).filter(is_named).map(|(name, number)| format!("{name} {number}")).collect();
        named.join(" ")
    }

    /// True if one of the setting's numbers would fall, or a feature would be turned off.
    pub fn lowers(&self, now: &str, new: &str) -> bool {
        match self {
            Self::Sysctl { .. } | Self::Ring { .. } | Self::Channels { .. } | Self::Mtu { .. } => {
                let number = |text: &str| text.parse::<i128>().ok();
                let pairs = now.split_whitespace().zip(new.split_whitespace());
                pairs.filter_map(|(now, new)| number(now).zip(number(new))).any(|(now, new)| new < now)
            }
            Self::Feature { .. } => new == "off",
            _ => false,
        }
    }

    /// The file that holds the setting, if there is one; a pattern if there are several.
    pub fn file(&self) -> Option<String> {
        match self {
            Self::Sysctl { key } => Some(format!(
                "/proc/sys/{}",
                key.split('.').map(|part| part.replace('/', ".")).collect::<Vec<_>>().join("/")
            )),
            Self::Rps { port, queue } => Some(format!("/sys/class/net/{port}/queues/rx-{queue}/rps_cpus")),
            Self::Xps { port, queue } => Some(format!("/sys/class/net/{port}/queues/tx-{queue}/xps_cpus")),
            Self::Governor => Some(frequency_file("*", GOVERNOR)),
            Self::EnergyPreference => Some(frequency_file("*", PREFERENCE)),
            Self::Tunable { governor, policy, name } => {
                let policy = policy.map_or_else(String::new, |policy| format!("policy{policy}/"));
                Some(format!("{TUNABLES}/{policy}{governor}/{name}"))
            }
            Self::IrqAffinity { irq } => Some(format!("/proc/irq/{irq}/smp_affinity_list")),
            Self::Mtu { port } => Some(format!("/sys/class/net/{port}/mtu")),
            Self::Link { port } => Some(format!("/sys/class/net/{port}/flags")),
            _ => None,
        }
    }
}

/// A name for people: `net.ipv4.tcp_rmem`, `eth0's receive ring`.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { key } => f.write_str(key),
            Self::Ring { port, way: RingWay::Rx } => write!(f, "{port}'s receive ring"),
            Self::Ring { port, way: RingWay::Tx } => write!(f, "{port}'s transmit ring"),
            Self::Channels { port, queues } => {
                let name = match queues {
                    Queues::Combined => "combined",
                    Queues::Rx => "receive",
                    Queues::Tx => "transmit",
                };
                write!(f, "{port}'s {name} queues")
            }
            Self::Coalescing { port } => write!(f, "{port}'s coalescing"),
            Self::Feature { port, feature } => write!(f, "{port}'s {feature}"),
            Self::Qdisc { port } => write!(f, "{port}'s root qdisc"),
            Self::Quantum { port } => write!(f, "the quantum of {port}'s qdiscs"),
            Self::Rss { port } => write!(f, "{port}'s RSS table"),
            Self::Rps { port, queue } => write!(f, "rps_cpus of {port}'s queue {queue}"),
            Self::Xps { port, queue } => write!(f, "xps_cpus of {port}'s queue {queue}"),
            Self::Governor => f.write_str("the processors' governor"),
            Self::EnergyPreference => f.write_str("the processors' preference between energy and speed"),
            Self::Tunable { governor, policy: None, name } => write!(f, "{governor}'s {name}"),
            Self::Tunable { governor, policy: Some(policy), name } => {
                write!(f, "{governor}'s {name} of policy {policy}")
            }
            Self::IrqAffinity { irq } => write!(f, "the processors of interrupt {irq}"),
            Self::Mtu { port } => write!(f, "{port}'s MTU"),
            Self::Link { port } => write!(f, "{port}'s link"),
        }
    }
}

/// The name of the file that holds a processor's governor, in the processor's directory `cpufreq`.
pub const GOVERNOR: &str = "scaling_governor";
/// The name of the file that holds a processor's preference between energy and speed, in the processor's directory
/// `cpufreq`.
pub const PREFERENCE: &str = "energy_performance_preference";

fn frequency_file(cpu: &str, name: &str) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}")
}

fn is_key(key: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-@:".contains(&b))
    };
    // As in sysctl(8), a slash in a key stands for a dot in a file's name.
    let is_name = |name: &str| name.split('/').all(is_part);
    TREES.iter().any(|tree| key.starts_with(tree)) && key.split('.').all(is_name)
}

fn is_port(name: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-@:".contains(&byte);
    !name.is_empty()
        && name.len() <= LONGEST_PORT
        && name != "."
        && name != ".."
        && !name.starts_with('-')
        && name.bytes().all(is_fit)
}

/// Pairs of a name and a value.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut words = text.split_whitespace();
    std::iter::from_fn(move || words.next().zip(words.next()))
}

#[cfg(test)]
mod tests;
