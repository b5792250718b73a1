//! Segments retransmitted since boot, and the rate that a connection reaches at that loss, even to a near
//! host.

use super::path_loss::bears_loss;
use super::{Check, CheckRun};
use crate::formula::flow;
use crate::formula::goodput::Segments;
use crate::source::{RFC_9438, SNMP};
use crate::{Finding, Host, Severity};

/// With fewer sent segments the share isn't significant.
const LEAST_SEGMENTS: u64 = 1_000_000;
/// The share of losses that healthy hosts may have: a shared network loses segments now and then.
const USUAL: f64 = 2e-5;

pub(super) const CHECK: Check = Check {
    name: "retransmits",
    about: "many retransmitted segments since boot",
    sources: &[SNMP, RFC_9438],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let counters = host.facts.tcp.counters.known()?;
    let (sent, again) = (*counters.get("OutSegs")?, *counters.get("RetransSegs")?);
    let loss = again as f64 / sent.max(1) as f64;
    let segment = Segments::usual(mtu(host)).payload();
    let rate = |rtt| flow::cubic(segment, rtt, loss);
    let one = rate(host.near_trip());
    if sent < LEAST_SEGMENTS || loss < USUAL || one >= host.rate() {
        return None;
    }
    let timeouts = counters.get("TCPTimeouts").copied().unwrap_or(0);
    let title = format!("{:.3} % of the segments were retransmitted", loss * 100.0);
    let counts =
        format!("{again} of {sent} segments {}, on all paths together; {timeouts} timeouts", host.since());
    let finding = if bears_loss(host) {
        Finding::new(Severity::Note, title)
            .evidence(counts)
            .evidence("the congestion control is bbr, which keeps its rate at losses of a few percent")
    } else {
        Finding::leaves(one, host.rate(), title)
            .at_most(Severity::Minor)
            .evidence(counts)
            .evidence(format!("with this loss, {}", host.reached(rate)))
    };
    let finding = finding
        .fix(
            "find the lossy path: linerate doctor --path A B; ss -ti shows each connection's retransmissions",
        )
        .conflict("bpftune switches to bbr above 1.5 %, which hides the loss but doesn't end it");
    Some(finding)
}

/// MTU of the fastest device.
fn mtu(host: &Host<'_>) -> u32 {
    let fastest = host.devices().max_by_key(|port| port.speed_mbps.get());
    fastest.and_then(|port| port.mtu.get()).unwrap_or(1500)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::facts::Tcp;
    use linerate_host::{Fact, Facts};

    #[test]
    fn a_thousandth_is_too_much_for_ten_gigabits() {
        let lossy = changed("stock-10g", |facts| {
            let Fact::Known(counters) = &mut facts.tcp.counters else { panic!("no counters") };
            counters.insert("RetransSegs".into(), 120_000);
        });
        assert_eq!(lines(&found(&CHECK, &lossy)), ["retransmits - minor 2.24 Gbit/s"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        let bears = Facts {
            tcp: Tcp { congestion_control: Fact::Known("bbr".into()), ..lossy.tcp.clone() },
            ..lossy
        };
        assert_eq!(lines(&found(&CHECK, &bears)), ["retransmits - note -"], "bbr bears it");
    }
}
