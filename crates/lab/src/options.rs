//! Options of a lab, and the shapes that no lab has.

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
    /// The link's rate in each direction; none for an open link.
    pub link: Option<Rate>,
    /// The lab's name; none to choose one.
    pub name: Option<LabName>,
    /// The link's largest packet in bytes, without the Ethernet header; none is 1500.
    pub mtu: Option<u32>,
    /// The TCP congestion control of routes over the link; none is cubic, if the kernel has it.
    pub congestion: Option<String>,
    /// The largest TCP buffer in bytes, either way; none leaves the kernel's.
    pub tcp_buffer_max: Option<u64>,
    /// Parallel links of that rate, 1 to 8, each a network of its own; none is 1.
    pub links: Option<u32>,
    /// Receive and transmit queues of each interface; none leaves the kernel's default.
    pub queues: Option<u32>,
    /// Hosts behind b's end of the link, which they share by a bridge; 0 to 64.
    pub guests: u32,
    /// Virtual machines as guests; none for network namespaces. Excludes `queues`, which a guest has itself.
    pub machine: Option<GuestSpec>,
    /// A directory with `boot` and `lib/modules` of a kernel for virtual machines; none is `/`.
    pub kernel: Option<PathBuf>,
    /// Delay and loss, which an emulator adds to each link; none for a plain link. Excludes guests and
    /// queues.
    pub wan: Option<Wan>,
    /// The linerate program, which runs as the emulator ([`crate::wan::SUBCOMMAND`]) and in virtual machines
    /// ([`crate::guest::SUBCOMMAND`]); none is this program itself.
    pub linerate: Option<PathBuf>,
    /// Two sites of hosts in place of a and b: a is the first host of the first site then, b that of the second one.
    /// Excludes guests, queues and several links.
    pub sites: Option<SiteShape>,
    /// The rate of each host's link to its site's switch, in each direction; none for open links. Needs sites.
    pub host_link: Option<Rate>,
    /// Whether the sites' hosts are nodes of a Slurm cluster.
    pub slurm: SlurmWish,
    /// True if the lab outlives this process, until it is taken down by name. Needs root.
    pub kept: bool,
}

/// Refuses a shape that no lab has.
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
            wrong("virtual machines were described, and the number of guests is 0; ask for 1 or more".into())
        }
        () if options.machine.is_some() && options.queues.is_some() => {
            wrong("queues of a link don't go with virtual machines: give the machines' cards queues".into())
        }
        () if let Some(fault) = options.machine.as_ref().and_then(GuestSpec::fault) => wrong(fault),
        () if options.queues.is_some_and(|n| !(1..=network::MOST_QUEUES).contains(&n)) => {
            wrong(format!("an interface can have 1 to {} queues", network::MOST_QUEUES))
        }
        () if options.link.is_none() && options.wan.is_some_and(|wan| wan.queue.is_some()) => {
            wrong("an open link has no queue; give it a rate, or leave out the queue's size".into())
        }
        () if options.wan.is_some() && options.guests > 0 => {
            wrong("guests share a link by a bridge, and one with delay or loss can't be bridged; leave out one of both".into())
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
            "a rate of the hosts' links was given, and no sites; ask for sites, such as 2x4"
        }
        () if !has_sites && options.slurm != SlurmWish::Never => {
            "Slurm runs on the hosts of sites; ask for sites, such as 2x4"
        }
        () if has_sites && options.guests > 0 => "sites have hosts of their own; leave out the guests",
        () if has_sites && options.links.is_some_and(|links| links > 1) => {
            "one link joins the sites; leave out the number of links"
        }
        () if has_sites && options.queues.is_some() => {
            "queues aren't set between sites; leave out their number"
        }
        () => return None,
    };
    Some(fault.into())
}
