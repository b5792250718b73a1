//! Prints one port.

use linerate_host::Fact;
use linerate_host::facts::{
    Bond, FunctionRate, Irq, Media, Offload, Pci, PciLink, Port, PortCounters, PortKind, Qdisc, Rss, RxQueue,
    TxQueue,
};
use std::collections::BTreeMap;

use super::module;
use super::table::{joined, line, named, on_off, ranges, row, section, shown};

/// Features that make transfers faster: the kernel's name, and the name that is printed.
const OFFLOADS: [(&str, &str); 7] = [
    ("tx-checksum-ip-generic", "tx checksum"),
    ("rx-checksum", "rx checksum"),
    ("tx-tcp-segmentation", "TSO"),
    ("tx-generic-segmentation", "GSO"),
    ("rx-gro", "GRO"),
    ("rx-lro", "LRO"),
    ("rx-hashing", "rx hashing"),
];

/// The section about a port, as lines.
pub fn lines(port: &Port) -> Vec<String> {
    let mut rows = about(port);
    rows.extend(module::rows(port));
    rows.extend(slot(&port.pci));
    rows.extend(queues(port));
    rows.extend(settings(port));
    rows.extend(structure(port));
    rows.extend(losses(port));
    section(&format!("port {}", port.name), rows)
}

fn about(port: &Port) -> Vec<String> {
    let driver = joined([
        port.driver.known().cloned(),
        port.driver_version.known().cloned(),
        named("firmware", &port.firmware),
        port.kind.known().map(|kind| shown_kind(*kind).to_owned()),
    ]);
    let link = joined([
        port.state.known().cloned(),
        port.speed_mbps.known().map(|speed| format!("{speed} Mbit/s")),
        named("duplex", &port.duplex),
        named("MTU", &port.mtu),
        port.media.known().map(|media| shown_media(*media).to_owned()),
    ]);
    vec![row("driver", driver), row("link", link)]
}

fn shown_media(media: Media) -> &'static str {
    match media {
        Media::TwistedPair => "twisted pair",
        Media::Fibre => "fibre",
        Media::DirectAttach => "direct-attach copper",
        Media::Old => "old connector",
        Media::Nothing => "empty",
        Media::Other => "other connector",
    }
}

fn shown_kind(kind: PortKind) -> &'static str {
    match kind {
        PortKind::Physical => "physical",
        PortKind::VirtualFunction => "virtual function",
        PortKind::Emulated => "emulated",
        PortKind::Paravirtual => "paravirtual",
        PortKind::Software => "the kernel's own",
    }
}

fn slot(pci: &Fact<Pci>) -> Vec<String> {
    let Fact::Known(pci) = pci else { return line("slot", pci, |_| String::new()).into_iter().collect() };
    let ids = match (pci.vendor.known(), pci.device.known()) {
        (Some(vendor), Some(device)) => Some(format!("[{vendor:04x}:{device:04x}]")),
        _ => None,
    };
    let parts = joined([
        Some(pci.address.clone()),
        ids,
        link(&pci.link),
        named("NUMA node", &pci.numa_node),
        named("payload", &pci.max_payload),
    ]);
    let bridges = pci.bridges.iter().filter_map(|bridge| {
        Some(row("below bridge", format!("{}, {}", bridge.address, link(&bridge.link)?)))
    });
    [row("slot", parts)].into_iter().chain(bridges).collect()
}

fn link(link: &PciLink) -> Option<String> {
    let now = format!("{} GT/s x{}", link.speed.known()?, link.width.known()?);
    match (link.max_speed.known(), link.max_width.known()) {
        (Some(speed), Some(width)) => Some(format!("{now} of {speed} GT/s x{width}")),
        _ => Some(now),
    }
}

fn queues(port: &Port) -> Vec<String> {
    let counts = format!(
        "{} to receive, {} to send",
        shown(&port.rx_count(), u32::to_string),
        shown(&port.tx_count(), u32::to_string)
    );
    let most =
        port.channels.known().map(|channels| format!(", at most {} to receive", channels.max_receiving()));
    let spread = |rss: &Rss| {
        let shares: Vec<String> = rss.slots.iter().map(|(ring, slots)| format!("{ring}: {slots}")).collect();
        if shares.is_empty() { "no table".into() } else { format!("slots of rings {}", shares.join(", ")) }
    };
    let mut rows = vec![row("queues", counts + most.as_deref().unwrap_or_default())];
    rows.extend(line("RSS", &port.rss, spread));
    rows.extend(line("interrupts", &port.interrupts, |irqs| interrupts(irqs)));
    rows.extend(steering(port));
    rows
}

fn interrupts(irqs: &[Irq]) -> String {
    let mut by_cpu: BTreeMap<u32, u64> = BTreeMap::new();
    for (cpu, count) in irqs.iter().filter_map(|irq| irq.counts.known()).flatten() {
        let sum = by_cpu.entry(*cpu).or_default();
        *sum = sum.saturating_add(*count);
    }
    let shares: Vec<String> = by_cpu.iter().map(|(cpu, count)| format!("CPU {cpu}: {count}")).collect();
    format!(
        "{}, since boot {}",
        irqs.len(),
        if shares.is_empty() { "none".into() } else { shares.join(", ") }
    )
}

