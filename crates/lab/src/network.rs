//! The namespaces of the hosts, and the links between them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use linerate_sys::netns;
use std::os::fd::AsFd;

use crate::error::LabError;
use crate::name::LabName;
use crate::rate::Rate;
use crate::sites;
use crate::state::{Description, LabHost, LinkPort};
use crate::tool::{IP, TC};

/// The longest time that a packet waits in the shaper's queue before it is dropped, as in a deep switch buffer.
const LATENCY: &str = "20ms";

/// The minimum and default of the TCP buffers; only the maximum is an option.
const BUFFER_FLOOR: &str = "4096 262144";

/// The number of bits that the addresses of a link have in common.
const LINK_PREFIX: u8 = 30;

/// [`LINK_PREFIX`] for a single link that guests share: room for 120 guests.
const SHARED_PREFIX: u8 = 25;

/// [`LINK_PREFIX`] for several links that guests share: room for 12 guests.
const SEVERAL_SHARED_PREFIX: u8 = 28;

/// The number of packets of up to 64 KiB that may wait for the emulator.
const EMULATOR_QUEUE: u32 = 10_000;

/// The name of the bridge on host b that joins a link and the guests. For links after the first, the link's number
/// follows the name.
const BRIDGE: &str = "guests";

/// The greatest number of links between the hosts.
pub(crate) const MOST_LINKS: u32 = 8;

/// The greatest number of guests.
pub(crate) const MOST_GUESTS: u32 = 64;

/// The greatest number of guests that share several links.
pub(crate) const MOST_SEVERAL_GUESTS: u32 = 12;

/// The greatest number of queues of an interface.
pub(crate) const MOST_QUEUES: u32 = 64;

/// The hosts of a lab in this address block.
///
/// Link i has 10.213.SLOT.(4 i)/30 and fd6c:6e72:i:SLOT::/64. A link that guests share has 10.213.SLOT.128/25, or
/// 10.213.SLOT.(128 + 16 i)/28 if there are several links. The namespaces of different labs are isolated from each
/// other, so the only purpose of unique addresses is to help readers.
pub(crate) fn hosts(name: &LabName, slot: u8, links: u32, guests: u32) -> LabHosts {
    let (base, step) = if guests > 0 { (128, 16) } else { (0, 4) };
    let host = |namespace: String, peer: &str, last: u8| {
        // With at most 8 links all numbers fit.
        let mut ports = (0..links.max(1)).map(|link| port(slot, link, peer, base + step * link as u8 + last));
        let LinkPort { interface, address, address6 } = ports.next().expect("there is at least one link");
        LabHost { namespace, interface, address, address6, further: ports.collect() }
    };
    LabHosts {
        a: host(name.namespace('a'), "b", 1),
        b: host(name.namespace('b'), "a", 2),
        guests: (0..guests).map(|number| host(name.guest(number), "a", 3 + number as u8)).collect(),
    }
}

/// All hosts of a lab.
pub(crate) struct LabHosts {
    pub(crate) a: LabHost,
    pub(crate) b: LabHost,
    pub(crate) guests: Vec<LabHost>,
}

/// True if the kernel has IPv6.
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// A host's end of a link to `peer`, whose addresses end with `last`.
pub(crate) fn port(slot: u8, link: u32, peer: &str, last: u8) -> LinkPort {
    LinkPort {
        interface: format!("to-{peer}{}", after_first(link)),
        address: Ipv4Addr::new(10, 213, slot, last),
        address6: has_ipv6()
            .then(|| Ipv6Addr::new(0xfd6c, 0x6e72, link as u16, slot.into(), 0, 0, 0, last.into())),
    }
}

/// A link's number as it is used in names; empty for the first link.
fn after_first(link: u32) -> String {
    if link == 0 { String::new() } else { link.to_string() }
}

/// The congestion control for the link's routes: that of the options, or else cubic, if the kernel has it. Cubic is the
/// default of Linux and of most papers. The congestion control is set for routes, because a namespace can't select one
/// that is a module.
pub(crate) fn congestion(asked: Option<&str>) -> Option<String> {
    let listed =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let default = listed.split_whitespace().find(|name| *name == "cubic");
    asked.or(default).map(str::to_owned)
}

/// Creates the namespaces with only loopback.
pub(crate) fn make_namespaces(lab: &Description) -> Result<(), LabError> {
    for host in lab.namespaces() {
        ip(&format!("netns add {}", host.namespace))?;
        ip(&format!("-n {} link set lo up", host.namespace))?;
        set_up(host, tcp_settings(lab))?;
    }
    lab.sites.iter().try_for_each(|site| set_up(&site.switch, sites::switch_settings()))
}

