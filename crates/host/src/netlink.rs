//! Sends netlink requests (netlink(7), rtnetlink(7)) for the calling thread's network namespace, and converts the
//! kernel's answers to text. The requests of this file are about interfaces, queueing disciplines, policers,
//! redirections, and routes with their own settings.

pub(crate) mod coalescing;
pub(crate) mod fec;
pub(crate) mod functions;
mod generic;
mod link;
pub(crate) mod rules;
mod shape;
pub(crate) mod taken;

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with,
};
use shape::{FilterAction, QdiscLimits};

/// The flags NLM_F_REQUEST and NLM_F_DUMP.
pub(crate) const DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// The messages RTM_GETROUTE and RTM_GETQDISC.
const GET_ROUTE: u16 = 26;
const GET_QDISC: u16 = 38;
/// The parent TC_H_ROOT; and the parent TC_H_INGRESS, which has the same number as TC_H_CLSACT. Disciplines with the
/// latter parent contain filters and no packets.
const ROOT: u64 = 0xffff_ffff;
const INGRESS: u64 = 0xffff_fff1;
/// TC_H_MIN_MASK: the bits of a class's number within its discipline.
const MINOR: u64 = 0xffff;
/// The attributes TCA_KIND and TCA_STATS2, and the attribute TCA_STATS_QUEUE inside TCA_STATS2.
const KIND: u16 = 1;
const STATS: u16 = 7;
const STATS_QUEUE: u16 = 3;
/// The attributes RTA_DST, RTA_OIF and RTA_METRICS.
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;
const METRICS: u16 = 8;
/// The metric RTAX_CC_ALGO, and the metrics whose values are numbers.
const CONGESTION: u16 = 16;
const NUMBERS: [(u16, &str); 4] = [(2, "mtu"), (3, "window"), (11, "initcwnd"), (13, "rto_min")];
/// The most messages of an answer that are read, and the most lines that are made of an answer. A router may have a
/// million routes; the kernel lists default routes first.
const MOST_MESSAGES: usize = 1 << 16;
const MOST_LINES: usize = 256;
/// The most ports that are reported as targets to which the filters of one port redirect packets.
const MOST_REDIRECTS: usize = 8;
/// The flags NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const FLAGS: u16 = 0xc000;

/// Returns a line for each interface: `eth0 kind veth elsewhere 1 max_mtu 65535`.
pub(crate) fn links() -> io::Result<String> {
    lines(link::GET_LINK, link::HEADER, link::link)
}

/// Returns a line for each queueing discipline: `eth0 root fq drops 0 requeues 3 overlimits 0`. If the discipline
/// limits its port, the line also has `rate`; if it limits a part of the port's packets, `part`; if it limits each
/// connection, `each`. All limits are in bits per second.
pub(crate) fn qdiscs() -> io::Result<String> {
    let asked = NetlinkQuestions::open()?;
    let all = asked.dump(&request_all(GET_QDISC, shape::HEADER), qdisc)?;
    let mut text = String::new();
    for qdisc in all.iter().filter(|qdisc| qdisc.parent != INGRESS).take(MOST_LINES) {
        // The disciplines htb and hfsc have rates only in their classes.
        let in_classes = ["htb", "hfsc"].contains(&qdisc.kind.as_str()).then(|| asked.class_rate(qdisc));
        let _ = asked.name(qdisc.index).map(|port| qdisc.write(&port, in_classes.flatten(), &mut text));
    }
    Ok(text)
}

/// Returns a line for each port and direction with a policer (the port, `in` or `out`, and bits per second; `in-part` or
/// `out-part` if the policer's filter applies only to a part of the packets), and a line
/// for each port to which a filter redirects packets (the filter's port, `in-to` or `out-to`, and the name of the other
/// port).
pub(crate) fn policers() -> io::Result<String> {
    let asked = NetlinkQuestions::open()?;
    let all = asked.dump(&request_all(GET_QDISC, shape::HEADER), qdisc)?;
    let (mut redirects, mut rates) = (String::new(), String::new());
    for QdiscLine { index, .. } in all.iter().filter(|qdisc| qdisc.parent == INGRESS).take(MOST_LINES) {
        let Some(port) = asked.name(*index) else { continue };
        for (way, parent) in [("in", shape::INWARDS), ("out", shape::OUTWARDS)] {
            let filters = shape::of_interface(shape::GET_FILTER, *index, parent);
            // For an ingress discipline, a request for filters of sent packets returns an error.
            let actions = asked.dump(&filters, shape::of_filter).unwrap_or_default();
            let FilterLimits { limits, parts, others } = reported(&actions);
            let _ = limits.iter().min().map(|rate| writeln!(rates, "{port} {way} {rate}"));
            let _ = parts.iter().min().map(|rate| writeln!(rates, "{port} {way}-part {rate}"));
            let others = others.into_iter().take(MOST_REDIRECTS).filter_map(|other| asked.name(other));
            others.for_each(|other| redirects += &format!("{port} {way}-to {other}\n"));
        }
    }
    Ok(redirects + &rates)
}

