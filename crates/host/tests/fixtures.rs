//! Facts of the hosts in tests/fixtures. Each host is a snapshot; make a new one with `linerate facts
//! --snapshot`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use linerate_host::facts::{Media, Port, PortKind};
use linerate_host::{Fact, Facts, Snapshot};
use serde_json::Value;

fn fixtures() -> BTreeMap<String, Snapshot> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    files
        .map(|path| (name(&path), Snapshot::open(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"))))
        .collect()
}

fn host(name: &str) -> Facts {
    Facts::of_snapshot(&fixtures()[name])
}

fn port<'a>(facts: &'a Facts, name: &str) -> &'a Port {
    facts.port(name).unwrap_or_else(|| panic!("{name}: {:?}", facts.ports))
}

#[test]
fn every_host_is_read_whole() {
    let all = fixtures();
    assert!(all.len() >= 20, "{:?}", all.keys());
    for (name, snapshot) in all {
        let facts = Facts::of_snapshot(&snapshot);
        let reasons = reasons(&serde_json::to_value(&facts).unwrap());
        let unexpected: Vec<_> = reasons.iter().filter(|reason| !reason.contains("config")).collect();
        assert!(unexpected.is_empty(), "{name}: {unexpected:?}");
        assert!(facts.ports.known().is_some_and(|ports| !ports.is_empty()), "{name}");
        assert!(facts.cpu.cores.known().is_some(), "{name}");
        assert_eq!(Snapshot::parse(&snapshot.to_text()).unwrap(), snapshot, "{name}");
    }
}

#[test]
fn facts_survive_json() {
    for (name, snapshot) in fixtures() {
        let facts = Facts::of_snapshot(&snapshot);
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<Facts>(&json).unwrap(), facts, "{name}");
    }
}

#[test]
fn each_port_is_of_its_kind() {
    let kinds = [
        ("bare-gen1-x4", "eth2", PortKind::Physical),
        ("mlx5-25g-tuned", "ens1f0np0", PortKind::Physical),
        ("e1000e-desktop", "eno1", PortKind::Physical),
        ("e1000", "eth0", PortKind::Emulated),
        ("virtio-one-queue", "eth0", PortKind::Paravirtual),
        ("vmxnet3", "ens192", PortKind::Paravirtual),
        ("ena", "ens5", PortKind::Paravirtual),
        ("gve", "ens4", PortKind::Paravirtual),
        ("hv-netvsc", "eth0", PortKind::Paravirtual),
        ("xen-netfront", "eth0", PortKind::Paravirtual),
        ("ixgbevf", "ens5", PortKind::VirtualFunction),
        ("igb-sriov", "eth1", PortKind::VirtualFunction),
        ("bond-layer2", "bond0", PortKind::Software),
        ("veth-host", "veth1a", PortKind::Software),
    ];
    for (name, wanted, kind) in kinds {
        let facts = host(name);
        assert_eq!(port(&facts, wanted).kind, Fact::Known(kind), "{name}");
    }
}

#[test]
fn guests_are_distinguished_from_real_machines() {
    let of = |name| host(name).machine.hypervisor();
    assert_eq!(of("bare-gen1-x4"), Fact::NotApplicable);
    let named = [
        ("virtio-one-queue", "QEMU"),
        ("vmxnet3", "VMware"),
        ("ena", "Amazon EC2"),
        ("gve", "Google Compute Engine"),
        ("hv-netvsc", "Hyper-V"),
        ("xen-netfront", "xen"),
        ("firecracker", "KVM"),
    ];
    for (name, hypervisor) in named {
        assert_eq!(of(name), Fact::Known(hypervisor.into()), "{name}");
    }
}

#[test]
fn a_slots_lanes_and_those_of_every_bridge_are_reported() {
    let facts = host("bare-gen1-x4");
    let pci = port(&facts, "eth2").pci.known().unwrap();
    assert_eq!((pci.link.speed.get(), pci.link.width.get()), (Some(2.5), Some(4)));
    assert_eq!((pci.link.max_width.get(), pci.device.get()), (Some(8), Some(0x10c6)));
    let facts = host("narrow-bridge");
    let pci = port(&facts, "enp5s0").pci.known().unwrap();
    let bridges: Vec<_> =
        pci.bridges.iter().map(|b| (b.address.as_str(), b.link.width.get().unwrap())).collect();
    assert_eq!(bridges, [("0000:03:01.0", 8), ("0000:02:00.0", 1), ("0000:00:1c.0", 1)]);
    let facts = host("mlx5-25g-tuned");
    let pci = port(&facts, "ens1f0np0").pci.known().unwrap();
    assert_eq!((pci.max_payload.get(), pci.max_read_request.get()), (Some(256), Some(512)));
    // A virtio port has its parent's.
    let facts = host("virtio-one-queue");
    assert_eq!(port(&facts, "eth0").pci.known().unwrap().address, "0000:00:02.0");
}