/// Creates the links with their addresses, routes and rate, and brings all interfaces up. If the lab has an emulator,
/// the links' interfaces already exist.
pub(crate) fn build(lab: &Description) -> Result<(), LabError> {
    let [a, b] = lab.link_ends();
    for (near, far) in a.ports().iter().zip(&b.ports()) {
        let ends = [(a, near), (b, far)];
        if lab.wan.is_some() {
            ends.into_iter().try_for_each(|(host, port)| prepare_emulated(lab, host, port))?;
            continue;
        }
        join(lab, ends[0], ends[1])?;
        for (host, port) in ends {
            lab.link.map_or(Ok(()), |rate| shape(host, port, rate))?;
        }
    }
    bring_up(lab, a)?;
    if lab.guests.is_empty() {
        bring_up(lab, b)?
    } else {
        bridge(lab)?
    }
    sites::build(lab)
}

/// Prepares an interface of the emulator. Packets that wait for the emulator aren't yet in the link's queue, so
/// they must not be dropped before the emulator has read them.
fn prepare_emulated(lab: &Description, host: &LabHost, port: &LinkPort) -> Result<(), LabError> {
    let (namespace, interface, mtu) = (&host.namespace, &port.interface, lab.mtu);
    // Without a link-local address, the kernel sends no messages of neighbor or router discovery on the interface.
    ip(&format!("-n {namespace} link set {interface} mtu {mtu} txqueuelen {EMULATOR_QUEUE} addrgenmode none"))
}

/// Removes the links and the namespace. If they don't exist, that is no error.
pub(crate) fn remove(host: &LabHost) -> Result<(), LabError> {
    let path = host.namespace_path();
    if !path.exists() {
        return Ok(());
    }
    for port in host.ports() {
        // A namespace exists as long as a process or file refers to it. But its end of the link can be removed earlier.
        let _ = ip(&format!("-n {} link delete {}", host.namespace, port.interface));
    }
    ip(&format!("netns delete {}", host.namespace))
}

/// Creates a pair of interfaces with the lab's number of queues.
pub(crate) fn join(
    lab: &Description,
    near: (&LabHost, &LinkPort),
    far: (&LabHost, &LinkPort),
) -> Result<(), LabError> {
    let mtu = lab.mtu;
    let queues = lab.queues.map_or(String::new(), |n| format!(" numtxqueues {n} numrxqueues {n}"));
    ip(&format!(
        "-n {} link add {} mtu {mtu}{queues} type veth peer name {} mtu {mtu}{queues} netns {}",
        near.0.namespace, near.1.interface, far.1.interface, far.0.namespace
    ))?;
    let Some(asked) = lab.queues else { return Ok(()) };
    [near, far].into_iter().try_for_each(|(host, port)| check_queues(host, port, asked))
}

/// Checks the number of queues, because the kernel may silently create fewer queues than requested.
fn check_queues(host: &LabHost, port: &LinkPort, asked: u32) -> Result<(), LabError> {
    let line = format!("-n {} -d -j link show dev {}", host.namespace, port.interface);
    let shown = IP.run(&words(&line))?;
    match queues(&shown) {
        Some(found) if found == (asked, asked) => Ok(()),
        found => Err(LabError::Queues { asked, found, interface: port.interface.clone() }),
    }
}

/// The numbers of receive and transmit queues in the output of `ip -d -j link show`.
fn queues(shown: &str) -> Option<(u32, u32)> {
    let links: serde_json::Value = serde_json::from_str(shown).ok()?;
    let number = |key: &str| links[0][key].as_u64().and_then(|n| u32::try_from(n).ok());
    Some((number("num_rx_queues")?, number("num_tx_queues")?))
}

fn bring_up(lab: &Description, host: &LabHost) -> Result<(), LabError> {
    for port in host.ports() {
        ip(&format!("-n {} link set {} up", host.namespace, port.interface))?;
        settle(lab, host, &port, link_prefix(lab))?;
    }
    Ok(())
}

