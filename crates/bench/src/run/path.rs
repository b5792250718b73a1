//! The path between two real hosts: its ports, and which links of a study it can replace.

use std::io;
use std::net::IpAddr;

use linerate_host::facts::{Port, PortKind};
use linerate_host::{Fact, Facts};
use serde_json::Value;

use crate::out::describe_link;
use crate::record::Link;
use crate::spec::study::LinkSpec;

/// The bytes that Ethernet adds to each packet: preamble 8, header 14, checksum 4, gap 12.
const ETHERNET_OVERHEAD: u32 = 38;

/// A network port on the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathPort {
    /// The interface's name.
    pub name: String,
    driver: Option<String>,
    /// The rate of the port's hardware in bit/s; `None` if the port has no hardware.
    rate: Option<u64>,
    /// The number of receive queues.
    queues: Option<u32>,
    mtu: Option<u32>,
}

impl PathPort {
    /// The port with this name, from the host's facts.
    pub fn of(facts: &Facts, name: &str) -> PathPort {
        let ports = facts.ports.known().map_or(&[][..], Vec::as_slice);
        let port = ports.iter().find(|port| port.name == name);
        PathPort {
            name: name.to_owned(),
            driver: port.and_then(|port| port.driver.known()).cloned(),
            rate: port.and_then(|port| promised(port, ports)),
            queues: port.and_then(|port| port.rx_count().known().copied()),
            mtu: port.and_then(|port| port.mtu.known().copied()),
        }
    }

    fn shown(&self) -> String {
        self.driver.as_ref().map_or_else(|| self.name.clone(), |driver| format!("{} ({driver})", self.name))
    }
}

/// The rate in bit/s of a port with hardware. A port that the kernel or a hypervisor emulates has no rate, whatever
/// speed it reports, because only processors limit it. A VLAN has the rate of the port below it, and a bond the sum of
/// its members' rates.
fn promised(port: &Port, ports: &[Port]) -> Option<u64> {
    if let Fact::Known(vlan) = &port.vlan {
        let lower = ports.iter().find(|other| other.name == vlan.lower && other.vlan.known().is_none());
        return lower.and_then(|lower| promised(lower, ports));
    }
    let is_member = |other: &&Port| other.master.known() == Some(&port.name);
    let is_hard = match port.kind.known()? {
        PortKind::Physical | PortKind::VirtualFunction => true,
        PortKind::Software if port.bond.known().is_some() => {
            let mut members = ports.iter().filter(is_member).peekable();
            members.peek().is_some() && members.all(|member| promised(member, &[]).is_some())
        }
        PortKind::Software | PortKind::Emulated | PortKind::Paravirtual => false,
    };
    port.speed_mbps.known().filter(|_| is_hard).map(|mbps| mbps * 1_000_000)
}

/// The path: the receiving end's addresses, and for each address the sending end's port that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPath {
    /// The receiving end's addresses.
    pub addresses: Vec<String>,
    /// The sending end's ports, in the order of the addresses.
    pub ports: Vec<PathPort>,
    /// The receiving end's ports with these addresses, in the same order; `None` for an address that belongs to another
    /// host, such as an address translator (NAT).
    pub far_ports: Vec<Option<PathPort>>,
}

impl HostPath {
    /// The first `count` links of the path, in the form of one link for a record.
    pub fn link(&self, count: usize) -> Link {
        let ports = &self.ports[..count.clamp(1, self.ports.len())];
        Link {
            bits_per_second: ports.iter().map(|port| port.rate).sum(),
            mtu: ports.iter().filter_map(|port| port.mtu).min().unwrap_or(1500),
            kind: ports.iter().map(PathPort::shown).collect::<Vec<_>>().join(" + "),
            frame_overhead_bytes: ETHERNET_OVERHEAD,
            burst_bytes: 0,
        }
    }

