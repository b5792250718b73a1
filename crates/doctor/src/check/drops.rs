//! Lost packets by cause, each with its remedy. The check rx-ring reports packets that found the receive ring full.

use linerate_host::Fact;
use linerate_host::facts::Port;

use super::lost_packets::{self, Lost, Place};
use super::{Check, CheckRun};
use crate::formula::percent;
use crate::source::{RED_HAT, STATISTICS};
use crate::{Finding, Host, Severity};

/// Shares of lost packets from which losses matter on any path (MAJOR), and on long paths (MINOR).
const MAJOR: f64 = 1e-3;
const MINOR: f64 = 1e-6;
/// The share that a sound line may damage: IEEE 802.3 allows one wrong bit in 10^12, which is one packet of 1,500 bytes
/// in 80 million. Such a small loss slows no connection, whatever its cause.
const NONE: f64 = 1e-8;
/// If both the lost packets and all packets are fewer than these, the share isn't significant.
const LEAST_LOST: u64 = 100;
const MANY: u64 = 1_000_000;
/// The number of carrier changes at or above which a cable may be at fault, if there is more than one a day: each
/// maintenance of the switch and each change of a ring causes two.
const FLAPS: u64 = 20;
const DAY: u64 = 86_400;

pub(super) const CHECK: Check = Check {
    name: "drops-by-cause",
    about: "packets lost by a port since boot, by cause",
    sources: &[STATISTICS, RED_HAT],
    run: CheckRun::Host(run),
};

/// A kind of loss: the name of the kernel's counter, the packets that were lost, what happened to them, and the remedy.
struct Cause {
    name: &'static str,
    of: fn(&Port) -> Option<Lost>,
    says: &'static str,
    fix: &'static str,
}

const CAUSES: [Cause; 5] = [
    Cause {
        name: "rx_fifo",
        of: |port| lost_packets::at(port, Place::Card),
        says: "found the card's buffer full: the slot or the ring was too slow",
        fix: "see pcie-width and rx-ring",
    },
    Cause {
        name: "rx_crc",
        of: |port| counted("rx_crc", &port.counters.rx_crc),
        says: "arrived damaged: look for a bad cable, a bad transceiver, or dirty fibre",
        fix: "clean or replace the cable and the transceiver; ethtool -m PORT shows the optical power",
    },
    Cause {
        name: "rx_dropped",
        of: |port| counted("rx_dropped", &Fact::Known(lost_packets::others(port))),
        says: "were dropped by the kernel or its driver: memory was short, or no program receives such packets (announcements of neighbours)",
        fix: "perf trace -e skb:kfree_skb or dropwatch shows where the kernel drops packets; packets that nobody wants cost nothing; if memory was short, a larger vm.min_free_kbytes reserves more of it for the kernel",
    },
    Cause {
        name: "tx_dropped",
        of: |port| counted("tx_dropped", &port.counters.tx_dropped),
        says: "were dropped before sending",
        fix: "ethtool -S shows the driver's own counters, such as those of a full send ring or of packets that the card refuses; the drops of queueing disciplines, which tc -s qdisc shows, aren't among these",
    },
    Cause {
        name: "tx_errors",
        of: |port| counted("tx_errors", &port.counters.tx_errors),
        says: "could not be sent, because of the carrier or the card",
        fix: "check the cable, the port at the other end, and the kernel's log",
    },
];

fn run(host: &Host<'_>) -> Vec<Finding> {
    let since = host.since();
    let causes = |port| CAUSES.iter().filter_map(move |cause| Some((port, cause, (cause.of)(port)?)));
    let losses = host.devices().flat_map(causes);
    let found = losses.filter_map(|(port, cause, lost)| of(port, cause, &lost, &since));
    found.chain(host.devices().filter_map(|port| flaps(host, port))).collect()
}

fn counted(counter: &'static str, count: &Fact<u64>) -> Option<Lost> {
    count.get().filter(|lost| *lost > 0).map(|packets| Lost { counter, packets })
}

