//! Lost packets by cause, each with its remedy.

use linerate_host::Fact;
use linerate_host::facts::{Port, PortCounters};

use super::{Check, CheckRun};
use crate::formula::percent;
use crate::source::{RED_HAT, STATISTICS};
use crate::{Finding, Host, Severity};

/// Shares of lost packets that matter on any path, and on long paths.
const MAJOR: f64 = 1e-3;
const MINOR: f64 = 1e-6;
/// The share that a sound line may damage: IEEE 802.3 allows one wrong bit in 10^12, which is one packet of 1,500 bytes in 80
/// million. No connection is slower for so few, whatever their cause.
const NONE: f64 = 1e-8;
/// Fewer lost packets, of fewer packets, show nothing about the share.
const SOME: u64 = 100;
const MANY: u64 = 1_000_000;
/// Carrier changes beyond those that reboots explain.
const FLAPS: u64 = 20;

pub(super) const CHECK: Check = Check {
    name: "drops-by-cause",
    about: "packets lost by a port since boot, by cause",
    sources: &[STATISTICS, RED_HAT],
    run: CheckRun::Host(run),
};

/// A counter, what happened to its packets, and the remedy.
struct Cause {
    name: &'static str,
    of: fn(&PortCounters) -> &Fact<u64>,
    says: &'static str,
    fix: &'static str,
}

const CAUSES: [Cause; 6] = [
    Cause {
        name: "rx_missed",
        of: |c| &c.rx_missed,
        says: "found the receive ring full: the host emptied it too late",
        fix: "use larger rings, more queues, or interrupts on more processors: \
            see rx-ring, queues-vs-cores, irq-one-cpu",
    },
    Cause {
        name: "rx_fifo",
        of: |c| &c.rx_fifo,
        says: "found the card's buffer full: the slot or the ring was too slow",
        fix: "see pcie-width and rx-ring",
    },
    Cause {
        name: "rx_crc",
        of: |c| &c.rx_crc,
        says: "arrived damaged: look for a bad cable, a bad transceiver, or dirty fibre",
        fix: "clean or replace the cable and the transceiver; ethtool -m PORT shows the optical power",
    },
    Cause {
        name: "rx_dropped",
        of: |c| &c.rx_dropped,
        says: "were dropped by the kernel or its driver: \
            no memory, or no program receives them, such as announcements of neighbours",
        fix: "perf trace -e skb:kfree_skb or dropwatch shows where; \
            vm.min_free_kbytes gives the kernel more memory",
    },
    Cause {
        name: "tx_dropped",
        of: |c| &c.tx_dropped,
        says: "were dropped before sending",
        fix: "tc -s qdisc shows which queue was full",
    },
    Cause {
        name: "tx_errors",
        of: |c| &c.tx_errors,
        says: "could not be sent, because of the carrier or the card",
        fix: "check the cable, the port at the other end, and the kernel's log",
    },
];

fn run(host: &Host<'_>) -> Vec<Finding> {
    let each =
        |port| CAUSES.iter().filter_map(move |cause| of(port, cause, &host.since())).chain(flaps(port));
    host.devices().flat_map(each).collect()
}

fn of(port: &Port, cause: &Cause, since: &str) -> Option<Finding> {
    let lost = (cause.of)(&port.counters).get().filter(|lost| *lost > 0)?;
    let counters = &port.counters;
    let whole = if cause.name.starts_with("rx") { &counters.rx_packets } else { &counters.tx_packets };
    let packets = whole.get().unwrap_or(0).saturating_add(lost);
    let share = lost as f64 / packets as f64;
    if share < NONE {
        return None;
    }
    let severity = match share {
        // It also counts packets that nobody receives (LLDP, STP, unknown VLANs): any number of them is no loss.
        _ if cause.name == "rx_dropped" => Severity::Note,
        // A few are lost while a link comes up.
        _ if lost < SOME && packets < MANY => Severity::Note,
        share if share >= MAJOR => Severity::Major,
        share if share >= MINOR => Severity::Minor,
        _ => Severity::Note,
    };
    let finding = Finding::new(severity, format!("{lost} packets of {} {}", port.name, cause.says))
        .at(format!("{} {}", port.name, cause.name))
        .evidence(format!("{}: {lost} {since}, {} of the packets", cause.name, percent_of(share)))
        .fix(cause.fix.replace("PORT", &port.name));
    // Losses that were counted during a measurement are new.
    let is_old = since.ends_with("boot");
    Some(if is_old {
        finding.evidence("the counters cover a long time: check whether they still grow during a transfer")
    } else {
        finding
    })
}

/// A share in percent, with more digits if it is small.
fn percent_of(share: f64) -> String {
    if share < 1e-3 { format!("{:.5} %", share * 100.0) } else { percent(share) }
}

fn flaps(port: &Port) -> Option<Finding> {
    let changes = port.counters.carrier_changes.get().filter(|changes| *changes >= FLAPS)?;
    let finding =
        Finding::new(Severity::Minor, format!("the carrier of {} changed {changes} times", port.name))
            .at(format!("{} carrier", port.name))
            .evidence(format!("carrier_changes {changes}"))
            .fix("check the cable, the transceiver, and the switch's log");
    Some(finding)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(with(|c| c.rx_missed = Fact::Known(5000)), found("rx_missed", "major"));
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
            (c.rx_packets, c.rx_missed) = (Fact::Known(20_000), Fact::Known(30));
        };
        assert_eq!(with(hardly_used), found("rx_missed", "note"));
        assert_eq!(with(|c| c.tx_errors = Fact::Known(9)), found("tx_errors", "minor"));
        assert_eq!(with(|c| c.carrier_changes = Fact::Known(50)), found("carrier", "minor"));
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
}
