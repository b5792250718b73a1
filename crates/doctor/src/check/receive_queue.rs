//! Segments dropped because a socket's buffer was full: the program read too slowly, or the buffer was too
//! small.

use super::{Check, CheckRun};
use crate::formula::{buffer, bytes, flow};
use crate::remedy::Remedy;
use crate::source::{IP_SYSCTL, SNMP};
use crate::{Finding, Host, Severity};

/// The share of dropped segments among the received ones at or above which the drops aren't chance.
const OFTEN: f64 = 1e-6;
/// The kernel's counters of segments that found a full buffer. `PruneCalled` isn't one of them: it counts how often
/// memory was reclaimed, without any drop.
const COUNTERS: [&str; 4] = ["TCPRcvQDrop", "TCPBacklogDrop", "RcvPruned", "TCPZeroWindowDrop"];

pub(super) const CHECK: Check = Check {
    name: "receive-queue",
    about: "received segments that found their socket's buffer full",
    sources: &[SNMP, IP_SYSCTL],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    let counters = tcp.counters.known()?;
    let received = *counters.get("InSegs")?;
    let lost: Vec<_> = COUNTERS
        .iter()
        .filter_map(|name| Some((name, *counters.get(*name)?)))
        .filter(|(_, n)| *n > 0)
        .collect();
    let total = lost.iter().fold(0_u64, |total, (_, count)| total.saturating_add(*count));
    let share = total as f64 / received.max(1) as f64;
    if share < OFTEN {
        return None;
    }
    let [least, usual, most] = tcp.rmem.get()?;
    let named = lost.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
    let finding = Finding::new(Severity::Minor, "received segments found their socket's buffer full")
        .evidence(format!("{named}, of {received} segments received {}", host.since()))
        .evidence(format!("buffers can grow to {}", bytes(most as f64)))
        .conflict("a larger buffer helps against bursts, but not if the program is too slow");
    let value = |most: u64| format!("{least} {usual} {most}");
    // The proposed size is no less than the size that tcp-buffers proposes for the same setting.
    let in_flight = flow::in_flight(host.rate(), host.far_trip()).max(most as f64);
    let larger = buffer::proposed(host.facts, in_flight, most);
    let change = Remedy::sysctl("net.ipv4.tcp_rmem", value(most), value(larger));
    Some(finding.remedied_or(
        change,
        "make the program read faster: this host's memory, or its tcp_mem, allows no larger buffer",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn drops_are_found_by_name() {
        let full = changed("stock-10g", |facts| {
            let Fact::Known(counters) = &mut facts.tcp.counters else { panic!("no counters") };
            counters.insert("TCPBacklogDrop".into(), 5_000);
        });
        let findings = found(&CHECK, &full);
        assert_eq!(lines(&findings), ["receive-queue - minor -"]);
        assert!(findings[0].evidence[0].starts_with("TCPBacklogDrop 5000,"));
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        let reclaimed = changed("stock-10g", |facts| {
            let Fact::Known(counters) = &mut facts.tcp.counters else { panic!("no counters") };
            counters.insert("PruneCalled".into(), 5_000);
        });
        assert!(found(&CHECK, &reclaimed).is_empty(), "nothing was dropped");
        let mut small = full.clone();
        (small.tcp.rmem, small.tcp.mem) =
            (Fact::Known([4096, 131_072, 1_120_256]), Fact::Known([1641, 2188, 3282]));
        assert!(found(&CHECK, &small)[0].undo.is_none(), "an eighth of tcp_mem");
        let mut most = full.clone();
        most.tcp.rmem = Fact::Known([4096, 131072, i32::MAX as u64]);
        assert!(found(&CHECK, &most)[0].undo.is_none(), "the kernel takes no more");
    }
}
