//! Two sites of hosts. The hosts of each site are connected to the site's switch; one link joins the two switches,
//! which route between the sites.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use linerate_remote::place::Place;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::name::LabName;
use crate::network::{self, ip, port};
use crate::rate::Rate;
use crate::state::{Description, LabHost, LinkPort};

/// The number of sites of a lab.
pub(crate) const SITES: u8 = 2;

/// The greatest number of hosts of a site.
pub(crate) const MOST_HOSTS: u8 = 16;

/// The number of bits that the addresses of a site have in common: room for 62 hosts.
const SITE_PREFIX: u8 = 26;

/// The bridge of a site's switch.
const BRIDGE: &str = "hosts";

/// The interface of a site's host.
const CARD: &str = "eth0";

/// The shape of a lab of sites: `2x4` is two sites of four hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteShape {
    hosts: u8,
}

/// The error for a text that isn't a [`SiteShape`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} isn't a number of sites and hosts: write 2xN, two sites of N hosts each, with N from 1 to {MOST_HOSTS}, such as 2x4"
)]
pub struct SiteShapeError(String);

/// One site of a lab: hosts connected to a switch, and a directory that they share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabSite {
    /// The name of the site: `site1` or `site2`.
    pub name: String,
    /// A directory for the data of the site's hosts; it is removed with the lab.
    pub directory: PathBuf,
    /// The switch, with its end of the link to the other site.
    pub switch: LabHost,
    /// The switch's port on the site's own network, through which hosts reach the other site.
    pub gateway: LinkPort,
    /// The hosts of the site.
    pub hosts: Vec<SiteHost>,
}

/// A host of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteHost {
    /// The host's name for ssh and Slurm, which is also its hostname: `s1h1` is the first host of the first
    /// site.
    pub name: String,
    /// The host's namespace, and the interface that connects the host to the switch.
    #[serde(flatten)]
    pub host: LabHost,
}

impl SiteHost {
    /// The place in which the host's processes run.
    pub fn place(&self) -> Place {
        Place::Namespace(self.host.namespace_path())
    }
}

/// The sites of a lab in this address block. Their directories are in `scratch`.
///
/// The link between them has 10.213.SLOT.0/30, site N has 10.213.SLOT.(64 N)/26 and fd6c:6e72:10N:SLOT::/64.
pub(crate) fn sites(name: &LabName, slot: u8, shape: SiteShape, scratch: &Path) -> Vec<LabSite> {
    let site = |number: u8| {
        let on_site = |last: u8, interface: &str| LinkPort {
            interface: interface.into(),
            address: Ipv4Addr::new(10, 213, slot, 64 * number + last),
            address6: network::has_ipv6().then(|| {
                let site = 0x100 + u16::from(number);
                Ipv6Addr::new(0xfd6c, 0x6e72, site, slot.into(), 0, 0, 0, last.into())
            }),
        };
        let host = |host: u8| {
            let LinkPort { interface, address, address6 } = on_site(1 + host, CARD);
            let namespace = name.site_host(number, host);
            let host_name = format!("s{number}h{host}");
            let host = LabHost { namespace, interface, address, address6, further: Vec::new() };
            SiteHost { name: host_name, host }
        };
        let LinkPort { interface, address, address6 } =
            port(slot, 0, &format!("s{}", 1 + SITES - number), number);
        let namespace = name.site(number);
        LabSite {
            name: format!("site{number}"),
            directory: scratch.join(format!("site{number}")),
            switch: LabHost { namespace, interface, address, address6, further: Vec::new() },
            gateway: on_site(1, BRIDGE),
            hosts: (1..=shape.hosts).map(host).collect(),
        }
    };
    (1..=SITES).map(site).collect()
}

/// Creates the network of each site. The switches already have their ends of the link between the sites.
pub(crate) fn build(lab: &Description) -> Result<(), LabError> {
    let [one, other] = lab.sites.as_slice() else { return Ok(()) };
    for (site, far) in [(one, other), (other, one)] {
        let switch = &site.switch.namespace;
        ip(&format!("-n {switch} link add {BRIDGE} mtu {} type bridge", lab.mtu))?;
        ip(&format!("-n {switch} link set {BRIDGE} up"))?;
        network::settle(lab, &site.switch, &site.gateway, SITE_PREFIX)?;
        route(lab, &site.switch, far, &far.switch.ports()[0])?;
        for (number, host) in site.hosts.iter().enumerate() {
            add_host(lab, site, &host.host, &format!("port{}", number + 1))?;
            // Without a default route, a query to a name server fails at once, and nothing waits for an answer.
            route(lab, &host.host, far, &site.gateway)?;
        }
    }
    Ok(())
}

