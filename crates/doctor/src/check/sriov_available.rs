//! A card that could lend functions to guests, and lends none.

use linerate_host::facts::Port;

use super::{Check, Run};
use crate::source::{FEDEX, IOV};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "sriov-available",
    about: "guests share a card that could lend each of them a function",
    sources: &[IOV, FEDEX],
    run: Run::Host(|host| host.hardware().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let (most, lent, guests) = (port.total_vfs.get()?, port.vfs.get()?, host.facts.machine.guests.get()?);
    if most == 0 || lent > 0 || guests == 0 {
        return None;
    }
    let iommu = match host.facts.machine.iommu.get() {
        Some(true) => "an IOMMU is in use",
        Some(false) => "no IOMMU is in use: switch it on first (firmware; intel_iommu=on iommu=pt)",
        None => "whether an IOMMU is in use isn't known",
    };
    let finding =
        Finding::new(Severity::Note, format!("{} could lend {most} functions to guests", port.name))
            .at(&port.name)
            .evidence(format!("{guests} guests; virtual functions: {lent} of {most}; {iommu}"))
            .evidence("the papers' guest had near the bare host's rate with a device of its own")
            .fix(format!(
                "echo {} > /sys/class/net/{}/device/sriov_numvfs; then give each guest one by VFIO",
                guests.min(most),
                port.name
            ))
            .undo(format!("echo 0 > /sys/class/net/{}/device/sriov_numvfs", port.name))
            .conflict(
                "a guest with a function can't be migrated, suspended or made fault tolerant by most hypervisors; SR-IOV isn't VMDq: with that the hypervisor still moves the packets",
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
