//! vmxnet3 with one queue: receive side scaling is off in the guest, or on the hypervisor.

use linerate_host::facts::Port;

use super::virtio_one_queue::one_queue;
use super::{Check, CheckRun};
use crate::source::{SCALING, VMWARE_NIC};
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "vmxnet3-one-queue",
    about: "vmxnet3 with one queue for several processors",
    sources: &[VMWARE_NIC, SCALING],
    run: CheckRun::Host(|host| host.devices().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    // From its start on, the driver has as many queues as processors, and it has no function that changes the number
    // (vmxnet3_ethtool_ops).
    let finding = one_queue(host, port, "vmxnet3")?;
    Some(
        finding
            .fix(
                "on the hypervisor: ethernet0.pnicFeatures = \"4\" and NetQueue on, and a recent hardware version of the virtual machine; \
                 then restart the guest: vmxnet3 chooses its queues when it is loaded, one for each processor if it gets MSI-X \
                 interrupts (/proc/interrupts)",
            )
            .undo("remove the line from the .vmx, and restart the guest"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines, port_of};
    use linerate_host::Fact;

    #[test]
    fn one_queue_is_noted_and_costly_with_small_packets() {
        let name = "vmxnet3-one-queue";
        assert_eq!(lines(&found(&CHECK, &fixture(name))), ["vmxnet3-one-queue ens192 note 21.0 Gbit/s"]);
        let fast = changed(name, |facts| {
            let port = port_of(facts, "ens192");
            (port.mtu, port.speed_mbps) = (Fact::Known(1500), Fact::Known(25_000));
        });
        assert_eq!(lines(&found(&CHECK, &fast)), ["vmxnet3-one-queue ens192 critical 12.3 Gbit/s"]);
    }

    #[test]
    fn a_queue_for_each_processor_is_right() {
        assert!(found(&CHECK, &fixture("vmxnet3")).is_empty());
    }
}
