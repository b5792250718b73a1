//! A path on which full packets vanish without an ICMP message, while small packets arrive.

use super::{Check, CheckRun};
use crate::source::{ESNET_MTU, IP_SYSCTL};
use crate::{Citation, Finding, Path};

pub(super) const CHECK: Check = Check {
    name: "mtu-black-hole",
    about: "a path on which full packets vanish, so that connections open and then hang",
    sources: &[
        Citation {
            name: "RFC 2923, TCP problems with path MTU discovery",
            url: "https://www.rfc-editor.org/rfc/rfc2923",
        },
        ESNET_MTU,
        IP_SYSCTL,
    ],
    run: CheckRun::Path(of),
};

fn of(path: &Path<'_>) -> Option<Finding> {
    let bytes = path.measured.black_hole?;
    let (from, to) = (path.from.name, path.to.name);
    let finding = Finding::leaves(0.0, path.rate(), format!("packets of {bytes} bytes vanish between {from} and {to}: an MTU black hole"))
        .evidence("a connection to the ssh server is made and small packets are acknowledged, but full packets are never acknowledged, or never arrive")
        .evidence("either a device on the path forwards only smaller packets, and its ICMP message isn't sent or is filtered; or a firewall rule at one of the ends drops full packets")
        .evidence(format!("the doctor didn't read the facts of {to}: they would vanish too, and ssh would wait forever"));
    Some(
        finding
            .fix(format!(
                "nft list ruleset and iptables-save at both ends show whether a rule drops full packets; otherwise let ICMP (type 3 code 4; ICMPv6 type 2) through the firewalls, or give both ends the MTU of the path (tracepath -n {to} shows where the MTU falls); until then: sysctl -w net.ipv4.tcp_mtu_probing=1 at both ends"
            ))
            .undo("sysctl -w net.ipv4.tcp_mtu_probing with the previous value")
            .conflict("tcp_mtu_probing finds the size by losing packets: each new connection first waits a few seconds"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{fixture, found_between, lines};

    #[test]
    fn packets_that_vanish_are_named_and_other_paths_are_not() {
        let host = fixture("stock-10g");
        let measured =
            |black_hole| PathMeasurements { black_hole, rtt: Some(0.01), ..PathMeasurements::default() };
        let found = |hole| found_between(&CHECK, &host, &host, measured(hole));
        assert_eq!(lines(&found(Some(1500))), ["mtu-black-hole - critical 0.00 bit/s"]);
        assert!(found(None).is_empty());
    }
}
