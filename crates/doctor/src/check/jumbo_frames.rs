//! The cost of headers and packets at the port's MTU, compared with that of jumbo packets.

use linerate_host::facts::{Port, PortKind};

use super::{Check, CheckRun};
use crate::formula::goodput::Segments;
use crate::formula::{cpu, gbit, percent};
use crate::remedy::{Remedy, Setting, commands, undo_commands};
use crate::source::{ESNET_MTU, RED_HAT};
use crate::stack::{Stack, Top};
use crate::subject::{Cloud, begins, speed};
use crate::{Citation, Finding, Host, Need, Severity};

/// The usual size of jumbo packets.
const JUMBO: u32 = 9000;
/// The size that Google advises for large flows: a packet fits into a page. Google's network takes up to 8,896.
const GOOGLES: u32 = 4082;
/// Azure's largest size over Mellanox cards. Over Azure's own cards (driver mana) it is 9000.
const AZURES: u32 = 3900;
/// The size that Alibaba Cloud and Tencent Cloud take from some families of instances. From others they take 1,500
/// bytes.
const SOME_FAMILIES: u32 = 8500;
/// Clouds, by the machine's vendor, whose networks take [`SOME_FAMILIES`].
const WITH_FAMILIES: [&str; 2] = ["Alibaba Cloud", "Tencent Cloud"];
/// Clouds, by the machine's vendor, whose networks take 1,500 bytes or less, or that name no larger size.
const WITHOUT: [&str; 6] = ["Hetzner", "DigitalOcean", "Vultr", "Scaleway", "UpCloud", "Exoscale"];
/// The tag of the chassis of Azure's guests: "MSFT AZURE VM" in character codes.
const AZURES_TAG: &str = "7783-7084-3265-9085-8269-3286-77";
/// From this MTU on, packets count as jumbo ones: some clouds have 8,896 bytes and similar sizes.
const LEAST_JUMBO_MTU: u32 = 8000;

pub(super) const CHECK: Check = Check {
    name: "jumbo-frames",
    about: "more packets a second than one core handles one by one",
    sources: &[
        ESNET_MTU,
        RED_HAT,
        Citation {
            name: "Google Compute Engine, Maximum transmission unit",
            url: "https://cloud.google.com/vpc/docs/mtu",
        },
        Citation {
            name: "Azure, Maximum Transmission Unit for virtual machines: 3900 over Mellanox, 9000 over MANA",
            url: "https://learn.microsoft.com/en-us/azure/virtual-network/how-to-virtual-machine-mtu",
        },
        Citation {
            name: "Alibaba Cloud, MTUs: 1500, or 8500 for some instance families",
            url: "https://www.alibabacloud.com/help/en/ecs/user-guide/mtus/",
        },
        Citation {
            name: "Tencent Cloud, Maximum Transmission Unit: 1500, or 8500 for the latest instances",
            url: "https://www.tencentcloud.com/document/product/213/62620",
        },
        Citation {
            name: "OpenStack Networking, MTU considerations",
            url: "https://docs.openstack.org/neutron/latest/admin/config-mtu.html",
        },
    ],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for found in host.devices().filter_map(|port| of(host, port)) {
        // The members of a bond have one finding.
        if !all.iter().any(|other| other.place == found.place) {
            all.push(found);
        }
    }
    all
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    if is_infiniband(port) {
        return None;
    }
    let stack = Stack::above(host, port)?;
    let need = host.rate_of(port)?;
    let (jumbo, enough) = sizes(host, port)?;
    let judged = judged(host, &stack, enough)?;
    let mtu = judged.mtu.get()?;
    // If ports don't match, mtu-mismatch reports the port at fault.
    if mtu >= enough || stack.is_mismatched() || cpu::receiving(mtu, false).low >= need {
        return None;
    }
    let (now, then) = (Segments::usual(mtu), Segments::usual(jumbo));
    // If the port's own speed is unknown, as in a cloud, the cost is unknown too.
    let is_guess = (speed(port).is_none() || host.is_lent(port)) && host.need == Need::OfPorts;
    let finding = Finding::leaves(
        now.share() * need,
        then.share() * need,
        format!("headers leave {} of {} for payload", percent(now.share()), gbit(need)),
    )
    .at_most(if is_guess { Severity::Note } else { Severity::Minor })
    .at(&judged.name)
    .evidence(format!(
        "MTU {mtu}: {:.0} packets a second, payload {}",
        now.packets(need),
        gbit(now.share() * need)
    ))
    .evidence(format!(
        "MTU {jumbo}: {:.0} packets a second, payload {}",
        then.packets(need),
        gbit(then.share() * need)
    ))
    .conflict(
        "ESnet advises 9000 everywhere; the internet takes 1500, a virtual network of Azure 3900 or 9000 depending on the card (otherwise 1500), Google Cloud 8896 (it advises 4082); with segmentation offload and GRO, larger packets save little processor time",
    );
    Some(fix(finding, host, &stack, jumbo))
}

