//! The maximum of TCP's buffers, compared with the bytes in flight at the needed rate.

use super::{Check, CheckRun};
use crate::formula::{buffer, bytes, flow, gbit, percent, trip};
use crate::remedy::Remedy;
use crate::source::{ESNET, IP_SYSCTL, LEARNED_WINDOW, TUNED};
use crate::{Finding, Host, Severity};

/// Rates of ports in bits a second, each with the maximum of buffers that ESnet's guide sets for ports up to this rate:
/// 32 MiB on paths up to 100 ms, and 64 MiB on paths up to 50 ms. The guide assumes several connections with these
/// buffers.
const ADVISED: [(f64, u64); 2] = [(10e9, 32 << 20), (40e9, 64 << 20)];

pub(super) const CHECK: Check = Check {
    name: "tcp-buffers",
    about: "TCP buffers too small for the needed rate at a round trip of 10 ms",
    sources: &[IP_SYSCTL, LEARNED_WINDOW, ESNET, TUNED],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let (tcp, need) = (&host.facts.tcp, host.rate());
    let (receive, send) = (tcp.rmem.get()?[2], tcp.wmem.get()?[2]);
    let window = buffer::smaller(host.facts, tcp)?;
    let one = flow::rate(window, host.far_trip());
    if one >= need {
        return None;
    }
    let reach = window * 8.0 / need;
    let title = format!(
        "TCP's buffers limit one connection to {} at a round trip of {}",
        gbit(one),
        trip::text(host.far_trip())
    );
    let changes = changes(host, need);
    // If no change is possible, this is only a note: several connections reach the rate.
    let is_note = changes.is_empty() || is_advised(need, receive.min(send));
    let finding = Finding::leaves(one, need, title)
        .at_most(if is_note { Severity::Note } else { Severity::Minor })
        .evidence(format!(
            "tcp_rmem may grow to {}, tcp_wmem to {}",
            bytes(receive as f64),
            bytes(send as f64)
        ))
        .evidence(format!(
            "{} of a receive buffer counts as window{}, and {} of a send buffer can be in flight: {} is possible up to a round trip of {:.1} ms",
            percent(buffer::received(host.facts, receive) / receive.max(1) as f64),
            if buffer::is_learned(host.facts) { " at first, until the kernel has measured the share" } else { "" },
            percent(buffer::sent(send) / send.max(1) as f64),
            gbit(need),
            reach * 1e3
        ))
        .conflict(
            "tuned sets 16 MiB, ESnet 32 MiB at 10 Gbit/s and 64 MiB at 40, for several connections; \
             the fix is computed from the need of one",
        );
    let words =
        "use several streams, as linerate does: this host's memory, or its tcp_mem, allows no larger buffer";
    Some(finding.remedied_or(changes, words))
}

fn is_advised(need: f64, size: u64) -> bool {
    ADVISED.iter().find(|(rate, _)| need <= *rate).is_some_and(|(_, advised)| size >= *advised)
}

fn changes(host: &Host<'_>, need: f64) -> Vec<Remedy> {
    let tcp = &host.facts.tcp;
    let size = |now| buffer::proposed(host.facts, flow::in_flight(need, host.far_trip()), now);
    let (receive, send) = (tcp.rmem.get().unwrap_or_default(), tcp.wmem.get().unwrap_or_default());
    let change = |name: &str, [least, first, most]: [u64; 3]| {
        let value = |most| format!("{least} {first} {most}");
        Remedy::sysctl(&format!("net.ipv4.{name}"), value(most), value(size(most)))
    };
    [change("tcp_rmem", receive), change("tcp_wmem", send)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines, port_of};
    use linerate_host::Fact;

    #[test]
    fn the_usual_six_mebibytes_reach_a_few_milliseconds() {
        let found = found(&CHECK, &fixture("stock-10g"));
        assert_eq!(lines(&found), ["tcp-buffers - minor 2.52 Gbit/s"]);
        assert!(found[0].fix.as_ref().unwrap().contains("'4096 131072 33554432'"), "{:?}", found[0].fix);
        assert!(found[0].undo.as_ref().unwrap().contains("6291456"));
    }

    #[test]
    fn what_a_guide_sets_for_such_a_port_is_a_note() {
        let with = |mbps, most| {
            let host = changed("stock-10g", |facts| {
                port_of(facts, "eno1").speed_mbps = Fact::Known(mbps);
                (facts.tcp.rmem, facts.tcp.wmem) =
                    (Fact::Known([4096, 87_380, most]), Fact::Known([4096, 65_536, most]));
            });
            lines(&found(&CHECK, &host))
        };
        assert_eq!(with(40_000, 64 << 20), ["tcp-buffers - note 26.8 Gbit/s"]);
        assert_eq!(with(40_000, 32 << 20), ["tcp-buffers - minor 13.4 Gbit/s"]);
        assert_eq!(with(100_000, 64 << 20), ["tcp-buffers - minor 26.8 Gbit/s"]);
        assert!(with(10_000, 32 << 20).is_empty());
    }

    /// A guest of 173 MiB, with the kernel's own values.
    #[test]
    fn small_hosts_are_advised_no_more_than_their_memory_for_connections() {
        let small = |rmem: u64| {
            let host = changed("stock-10g", |facts| {
                (facts.memory.total, facts.tcp.mem) =
                    (Fact::Known(182_000_000), Fact::Known([1641, 2188, 3282]));
                (facts.tcp.rmem, facts.tcp.wmem) =
                    (Fact::Known([4096, 131_072, rmem]), Fact::Known([4096, 16_384, rmem]));
            });
            found(&CHECK, &host).remove(0)
        };
        let as_large = small(1_120_256);
        assert!(as_large.remedies.is_empty() && as_large.severity == Severity::Note, "{as_large:?}");
        assert!(as_large.fix.unwrap().starts_with("use several streams"));
        assert!(small(262_144).fix.unwrap().contains("tcp_rmem='4096 131072 1120256'"), "2188 pages / 8");
    }

    #[test]
    fn tuned_hosts_and_slow_ports_need_no_more() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("e1000")).is_empty());
    }
}
