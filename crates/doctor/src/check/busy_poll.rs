//! Sockets that poll the card.

use super::{Check, CheckRun};
use crate::source::{NET_SYSCTL, RED_HAT};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "busy-poll",
    about: "processors that poll for packets: this lowers the delay, but doesn't raise the rate",
    sources: &[NET_SYSCTL, RED_HAT],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let (poll, read) = (host.facts.softnet.busy_poll.get()?, host.facts.softnet.busy_read.get()?);
    if poll == 0 && read == 0 {
        return None;
    }
    let finding = Finding::new(Severity::Note, "each socket read polls the card before it sleeps")
        .evidence(format!("busy_poll {poll} us, busy_read {read} us"))
        .evidence(
            "a polling processor neither encrypts nor writes, \
             and polling leaves GRO less time to join packets",
        )
        .fix("sysctl -w net.core.busy_poll=0 net.core.busy_read=0")
        .undo(format!("sysctl -w net.core.busy_poll={poll} net.core.busy_read={read}"))
        .conflict(
            "Red Hat's guide sets 50 us for low latency; the kernel's default is 0; \
            file transfers need rate, not low delay",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn polling_is_noted() {
        let polls = changed("stock-10g", |facts| facts.softnet.busy_read = Fact::Known(50));
        assert_eq!(lines(&found(&CHECK, &polls)), ["busy-poll - note -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
