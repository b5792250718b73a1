//! Transmit rings that were full, so that packets were requeued.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::formula::percent;
use crate::remedy::{Remedy, RingWay, Setting};
use crate::source::{ESNET_NIC, RED_HAT};
use crate::{Finding, Host, Severity};

/// Share of requeued packets above which a larger ring may help.
const MANY: f64 = 0.01;
const SOME: u64 = 10_000;

pub(super) const CHECK: Check = Check {
    name: "tx-ring",
    about: "transmit rings that were often full",
    sources: &[RED_HAT, ESNET_NIC],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(of).collect()
}

fn of(port: &Port) -> Option<Finding> {
    let rings = port.rings.known().filter(|rings| rings.tx > 0 && rings.tx < rings.max_tx)?;
    let requeued: u64 =
        port.qdiscs.known()?.iter().filter(|qdisc| qdisc.root).map(|qdisc| qdisc.requeues).sum();
    let sent = port.counters.tx_packets.get().filter(|sent| *sent >= SOME)?;
    let share = requeued as f64 / sent as f64;
    if share < MANY {
        return None;
    }
    let title = format!("{}'s transmit rings were full for {} of the packets", port.name, percent(share));
    let ring = Setting::Ring { port: port.name.clone(), way: RingWay::Tx };
    let finding = Finding::new(Severity::Note, title)
        .at(&port.name)
        .evidence(format!(
            "{requeued} of {sent} packets were requeued; \
            the ring has {} of {} entries",
            rings.tx, rings.max_tx
        ))
        .remedied(Remedy::of(ring, rings.tx, rings.max_tx))
        .conflict(
            "byte queue limits keep the ring short on purpose: a longer one delays urgent packets; \
            the command resets the port",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn packets_that_went_back_are_found() {
        let host = edited("stock-10g", "eno1", |port| {
            port.counters.tx_packets = Fact::Known(1_000_000);
            let Fact::Known(qdiscs) = &mut port.qdiscs else { panic!("no disciplines") };
            qdiscs[0].requeues = 50_000;
        });
        assert_eq!(lines(&found(&CHECK, &host)), ["tx-ring eno1 note -"]);
    }

    #[test]
    fn a_few_are_not() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
