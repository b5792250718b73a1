//! Programs whose memory is in swap space.

use super::{Check, CheckRun};
use crate::formula::bytes;
use crate::source::VM_SYSCTL;
use crate::{Finding, Host, Severity};

/// The used swap space at or above which it is reported, as a share of the memory.
const LEAST_USED_SHARE: f64 = 0.02;
/// `vm.swappiness` at which the page cache shrinks before programs are swapped out.
const LOW: u32 = 10;
/// The kernel's default of `vm.swappiness`. If the value is larger, somebody has chosen it.
const USUAL: u32 = 60;

pub(super) const CHECK: Check = Check {
    name: "swap-used",
    about: "programs whose memory is partly in swap space",
    sources: &[VM_SYSCTL],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let memory = &host.facts.memory;
    let (total, swap, free) = (memory.total.get()?, memory.swap_total.get()?, memory.swap_free.get()?);
    let used = swap.saturating_sub(free);
    if (used as f64) < total as f64 * LEAST_USED_SHARE {
        return None;
    }
    // Swap space in compressed memory needs no disk: with it a high swappiness is right (vm.rst).
    let is_memory = |area: &String| area.starts_with("/dev/zram");
    if memory.swap_areas.known().is_some_and(|areas| !areas.is_empty() && areas.iter().all(is_memory)) {
        return None;
    }
    let finding =
        Finding::new(Severity::Note, format!("{} of programs' memory is in swap space", bytes(used as f64)))
            .evidence(format!(
                "of {} swap space, {} is free; memory {}",
                bytes(swap as f64),
                bytes(free as f64),
                bytes(total as f64)
            ))
            .evidence(
                "reading swapped memory back from the disk competes with the transfer's own reads and writes",
            )
            .conflict(
                "if the swap space is compressed memory (zram), no disk is involved, and the cost is small",
            );
    Some(match memory.swappiness.get().filter(|now| (LOW + 1..=USUAL).contains(now)) {
        Some(now) => finding
            .fix(format!("sysctl -w vm.swappiness={LOW}"))
            .undo(format!("sysctl -w vm.swappiness={now}")),
        None => finding.fix("give the host more memory, or run fewer programs on it"),
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
        assert_eq!(set(Fact::Known(180)), None, "somebody has chosen it");
        let mut zram = used.clone();
        zram.memory.swap_areas = Fact::Known(vec!["/dev/zram0".into()]);
        assert!(found(&CHECK, &zram).is_empty());
        assert_eq!((set(Fact::Known(1)), set(Fact::NotApplicable)), (None, None), "it isn't raised");
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
