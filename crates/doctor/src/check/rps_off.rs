//! One receive queue, several processors, and no spreading in software.

use linerate_host::facts::{Port, RxQueue};

use super::{Check, CheckRun, processors};
use crate::remedy::{Remedy, Setting};
use crate::source::{RED_HAT, SCALING, WEB};
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "rps-off-one-queue",
    about: "one receive queue whose packets aren't spread in software",
    sources: &[SCALING, RED_HAT, WEB],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(|port| of(host, port)).collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    // More queues are better, if they are possible: virtio-one-queue, vmxnet3-one-queue and queues-vs-cores report
    // that.
    let is_reported = port.channels.known().is_some_and(|channels| channels.max_receiving() > 1);
    let [queue] = port.rx_queues.known()?.as_slice() else { return None };
    let cpus = processors::housekeepers(host)?;
    if is_reported || !queue.rps_cpus.known()?.is_empty() {
        return None;
    }
    let title = format!("{} has one receive queue, which one processor serves", port.name);
    let finding = processors::short_of(port, 1, host.rate_of(port)?, &title)?;
    // Far processors would fetch the packets from the card's node (scaling.rst).
    Some(remedy(finding, port, queue, &processors::near(port, &cpus)))
}

/// Adds the fix, whose mask has no isolated processors: since Linux 5.4 the kernel removes these
/// (rps_cpumask_housekeeping()).
fn remedy(finding: Finding, port: &Port, queue: &RxQueue, cpus: &[u32]) -> Finding {
    let rps = Setting::Rps { port: port.name.clone(), queue: queue.number };
    finding
        .evidence(format!("rps_cpus is empty; {} processors", cpus.len()))
        .remedied(Remedy::of(rps, 0, processors::mask(cpus)))
        .conflict(
            "more queues are better if they are possible: \
            with a queue for each processor, RPS is redundant (scaling.rst)",
        )
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn one_queue_for_two_processors_is_found() {
        let found = found(&CHECK, &fixture("virtio-one-queue"));
        assert_eq!(lines(&found), ["rps-off-one-queue eth0 note 12.3 Gbit/s"]);
        assert_eq!(found[0].fix.as_deref(), Some("echo 3 > /sys/class/net/eth0/queues/rx-0/rps_cpus"));
    }

    #[test]
    fn spread_packets_several_queues_and_slow_ports_are_not() {
        let spread = edited("virtio-one-queue", "eth0", |port| {
            let Fact::Known(queues) = &mut port.rx_queues else { panic!("no queues") };
            queues[0].rps_cpus = Fact::Known(vec![0, 1]);
        });
        assert!(found(&CHECK, &spread).is_empty());
        assert!(found(&CHECK, &fixture("virtio-four-queues")).is_empty());
        assert!(found(&CHECK, &fixture("e1000e-desktop")).is_empty(), "a gigabit");
    }

    #[test]
    fn a_mask_names_no_isolated_processors() {
        let with = |isolated: &[u32], online: std::ops::Range<u32>| {
            let host = crate::testing::changed("virtio-one-queue", |facts| {
                facts.cpu.online = Fact::Known(online.collect());
                facts.cpu.isolated = Fact::Known(isolated.to_vec());
            });
            found(&CHECK, &host).pop()
        };
        assert!(with(&[1], 0..2).is_none(), "one is left");
        let fix = with(&[2, 3], 0..5).unwrap().fix;
        assert_eq!(fix.as_deref(), Some("echo 13 > /sys/class/net/eth0/queues/rx-0/rps_cpus"));
    }

    #[test]
    fn packets_stay_in_the_cards_node() {
        let two = edited("virtio-one-queue", "eth0", |port| {
            let Fact::Known(pci) = &mut port.pci else { panic!("no device") };
            pci.local_cpus = Fact::Known(vec![1]);
        });
        assert!(found(&CHECK, &two)[0].fix.as_deref().unwrap().starts_with("echo 2 > "));
    }

    #[test]
    fn masks_are_the_kernels() {
        assert_eq!((processors::mask(&[0, 1, 2, 3]), processors::mask(&[0, 33])), ("f".into(), "2,1".into()));
    }
}
