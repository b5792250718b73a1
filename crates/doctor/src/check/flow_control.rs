//! Pause frames: a host that pauses the other end, or that loses packets because it doesn't pause the other end.

use linerate_host::facts::{Pause, Port};

use super::shared::pauses::{self, Pauses};
use super::{Check, CheckRun, processors};
use crate::source::{ESNET_NIC, RED_HAT};
use crate::{Finding, Host, Severity};

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
    match (pauses::sent(port), pause.tx) {
        (Some(pauses), _) => Some(stops(port, pauses)),
        (None, false) if missed > 0 => Some(loses(port, missed, pause)),
        _ => None,
    }
}

fn stops(port: &Port, pauses: Pauses<'_>) -> Finding {
    let received = port.counters.rx_packets.get();
    Finding::new(
        if pauses.are_felt(received) { Severity::Minor } else { Severity::Note },
        format!("{} paused the other end {} times because it could not keep up", port.name, pauses.count),
    )
    .at(&port.name)
    .evidence(pauses.evidence(received, "received"))
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
        .fix(format!(
            "unless priority flow control is on (`dcb pfc show dev {0}`), which RDMA over Ethernet needs: ethtool -A {0} rx on tx on; \
             and the same at the switch",
            port.name
        ))
        .undo(processors::pauses_as_now(port, pause))
        .conflict(
            "a pause stops all flows of the port; a larger ring or more queues avoid that; \
            the command resets the link, and turns priority flow control off on some cards",
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
        let ice = edited("stock-10g", "eno1", |port| {
            port.counters.rx_packets = Fact::Known(8_000_000);
            port.statistics = Fact::Known([("link_xoff_tx.nic".to_owned(), 800)].into());
        });
        assert_eq!(lines(&found(&CHECK, &ice)), ["flow-control eno1 minor -"]);
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
