//! Finds the route that packets to an address take, according to all routing rules of the host (RTM_GETROUTE,
//! rtnetlink(7)). The result is the route that `ip route get` prints.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use linerate_sys::bound_device;
use rustix::net::{RecvFlags, SendFlags, netdevice, recv, send};

use super::{
    FLAGS, GET_ROUTE, INTERFACE, NLMSG_ERROR, NetlinkQuestions, attribute, attributes, error, find, link,
    message, number, request, request_all,
};

/// NLM_F_REQUEST, and the size of struct rtmsg.
const REQUEST: u16 = 1;
const ROUTE: usize = 12;
/// RTA_DST, RTA_SRC, RTA_MULTIPATH, RTA_TABLE, RTA_IP_PROTO; RTA_OIF is [`INTERFACE`].
const TO: u16 = 1;
const FROM: u16 = 2;
const WAYS: u16 = 9;
const TABLE: u16 = 15;
const PROTOCOL: u16 = 27;
const TCP: u8 = 6;
/// The flag RTM_F_LOOKUP_TABLE; and the flag RTM_F_FIB_MATCH, which requests the entry of the routing table with all
/// next hops (Linux 4.13).
const WITH_TABLE: u32 = 0x1000;
const WHOLE: u32 = 0x2000;
/// The size of struct rtnexthop, and its flags RTNH_F_DEAD and RTNH_F_LINKDOWN.
const WAY: usize = 8;
const DOWN: u64 = 1 | 16;
/// RTM_GETADDR, the size of struct ifaddrmsg, IFA_ADDRESS and IFA_LOCAL. On a point-to-point interface, IFA_ADDRESS is
/// the address of the other end.
const GET_ADDRESS: u16 = 22;
const ADDRESS: usize = 8;
const EITHERS: u16 = 1;
const OWN: u16 = 2;
/// The destination port of the socket. It doesn't matter, because the socket sends nothing.
const ANY: u16 = 9;

/// The parameters of a request for a route.
#[derive(Clone, Copy)]
struct RouteQuestion {
    to: IpAddr,
    from: IpAddr,
    /// The device to which the socket is bound.
    device: Option<u32>,
}

/// The kernel's answer, in which devices are numbers.
#[derive(Debug, PartialEq)]
struct RouteAnswer {
    device: Option<u32>,
    ways: Vec<u32>,
    table: Option<u32>,
}

/// Returns lines: `port NAME` for the interface that connections to an address take and, if it is a VRF, for the
/// interface below it; `way NAME` for each of several next hops; `table N`; `v6 1`. The kernel chooses the source
/// address. This function sends no packet.
pub(crate) fn to(mut address: SocketAddr) -> io::Result<String> {
    let socket = unbound(address.is_ipv4())?;
    address.set_port(ANY);
    socket.connect(address)?;
    let device = bound(&socket).or(scope(&address));
    let from = socket.local_addr()?.ip();
    written(&NetlinkQuestions::open()?, &RouteQuestion { to: address.ip(), from, device })
}

fn unbound(is_v4: bool) -> io::Result<UdpSocket> {
    let own: IpAddr = if is_v4 { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    UdpSocket::bind((own, 0))
}

/// The device to which the kernel binds this program's sockets, for example because the program runs in a VRF; `None`
/// if there is no such device, or if the kernel is older than Linux 5.1, which doesn't report it.
fn bound(socket: &UdpSocket) -> Option<u32> {
    bound_device(socket.as_fd()).unwrap_or_default()
}

fn scope(address: &SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(six) => Some(six.scope_id()).filter(|scope| *scope > 0),
        SocketAddr::V4(_) => None,
    }
}

/// The addresses of both ends of a login, from the environment variable that sshd has set.
pub(crate) struct LoginEnds {
    pub(crate) client: IpAddr,
    pub(crate) own: IpAddr,
    /// The interface of link-local addresses, which is needed because several interfaces may have the same link-local
    /// address.
    pub(crate) port: Option<String>,
}

