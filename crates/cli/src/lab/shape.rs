//! The options that describe the links and hosts of a lab.

use std::path::PathBuf;

use clap::Args;
use linerate_lab::{
    GuestSpec, LabName, LabOptions, Loss, MachineKind, Rate, Rtt, SiteShape, SlurmWish, Wan, parse_link,
};

use crate::common::failure::Failure;
use crate::units;

/// The options that conflict with `--sites`.
const NOT_OF_SITES: [&str; 6] = ["links", "queues", "guests", "guest_kind", "guest", "kernel"];

/// The shape of a lab, from its options.
#[derive(Debug, Args)]
pub struct LabShape {
    /// Rate in each direction: 10gbit, 100mbit, or open
    ///
    /// An open link has no limit.
    #[arg(long, value_name = "RATE", default_value = "open", value_parser = read_link)]
    link: LabLink,
    /// Number of parallel links, 1 to 8; each is a separate network
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    links: Option<u32>,
    /// Receive and transmit queues of an interface [default: the kernel's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    queues: Option<u32>,
    /// Number of guests
    ///
    /// Guests are further hosts, on a bridge at host b's end of the links, which they share with b.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    guests: u32,
    /// Kind of guests: namespace (the default), qemu or uml
    ///
    /// With qemu and uml, the guests are virtual machines.
    #[arg(
        long,
        value_name = "KIND",
        requires = "guests",
        conflicts_with_all = ["rtt", "loss", "queue", "seed"],
        hide_possible_values = true
    )]
    guest_kind: Option<GuestKind>,
    /// Virtual machines as guests: nic=virtio,vcpus=4,queues=4
    ///
    /// PROPERTIES are NAME=VALUE, separated by commas. The names are kind (qemu or uml), nic (virtio, vmxnet3, e1000,
    /// e1000e or igb), vcpus, memory, queues, rss and offload (on or off), accel (auto, kvm or tcg), vhost and pinned
    /// (on or off).
    #[arg(long, value_name = "PROPERTIES", requires = "guests", conflicts_with_all = ["rtt", "loss", "queue", "seed"])]
    guest: Option<GuestSpec>,
    /// Directory of the guests' kernel: boot/, lib/modules/ [default: /]
    #[arg(long, value_name = "DIR")]
    kernel: Option<PathBuf>,
    /// Round-trip time that each link adds: 50ms, 0.5s, 200us
    #[arg(long, value_name = "TIME", conflicts_with_all = ["guests", "queues"])]
    rtt: Option<Rtt>,
    /// Share of segments lost in each direction: 0.01%
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["guests", "queues"])]
    loss: Option<Loss>,
    /// Size of the queue before a link with delay or loss
    ///
    /// By default the queue holds the data that the link carries in one round trip, or in 20 ms if the round trip is
    /// shorter.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, conflicts_with_all = ["guests", "queues"])]
    queue: Option<u64>,
    /// Seed for the choice of lost segments [default: 0]
    #[arg(long, value_name = "N", requires = "loss", conflicts_with_all = ["guests", "queues"])]
    seed: Option<u64>,
    /// Two sites of N hosts each: 2x4
    ///
    /// Each site has a switch and a directory that its hosts share; the link joins the switches. Each host has an ssh
    /// server, and is a node of a Slurm cluster if Slurm is installed.
    #[arg(
        long,
        value_name = "2xN",
        conflicts_with_all = NOT_OF_SITES
    )]
    sites: Option<SiteShape>,
    /// Rate of each host's link to its switch [default: open]
    #[arg(long, value_name = "RATE", requires = "sites", conflicts_with_all = NOT_OF_SITES, value_parser = read_link)]
    host_link: Option<LabLink>,
    /// Run Slurm: on, off, or auto (if it is installed) [default: auto]
    #[arg(long, value_name = "WHEN", requires = "sites", conflicts_with_all = NOT_OF_SITES, hide_possible_values = true)]
    slurm: Option<SlurmWhen>,
    /// The lab's name [default: the first free of lab0, lab1, ...]
    #[arg(long)]
    name: Option<LabName>,
    /// The link's largest packet in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1280..=65535))]
    mtu: Option<u32>,
    /// TCP congestion control [default: cubic, if the kernel has it]
    #[arg(long, value_name = "NAME", value_parser = read_congestion)]
    congestion: Option<String>,
    /// Largest TCP buffer in bytes [default: the kernel's]
    ///
    /// With --rtt, --loss or --queue, the default is large enough to fill the link.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(262_144..=2_147_483_647))]
    tcp_buffer_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SlurmWhen {
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GuestKind {
    Namespace,
    Qemu,
    Uml,
}

/// The rate of a link as an argument. This type is needed because clap would treat an `Option` as an optional
/// argument.
#[derive(Clone, Copy, Debug)]
struct LabLink(Option<Rate>);

impl GuestKind {
    /// The kind of virtual machine; `None` for network namespaces.
    fn machine(self) -> Option<MachineKind> {
        match self {
            Self::Namespace => None,
            Self::Qemu => Some(MachineKind::Qemu),
            Self::Uml => Some(MachineKind::Uml),
        }
    }
}

impl LabShape {
    fn wan(&self) -> Option<Wan> {
        let asked = self.rtt.is_some() || self.loss.is_some() || self.queue.is_some();
        let (rtt, loss) = (self.rtt.unwrap_or_default(), self.loss.unwrap_or_default());
        asked.then_some(Wan { rtt, loss, queue: self.queue, seed: self.seed.unwrap_or(0) })
    }

    fn machine(&self) -> Option<GuestSpec> {
        let kind = self.guest_kind.and_then(GuestKind::machine);
        match (&self.guest, kind) {
            (Some(guest), Some(kind)) => Some(GuestSpec { kind, ..guest.clone() }.with_own_card()),
            (Some(guest), None) => Some(guest.clone()),
            (None, kind) => kind.map(GuestSpec::of),
        }
    }

    /// Refuses options of virtual machines for a lab without any.
    ///
    /// # Errors
    /// If an option would do nothing.
    pub fn check(&self) -> Result<(), Failure> {
        let why = match (self.guest_kind, &self.guest) {
            (Some(GuestKind::Namespace), Some(_)) => {
                "--guest describes virtual machines, which --guest-kind namespace isn't"
            }
            (Some(GuestKind::Qemu), Some(guest)) if guest.kind == MachineKind::Uml => {
                "--guest kind=uml contradicts --guest-kind qemu"
            }
            _ if self.kernel.is_some() && self.machine().is_none() => {
                "--kernel is for virtual machines: add --guest-kind qemu, or --guest"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(why.to_owned()))
    }

    fn slurm(&self) -> SlurmWish {
        match self.slurm {
            _ if self.sites.is_none() => SlurmWish::Never,
            None | Some(SlurmWhen::Auto) => SlurmWish::IfInstalled,
            Some(SlurmWhen::On) => SlurmWish::Always,
            Some(SlurmWhen::Off) => SlurmWish::Never,
        }
    }

    /// These options in the form that the lab crate takes. If `kept` is set, the lab stays after the command has ended.
    pub fn options(&self, kept: bool) -> LabOptions {
        LabOptions {
            link: self.link.0,
            name: self.name.clone(),
            mtu: self.mtu,
            congestion: self.congestion.clone(),
            tcp_buffer_max: self.tcp_buffer_max,
            links: self.links,
            queues: self.queues,
            guests: self.guests,
            wan: self.wan(),
            linerate: None,
            machine: self.machine(),
            kernel: self.kernel.clone(),
            sites: self.sites,
            host_link: self.host_link.and_then(|link| link.0),
            slurm: self.slurm(),
            kept,
        }
    }
}

fn read_link(text: &str) -> Result<LabLink, linerate_lab::RateError> {
    parse_link(text).map(LabLink)
}

fn read_congestion(text: &str) -> Result<String, String> {
    let known =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let listed = known.split_whitespace().any(|name| name == text);
    if listed { Ok(text.into()) } else { Err(format!("this kernel has: {}", known.trim())) }
}
