//! The commands with which people make the changes of remedies, and undo them.

use linerate_host::facts::cpus_of_list;

use super::{Queues, Remedy, RingWay, Setting, frequency_file};
use crate::check::word;

/// The commands that make these changes, in their order, in one line of a shell. Before each command is the name of its
/// host, if the changes have any.
pub fn commands(remedies: &[Remedy]) -> String {
    line(remedies, |remedy| &remedy.new)
}

/// The commands that undo these changes.
pub fn undo_commands(remedies: &[Remedy]) -> String {
    line(remedies, |remedy| &remedy.now)
}

fn line(remedies: &[Remedy], value: impl Fn(&Remedy) -> &String) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = remedies;
    while let Some(first) = rest.first() {
        let (count, command) = joined(rest, &value);
        let host = if first.host.is_empty() { String::new() } else { format!("{}: ", first.host) };
        parts.push(host + &command);
        rest = rest.get(count..).unwrap_or_default();
    }
    parts.join("; ")
}

impl Setting {
    /// The command that makes the setting.
    pub fn command(&self, value: &str) -> String {
        match self {
            Self::Sysctl { .. } => format!("sysctl -w {}", self.part(value)),
            Self::Ring { port, .. } => format!("ethtool -G {port} {}", self.part(value)),
            Self::Channels { port, .. } => format!("ethtool -L {port} {}", self.part(value)),
            Self::Coalescing { port } => format!("ethtool -C {port} {}", self.part(value)),
            Self::Feature { port, .. } => format!("ethtool -K {port} {}", self.part(value)),
            // When mq is made, it gives its queues the default discipline.
            Self::Qdisc { port } if value.starts_with("mq ") => {
                format!("tc qdisc replace dev {port} root handle {}: mq", handle(value))
            }
            Self::Qdisc { port } => format!("tc qdisc replace dev {port} root {}", word(value)),
            Self::Quantum { port } => {
                format!("tc qdisc replace dev {port} root pfifo && tc qdisc del dev {port} root")
            }
            Self::Rss { port } => format!("ethtool -X {port} {}", shares(value)),
            Self::Mtu { port } => format!("ip link set {port} mtu {}", self.part(value)),
            Self::Link { port } => format!("ip link set {port} {}", word(value)),
            Self::Governor => of_processors(super::GOVERNOR, value),
            Self::EnergyPreference => of_processors(super::PREFERENCE, value),
            Self::Rps { .. } | Self::Xps { .. } | Self::Tunable { .. } | Self::IrqAffinity { .. } => {
                format!("echo {} > {}", word(value), self.file().unwrap_or_default())
            }
        }
    }

    /// The command that restores a value that the host had before a treatment. A port's discipline before the treatment
    /// was one that the kernel had chosen.
    pub fn way_back(&self, before: &str) -> String {
        match self {
            // The kernel removes only a discipline that somebody has chosen.
            Self::Qdisc { port } if before.starts_with("mq ") => {
                format!("tc qdisc replace dev {port} root pfifo && tc qdisc del dev {port} root")
            }
            Self::Qdisc { port } => format!("tc qdisc del dev {port} root"),
            _ => self.command(before),
        }
    }

    /// The part that the setting adds to a command that makes several settings at once.
    fn part(&self, value: &str) -> String {
        // Values come from hosts and their snapshots, so they are quoted.
        let value = match self {
            Self::Coalescing { .. } => words(value),
            _ => word(value),
        };
        match self {
            Self::Sysctl { key } => format!("{key}={value}"),
            Self::Ring { way: RingWay::Rx, .. } | Self::Channels { queues: Queues::Rx, .. } => {
                format!("rx {value}")
            }
            Self::Ring { way: RingWay::Tx, .. } | Self::Channels { queues: Queues::Tx, .. } => {
                format!("tx {value}")
            }
            Self::Channels { queues: Queues::Combined, .. } => format!("combined {value}"),
            Self::Feature { feature, .. } => format!("{feature} {value}"),
            _ => value,
        }
    }

