//! Connections that were dropped because the accept queue was full.

use super::{Check, CheckRun};
use crate::remedy::Remedy;
use crate::source::{IP_SYSCTL, SNMP};
use crate::{Finding, Host, Severity};

const SOMAXCONN: &str = "net.core.somaxconn";
const SYN: &str = "net.ipv4.tcp_max_syn_backlog";
/// Waiting connections that a busy server should allow.
const LEAST_BACKLOG: u32 = 8192;

pub(super) const CHECK: Check = Check {
    name: "listen-queue",
    about: "accept queues of listening sockets that overflowed",
    sources: &[IP_SYSCTL, SNMP],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let counters = host.facts.tcp.counters.known()?;
    let full = counters.get("ListenOverflows").or_else(|| counters.get("ListenDrops")).copied()?;
    if full == 0 {
        return None;
    }
    let finding = Finding::new(
        Severity::Note,
        format!("{full} connections were dropped before the server accepted them"),
    )
    .evidence(format!("the accept queue of a listening socket overflowed {full} times {}", host.since()))
    .evidence(
        "this matters to servers with many clients: a dropped client waits a second before it tries again",
    )
    .remedied(larger(host))
    .fix_words("raise the program's own backlog");
    Some(finding)
}

/// The changes that make both queues longer, if their present lengths are known and shorter.
fn larger(host: &Host<'_>) -> impl Iterator<Item = Remedy> {
    let tcp = &host.facts.tcp;
    let both = [(SOMAXCONN, tcp.somaxconn.get()), (SYN, tcp.max_syn_backlog.get())];
    both.into_iter().filter_map(|(key, now)| Remedy::sysctl(key, now?, LEAST_BACKLOG))
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
        // If a present length is unknown, a new one might be shorter.
        assert_eq!(found(&CHECK, &full)[0].fix.as_deref(), Some("raise the program's own backlog"));
    }

    #[test]
    fn the_values_of_before_are_restored_and_never_lowered() {
        let full = changed("stock-10g", |facts| {
            let Fact::Known(counters) = &mut facts.tcp.counters else { panic!("no counters") };
            counters.insert("ListenOverflows".into(), 17);
            (facts.tcp.somaxconn, facts.tcp.max_syn_backlog) = (Fact::Known(65535), Fact::Known(512));
        });
        let found = &found(&CHECK, &full)[0];
        let command = "sysctl -w net.ipv4.tcp_max_syn_backlog";
        assert_eq!(found.undo, Some(format!("{command}=512")));
        assert_eq!(found.fix, Some(format!("{command}=8192; raise the program's own backlog")));
    }
}