/// The port whose MTU limits the packets. If a path is known to use the whole stack, it is the lowest port with a small
/// MTU; otherwise the lowest port of all, because a VLAN may keep a smaller MTU for its own network.
fn judged<'a>(host: &Host<'_>, stack: &Stack<'a>, enough: u32) -> Option<&'a Port> {
    let is_small = |port: &&&Port| port.mtu.get().is_some_and(|mtu| mtu < enough);
    let small = stack.ports.iter().find(is_small).filter(|_| host.facts.route.known().is_some());
    small.or(stack.ports.first()).copied()
}

/// Adds the fix. In a cloud the network's MTU must be raised first: the network drops larger packets, whatever the MTU
/// of the guest's port.
fn fix(finding: Finding, host: &Host<'_>, stack: &Stack<'_>, jumbo: u32) -> Finding {
    if is_open_stacks(host) {
        return finding.fix(
            "don't change the port: its network sets the MTU by DHCP; the network's owner may raise the MTU (openstack network set --mtu) if the underlying network takes larger packets",
        );
    }
    if let Some(cloud) = with_families(host) {
        return finding.fix(format!(
            "leave the port as it is, unless the documents of {cloud} say that this instance's family takes jumbo frames: at most \
             {SOME_FAMILIES} bytes, and then only to hosts and services that take them too"
        ));
    }
    let change = |port: &&Port| Remedy::of(Setting::Mtu { port: port.name.clone() }, port.mtu.get()?, jumbo);
    let changes: Vec<Remedy> = stack.ports.iter().filter_map(change).collect();
    // The undo begins with the uppermost port, because no MTU may be larger than that of the port below.
    let undo = undo_commands(&changes.iter().rev().cloned().collect::<Vec<_>>());
    let Some(last) = stack.ports.last() else { return finding };
    let finding = match &stack.top {
        Top::Address => finding.remedied(changes).undo(undo),
        Top::Bridge(name) => return finding.fix(below_bridge(stack, name, jumbo)),
        Top::Several(names) => {
            let command = commands(&changes);
            finding.undo(undo).fix(format!(
                "{command}, and then the same for each of {} that carries the data: these ports keep their own MTUs",
                names.join(", ")
            ))
        }
        Top::Unknown(name) => {
            return finding.fix(format!(
                "MTU {jumbo} at {name}, to which {} belongs, not at this port alone; only if every switch and host on the path \
                 allows it",
                last.name
            ));
        }
    };
    finding.fix_words(&condition(host, stack, jumbo))
}