/// Returns the lines of [`to`] for the route back to the client, and a line `arrives NAME` for each interface that has
/// the address to which the client logged in.
pub(crate) fn back(ends: &LoginEnds) -> io::Result<String> {
    let asked = NetlinkQuestions::open()?;
    let scope = ends.port.as_ref().map(|port| netdevice::name_to_index(&asked.named, port)).transpose()?;
    let owners = asked.dump(&request_all(GET_ADDRESS, ADDRESS), |message| owner(message, ends.own))?;
    let mut here: Vec<u32> =
        owners.into_iter().filter(|index| scope.is_none_or(|scope| scope == *index)).collect();
    here.dedup();
    // sshd may run outside of the VRF through which the login came (tcp_l3mdev_accept). In this case, only
    // the connection is bound to the VRF.
    let device = bound(&unbound(ends.client.is_ipv4())?).or(scope).or_else(|| asked.vrf(&here));
    let question = RouteQuestion { to: ends.client, from: ends.own, device };
    let named = here.into_iter().filter_map(|index| Some(format!("arrives {}\n", asked.name(index)?)));
    Ok(written(&asked, &question)? + &named.collect::<String>())
}

/// The number of the device that the message describes, if the device has the address `own`. The number is in bytes 4
/// to 7 of struct ifaddrmsg.
fn owner(message: &[u8], own: IpAddr) -> Option<u32> {
    let attributes = message.get(ADDRESS..)?;
    let address = find(attributes, OWN).or_else(|| find(attributes, EITHERS))?;
    (address == octets(own)).then(|| number(message, 4, 4).map(|index| index as u32))?
}

fn written(asked: &NetlinkQuestions, question: &RouteQuestion) -> io::Result<String> {
    let answer = asked.route(question, WITH_TABLE)?;
    // Within the VRF, the same request returns the interface below the VRF.
    let within = RouteQuestion { device: answer.device, ..*question };
    let below = asked.route(&within, WITH_TABLE).ok().and_then(|below| below.device);
    let whole = asked.route(question, WITH_TABLE | WHOLE).map_or_else(|_| Vec::new(), |whole| whole.ways);
    let below = below.filter(|below| answer.device != Some(*below));
    let ports = answer.device.into_iter().chain(below).map(|index| ("port", index));
    let lines = ports.chain(whole.into_iter().map(|index| ("way", index)));
    let named = lines.filter_map(|(what, index)| Some(format!("{what} {}\n", asked.name(index)?)));
    let table = answer.table.map(|table| format!("table {table}\n"));
    let v6 = question.to.is_ipv6().then(|| "v6 1\n".to_owned());
    Ok(named.chain(table).chain(v6).collect())
}

impl NetlinkQuestions {
    /// The VRF to which the device belongs; `None` if `devices` doesn't have exactly one device, or if that device
    /// isn't in a VRF.
    fn vrf(&self, devices: &[u32]) -> Option<u32> {
        let [device] = devices else { return None };
        let links = request_all(link::GET_LINK, link::HEADER);
        self.dump(&links, |message| link::vrf(message, *device)).ok()?.pop()
    }

