//! A card that could give virtual functions to guests, and gives none.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::source::{FEDEX, IOV};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "sriov-available",
    about: "guests that share a card which could give each a virtual function",
    sources: &[IOV, FEDEX],
    run: CheckRun::Host(|host| host.hardware().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let (most, lent, guests) = (port.total_vfs.get()?, port.vfs.get()?, host.facts.machine.guests.get()?);
    if most == 0 || lent > 0 || guests == 0 {
        return None;
    }
    let iommu = match host.facts.machine.iommu.get() {
        Some(true) => "an IOMMU is in use",
        Some(false) => {
            "no IOMMU is in use: turn it on first, in the firmware (with Intel's processors also intel_iommu=on on the kernel's command line)"
        }
        None => "use of an IOMMU is unknown",
    };
    let finding =
        Finding::new(Severity::Note, format!("{} could give {most} virtual functions to guests", port.name))
            .at(&port.name)
            .evidence(format!("{guests} guests; {lent} of {most} virtual functions in use; {iommu}"))
            .evidence("in the papers, a guest with a device of its own was nearly as fast as the bare host")
            .fix(format!(
                "echo {} > /sys/class/net/{}/device/sriov_numvfs; then give each guest one by VFIO",
                guests.min(most),
                port.name
            ))
            .undo(format!("echo 0 > /sys/class/net/{}/device/sriov_numvfs", port.name))
            .conflict(
                "most hypervisors can't migrate, \
                 suspend or make fault tolerant a guest with a virtual function; \
                 VMDq is another feature, with which the hypervisor still moves the packets",
            );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn a_card_that_lends_none_is_noted() {
        assert_eq!(lines(&found(&CHECK, &fixture("kvm-host-no-vhost"))), ["sriov-available ens2f0 note -"]);
    }

    #[test]
    fn one_that_does_and_one_that_cannot_are_not() {
        assert!(found(&CHECK, &fixture("igb-sriov")).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
