//! The kernel's answers by netlink (netlink(7), rtnetlink(7)) as text: queueing disciplines, and routes with
//! settings of their own, of the calling thread's network namespace.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with,
};

/// NLM_F_REQUEST and NLM_F_DUMP.
pub(crate) const DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// RTM_GETROUTE and RTM_GETQDISC.
const GET_ROUTE: u16 = 26;
const GET_QDISC: u16 = 38;
/// TC_H_ROOT, and TC_H_INGRESS with TC_H_CLSACT, which hold filters and no packets.
const ROOT: u64 = 0xffff_ffff;
const INGRESS: u64 = 0xffff_fff1;
/// TCA_KIND and TCA_STATS2, in it TCA_STATS_QUEUE.
const KIND: u16 = 1;
const STATS: u16 = 7;
const STATS_QUEUE: u16 = 3;
/// RTA_DST, RTA_OIF and RTA_METRICS.
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;
const METRICS: u16 = 8;
/// RTAX_CC_ALGO, and the metrics that are numbers.
const CONGESTION: u16 = 16;
const NUMBERS: [(u16, &str); 3] = [(2, "mtu"), (3, "window"), (11, "initcwnd")];
/// The most routes that are read: routers have a million, and the default ones come first.
const MOST_MESSAGES: usize = 1 << 16;
const MOST_LINES: usize = 256;
/// NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const FLAGS: u16 = 0xc000;

/// A line for each queueing discipline: `eth0 root fq drops 0 requeues 3 overlimits 0`.
pub(crate) fn qdiscs() -> io::Result<String> {
    lines(GET_QDISC, 20, |message, name, text| qdisc(message, name, text))
}

/// A line for each route with settings: `default eth0 mtu 1400 congctl bbr`.
pub(crate) fn routes() -> io::Result<String> {
    lines(GET_ROUTE, 12, |message, name, text| route(message, name, text))
}

type LineWriter = fn(&[u8], &dyn Fn(u32) -> Option<String>, &mut String) -> Option<()>;

/// Sends a request with a header of zeros of a given size.
fn lines(question: u16, header: usize, line: LineWriter) -> io::Result<String> {
    // The default protocol is 0, NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &request(question, header), SendFlags::empty())?;
    let named = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let name = |index: u32| netdevice::index_to_name(&named, index).ok();
    let (mut buffer, mut text, mut told) = (vec![0; 64 << 10], String::new(), 0);
    while told < MOST_MESSAGES {
        let (got, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = buffer.get(..got).unwrap_or_default();
        while let Some((kind, inside, after)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(text),
                NLMSG_ERROR => return error(inside).map(|_| text),
                _ if text.lines().count() < MOST_LINES => drop(line(inside, &name, &mut text)),
                _ => {}
            }
            (rest, told) = (after, told + 1);
        }
        if got == 0 {
            break;
        }
    }
    Ok(text)
}

fn request(question: u16, header: usize) -> Vec<u8> {
    let mut bytes = vec![0; 16 + header];
    let length = u32::try_from(bytes.len()).unwrap_or(0);
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&question.to_ne_bytes());
    bytes[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    bytes
}

/// struct tcmsg: the family, the interface, the handle, the parent, and 4 bytes more.
fn qdisc(message: &[u8], name: &dyn Fn(u32) -> Option<String>, text: &mut String) -> Option<()> {
    let port = name(number(message, 4, 4)? as u32)?;
    let parent = number(message, 12, 4)?;
    if parent == INGRESS {
        return None;
    }
    let (mut kind, mut counters) = (String::new(), [0; 3]);
    for (attribute, value) in attributes(message.get(20..)?) {
        match attribute & !FLAGS {
            KIND => kind = string(value),
            STATS => counters = queue(value).unwrap_or_default(),
            _ => {}
        }
    }
    let place = if parent == ROOT { "root" } else { "child" };
    let [drops, requeues, overlimits] = counters;
    writeln!(text, "{port} {place} {kind} drops {drops} requeues {requeues} overlimits {overlimits}").ok()
}

