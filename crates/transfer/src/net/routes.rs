//! Multiple links: the interfaces of this host by which data reaches the other end.

use if_addrs::Interface;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The most links that are used.
pub const MAX_ROUTES: usize = 16;
/// The most addresses of the other end for which links are searched.
const MAX_ADDRESSES: usize = 64;

/// Which interfaces of this host carry data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interfaces {
    /// Only the interface that leads to the address at which ssh reached the far end.
    #[default]
    One,
    /// Each interface through which the kernel reaches an address of the far end.
    All,
    /// Only the interfaces with these names.
    Named(Vec<String>),
}

/// One link: an interface of this host and an address of the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRoute {
    /// The name of an interface of this host.
    pub interface: String,
    /// The address of this host on the interface, if the kernel would choose another interface.
    pub bound: Option<IpAddr>,
    /// The other end's address on this link.
    pub to: SocketAddr,
}

impl DataRoute {
    /// Opens a TCP connection over this link.
    ///
    /// # Errors
    /// The errors of bind(2) and connect(2); an error if nothing answers in time.
    pub fn connect(&self, patience: Duration) -> io::Result<TcpStream> {
        let Some(bound) = self.bound else { return TcpStream::connect_timeout(&self.to, patience) };
        let socket = Socket::new(Domain::for_address(self.to), Type::STREAM, Some(Protocol::TCP))?;
        // If the kernel doesn't let an ordinary user bind to the interface, binding to the interface's
        // address may be enough.
        let _ = socket.bind_device(Some(self.interface.as_bytes()));
        socket.bind(&SocketAddr::new(bound, 0).into())?;
        socket.connect_timeout(&self.to.into(), patience)?;
        Ok(socket.into())
    }
}

/// The links of a session; each new connection uses the next one.
#[derive(Default)]
pub struct DataRoutes {
    all: Vec<(DataRoute, AtomicBool)>,
    next: AtomicUsize,
}

impl DataRoutes {
    /// Uses all of `routes`.
    pub fn new(routes: Vec<DataRoute>) -> Self {
        let all = routes.into_iter().map(|route| (route, AtomicBool::new(false))).collect();
        Self { all, next: AtomicUsize::new(0) }
    }

    /// The working links, starting with the next one in turn.
    pub fn in_turn(&self) -> impl Iterator<Item = &DataRoute> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.all.len();
        let turn = (0..count).map(move |number| &self.all[first.wrapping_add(number) % count]);
        turn.filter(|(_, failed)| !failed.load(Ordering::Relaxed)).map(|(route, _)| route)
    }

    /// Marks a link that has failed as unusable; false if the link was unusable already.
    pub fn fail(&self, route: &DataRoute) -> bool {
        let entry = self.all.iter().find(|(one, _)| one == route);
        entry.is_some_and(|(_, failed)| !failed.swap(true, Ordering::Relaxed))
    }

    /// The working links.
    pub fn working(&self) -> impl Iterator<Item = &DataRoute> {
        self.all.iter().filter(|(_, failed)| !failed.load(Ordering::Relaxed)).map(|(route, _)| route)
    }
}

/// The links to a far end that has these addresses, best first; and the named interfaces that lead to none of them.
pub fn find(interfaces: &Interfaces, addresses: &[SocketAddr]) -> (Vec<DataRoute>, Vec<String>) {
    if *interfaces == Interfaces::One {
        return (Vec::new(), Vec::new());
    }
    let own = if_addrs::get_if_addrs().unwrap_or_default();
    let own: Vec<(String, IpAddr)> =
        own.into_iter().filter(Interface::is_oper_up).map(|port| (port.name.clone(), port.ip())).collect();
    let towards = |address: SocketAddr| {
        let from = source_address(address).ok()?;
        own.iter().find(|(_, ip)| *ip == from).map(|(name, _)| name.clone())
    };
    choose(interfaces, &own, addresses, towards)
}

/// The names of this host's interfaces that are up and have an address, except loopback.
pub fn interfaces() -> Vec<String> {
    let own = if_addrs::get_if_addrs().unwrap_or_default().into_iter();
    let mut names: Vec<_> =
        own.filter(|port| port.is_oper_up() && !port.is_loopback()).map(|port| port.name).collect();
    names.sort();
    names.dedup();
    names
}

