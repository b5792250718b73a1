//! Judges new values by the rules for what checks may propose. The same rules apply to the values in a plan's file.

use std::collections::BTreeSet;

use super::Setting;
use crate::formula::bounds::{LARGEST_MTU, MOST_INT, OF_MEMORY};

/// The longest delay of interrupts that is proposed, in microseconds.
const LONGEST_DELAY: u64 = 250;
/// The most queues that an RSS table can name.
const MOST_QUEUES: u64 = u16::MAX as u64;
/// One change enlarges a ring by this factor at most.
pub const RING_STEP: u32 = 4;
/// The buffers of a port's rings may take one part in this number of the memory.
pub const RING_PART: u64 = 64;
/// The least bytes of a buffer if the page's size is unknown: a page.
const BUFFER: u64 = 4096;

/// The facts of a host that bound its values, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostBounds {
    /// The host's memory in bytes.
    pub memory: Option<u64>,
    /// The size of a page of memory in bytes.
    pub page: Option<u64>,
    /// The isolated processors, and those without a tick.
    pub isolated: BTreeSet<u32>,
}

/// Sysctls that are switches, each with the only value that checks propose.
const SWITCHES: [(&str, &str); 7] = [
    ("net.ipv4.tcp_ecn", "2"),
    ("net.ipv4.tcp_moderate_rcvbuf", "1"),
    ("net.ipv4.tcp_mtu_probing", "1"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_window_scaling", "1"),
];
/// Sysctls that consist of numbers: the maximum of the last number, the bytes of memory that each unit of it needs (0:
/// a negligible amount), and the count of numbers before the last one, which don't change.
const NUMBERS: [(&str, u64, u64, usize); 12] = [
    ("net.core.netdev_budget", MOST_INT, 0, 0),
    ("net.core.netdev_budget_usecs", MOST_INT, 0, 0),
    ("net.core.netdev_max_backlog", MOST_INT, 4096, 0),
    ("net.core.optmem_max", 1 << 20, 1, 0),
    ("net.core.rmem_max", MOST_INT, 1, 0),
    ("net.core.somaxconn", 8192, 0, 0),
    ("net.core.wmem_max", MOST_INT, 1, 0),
    ("net.ipv4.tcp_max_syn_backlog", 8192, 0, 0),
    // The unit is a page. With 1024 bytes for each, the bound is half of the memory (of pages of 4 KiB).
    ("net.ipv4.tcp_mem", u64::MAX, 1024, 1),
    ("net.ipv4.tcp_rmem", MOST_INT, 1, 2),
    ("net.ipv4.tcp_wmem", MOST_INT, 1, 2),
    ("net.netfilter.nf_conntrack_max", MOST_INT, 320, 0),
];
/// The features that checks propose to turn on.
const FEATURES: [&str; 9] = [
    "rx-checksum",
    "rx-gro",
    "rx-vlan-hw-parse",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv4",
    "tx-checksum-ipv6",
    "tx-scatter-gather",
    "tx-tcp-segmentation",
    "tx-vlan-hw-insert",
];
/// Disciplines that share a port without options; other disciplines may stop the port's traffic.
const DISCIPLINES: [&str; 6] = ["cake", "fq", "fq_codel", "fq_pie", "pfifo_fast", "sfq"];
/// Disciplines with classes, which somebody has made.
const CLASSFUL: [&str; 15] = [
    "atm", "cbq", "cbs", "drr", "dsmark", "ets", "hfsc", "htb", "mqprio", "multiq", "netem", "prio", "qfq",
    "taprio", "tbf",
];

impl Setting {
    /// Checks that a check may propose the new value for a host with these bounds: the value's form, its size,
    /// and that it takes nothing away.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    pub fn judge(&self, now: &str, new: &str, bounds: &HostBounds) -> Result<(), String> {
        match self {
            Self::Sysctl { key } => sysctl(key, now, new, bounds.memory),
            Self::Ring { .. } => ring(now, new, bounds),
            Self::Channels { .. } => number(new, MOST_INT).map(drop),
            Self::Mtu { .. } => number(new, LARGEST_MTU.into()).map(drop),
            Self::Feature { feature, .. } => {
                among(feature, &FEATURES, "features")?;
                among(new, &["on"], "values")
            }
            Self::Qdisc { .. } => discipline(now, new),
            Self::Governor => among(new, &["performance"], "governors"),
            Self::Coalescing { .. } => coalescing(new),
            Self::Rss { .. } => slots(new),
            Self::Rps { .. } | Self::Xps { .. } | Self::IrqAffinity { .. } => {
                self.judge_processors(now, new, &bounds.isolated)
            }
            Self::Tunable { .. } | Self::EnergyPreference | Self::Link { .. } | Self::Quantum { .. } => {
                Err("no check proposes to change it".into())
            }
        }
    }

    fn judge_processors(&self, now: &str, new: &str, isolated: &BTreeSet<u32>) -> Result<(), String> {
        let Some(wanted) = self.processors(new).filter(|wanted| !wanted.is_empty()) else {
            return Err(format!("{new:?} names no processors"));
        };
        if let Some(cpu) = wanted.intersection(isolated).next() {
            return Err(format!("processor {cpu} is isolated: the kernel keeps its own work away from it"));
        }
        // An interrupt may move to other processors, but a queue may only get more of them.
        let is_moved = matches!(self, Self::IrqAffinity { .. });
        match self.processors(now).filter(|now| !is_moved && !now.is_subset(&wanted)) {
            Some(_) => Err(format!("{new} takes processors away that {now} names")),
            None => Ok(()),
        }
    }
}

