//! Queueing disciplines of an interface, from the kernel (RTM_GETQDISC, rtnetlink(7)).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;
use super::ports::is_plain;
use crate::netlink;
use crate::root::Root;

/// A queueing discipline of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qdisc {
    /// The kind of discipline: `fq`, `fq_codel`, `mq`, `pfifo_fast`, `noqueue`.
    pub kind: String,
    /// True for the interface's root discipline. The other disciplines are below `mq` or a similar discipline.
    pub root: bool,
    /// The number of dropped packets.
    pub drops: u64,
    /// The number of times that a packet was put back because the device was busy.
    pub requeues: u64,
    /// The number of times that the discipline's rate limit held a packet back.
    pub overlimits: u64,
    /// The rate in bits per second to which the discipline limits its interface (tbf, cake, netem, and the
    /// classes of htb and hfsc).
    pub rate: Option<u64>,
    /// The highest rate in bits per second of htb's classes, if packets of no class are sent without a limit.
    pub part: Option<u64>,
    /// The rate in bits per second to which the discipline limits each connection (fq).
    pub each: Option<u64>,
}

/// The rate limits of an interface's policers, and the interfaces to which filters redirect its packets. A
/// policer drops the packets above its limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policers {
    /// The limit on received packets, in bits per second.
    pub inwards: Option<u64>,
    /// The limit on sent packets, in bits per second.
    pub outwards: Option<u64>,
    /// The lowest limit in bits per second on a part of the received packets.
    pub inwards_part: Option<u64>,
    /// The lowest limit in bits per second on a part of the sent packets.
    pub outwards_part: Option<u64>,
    /// The interfaces, usually of the kind ifb, through which received packets pass before this host gets them. The
    /// queueing disciplines of these interfaces may delay the packets.
    pub inwards_over: Vec<String>,
    /// The interfaces that send packets in place of this interface.
    pub outwards_over: Vec<String>,
}

/// The policers and redirections of all interfaces that have any, by interface.
pub(super) fn policers(root: &Root) -> Fact<BTreeMap<String, Policers>> {
    root.answer("live/policers", netlink::policers).map(|text| {
        let mut all: BTreeMap<String, Policers> = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(port), Some(way), Some(value)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let own = all.entry(port.to_owned()).or_default();
            match way {
                "in" => own.inwards = value.parse().ok(),
                "out" => own.outwards = value.parse().ok(),
                "in-part" => own.inwards_part = value.parse().ok(),
                "out-part" => own.outwards_part = value.parse().ok(),
                "in-to" if is_plain(value) => own.inwards_over.push(value.to_owned()),
                "out-to" if is_plain(value) => own.outwards_over.push(value.to_owned()),
                _ => {}
            }
        }
        all
    })
}

/// The queueing disciplines of all interfaces, each with the name of its interface.
pub(super) fn read(root: &Root) -> Fact<Vec<(String, Qdisc)>> {
    root.answer("live/qdiscs", netlink::qdiscs).map(|text| text.lines().filter_map(line).collect())
}

/// The rate in bits per second to which the root discipline limits an interface of this host.
pub fn shaper_of(port: &str) -> Option<u64> {
    let text = netlink::qdiscs().ok()?;
    root_rate(&text, port)
}

fn root_rate(text: &str, port: &str) -> Option<u64> {
    let mut all = text.lines().filter_map(line);
    all.find(|(name, qdisc)| name == port && qdisc.root).and_then(|(_, qdisc)| qdisc.rate)
}

/// Parses a line such as `eth0 root fq drops 0 requeues 3 overlimits 0`.
fn line(line: &str) -> Option<(String, Qdisc)> {
    let mut words = line.split_whitespace();
    let port = words.next()?.to_owned();
    let root = words.next()? == "root";
    let mut qdisc = Qdisc { kind: words.next()?.to_owned(), root, ..Qdisc::default() };
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        let value: Option<u64> = value.parse().ok();
        match key {
            "drops" => qdisc.drops = value.unwrap_or(0),
            "requeues" => qdisc.requeues = value.unwrap_or(0),
            "overlimits" => qdisc.overlimits = value.unwrap_or(0),
            "rate" => qdisc.rate = value,
            "part" => qdisc.part = value,
            "each" => qdisc.each = value,
            _ => {}
        }
    }
    Some((port, qdisc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ports_limit_is_that_of_its_root() {
        let text = "eth0 root mq drops 0\neth0 leaf tbf drops 0 rate 1000\neth1 root tbf drops 0 overlimits 7 rate 60000000\n";
        assert_eq!((root_rate(text, "eth0"), root_rate(text, "eth1")), (None, Some(60_000_000)));
    }
}