/// The variables that describe the sites to a command.
pub(crate) fn environment(lab: &Description) -> Vec<(&'static str, OsString)> {
    const NAMES: [[&str; 4]; SITES as usize] = [
        [
            "LINERATE_LAB_SITE1_DIR",
            "LINERATE_LAB_SITE1_HOSTS",
            "LINERATE_LAB_SITE1_ADDRESSES",
            "LINERATE_LAB_SITE1_NETNS",
        ],
        [
            "LINERATE_LAB_SITE2_DIR",
            "LINERATE_LAB_SITE2_HOSTS",
            "LINERATE_LAB_SITE2_ADDRESSES",
            "LINERATE_LAB_SITE2_NETNS",
        ],
    ];
    let of = |(names, site): ([&'static str; 4], &LabSite)| {
        let joined =
            |word: fn(&SiteHost) -> String| site.hosts.iter().map(word).collect::<Vec<_>>().join(" ").into();
        let values = [
            site.directory.clone().into(),
            joined(|host| host.name.clone()),
            joined(|host| host.host.address.to_string()),
            joined(|host| host.host.namespace.clone()),
        ];
        names.into_iter().zip(values)
    };
    let cluster = lab.slurm.iter().map(|cluster| ("SLURM_CONF", cluster.conf.clone().into()));
    NAMES.into_iter().zip(&lab.sites).flat_map(of).chain(cluster).collect()
}

/// Files below /proc/sys, and their contents, that make a switch forward packets.
pub(crate) fn switch_settings() -> Vec<(String, String)> {
    let on = |file: &str| (file.to_owned(), "1".to_owned());
    let mut settings = vec![on("net/ipv4/ip_forward")];
    settings.extend(network::has_ipv6().then(|| on("net/ipv6/conf/all/forwarding")));
    settings
}

fn add_host(lab: &Description, site: &LabSite, host: &LabHost, at_switch: &str) -> Result<(), LabError> {
    let (card, far) = (&host.ports()[0], LinkPort { interface: at_switch.into(), ..site.gateway.clone() });
    network::join(lab, (host, card), (&site.switch, &far))?;
    ip(&format!("-n {} link set {at_switch} master {BRIDGE} up", site.switch.namespace))?;
    ip(&format!("-n {} link set {CARD} up", host.namespace))?;
    network::settle(lab, host, card, SITE_PREFIX)?;
    let ends = [(host, card), (&site.switch, &far)];
    lab.host_link.map_or(Ok(()), |rate: Rate| {
        ends.into_iter().try_for_each(|(host, port)| network::shape(host, port, rate))
    })
}

/// Adds the IPv4 and IPv6 routes to a site through the port `via`.
fn route(lab: &Description, host: &LabHost, site: &LabSite, via: &LinkPort) -> Result<(), LabError> {
    let congestion = lab.congestion.as_deref().map_or_else(String::new, |name| format!(" congctl {name}"));
    let add =
        |to: String, via: IpAddr| ip(&format!("-n {} route add {to} via {via}{congestion}", host.namespace));
    let LinkPort { address, address6, .. } = &site.gateway;
    add(format!("{}/{SITE_PREFIX}", network::network4(*address, SITE_PREFIX)), via.address.into())?;
    match address6.zip(via.address6) {
        Some((address6, via)) => add(format!("{}/64", network::network6(address6)), via.into()),
        None => Ok(()),
    }
}

impl FromStr for SiteShape {
    type Err = SiteShapeError;

    fn from_str(text: &str) -> Result<Self, SiteShapeError> {
        let numbers = text.split_once('x').and_then(|(sites, hosts)| Some((sites, hosts.parse().ok()?)));
        match numbers {
            Some(("2", hosts)) if (1..=MOST_HOSTS).contains(&hosts) => Ok(Self { hosts }),
            _ => Err(SiteShapeError(text.to_owned())),
        }
    }
}

impl fmt::Display for SiteShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SITES}x{}", self.hosts)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_shape_is_two_sites_of_some_hosts() {
        for good in ["2x1", "2x4", "2x16"] {
            assert_eq!(good.parse::<SiteShape>().expect(good).to_string(), good);
        }
        for bad in [
            "2x0",
            "9x99",
            "x",
            "",
            "2x",
            "x4",
            "2x17",
            "1x4",
            "2x-1",
            "2x4x",
            "2 x 4",
            "2X4",
            "2x99999999999",
        ] {
            let error = bad.parse::<SiteShape>().expect_err(bad).to_string();
            assert!(error.contains("2x4") && error.contains("16"), "{error}");
        }
    }

    #[test]
    fn each_host_has_a_name_an_address_and_a_namespace_that_no_other_has() {
        let name: LabName = "x".parse().expect("a good name");
        let made = sites(&name, 7, SiteShape { hosts: MOST_HOSTS }, Path::new("/data"));
        let hosts = || made.iter().flat_map(|site| &site.hosts);
        let all: BTreeSet<_> =
            hosts().map(|host| (&host.name, host.host.address, &host.host.namespace)).collect();
        assert_eq!(all.len(), 32);
        for site in &made {
            assert!(site.hosts.iter().all(|host| {
                network::network4(host.host.address, SITE_PREFIX)
                    == network::network4(site.gateway.address, SITE_PREFIX)
            }));
            assert!(name.is_further(&site.switch.namespace), "{}", site.switch.namespace);
        }
        assert!(hosts().all(|host| name.is_further(&host.host.namespace)));
        assert_eq!(
            (made[1].hosts[0].name.as_str(), made[0].directory.as_path()),
            ("s2h1", Path::new("/data/site1"))
        );
        assert_eq!(made[0].switch.interface, "to-s2");
        assert_eq!(made[1].switch.address.to_string(), "10.213.7.2");
    }
}
