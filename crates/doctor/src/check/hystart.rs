//! CUBIC's slow start that ends when acknowledgements come close together.

use super::{Check, CheckRun, processors};
use crate::formula::flow;
use crate::{Citation, Finding, Host, Severity};

const DETECT: &str = "/sys/module/tcp_cubic/parameters/hystart_detect";

pub(super) const CHECK: Check = Check {
    name: "hystart",
    about: "slow starts that ended early because acknowledgements arrived close together",
    sources: &[Citation {
        name: "Google Cloud, TCP optimization for network performance",
        url: "https://cloud.google.com/compute/docs/networking/tcp-optimization-for-network-performance-in-gcp-and-hybrid",
    }],
    run: CheckRun::HostOne(of),
};

/// The share of a full window below which slow start ended early. If nothing joins acknowledgements, a train of them
/// ends slow start at half of what the path holds, or later if the sender paces (hystart_update() in
/// net/ipv4/tcp_cubic.c). This share is half of that half.
const EARLY: f64 = 0.25;

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    // Counters since boot belong to paths that aren't known.
    host.facts.counted_seconds.get()?;
    let (rtt, counters) = (host.rtt?, tcp.counters.known()?);
    let (ended, windows) = (*counters.get("TCPHystartTrainDetect")?, *counters.get("TCPHystartTrainCwnd")?);
    let detect = tcp.hystart_detect.get()?;
    // Bit 0 stands for trains of acknowledgements, bit 1 for a growing delay.
    if ended == 0 || detect & 1 == 0 {
        return None;
    }
    let window = windows as f64 / ended as f64;
    let needed = flow::in_flight(host.rate(), rtt) / 1448.0 / processors::STREAMS;
    if window >= needed * EARLY {
        return None;
    }
    let finding = Finding::new(Severity::Note, "trains of acknowledgements ended CUBIC's slow start early")
        .evidence(format!(
            "{ended} slow starts ended at {window:.0} segments in the mean; each of {} connections needs {needed:.0}",
            processors::STREAMS
        ))
        .evidence(format!("hystart_detect is {detect}: CUBIC interprets acknowledgements that arrive close together as a full path"))
        .evidence("cards and virtual switches that join packets cause such trains; the connection then grows slowly")
        .fix(format!("echo 2 > {DETECT}"))
        .undo(format!("echo {detect} > {DETECT}"))
        .conflict("Google advises this between its own instances; on paths with small buffers a longer slow start loses more packets");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture;
    use crate::{Finding, Need};
    use linerate_host::Fact;
    use std::collections::BTreeMap;

    /// The finding on a host of 10 Gbit/s over 20 ms, on which three slow starts ended at a mean window of `window`
    /// segments.
    fn found(window: u64, detect: u32, seconds: Fact<f64>) -> Option<Finding> {
        let mut facts = fixture("stock-10g");
        let counters = [("TCPHystartTrainDetect", 3), ("TCPHystartTrainCwnd", 3 * window)];
        facts.tcp.counters = Fact::Known(counters.map(|(name, count)| (name.to_owned(), count)).into());
        facts.tcp.hystart_detect = Fact::Known(detect);
        facts.counted_seconds = seconds;
        of(&Host { rtt: Some(0.02), ..Host::alone("h", &facts, Need::OfPorts) })
    }

    #[test]
    fn it_is_noted_where_slow_starts_ended_early() {
        // 25 MB in flight: each of eight connections needs 2,158 segments.
        let during = || Fact::Known(4.0);
        let early = found(60, 3, during()).unwrap();
        assert_eq!(early.severity, Severity::Note);
        assert_eq!(
            early.evidence[0],
            "3 slow starts ended at 60 segments in the mean; each of 8 connections needs 2158"
        );
        assert!(found(1_000, 3, during()).is_none(), "at about half of what the path holds");
        assert!(found(60, 2, during()).is_none(), "by the delay only");
        assert!(found(60, 3, Fact::NotApplicable).is_none(), "since boot");
        let mut none = fixture("stock-10g");
        (none.tcp.counters, none.counted_seconds) = (Fact::Known(BTreeMap::new()), during());
        assert!(of(&Host { rtt: Some(0.02), ..Host::alone("h", &none, Need::OfPorts) }).is_none());
    }
}
