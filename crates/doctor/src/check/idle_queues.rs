//! Receive queues that get almost no packets, though the port receives many.

use std::collections::BTreeMap;

use linerate_host::Fact;
use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::source::{SCALING, STATISTICS};
use crate::{Finding, Severity};

/// Packets since boot above which the queues' shares are meaningful.
const LEAST_PACKETS: u64 = 1_000_000;
/// A queue should have at least this fraction (1 / PARTS) of an even share.
const PARTS: u64 = 100;

pub(super) const CHECK: Check = Check {
    name: "idle-queues",
    about: "receive queues that got almost no packets",
    sources: &[SCALING, STATISTICS],
    run: CheckRun::Host(|host| host.devices().filter_map(of).collect()),
};

fn of(port: &Port) -> Option<Finding> {
    let (packets, queues) = (port.queue_packets.known()?, port.rx_count().get().filter(|n| *n > 1)?);
    let total = packets.values().copied().fold(0, u64::saturating_add);
    let is_strange = packets.keys().any(|queue| *queue >= queues);
    // An unreadable indirection table may exclude queues.
    if total <= LEAST_PACKETS || is_strange || matches!(port.rss, Fact::Unreadable(_)) {
        return None;
    }
    let idle = idle(port, packets, queues, total / u64::from(queues) / PARTS);
    if idle == 0 {
        return None;
    }
    let title = format!("{idle} of {queues} receive queues of {} got almost no packets", port.name);
    let finding = Finding::new(Severity::Note, title)
        .at(&port.name)
        .evidence(format!("each got less than 1 % of an even share of {total} packets since boot"))
        .evidence("all packets of a connection use the same queue: a few connections leave queues idle")
        .fix(
            "use more connections, or more varied addresses and ports; ethtool -n and -x show what is hashed",
        );
    Some(finding)
}

/// The number of queues with less than `least` packets, among those that the card's table names.
fn idle(port: &Port, packets: &BTreeMap<u32, u64>, queues: u32, least: u64) -> usize {
    let table = port.rss.known().map(|rss| &rss.slots).filter(|slots| !slots.is_empty());
    let is_meant = |queue: &u32| table.is_none_or(|slots| slots.contains_key(queue));
    let got = |queue: &u32| packets.get(queue).copied().unwrap_or(0);
    (0..queues).filter(|queue| is_meant(queue) && got(queue) < least).count()
}

#[cfg(test)]
mod tests {
    use linerate_host::facts::Rss;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    fn with(packets: &[(u32, u64)], slots: &[u32]) -> Vec<String> {
        let host = edited("stock-10g", "eno1", |port| {
            let Fact::Known(queues) = &mut port.rx_queues else { panic!("no queues") };
            queues.truncate(4);
            assert_eq!(queues.len(), 4);
            let slots = slots.iter().map(|queue| (*queue, 32)).collect();
            port.rss = Fact::Known(Rss { rings: 4, slots });
            port.queue_packets = Fact::Known(packets.iter().copied().collect());
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn queues_that_got_nothing_are_found() {
        let found = ["idle-queues eno1 note -"];
        assert_eq!(with(&[(0, 2_000_000), (1, 2_000_000), (2, 9_999)], &[0, 1, 2, 3]), found);
        assert_eq!(with(&[(0, 2_000_000), (1, 2_000_000), (2, 2_000_000)], &[]), found);
    }

    #[test]
    fn even_shares_few_packets_and_queues_left_out_are_not() {
        assert!(with(&[(0, 900_000), (1, 900_000), (2, 50_000), (3, 50_000)], &[0, 1, 2, 3]).is_empty());
        assert!(with(&[(0, 1_000_000)], &[0, 1, 2, 3]).is_empty());
        assert!(with(&[(0, 2_000_000), (1, 2_000_000)], &[0, 1]).is_empty());
        assert!(with(&[(0, 2_000_000), (7, 2_000_000)], &[]).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
