//! The route to another host: the interfaces that packets to that host take.

use std::io;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::Fact;
use super::ports::is_plain;
use crate::netlink;
use crate::netlink::taken::LoginEnds;
use crate::root::Root;

/// The environment variable that sshd sets to both ends of a login: `ADDRESS PORT ADDRESS PORT`, the client's
/// end first.
const LOGIN: &str = "SSH_CONNECTION";

/// The route that packets to another host take. This type contains no addresses, only names of interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TakenRoute {
    /// The interface through which packets leave. If this interface is a VRF, also the interface within the VRF.
    pub ports: Vec<String>,
    /// The interfaces of all next hops, if the route has several next hops.
    pub ways: Vec<String>,
    /// True for an IPv6 route. For such a route, the kernel chooses the next hop separately for each connection.
    pub is_v6: bool,
    /// The number of the routing table: 254 is the main one.
    pub table: Option<u32>,
    /// The interfaces that have the address of this host to which the client has logged in. Packets to the
    /// client may leave through other interfaces.
    pub arrives: Vec<String>,
    /// The speed in Mbit/s of the fastest interface through which packets arrive, among those that have a link. The
    /// doctor sets this field when it removes the other interfaces from the facts.
    pub arrives_mbps: Option<u64>,
    /// The fastest interface that has a link and that the data doesn't use. The doctor sets this field when it removes
    /// the other interfaces from the facts.
    pub beside: Option<BesidePort>,
}

/// An interface that isn't part of the route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BesidePort {
    /// The interface's name.
    pub name: String,
    /// The interface's speed in Mbit/s.
    pub mbps: u64,
}

impl TakenRoute {
    /// The route that packets from this host to `address` take.
    pub fn to(address: SocketAddr) -> Fact<Self> {
        match netlink::taken::to(address) {
            Ok(text) => Self::parse(&text),
            Err(error) => Fact::Unreadable(format!("the route to {}: {error}", address.ip())),
        }
    }

    /// The route back to the client that logged in by ssh; not applicable without such a login.
    pub(super) fn back(root: &Root) -> Fact<Self> {
        root.answer("live/route_back", back).and_then(|text| Self::parse(&text))
    }

    /// The route without names of interfaces that aren't safe to use in paths and commands, because another host may
    /// have sent such names.
    pub fn plain(mut self) -> Self {
        self.ports.retain(|name| is_plain(name));
        self.ways.retain(|name| is_plain(name));
        self.arrives.retain(|name| is_plain(name));
        self.beside = self.beside.filter(|port| is_plain(&port.name));
        self
    }

    /// The names of the interfaces as text. If packets arrive through other interfaces than those through which they
    /// leave, the interfaces through which they arrive come first.
    pub fn words(&self) -> String {
        let out = self.ports.join(" and ");
        if self.arrives.iter().all(|name| self.ports.contains(name)) {
            return out;
        }
        format!("{}, back over {out}", self.arrives.join(" and "))
    }

    fn parse(text: &str) -> Fact<Self> {
        let mut route = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            match key {
                "port" => route.ports.push(value.to_owned()),
                "way" => route.ways.push(value.to_owned()),
                "arrives" => route.arrives.push(value.to_owned()),
                "v6" => route.is_v6 = value == "1",
                "table" => route.table = value.parse().ok(),
                _ => {}
            }
        }
        let route = route.plain();
        if route.ports.is_empty() {
            return Fact::Unreadable("the kernel named no port of the route".into());
        }
        Fact::Known(route)
    }
}

fn back() -> io::Result<String> {
    let login = std::env::var(LOGIN).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    let ends = ends(&login).ok_or_else(|| io::Error::other(format!("{LOGIN} names no addresses")))?;
    netlink::taken::back(&ends)
}

/// Parses a login's two ends: the client's address and this host's, which must be of the same family. A
/// link-local address is followed by `%` and the interface's name.
fn ends(login: &str) -> Option<LoginEnds> {
    let mut words = login.split_whitespace();
    let mut address = |skip| {
        let word: &str = words.nth(skip)?;
        let (address, port) =
            word.split_once('%').map_or((word, None), |(address, port)| (address, Some(port.to_owned())));
        Some((address.parse::<IpAddr>().ok()?.to_canonical(), port))
    };
    let ((client, port), (own, _)) = (address(0)?, address(1)?);
    (client.is_ipv4() == own.is_ipv4()).then_some(LoginEnds { client, own, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logins_ends_are_its_first_and_third_word() {
        let four = ends("10.0.0.1 50000 10.0.0.2 22").unwrap();
        assert_eq!((four.client, four.own), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        assert!(ends("fd00::1 5 fd00::2 22").is_some_and(|ends| ends.port.is_none()));
        let local = ends("fe80::1%eth0 5 fe80::2%eth0 22").unwrap();
        assert_eq!((local.own, local.port.as_deref()), ("fe80::2".parse().unwrap(), Some("eth0")));
        assert!(ends("UNKNOWN 65535 UNKNOWN 65535").is_none(), "sshd at the end of a pipe");
        assert!(ends("10.0.0.1 5 fd00::2 22").is_none() && ends("").is_none());
    }

    #[test]
    fn an_answer_is_taken_apart() {
        let route = TakenRoute::parse("port blue\nport eth1\nway eth1\nway eth2\ntable 100\nlater x\n");
        let Fact::Known(route) = route else { panic!("{route:?}") };
        assert_eq!(
            (route.ports, route.ways, route.table),
            (
                vec!["blue".to_owned(), "eth1".to_owned()],
                vec!["eth1".to_owned(), "eth2".to_owned()],
                Some(100)
            )
        );
        assert!(matches!(TakenRoute::parse(""), Fact::Unreadable(_)));
        let words = |text: &str| TakenRoute::parse(text).known().unwrap().words();
        assert_eq!(words("port eth0\narrives eth1\n"), "eth1, back over eth0");
        assert_eq!(words("port blue\nport eth1\narrives eth1\n"), "blue and eth1");
        assert!(matches!(TakenRoute::parse("port $(id)\n"), Fact::Unreadable(_)), "no interface's name");
    }
}
