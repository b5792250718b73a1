//! The maximum of TCP's buffers, against the bytes in flight at the needed rate.

use linerate_host::facts::Tcp;

use super::{Check, CheckRun};
use crate::formula::{bdp, bytes, gbit, trip};
use crate::source::{ESNET, IP_SYSCTL, TUNED};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "tcp-buffers",
    about: "TCP buffers too small for the need at 10 ms",
    sources: &[IP_SYSCTL, ESNET, TUNED],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let (tcp, need) = (&host.facts.tcp, host.rate());
    let (receive, send) = (tcp.rmem.get()?[2], tcp.wmem.get()?[2]);
    let window = windows(tcp, receive, send);
    let one = bdp::rate(window, trip::REGION);
    if one >= need {
        return None;
    }
    let reach = window * 8.0 / need;
    let title = format!("TCP's buffers limit one connection to {} at 10 ms", gbit(one));
    let finding = Finding::leaves(one, need, title)
        .at_most(Severity::Minor)
        .evidence(format!(
            "tcp_rmem may grow to {}, tcp_wmem to {}",
            bytes(receive as f64),
            bytes(send as f64)
        ))
        .evidence(format!(
            "half of a buffer is window: {} is possible up to a round trip of {:.1} ms",
            gbit(need),
            reach * 1e3
        ))
        .conflict(
            "tuned sets 16 MiB, ESnet 32 MiB below 40 Gbit/s and 256 MiB above; \
             the fix is computed from the need",
        );
    Some(with_commands(finding, tcp, need))
}

/// The smaller window of both directions.
fn windows(tcp: &Tcp, receive: u64, send: u64) -> f64 {
    // About half of a send buffer is payload, as in a receive buffer by default.
    bdp::window(receive, tcp.adv_win_scale.get().unwrap_or(1)).min(bdp::window(send, 1))
}

fn with_commands(finding: Finding, tcp: &Tcp, need: f64) -> Finding {
    let size = (2.0 * bdp::bytes(need, trip::REGION)) as u64;
    let size = size.checked_next_power_of_two().unwrap_or(size);
    let (receive, send) = (tcp.rmem.get().unwrap_or_default(), tcp.wmem.get().unwrap_or_default());
    let command = |r: u64, w: u64| {
        format!(
            "sysctl -w net.ipv4.tcp_rmem='{} {} {r}' net.ipv4.tcp_wmem='{} {} {w}'",
            receive[0], receive[1], send[0], send[1]
        )
    };
    finding.fix(command(receive[2].max(size), send[2].max(size))).undo(command(receive[2], send[2]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn the_usual_six_mebibytes_reach_a_few_milliseconds() {
        let found = found(&CHECK, &fixture("stock-10g"));
        assert_eq!(lines(&found), ["tcp-buffers - minor 1.68 Gbit/s"]);
        assert!(found[0].fix.as_ref().unwrap().contains("'4096 131072 33554432'"), "{:?}", found[0].fix);
        assert!(found[0].undo.as_ref().unwrap().contains("6291456"));
    }

    #[test]
    fn tuned_hosts_and_slow_ports_need_no_more() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("e1000")).is_empty());
    }
}
