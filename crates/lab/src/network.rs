//! The two namespaces and the link between them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use linerate_sys::netns;
use std::os::fd::AsFd;

use crate::error::LabError;
use crate::name::LabName;
use crate::rate::Rate;
use crate::state::{Description, Host};
use crate::tool::{IP, TC};

/// How long a packet may wait in the shaper's queue before it is dropped: a deep switch buffer.
const LATENCY: &str = "20ms";

/// What the kernel's own defaults begin with; only the largest size is an option.
const BUFFER_FLOOR: &str = "4096 262144";

/// The hosts a and b of a lab in this address block: 10.213.SLOT.0/30 and fd6c:6e72:0:SLOT::/64. The namespaces reach
/// nothing else, so these need to be unique only for a reader.
pub(crate) fn hosts(name: &LabName, slot: u8) -> (Host, Host) {
    let ipv6 = Path::new("/proc/sys/net/ipv6").exists();
    let host = |letter, interface: &str, last: u8| Host {
        namespace: name.namespace(letter),
        interface: interface.into(),
        address: Ipv4Addr::new(10, 213, slot, last),
        address6: ipv6.then(|| Ipv6Addr::new(0xfd6c, 0x6e72, 0, slot.into(), 0, 0, 0, last.into())),
    };
    (host('a', "to-b", 1), host('b', "to-a", 2))
}

/// The congestion control for the link's routes: the one asked for, or cubic, Linux's and the seeds' default, where
/// the kernel has it. A namespace can't choose one that is a module by itself, but a route can.
pub(crate) fn congestion(asked: Option<&str>) -> Option<String> {
    let listed =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let default = listed.split_whitespace().find(|name| *name == "cubic");
    asked.or(default).map(str::to_owned)
}

/// Makes both namespaces, the link with its addresses, routes and rate, and brings all of it up.
pub(crate) fn build(lab: &Description) -> Result<(), LabError> {
    let Description { a, b, .. } = lab;
    for host in [a, b] {
        ip(&format!("netns add {}", host.namespace))?;
    }
    let mtu = lab.mtu;
    ip(&format!(
        "-n {} link add {} mtu {mtu} type veth peer name {} mtu {mtu} netns {}",
        a.namespace, a.interface, b.interface, b.namespace
    ))?;
    for host in [a, b] {
        bring_up(host)?;
        route(host, lab.congestion.as_deref())?;
        lab.link.map_or(Ok(()), |rate| shape(host, rate))?;
        lab.tcp_buffer_max.map_or(Ok(()), |bytes| set_buffers(host, bytes))?;
    }
    Ok(())
}

/// Takes the link and the namespaces away. What isn't there is not an error.
pub(crate) fn remove(host: &Host) -> Result<(), LabError> {
    let path = host.namespace_path();
    if !path.exists() {
        return Ok(());
    }
    // A namespace lives on while anything holds it; its end of the link need not. It may not have one yet.
    let _ = ip(&format!("-n {} link delete {}", host.namespace, host.interface));
    ip(&format!("netns delete {}", host.namespace))
}

fn bring_up(host: &Host) -> Result<(), LabError> {
    let Host { namespace, interface, address, address6 } = host;
    ip(&format!("-n {namespace} link set lo up"))?;
    ip(&format!("-n {namespace} address add {address}/30 dev {interface}"))?;
    if let Some(address6) = address6 {
        // Nobody else is on this link: looking for duplicates would only make the address wait.
        ip(&format!("-n {namespace} address add {address6}/64 dev {interface} nodad"))?;
    }
    ip(&format!("-n {namespace} link set {interface} up"))
}

fn route(host: &Host, congestion: Option<&str>) -> Result<(), LabError> {
    let Host { namespace, interface, address, address6 } = host;
    let Some(congestion) = congestion else { return Ok(()) };
    let network = Ipv4Addr::from_bits(address.to_bits() & !3);
    ip(&format!(
        "-n {namespace} route replace {network}/30 dev {interface} proto kernel scope link src {address} congctl {congestion}"
    ))?;
    let Some(address6) = address6 else { return Ok(()) };
    let network6 = Ipv6Addr::from_bits(address6.to_bits() >> 64 << 64);
    ip(&format!(
        "-n {namespace} -6 route replace {network6}/64 dev {interface} proto kernel metric 256 congctl {congestion}"
    ))
}

fn shape(host: &Host, rate: Rate) -> Result<(), LabError> {
    let Host { namespace, interface, .. } = host;
    let (bits, burst) = (rate.bits_per_second(), rate.burst());
    let line = format!(
        "-n {namespace} qdisc add dev {interface} root tbf rate {bits}bit burst {burst} latency {LATENCY}"
    );
    TC.run(&words(&line)).map(drop)
}

fn set_buffers(host: &Host, bytes: u64) -> Result<(), LabError> {
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

/// Runs ip(8); none of a lab's names and addresses holds a space.
fn ip(line: &str) -> Result<(), LabError> {
    IP.run(&words(line)).map(drop)
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_addresses_of_its_own() {
        let name: LabName = "x".parse().expect("a good name");
        let ((a, b), (other, _)) = (hosts(&name, 3), hosts(&name, 4));
        assert_eq!(
            (a.address.to_string(), b.address.to_string()),
            ("10.213.3.1".into(), "10.213.3.2".into())
        );
        assert_ne!(a.address, other.address);
        assert!(a.address6.is_none_or(|address| address.to_string() == "fd6c:6e72:0:3::1"));
        assert_eq!(a.namespace, "linerate-x-a");
    }

    #[test]
    fn what_is_asked_for_goes_before_the_default() {
        assert_eq!(congestion(Some("reno")).as_deref(), Some("reno"));
    }
}
