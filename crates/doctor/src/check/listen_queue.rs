//! Connections that were refused since the queue of new ones was full.

use super::{Check, Run};
use crate::source::{IP_SYSCTL, SNMP};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "listen-queue",
    about: "connections were dropped since nobody had taken earlier ones yet",
    sources: &[IP_SYSCTL, SNMP],
    run: Run::Host(|host| of(host).into_iter().collect()),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let counters = host.facts.tcp.counters.known()?;
    let full = counters.get("ListenOverflows").or_else(|| counters.get("ListenDrops")).copied()?;
    if full == 0 {
        return None;
    }
    let finding =
        Finding::new(Severity::Note, format!("{full} connections were dropped before they were taken"))
            .evidence(format!("the queue of a listening socket was full {full} times since boot"))
            .evidence(
                "it matters to servers with many clients; the sender waits a second \
                    before it asks again",
            )
            .fix(
                "sysctl -w net.core.somaxconn=8192 net.ipv4.tcp_max_syn_backlog=8192, \
                    and the program's own backlog",
            )
            .undo("sysctl -w with the values that it had: note them first (sysctl net.core.somaxconn)");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn full_queues_are_noted() {
        let full = changed("stock-10g", |facts| {
            let Fact::Known(counters) = &mut facts.tcp.counters else { panic!("no counters") };
            counters.insert("ListenOverflows".into(), 17);
        });
        assert_eq!(lines(&found(&CHECK, &full)), ["listen-queue - note -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