    /// The reason why the path can't be used as this link of a study's `links`, with advice; `None` if it can.
    /// A rate or MTU that is the same for all links of the study is only a label. A rate or MTU that differs
    /// between links is a factor, and must be that of the path.
    pub fn lacks(&self, spec: &LinkSpec, links: &[LinkSpec]) -> Option<String> {
        let (what, advice) = self.difference(spec, links)?;
        let path = self.link(spec.count as usize);
        let path = match path.bits_per_second {
            Some(rate) => format!("{}, {:#}", path.kind, linerate_quantity::BitRate(rate as f64)),
            None => path.kind,
        };
        Some(format!(
            "the study requests a link of {}, but the path ({path}) {what}; {advice}",
            describe_link(spec)
        ))
    }

    /// The difference between the path and the study's link, with advice; `None` if the path fits.
    fn difference(&self, spec: &LinkSpec, links: &[LinkSpec]) -> Option<(String, &'static str)> {
        const LAB: &str = "run the study without --hosts, in a lab";
        let count = spec.count as usize;
        let ports = &self.ports[..count.clamp(1, self.ports.len())];
        if spec.guests > 0 {
            return Some(("has no guests".into(), LAB));
        }
        if spec.rtt.is_some() || spec.loss.is_some() {
            return Some(("has no emulator of delay and loss".into(), LAB));
        }
        if count > self.addresses.len() {
            let given = self.addresses.len();
            return Some((
                format!("leads to only {given} of b's addresses"),
                "name one address for each port: --address-b ADDRESS,ADDRESS",
            ));
        }
        if (1..count).any(|place| ports[..place].iter().any(|port| port.name == ports[place].name)) {
            return Some((
                "uses the same port of a for several addresses".into(),
                "give each of b's addresses its own subnet, with a route by its own port",
            ));
        }
        self.difference_of_ports(spec, links)
    }

    /// The difference between the ports at both ends of the path and the study's link, with advice.
    fn difference_of_ports(&self, spec: &LinkSpec, links: &[LinkSpec]) -> Option<(String, &'static str)> {
        let ports = &self.ports[..(spec.count as usize).clamp(1, self.ports.len())];
        let far = self.far_ports.iter().take(ports.len()).flatten();
        let of_both = || ports.iter().map(|port| ("a", port)).chain(far.clone().map(|port| ("b", port)));
        let queues = |(_, port): &(&str, &PathPort)| spec.queues.is_some() && port.queues != spec.queues;
        if let Some((end, port)) = of_both().find(queues) {
            let has = port.queues.map_or("an unknown number of".into(), |queues| queues.to_string());
            return Some((
                format!("has {has} receive queues at {end}'s {}", port.name),
                "set them with ethtool -L, or make `port-queues` a factor in [case.with]",
            ));
        }
        let rates_differ = links.iter().any(|other| other.rate != spec.rate);
        // A faster port at one end doesn't matter. The rates of a's ports must be known.
        let slowest = of_both().filter_map(|(_, port)| port.rate).min();
        if rates_differ && (slowest != spec.rate || ports.iter().any(|port| port.rate.is_none())) {
            return Some(("has another rate".into(), "use ports of that rate, or a lab"));
        }
        let mtus_differ = links.iter().any(|other| other.mtu != spec.mtu);
        let mtu = of_both().filter_map(|(_, port)| port.mtu).min().unwrap_or(1500);
        if mtus_differ && mtu != spec.mtu {
            return Some((format!("has an MTU of {mtu}"), "make `mtu` a factor in [case.with]"));
        }
        None
    }

    /// A note which states that the path's rate differs from the link's rate in the study, which then is only a name.
    /// Empty if the rates are equal, or if the study's link has no rate.
    pub fn label(&self, spec: &LinkSpec) -> String {
        let rate = self.ports.first().and_then(|port| port.rate);
        if spec.rate.is_none() || spec.rate == rate {
            return String::new();
        }
        format!(" as it is, not as in the study ({})", describe_link(spec))
    }
}

/// Parses the output of `ip -j route get`, and returns the interface.
///
/// # Errors
/// If the output has another form.
pub(super) fn routed(shown: &str) -> io::Result<String> {
    let route: Value = serde_json::from_str(shown).map_err(io::Error::other)?;
    let name = route[0]["dev"].as_str().map(str::to_owned);
    name.ok_or_else(|| io::Error::other(format!("`ip route get` names no interface: {shown}")))
}

