//! What a function of a real card costs a guest.

use linerate_host::facts::{Kind, Port};

use super::{Check, Run};
use crate::source::{FEDEX, IOV};
use crate::{Finding, Severity};

pub(super) const CHECK: Check = Check {
    name: "sriov-tradeoffs",
    about: "functions are lent or used: what that rules out",
    sources: &[FEDEX, IOV],
    run: Run::Host(|host| host.hardware().filter_map(of).collect()),
};

fn of(port: &Port) -> Option<Finding> {
    let said = match (port.kind.get(), port.vfs.get()) {
        (Some(Kind::VirtualFunction), _) => "is a virtual function".to_owned(),
        (_, Some(lent)) if lent > 0 => {
            format!("has lent {lent} of {} virtual functions", port.total_vfs.get().unwrap_or(lent))
        }
        _ => return None,
    };
    let queues = port.rx_count().get().map_or(String::new(), |queues| format!("; {queues} receive queues"));
    let finding = Finding::new(Severity::Note, format!("{} {said}", port.name))
        .at(&port.name)
        .evidence(format!("driver {}{queues}", port.driver.known().map_or("unknown", String::as_str)))
        .evidence(
            "near the bare host's rate; lost with it: live migration, suspend and resume, fault tolerance, high availability, moving guests by load",
        )
        .fix(
            "nothing, where none of these is needed; else a paravirtual port, or both in a bond (failover pair)",
        )
        .conflict(
            "the functions of a port share its rate and its queues: one busy guest takes from the others unless rates are set (ip link set PORT vf N max_tx_rate)",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn both_sides_are_told() {
        assert_eq!(lines(&found(&CHECK, &fixture("ixgbevf"))), ["sriov-tradeoffs ens5 note -"]);
        assert_eq!(
            lines(&found(&CHECK, &fixture("igb-sriov"))),
            ["sriov-tradeoffs eth0 note -"],
            "the others are down"
        );
    }

    #[test]
    fn a_port_of_its_own_has_none() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