#[test]
fn interrupts_are_reported_with_their_places() {
    let facts = host("dual-socket-far-nic");
    let far = port(&facts, "enp129s0f0");
    let irqs = far.interrupts.known().unwrap();
    assert_eq!((irqs.len(), &irqs[3].affinity), (8, &Fact::Known(vec![3])));
    assert_eq!(irqs[3].counts, Fact::Known(BTreeMap::from([(3, 9_000_000)])));
    assert_eq!(far.pci.known().unwrap().numa_node, Fact::Known(1));
    let nodes = facts.cpu.nodes.known().unwrap();
    let has = |node: usize, cpu| nodes[node].cpus.known().is_some_and(|cpus| cpus.contains(&cpu));
    assert!(has(0, 3) && has(1, 8), "{nodes:?}");
    // A plain PCI card's only one is on its pin, virtio's are its parent's.
    let facts = host("e1000");
    assert_eq!(port(&facts, "eth0").interrupts.known().map(Vec::len), Some(1));
    let facts = host("virtio-four-queues");
    let names: Vec<_> =
        port(&facts, "eth0").interrupts.known().unwrap().iter().map(|irq| irq.name.clone()).collect();
    assert!(names.contains(&Fact::Known("virtio1-input.3".into())), "{names:?}");
}

#[test]
fn what_drivers_answer_is_reported() {
    let facts = host("stock-10g");
    let stock = port(&facts, "eno1");
    assert_eq!(stock.rings.known().map(|r| (r.rx, r.max_rx)), Some((512, 4096)));
    assert_eq!(stock.statistics.known().unwrap()["rx_no_dma_resources"], 40_211);
    assert_eq!((stock.counters.rx_missed.get(), stock.pause.get().unwrap().rx), (Some(40_211), true));
    assert_eq!((stock.media.get(), stock.offload("rx-lro")), (Some(Media::Fibre), Fact::Known(false)));
    let facts = host("virtio-one-queue");
    let virtio = port(&facts, "eth0");
    assert_eq!(virtio.channels.known().map(|c| (c.receiving(), c.max_receiving())), Some((1, 1)));
    assert_eq!(virtio.offload("tx-tcp-segmentation"), Fact::Known(false));
    let facts = host("igb-sriov");
    let lender = port(&facts, "eth0");
    assert_eq!((lender.total_vfs.get(), lender.vfs.get()), (Some(7), Some(2)));
    assert_eq!(port(&facts, "eth2").physical_function, Fact::Known("0000:01:00.0".into()));
    assert_eq!(lender.rss.known().unwrap().slots, BTreeMap::from([(0, 64), (1, 64)]));
}

#[test]
fn what_is_above_ports_is_reported() {
    let facts = host("bond-layer2");
    let bond = port(&facts, "bond0").bond.known().unwrap();
    assert_eq!(
        (bond.mode.known().unwrap().as_str(), bond.hash_policy.known().unwrap().as_str()),
        ("802.3ad", "layer2")
    );
    assert_eq!(bond.slaves.known().unwrap().len(), 2);
    assert_eq!(port(&facts, "eth1").master, Fact::Known("bond0".into()));
    let facts = host("fibre-trunk");
    let above = port(&facts, "eno1").vlans.known().unwrap();
    let above: Vec<_> = above.iter().map(|vlan| (vlan.name.as_str(), vlan.id)).collect();
    assert_eq!(above, [("eno1.10", 10), ("eno1.20", 20)]);
    let vlan = port(&facts, "eno1.20");
    assert_eq!(vlan.vlan.known().map(|vlan| (vlan.id, vlan.lower.as_str())), Some((20, "eno1")));
    assert_eq!((&vlan.vlans, &vlan.module), (&Fact::NotApplicable, &Fact::NotApplicable));
    let facts = host("kvm-host-no-vhost");
    assert_eq!(port(&facts, "br0").bridge_ports.known().unwrap().len(), 3);
    assert_eq!((facts.machine.guests.get(), facts.machine.vhost_threads.get()), (Some(2), Some(0)));
}