/// Parses the output of `ip -j addr show`, and returns the interface that has the address, if any.
pub(super) fn holder(shown: &str, address: &str) -> Option<String> {
    let wanted: IpAddr = address.parse().ok()?;
    let all: Value = serde_json::from_str(shown).ok()?;
    let is = |info: &Value| info["local"].as_str().and_then(|text| text.parse().ok()) == Some(wanted);
    let has =
        |interface: &&Value| interface["addr_info"].as_array().is_some_and(|infos| infos.iter().any(is));
    let found = all.as_array()?.iter().find(has)?;
    found["ifname"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: u64 = 1_000_000_000;

    fn port(name: &str, rate: Option<u64>) -> PathPort {
        let driver = rate.map_or("veth", |_| "igb");
        PathPort { name: name.into(), driver: Some(driver.into()), rate, queues: Some(4), mtu: Some(1500) }
    }

    fn path(ports: &[PathPort]) -> HostPath {
        let addresses = (0..ports.len()).map(|n| format!("10.0.{n}.2")).collect();
        let far_ports = ports.iter().cloned().map(Some).collect();
        HostPath { addresses, ports: ports.to_vec(), far_ports }
    }

    fn spec() -> LinkSpec {
        LinkSpec {
            name: "x".into(),
            rate: Some(GIGABIT),
            mtu: 1500,
            count: 1,
            queues: None,
            guests: 0,
            machine: None,
            rtt: None,
            loss: None,
        }
    }

    #[test]
    fn a_path_stands_only_for_the_link_that_it_is() {
        let one = path(&[port("eth0", Some(GIGABIT))]);
        let lacks = |spec: LinkSpec| one.lacks(&spec, std::slice::from_ref(&spec));
        assert_eq!(lacks(spec()), None);
        assert_eq!(lacks(LinkSpec { queues: Some(4), ..spec() }), None);
        assert_eq!(lacks(LinkSpec { rate: Some(10 * GIGABIT), ..spec() }), None, "it only names the path");
        let reported = lacks(LinkSpec { count: 2, ..spec() }).unwrap();
        assert!(
            reported.contains("leads to only 1 of b's addresses") && reported.contains("--address-b"),
            "{reported}"
        );
        for (asked, part) in [
            (LinkSpec { guests: 8, ..spec() }, "has no guests"),
            (LinkSpec { queues: Some(16), ..spec() }, "has 4 receive queues at a's eth0"),
            (LinkSpec { rtt: Some("50ms".parse().unwrap()), ..spec() }, "no emulator"),
            (LinkSpec { loss: Some("1%".parse().unwrap()), ..spec() }, "no emulator"),
        ] {
            let reported = lacks(asked).unwrap();
            assert!(reported.contains(part) && reported.contains("eth0 (igb), 1 Gbit/s"), "{reported}");
        }
    }

    /// The queues that the papers vary are the receiver's.
    #[test]
    fn the_receivers_port_must_fit_too() {
        let four = LinkSpec { queues: Some(4), ..spec() };
        let with = |far: Option<PathPort>| {
            let path = HostPath { far_ports: vec![far], ..path(&[port("eth0", Some(GIGABIT))]) };
            path.lacks(&four, std::slice::from_ref(&four))
        };
        let one = PathPort { queues: Some(1), ..port("ens1", Some(GIGABIT)) };
        assert!(with(Some(one)).unwrap().contains("has 1 receive queues at b's ens1"));
        assert_eq!(with(Some(port("ens1", Some(GIGABIT)))), None);
        assert_eq!(with(None), None, "nothing is known about a port behind a translator");
        let links = [spec(), LinkSpec { rate: Some(10 * GIGABIT), ..spec() }];
        let path = |far: u64| {
            let far_ports = vec![Some(port("ens1", Some(far)))];
            HostPath { far_ports, ..path(&[port("eth0", Some(10 * GIGABIT))]) }
        };
        assert!(path(GIGABIT).lacks(&links[1], &links).unwrap().contains("another rate"));
        assert_eq!(path(25 * GIGABIT).lacks(&links[1], &links), None);
    }

    #[test]
    fn a_rate_that_is_a_factor_must_be_the_ports() {
        let links = [spec(), LinkSpec { rate: Some(10 * GIGABIT), ..spec() }];
        let real = path(&[port("eth0", Some(GIGABIT))]);
        assert_eq!(real.lacks(&links[0], &links), None);
        assert!(real.lacks(&links[1], &links).unwrap().contains("has another rate"));
        let soft = path(&[port("v0", None)]);
        assert!(links.iter().all(|link| soft.lacks(link, &links).is_some()), "nobody knows its rate");
        let wide = [spec(), LinkSpec { mtu: 9000, ..spec() }];
        assert_eq!(real.lacks(&wide[0], &wide), None);
        assert!(real.lacks(&wide[1], &wide).unwrap().contains("MTU of 1500"));
    }

    #[test]
    fn several_links_need_an_address_and_a_port_each() {
        let two = LinkSpec { count: 2, ..spec() };
        let lacks = |path: HostPath| path.lacks(&two, std::slice::from_ref(&two));
        let both = path(&[port("eth0", Some(GIGABIT)), port("eth1", Some(GIGABIT))]);
        assert_eq!(both.link(2).bits_per_second, Some(2 * GIGABIT));
        assert_eq!((both.link(1).bits_per_second, both.link(1).kind.as_str()), (Some(GIGABIT), "eth0 (igb)"));
        assert_eq!(lacks(both), None);
        let same = path(&[port("eth0", Some(GIGABIT)), port("eth0", Some(GIGABIT))]);
        assert!(lacks(same).unwrap().contains("uses the same port"));
        let half = path(&[port("eth0", Some(GIGABIT)), port("v1", None)]);
        assert_eq!(half.link(2).bits_per_second, None);
    }

    #[test]
    fn a_rate_that_only_names_the_path_is_reported() {
        let path = path(&[port("eth0", Some(GIGABIT))]);
        assert_eq!(path.label(&spec()) + &path.label(&LinkSpec { rate: None, ..spec() }), "");
        assert!(path.label(&LinkSpec { rate: Some(10 * GIGABIT), ..spec() }).contains("10 Gbit/s"));
    }

    #[test]
    fn interfaces_are_found_by_route_and_by_address() {
        assert_eq!(routed(r#"[{"dst":"10.0.0.2","dev":"eth1","flags":[]}]"#).unwrap(), "eth1");
        assert!(routed("[]").is_err() && routed("RTNETLINK").is_err());
        let shown = r#"[{"ifname":"lo","addr_info":[{"local":"127.0.0.1"}]},{"ifname":"eth2","addr_info":
            [{"local":"10.0.0.2"},{"local":"fd00::2"}]}]"#;
        assert_eq!(holder(shown, "fd00:0::2").as_deref(), Some("eth2"));
        assert_eq!(holder(shown, "10.0.0.3"), None);
    }

    #[test]
    fn only_hardware_promises_a_rate() {
        let facts = |name: &str| {
            let fixture = format!("{}/../host/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
            let bytes = std::fs::read(fixture).unwrap();
            Facts::of_snapshot(&linerate_host::Snapshot::from_bytes(&bytes).unwrap())
        };
        let slot = facts("bare-gen1-x4.txt");
        assert_eq!(PathPort::of(&slot, "eth2").rate, Some(10 * GIGABIT));
        assert_eq!(PathPort::of(&slot, "none").rate, None);
        let host = facts("veth-host.txt");
        let speeds: Vec<_> = host.ports.known().unwrap().iter().map(|port| &port.speed_mbps).collect();
        assert!(speeds.iter().filter(|speed| speed.known() == Some(&10_000)).count() >= 3, "{speeds:?}");
        let rates = ["eth0", "veth1a", "docker0"].map(|name| PathPort::of(&host, name).rate);
        assert_eq!(rates, [Some(10 * GIGABIT), None, None]);
        let vmxnet3 = facts("vmxnet3.txt");
        assert!(
            vmxnet3.ports.known().unwrap().iter().all(|p| PathPort::of(&vmxnet3, &p.name).rate.is_none())
        );
        let bond = facts("bond-layer2.txt");
        assert_eq!(PathPort::of(&bond, "bond0").rate, Some(20 * GIGABIT));
    }
}
