//! Lost packets, each cause with what helps against it.

use linerate_host::Fact;
use linerate_host::facts::{Counters, Port};

use super::{Check, Run};
use crate::formula::percent;
use crate::source::{RED_HAT, STATISTICS};
use crate::{Finding, Host, Severity};

/// Shares of the packets from which a loss is felt on any path, and on long ones.
const MAJOR: f64 = 1e-3;
const MINOR: f64 = 1e-6;
/// The same where what nobody wanted is counted as well, as the neighbours' announcements (LLDP, STP).
const UNWANTED: f64 = 1e-4;
/// Comings and goings of a carrier that are no longer reboots.
const FLAPS: u64 = 20;

pub(super) const CHECK: Check = Check {
    name: "drops-by-cause",
    about: "packets that a port lost since boot, by cause",
    sources: &[STATISTICS, RED_HAT],
    run: Run::Host(run),
};

/// What a counter says, and what helps.
struct Cause {
    name: &'static str,
    of: fn(&Counters) -> &Fact<u64>,
    says: &'static str,
    fix: &'static str,
}

const CAUSES: [Cause; 6] = [
    Cause {
        name: "rx_missed",
        of: |c| &c.rx_missed,
        says: "found no place in the ring: the host fetched too late",
        fix: "larger rings, more queues, interrupts on more processors: see rx-ring, queues-vs-cores, irq-one-cpu",
    },
    Cause {
        name: "rx_fifo",
        of: |c| &c.rx_fifo,
        says: "found the card's buffer full: the slot or the ring is too slow",
        fix: "see pcie-width and rx-ring",
    },
    Cause {
        name: "rx_crc",
        of: |c| &c.rx_crc,
        says: "arrived damaged: a cable, a transceiver, dirt on glass",
        fix: "clean or replace cable and transceiver; ethtool -m PORT shows the light's power",
    },
    Cause {
        name: "rx_dropped",
        of: |c| &c.rx_dropped,
        says: "were dropped by the kernel or its driver: no memory, or nobody wanted them, as announcements of neighbours",
        fix: "perf trace -e skb:kfree_skb, or dropwatch, shows where; more memory for the kernel: vm.min_free_kbytes",
    },
    Cause {
        name: "tx_dropped",
        of: |c| &c.tx_dropped,
        says: "were dropped before they were sent",
        fix: "tc -s qdisc shows the queue that was full; ip link set PORT txqueuelen 10000",
    },
    Cause {
        name: "tx_errors",
        of: |c| &c.tx_errors,
        says: "could not be sent: the carrier, the card",
        fix: "look at the cable, the other end's port, and the kernel's log",
    },
];

fn run(host: &Host<'_>) -> Vec<Finding> {
    let each = |port| CAUSES.iter().filter_map(move |cause| of(port, cause)).chain(flaps(port));
    host.devices().flat_map(each).collect()
}

fn of(port: &Port, cause: &Cause) -> Option<Finding> {
    let lost = (cause.of)(&port.counters).get().filter(|lost| *lost > 0)?;
    let counters = &port.counters;
    let whole = if cause.name.starts_with("rx") { &counters.rx_packets } else { &counters.tx_packets };
    let share = lost as f64 / whole.get().unwrap_or(0).saturating_add(lost) as f64;
    let minor = if cause.name == "rx_dropped" { UNWANTED } else { MINOR };
    let severity = match share {
        share if share >= MAJOR => Severity::Major,
        share if share >= minor => Severity::Minor,
        _ => Severity::Note,
    };
    let finding = Finding::new(severity, format!("{lost} packets of {} {}", port.name, cause.says))
        .at(format!("{} {}", port.name, cause.name))
        .evidence(format!("{} {lost} since boot, {} of the packets", cause.name, percent_of(share)))
        .evidence("counters of a long time: look whether they still grow during a transfer")
        .fix(cause.fix.replace("PORT", &port.name));
    Some(finding)
}

/// Shares of losses are small.
fn percent_of(share: f64) -> String {
    if share < 1e-3 { format!("{:.5} %", share * 100.0) } else { percent(share) }
}

fn flaps(port: &Port) -> Option<Finding> {
    let changes = port.counters.carrier_changes.get().filter(|changes| *changes >= FLAPS)?;
    let finding =
        Finding::new(Severity::Minor, format!("the carrier of {} came and went {changes} times", port.name))
            .at(format!("{} carrier", port.name))
            .evidence(format!("carrier_changes {changes}"))
            .fix("look at the cable, the transceiver, and the switch's log");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    fn with(change: impl FnOnce(&mut Counters)) -> Vec<String> {
        let host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
            port.counters.rx_packets = Fact::Known(1_000_000);
            port.counters.tx_packets = Fact::Known(1_000_000);
            change(&mut port.counters);
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn each_cause_is_told() {
        let told = |name: &str, severity: &str| vec![format!("drops-by-cause ens1f0np0 {name} {severity} -")];
        assert_eq!(with(|c| c.rx_missed = Fact::Known(5000)), told("rx_missed", "major"));
        assert_eq!(with(|c| c.rx_fifo = Fact::Known(50)), told("rx_fifo", "minor"));
        assert_eq!(with(|c| c.rx_crc = Fact::Known(3)), told("rx_crc", "minor"));
        assert_eq!(with(|c| c.rx_dropped = Fact::Known(9)), told("rx_dropped", "note"));
        assert_eq!(with(|c| c.tx_dropped = Fact::Known(1)), told("tx_dropped", "note"));
        assert_eq!(with(|c| c.tx_errors = Fact::Known(9)), told("tx_errors", "minor"));
        assert_eq!(with(|c| c.carrier_changes = Fact::Known(50)), told("carrier", "minor"));
    }

    #[test]
    fn nothing_lost_is_nothing_told() {
        assert!(with(|_| ()).is_empty());
        assert!(found(&CHECK, &fixture("e1000")).is_empty());
    }
}
