//! Guests whose packets QEMU moves instead of the kernel.

use super::{Check, CheckRun};
use crate::source::LIBVIRT;
use crate::subject::begins;
use crate::{Citation, Finding, Host, Severity};
use linerate_host::facts::Port;

/// The beginnings of the names of guests' taps: QEMU's and libvirt's.
const GUESTS: [&str; 2] = ["tap", "vnet"];

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
    let taps: Vec<&Port> = host.linked().filter(|port| begins(&port.driver, "tun")).collect();
    if guests == 0 || threads > 0 || taps.is_empty() {
        return None;
    }
    let device = match machine.vhost_net.get() {
        Some(true) => "/dev/vhost-net exists",
        Some(false) => "/dev/vhost-net is missing",
        None => "it isn't known whether /dev/vhost-net exists",
    };
    let taken = taps.iter().find(|tap| is_taken(host, tap));
    let severity = if taken.is_some() { Severity::Major } else { Severity::Note };
    let finding = Finding::new(severity, "a process, not the kernel, moves the guests' packets")
        .evidence(format!("{guests} guests, {} taps, no vhost thread; {device}", taps.len()))
        .evidence(
            "each packet wakes QEMU, which copies it by system calls; the cost depends on the packets' size",
        )
        .evidence(match taken {
            Some(tap) => format!("the path goes through {}", tap.name),
            None => "this slows the guests' own transfers: transfers of this host pass no tap".into(),
        })
        .fix(
            "modprobe vhost_net; libvirt <driver name='vhost'/>, QEMU -netdev tap,...,vhost=on; \
             then restart the guests",
        )
        .undo("libvirt <driver name='qemu'/>, QEMU vhost=off; then modprobe -r vhost_net")
        .conflict(
            "Firecracker and Cloud Hypervisor have no vhost-net by design, but their guests are counted too",
        );
    Some(finding)
}

/// True for a guest's tap that a path's route names. VPNs have ports of the same driver, but with other names.
fn is_taken(host: &Host<'_>, tap: &Port) -> bool {
    let Some(route) = host.facts.route.known() else { return false };
    let is_guests = GUESTS.iter().any(|start| tap.name.starts_with(start));
    let mut named = route.ports.iter().chain(&route.ways).chain(&route.arrives);
    is_guests && named.any(|name| *name == tap.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;
    use linerate_host::facts::TakenRoute;

    #[test]
    fn taps_without_vhost_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("kvm-host-no-vhost"))), ["no-vhost - note -"]);
    }

    /// A host's own transfers don't pass its guests' taps, unless they go to a guest.
    #[test]
    fn only_a_path_through_a_tap_is_slowed() {
        let over = |port: &str, tap: &str| {
            let facts = changed("kvm-host-no-vhost", |facts| {
                crate::testing::port_of(facts, "tap0").name = tap.into();
                let ports = vec![port.to_owned()];
                facts.route = Fact::Known(TakenRoute { ports, ..TakenRoute::default() });
            });
            lines(&found(&CHECK, &facts))
        };
        assert_eq!(over("tap0", "tap0"), ["no-vhost - major -"]);
        assert_eq!(over("br0", "tap0"), ["no-vhost - note -"], "to the world");
        assert_eq!(over("tun0", "tun0"), ["no-vhost - note -"], "a VPN, beside guests");
    }

    #[test]
    fn threads_of_vhost_are_right_and_other_hosts_have_none() {
        let with = changed("kvm-host-no-vhost", |facts| facts.machine.vhost_threads = Fact::Known(2));
        assert!(found(&CHECK, &with).is_empty());
        assert!(found(&CHECK, &fixture("veth-host")).is_empty());
    }
}
