//! The rate of tools that wait for several round trips at each file.

use super::{Check, CheckRun};
use crate::formula::{bytes, flow, gbit};
use crate::source::{FEDEX, HPN};
use crate::{Citation, Finding, Path, Severity};

/// The mean size in bytes of the files that the papers copied.
const FILE: f64 = 1.6e6;
/// Round trips of sftp for each file, in addition to sending its data: open, setstat, close.
const TRIPS: f64 = 3.0;

pub(super) const CHECK: Check = Check {
    name: "path-rtt",
    about: "a path so long that tools which wait for round trips at each file are slow",
    sources: &[
        FEDEX,
        Citation {
            name: "SSH File Transfer Protocol, draft 02: each request has an answer",
            url: "https://datatracker.ietf.org/doc/html/draft-ietf-secsh-filexfer-02",
        },
        HPN,
    ],
    run: CheckRun::Path(of),
};

fn of(path: &Path<'_>) -> Option<Finding> {
    let (rtt, need) = (path.measured.rtt?, path.rate());
    let sending = FILE * 8.0 / need;
    let waiting = TRIPS * rtt;
    if waiting < sending / 2.0 {
        return None;
    }
    let rate = FILE * 8.0 / (sending + waiting);
    let finding = Finding::leaves(
        rate,
        need,
        format!("round trip of {:.1} ms: tools that wait for each file reach {}", rtt * 1e3, gbit(rate)),
    )
    .at_most(Severity::Note)
    .evidence(format!(
        "round trip {:.2} ms: {} are in flight at {}",
        rtt * 1e3,
        bytes(flow::in_flight(need, rtt)),
        gbit(need)
    ))
    .evidence(format!(
        "a file of 1.6 MB takes {:.1} ms to send, and {TRIPS} round trips of {:.1} ms",
        sending * 1e3,
        rtt * 1e3
    ))
    .fix(
        "use a tool that doesn't wait for each file (linerate cp, rsync, tar; scp and sftp do wait), or run several copies at once",
    )
    .conflict("nothing on the hosts can shorten the distance");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{fixture, found_between, lines};

    fn at(rtt: f64) -> Vec<String> {
        let measured = PathMeasurements { rtt: Some(rtt), ..PathMeasurements::default() };
        lines(&found_between(&CHECK, &fixture("stock-10g"), &fixture("stock-10g"), measured))
    }

    #[test]
    fn far_hosts_are_noted_and_near_ones_are_not() {
        assert_eq!(at(0.05), ["path-rtt - note 84.6 Mbit/s"]);
        assert!(at(0.0001).is_empty());
    }
}
