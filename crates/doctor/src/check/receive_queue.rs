//! Segments that arrived and found no room: the program read too slowly, or the buffer was too small.

use super::{Check, Run};
use crate::formula::bytes;
use crate::source::{IP_SYSCTL, SNMP};
use crate::{Finding, Host, Severity};

/// Share of the segments received from which it isn't chance.
const OFTEN: f64 = 1e-6;
/// What the kernel counts when there is no room.
const COUNTERS: [&str; 5] =
    ["TCPRcvQDrop", "TCPBacklogDrop", "PruneCalled", "RcvPruned", "TCPZeroWindowDrop"];

pub(super) const CHECK: Check = Check {
    name: "receive-queue",
    about: "segments arrived and found no room in their socket",
    sources: &[SNMP, IP_SYSCTL],
    run: Run::HostOne(of),
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
    let finding = Finding::new(Severity::Minor, "segments arrived and found no room in their socket")
        .evidence(format!("{named}; of {received} segments received since boot"))
        .evidence(format!("buffers grow to {}", bytes(most as f64)))
        .fix(format!("sysctl -w net.ipv4.tcp_rmem='{least} {usual} {}'", most.saturating_mul(2)))
        .undo(format!("sysctl -w net.ipv4.tcp_rmem='{least} {usual} {most}'"))
        .conflict(
            "a larger buffer helps against bursts; where the program is too slow, it only waits in another place",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn drops_are_told_by_name() {
        let full = changed("stock-10g", |facts| {
            let Fact::Known(counters) = &mut facts.tcp.counters else { panic!("no counters") };
            counters.insert("TCPBacklogDrop".into(), 5_000);
        });
        let told = found(&CHECK, &full);
        assert_eq!(lines(&told), ["receive-queue - minor -"]);
        assert!(told[0].evidence[0].starts_with("TCPBacklogDrop 5000;"));
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
