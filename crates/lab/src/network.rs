//! The two namespaces and the link between them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use linerate_sys::netns;
use std::os::fd::AsFd;

use crate::error::LabError;
use crate::name::LabName;
use crate::rate::Rate;
use crate::state::{Description, LabHost, LinkPort};
use crate::tool::{IP, TC};

/// The longest wait of a packet in the shaper's queue before it is dropped: a deep switch buffer.
const LATENCY: &str = "20ms";

/// The minimum and default of the kernel's buffers; only the maximum is an option.
const BUFFER_FLOOR: &str = "4096 262144";

/// The common part of a link's addresses.
const LINK_PREFIX: u8 = 30;

/// The same if guests share the link: room for 120 of them.
const SHARED_PREFIX: u8 = 25;

/// Packets of up to 64 KiB that may wait for the emulator.
const EMULATOR_QUEUE: u32 = 10_000;

/// The bridge on host b that joins the link and the guests.
const BRIDGE: &str = "guests";

/// The most links between the hosts.
pub(crate) const MOST_LINKS: u32 = 8;

/// The most guests.
pub(crate) const MOST_GUESTS: u32 = 64;

/// The most queues of an interface.
pub(crate) const MOST_QUEUES: u32 = 64;

/// The hosts of a lab in this address block.
///
/// Link i has 10.213.SLOT.(4 i)/30 and fd6c:6e72:i:SLOT::/64; a link that guests share has
/// 10.213.SLOT.128/25. The namespaces are isolated, so that unique addresses only help readers.
pub(crate) fn hosts(name: &LabName, slot: u8, links: u32, guests: u32) -> LabHosts {
    let base = if guests > 0 { 128 } else { 0 };
    let host = |letter, peer: &str, last: u8| {
        let mut ports = (0..links.max(1)).map(|link| port(slot, link, peer, base + last));
        let LinkPort { interface, address, address6 } = ports.next().expect("there is at least one link");
        LabHost { namespace: name.namespace(letter), interface, address, address6, further: ports.collect() }
    };
    let guest = |number: u32| {
        let LinkPort { interface, address, address6 } = port(slot, 0, "a", base + 3 + number as u8);
        LabHost { namespace: name.guest(number), interface, address, address6, further: Vec::new() }
    };
    LabHosts { a: host('a', "b", 1), b: host('b', "a", 2), guests: (0..guests).map(guest).collect() }
}

/// All hosts of a lab.
pub(crate) struct LabHosts {
    pub(crate) a: LabHost,
    pub(crate) b: LabHost,
    pub(crate) guests: Vec<LabHost>,
}

fn port(slot: u8, link: u32, peer: &str, last: u8) -> LinkPort {
    let ipv6 = Path::new("/proc/sys/net/ipv6").exists();
    // With at most 8 links all numbers fit.
    let number = if link == 0 { String::new() } else { link.to_string() };
    LinkPort {
        interface: format!("to-{peer}{number}"),
        address: Ipv4Addr::new(10, 213, slot, 4 * link as u8 + last),
        address6: ipv6.then(|| Ipv6Addr::new(0xfd6c, 0x6e72, link as u16, slot.into(), 0, 0, 0, last.into())),
    }
}

/// The congestion control for the link's routes: the one in the options, or cubic, the default of Linux and
/// the papers, if the kernel has it. A namespace can't choose one that is a module, but a route can.
pub(crate) fn congestion(asked: Option<&str>) -> Option<String> {
    let listed =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let default = listed.split_whitespace().find(|name| *name == "cubic");
    asked.or(default).map(str::to_owned)
}

/// Creates the namespaces, with nothing but loopback.
pub(crate) fn make_namespaces(lab: &Description) -> Result<(), LabError> {
    for host in lab.hosts() {
        ip(&format!("netns add {}", host.namespace))?;
        ip(&format!("-n {} link set lo up", host.namespace))?;
        lab.tcp_buffer_max.map_or(Ok(()), |bytes| set_buffers(host, bytes))?;
    }
    Ok(())
}