/// The source address that the kernel would use to send to `to`.
fn source_address(to: SocketAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

fn choose(
    interfaces: &Interfaces,
    own: &[(String, IpAddr)],
    addresses: &[SocketAddr],
    towards: impl Fn(SocketAddr) -> Option<String>,
) -> (Vec<DataRoute>, Vec<String>) {
    // An address of the far end that is also one of this host's is left out. For example, container bridges have the
    // same address on many hosts, so this host would connect to itself.
    let is_own = |address: &SocketAddr| own.iter().any(|(_, ip)| *ip == address.ip());
    let theirs: Vec<(String, SocketAddr)> = addresses
        .iter()
        .take(MAX_ADDRESSES)
        .filter(|address| !is_own(address))
        .filter_map(|address| Some((towards(*address)?, *address)))
        .collect();
    let direct = |name: &str| {
        let (_, to) = theirs.iter().find(|(interface, _)| interface == name)?;
        Some(DataRoute { interface: name.to_owned(), bound: None, to: *to })
    };
    let Interfaces::Named(names) = interfaces else {
        let mut routes: Vec<DataRoute> = Vec::new();
        for (name, _) in theirs.iter().filter(|_| *interfaces == Interfaces::All) {
            if routes.iter().all(|route| route.interface != *name) {
                routes.extend(direct(name));
            }
        }
        routes.truncate(MAX_ROUTES);
        return (routes, Vec::new());
    };
    let bound = |name: &str| {
        let mut ips = own.iter().filter(|(interface, _)| interface == name).map(|(_, ip)| *ip);
        let to_of = |ip: IpAddr| theirs.iter().find(|(_, to)| to.is_ipv4() == ip.is_ipv4());
        ips.find_map(|ip| {
            let (_, to) = to_of(ip)?;
            Some(DataRoute { interface: name.to_owned(), bound: Some(ip), to: *to })
        })
    };
    let found = names.iter().take(MAX_ROUTES).map(|name| direct(name).or_else(|| bound(name)).ok_or(name));
    let (routes, missing): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
    (routes.into_iter().flatten().collect(), missing.into_iter().filter_map(Result::err).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn to(text: &str) -> SocketAddr {
        SocketAddr::new(ip(text), 7)
    }

    /// The links and the unreachable interfaces for a host with two cards and a container bridge, and a far
    /// end on the networks of both cards.
    fn chosen(interfaces: &Interfaces) -> (Vec<String>, Vec<String>) {
        let own =
            [("lo", "127.0.0.1"), ("mgmt", "192.0.2.1"), ("fast", "10.0.0.1"), ("docker0", "172.17.0.1")];
        let own = own.map(|(name, address)| (name.to_owned(), ip(address)));
        let towards = |address: SocketAddr| {
            let first = address.to_string();
            let name = if first.starts_with("10.") { "fast" } else { "mgmt" };
            Some(name.to_owned())
        };
        let theirs = ["192.0.2.2", "10.0.0.2", "10.0.1.2", "172.17.0.1"].map(to);
        let (routes, missing) = choose(interfaces, &own, &theirs, towards);
        let shown = |route: DataRoute| format!("{} {:?} {}", route.interface, route.bound, route.to.ip());
        (routes.into_iter().map(shown).collect(), missing)
    }

    fn named(names: &[&str]) -> Interfaces {
        Interfaces::Named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn each_interface_that_leads_there_is_used_once() {
        let (routes, missing) = chosen(&Interfaces::All);
        assert_eq!(routes, ["mgmt None 192.0.2.2", "fast None 10.0.0.2"]);
        assert!(missing.is_empty() && chosen(&Interfaces::One).0.is_empty());
    }

    #[test]
    fn named_ones_are_used_even_if_the_kernel_would_take_others() {
        assert_eq!(chosen(&named(&["fast"])).0, ["fast None 10.0.0.2"]);
        assert_eq!(chosen(&named(&["docker0"])).0, ["docker0 Some(172.17.0.1) 192.0.2.2"]);
        let (routes, missing) = chosen(&named(&["none", "mgmt"]));
        assert_eq!((routes, missing), (vec!["mgmt None 192.0.2.2".to_owned()], vec!["none".to_owned()]));
    }

    #[test]
    fn links_take_turns_until_they_fail() {
        let route = |name: &str| DataRoute { interface: name.into(), bound: None, to: to("10.0.0.2") };
        let routes = DataRoutes::new(vec![route("a"), route("b"), route("c")]);
        let first = || routes.in_turn().next().map(|route| route.interface.clone());
        assert_eq!([first(), first(), first(), first()].map(Option::unwrap), ["a", "b", "c", "a"]);
        assert!(routes.fail(&route("b")) && !routes.fail(&route("b")));
        assert_eq!(routes.working().count(), 2);
        let turns: Vec<_> = (0..6).filter_map(|_| first()).collect();
        assert!(!turns.contains(&"b".to_owned()) && turns.len() == 6, "{turns:?}");
        assert!(DataRoutes::default().in_turn().next().is_none());
    }
}
