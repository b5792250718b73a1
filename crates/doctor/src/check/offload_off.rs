//! Offloads that are off: aggregation of received packets, segmentation of sent ones, checksums.

use linerate_host::Fact;
use linerate_host::facts::Port;

use super::{Check, CheckRun, processors};
use crate::finding::Way;
use crate::formula::{cpu, gbit};
use crate::remedy::{Remedy, Setting};
use crate::source::{RED_HAT, SEGMENTATION, STACK};
use crate::{Finding, Host, Severity};

/// The features that compute checksums of sent packets: of any packets, or of IPv4's and IPv6's.
const CHECKSUMS: [&str; 3] = ["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];

/// The feature of sending a packet from several pieces of memory.
const SCATTER: &str = "tx-scatter-gather";

pub(super) const CHECK: Check = Check {
    name: "offload-off",
    about: "segmentation, aggregation or checksums that a port leaves to the processor",
    sources: &[SEGMENTATION, STACK, RED_HAT],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    let each = |port| {
        [
            receiving(host, port),
            sending(host, port),
            received_checksums(host, port),
            sent_checksums(host, port),
        ]
    };
    host.devices().flat_map(each).flatten().collect()
}

/// The finding that GRO and LRO are both off: then TCP handles each received packet by itself.
fn receiving(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let is_joined = port.offload("rx-gro").get()? || port.offload("rx-lro").get() == Some(true);
    if is_joined {
        return None;
    }
    Some(costs(host, port, "rx-gro", "received packets aren't joined (no GRO)")?.only(Way::Receives))
}

/// The finding that the card doesn't segment. If the kernel doesn't segment either, TCP handles each sent packet by
/// itself.
fn sending(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let (card, kernel) =
        (port.offload("tx-tcp-segmentation").get()?, port.offload("tx-generic-segmentation").get());
    let finding = match (card, kernel) {
        (true, _) => None,
        // A packet holds about as much as TCP sends at a time, so that there is nothing to cut: InfiniBand in connected mode.
        _ if port.mtu.get()? >= WHOLE => None,
        (false, Some(false)) => {
            costs(host, port, "tx-tcp-segmentation", "TCP sends packet by packet (no TSO, no GSO)")
        }
        // The kernel segments late (GSO), which saves a part of the work.
        (false, _) => segmented_by_kernel(host, port),
    };
    Some(finding?.only(Way::Sends))
}

/// The MTU from which a packet holds at least half of the 64 KiB that TCP sends at a time.
const WHOLE: u32 = 32_768;

fn segmented_by_kernel(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let is_felt = processors::received(port, 1)? < host.rate_of(port)? * 2.0;
    let finding = Finding::new(
        Severity::Minor,
        format!("{}: the kernel, not the card, cuts TCP's data into packets (no TSO)", port.name),
    );
    is_felt.then(|| {
        remedy(
            finding.at(format!("{} tx-tcp-segmentation", port.name)).evidence("tx-tcp-segmentation off"),
            host,
            port,
            "tx-tcp-segmentation",
        )
    })
}

fn costs(host: &Host<'_>, port: &Port, feature: &str, what: &str) -> Option<Finding> {
    let (mtu, need) = (port.mtu.get()?, host.rate_of(port)?);
    let band = cpu::connection(mtu, false);
    let (leaves, title) = (band.low, format!("{}: {what}", port.name));
    let finding = if leaves < need {
        Finding::leaves(leaves, need, title)
    } else {
        Finding::new(Severity::Note, title)
    };
    let finding = finding
        .at(format!("{} {feature}", port.name))
        .evidence(format!("{feature} off; packets of {mtu} bytes"))
        .evidence(format!("a connection on one core then reaches {} to {}", gbit(band.low), gbit(band.high)));
    Some(remedy(finding, host, port, feature))
}

fn received_checksums(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let feature = "rx-checksum";
    if port.offload(feature).get()? {
        return None;
    }
    let costs = "each received byte is read once more, before it is copied";
    Some(remedy(by_processor(port, "rx", feature, costs), host, port, feature))
}

fn sent_checksums(host: &Host<'_>, port: &Port) -> Option<Finding> {
    // The kernel keeps them off for InfiniBand in connected mode (ipoib_fix_features() in drivers/infiniband/ulp/ipoib).
    if port.mtu.get().is_some_and(|mtu| mtu >= WHOLE) {
        return None;
    }
    let off = checksums_off(port)?;
    let costs = "without checksums of sent packets, the card can't segment either";
    Some(remedy(by_processor(port, "tx", off[0], costs), host, port, off[0]))
}

fn by_processor(port: &Port, way: &str, feature: &str, costs: &str) -> Finding {
    Finding::new(Severity::Note, format!("{}: the processor computes checksums ({way})", port.name))
        .at(format!("{} {feature}", port.name))
        .evidence(format!("{feature} off; {costs}"))
}

/// If the card computes no checksums of sent packets: the features by which it could. They are either the general one,
/// or one for each version of IP. If the driver can turn none of them on, the general one.
fn checksums_off(port: &Port) -> Option<Vec<&'static str>> {
    let [generic, ipv4, ipv6] = CHECKSUMS;
    // The kernel lists all features, so a missing one may be the one that is on.
    let is_off = |name: &str| Some(!port.offload(name).get()?);
    if !is_off(generic)? || !is_off(ipv4)? || is_off(ipv6) == Some(false) {
        return None;
    }
    let is_its_own = |name: &&str| is_off(name) == Some(true) && !port.has_fixed(name);
    let own: Vec<_> = CHECKSUMS.into_iter().filter(is_its_own).collect();
    Some(if own.is_empty() { vec![generic] } else { own })
}

