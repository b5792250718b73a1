//! Several transmit queues, none of which is bound to processors.

use linerate_host::facts::{Port, TxQueue};

use super::{Check, CheckRun, processors};
use crate::remedy::{Remedy, Setting};
use crate::source::{RED_HAT, SCALING};
use crate::{Finding, Host, Severity};

/// The needed rate in bits a second below which the queues' locks don't matter.
const SLOW: f64 = 5e9;

/// Drivers that choose a transmit queue themselves, by a hash or by the port, and ignore these masks:
/// mana_select_queue(), netvsc_pick_tx(), xennet_select_queue(), mtk_select_queue(). Most drivers with such a function
/// ask the kernel in the end (netdev_pick_tx()).
const IGNORED: [&str; 6] = ["mana", "hv_netvsc", "vif", "xen-netfront", "netfront", "mtk_soc_eth"];

pub(super) const CHECK: Check = Check {
    name: "xps-off",
    about: "transmit queues that aren't bound to processors",
    sources: &[SCALING, RED_HAT],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware()
        .filter(|port| host.rate_of(port).is_some_and(|need| need >= SLOW))
        .filter_map(|port| of(host, port))
        .collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let queues = port.tx_queues.known().filter(|queues| queues.len() > 1)?;
    let is_bound_by_queue = |queue: &TxQueue| queue.xps_rxqs.known().is_some_and(|queues| !queues.is_empty());
    let is_ignored = port.driver.known().is_some_and(|driver| IGNORED.contains(&driver.as_str()));
    if is_ignored || queues.iter().any(is_bound_by_queue) {
        return None;
    }
    let is_empty = |cpus: &Vec<u32>| cpus.is_empty();
    if !queues.iter().all(|queue| queue.xps_cpus.known().is_some_and(is_empty)) {
        return None;
    }
    // Each queue gets the next processor; after the last one the first follows again.
    let cpus = host.facts.cpu.housekeeping();
    let cpus = cpus.known().map(Vec::as_slice).unwrap_or_default();
    let one = |(queue, cpu): (&TxQueue, &u32)| {
        let setting = Setting::Xps { port: port.name.clone(), queue: queue.number };
        Remedy::of(setting, 0, processors::mask(&[*cpu]))
    };
    let finding = Finding::new(
        Severity::Note,
        format!("all processors share {}'s {} transmit queues", port.name, queues.len()),
    )
    .at(&port.name)
    .evidence("xps_cpus is empty for each queue: processors wait for each other's locks")
    .remedied_or(
        queues.iter().zip(cpus.iter().cycle()).filter_map(one),
        "give each queue processors of its own",
    )
    .conflict(
        "this needs as many queues as processors; \
        with fewer, give each queue the processors that share a cache",
    );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn queues_without_processors_are_found() {
        let host = edited("stock-10g", "eno1", |port| {
            let Fact::Known(queues) = &mut port.tx_queues else { panic!("no queues") };
            queues.iter_mut().for_each(|queue| queue.xps_cpus = Fact::Known(Vec::new()));
        });
        let found = found(&CHECK, &host);
        assert_eq!(lines(&found), ["xps-off eno1 note -"]);
        let fix = found[0].fix.as_deref().unwrap();
        assert!(fix.starts_with("echo 1 > /sys/class/net/eno1/queues/tx-0/xps_cpus; echo 2 > "), "{fix}");
    }

    #[test]
    fn more_queues_than_processors_share_those_that_there_are() {
        let mut host = edited("stock-10g", "eno1", |port| {
            let Fact::Known(queues) = &mut port.tx_queues else { panic!("no queues") };
            queues.truncate(3);
            queues.iter_mut().for_each(|queue| queue.xps_cpus = Fact::Known(Vec::new()));
        });
        host.cpu.online = Fact::Known(vec![0, 2]);
        let fix = found(&CHECK, &host).remove(0).fix.unwrap();
        let queue = |queue: u32| format!("/sys/class/net/eno1/queues/tx-{queue}/xps_cpus");
        assert_eq!(fix, format!("echo 1 > {}; echo 4 > {}; echo 1 > {}", queue(0), queue(1), queue(2)));
    }

    fn unbound(port: &mut Port) {
        let Fact::Known(queues) = &mut port.tx_queues else { panic!("no queues") };
        queues.iter_mut().for_each(|queue| queue.xps_cpus = Fact::Known(Vec::new()));
    }

    #[test]
    fn isolated_processors_get_no_queue() {
        let mut host = edited("stock-10g", "eno1", unbound);
        host.cpu.isolated = Fact::Known(vec![2, 3]);
        host.cpu.nohz_full = Fact::Known(vec![3, 4]);
        let remedies = found(&CHECK, &host).remove(0).remedies;
        assert!(
            !remedies.is_empty() && remedies.iter().all(|it| !["4", "8", "10"].contains(&it.new.as_str()))
        );
    }

    /// The masks of receive queues come before those of processors (get_xps_queue()).
    #[test]
    fn queues_bound_by_receive_queues_are_not_found() {
        let by_queue = edited("stock-10g", "eno1", |port| {
            unbound(port);
            let Fact::Known(queues) = &mut port.tx_queues else { panic!("no queues") };
            queues.iter_mut().for_each(|queue| queue.xps_rxqs = Fact::Known(vec![queue.number]));
        });
        assert!(found(&CHECK, &by_queue).is_empty());
    }

    #[test]
    fn drivers_that_choose_a_queue_themselves_are_not_found() {
        for (driver, count) in
            [("mana", 0), ("hv_netvsc", 0), ("mtk_soc_eth", 0), ("mlx5_core", 1), ("ice", 1)]
        {
            let host = edited("stock-10g", "eno1", |port| {
                unbound(port);
                port.driver = Fact::Known(driver.into());
            });
            assert_eq!(found(&CHECK, &host).len(), count, "{driver}");
        }
    }

    #[test]
    fn bound_queues_and_slow_ports_are_not() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert!(found(&CHECK, &fixture("igb-sriov")).is_empty());
    }
}