/// The limits and redirections of the filters of an interface in one direction.
#[derive(Debug, Default, PartialEq)]
struct FilterLimits {
    /// The limits on all packets.
    limits: Vec<u64>,
    /// The limits on a part of the packets.
    parts: Vec<u64>,
    /// The devices to which packets are redirected, each once.
    others: Vec<u32>,
}

fn reported(actions: &[FilterAction]) -> FilterLimits {
    let mut all = FilterLimits::default();
    for action in actions {
        match *action {
            FilterAction::Police(rate) => all.limits.push(rate),
            FilterAction::PolicePart(rate) => all.parts.push(rate),
            FilterAction::Redirect(other) if !all.others.contains(&other) => all.others.push(other),
            FilterAction::Redirect(_) => {}
        }
    }
    all
}

/// Returns a line for each route with settings: `default eth0 mtu 1400 congctl bbr`.
pub(crate) fn routes() -> io::Result<String> {
    lines(GET_ROUTE, 12, |message, name, text| route(message, name, text))
}

type LineWriter = fn(&[u8], &dyn Fn(u32) -> Option<String>, &mut String) -> Option<()>;

/// Sends a request whose header consists of `header` zero bytes, and converts the answer to lines.
fn lines(question: u16, header: usize, line: LineWriter) -> io::Result<String> {
    let asked = NetlinkQuestions::open()?;
    let reported = asked.dump(&request_all(question, header), |message| {
        let mut text = String::new();
        line(message, &|index| asked.name(index), &mut text).map(|()| text)
    })?;
    Ok(reported.into_iter().take(MOST_LINES).collect())
}

/// A netlink socket for requests to the kernel.
struct NetlinkQuestions {
    socket: OwnedFd,
    named: OwnedFd,
}

impl NetlinkQuestions {
    fn open() -> io::Result<Self> {
        // The default protocol is 0, which is NETLINK_ROUTE.
        Ok(Self {
            socket: socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?,
            named: socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?,
        })
    }

    fn name(&self, index: u32) -> Option<String> {
        netdevice::index_to_name(&self.named, index).ok()
    }

    /// Sends a request, and applies `of` to each message of the answer. Returns the results that aren't `None`.
    fn dump<T>(&self, request: &[u8], of: impl Fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
        send(&self.socket, request, SendFlags::empty())?;
        let (mut buffer, mut all, mut reported) = (vec![0; 64 << 10], Vec::new(), 0);
        while reported < MOST_MESSAGES {
            let (got, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = buffer.get(..got).unwrap_or_default();
            while let Some((kind, inside, after)) = message(rest) {
                match kind {
                    NLMSG_DONE => return Ok(all),
                    NLMSG_ERROR => return error(inside).map(|_| all),
                    _ if all.len() < MOST_MESSAGES => all.extend(of(inside)),
                    _ => {}
                }
                (rest, reported) = (after, reported + 1);
            }
            if got == 0 {
                break;
            }
        }
        Ok(all)
    }

    /// The highest rate, in bits per second, of the classes at an interface's root, and whether it applies to all packets:
    /// htb sends packets of no class without a limit if its default class doesn't exist.
    fn class_rate(&self, qdisc: &QdiscLine) -> Option<ClassRate> {
        let classes = shape::of_interface(shape::GET_CLASS, qdisc.index, 0);
        // In struct tcmsg, the class is at offset 8 and its parent at offset 12.
        let class = |message: &[u8]| {
            Some((number(message, 8, 4)?, number(message, 12, 4)?, shape::of_class(message)))
        };
        let all = self.dump(&classes, class).ok()?;
        let rate =
            all.iter().filter(|(_, parent, _)| *parent == ROOT).filter_map(|(.., rate)| *rate).max()?;
        let is_default = |class: u64| class & MINOR == u64::from(qdisc.default_class);
        let whole = qdisc.kind != "htb"
            || qdisc.default_class > 0 && all.iter().any(|(class, ..)| is_default(*class));
        Some(ClassRate { rate, whole })
    }
}

/// A request for all objects of a kind. The request's header consists of `header` zero bytes.
fn request_all(question: u16, header: usize) -> Vec<u8> {
    request(question, DUMP, &vec![0; header])
}

/// A netlink message for the kernel: struct nlmsghdr, followed by `body`.
pub fn request(question: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + body.len()).unwrap_or(0);
    [&length.to_ne_bytes()[..], &question.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], body].concat()
}

/// A netlink attribute: struct nlattr and its payload, padded to a multiple of 4 bytes.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A queueing discipline as a line of text.
struct QdiscLine {
    index: u32,
    parent: u64,
    kind: String,
    counters: [u64; 3],
    limits: QdiscLimits,
    /// The minor number of htb's default class; 0 if it has none.
    default_class: u32,
}

/// The limit of the classes of a discipline.
struct ClassRate {
    rate: u64,
    /// True if it applies to all packets.
    whole: bool,
}

