//! The amount that the page cache takes before writers wait for the disk.

use super::{Check, CheckRun};
use crate::formula::{bytes, gbit};
use crate::source::VM_SYSCTL;
use crate::{Finding, Host, Severity};

/// Seconds of writing at the needed rate for which there should be room, so that a disk's pauses don't stop the
/// network.
const PAUSE: f64 = 1.0;

pub(super) const CHECK: Check = Check {
    name: "write-back",
    about: "writers that wait for the disk after less than a second at the needed rate",
    sources: &[VM_SYSCTL],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let memory = &host.facts.memory;
    let (ratio, background) = (memory.dirty_ratio.get()?, memory.dirty_background_ratio.get()?);
    let available = memory.available.get()? as f64;
    // A ratio of 0 means that a limit in bytes is set instead, which isn't among the facts.
    if ratio == 0 {
        return None;
    }
    // The kernel begins to slow writers half-way between both limits.
    let limit = available * (f64::from(ratio) + f64::from(background)) / 200.0;
    let seconds = limit * 8.0 / host.rate();
    if seconds >= PAUSE {
        return None;
    }
    let finding = Finding::new(
        Severity::Note,
        format!("at {} writers must wait for the disk after only {:.0} ms of writing", gbit(host.rate()), seconds * 1e3),
    )
    .evidence(format!(
        "dirty_ratio {ratio} %, dirty_background_ratio {background} % of {} available: {}",
        bytes(available),
        bytes(limit)
    ))
    .evidence("linerate itself gains nothing, because it always waits for the disk before it gives a file its name: only other writers gain")
    .fix("add memory, or use a faster disk; if other programs write in bursts, raise vm.dirty_ratio and vm.dirty_background_ratio")
    .conflict(
        "tuned's throughput profile raises dirty_ratio to 40; \
         guides for databases and large memories lower it, so that the end of a transfer doesn't wait long",
    );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn small_limits_are_found() {
        let small = changed("stock-10g", |facts| {
            (facts.memory.dirty_ratio, facts.memory.dirty_background_ratio) = (Fact::Known(2), Fact::Known(1))
        });
        assert_eq!(lines(&found(&CHECK, &small)), ["write-back - note -"]);
        let bytes = changed("stock-10g", |facts| facts.memory.dirty_ratio = Fact::Known(0));
        assert!(found(&CHECK, &bytes).is_empty(), "bytes are set instead");
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
