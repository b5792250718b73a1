//! Receive buffers that don't grow beyond their default.

use super::{Check, CheckRun};
use crate::finding::Way;
use crate::formula::{buffer, bytes, flow, gbit, trip};
use crate::remedy::Remedy;
use crate::source::{ESNET, IP_SYSCTL};
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "tcp-autotuning",
    about: "receive buffers that don't grow automatically",
    sources: &[IP_SYSCTL, ESNET],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    if tcp.moderate_rcvbuf.get()? {
        return None;
    }
    let first = tcp.rmem.get()?[1];
    let window = buffer::received(host.facts, first);
    let one = flow::rate(window, host.near_trip());
    let finding = Finding::leaves(one, host.rate(), format!("receive windows stay at {}", bytes(window)))
        .only(Way::Receives)
        .evidence("tcp_moderate_rcvbuf is 0")
        .evidence(format!(
            "tcp_rmem starts at {}: at a round trip of {} one connection reaches {}",
            bytes(first as f64),
            trip::text(host.near_trip()),
            gbit(one)
        ))
        .remedied(Remedy::sysctl("net.ipv4.tcp_moderate_rcvbuf", 0, 1));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, found_over, lines};
    use linerate_host::Fact;

    #[test]
    fn fixed_windows_are_costly_and_growing_ones_are_not() {
        let off = changed("stock-10g", |facts| facts.tcp.moderate_rcvbuf = Fact::Known(false));
        assert_eq!(lines(&found(&CHECK, &off)), ["tcp-autotuning - critical 2.62 Gbit/s"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert_eq!(lines(&found_over(&CHECK, &off, 0.01)), ["tcp-autotuning - critical 52.4 Mbit/s"]);
    }
}
