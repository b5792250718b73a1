//! Connections that restart with a small window after each pause.

use super::{Check, CheckRun};
use crate::formula::flow;
use crate::source::{IP_SYSCTL, RED_HAT};
use crate::{Finding, Host, Severity};

/// The number of segments that a connection sends first (RFC 6928).
const FIRST: f64 = 10.0;

pub(super) const CHECK: Check = Check {
    name: "slow-start-idle",
    about: "connections that restart slowly after a pause",
    sources: &[IP_SYSCTL, RED_HAT],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    // A congestion control that sets its own rate skips the restart (tcp_slow_start_after_idle_check() in
    // include/net/tcp.h).
    let sets_its_rate = host.facts.tcp.congestion_control.known()?.starts_with("bbr");
    if sets_its_rate || !host.facts.tcp.slow_start_after_idle.get()? {
        return None;
    }
    // If no path was measured, the kernel's default isn't a fault.
    let rtt = host.rtt?;
    let segments = flow::in_flight(host.rate(), rtt) / 1448.0;
    let trips = (segments / FIRST).log2().ceil().max(0.0);
    if trips < 1.0 {
        return None;
    }
    let finding = Finding::new(Severity::Note, "connections restart slowly after each pause")
        .evidence("tcp_slow_start_after_idle is 1, the kernel's default")
        .evidence(format!(
            "growing from 10 segments to {segments:.0} takes {trips:.0} round trips, together {:.0} ms",
            trips * rtt * 1e3
        ))
        .fix("sysctl -w net.ipv4.tcp_slow_start_after_idle=0")
        .undo("sysctl -w net.ipv4.tcp_slow_start_after_idle=1")
        .conflict("RFC 5681 requires it for shared paths; guides for data centres turn it off");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;
    use crate::testing::fixture;
    use linerate_host::Fact;

    #[test]
    fn the_kernels_default_is_noted_on_a_path() {
        let noted = |control: &str, rtt| {
            let mut facts = fixture("firecracker");
            facts.tcp.congestion_control = Fact::Known(control.into());
            of(&Host { rtt, ..Host::alone("h", &facts, Need::OfPorts) }).map(|finding| finding.severity)
        };
        assert_eq!(noted("cubic", Some(0.02)), Some(Severity::Note));
        assert_eq!(noted("cubic", Some(1e-6)), None, "the first flight fills the path");
        assert_eq!(noted("cubic", None), None);
        assert_eq!(noted("bbr", Some(0.02)), None);
    }
}