/// The queues whose packets are steered to certain processors (RPS, XPS); `None` if there are none.
fn steering(port: &Port) -> Option<String> {
    let rx = |queue: &RxQueue| {
        let cpus = queue.rps_cpus.known().filter(|cpus| !cpus.is_empty())?;
        Some(format!("rx-{} to {}", queue.number, ranges(cpus)))
    };
    let tx = |queue: &TxQueue| {
        let cpus = queue.xps_cpus.known().filter(|cpus| !cpus.is_empty())?;
        Some(format!("tx-{} from {}", queue.number, ranges(cpus)))
    };
    let received = port.rx_queues.known().into_iter().flatten().filter_map(rx);
    let sent = port.tx_queues.known().into_iter().flatten().filter_map(tx);
    let all: Vec<String> = received.chain(sent).collect();
    (!all.is_empty()).then(|| row("steering", all.join(", ")))
}

fn settings(port: &Port) -> Vec<String> {
    let offloads = |all: &BTreeMap<String, Offload>| {
        let show = |(name, short): &(&str, &str)| {
            let offload = all.get(*name)?;
            Some(format!("{short} {}", if offload.on { "on" } else { "off" }))
        };
        OFFLOADS.iter().filter_map(show).collect::<Vec<_>>().join(", ")
    };
    let lines = [
        line("rings", &port.rings, |r| format!("rx {} of {}, tx {} of {}", r.rx, r.max_rx, r.tx, r.max_tx)),
        line("coalescing", &port.coalescing, |c| {
            let adaptive = if c.adaptive_rx { ", adaptive" } else { "" };
            format!("rx {} us or {} frames{adaptive}; tx {} us", c.rx_usecs, c.rx_frames, c.tx_usecs)
        }),
        line("offloads", &port.offloads, offloads),
        line("pause frames", &port.pause, |p| {
            let switch = |name, on| on_off(name, &Fact::Known(on));
            joined([switch("obeyed", p.rx), switch("sent", p.tx), switch("agreed on", p.autoneg)])
        }),
        line("qdisc", &port.qdiscs, |all| qdiscs(all)),
    ];
    lines.into_iter().flatten().collect()
}

fn qdiscs(all: &[Qdisc]) -> String {
    if all.is_empty() {
        return "no qdisc".into();
    }
    let mut names: Vec<&str> = all.iter().map(|qdisc| qdisc.kind.as_str()).collect();
    names.dedup();
    let drops = all.iter().filter(|qdisc| qdisc.root).map(|qdisc| qdisc.drops).fold(0, u64::saturating_add);
    format!("{}, {drops} dropped", names.join(" > "))
}

fn structure(port: &Port) -> Vec<String> {
    let bond = |bond: &Bond| {
        joined([
            bond.mode.known().cloned(),
            named("hash", &bond.hash_policy),
            bond.slaves.known().map(|slaves| format!("of {}", slaves.join(" "))),
        ])
    };
    let lines = [
        line("function of", &port.physical_function, Clone::clone),
        line("virtual functions", &port.total_vfs, |total| {
            format!("{} of {total}", shown(&port.vfs, u32::to_string))
        }),
        line("functions' rates", &port.function_rates, |all| function_rates(all)),
        line("belongs to", &port.master, Clone::clone),
        line("bond", &port.bond, bond),
        line("VLAN", &port.vlan, |vlan| format!("{} on {}", vlan.id, vlan.lower)),
        vlans(port),
        line("VLAN filtering", &port.vlan_filtering, |on| if *on { "on" } else { "off" }.into()),
        line("bridge of", &port.bridge_ports, |names| names.join(" ")),
    ];
    lines.into_iter().flatten().collect()
}

fn function_rates(all: &[FunctionRate]) -> String {
    let bound = |word, mbps: Option<u64>| Some(format!(" {word} {} Mbit/s", mbps?));
    let each = |rate: &FunctionRate| {
        let bounds = [bound("at least", rate.min_mbps), bound("at most", rate.max_mbps)];
        format!("vf {}{}", rate.number, bounds.into_iter().flatten().collect::<String>())
    };
    all.iter().map(each).collect::<Vec<_>>().join(", ")
}

/// The VLANs above the port, and the work on VLAN tags that the device does.
fn vlans(port: &Port) -> Option<String> {
    line("VLANs", &port.vlans, |all| {
        let names: Vec<String> = all.iter().map(|vlan| format!("{} ({})", vlan.id, vlan.name)).collect();
        let trunk = if all.len() > 1 { "trunk of " } else { "" };
        joined([
            Some(format!("{trunk}{}", names.join(", "))),
            on_off("filter", &port.offload("rx-vlan-filter")),
            on_off("tags read", &port.offload("rx-vlan-hw-parse")),
            on_off("tags written", &port.offload("tx-vlan-hw-insert")),
        ])
    })
}

/// The counters of losses that aren't 0.
fn losses(port: &Port) -> Option<String> {
    let PortCounters { rx_errors, rx_dropped, rx_missed, rx_fifo, rx_crc, tx_errors, tx_dropped, .. } =
        &port.counters;
    let named = [
        ("rx errors", rx_errors),
        ("rx dropped", rx_dropped),
        ("rx missed", rx_missed),
        ("rx fifo", rx_fifo),
        ("rx CRC", rx_crc),
        ("tx errors", tx_errors),
        ("tx dropped", tx_dropped),
    ];
    let some = named.iter().filter_map(|(name, fact)| {
        let count = fact.get().filter(|count| *count > 0)?;
        Some(format!("{name} {count}"))
    });
    let some: Vec<String> = some.collect();
    (!some.is_empty()).then(|| row("losses", some.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_a_qdisc_says_so() {
        assert_eq!(qdiscs(&[]), "no qdisc");
        let of = |kind: &str, root, drops| Qdisc { kind: kind.into(), root, drops, ..Qdisc::default() };
        let all = [of("mq", true, 7), of("fq", false, 3), of("fq", false, 4)];
        assert_eq!(qdiscs(&all), "mq > fq, 7 dropped");
    }
}
