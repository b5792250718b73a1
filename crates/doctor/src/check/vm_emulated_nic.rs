//! Emulated cards in a guest: each access to a register stops the guest.

use linerate_host::facts::{Port, PortKind};

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::{LIBVIRT, VMWARE_NIC};
use crate::subject::speed;
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "vm-emulated-nic",
    about: "a guest with an emulated card instead of a paravirtual one",
    sources: &[VMWARE_NIC, LIBVIRT],
    run: CheckRun::Host(|host| host.devices().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let driver = port.driver.known().filter(|_| port.kind.get() == Some(PortKind::Emulated))?;
    let title = format!("{} is an emulated card ({driver})", port.name);
    let finding = match speed(port).filter(|speed| *speed < host.rate() / 2.0) {
        Some(speed) => Finding::leaves(speed, host.rate(), title).evidence(format!(
            "it reports {}; needed: {}",
            gbit(speed),
            gbit(host.rate())
        )),
        None => Finding::new(Severity::Minor, title),
    };
    let (model, fix) = better(host);
    Some(
        finding
            .at(&port.name)
            .evidence(format!(
                "driver {driver} in a guest of {}",
                host.facts.machine.hypervisor().known().map_or("a hypervisor", String::as_str)
            ))
            .evidence(
                "the card has one queue, and the hypervisor handles each register access; \
                 the cost depends on the hypervisor",
            )
            .fix(fix)
            .undo(format!(
                "the previous model ({driver}); install the driver of {model} in the guest before the change"
            )),
    )
}

fn better(host: &Host<'_>) -> (&'static str, &'static str) {
    match host.facts.machine.hypervisor().known().map(String::as_str) {
        Some("VMware") => (
            "vmxnet3",
            "on the hypervisor: ethernet0.virtualDev = \"vmxnet3\" in the guest's .vmx, \
             or a new adapter of that type",
        ),
        Some("Xen" | "xen") => {
            ("xen-netfront", "on the hypervisor: no model=... in vif, and the guest's xen-netfront")
        }
        Some("Hyper-V") => ("hv_netvsc", "on the hypervisor: a network adapter instead of the legacy one"),
        _ => ("virtio", "on the hypervisor: libvirt <model type='virtio'/>, QEMU -device virtio-net-pci"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;
    use crate::testing::{fixture, found, found_for, lines};

    #[test]
    fn imitated_cards_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("e1000"))), ["vm-emulated-nic eth0 minor -"]);
        let found = found_for(&CHECK, &fixture("e1000"), Need::Target(10e9));
        assert_eq!(lines(&found), ["vm-emulated-nic eth0 critical 1.00 Gbit/s"]);
        assert!(found[0].fix.as_ref().unwrap().contains("virtio"));
    }

    #[test]
    fn real_and_paravirtual_ones_are_not() {
        assert!(found(&CHECK, &fixture("e1000e-desktop")).is_empty());
        assert!(found(&CHECK, &fixture("vmxnet3")).is_empty());
    }
}