/// For each link, joins host b's end and one interface for each guest by a bridge. The bridge gets b's own address.
fn bridge(lab: &Description) -> Result<(), LabError> {
    let (b, mtu) = (&lab.b, lab.mtu);
    for (link, port) in b.ports().into_iter().enumerate() {
        let bridge = format!("{BRIDGE}{}", after_first(link as u32));
        ip(&format!("-n {} link add {bridge} mtu {mtu} type bridge", b.namespace))?;
        ip(&format!("-n {} link set {} master {bridge} up", b.namespace, port.interface))?;
        ip(&format!("-n {} link set {bridge} up", b.namespace))?;
        settle(lab, b, &LinkPort { interface: bridge.clone(), ..port.clone() }, link_prefix(lab))?;
        for (number, guest) in lab.guests.iter().enumerate() {
            let far = LinkPort { interface: tap(link, number), ..port.clone() };
            match &lab.machine {
                Some(machine) => add_tap(lab, &far.interface, machine.queues)?,
                None => join(lab, (guest, &guest.ports()[link]), (b, &far))?,
            }
            ip(&format!("-n {} link set {} master {bridge} up", b.namespace, far.interface))?;
        }
    }
    lab.guest_namespaces().iter().try_for_each(|guest| bring_up(lab, guest))
}

/// The name of the interface on host b that connects a guest to a link.
pub(crate) fn tap(link: usize, guest: usize) -> String {
    if link == 0 { format!("guest{guest}") } else { format!("guest{guest}-{link}") }
}

/// Creates an interface whose other end is a virtual machine's network card.
fn add_tap(lab: &Description, interface: &str, queues: u32) -> Result<(), LabError> {
    let several = if queues > 1 { " multi_queue" } else { "" };
    let namespace = &lab.b.namespace;
    ip(&format!("-n {namespace} tuntap add dev {interface} mode tap vnet_hdr{several}"))?;
    ip(&format!("-n {namespace} link set {interface} mtu {}", lab.mtu))
}

/// Commands for `ip -batch` that configure the network cards of a guest that is a virtual machine.
pub(crate) fn guest_lines(lab: &Description, guest: &LabHost) -> Vec<String> {
    let mut lines = vec!["link set lo up".to_owned()];
    for (card, port) in guest.ports().into_iter().enumerate() {
        let interface = format!("eth{card}");
        lines.push(format!("link set {interface} mtu {} up", lab.mtu));
        lines.extend(settings(lab, &LinkPort { interface, ..port }, link_prefix(lab)));
    }
    lines
}

/// Sets the addresses and routes of one interface in a network with this prefix length.
pub(crate) fn settle(lab: &Description, host: &LabHost, port: &LinkPort, prefix: u8) -> Result<(), LabError> {
    settings(lab, port, prefix).into_iter().try_for_each(|line| ip(&format!("-n {} {line}", host.namespace)))
}

fn link_prefix(lab: &Description) -> u8 {
    match (lab.guests.is_empty(), lab.b.further.is_empty()) {
        (true, _) => LINK_PREFIX,
        (false, true) => SHARED_PREFIX,
        (false, false) => SEVERAL_SHARED_PREFIX,
    }
}

/// The addresses and routes of one interface, as arguments of ip(8).
fn settings(lab: &Description, port: &LinkPort, prefix: u8) -> Vec<String> {
    let LinkPort { interface, address, address6 } = port;
    let mut lines = vec![format!("address add {address}/{prefix} dev {interface}")];
    // Detection of duplicate addresses would only delay the address, because all hosts on the link are known.
    lines.extend(address6.map(|address6| format!("address add {address6}/64 dev {interface} nodad")));
    let Some(congestion) = lab.congestion.as_deref() else { return lines };
    let network = network4(*address, prefix);
    lines.push(format!(
        "route replace {network}/{prefix} dev {interface} proto kernel scope link src {address} congctl {congestion}"
    ));
    lines.extend(address6.map(|address6| {
        let network6 = network6(address6);
        format!("route replace {network6}/64 dev {interface} proto kernel metric 256 congctl {congestion}")
    }));
    lines
}

/// The first address of a network.
pub(crate) fn network4(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() >> (32 - prefix) << (32 - prefix))
}

/// The first address of the /64 network of an address.
pub(crate) fn network6(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)
}

/// Limits the rate at which a port sends.
pub(crate) fn shape(host: &LabHost, port: &LinkPort, rate: Rate) -> Result<(), LabError> {
    let (namespace, interface) = (&host.namespace, &port.interface);
    let (bits, burst) = (rate.bits_per_second(), rate.burst());
    let line = format!(
        "-n {namespace} qdisc add dev {interface} root tbf rate {bits}bit burst {burst} latency {LATENCY}"
    );
    TC.run(&words(&line)).map(drop)
}

