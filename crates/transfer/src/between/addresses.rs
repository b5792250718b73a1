//! The addresses that the client lets one agent dial to reach the other.

use linerate_wire::control::Listening;
use std::net::{IpAddr, SocketAddr};

/// The most addresses that are passed to the other agent.
const MOST_ADDRESSES: usize = 8;
/// Ports below this one belong to the system's services. The data uses these ports only if the user has named
/// them.
const FIRST_OWN: u16 = 1024;

/// The addresses of `there` that the agent with the addresses `here` may dial. All have the same port, which is in the
/// user's range if there is one.
pub fn handed_on(there: &Listening, here: &Listening, ports: Option<(u16, u16)>) -> Vec<SocketAddr> {
    let (first, last) = ports.unwrap_or((FIRST_OWN, u16::MAX));
    let port = there.candidates.first().map(SocketAddr::port);
    // True if the two agents are on the same host, as far as ssh's addresses show, or if neither agent knows
    // its own address.
    let is_local = here.candidates.iter().any(|own| own.ip().to_canonical().is_loopback());
    let is_fit = |candidate: &&SocketAddr| {
        let is_host = match candidate.ip().to_canonical() {
            address if address.is_loopback() => is_local,
            IpAddr::V4(v4) => {
                !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast() || v4.is_link_local())
            }
            IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local()),
        };
        is_host && Some(candidate.port()) == port && (first..=last).contains(&candidate.port())
    };
    there.candidates.iter().filter(is_fit).copied().take(MOST_ADDRESSES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(candidates: &[&str]) -> Listening {
        let candidates = candidates.iter().map(|text| text.parse().unwrap()).collect();
        Listening { candidates, further: Vec::new(), client: None, error: None }
    }

    fn shown(there: &[&str], here: &[&str], ports: Option<(u16, u16)>) -> Vec<String> {
        let found = handed_on(&listening(there), &listening(here), ports);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_hosts_are_dialled_and_only_at_one_port() {
        let there = [
            "192.0.2.7:5000",
            "127.0.0.1:5000",
            "[fe80::1]:5000",
            "0.0.0.0:5000",
            "224.0.0.1:5000",
            "10.0.0.1:22",
            "10.0.0.2:5000",
        ];
        assert_eq!(shown(&there, &["192.0.2.1:7"], None), ["192.0.2.7:5000", "10.0.0.2:5000"]);
        assert_eq!(shown(&["[::ffff:127.0.0.1]:5000"], &["192.0.2.1:7"], None), [""; 0], "in whichever form");
    }

    #[test]
    fn services_are_not_dialled_unless_the_user_has_named_the_port() {
        assert_eq!(shown(&["192.0.2.7:22"], &[], None), [""; 0]);
        assert_eq!(shown(&["192.0.2.7:443"], &[], Some((443, 443))), ["192.0.2.7:443"]);
        assert_eq!(shown(&["192.0.2.7:5000"], &[], Some((443, 443))), [""; 0]);
    }

    #[test]
    fn this_host_is_dialled_where_both_were_reached_there() {
        assert_eq!(shown(&["127.0.0.1:5000"], &["127.0.0.1:7"], None), ["127.0.0.1:5000"]);
        assert_eq!(shown(&["127.0.0.1:5000"], &["192.0.2.1:7"], None), [""; 0]);
    }

    #[test]
    fn no_more_than_eight_are_dialled() {
        let many: Vec<String> = (1..=20).map(|last| format!("192.0.2.{last}:5000")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(shown(&many, &[], None).len(), MOST_ADDRESSES);
    }
}
