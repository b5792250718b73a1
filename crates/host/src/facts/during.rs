//! Computes how much the counts have grown between two readings of the same host.

use std::collections::BTreeMap;

use super::{Fact, Facts, Port, PortCounters, Qdisc, SoftnetCpu};

impl Facts {
    /// Returns the facts with counts of losses, and of the totals to which losses are compared, only since the reading
    /// `before`, which was made `seconds` seconds earlier. Interrupts and packets by queue are still counted since
    /// boot, because only counts over a long time show how they are distributed.
    pub fn since(mut self, before: &Facts, seconds: f64) -> Self {
        if let (Fact::Known(ports), Fact::Known(_)) = (&mut self.ports, &before.ports) {
            for port in ports {
                let _ = before.port(&port.name).map(|before| port_since(port, before));
            }
        }
        if let (Fact::Known(now), Fact::Known(before)) = (&mut self.softnet.cpus, &before.softnet.cpus) {
            now.iter_mut().for_each(|cpu| cpu_since(cpu, before));
        }
        map_since(&mut self.tcp.counters, &before.tcp.counters);
        if let (Fact::Known(now), Fact::Known(before)) =
            (&mut self.groups.throttling, &before.groups.throttling)
        {
            *now = now.since(before);
        }
        // The strain is that of the earlier reading, because the later reading includes the load of the measurement
        // itself.
        self.strain = before.strain.clone();
        self.counted_seconds = Fact::Known(seconds);
        self
    }
}

fn port_since(port: &mut Port, before: &Port) {
    counters_since(&mut port.counters, &before.counters);
    map_since(&mut port.statistics, &before.statistics);
    if let (Fact::Known(now), Fact::Known(before)) = (&mut port.fec, &before.fec) {
        now.corrected = now.corrected.map(|count| grown(count, before.corrected.unwrap_or(0)));
        now.uncorrectable = now.uncorrectable.map(|count| grown(count, before.uncorrectable.unwrap_or(0)));
    }
    if let (Fact::Known(now), Fact::Known(before)) = (&mut port.qdiscs, &before.qdiscs) {
        // The kernel lists the disciplines in the same order as long as nobody changes them.
        let same = |now: &Qdisc, before: &Qdisc| now.kind == before.kind && now.root == before.root;
        for (now, before) in now.iter_mut().zip(before).filter(|(now, before)| same(now, before)) {
            now.drops = grown(now.drops, before.drops);
            now.requeues = grown(now.requeues, before.requeues);
            now.overlimits = grown(now.overlimits, before.overlimits);
        }
    }
}

fn counters_since(now: &mut PortCounters, before: &PortCounters) {
    let pairs = [
        (&mut now.rx_bytes, &before.rx_bytes),
        (&mut now.rx_packets, &before.rx_packets),
        (&mut now.rx_errors, &before.rx_errors),
        (&mut now.rx_dropped, &before.rx_dropped),
        (&mut now.rx_missed, &before.rx_missed),
        (&mut now.rx_fifo, &before.rx_fifo),
        (&mut now.rx_crc, &before.rx_crc),
        (&mut now.rx_nohandler, &before.rx_nohandler),
        (&mut now.tx_bytes, &before.tx_bytes),
        (&mut now.tx_packets, &before.tx_packets),
        (&mut now.tx_errors, &before.tx_errors),
        (&mut now.tx_dropped, &before.tx_dropped),
        (&mut now.carrier_changes, &before.carrier_changes),
    ];
    for (now, before) in pairs {
        if let (Fact::Known(now), Fact::Known(before)) = (now, before) {
            *now = grown(*now, *before);
        }
    }
}

fn cpu_since(now: &mut SoftnetCpu, before: &[SoftnetCpu]) {
    let Some(before) = before.iter().find(|before| before.cpu == now.cpu) else { return };
    now.processed = grown(now.processed, before.processed);
    now.dropped = grown(now.dropped, before.dropped);
    now.squeezed = grown(now.squeezed, before.squeezed);
    now.flow_limit = grown(now.flow_limit, before.flow_limit);
}