fn remedy(finding: Finding, host: &Host<'_>, port: &Port, feature: &str) -> Finding {
    let segments = feature == "tx-tcp-segmentation";
    if segments && is_kept_off(port) {
        return finding.fix("r8169 leaves segmentation off, because many of its chips stop sending with segmentation: use another card, or a larger MTU");
    }
    // Without checksums and without packets in several pieces, the kernel refuses segmentation (netdev_fix_features()
    // in net/core/dev.c).
    let sends = feature.starts_with("tx-");
    let mut before = checksums_off(port).filter(|_| sends).unwrap_or_default();
    if segments && port.offload(SCATTER) == Fact::Known(false) {
        if port.has_fixed(SCATTER) {
            return finding.fix("the device can't send a packet from several pieces of memory, which segmentation needs: use another model, or a larger MTU");
        }
        before.push(SCATTER);
    }
    let all = before.into_iter().chain((!CHECKSUMS.contains(&feature)).then_some(feature));
    let of = |feature: &str| Setting::Feature { port: port.name.clone(), feature: feature.into() };
    match (port.has_fixed(feature), port.driver.known().map(String::as_str)) {
        (false, _) => finding.remedied(all.filter_map(|feature| Remedy::of(of(feature), "off", "on"))),
        (true, Some("virtio_net")) if host.fixed_by().is_none() => finding.fix(
            "the hypervisor must offer this offload: QEMU needs a tap with vnet_hdr and virtio-net-pci,csum=on,host_tso4=on,guest_tso4=on",
        ),
        // This advice also applies to a guest whose virtual devices nobody can change.
        (true, _) => finding.fix("the device doesn't support this offload: use another model, or a larger MTU"),
    }
}

/// True for r8169, which leaves segmentation off: commit 95099c569a9f, "r8169: change back SG and TSO to be disabled by
/// default".
fn is_kept_off(port: &Port) -> bool {
    port.driver.known().is_some_and(|driver| driver == "r8169")
}

