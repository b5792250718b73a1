//! Determines the rate of the network port through which connections leave this host.

use std::net::IpAddr;

use linerate_sys::ethtool::Ethtool;

use crate::facts::{has_rate_of_its_own, shaper_of};

/// The rate in bits per second at which the port with this address may send, in the calling thread's network namespace:
/// its driver's rate, or the limit of its root queueing discipline if that is lower. `None` if the discipline sets no
/// limit, and the driver reports no rate or only a nominal rate, as the drivers of the kernel's own ports and of ports
/// made for guests do.
pub fn link_rate(address: IpAddr) -> Option<u64> {
    let port = port_with(address.to_canonical())?;
    driver_rate(&port).into_iter().chain(shaper_of(&port)).min()
}

fn driver_rate(port: &str) -> Option<u64> {
    let mut drivers = Ethtool::open().ok()?;
    let driver = drivers.driver(port).ok()?;
    let mbps = drivers.link(port).ok()?.mbps.filter(|_| has_rate_of_its_own(&driver.name))?;
    Some(u64::from(mbps) * 1_000_000)
}

fn port_with(address: IpAddr) -> Option<String> {
    let all = if_addrs::get_if_addrs().ok()?;
    all.into_iter().find(|interface| interface.ip() == address).map(|interface| interface.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn loopback_has_an_address_and_no_rate() {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert_eq!(port_with(here).as_deref(), Some("lo"));
        assert_eq!(link_rate(here), None);
        assert_eq!(link_rate(Ipv4Addr::new(192, 0, 2, 1).into()), None, "nobody's");
    }
}
