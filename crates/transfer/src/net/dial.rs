//! Opens data connections at the end that dials: which addresses are tried, in which order, and for how long.

use linerate_wire::control::Cookie;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::net::handshake::{ConnectionConfig, establish, preface};
use crate::net::routes::DataRoute;
use crate::net::stream::Stream;
use crate::net::tls::Handshake;

/// How long connecting to an address may take; the rest of the address's time is for the handshake.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// Connects to the other end's listener at `address`, and proves this end's identity with the handshake.
///
/// # Errors
/// If nothing answers, the answer doesn't come from the other end, or the time exceeds `patience`.
pub fn dial(
    address: SocketAddr,
    cookie: &Cookie,
    link: &ConnectionConfig,
    patience: Duration,
) -> io::Result<Stream> {
    open(|patience| TcpStream::connect_timeout(&address, patience), cookie, link, patience)
}

/// Connects to the other end as [`dial`] does, over one link.
///
/// # Errors
/// The errors of [`dial`], or the reason why the link can't be selected.
pub fn dial_over(
    route: &DataRoute,
    cookie: &Cookie,
    link: &ConnectionConfig,
    patience: Duration,
) -> io::Result<Stream> {
    open(|patience| route.connect(patience), cookie, link, patience)
}

fn open(
    connect: impl FnOnce(Duration) -> io::Result<TcpStream>,
    cookie: &Cookie,
    link: &ConnectionConfig,
    patience: Duration,
) -> io::Result<Stream> {
    let deadline = Instant::now() + patience;
    let mut socket = connect(patience.min(ANSWER_TIMEOUT))?;
    // The preface fits into the empty send buffer of a new connection, so this write never blocks.
    socket.write_all(&preface(cookie))?;
    let tls = Handshake::client(&link.pinned).map_err(io::Error::other)?;
    establish(socket, tls, link, deadline)
}

/// Dials one address after the other until the other end answers, within `patience` in total: each address gets an
/// equal share of the time that is left. Stops early if `interrupted` is set.
///
/// # Errors
/// The last address that was tried, and its error; `None` if there was no address.
pub fn dial_any(
    addresses: &[SocketAddr],
    cookie: &Cookie,
    link: &ConnectionConfig,
    patience: Duration,
    interrupted: &AtomicBool,
) -> Result<(SocketAddr, Stream), Option<(SocketAddr, io::Error)>> {
    let deadline = Instant::now() + patience;
    let mut failed = None;
    for (&address, left) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        if share.is_zero() || interrupted.load(Ordering::Relaxed) {
            break;
        }
        match dial(address, cookie, link, share) {
            Ok(stream) => return Ok((address, stream)),
            Err(error) => failed = Some((address, error)),
        }
    }
    Err(failed)
}

/// Addresses of this host at which the other end may reach `port`, best first.
///
/// If ssh connected the two ends, `known` is this host's address of that connection, and the only candidate, because
/// any other address might belong to another network card. Otherwise all addresses are candidates, loopback last.
pub fn candidates(known: Option<IpAddr>, port: u16) -> Vec<SocketAddr> {
    let addresses = known.map_or_else(own_addresses, |known| vec![known]);
    addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

/// The same as [`candidates`], for another end that has no ssh connection to this one. The address that ssh knows is
/// only the best guess, so all other addresses follow. Loopback is included only if ssh used it, or no address is
/// known.
pub fn all_candidates(known: Option<IpAddr>, port: u16) -> Vec<SocketAddr> {
    let is_other = |address: &IpAddr| Some(*address) != known && (known.is_none() || !address.is_loopback());
    let others = own_addresses().into_iter().filter(is_other);
    known.into_iter().chain(others).map(|address| SocketAddr::new(address, port)).collect()
}

/// Addresses of this host other than `candidates`, without loopback.
pub fn further(candidates: &[SocketAddr]) -> Vec<IpAddr> {
    let is_reported = |address: &IpAddr| candidates.iter().any(|candidate| candidate.ip() == *address);
    own_addresses().into_iter().filter(|address| !address.is_loopback() && !is_reported(address)).collect()
}

/// Addresses of this host's interfaces, loopback last and IPv4 first.
fn own_addresses() -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = if_addrs::get_if_addrs()
        .map(|interfaces| interfaces.iter().map(if_addrs::Interface::ip).collect())
        .unwrap_or_default();
    addresses.retain(|address| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    addresses.sort_by_key(|address| (address.is_loopback(), address.is_ipv6()));
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::connect::Listener;
    use crate::net::keys::Keys;
    use crate::net::transport::Registry;
    use crossbeam_channel::unbounded;
    use std::net::TcpListener;

    const COOKIE: Cookie = [7; 16];
    const DIAL_TIMEOUT: Duration = Duration::from_millis(1600);

    /// A listener that accepts connections in the kernel but never sends anything.
    fn silent() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn links() -> (ConnectionConfig, ConnectionConfig) {
        let (near, far) = (Keys::generate().unwrap(), Keys::generate().unwrap());
        let link = |pinned| ConnectionConfig { pinned, clear: false, registry: Registry::default() };
        (link(near.pin(far.public()).unwrap()), link(far.pin(near.public()).unwrap()))
    }

    #[test]
    fn addresses_that_never_answer_take_no_longer_than_the_time_for_all() {
        let silent: Vec<_> = (0..8).map(|_| silent()).collect();
        let addresses: Vec<_> = silent.iter().map(|(_, address)| *address).collect();
        let begun = Instant::now();
        let failed = dial_any(&addresses, &COOKIE, &links().0, DIAL_TIMEOUT, &AtomicBool::new(false));
        assert_eq!(failed.err().flatten().unwrap().0, addresses[7], "all of them were tried");
        assert!(begun.elapsed() >= DIAL_TIMEOUT / 2, "{:?}", begun.elapsed());
        assert!(begun.elapsed() < DIAL_TIMEOUT + Duration::from_millis(400), "{:?}", begun.elapsed());
    }

    #[test]
    fn behind_addresses_that_never_answer_the_peer_is_still_found() {
        let silent: Vec<_> = (0..7).map(|_| silent()).collect();
        let (dialer, accepting) = links();
        let socket = Listener::bind(None).unwrap();
        let good = SocketAddr::from(([127, 0, 0, 1], socket.local_addr().unwrap().port()));
        let (sender, streams) = unbounded();
        let _listener = Listener::start(socket, COOKIE, accepting, sender).unwrap();
        let addresses: Vec<_> = silent.iter().map(|(_, address)| *address).chain([good]).collect();
        let found = dial_any(&addresses, &COOKIE, &dialer, 2 * DIAL_TIMEOUT, &AtomicBool::new(false));
        assert_eq!(found.ok().unwrap().0, good);
        assert!(streams.recv_timeout(Duration::from_secs(2)).is_ok());
    }

    #[test]
    fn an_interruption_ends_the_search() {
        let (_listener, address) = silent();
        let begun = Instant::now();
        assert!(dial_any(&[address], &COOKIE, &links().0, DIAL_TIMEOUT, &AtomicBool::new(true)).is_err());
        assert!(begun.elapsed() < DIAL_TIMEOUT / 2);
    }

    #[test]
    fn with_an_address_from_ssh_nothing_else_is_tried() {
        let known = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(candidates(Some(known), 9), [SocketAddr::new(known, 9)]);
        assert!(candidates(None, 9).iter().any(|address| address.ip().is_loopback()));
    }
}