#[cfg(test)]
mod tests {
    use linerate_host::facts::Offload;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    fn without(features: &[&str]) -> Vec<String> {
        let host = edited("stock-10g", "eno1", |port| {
            let linerate_host::Fact::Known(all) = &mut port.offloads else { panic!("no features") };
            for name in features {
                all.insert((*name).into(), Offload { on: false, fixed: false });
            }
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn each_is_found() {
        assert_eq!(without(&["rx-gro"]), ["offload-off eno1 rx-gro major 6.15 Gbit/s"]);
        let segmentation = "offload-off eno1 tx-tcp-segmentation";
        assert_eq!(
            without(&["tx-tcp-segmentation", "tx-generic-segmentation"]),
            [format!("{segmentation} major 6.15 Gbit/s")]
        );
        assert_eq!(without(&["tx-tcp-segmentation"]), [format!("{segmentation} minor -")]);
        assert_eq!(without(&["rx-checksum"]), ["offload-off eno1 rx-checksum note -"]);
        assert_eq!(without(&["tx-checksum-ip-generic"]), ["offload-off eno1 tx-checksum-ip-generic note -"]);
    }

    /// The kernel refuses segmentation without packets in several pieces.
    #[test]
    fn segmentation_comes_with_packets_in_pieces() {
        let fix = |driver: &str, fixed| {
            let host = edited("stock-10g", "eno1", |port| {
                port.driver = Fact::Known(driver.into());
                let Fact::Known(all) = &mut port.offloads else { panic!("no features") };
                for name in ["tx-tcp-segmentation", "tx-generic-segmentation"] {
                    all.insert(name.into(), Offload { on: false, fixed: false });
                }
                all.insert(SCATTER.into(), Offload { on: false, fixed });
            });
            found(&CHECK, &host)[0].fix.clone().unwrap()
        };
        assert_eq!(fix("ixgbe", false), "ethtool -K eno1 tx-scatter-gather on tx-tcp-segmentation on");
        assert!(fix("ixgbe", true).starts_with("the device can't send"));
        assert!(!fix("r8169", false).contains("ethtool"));
    }

    #[test]
    fn each_direction_of_checksums_has_its_own_cost() {
        let cost = |feature: &str| {
            let host = edited("stock-10g", "eno1", |port| {
                let linerate_host::Fact::Known(all) = &mut port.offloads else { panic!("no features") };
                all.insert(feature.into(), Offload { on: false, fixed: false });
            });
            found(&CHECK, &host)[0].evidence[0].clone()
        };
        assert!(cost("rx-checksum").contains("received byte") && !cost("rx-checksum").contains("sent"));
        assert!(cost("tx-checksum-ip-generic").contains("sent packets"));
    }

    #[test]
    fn lro_is_left_to_the_kernel() {
        // A bridge, a router and Open vSwitch turn LRO off by themselves, and a bond doesn't forward packets.
        let host = edited("stock-10g", "eno1", |port| {
            let linerate_host::Fact::Known(all) = &mut port.offloads else { panic!("no features") };
            all.insert("rx-lro".into(), Offload { on: true, fixed: false });
            port.master = linerate_host::Fact::Known("bond0".into());
        });
        assert!(found(&CHECK, &host).is_empty());
    }

    /// Drivers such as bnxt_en have a feature for each version of IP, and after `ethtool -K PORT tx off`, the kernel
    /// refuses segmentation.
    #[test]
    fn checksums_come_before_segmentation() {
        let host = |segments| {
            edited("stock-10g", "eno1", |port| {
                let linerate_host::Fact::Known(all) = &mut port.offloads else { panic!("no features") };
                all.insert(CHECKSUMS[0].into(), Offload { on: false, fixed: true });
                for name in [CHECKSUMS[1], CHECKSUMS[2], "tx-tcp-segmentation"] {
                    all.insert(name.into(), Offload { on: false, fixed: false });
                }
                all.insert("tx-tcp-segmentation".into(), Offload { on: segments, fixed: false });
            })
        };
        let fixes = |host| {
            let found = found(&CHECK, &host);
            let lines = lines(&found);
            (lines, found.into_iter().next().and_then(|first| first.fix).unwrap_or_default())
        };
        let (lines, fix) = fixes(host(true));
        assert_eq!(lines, ["offload-off eno1 tx-checksum-ipv4 note -"]);
        assert_eq!(fix, "ethtool -K eno1 tx-checksum-ipv4 on tx-checksum-ipv6 on");
        let (lines, fix) = fixes(host(false));
        assert_eq!(lines[0], "offload-off eno1 tx-tcp-segmentation minor -");
        assert_eq!(fix, "ethtool -K eno1 tx-checksum-ipv4 on tx-checksum-ipv6 on tx-tcp-segmentation on");
    }

    #[test]
    fn what_is_on_is_not_found() {
        assert!(without(&[]).is_empty());
        assert!(found(&CHECK, &fixture("virtio-four-queues")).is_empty());
        assert!(without(&["tx-generic-segmentation"]).is_empty(), "the card cuts");
    }
}
