//! Queueing disciplines of an interface, from the kernel (RTM_GETQDISC, rtnetlink(7)).

use serde::{Deserialize, Serialize};

use super::Fact;
use crate::netlink;
use crate::root::Root;

/// One discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qdisc {
    /// `fq`, `fq_codel`, `mq`, `pfifo_fast`, `noqueue`.
    pub kind: String,
    /// True for the interface's root; others are below `mq` or similar ones.
    pub root: bool,
    /// Packets dropped.
    pub drops: u64,
    /// Packets that had to wait because the device was busy.
    pub requeues: u64,
    /// Packets above the rate limit.
    pub overlimits: u64,
}

/// The disciplines of all interfaces, each with its interface's name.
pub(super) fn read(root: &Root) -> Fact<Vec<(String, Qdisc)>> {
    root.answer("live/qdiscs", netlink::qdiscs).map(|text| text.lines().filter_map(line).collect())
}

/// `eth0 root fq drops 0 requeues 3 overlimits 0`.
fn line(line: &str) -> Option<(String, Qdisc)> {
    let mut words = line.split_whitespace();
    let port = words.next()?.to_owned();
    let root = words.next()? == "root";
    let mut qdisc = Qdisc { kind: words.next()?.to_owned(), root, ..Qdisc::default() };
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        let value = value.parse().unwrap_or(0);
        match key {
            "drops" => qdisc.drops = value,
            "requeues" => qdisc.requeues = value,
            "overlimits" => qdisc.overlimits = value,
            _ => {}
        }
    }
    Some((port, qdisc))
}
