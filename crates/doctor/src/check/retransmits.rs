//! Segments sent again since boot, against what one connection keeps at that loss even nearby.

use super::{Check, Run};
use crate::formula::{bdp, gbit, trip};
use crate::source::{RFC_9438, SNMP};
use crate::{Finding, Host, Severity};

/// Fewer segments tell nothing.
const ENOUGH: u64 = 1_000_000;

pub(super) const CHECK: Check = Check {
    name: "retransmits",
    about: "many segments were sent again since boot",
    sources: &[SNMP, RFC_9438],
    run: Run::Host(|host| of(host).into_iter().collect()),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let counters = host.facts.tcp.counters.known()?;
    let (sent, again) = (*counters.get("OutSegs")?, *counters.get("RetransSegs")?);
    let loss = again as f64 / sent.max(1) as f64;
    let one = bdp::cubic(1448.0, trip::NEAR, loss);
    if sent < ENOUGH || one >= host.rate() {
        return None;
    }
    let timeouts = counters.get("TCPTimeouts").copied().unwrap_or(0);
    let finding =
        Finding::leaves(one, host.rate(), format!("{:.3} % of the segments were sent again", loss * 100.0))
            .at_most(Severity::Minor)
            .evidence(format!(
                "{again} of {sent} segments since boot, on all paths together; \
                    {timeouts} timeouts"
            ))
            .evidence(format!(
                "at 0.2 ms one connection keeps {}, at 10 ms {}",
                gbit(one),
                gbit(bdp::cubic(1448.0, trip::REGION, loss))
            ))
            .fix(
                "find the path: linerate doctor --path A B; ss -ti shows each \
                    connection's retransmissions",
            )
            .conflict("bpftune switches to bbr beyond 1.5 %, which hides the loss and does not end it");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn a_thousandth_is_too_much_for_ten_gigabits() {
        let lossy = changed("stock-10g", |facts| {
            let Fact::Known(counters) = &mut facts.tcp.counters else { panic!("no counters") };
            counters.insert("RetransSegs".into(), 120_000);
        });
        assert_eq!(lines(&found(&CHECK, &lossy)), ["retransmits - minor 2.2 Gbit/s"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
