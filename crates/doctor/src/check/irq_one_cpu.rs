//! Interrupts of all queues served by one processor.

use std::collections::BTreeMap;

use linerate_host::facts::{Irq, Port};

use super::{Check, CheckRun, processors};
use crate::formula::percent;
use crate::source::{ESNET_NIC, SCALING, WEB};
use crate::{Finding, Host};

/// With fewer interrupts the shares aren't significant.
const LEAST_INTERRUPTS: u64 = 10_000;
/// The share of the interrupts at or above which one processor counts as the only one that serves them. Also the share
/// above which one interrupt counts as the only busy one.
const ALL: f64 = 0.9;

pub(super) const CHECK: Check = Check {
    name: "irq-one-cpu",
    about: "one processor that serves the interrupts of several queues",
    sources: &[SCALING, ESNET_NIC, WEB],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(|port| of(host, port)).collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let queues = port.rx_count().get().filter(|queues| *queues > 1)?;
    let cpus = processors::housekeepers(host)?;
    let (irqs, (cpu, share)) = (port.interrupts.known()?, busiest(port)?);
    if share < ALL {
        return None;
    }
    let title = format!("processor {cpu} serves {} of {}'s interrupts", percent(share), port.name);
    let (one, need) = (processors::received(port, 1)?, host.rate_of(port)?);
    let finding = processors::short_of(port, 1, need, &title)
        .unwrap_or_else(|| Finding::leaves(one, need, title).at(&port.name));
    let finding = finding.evidence(format!("{queues} queues, {} processors", cpus.len()));
    Some(spread(finding, irqs, port, &cpus))
}

/// The processor that served most interrupts, and its share; `None` if the counts of some queues' interrupts are
/// unknown, or if one interrupt has nearly all of the count.
fn busiest(port: &Port) -> Option<(u32, f64)> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    let (irqs, queues) = (port.interrupts.known()?, port.rx_queues.known()?.len());
    if irqs.iter().filter(|irq| irq.counts.known().is_some()).count() < queues.min(irqs.len()) {
        return None;
    }
    for irq in irqs {
        let counts = irq.counts.known().into_iter().flatten();
        counts.for_each(|(cpu, count)| *sums.entry(*cpu).or_default() += count);
    }
    let total: u64 = sums.values().sum();
    let of = |irq: &Irq| irq.counts.known().into_iter().flatten().map(|(_, count)| count).sum::<u64>();
    // A single busy queue is served by one processor, wherever the other queues' interrupts are bound.
    if irqs.len() > 1 && irqs.iter().any(|irq| of(irq) as f64 > ALL * total as f64) {
        return None;
    }
    let (cpu, most) = sums.into_iter().max_by_key(|(_, count)| *count)?;
    (total >= LEAST_INTERRUPTS).then(|| (cpu, most as f64 / total as f64))
}

/// Adds the fix, which spreads the interrupts over the processors near the card, or over all if it isn't known which
/// are near, but never over isolated ones.
fn spread(finding: Finding, irqs: &[Irq], port: &Port, cpus: &[u32]) -> Finding {
    let new = processors::spread(irqs, &processors::near(port, cpus));
    finding.remedied_or(new, "bind each interrupt to another processor").conflict(
        "interrupts that the kernel manages refuse this (EIO); irqbalance undoes it unless irqbalance is stopped; \
         if irqbalance isn't running, starting it may be all that is needed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn eight_queues_on_one_processor_are_found() {
        let found = found(&CHECK, &fixture("irq-one-cpu"));
        assert_eq!(lines(&found), ["irq-one-cpu eth0 note 21.0 Gbit/s"]);
        let fix = found[0].fix.as_deref().unwrap();
        assert!(fix.starts_with("echo 1 > /proc/irq/61/smp_affinity_list; echo 2 > /proc/irq/62/"), "{fix}");
        assert!(found[0].undo.as_deref().unwrap().contains("/proc/irq/61/smp_affinity_list "));
    }

    #[test]
    fn interrupts_are_bound_to_processors_that_are_online() {
        let far = crate::testing::edited("irq-one-cpu", "eth0", |port| {
            let linerate_host::Fact::Known(pci) = &mut port.pci else { panic!("no device") };
            pci.local_cpus = linerate_host::Fact::Known(vec![1, 64, 65]);
        });
        let fix = found(&CHECK, &far).remove(0).fix.unwrap();
        assert!(fix.contains("echo 1 > ") || fix.contains("do echo 1 > "), "{fix}");
        assert!(!fix.contains("echo 64") && !fix.contains("echo 65"), "{fix}");
    }

    /// On a host with isolated processors (`isolcpus=`, `nohz_full=`), the other processors serve the interrupts.
    #[test]
    fn isolated_processors_serve_no_interrupts() {
        let with = |isolated: &[u32], without_tick: &[u32]| {
            let host = crate::testing::changed("irq-one-cpu", |facts| {
                facts.cpu.isolated = linerate_host::Fact::Known(isolated.to_vec());
                facts.cpu.nohz_full = linerate_host::Fact::Known(without_tick.to_vec());
            });
            found(&CHECK, &host).pop()
        };
        assert!(with(&[1, 2, 3, 4, 5, 6, 7], &[]).is_none() && with(&[], &[1, 2, 3, 4, 5, 6, 7]).is_none());
        let some = with(&[1, 2, 3], &[4, 5]).unwrap();
        assert!(some.evidence.iter().any(|line| line == "8 queues, 3 processors"), "{some:?}");
        let new: std::collections::BTreeSet<_> =
            some.remedies.iter().map(|remedy| remedy.new.as_str()).collect();
        assert_eq!(new, ["6", "7"].into());
    }

    /// One large flow since the start: its queue was busy, and the others weren't.
    #[test]
    fn one_busy_queue_is_not() {
        let busy = crate::testing::edited("irq-one-cpu", "eth0", |port| {
            let linerate_host::Fact::Known(irqs) = &mut port.interrupts else { panic!("no interrupts") };
            irqs.iter_mut().skip(1).for_each(|irq| {
                let linerate_host::Fact::Known(counts) = &mut irq.counts else { return };
                counts.iter_mut().for_each(|(_, count)| *count /= 1000);
            });
        });
        assert!(found(&CHECK, &busy).is_empty(), "{:?}", lines(&found(&CHECK, &busy)));
    }

    #[test]
    fn spread_interrupts_and_single_queues_are_not() {
        for host in ["stock-10g", "e1000", "virtio-one-queue", "mlx5-25g-tuned"] {
            assert!(found(&CHECK, &fixture(host)).is_empty(), "{host}");
        }
    }
}