/// Creates the links with their addresses, routes and rate, and brings everything up. The interfaces of a
/// link with an emulator exist already.
pub(crate) fn build(lab: &Description) -> Result<(), LabError> {
    for (near, far) in lab.a.ports().iter().zip(&lab.b.ports()) {
        let ends = [(&lab.a, near), (&lab.b, far)];
        if lab.wan.is_some() {
            ends.into_iter().try_for_each(|(host, port)| prepare_emulated(lab, host, port))?;
            continue;
        }
        join(lab, ends[0], ends[1])?;
        for (host, port) in ends {
            lab.link.map_or(Ok(()), |rate| shape(host, port, rate))?;
        }
    }
    bring_up(lab, &lab.a)?;
    if lab.guests.is_empty() { bring_up(lab, &lab.b) } else { bridge(lab) }
}

/// Packets that wait for the emulator aren't in the link's queue, and must not be dropped before the emulator
/// sees them.
fn prepare_emulated(lab: &Description, host: &LabHost, port: &LinkPort) -> Result<(), LabError> {
    let (namespace, interface, mtu) = (&host.namespace, &port.interface, lab.mtu);
    // Without a link-local address, the kernel doesn't look for neighbours and routers there.
    ip(&format!("-n {namespace} link set {interface} mtu {mtu} txqueuelen {EMULATOR_QUEUE} addrgenmode none"))
}

/// Removes the links and the namespace. Missing ones are no error.
pub(crate) fn remove(host: &LabHost) -> Result<(), LabError> {
    let path = host.namespace_path();
    if !path.exists() {
        return Ok(());
    }
    for port in host.ports() {
        // A namespace lives on while anything holds it; its end of the link, if it exists, need not.
        let _ = ip(&format!("-n {} link delete {}", host.namespace, port.interface));
    }
    ip(&format!("netns delete {}", host.namespace))
}

/// A pair of interfaces, with the given number of queues.
fn join(lab: &Description, near: (&LabHost, &LinkPort), far: (&LabHost, &LinkPort)) -> Result<(), LabError> {
    let mtu = lab.mtu;
    let queues = lab.queues.map_or(String::new(), |n| format!(" numtxqueues {n} numrxqueues {n}"));
    ip(&format!(
        "-n {} link add {} mtu {mtu}{queues} type veth peer name {} mtu {mtu}{queues} netns {}",
        near.0.namespace, near.1.interface, far.1.interface, far.0.namespace
    ))?;
    let Some(asked) = lab.queues else { return Ok(()) };
    [near, far].into_iter().try_for_each(|(host, port)| check_queues(host, port, asked))
}

/// Checks the number of queues: the kernel may silently create fewer than requested.
fn check_queues(host: &LabHost, port: &LinkPort, asked: u32) -> Result<(), LabError> {
    let line = format!("-n {} -d -j link show dev {}", host.namespace, port.interface);
    let shown = IP.run(&words(&line))?;
    match queues(&shown) {
        Some(found) if found == (asked, asked) => Ok(()),
        found => Err(LabError::Queues { asked, found, interface: port.interface.clone() }),
    }
}

/// Receive and transmit queues in the output of `ip -d -j link show`.
fn queues(shown: &str) -> Option<(u32, u32)> {
    let links: serde_json::Value = serde_json::from_str(shown).ok()?;
    let number = |key: &str| links[0][key].as_u64().and_then(|n| u32::try_from(n).ok());
    Some((number("num_rx_queues")?, number("num_tx_queues")?))
}

fn bring_up(lab: &Description, host: &LabHost) -> Result<(), LabError> {
    for port in host.ports() {
        ip(&format!("-n {} link set {} up", host.namespace, port.interface))?;
        settle(lab, host, &port)?;
    }
    Ok(())
}

