//! The disadvantages of virtual functions for guests.

use linerate_host::facts::{Port, PortKind};

use super::{Check, CheckRun};
use crate::source::{FEDEX, IOV};
use crate::{Finding, Severity};

pub(super) const CHECK: Check = Check {
    name: "sriov-tradeoffs",
    about: "virtual functions in use, and the features that they rule out",
    sources: &[FEDEX, IOV],
    run: CheckRun::Host(|host| {
        // A guest can't choose its port.
        let is_given =
            |port: &Port| !host.is_physical() && port.kind.get() == Some(PortKind::VirtualFunction);
        host.hardware().filter(|port| !is_given(port)).filter_map(of).collect()
    }),
};

fn of(port: &Port) -> Option<Finding> {
    let use_ = match (port.kind.get(), port.vfs.get()) {
        (Some(PortKind::VirtualFunction), _) => "is a virtual function".to_owned(),
        (_, Some(lent)) if lent > 0 => {
            format!("gives {lent} of {} virtual functions to guests", port.total_vfs.get().unwrap_or(lent))
        }
        _ => return None,
    };
    let queues = port.rx_count().get().map_or(String::new(), |queues| format!("; {queues} receive queues"));
    let finding = Finding::new(Severity::Note, format!("{} {use_}", port.name))
        .at(&port.name)
        .evidence(format!("driver {}{queues}", port.driver.known().map_or("unknown", String::as_str)))
        .evidence(
            "nearly the bare host's rate, \
             but without live migration, suspend and resume, fault tolerance, high availability, \
             and load balancing of guests",
        )
        .fix(
            "change nothing if you need none of these features; otherwise use a paravirtual port, or both in a bond (failover pair)",
        )
        .conflict(
            "the functions of a port share its rate and queues: \
             one busy guest slows the others unless rates are set (ip link set PORT vf N max_tx_rate)",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn a_host_that_lends_functions_is_found_and_a_guest_that_has_one_is_not() {
        assert!(found(&CHECK, &fixture("ixgbevf")).is_empty());
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