fn of(port: &Port, cause: &Cause, lost: &Lost, since: &str) -> Option<Finding> {
    let counters = &port.counters;
    let whole = if cause.name.starts_with("rx") { &counters.rx_packets } else { &counters.tx_packets };
    let (packets, whole) = (lost.packets, whole.get());
    // rx_dropped also counts packets that nobody receives (LLDP, STP, unknown VLANs). These are no loss, however many
    // there are.
    let most = if cause.name == "rx_dropped" { Severity::Note } else { Severity::Critical };
    let severity = severity(packets, whole)?.min(most);
    let finding = Finding::new(severity, format!("{packets} packets of {} {}", port.name, cause.says))
        .at(format!("{} {}", port.name, cause.name))
        .evidence(format!("{}: {packets} {since}{}", lost.counter, share(packets, whole)))
        .fix(cause.fix.replace("PORT", &port.name));
    Some(old(finding, since))
}

/// The finding with a caution, unless its losses were counted during a measurement, and so are new.
pub(super) fn old(finding: Finding, since: &str) -> Finding {
    if since.ends_with("boot") {
        finding.evidence("the counters cover a long time: check whether they still grow during a transfer")
    } else {
        finding
    }
}

/// The severity of `lost` lost packets, compared with `others` that weren't lost; `None` if too few were lost to
/// matter.
pub(super) fn severity(lost: u64, others: Option<u64>) -> Option<Severity> {
    let Some(others) = others else { return Some(Severity::Minor) };
    let packets = others.saturating_add(lost);
    match lost as f64 / packets.max(1) as f64 {
        share if share < NONE => None,
        // A few packets are lost while a link comes up.
        _ if lost < LEAST_LOST && packets < MANY => Some(Severity::Note),
        share if share >= MAJOR => Some(Severity::Major),
        share if share >= MINOR => Some(Severity::Minor),
        _ => Some(Severity::Note),
    }
}

/// The share of lost packets, as the end of a text; empty if the packets that weren't lost weren't counted.
pub(super) fn share(lost: u64, others: Option<u64>) -> String {
    others.map_or_else(String::new, |others| {
        format!(", {} of the packets", percent_of(lost as f64 / others.saturating_add(lost).max(1) as f64))
    })
}

/// A share in percent, with more digits if it is small.
fn percent_of(share: f64) -> String {
    if share < 1e-3 { format!("{:.5} %", share * 100.0) } else { percent(share) }
}