/// The condition under which the ports may send larger packets.
fn condition(host: &Host<'_>, stack: &Stack<'_>, jumbo: u32) -> String {
    if stack.ports.iter().any(|port| host.cloud(port) == Some(Cloud::Google)) {
        return format!(
            "only once the network has this MTU: stop the network's guests, and run gcloud compute networks update NETWORK \
             --mtu={jumbo}, which also sets the MTU of their ports"
        );
    }
    let allowed = if is_virtual(host, stack) {
        "only once the hypervisor's virtual switch and the guest's port there have this MTU, and if every switch and host on the path \
         allows it"
    } else {
        "only if every switch and host on the path allows it"
    };
    format!(
        "{allowed}, else logins over this port hang: have a console ready, or use linerate doctor --apply --mtu, which undoes the change unless you confirm it"
    )
}

/// True if a hypervisor's own virtual switch takes the packets. Clouds are left out: Amazon's network takes 9001 bytes
/// from any guest.
fn is_virtual(host: &Host<'_>, stack: &Stack<'_>) -> bool {
    let is_it = |port: &&Port| port.kind.get() == Some(PortKind::Paravirtual) && host.cloud(port).is_none();
    stack.ports.iter().any(is_it)
}

/// The advice below a bridge with other ports.
fn below_bridge(stack: &Stack<'_>, bridge: &str, jumbo: u32) -> String {
    let names: Vec<&str> = stack.ports.iter().map(|port| port.name.as_str()).collect();
    let (last, lower) = names.split_last().map_or(("", &[][..]), |(last, lower)| (*last, lower));
    let first =
        if lower.is_empty() { String::new() } else { format!("{}, then on ", lower.join(", then on ")) };
    format!(
        "only all at once: set MTU {jumbo} on {first}every port of {bridge}, in its guests and containers, and on every switch and host \
         of the path; a bridge uses the lowest MTU of its ports, so changing {last} alone has no effect for this host, and its guests lose larger packets"
    )
}

/// The size to propose, and the size at or above which nothing is proposed. Both are at most the size that the driver
/// takes. `None` if the network takes at most 1,500 bytes.
fn sizes(host: &Host<'_>, port: &Port) -> Option<(u32, u32)> {
    let (jumbo, enough) = match host.cloud(port) {
        Some(Cloud::Google) => (GOOGLES, GOOGLES),
        _ if is_azures(host) => azures(host)?,
        _ if WITHOUT.iter().any(|vendor| begins(&host.facts.machine.vendor, vendor)) => return None,
        _ if with_families(host).is_some() => (SOME_FAMILIES, LEAST_JUMBO_MTU),
        // Amazon takes 9001, Oracle's cloud 9000.
        _ => (JUMBO, LEAST_JUMBO_MTU),
    };
    let most = port.layer.known().and_then(|layer| layer.max_mtu).unwrap_or(jumbo);
    Some((jumbo.min(most), enough.min(most)))
}

/// The MTU that Azure takes, and the MTU at or above which nothing is proposed. They depend on the card's virtual
/// function that a guest has as a member of Hyper-V's port; `None` without such a function.
fn azures(host: &Host<'_>) -> Option<(u32, u32)> {
    match (has_driver(host, "mlx"), has_driver(host, "mana")) {
        (true, _) => Some((AZURES, AZURES)),
        (false, true) => Some((JUMBO, LEAST_JUMBO_MTU)),
        (false, false) => None,
    }
}

/// True for a guest of Hyper-V, unless the tag of its chassis shows that it isn't a guest of Azure.
fn is_azures(host: &Host<'_>) -> bool {
    let machine = &host.facts.machine;
    let is_machine = begins(&machine.vendor, "Microsoft") && begins(&machine.product, "Virtual Machine");
    let is_others = machine.chassis_tag.known().is_some_and(|tag| tag != AZURES_TAG);
    (is_machine || has_driver(host, "hv_netvsc")) && !is_others
}

fn has_driver(host: &Host<'_>, driver: &str) -> bool {
    host.facts.ports.known().into_iter().flatten().any(|port| begins(&port.driver, driver))
}

