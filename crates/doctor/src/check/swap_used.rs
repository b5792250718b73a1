//! Programs whose memory is on a disk.

use super::{Check, Run};
use crate::formula::bytes;
use crate::source::VM_SYSCTL;
use crate::{Finding, Host, Severity};

/// Share of the memory whose like in swap space is worth a word.
const SOME: f64 = 0.02;
/// `vm.swappiness` at which the page cache gives way before programs do.
const LOW: u32 = 10;

pub(super) const CHECK: Check = Check {
    name: "swap-used",
    about: "a part of the programs' memory is in swap space",
    sources: &[VM_SYSCTL],
    run: Run::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let memory = &host.facts.memory;
    let (total, swap, free) = (memory.total.get()?, memory.swap_total.get()?, memory.swap_free.get()?);
    let used = swap.saturating_sub(free);
    if (used as f64) < total as f64 * SOME {
        return None;
    }
    let finding = Finding::new(Severity::Note, format!("{} are in swap space", bytes(used as f64)))
        .evidence(format!(
            "of {} swap space {} are free; memory {}",
            bytes(swap as f64),
            bytes(free as f64),
            bytes(total as f64)
        ))
        .evidence(
            "what the page cache took from programs comes back from the disk, beside the transfer's own reads and writes",
        )
        .fix("swapoff -a && swapon -a, where the memory is free");
    Some(match memory.swappiness.get().filter(|now| *now > LOW) {
        Some(now) => finding
            .fix(format!("sysctl -w vm.swappiness={LOW}; swapoff -a && swapon -a, where the memory is free"))
            .undo(format!("sysctl -w vm.swappiness={now}")),
        None => finding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn much_of_it_is_noted() {
        let used = changed("stock-10g", |facts| {
            (facts.memory.swap_total, facts.memory.swap_free) = (Fact::Known(8 << 30), Fact::Known(4 << 30))
        });
        assert_eq!(lines(&found(&CHECK, &used)), ["swap-used - note -"]);
        let set = |value| {
            let mut host = used.clone();
            host.memory.swappiness = value;
            found(&CHECK, &host)[0].undo.clone()
        };
        assert_eq!(set(Fact::Known(30)).as_deref(), Some("sysctl -w vm.swappiness=30"));
        assert_eq!((set(Fact::Known(1)), set(Fact::NotApplicable)), (None, None), "it isn't raised");
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