/// Rings grow step by step: drivers' maxima may be a million entries, and some drivers leave a port down if memory is
/// short.
fn ring(now: &str, new: &str, bounds: &HostBounds) -> Result<(), String> {
    let step = number(now, MOST_INT)?.saturating_mul(RING_STEP.into());
    let buffer = bounds.page.unwrap_or(BUFFER).max(BUFFER);
    let bears = bounds.memory.map_or(u64::MAX, |total| total / RING_PART / buffer);
    number(new, step.min(bears)).map(drop)
}

/// Another root discipline deletes the classes that somebody has made below the present one.
fn discipline(now: &str, new: &str) -> Result<(), String> {
    among(new.strip_prefix("mq ").unwrap_or(new), &DISCIPLINES, "disciplines")?;
    match CLASSFUL.iter().find(|kind| now.split_whitespace().next() == Some(kind)) {
        Some(kind) => {
            Err(format!("{kind} may have classes that somebody has made, and a new root would delete them"))
        }
        None => Ok(()),
    }
}

/// Sysctls that aren't named here pass: [`Setting::is_proposed`] refuses those that checks may not propose.
fn sysctl(key: &str, now: &str, new: &str, memory: Option<u64>) -> Result<(), String> {
    if let Some((_, value)) = SWITCHES.iter().find(|(name, _)| *name == key) {
        return among(new, &[value], "values");
    }
    if let Some((_, most, each, fixed)) = NUMBERS.iter().find(|(name, ..)| *name == key) {
        let bears = memory.filter(|_| *each > 0).map_or(u64::MAX, |total| total / OF_MEMORY / each);
        return numbers(now, new, (*most).min(bears), *fixed);
    }
    match key {
        "net.core.default_qdisc" => among(new, &DISCIPLINES, "disciplines"),
        "net.ipv4.tcp_congestion_control" => name(new),
        _ => Ok(()),
    }
}

fn numbers(now: &str, new: &str, most: u64, fixed: usize) -> Result<(), String> {
    let (now, new): (Vec<_>, Vec<_>) = (now.split_whitespace().collect(), new.split_whitespace().collect());
    if now.len() != new.len() {
        return Err(format!(
            "the setting has {} numbers, but the new value {:?} has {}",
            now.len(),
            new.join(" "),
            new.len()
        ));
    }
    if now.iter().zip(&new).take(fixed).any(|(now, new)| now != new) {
        return Err(format!(
            "only the setting's last number may be raised, but the new value {:?} changes a number before it",
            new.join(" ")
        ));
    }
    let values = new.iter().skip(fixed).map(|one| number(one, most)).collect::<Result<Vec<_>, _>>()?;
    if values.is_sorted() {
        Ok(())
    } else {
        Err(format!("the numbers of the new value {:?} aren't in ascending order", new.join(" ")))
    }
}

fn number(text: &str, most: u64) -> Result<u64, String> {
    let value = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    match value {
        Some(value) if value <= most => Ok(value),
        Some(value) => {
            Err(format!("{value} is too large: for this setting on this host, checks propose at most {most}"))
        }
        None => Err(format!("{text:?} is no number")),
    }
}

fn among(text: &str, all: &[&str], what: &str) -> Result<(), String> {
    if all.contains(&text) {
        return Ok(());
    }
    Err(format!("{text:?} isn't among the {what} that checks may propose: {}", all.join(", ")))
}

fn name(text: &str) -> Result<(), String> {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_one = !text.is_empty() && text.bytes().all(is_name);
    if is_one { Ok(()) } else { Err(format!("{text:?} is no name")) }
}

fn coalescing(new: &str) -> Result<(), String> {
    let words: Vec<_> = new.split_whitespace().collect();
    if words.is_empty() || words.len() % 2 == 1 {
        return Err(format!("{new:?} isn't made of names and values"));
    }
    words.chunks_exact(2).try_for_each(|pair| match pair[0] {
        "adaptive-rx" => among(pair[1], &["on"], "values"),
        "adaptive-tx" => among(pair[1], &["on"], "values"),
        "rx-usecs" | "tx-usecs" => number(pair[1], LONGEST_DELAY).map(drop),
        other => among(other, &["adaptive-rx", "adaptive-tx", "rx-usecs", "tx-usecs"], "names"),
    })
}

fn slots(new: &str) -> Result<(), String> {
    if let Some(queues) = new.strip_prefix("equal ") {
        return number(queues, MOST_QUEUES).map(drop);
    }
    let mut words = new.split_whitespace().peekable();
    if words.peek().is_none() {
        return Err("it names no queues".into());
    }
    words.try_for_each(|word| number(word, MOST_QUEUES).map(drop))
}
