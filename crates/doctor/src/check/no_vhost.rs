//! Guests whose packets QEMU moves instead of the kernel.

use super::{Check, CheckRun};
use crate::source::LIBVIRT;
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "no-vhost",
    about: "guests whose packets QEMU moves instead of the kernel",
    sources: &[
        LIBVIRT,
        Citation { name: "KVM, UsingVhost", url: "https://www.linux-kvm.org/page/UsingVhost" },
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let machine = &host.facts.machine;
    let (guests, threads) = (machine.guests.get()?, machine.vhost_threads.get()?);
    let taps = host.linked().filter(|port| port.driver.known().is_some_and(|driver| driver == "tun")).count();
    if guests == 0 || threads > 0 || taps == 0 {
        return None;
    }
    let device = match machine.vhost_net.get() {
        Some(true) => "/dev/vhost-net exists",
        Some(false) => "/dev/vhost-net is missing",
        None => "it isn't known whether /dev/vhost-net exists",
    };
    let finding = Finding::new(Severity::Major, "a process, not the kernel, moves the guests' packets")
        .evidence(format!("{guests} guests, {taps} taps, no vhost thread; {device}"))
        .evidence(
            "each packet wakes QEMU, which copies it by system calls; the cost depends on the packets' size",
        )
        .fix(
            "modprobe vhost_net; libvirt <driver name='vhost'/>, QEMU -netdev tap,...,vhost=on; \
             then restart the guests",
        )
        .undo("libvirt <driver name='qemu'/>, QEMU vhost=off; then modprobe -r vhost_net")
        .conflict(
            "Firecracker and Cloud Hypervisor have no vhost-net by design, but their guests are counted here",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn taps_without_vhost_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("kvm-host-no-vhost"))), ["no-vhost - major -"]);
    }

    #[test]
    fn threads_of_vhost_are_right_and_other_hosts_have_none() {
        let with = changed("kvm-host-no-vhost", |facts| facts.machine.vhost_threads = Fact::Known(2));
        assert!(found(&CHECK, &with).is_empty());
        assert!(found(&CHECK, &fixture("veth-host")).is_empty());
    }
}
