//! Transmit rings that were full, so that packets were requeued.

use linerate_host::facts::Port;

use super::{Check, CheckRun, ring};
use crate::remedy::{Remedy, RingWay, Setting};
use crate::source::{ESNET_NIC, RED_HAT};
use crate::{Finding, Host, Severity};

/// The number of stops of a ring for each sent packet at or above which a larger ring may help.
const MANY: f64 = 1e-3;
/// Drivers' counters of the times when a ring was full. Requeued packets aren't a sign of a full ring: byte queue
/// limits stop a queue too, whatever the size of its ring.
const STOPS: [&str; 6] =
    ["tx_restart_queue", "tx_queue_stopped", "queue_stopped", "tx_stop_queue", "tx_busy", "tx_queue_stop"];
const LEAST_PACKETS: u64 = 10_000;

pub(super) const CHECK: Check = Check {
    name: "tx-ring",
    about: "transmit rings that were often full",
    sources: &[RED_HAT, ESNET_NIC],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(|port| of(host, port)).collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let rings = port.rings.known().filter(|rings| rings.tx > 0 && rings.tx < rings.max_tx)?;
    let counters = port.statistics.known()?.iter();
    let (name, stops) =
        counters.filter(|(name, _)| STOPS.contains(&name.as_str())).max_by_key(|(_, count)| **count)?;
    let sent = port.counters.tx_packets.get().filter(|sent| *sent >= LEAST_PACKETS)?;
    if (*stops as f64) < sent as f64 * MANY {
        return None;
    }
    let title = format!("{}'s transmit rings were full {stops} times", port.name);
    let setting = Setting::Ring { port: port.name.clone(), way: RingWay::Tx };
    let larger = ring::next(host, port, rings.tx, rings.max_tx);
    let finding = Finding::new(Severity::Note, title)
        .at(&port.name)
        .evidence(format!(
            "{name} {stops}, while {sent} packets were sent; the ring has {} of {} entries",
            rings.tx, rings.max_tx
        ))
        .remedied_or(larger.and_then(|size| Remedy::of(setting, rings.tx, size)), ring::TOO_LITTLE_MEMORY)
        .conflict(format!(
            "a longer ring delays urgent packets; the command resets the port; {}",
            ring::costs()
        ));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn full_rings_are_found_by_the_drivers_counter() {
        let host = edited("stock-10g", "eno1", |port| {
            port.counters.tx_packets = Fact::Known(1_000_000);
            port.statistics = Fact::Known([("tx_restart_queue".to_owned(), 5_000)].into());
        });
        let found = found(&CHECK, &host);
        assert_eq!(lines(&found), ["tx-ring eno1 note -"]);
        assert_eq!(found[0].fix.as_deref(), Some("ethtool -G eno1 tx 2048"));
    }

    #[test]
    fn a_few_are_not_nor_is_what_byte_queue_limits_put_back() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        let limits = edited("stock-10g", "eno1", |port| {
            port.counters.tx_packets = Fact::Known(1_000_000);
            let Fact::Known(qdiscs) = &mut port.qdiscs else { panic!("no disciplines") };
            qdiscs[0].requeues = 50_000;
        });
        assert!(found(&CHECK, &limits).is_empty());
    }
}