    /// Sends a request for a route. The answer consists of one message.
    fn route(&self, question: &RouteQuestion, flags: u32) -> io::Result<RouteAnswer> {
        send(&self.socket, &question.bytes(flags), SendFlags::empty())?;
        let mut buffer = vec![0; 64 << 10];
        let (got, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
        let cut = || io::Error::other("the kernel's answer about a route is cut off");
        match message(buffer.get(..got).unwrap_or_default()).ok_or_else(cut)? {
            (NLMSG_ERROR, inside, _) => error(inside).and(Err(cut())),
            (_, inside, _) => answer(inside).ok_or_else(cut),
        }
    }
}

impl RouteQuestion {
    fn bytes(&self, flags: u32) -> Vec<u8> {
        let (to, from) = (octets(self.to), octets(self.from));
        let bits = u8::try_from(to.len() * 8).unwrap_or(0);
        // The numbers are AF_INET and AF_INET6.
        let family = if to.len() == 4 { 2 } else { 10 };
        let device = self.device.map(|index| attribute(INTERFACE, &index.to_ne_bytes()));
        let body = [
            &[family, bits, bits, 0, 0, 0, 0, 0][..],
            &flags.to_ne_bytes(),
            &attribute(TO, &to),
            &attribute(FROM, &from),
            &attribute(PROTOCOL, &[TCP]),
            &device.unwrap_or_default(),
        ];
        request(GET_ROUTE, REQUEST, &body.concat())
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    }
}

/// Parses the answer. The fifth byte of struct rtmsg is the number of the routing table, if that number is less than
/// 256.
fn answer(route: &[u8]) -> Option<RouteAnswer> {
    let table = number(route, 4, 1).filter(|table| *table > 0).map(|table| table as u32);
    let mut answer = RouteAnswer { device: None, ways: Vec::new(), table };
    for (attribute, value) in attributes(route.get(ROUTE..)?) {
        let word = || number(value, 0, 4).map(|word| word as u32);
        match attribute & !FLAGS {
            INTERFACE => answer.device = word(),
            TABLE => answer.table = word().or(answer.table),
            WAYS => answer.ways = ways(value),
            _ => {}
        }
    }
    Some(answer)
}

/// The devices of the next hops that are up. Each next hop is a struct rtnexthop with attributes.
fn ways(mut bytes: &[u8]) -> Vec<u32> {
    let mut all = Vec::new();
    while let (Some(length), Some(flags), Some(device)) =
        (number(bytes, 0, 2), number(bytes, 2, 1), number(bytes, 4, 4))
    {
        if flags & DOWN == 0 && !all.contains(&(device as u32)) {
            all.push(device as u32);
        }
        let length = (length as usize).max(WAY).next_multiple_of(4);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_host_reaches_itself_over_the_loopback() {
        let here = to(SocketAddr::from(([127, 0, 0, 1], 22))).unwrap();
        // Without routing rules, the kernel has merged the local table into the main table.
        assert!(here.starts_with("port lo\ntable 25"), "{here}");
        let ends = LoginEnds { client: [127, 0, 0, 1].into(), own: [127, 0, 0, 1].into(), port: None };
        assert_eq!(back(&ends).unwrap(), format!("{here}arrives lo\n"));
        let odd = LoginEnds { port: Some("no such port".into()), ..ends };
        assert!(back(&odd).is_err());
    }

    /// The bytes are Linux 6.18's answer about the address `10.1.0.1 peer 10.1.0.2/32 dev (7)`.
    #[test]
    fn an_address_has_a_port() {
        let mut bytes = vec![2, 32, 0, 0, 7, 0, 0, 0];
        bytes.extend(attribute(EITHERS, &[10, 1, 0, 2]));
        assert_eq!(owner(&bytes, [10, 1, 0, 2].into()), Some(7), "as for IPv6, without a far end");
        bytes.extend(attribute(OWN, &[10, 1, 0, 1]));
        assert_eq!(owner(&bytes, [10, 1, 0, 1].into()), Some(7));
        assert_eq!(owner(&bytes, [10, 1, 0, 2].into()), None, "the other end's");
        assert_eq!(owner(&[], [10, 1, 0, 2].into()), None);
    }

    /// The bytes are Linux 6.18's answer about the route `10.9.0.0/24 nexthop via 10.1.0.2 dev (3) weight 1 nexthop via
    /// 10.2.0.2 dev (4) weight 2`.
    #[test]
    fn next_hops_are_reported_unless_they_are_down() {
        let hop = |device: u32, flags: u8| {
            let gateway = attribute(5, &[10, 1, 0, 2]);
            let length = u16::try_from(WAY + gateway.len()).unwrap();
            [&length.to_ne_bytes()[..], &[flags, 0], &device.to_ne_bytes(), &gateway].concat()
        };
        let all = [hop(3, 0), hop(4, 0), hop(5, 16), hop(3, 0)].concat();
        let mut bytes = vec![2, 24, 0, 0, 0, 3, 0, 1, 0, 0, 0, 0];
        bytes.extend(attribute(WAYS, &all));
        bytes.extend(attribute(TABLE, &1000_u32.to_ne_bytes()));
        assert_eq!(answer(&bytes), Some(RouteAnswer { device: None, ways: vec![3, 4], table: Some(1000) }));
        assert_eq!(answer(&[]), None);
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (answer(&bytes), ways(&bytes), owner(&bytes, [10, 1, 0, 1].into()));
        }
    }
}