/// struct gnet_stats_queue: bytes and packets that wait, drops, requeues, overlimits.
fn queue(stats: &[u8]) -> Option<[u64; 3]> {
    let (_, value) = attributes(stats).find(|(kind, _)| kind & !FLAGS == STATS_QUEUE)?;
    Some([number(value, 8, 4)?, number(value, 12, 4)?, number(value, 16, 4)?])
}

/// struct rtmsg: 12 bytes, of which the first is the family and the second the length of the destination's
/// prefix.
fn route(message: &[u8], name: &dyn Fn(u32) -> Option<String>, text: &mut String) -> Option<()> {
    let (mut destination, mut port, mut own) = (None, None, String::new());
    for (attribute, value) in attributes(message.get(12..)?) {
        match attribute & !FLAGS {
            DESTINATION => destination = address(value),
            INTERFACE => port = number(value, 0, 4).and_then(|index| name(index as u32)),
            METRICS => own = metrics(value),
            _ => {}
        }
    }
    if own.is_empty() {
        return None;
    }
    let prefix = number(message, 1, 1)?;
    let to = destination.map_or_else(|| "default".to_owned(), |to| format!("{to}/{prefix}"));
    writeln!(text, "{to} {}{own}", port.as_deref().unwrap_or("-")).ok()
}

fn metrics(bytes: &[u8]) -> String {
    attributes(bytes).fold(String::new(), |mut text, (kind, value)| {
        let named = NUMBERS.iter().find(|(number, _)| *number == kind);
        if let (Some((_, name)), Some(value)) = (named, number(value, 0, 4)) {
            let _ = write!(text, " {name} {value}");
        } else if kind == CONGESTION {
            let _ = write!(text, " congctl {}", string(value));
        }
        text
    })
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|sixteen| Ipv6Addr::from(sixteen).to_string())
}

fn string(bytes: &[u8]) -> String {
    bytes.iter().take_while(|byte| byte.is_ascii_graphic()).map(|byte| *byte as char).collect()
}

/// The first of several messages: its kind, its payload, and the rest.
pub fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = number(bytes, 0, 4)? as usize;
    let kind = number(bytes, 4, 2)? as u16;
    let inside = bytes.get(16..length)?;
    Some((kind, inside, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// struct nlmsgerr begins with the negative error number; 0 acknowledges.
///
/// # Errors
/// The error that the kernel reports, or an answer that is cut off.
pub fn error(message: &[u8]) -> io::Result<bool> {
    match number(message, 0, 4).map(|number| number as u32 as i32) {
        Some(0) => Ok(false),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::Error::other("the kernel's answer is cut off")),
    }
}

/// The attributes: struct nlattr and its payload, one after another.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = number(bytes, 0, 2)? as usize;
        let kind = number(bytes, 2, 2)? as u16;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A number of 1, 2, 4 or 8 bytes in the machine's order.
pub fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(match size {
        1 => bytes[0].into(),
        2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
        4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
        _ => u64::from_ne_bytes(bytes.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_has_no_queue() {
        let text = qdiscs().unwrap();
        // A fresh namespace has this discipline; a changed one reports another.
        assert!(text.lines().any(|line| line.starts_with("lo root ")), "{text}");
        assert!(routes().is_ok());
    }

    #[test]
    fn a_route_is_told_by_what_it_sets() {
        let attribute = |kind: u16, value: &[u8]| {
            let length = u16::try_from(value.len() + 4).unwrap();
            let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let metrics = [attribute(2, &1400u32.to_ne_bytes()), attribute(16, b"bbr\0")].concat();
        let mut message = vec![2, 24, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        message.extend(attribute(1, &[10, 1, 2, 0]));
        message.extend(attribute(4, &7u32.to_ne_bytes()));
        message.extend(attribute(8, &metrics));
        let mut text = String::new();
        route(&message, &|index| Some(format!("eth{index}")), &mut text);
        assert_eq!(text, "10.1.2.0/24 eth7 mtu 1400 congctl bbr\n");
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (mut text, name) = (String::new(), |_| Some(String::new()));
            let _ = (qdisc(&bytes, &name, &mut text), route(&bytes, &name, &mut text));
            let _ = (message(&bytes), error(&bytes), attributes(&bytes).count());
        }
    }
}