/// Parses struct tcmsg: the family, the interface, the handle, the parent and 4 more bytes; then the
/// attributes.
fn qdisc(message: &[u8]) -> Option<QdiscLine> {
    let (index, parent) = (number(message, 4, 4)? as u32, number(message, 12, 4)?);
    let (mut kind, mut counters, mut options) = (String::new(), [0; 3], &[][..]);
    for (attribute, value) in attributes(message.get(20..)?) {
        match attribute & !FLAGS {
            KIND => kind = string(value),
            shape::OPTIONS => options = value,
            STATS => counters = queue(value).unwrap_or_default(),
            _ => {}
        }
    }
    let limits = shape::of_qdisc(&kind, options);
    // struct tc_htb_glob in TCA_HTB_INIT; other disciplines have another structure there.
    let default_class = find(options, 2).and_then(|global| number(global, 8, 4)).unwrap_or(0) as u32;
    Some(QdiscLine { index, parent, kind, counters, limits, default_class })
}

impl QdiscLine {
    fn write(&self, port: &str, in_classes: Option<ClassRate>, text: &mut String) {
        let place = if self.parent == ROOT { "root" } else { "child" };
        let [drops, requeues, overlimits] = self.counters;
        let (whole, part) = match in_classes {
            Some(ClassRate { rate, whole: true }) => (Some(rate), None),
            Some(ClassRate { rate, whole: false }) => (None, Some(rate)),
            None => (None, None),
        };
        let (kind, rate) = (&self.kind, self.limits.rate.or(whole));
        // Writing to a string can't fail.
        let _ =
            write!(text, "{port} {place} {kind} drops {drops} requeues {requeues} overlimits {overlimits}");
        let _ = rate.map(|rate| write!(text, " rate {rate}"));
        let _ = part.map(|part| write!(text, " part {part}"));
        let _ = self.limits.each.map(|each| write!(text, " each {each}"));
        text.push('\n');
    }
}

/// The drops, requeues and overlimits from struct gnet_stats_queue, where they come after the queue's bytes and
/// packets.
fn queue(stats: &[u8]) -> Option<[u64; 3]> {
    let value = find(stats, STATS_QUEUE)?;
    Some([number(value, 8, 4)?, number(value, 12, 4)?, number(value, 16, 4)?])
}

/// Parses struct rtmsg, which has 12 bytes: the first is the family, the second the length of the
/// destination's prefix.
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

/// Splits off the first of several messages: its type, its payload, and the bytes after the message.
pub fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = number(bytes, 0, 4)? as usize;
    let kind = number(bytes, 4, 2)? as u16;
    let inside = bytes.get(16..length)?;
    Some((kind, inside, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Parses struct nlmsgerr, which begins with a negative error number, or with 0 for an acknowledgment. The result of an
/// acknowledgment is `false`.
///
/// # Errors
/// The error that the kernel reports, or an error if the answer is cut off.
pub fn error(message: &[u8]) -> io::Result<bool> {
    match number(message, 0, 4).map(|number| number as u32 as i32) {
        Some(0) => Ok(false),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::Error::other("the kernel's answer is cut off")),
    }
}

/// Iterates over attributes, each of which is struct nlattr and its payload.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = number(bytes, 0, 2)? as usize;
        let kind = number(bytes, 2, 2)? as u16;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of the kind `wanted`.
pub fn find(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| kind & !FLAGS == wanted).map(|(_, value)| value)
}

/// Reads a number of 1, 2, 4 or 8 bytes in the machine's byte order.
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
        // In a new namespace, lo has the discipline noqueue; a namespace whose settings were changed may report another
        // discipline.
        assert!(text.lines().any(|line| line.starts_with("lo root ")), "{text}");
        assert!(routes().is_ok() && policers().is_ok());
        let links = links().unwrap();
        assert!(links.lines().any(|line| line.starts_with("lo")), "{links}");
    }

    #[test]
    fn a_route_is_reported_by_what_it_sets() {
        let number = |kind, value: u32| attribute(kind, &value.to_ne_bytes());
        // The lock mask RTAX_LOCK contains rto_min, because ip(8) always sets that bit.
        let metrics =
            [number(1, 1 << 13), number(2, 1400), number(13, 500), attribute(16, b"bbr\0")].concat();
        let mut message = vec![2, 24, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        message.extend(attribute(1, &[10, 1, 2, 0]));
        message.extend(attribute(4, &7u32.to_ne_bytes()));
        message.extend(attribute(8, &metrics));
        let mut text = String::new();
        route(&message, &|index| Some(format!("eth{index}")), &mut text);
        assert_eq!(text, "10.1.2.0/24 eth7 mtu 1400 rto_min 500 congctl bbr\n");
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (mut text, name) = (String::new(), |_| Some(String::new()));
            let _ = (qdisc(&bytes).is_some(), route(&bytes, &name, &mut text));
            let _ = (message(&bytes), error(&bytes), attributes(&bytes).count());
        }
    }
}