/// Names of drivers' statistics that are settings and not counters: `ena_srd_mode` contains the switches of ENA
/// Express.
const SETTINGS: [&str; 1] = ["ena_srd_mode"];

/// Subtracts the earlier counters from the later ones, by name, except for settings. For a driver's statistic
/// that isn't a counter but a level, the difference is meaningless; no check uses such a statistic.
fn map_since(now: &mut Fact<BTreeMap<String, u64>>, before: &Fact<BTreeMap<String, u64>>) {
    if let (Fact::Known(now), Fact::Known(before)) = (now, before) {
        now.iter_mut()
            .filter(|(name, _)| !SETTINGS.contains(&name.as_str()))
            .for_each(|(name, count)| *count = grown(*count, before.get(name).copied().unwrap_or(0)));
    }
}

/// The growth of a counter. If the counter is smaller than before, it has restarted at 0.
fn grown(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::super::Fec;
    use super::*;

    fn facts(missed: u64, squeezed: u64, sent: u64) -> Facts {
        let counters = PortCounters { rx_missed: Fact::Known(missed), ..PortCounters::default() };
        let port = Port { name: "eth0".into(), counters, ..Port::default() };
        let mut facts = Facts { ports: Fact::Known(vec![port]), ..Facts::default() };
        facts.softnet.cpus = Fact::Known(vec![SoftnetCpu { cpu: 3, squeezed, ..SoftnetCpu::default() }]);
        facts.tcp.counters = Fact::Known([("OutSegs".to_owned(), sent)].into());
        facts
    }

    #[test]
    fn what_was_lost_long_ago_is_left_out() {
        let now = facts(107, 30, 5000).since(&facts(100, 30, 2000), 2.0);
        assert_eq!(now.port("eth0").unwrap().counters.rx_missed, Fact::Known(7));
        assert_eq!(now.softnet.cpus.known().unwrap()[0].squeezed, 0);
        assert_eq!(
            (now.tcp.counters.known().unwrap()["OutSegs"], now.counted_seconds),
            (3000, Fact::Known(2.0))
        );
    }

    #[test]
    fn a_setting_among_the_statistics_is_no_count() {
        let with = |packets| {
            let mut facts = facts(0, 0, 0);
            let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
            let all = [("ena_srd_mode".to_owned(), 1), ("ena_srd_tx_pkts".to_owned(), packets)];
            ports[0].statistics = Fact::Known(all.into());
            facts
        };
        let now = with(30).since(&with(10), 2.0);
        let all = now.port("eth0").unwrap().statistics.known().unwrap();
        assert_eq!((all["ena_srd_mode"], all["ena_srd_tx_pkts"]), (1, 20));
    }

    #[test]
    fn blocks_of_error_correction_are_counted_anew() {
        let with = |uncorrectable| {
            let mut facts = facts(0, 0, 0);
            let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
            ports[0].fec = Fact::Known(Fec { corrected: Some(9), uncorrectable, ..Fec::default() });
            facts
        };
        let blocks = |now: Facts| now.port("eth0").unwrap().fec.known().unwrap().uncorrectable;
        assert_eq!(blocks(with(Some(149)).since(&with(Some(145)), 2.0)), Some(4));
        assert_eq!(blocks(with(None).since(&with(Some(145)), 2.0)), None, "a driver that doesn't count");
    }

    #[test]
    fn what_began_anew_or_is_new_is_as_it_is() {
        let now = facts(5, 1, 10).since(&facts(100, 30, 2000), 2.0);
        assert_eq!(now.port("eth0").unwrap().counters.rx_missed, Fact::Known(5));
        let new = facts(5, 1, 10).since(&Facts::default(), 2.0);
        assert_eq!(new.port("eth0").unwrap().counters.rx_missed, Fact::Known(5));
    }
}