/// The name of the host's cloud, if that takes larger packets only from some families of instances.
fn with_families(host: &Host<'_>) -> Option<&'static str> {
    WITH_FAMILIES.into_iter().find(|vendor| begins(&host.facts.machine.vendor, vendor))
}

/// True for a guest of OpenStack, whose networks have an MTU that the guest can't change.
fn is_open_stacks(host: &Host<'_>) -> bool {
    let machine = &host.facts.machine;
    begins(&machine.vendor, "OpenStack") || begins(&machine.product, "OpenStack")
}

/// True for IP over InfiniBand (`ib_ipoib`, `mlx5_core[ib_ipoib]`): the fabric gives its MTU, at most 4092 bytes, or
/// 65520 if the port is in the connected mode (Documentation/infiniband/ipoib.rst). The driver refuses sizes between
/// these two.
fn is_infiniband(port: &Port) -> bool {
    port.driver.known().is_some_and(|driver| driver.contains("ipoib"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn ten_gigabits_in_small_packets_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("stock-10g"))), ["jumbo-frames eno1 minor 9.41 Gbit/s"]);
        assert_eq!(
            lines(&found(&CHECK, &fixture("virtio-one-queue"))),
            ["jumbo-frames eth0 note 9.41 Gbit/s"]
        );
    }

    /// A larger MTU of a guest's port has no effect unless the virtual switch takes it too.
    #[test]
    fn a_guests_finding_names_its_hypervisor() {
        let fix = |name| found(&CHECK, &fixture(name)).remove(0).fix.unwrap();
        assert!(fix("virtio-one-queue").contains("; only once the hypervisor's virtual switch"));
        assert!(fix("stock-10g").contains("; only if every switch and host on the path allows it, else"));
    }

    #[test]
    fn jumbo_packets_and_slow_ports_are_not() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("e1000e-desktop")).is_empty());
    }

    #[test]
    fn no_more_is_proposed_than_the_driver_takes() {
        let with = |most| {
            found(
                &CHECK,
                &crate::testing::edited("stock-10g", "eno1", |port| {
                    let layer = linerate_host::facts::PortLayer { max_mtu: Some(most), ..Default::default() };
                    port.layer = linerate_host::Fact::Known(layer);
                }),
            )
        };
        assert!(with(4000)[0].fix.as_ref().unwrap().contains("mtu 4000"));
        assert!(with(1500).is_empty());
    }

    #[test]
    fn a_fabrics_mtu_is_left_to_the_fabric() {
        for driver in ["ib_ipoib", "mlx5_core[ib_ipoib]"] {
            let fabric = crate::testing::edited("stock-10g", "eno1", |port| {
                port.driver = linerate_host::Fact::Known(driver.to_owned());
                port.mtu = linerate_host::Fact::Known(2044);
            });
            assert!(found(&CHECK, &fabric).is_empty(), "{driver}");
        }
    }

    #[test]
    fn googles_port_gets_googles_size() {
        let found = found(&CHECK, &fixture("gve"));
        assert!(found[0].fix.as_ref().is_some_and(|fix| fix.contains("mtu 4082")), "{found:?}");
    }

    /// The bond's driver gives the bond's MTU to both of its ports.
    #[test]
    fn a_bonds_members_are_changed_with_the_bond() {
        let bond = |change: &dyn Fn(&mut linerate_host::Facts)| {
            crate::testing::changed("bond-layer2", |facts| {
                for name in ["bond0", "eth0", "eth1"] {
                    crate::testing::port_of(facts, name).mtu = Fact::Known(1500);
                }
                change(facts);
            })
        };
        let alone = found(&CHECK, &bond(&|_| ()));
        assert_eq!(lines(&alone), ["jumbo-frames bond0 minor 9.41 Gbit/s"]);
        assert!(alone[0].fix.as_ref().unwrap().starts_with("ip link set bond0 mtu 9000;"), "{alone:?}");
        let team = |facts: &mut linerate_host::Facts| {
            crate::testing::port_of(facts, "bond0").driver = Fact::Known("team".into());
        };
        assert_eq!(lines(&found(&CHECK, &bond(&team))), lines(&alone));
        let bridge = |facts: &mut linerate_host::Facts| {
            crate::testing::port_of(facts, "bond0").master = Fact::Known("br0".into());
            let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
            ports.push(Port { name: "br0".into(), driver: Fact::Known("bridge".into()), ..Port::default() });
        };
        let below = found(&CHECK, &bond(&bridge));
        assert_eq!(lines(&below), ["jumbo-frames bond0 minor 9.41 Gbit/s"]);
        assert!(below[0].remedies.is_empty() && below[0].fix.as_ref().unwrap().contains("every port of br0"));
        let unknown = |facts: &mut linerate_host::Facts| {
            crate::testing::port_of(facts, "bond0").master = Fact::Known("br0".into());
        };
        let unknown = found(&CHECK, &bond(&unknown)).remove(0);
        assert!(unknown.remedies.is_empty() && unknown.fix.unwrap().starts_with("MTU 9000 at br0"));
        let routes = |facts: &mut linerate_host::Facts| {
            crate::testing::port_of(facts, "bond0").driver = Fact::Known("vrf".into());
        };
        assert_eq!(lines(&found(&CHECK, &bond(&routes))).len(), 2, "a VRF has no MTU for its ports");
    }

    fn reported(facts: &linerate_host::Facts) -> Option<(String, String, String)> {
        let mut all = found(&CHECK, facts);
        assert!(all.len() < 2, "{all:?}");
        all.pop().map(|finding| (finding.line(), finding.fix.unwrap(), finding.undo.unwrap_or_default()))
    }

    fn by_route(facts: linerate_host::Facts, port: &str) -> linerate_host::Facts {
        let ports = vec![port.to_owned()];
        let route = linerate_host::facts::TakenRoute { ports, ..Default::default() };
        crate::along_route(linerate_host::Facts { route: Fact::Known(route), ..facts })
    }

    /// A VLAN keeps its MTU when that of the port below is raised, and the kernel refuses more than that.
    #[test]
    fn the_whole_stack_is_raised_the_lowest_first() {
        let small = [("bond0", 1500), ("bond0.100", 1500), ("br0", 1500)];
        let (line, fix, undo) = reported(&crate::testing::stacked(&small)).unwrap();
        assert_eq!(line, "jumbo-frames bond0 minor 9.41 Gbit/s");
        let commands =
            "ip link set bond0 mtu 9000; ip link set bond0.100 mtu 9000; ip link set br0 mtu 9000; only if";
        assert!(fix.starts_with(commands), "{fix}");
        assert_eq!(
            undo,
            "ip link set br0 mtu 1500; ip link set bond0.100 mtu 1500; ip link set bond0 mtu 1500"
        );
        let (_, fix, _) = reported(&crate::testing::stacked(&small[..2])).unwrap();
        assert!(
            fix.starts_with("ip link set bond0 mtu 9000; ip link set bond0.100 mtu 9000; only if"),
            "{fix}"
        );
    }

    /// A VLAN with a small MTU above a port with a large one is usual. It is judged only on a path that takes it.
    #[test]
    fn the_port_that_the_path_takes_is_judged() {
        let mixed = || crate::testing::stacked(&[("bond0", 9000), ("bond0.100", 1500)]);
        assert_eq!(reported(&mixed()), None);
        assert_eq!(reported(&by_route(mixed(), "bond0")), None, "without the VLAN");
        let (line, fix, _) = reported(&by_route(mixed(), "bond0.100")).unwrap();
        assert_eq!(line, "jumbo-frames bond0.100 minor 9.41 Gbit/s");
        assert!(fix.starts_with("ip link set bond0.100 mtu 9000; only if"), "{fix}");
    }

    #[test]
    fn of_several_vlans_a_person_chooses() {
        let mut several = crate::testing::stacked(&[("bond0", 1500), ("bond0.100", 1500)]);
        let Fact::Known(ports) = &mut several.ports else { panic!("no ports") };
        let other = Port { name: "bond0.200".into(), ..ports.last().expect("a VLAN").clone() };
        ports.push(other);
        let finding = found(&CHECK, &several).remove(0);
        let fix = finding.fix.unwrap();
        assert!(
            fix.starts_with("ip link set bond0 mtu 9000, and then the same for each of bond0.100, bond0.200"),
            "{fix}"
        );
        assert!(finding.remedies.is_empty(), "the bond's alone would be of no use");
    }

    /// mtu-mismatch names the port at fault.
    #[test]
    fn ports_that_do_not_match_are_found_once() {
        let mismatched = crate::testing::stacked(&[("bond0", 1500), ("bond0.100", 1500), ("br0", 9000)]);
        assert_eq!(reported(&mismatched), None);
        assert_eq!(found(crate::check::named("mtu-mismatch").unwrap(), &mismatched).len(), 1);
    }

    /// A cloud gives its guests several kinds of ports.
    #[test]
    fn clouds_are_known_by_their_machines() {
        let fix = |vendor: &str, product: &str, beside: &str| {
            let facts = crate::testing::changed("virtio-one-queue", |facts| {
                facts.machine.vendor = Fact::Known(vendor.into());
                facts.machine.product = Fact::Known(product.into());
                let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
                ports.push(Port { name: "f".into(), driver: Fact::Known(beside.into()), ..Port::default() });
            });
            found(&CHECK, &facts).remove(0).fix.unwrap()
        };
        assert!(fix("Google", "Google Compute Engine", "").contains("mtu 4082"));
        assert!(fix("Microsoft Corporation", "Virtual Machine", "mlx5_core").contains("mtu 3900"));
        assert!(fix("Microsoft Corporation", "Virtual Machine", "mana").contains("mtu 9000"));
        assert!(fix("Amazon EC2", "c5n.2xlarge", "").contains("mtu 9000"));
        assert!(fix("Google", "Google Compute Engine", "").contains("gcloud compute networks update"));
        assert!(!fix("OpenStack Foundation", "OpenStack Nova", "").contains("ip link"));
        for (vendor, product) in [("Alibaba Cloud", "Alibaba Cloud ECS"), ("Tencent Cloud", "CVM")] {
            let fix = fix(vendor, product, "");
            assert!(fix.contains("at most 8500 bytes") && !fix.contains("ip link"), "{fix}");
        }
    }

    /// Hetzner's private networks take 1,450 bytes, its public one 1,500.
    #[test]
    fn clouds_without_jumbo_frames_are_not_found() {
        for vendor in WITHOUT {
            let facts = crate::testing::changed("virtio-one-queue", |facts| {
                facts.machine.vendor = Fact::Known(vendor.into());
            });
            assert!(found(&CHECK, &facts).is_empty(), "{vendor}");
        }
    }

    /// Azure's network takes 1,500 bytes from a guest without a card's virtual function, whatever Hyper-V's port takes
    /// (65,521 bytes).
    #[test]
    fn hyper_vs_port_alone_gets_more_only_outside_of_azure() {
        assert!(found(&CHECK, &fixture("hv-netvsc")).is_empty());
        let tagged = |tag: Fact<String>| {
            found(&CHECK, &crate::testing::changed("hv-netvsc", |facts| facts.machine.chassis_tag = tag))
        };
        assert!(tagged(Fact::NotApplicable).is_empty(), "it may be Azure's");
        let own = tagged(Fact::Known("8231-3155-9120-2281".into()));
        assert_eq!(lines(&own), ["jumbo-frames eth0 note 9.41 Gbit/s"]);
        assert!(own[0].fix.as_ref().is_some_and(|fix| fix.contains("mtu 9000")), "{own:?}");
    }
}