fn set_up(host: &LabHost, settings: Vec<(String, String)>) -> Result<(), LabError> {
    let path = host.namespace_path();
    let write_all = || {
        let write =
            |(file, value): &(String, String)| std::fs::write(Path::new("/proc/sys").join(file), value);
        settings.iter().try_for_each(write)
    };
    let namespace = std::fs::File::open(&path).map_err(LabError::file("opening", &path))?;
    let written = netns::inside(namespace.as_fd(), write_all).and_then(|result| result);
    written.map_err(LabError::file("setting up TCP in", &path))
}

/// Files below /proc/sys, and their contents, for TCP on each host. With them, a connection doesn't use cached metrics
/// of an earlier connection, and buffers are as large as the lab's options request.
pub(crate) fn tcp_settings(lab: &Description) -> Vec<(String, String)> {
    let mut settings = vec![("net/ipv4/tcp_no_metrics_save".to_owned(), "1".to_owned())];
    if let Some(most) = lab.tcp_buffer_max {
        let buffers = ["rmem", "wmem"].map(|kind| format!("net/ipv4/tcp_{kind}"));
        settings.extend(buffers.map(|file| (file, format!("{BUFFER_FLOOR} {most}"))));
    }
    settings
}

/// Runs ip(8) with arguments separated by spaces. No name or address of a lab contains a space.
pub(crate) fn ip(line: &str) -> Result<(), LabError> {
    IP.run(&words(line)).map(drop)
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(slot: u8, links: u32, guests: u32) -> LabHosts {
        hosts(&"x".parse().expect("a good name"), slot, links, guests)
    }

    #[test]
    fn each_slot_has_addresses_of_its_own() {
        let (one, other) = (made(3, 1, 0), made(4, 1, 0));
        assert_eq!(
            (one.a.address.to_string(), one.b.address.to_string()),
            ("10.213.3.1".into(), "10.213.3.2".into())
        );
        assert_ne!(one.a.address, other.a.address);
        assert!(one.a.address6.is_none_or(|address| address.to_string() == "fd6c:6e72:0:3::1"));
        assert_eq!(one.a.namespace, "linerate-x-a");
    }

    #[test]
    fn each_link_is_a_network_of_its_own() {
        let lab = made(3, MOST_LINKS, 0);
        let networks: std::collections::BTreeSet<u32> =
            lab.a.ports().iter().map(|port| port.address.to_bits() >> 2).collect();
        assert_eq!(networks.len(), MOST_LINKS as usize);
        for (near, far) in lab.a.ports().iter().zip(&lab.b.ports()) {
            assert_eq!(near.address.to_bits() >> 2, far.address.to_bits() >> 2);
            assert_eq!(near.interface.replace("to-b", "to-a"), far.interface);
        }
    }

    #[test]
    fn guests_share_one_network() {
        let lab = made(3, 1, MOST_GUESTS);
        let mut seen = std::collections::BTreeSet::new();
        for host in [&lab.a, &lab.b].into_iter().chain(&lab.guests) {
            assert_eq!(host.address.to_bits() >> 7, Ipv4Addr::new(10, 213, 3, 128).to_bits() >> 7);
            assert!(seen.insert((host.address, host.namespace.clone())));
        }
        assert_eq!(lab.guests[1].namespace, "linerate-x-g1");
    }

    #[test]
    fn guests_may_share_several_links() {
        let lab = made(3, MOST_LINKS, MOST_SEVERAL_GUESTS);
        let mut seen = std::collections::BTreeSet::new();
        for host in [&lab.a, &lab.b].into_iter().chain(&lab.guests) {
            for (link, port) in host.ports().iter().enumerate() {
                let network = Ipv4Addr::new(10, 213, 3, 128 + 16 * link as u8);
                assert_eq!(port.address.to_bits() >> 4, network.to_bits() >> 4);
                assert!(seen.insert(port.address) && port.address.octets()[3] % 16 != 15, "{}", port.address);
            }
        }
    }

    #[test]
    fn queues_are_read_back() {
        assert_eq!(queues(r#"[{"ifname":"v","num_tx_queues":4,"num_rx_queues":2}]"#), Some((2, 4)));
        assert_eq!(queues("[]"), None);
        assert_eq!(queues("no"), None);
    }

    #[test]
    fn what_is_asked_for_goes_before_the_default() {
        assert_eq!(congestion(Some("reno")).as_deref(), Some("reno"));
    }
}
