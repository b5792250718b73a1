//! Pause frames: a host that pauses the other end, or that loses packets because it doesn't pause the other end.

use linerate_host::facts::{Pause, Port};

use super::{Check, CheckRun, processors};
use crate::source::{ESNET_NIC, RED_HAT};
use crate::{Finding, Host, Severity};

/// Drivers' counters of sent pause frames.
const SENT: [&str; 5] =
    ["tx_flow_control_xoff", "tx_pause_ctrl_phy", "tx_prio0_pause", "tx_pause", "tx_global_pause"];

/// Pauses for each received packet below which their cost is negligible. A card lets the other end resume as soon as its buffer
/// has drained a little, after about 100 packets (64 to 128 KiB): one pause in 10,000 packets is 1 % of the time.
const FELT: f64 = 1e-4;

pub(super) const CHECK: Check = Check {
    name: "flow-control",
    about: "sent pause frames, or lost packets that pause frames would have prevented",
    sources: &[ESNET_NIC, RED_HAT],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(of).collect()
}

fn of(port: &Port) -> Option<Finding> {
    let pause = port.pause.known()?;
    let missed = port.counters.rx_missed.get().unwrap_or(0);
    match (stopped(port), pause.tx) {
        (Some((name, count)), _) => Some(stops(port, name, count)),
        (None, false) if missed > 0 => Some(loses(port, missed, pause)),
        _ => None,
    }
}

fn stopped(port: &Port) -> Option<(&str, u64)> {
    let all = port.statistics.known()?;
    let sent = SENT.iter().find_map(|name| all.get_key_value(*name).filter(|(_, count)| **count > 0));
    sent.map(|(name, count)| (name.as_str(), *count))
}

fn stops(port: &Port, name: &str, count: u64) -> Finding {
    let received = port.counters.rx_packets.get();
    let is_felt = received.is_some_and(|received| count as f64 >= received as f64 * FELT);
    let of =
        received.map_or_else(String::new, |received| format!(", while {received} packets were received"));
    Finding::new(
        if is_felt { Severity::Minor } else { Severity::Note },
        format!("{} paused the other end {count} times because it could not keep up", port.name),
    )
    .at(&port.name)
    .evidence(format!("{name}: {count}{of}"))
    .fix("make the host receive faster (see the other findings): pauses are only a symptom")
    .conflict(
        "ESnet (if the switch's buffers are small) and storage guides turn flow control on; \
             others turn it off, because a pause stops all flows of the port, not just the one at fault",
    )
}

fn loses(port: &Port, missed: u64, pause: &Pause) -> Finding {
    Finding::new(Severity::Note, format!("{} lost packets that pause frames could have saved", port.name))
        .at(&port.name)
        .evidence(format!("rx_missed_errors: {missed}; pause frames are not sent"))
        .fix(format!("ethtool -A {} rx on tx on; and the same at the switch", port.name))
        .undo(processors::pauses_as_now(port, pause))
        .conflict(
            "a pause stops all flows of the port; a larger ring or more queues avoid that; \
            the command resets the link",
        )
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn pauses_that_were_sent_are_found() {
        let many = edited("stock-10g", "eno1", |port| port.counters.rx_packets = Fact::Known(8_000_000));
        assert_eq!(lines(&found(&CHECK, &many)), ["flow-control eno1 minor -"]);
    }

    #[test]
    fn a_few_pauses_are_a_note() {
        assert_eq!(lines(&found(&CHECK, &fixture("stock-10g"))), ["flow-control eno1 note -"]);
    }

    #[test]
    fn losses_without_pauses_are_a_note() {
        let host = edited("stock-10g", "eno1", |port| {
            port.pause = Fact::Known(Pause::default());
            port.statistics = Fact::Known(std::collections::BTreeMap::new());
        });
        assert_eq!(lines(&found(&CHECK, &host)), ["flow-control eno1 note -"]);
        let obeys = edited("stock-10g", "eno1", |port| {
            port.pause = Fact::Known(Pause { rx: true, ..Pause::default() });
            port.statistics = Fact::Known(std::collections::BTreeMap::new());
        });
        assert_eq!(found(&CHECK, &obeys)[0].undo.as_deref(), Some("ethtool -A eno1 rx on tx off"));
    }

    #[test]
    fn a_quiet_port_is_not() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("igb-sriov")).is_empty());
    }
}