#[test]
fn the_module_and_the_link_modes_of_a_port_are_reported() {
    let facts = host("fibre-trunk");
    let fibre = port(&facts, "eno1");
    assert_eq!(fibre.modes_in_force(), Fact::Known(vec!["10GBASE-SR".into()]));
    let module = fibre.module.known().unwrap();
    assert_eq!((module.fastest_mbps(), module.max_watts.get()), (Some(10_000), Some(1.0)));
    let metres = module.reach.known().unwrap().iter().map(|reach| (reach.name.as_str(), reach.metres));
    assert_eq!(metres.collect::<Vec<_>>(), [("OM3", 300.0), ("OM2", 80.0), ("OM1", 30.0)]);
    assert_eq!(module.rx_power.known().and_then(|light| light.lowest()), Some(0.0021));
}

/// Removes sources at random: each fact that is still known has the same value as before.
#[test]
fn without_some_sources_no_value_is_another() {
    let mut random = fastrand::Rng::with_seed(5);
    for (name, snapshot) in fixtures() {
        let before = serde_json::to_value(Facts::of_snapshot(&snapshot)).unwrap();
        let paths: Vec<String> = snapshot.paths().collect();
        // Each source alone, then many at once.
        for path in &paths {
            unchanged(&name, &before, &snapshot, &[path]);
        }
        for _ in 0..60 {
            let keep = random.u32(..100);
            let gone: Vec<&String> = paths.iter().filter(|_| random.u32(..100) >= keep).collect();
            unchanged(&name, &before, &snapshot, &gone);
        }
    }
}

/// Texts that no kernel would write make no reader panic.
#[test]
fn mangled_texts_are_survived() {
    let mut random = fastrand::Rng::with_seed(7);
    let odd = ["", "-", "18446744073709551616", "-1", "0x", "\u{e9}", ":", "/", "0-4294967295", "ffffffff,"];
    for (name, snapshot) in fixtures() {
        let text = snapshot.to_text();
        for _ in 0..40 {
            let mut mangled = |text: &str| match random.u32(..12) {
                0 => text.chars().take(random.usize(..=text.len())).collect(),
                1 => text.replace(char::is_numeric, odd[random.usize(..odd.len())]),
                2 => text.replacen(' ', odd[random.usize(..odd.len())], 2),
                _ => text.to_owned(),
            };
            // Paths and signs stay, so that it is still a snapshot.
            let mut line = |line: &str| match line.split_once(" = ") {
                _ if line.starts_with("  ") => format!("  {}", mangled(line)),
                Some((path, text)) if line.starts_with('/') => format!("{path} = {}", mangled(text)),
                _ => line.to_owned(),
            };
            let lines: Vec<String> = text.lines().map(&mut line).collect();
            let facts = Facts::of_snapshot(&Snapshot::parse(&lines.join("\n")).unwrap());
            assert!(serde_json::to_string(&facts).is_ok(), "{name}");
        }
    }
}

fn unchanged(name: &str, before: &Value, snapshot: &Snapshot, gone: &[&String]) {
    let mut rest = snapshot.clone();
    for path in gone {
        assert!(rest.remove(path), "{name}: {path}");
    }
    let after = serde_json::to_value(Facts::of_snapshot(&rest)).unwrap();
    if let Some(place) = differs(before, &after) {
        let few: Vec<_> = gone.iter().take(3).collect();
        panic!("{name} without {few:?} and others ({} in all): {place}", gone.len());
    }
}

/// The first place whose value has changed, unless it has become unknown.
fn differs(before: &Value, after: &Value) -> Option<String> {
    let is_unknown = after == "not_applicable" || after.get("unreadable").is_some();
    match (before, after) {
        _ if is_unknown || before == after => None,
        (Value::Object(old), Value::Object(new)) if old.keys().eq(new.keys()) => {
            old.iter().find_map(|(key, old)| differs(old, &new[key]).map(|place| format!("{key}.{place}")))
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => old
            .iter()
            .zip(new)
            .enumerate()
            .find_map(|(at, (old, new))| differs(old, new).map(|place| format!("{at}.{place}"))),
        _ => Some(format!(" {before} became {after}")),
    }
}

fn reasons(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("unreadable").and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(fields.values().flat_map(reasons)).collect()
        }
        Value::Array(values) => values.iter().flat_map(reasons).collect(),
        _ => Vec::new(),
    }
}