    /// The start of a command that can set several such settings at once; `None` if each needs its own command.
    fn shared(&self) -> Option<String> {
        match self {
            Self::Sysctl { .. } => Some("sysctl -w".into()),
            Self::Ring { port, .. } => Some(format!("ethtool -G {port}")),
            Self::Channels { port, .. } => Some(format!("ethtool -L {port}")),
            Self::Feature { port, .. } => Some(format!("ethtool -K {port}")),
            _ => None,
        }
    }
}

/// One command for the first remedy and for the following remedies that the same command can make, and their number.
fn joined(remedies: &[Remedy], value: &impl Fn(&Remedy) -> &String) -> (usize, String) {
    let Some(first) = remedies.first() else { return (0, String::new()) };
    if let Some(shared) = first.setting.shared() {
        let is_alike =
            |other: &&Remedy| other.host == first.host && other.setting.shared().as_ref() == Some(&shared);
        let parts: Vec<_> =
            remedies.iter().take_while(is_alike).map(|of| of.setting.part(value(of))).collect();
        return (parts.len(), format!("{shared} {}", parts.join(" ")));
    }
    let is_echo = |of: &Remedy| {
        of.setting.file().is_some()
            && !matches!(
                of.setting,
                Setting::Mtu { .. } | Setting::Link { .. } | Setting::Governor | Setting::EnergyPreference
            )
    };
    let is_alike =
        |other: &&Remedy| other.host == first.host && is_echo(other) && value(other) == value(first);
    let files: Vec<_> = remedies.iter().take_while(is_alike).filter_map(|of| of.setting.file()).collect();
    if files.len() < 2 {
        return (1, first.setting.command(value(first)));
    }
    (files.len(), loop_over(&files.join(" "), value(first)))
}

/// A handle for mq that differs from value to value: with the present handle the kernel wouldn't change mq and its
/// queues, and if mq were removed first, packets would be lost.
pub(crate) fn handle(value: &str) -> String {
    format!("7f{:02x}", value.bytes().fold(0_u8, u8::wrapping_add))
}

/// The command that writes a value to each of these files. It is a loop, because a shell expands no pattern after `>`.
fn loop_over(files: &str, value: &str) -> String {
    format!("for f in {files}; do echo {} > $f; done", word(value))
}

/// An RSS table as ethtool -X takes it: the number of slots of each queue, which then follow each other.
fn shares(value: &str) -> String {
    let slots: Option<Vec<u16>> = value.split_whitespace().map(|word| word.parse().ok()).collect();
    let Some(slots) = slots else { return words(value) };
    let share = |queue| slots.iter().filter(|slot| **slot == queue).count().to_string();
    let last = slots.iter().max().copied().unwrap_or(0);
    format!("weight {}", (0..=last).map(share).collect::<Vec<_>>().join(" "))
}

fn words(value: &str) -> String {
    value.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The command that writes a value to this file of all processors; if the value has groups, it writes each group's
/// value to the files of its processors.
fn of_processors(name: &str, value: &str) -> String {
    let words: Vec<_> = value.split_whitespace().collect();
    let group = |pair: &[&str]| Some((pair.first()?.to_string(), cpus_of_list(pair.get(1)?)?));
    let groups: Option<Vec<_>> = words.chunks(2).map(group).collect();
    match groups.filter(|groups| !groups.is_empty()) {
        Some(groups) => {
            let files = |set: &[u32]| {
                set.iter().map(|cpu| frequency_file(&cpu.to_string(), name)).collect::<Vec<_>>().join(" ")
            };
            let loops: Vec<_> = groups.iter().map(|(value, set)| loop_over(&files(set), value)).collect();
            loops.join("; ")
        }
        None => loop_over(&frequency_file("*", name), value),
    }
}

/// The command that saves the contents of these files in a file of root's, and the command that restores them: for
/// values that differ from file to file.
pub(crate) fn noted(files: &str, name: &str) -> (String, String) {
    let note = format!("/root/linerate-{name}");
    let back = format!("while IFS=: read -r f value; do echo $value > $f; done < {note}");
    (format!("grep -H . {files} > {note}"), back)
}