fn flaps(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let changes = port.counters.carrier_changes.get()?;
    let is_now = host.facts.counted_seconds.known().is_some();
    let is_daily = host.facts.strain.up_seconds.get().is_some_and(|seconds| changes > seconds / DAY);
    let severity = match changes {
        1.. if is_now => Severity::Minor,
        FLAPS.. if !is_now && is_daily => Severity::Minor,
        FLAPS.. => Severity::Note,
        _ => return None,
    };
    let title = format!("the carrier of {} changed {changes} times {}", port.name, host.since());
    let finding = Finding::new(severity, title)
        .at(format!("{} carrier", port.name))
        .evidence(format!("carrier_changes {changes}; restarts of the switch and changes of the port's rings and queues count too"))
        .fix("check the cable, the transceiver, and the switch's log");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::facts::PortCounters;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    fn with(change: impl FnOnce(&mut PortCounters)) -> Vec<String> {
        let host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
            port.counters.rx_packets = Fact::Known(1_000_000);
            port.counters.tx_packets = Fact::Known(1_000_000);
            change(&mut port.counters);
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn each_cause_is_found() {
        let found =
            |name: &str, severity: &str| vec![format!("drops-by-cause ens1f0np0 {name} {severity} -")];
        assert_eq!(with(|c| c.rx_fifo = Fact::Known(50)), found("rx_fifo", "minor"));
        assert_eq!(with(|c| c.rx_crc = Fact::Known(3)), found("rx_crc", "minor"));
        assert_eq!(with(|c| c.rx_dropped = Fact::Known(9)), found("rx_dropped", "note"));
        assert_eq!(
            with(|c| c.rx_dropped = Fact::Known(250_000)),
            found("rx_dropped", "note"),
            "LLDP and STP"
        );
        assert_eq!(with(|c| c.tx_dropped = Fact::Known(1)), found("tx_dropped", "note"));
        let hardly_used = |c: &mut PortCounters| {
            (c.rx_packets, c.rx_fifo) = (Fact::Known(20_000), Fact::Known(30));
        };
        assert_eq!(with(hardly_used), found("rx_fifo", "note"));
        assert_eq!(with(|c| c.tx_errors = Fact::Known(9)), found("tx_errors", "minor"));
        assert_eq!(with(|c| c.carrier_changes = Fact::Known(50)), found("carrier", "note"));
    }

    fn with_own(
        driver: &str,
        counter: &str,
        lost: u64,
        change: impl FnOnce(&mut PortCounters),
    ) -> Vec<String> {
        let host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
            port.driver = Fact::Known(driver.into());
            port.statistics = Fact::Known([(counter.to_owned(), lost)].into());
            port.counters.rx_packets = Fact::Known(1_000_000);
            change(&mut port.counters);
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn the_cards_buffer_is_found_by_the_drivers_counter() {
        let found =
            |name: &str, severity: &str| vec![format!("drops-by-cause ens1f0np0 {name} {severity} -")];
        let dropped = |c: &mut PortCounters| c.rx_dropped = Fact::Known(5000);
        assert_eq!(with_own("mlx5_core", "rx_discards_phy", 5000, dropped), found("rx_fifo", "major"));
        assert_eq!(with_own("qede", "brb_discards", 50, |_| ()), found("rx_fifo", "minor"));
    }

    /// A loss that rx-ring reports isn't reported here too, whichever counter has it.
    #[test]
    fn the_rings_losses_are_left_to_its_own_check() {
        let dropped = |c: &mut PortCounters| c.rx_dropped = Fact::Known(5000);
        let nothing: [&str; 0] = [];
        assert_eq!(with_own("i40e", "port.rx_dropped", 5000, dropped), nothing);
        assert_eq!(with_own("ena", "x", 0, dropped), nothing, "it has no other counter");
        let both = |c: &mut PortCounters| (c.rx_missed, c.rx_fifo) = (Fact::Known(5), Fact::Known(6));
        assert_eq!(with_own("igb", "rx_queue_0_drops", 1, both), nothing, "rx_fifo is igb's sum");
        assert_eq!(with(|c| c.rx_missed = Fact::Known(5000)), nothing);
        assert_eq!(
            lines(&found(crate::check::named("rx-ring").unwrap(), &fixture("stock-10g"))),
            ["rx-ring eno1 minor -"]
        );
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }

    /// 223 damaged packets of 1.6 million million are fewer than the line's standard allows.
    #[test]
    fn what_a_sound_line_damages_is_nothing() {
        let damaged = |packets| {
            with(|c| {
                c.rx_packets = Fact::Known(packets);
                c.rx_crc = Fact::Known(223);
            })
        };
        assert!(damaged(1_567_180_710_085).is_empty());
        assert_eq!(damaged(1_567_180_710), ["drops-by-cause ens1f0np0 rx_crc note -"]);
    }

    #[test]
    fn nothing_lost_is_nothing_found() {
        assert!(with(|_| ()).is_empty());
        assert!(found(&CHECK, &fixture("e1000")).is_empty());
    }

    #[test]
    fn a_carrier_that_changes_more_than_daily_is_a_loose_cable() {
        let with = |changes, up, counted| {
            let mut host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
                port.counters.carrier_changes = Fact::Known(changes);
            });
            (host.strain.up_seconds, host.counted_seconds) = (Fact::Known(up), counted);
            lines(&found(&CHECK, &host))
        };
        let of = |severity: &str| vec![format!("drops-by-cause ens1f0np0 carrier {severity} -")];
        assert_eq!(with(22, 5 * DAY, Fact::NotApplicable), of("minor"));
        assert_eq!(
            with(22, 700 * DAY, Fact::NotApplicable),
            of("note"),
            "a restart of the switch each month"
        );
        assert!(with(19, DAY, Fact::NotApplicable).is_empty());
        assert_eq!(with(1, 700 * DAY, Fact::Known(3.0)), of("minor"), "during the measurement");
    }
}
