//! Options of a lab, and a check that they are consistent.

use std::path::PathBuf;

use crate::error::LabError;
use crate::guest::GuestSpec;
use crate::name::LabName;
use crate::network;
use crate::rate::Rate;
use crate::sites::SiteShape;
use crate::slurm::SlurmWish;
use crate::wan::Wan;

/// Options of a lab. The default is an open link between two hosts with the kernel's own settings.
#[derive(Clone, Debug, Default)]
pub struct LabOptions {
    /// The link's rate in each direction; `None` for an open link.
    pub link: Option<Rate>,
    /// The lab's name; `None` means that a name is chosen.
    pub name: Option<LabName>,
    /// The largest packet of the link in bytes, without the Ethernet header; `None` means 1500.
    pub mtu: Option<u32>,
    /// The TCP congestion control of routes over the link; `None` for cubic, if the kernel has it.
    pub congestion: Option<String>,
    /// The largest TCP send and receive buffer in bytes; `None` for the kernel's default.
    pub tcp_buffer_max: Option<u64>,
    /// The number of parallel links of that rate, 1 to 8. Each link is its own network. `None` means 1.
    pub links: Option<u32>,
    /// The number of receive and of transmit queues of each interface; `None` for the kernel's default.
    pub queues: Option<u32>,
    /// The number of hosts behind b's end of the link, 0 to 64. They share the link by a bridge.
    pub guests: u32,
    /// The kind of virtual machines that the guests are; `None` if guests are network namespaces. It can't be combined
    /// with `queues`, because the description of a virtual machine has its own queues.
    pub machine: Option<GuestSpec>,
    /// A directory with `boot` and `lib/modules` of a kernel for virtual machines; `None` for `/`.
    pub kernel: Option<PathBuf>,
    /// Delay and loss that an emulator adds to each link; `None` for links without an emulator. They can't be combined
    /// with guests or queues.
    pub wan: Option<Wan>,
    /// The linerate program, which runs as the emulator ([`crate::wan::SUBCOMMAND`]) and in virtual machines
    /// ([`crate::guest::SUBCOMMAND`]); `None` for this program itself.
    pub linerate: Option<PathBuf>,
    /// Two sites of hosts. With sites, a is the first host of the first site, and b the first host of the second site.
    /// Sites can't be combined with guests, queues or several links.
    pub sites: Option<SiteShape>,
    /// The rate of each host's link to its site's switch, in each direction; `None` for open links. A rate is only
    /// allowed with `sites`.
    pub host_link: Option<Rate>,
    /// Whether the sites' hosts are nodes of a Slurm cluster.
    pub slurm: SlurmWish,
    /// Whether the lab continues to exist after this process ends, until it is taken down by name. Only root may keep a
    /// lab.
    pub kept: bool,
}

/// Returns an error if no lab can have these options.
pub(crate) fn check_shape(options: &LabOptions) -> Result<(), LabError> {
    let links = options.links.unwrap_or(1);
    let wrong = |reason: String| Err(LabError::Shape { reason });
    match () {
        () if !(1..=network::MOST_LINKS).contains(&links) => {
            wrong(format!("{links} links: there can be 1 to {}", network::MOST_LINKS))
        }
        () if options.guests > network::MOST_GUESTS => {
            wrong(format!("{} guests: there can be {} at most", options.guests, network::MOST_GUESTS))
        }
        () if links > 1 && options.guests > network::MOST_SEVERAL_GUESTS => wrong(format!(
            "{} guests on {links} links: several links can have {} guests at most",
            options.guests,
            network::MOST_SEVERAL_GUESTS
        )),
        () if options.machine.is_some() && options.guests == 0 => {
            wrong("virtual machines are described, but the number of guests is 0; request 1 or more guests".into())
        }
        () if options.machine.is_some() && options.queues.is_some() => {
            wrong("the links' queues can't be set with virtual machines; set the queues of their cards".into())
        }
        () if let Some(fault) = options.machine.as_ref().and_then(GuestSpec::fault) => wrong(fault),
        () if options.queues.is_some_and(|n| !(1..=network::MOST_QUEUES).contains(&n)) => {
            wrong(format!("an interface can have 1 to {} queues", network::MOST_QUEUES))
        }
        () if options.link.is_none() && options.wan.is_some_and(|wan| wan.queue.is_some()) => {
            wrong("an open link has no queue; give it a rate, or leave out the queue's size".into())
        }
        () if options.wan.is_some() && options.guests > 0 => {
            wrong("guests share a link by a bridge, and a link with delay or loss can't be part of a bridge; leave out the guests, or the delay and loss".into())
        }
        () if options.wan.is_some() && options.queues.is_some() => {
            wrong("an interface with delay or loss has one queue; leave out the number of queues".into())
        }
        () if let Some(fault) = fault_of_sites(options) => wrong(fault),
        () => Ok(()),
    }
}

fn fault_of_sites(options: &LabOptions) -> Option<String> {
    let has_sites = options.sites.is_some();
    let fault = match () {
        () if !has_sites && options.host_link.is_some() => {
            "a rate of the hosts' links is given, but no sites; request sites, such as 2x4"
        }
        () if !has_sites && options.slurm != SlurmWish::Never => {
            "Slurm runs on the hosts of sites; request sites, such as 2x4"
        }
        () if has_sites && options.guests > 0 => "sites have hosts of their own; leave out the guests",
        () if has_sites && options.links.is_some_and(|links| links > 1) => {
            "one link joins the sites; leave out the number of links"
        }
        () if has_sites && options.queues.is_some() => {
            "queues can't be set with sites; leave out their number"
        }
        () => return None,
    };
    Some(fault.into())
}
