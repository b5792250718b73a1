//! Connections that restart with a small window after each pause.

use super::{Check, CheckRun};
use crate::formula::{flow, trip};
use crate::source::{IP_SYSCTL, RED_HAT};
use crate::{Finding, Host, Severity};

/// Segments of the first flight (RFC 6928).
const FIRST: f64 = 10.0;

pub(super) const CHECK: Check = Check {
    name: "slow-start-idle",
    about: "connections that restart slowly after a pause",
    sources: &[IP_SYSCTL, RED_HAT],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    // A congestion control that sets its own rate skips the restart (tcp_slow_start_after_idle_check() in include/net/tcp.h).
    let sets_its_rate = host.facts.tcp.congestion_control.known()?.starts_with("bbr");
    if sets_its_rate || !host.facts.tcp.slow_start_after_idle.get()? {
        return None;
    }
    let segments = flow::in_flight(host.rate(), trip::REGION) / 1448.0;
    let trips = (segments / FIRST).log2().ceil().max(0.0);
    if trips < 1.0 {
        return None;
    }
    let finding = Finding::new(Severity::Note, "connections restart slowly after each pause")
        .evidence("tcp_slow_start_after_idle is 1, the kernel's default")
        .evidence(format!(
            "growing from 10 segments to {segments:.0} takes {trips:.0} round trips; if each takes 10 ms, this is {:.0} ms",
            trips * trip::REGION * 1e3
        ))
        .fix("sysctl -w net.ipv4.tcp_slow_start_after_idle=0")
        .undo("sysctl -w net.ipv4.tcp_slow_start_after_idle=1")
        .conflict("RFC 5681 requires it for shared paths; guides for data centres turn it off");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn the_kernels_default_is_noted() {
        let cubic = Fact::Known("cubic".into());
        let host = changed("firecracker", |facts| facts.tcp.congestion_control = cubic);
        assert_eq!(lines(&found(&CHECK, &host)), ["slow-start-idle - note -"]);
        assert!(found(&CHECK, &fixture("firecracker")).is_empty(), "bbr");
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
