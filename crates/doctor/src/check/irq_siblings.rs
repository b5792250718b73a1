//! Interrupts of several queues on two threads of one core, while other cores serve none.

use linerate_host::facts::{Irq, Port};
use std::collections::BTreeSet;

use super::{Check, CheckRun, processors};
use crate::source::{ESNET_NIC, SCALING};
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "irq-smt-siblings",
    about: "queues served by both threads of a core, while other cores serve none",
    sources: &[SCALING, ESNET_NIC],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(|port| of(host, port)).collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let (cpu, irqs) = (&host.facts.cpu, port.interrupts.known()?);
    let threads = serving(irqs)?;
    // A core of another node is worse than a second thread.
    let free = processors::near(port, &processors::housekeepers(host)?);
    let (used, all) = (cpu.cores_of(&threads)?, cpu.cores_of(&free)?);
    if used as usize >= threads.len() || used >= all {
        return None;
    }
    let title = format!("{} threads of only {used} cores serve {}", threads.len(), port.name);
    let finding = processors::short_of(port, used, host.rate_of(port)?, &title)?
        .evidence(format!(
            "processors {threads:?} are threads of {used} cores; {all} cores near it could serve them"
        ))
        .evidence("a core's second thread brings no benefit for interrupts (scaling.rst)");
    Some(spread(finding, irqs, cpu.siblings.known()?, &free))
}

/// The processors that serve the port's interrupts; `None` if an interrupt may go to several processors, or if the
/// processor of one is unknown.
fn serving(irqs: &[Irq]) -> Option<Vec<u32>> {
    let one = |irq: &Irq| match irq.effective.known()?.as_slice() {
        [cpu] => Some(*cpu),
        _ => None,
    };
    let named = irqs.iter().filter(|irq| irq.name.known().is_some());
    let cpus = named.map(one).collect::<Option<BTreeSet<u32>>>()?;
    Some(cpus.into_iter().collect())
}

/// Adds the fix, which binds the interrupts to the first free thread of each core, in turn.
fn spread(finding: Finding, irqs: &[Irq], cores: &[Vec<u32>], free: &[u32]) -> Finding {
    let firsts: Vec<u32> =
        cores.iter().filter_map(|threads| threads.iter().find(|cpu| free.contains(cpu))).copied().collect();
    finding.remedied_or(processors::spread(irqs, &firsts), "bind each interrupt to another core").conflict(
        "drivers create a queue for each thread; with more queues than cores, some share a core in any case; \
         interrupts that the kernel manages refuse another processor (EIO)",
    )
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{changed, fixture, found, lines};

    #[test]
    fn two_threads_of_a_core_are_found_while_cores_are_free() {
        let found = found(&CHECK, &fixture("smt-siblings"));
        assert_eq!(lines(&found), ["irq-smt-siblings ens1f0np0 note 42.0 Gbit/s"]);
        let fix = found[0].fix.as_deref().unwrap();
        assert!(!fix.contains("irq/60/") && fix.contains("echo 1 > /proc/irq/61/"), "{fix}");
        assert!(found[0].undo.as_deref().unwrap().contains("echo 8 > /proc/irq/61/"));
    }

    #[test]
    fn a_core_for_each_is_not() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        let apart = changed("smt-siblings", |facts| {
            let Fact::Known(cores) = &mut facts.cpu.siblings else { panic!("no siblings") };
            *cores = (0..16).map(|cpu| vec![cpu]).collect();
        });
        assert!(found(&CHECK, &apart).is_empty());
        // The other cores are isolated.
        let alone = changed("smt-siblings", |facts| {
            let own = serving(facts.port("ens1f0np0").unwrap().interrupts.known().unwrap()).unwrap();
            let all = facts.cpu.online.known().unwrap();
            facts.cpu.nohz_full = Fact::Known(all.iter().filter(|cpu| !own.contains(cpu)).copied().collect());
        });
        assert!(found(&CHECK, &alone).is_empty());
        // The other cores are those of another node.
        let far = changed("smt-siblings", |facts| {
            let port = crate::testing::port_of(facts, "ens1f0np0");
            let own = serving(port.interrupts.known().unwrap()).unwrap();
            let Fact::Known(pci) = &mut port.pci else { panic!("no slot") };
            pci.local_cpus = Fact::Known(own);
        });
        assert!(found(&CHECK, &far).is_empty());
        let unknown = changed("smt-siblings", |facts| facts.cpu.siblings = Fact::default());
        assert!(found(&CHECK, &unknown).is_empty());
    }
}
