//! Pause frames from the other end of the cable: the port has to wait before it continues to send.

use linerate_host::facts::Port;

use super::shared::pauses;
use super::{Check, CheckRun};
use crate::finding::Way;
use crate::source::{ESNET_NIC, RED_HAT};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "paused",
    about: "received pause frames: the switch or the other end is the slow one",
    sources: &[ESNET_NIC, RED_HAT],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(|port| of(host, port)).collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let pauses = pauses::received(port)?;
    // A port that doesn't obey pause frames counts them as well.
    if !port.pause.known()?.rx {
        return None;
    }
    let sent = port.counters.tx_packets.get();
    let severity = if pauses.are_felt(sent) { Severity::Minor } else { Severity::Note };
    let title =
        format!("the other end of {}'s cable paused it {} times {}", port.name, pauses.count, host.since());
    let finding = Finding::new(severity, title)
        .at(&port.name)
        .only(Way::Sends)
        .evidence(pauses.evidence(sent, "sent"))
        .fix(
            "at the other end of the cable, find out why it takes no more packets: on a switch, look for pause frames on \
             other ports and for full ports behind it; on a host, run linerate doctor there",
        )
        .conflict(
            "a pause stops all flows of the port, also those to receivers that are fast enough; \
             without pauses the switch drops packets instead",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;
    use linerate_host::facts::Pause;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    fn with(counter: &str, count: u64, obeys: bool) -> Vec<String> {
        let host = edited("stock-10g", "eno1", |port| {
            port.pause = Fact::Known(Pause { rx: obeys, ..Pause::default() });
            port.counters.tx_packets = Fact::Known(1_000_000);
            port.statistics = Fact::Known([(counter.to_owned(), count)].into());
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn received_pauses_are_found_by_each_drivers_name() {
        for counter in [
            "rx_flow_control_xoff",
            "port.link_xoff_rx",
            "link_xoff_rx.nic",
            "rx_pause_ctrl_phy",
            "rx_pause_frames",
        ] {
            assert_eq!(with(counter, 100, true), ["paused eno1 minor -"], "{counter}");
        }
        assert_eq!(with("rx_pause", 99, true), ["paused eno1 note -"]);
    }

    #[test]
    fn pauses_that_stop_nothing_are_not() {
        assert!(with("rx_pause", 100, false).is_empty(), "the port doesn't obey");
        assert!(with("tx_pause", 100, true).is_empty(), "it sent them");
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
