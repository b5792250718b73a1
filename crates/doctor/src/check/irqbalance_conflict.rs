//! Interrupts that were bound to one processor each, and moved all the same.

use linerate_host::facts::{Irq, Port};

use super::{Check, CheckRun};
use crate::source::{ESNET_NIC, RED_HAT};
use crate::{Finding, Host, Severity};

/// An interrupt was moved where at least this many processors served a significant share of it.
const MOVED: usize = 3;
/// A significant share of an interrupt.
const PART: f64 = 0.05;
const SOME: u64 = 10_000;

pub(super) const CHECK: Check = Check {
    name: "irqbalance-conflict",
    about: "interrupts that were bound to one processor each, and still moved",
    sources: &[ESNET_NIC, RED_HAT],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(of).collect()
}

fn of(port: &Port) -> Option<Finding> {
    let moved: Vec<&Irq> = port.interrupts.known()?.iter().filter(|irq| was_moved(irq)).collect();
    let first = moved.first()?;
    let served = first.counts.known()?.keys().map(u32::to_string).collect::<Vec<_>>().join(",");
    let title = format!(
        "{} of {}'s interrupts are bound to one processor each, but were moved",
        moved.len(),
        port.name
    );
    let finding = Finding::new(Severity::Note, title)
        .at(&port.name)
        .evidence(format!(
            "interrupt {} may go to one processor only, \
            but was served by {served}",
            first.number
        ))
        .fix(
            "do one, not both: bind the interrupts and systemctl disable --now irqbalance, \
            or leave them to irqbalance",
        )
        .undo("systemctl enable --now irqbalance")
        .conflict("ESnet stops irqbalance and binds interrupts; Red Hat leaves it running for most loads");
    Some(finding)
}

fn was_moved(irq: &Irq) -> bool {
    let (Some(affinity), Some(counts), Some(total)) =
        (irq.affinity.known(), irq.counts.known(), irq.total().get())
    else {
        return false;
    };
    let parts = counts.values().filter(|count| **count as f64 >= total as f64 * PART).count();
    affinity.len() == 1 && total >= SOME && parts >= MOVED
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn bound_and_moved_is_found() {
        let host = edited("stock-10g", "eno1", |port| {
            let Fact::Known(irqs) = &mut port.interrupts else { panic!("no interrupts") };
            irqs[0].counts = Fact::Known(BTreeMap::from([(0, 90_000), (1, 80_000), (5, 70_000)]));
        });
        assert_eq!(lines(&found(&CHECK, &host)), ["irqbalance-conflict eno1 note -"]);
    }

    #[test]
    fn bound_and_left_alone_is_not() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
