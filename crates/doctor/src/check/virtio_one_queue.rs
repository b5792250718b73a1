//! virtio with one queue, so that one processor of the guest receives all packets.

use linerate_host::facts::{Facts, Port};

use super::{Check, CheckRun, processors};
use crate::finding::Way;
use crate::formula::{cpu, gbit};
use crate::remedy::{Queues, Remedy, Setting};
use crate::source::{LIBVIRT, MULTIQUEUE, SCALING};
use crate::{Citation, Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "virtio-one-queue",
    about: "virtio with one queue for several processors",
    sources: &[
        MULTIQUEUE,
        LIBVIRT,
        SCALING,
        Citation {
            name: "virtio-win, issue 237: slower with several queues",
            url: "https://github.com/virtio-win/kvm-guest-drivers-windows/issues/237",
        },
    ],
    run: CheckRun::Host(|host| host.devices().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let finding = one_queue(host, port, "virtio_net")?;
    let possible = port.channels.known().map_or(1, linerate_host::facts::Channels::max_receiving);
    let cores = cores(host)?;
    let finding = match (possible, host.fixed_by()) {
        (0 | 1, Some(monitor)) => {
            return Some(finding.fix(format!(
                "{monitor} gives a port one queue: spread the packets in software (see rps-off-one-queue)"
            )));
        }
        (0 | 1, None) => finding
            .fix(format!(
                "on the hypervisor: libvirt <driver name='vhost' queues='{cores}'/>; \
                 QEMU -netdev tap,...,vhost=on,queues={cores} -device virtio-net-pci,mq=on,vectors={}",
                2 * cores + 2
            ))
            .undo("the same without queues="),
        _ if processors::refuses_queues(port) => finding.fix(processors::WITH_XDP),
        _ => {
            let channels = Setting::Channels { port: port.name.clone(), queues: Queues::Combined };
            finding.remedied(Remedy::of(channels, 1, possible.min(cores)))
        }
    };
    Some(finding.conflict(format!(
        "with few connections, several queues can be slower than one; \
         if the hypervisor supports only one, set RPS instead; {}",
        processors::kept_table(port)
    )))
}

/// The number of processors that may receive packets; isolated ones don't.
pub(super) fn cores(host: &Host<'_>) -> Option<u32> {
    processors::housekeepers(host).and_then(|cpus| u32::try_from(cpus.len()).ok())
}

/// The finding for a port of this driver with one receive queue, in a guest with several processors.
pub(super) fn one_queue(host: &Host<'_>, port: &Port, driver: &str) -> Option<Finding> {
    let (queues, cores) = (port.rx_count().get()?, cores(host)?);
    if port.driver.known()? != driver || queues != 1 {
        return None;
    }
    let (mtu, need, aggregated) = (port.mtu.get()?, host.rate_of(port)?, aggregated(port)?);
    let band = cpu::connection(mtu, aggregated);
    let finding = Finding::leaves(
        band.low,
        need,
        format!("one of {cores} processors receives all packets of {}", port.name),
    )
    .only(Way::Receives)
    .at(&port.name)
    .evidence(format!("{queues} receive queue for {cores} processors{}", spread(host.facts, port)))
    .evidence(format!(
        "a core receives {} to {} at MTU {mtu}, {} joined packets; needed: {}",
        gbit(band.low),
        gbit(band.high),
        if aggregated { "with" } else { "without" },
        gbit(need)
    ));
    Some(finding)
}

/// True if received packets reach TCP joined. A hypervisor that takes no large packets from a guest gives it no large
/// packets either.
fn aggregated(port: &Port) -> Option<bool> {
    Some(port.offload("rx-gro").get()? && port.offload("tx-tcp-segmentation").get()?)
}

fn spread(facts: &Facts, port: &Port) -> &'static str {
    let spreads =
        |queue: &linerate_host::facts::RxQueue| queue.rps_cpus.known().is_some_and(|cpus| cpus.len() > 1);
    let is_spread = facts
        .port(&port.name)
        .and_then(|port| port.rx_queues.known())
        .is_some_and(|queues| queues.iter().any(spreads));
    if is_spread { ", spread by RPS" } else { "" }
}

#[cfg(test)]
mod tests {
    /// While the driver runs an XDP program, virtnet_set_channels() refuses any change.
    #[test]
    fn a_driver_with_a_program_gets_no_more_queues() {
        let with = |xdp| {
            let host = crate::testing::edited("virtio-one-queue", "eth0", |port| {
                let channels =
                    linerate_host::facts::Channels { max_combined: 4, combined: 1, ..Default::default() };
                port.channels = linerate_host::Fact::Known(channels);
                let layer = linerate_host::facts::PortLayer { xdp, ..Default::default() };
                port.layer = linerate_host::Fact::Known(layer);
            });
            found(&CHECK, &host).remove(0)
        };
        assert_eq!(with(Some(1)).remedies, []);
        assert!(with(Some(1)).fix.unwrap().contains("XDP") && with(Some(2)).remedies.len() == 1);
    }

    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn one_queue_without_offloads_is_costly() {
        let found = found(&CHECK, &fixture("virtio-one-queue"));
        assert_eq!(lines(&found), ["virtio-one-queue eth0 major 6.15 Gbit/s"]);
        assert!(found[0].fix.as_ref().unwrap().contains("queues='2'"));
    }

    #[test]
    fn no_queues_are_asked_of_a_monitor_that_has_one() {
        let desktop = crate::testing::changed("virtio-one-queue", |facts| {
            facts.kernel = linerate_host::Fact::Known("6.10.14-linuxkit".into());
        });
        for (facts, monitor) in
            [(fixture("firecracker"), "a monitor such as Firecracker"), (desktop, "Docker Desktop")]
        {
            let fix = found(&CHECK, &facts).remove(0).fix.unwrap();
            assert!(fix.starts_with(&format!("{monitor} gives a port one queue")), "{fix}");
        }
    }

    #[test]
    fn several_queues_and_other_devices_are_not_found() {
        assert!(found(&CHECK, &fixture("virtio-four-queues")).is_empty());
        assert!(found(&CHECK, &fixture("vmxnet3-one-queue")).is_empty());
    }
}
