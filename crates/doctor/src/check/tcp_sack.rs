//! Without selective acknowledgements, each lost segment costs a round trip.

use super::{Check, CheckRun};
use crate::formula::{flow, trip};
use crate::remedy::Remedy;
use crate::source::{ESNET, IP_SYSCTL};
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "tcp-sack",
    about: "selective acknowledgements that are off",
    sources: &[
        Citation {
            name: "RFC 2018, TCP selective acknowledgment options",
            url: "https://www.rfc-editor.org/rfc/rfc2018",
        },
        IP_SYSCTL,
        ESNET,
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    if host.facts.tcp.sack.get()? {
        return None;
    }
    let in_flight = flow::in_flight(host.rate(), trip::REGION) / 1448.0;
    let finding = Finding::new(Severity::Minor, "each lost segment costs a round trip")
        .evidence("tcp_sack is 0")
        .evidence(format!(
            "at a round trip of 10 ms, {in_flight:.0} segments are in flight; if 10 of them are lost, the repair takes 0.1 s"
        ))
        .remedied(Remedy::sysctl("net.ipv4.tcp_sack", 0, 1))
        .conflict(
            "old guides for 10 Gbit/s cards and those of 2019 (SACK Panic, CVE-2019-11477) turn it off; \
             later kernels are fixed",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn off_is_found_and_on_is_not() {
        let off = changed("stock-10g", |facts| facts.tcp.sack = Fact::Known(false));
        assert_eq!(lines(&found(&CHECK, &off)), ["tcp-sack - minor -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