/// Makes host b's end of the link a port of a bridge, beside one for each guest; b's own address is the
/// bridge's.
fn bridge(lab: &Description) -> Result<(), LabError> {
    let (b, mtu) = (&lab.b, lab.mtu);
    ip(&format!("-n {} link add {BRIDGE} mtu {mtu} type bridge", b.namespace))?;
    ip(&format!("-n {} link set {} master {BRIDGE} up", b.namespace, b.interface))?;
    ip(&format!("-n {} link set {BRIDGE} up", b.namespace))?;
    settle(lab, b, &LinkPort { interface: BRIDGE.into(), address: b.address, address6: b.address6 })?;
    for (number, guest) in lab.guests.iter().enumerate() {
        let port = LinkPort { interface: format!("guest{number}"), address: b.address, address6: None };
        join(lab, (guest, &guest.ports()[0]), (b, &port))?;
        ip(&format!("-n {} link set {} master {BRIDGE} up", b.namespace, port.interface))?;
        bring_up(lab, guest)?;
    }
    Ok(())
}

/// Addresses and routes of one interface.
fn settle(lab: &Description, host: &LabHost, port: &LinkPort) -> Result<(), LabError> {
    let (LinkPort { interface, address, address6 }, namespace) = (port, &host.namespace);
    let prefix = if lab.guests.is_empty() { LINK_PREFIX } else { SHARED_PREFIX };
    ip(&format!("-n {namespace} address add {address}/{prefix} dev {interface}"))?;
    if let Some(address6) = address6 {
        // The link has no other hosts: detection of duplicates would only delay the address.
        ip(&format!("-n {namespace} address add {address6}/64 dev {interface} nodad"))?;
    }
    lab.congestion.as_deref().map_or(Ok(()), |congestion| route(host, port, prefix, congestion))
}

fn route(host: &LabHost, port: &LinkPort, prefix: u8, congestion: &str) -> Result<(), LabError> {
    let (LinkPort { interface, address, address6 }, namespace) = (port, &host.namespace);
    let network = Ipv4Addr::from_bits(address.to_bits() >> (32 - prefix) << (32 - prefix));
    ip(&format!(
        "-n {namespace} route replace {network}/{prefix} dev {interface} proto kernel scope link src {address} congctl {congestion}"
    ))?;
    let Some(address6) = address6 else { return Ok(()) };
    let network6 = Ipv6Addr::from_bits(address6.to_bits() >> 64 << 64);
    ip(&format!(
        "-n {namespace} -6 route replace {network6}/64 dev {interface} proto kernel metric 256 congctl {congestion}"
    ))
}

fn shape(host: &LabHost, port: &LinkPort, rate: Rate) -> Result<(), LabError> {
    let (namespace, interface) = (&host.namespace, &port.interface);
    let (bits, burst) = (rate.bits_per_second(), rate.burst());
    let line = format!(
        "-n {namespace} qdisc add dev {interface} root tbf rate {bits}bit burst {burst} latency {LATENCY}"
    );
    TC.run(&words(&line)).map(drop)
}

fn set_buffers(host: &LabHost, bytes: u64) -> Result<(), LabError> {
    let path = host.namespace_path();
    let write_all = || {
        let write = |file| {
            std::fs::write(Path::new("/proc/sys/net/ipv4").join(file), format!("{BUFFER_FLOOR} {bytes}"))
        };
        write("tcp_rmem").and_then(|()| write("tcp_wmem"))
    };
    let namespace = std::fs::File::open(&path).map_err(LabError::file("opening", &path))?;
    let written = netns::inside(namespace.as_fd(), write_all).and_then(|result| result);
    written.map_err(LabError::file("setting TCP buffers in", &path))
}

/// Runs ip(8) with arguments separated by spaces, which no name or address of a lab contains.
fn ip(line: &str) -> Result<(), LabError> {
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
