//! `linerate lab`: test beds from the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use linerate_lab::{
    Description, GuestSpec, Lab, LabName, LabOptions, Loss, Rate, Rtt, SegmentCounts, Status, Wan,
    parse_link, sweep_and_tell,
};

use crate::common::failure::Failure;
use crate::exit::{Code, FAILED, Meaning, NOT_FOUND, NOT_RUN, USAGE, table};
use crate::units::{self, show_count};

/// Arguments of `linerate lab`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = explanation())]
pub struct LabArgs {
    #[command(subcommand)]
    action: LabAction,
}

const EXAMPLES: &str = "\
Examples:
  linerate lab run --link 10gbit -- bash
  linerate lab up --link 1gbit --name mine
  linerate lab status
  linerate lab down mine
";

const EXPLANATION: &str = "\
A lab is two network namespaces, a and b, joined by a link, with an ssh server on b.
COMMAND runs on a. Its environment has:
  LINERATE_LAB                        the lab's name
  LINERATE_LAB_SSH_CONFIG             configuration for ssh -F: logs in to b without questions
  LINERATE_LAB_HOST                   the far host's name for ssh: b
  LINERATE_LAB_ADDRESS_A, _ADDRESS_B  the hosts' IPv4 addresses on the first link
  LINERATE_LAB_ADDRESSES_A, _B        their addresses on all links; _GUESTS those of the guests
  LINERATE_LAB_NETNS_A, _NETNS_B      the namespaces, for ip netns exec; _NETNS_GUESTS the guests'
  LINERATE_LAB_HOSTS_GUESTS           names of guests for ssh, if they are virtual machines
  LINERATE_LAB_DIR                    a directory for data, on tmpfs if available

A lab is removed when its command ends. The next lab command removes the remains of a kill -9.
Without root a lab is made in a user namespace, if the kernel allows that.";

const MEANINGS: [Meaning; 5] = [
    (Code::Done, "done; the exit code of lab run is COMMAND's, or 128 + N if signal N ended it"),
    FAILED,
    USAGE,
    NOT_RUN,
    NOT_FOUND,
];

fn explanation() -> String {
    format!("{EXPLANATION}\n\n{}", table(&MEANINGS))
}

const RUN_EXAMPLES: &str = "\
Examples:
  linerate lab run --link 10gbit -- sh -c 'linerate cp -F $LINERATE_LAB_SSH_CONFIG -r DIR b:/tmp'
  linerate lab run --link 1gbit -- sh -c 'ssh -F $LINERATE_LAB_SSH_CONFIG b hostname'
  linerate lab run --link 1gbit --links 4 -- sh -c 'echo $LINERATE_LAB_ADDRESSES_B'
  linerate lab run --guests 2 --guest-kind qemu -- sh -c 'ssh -F $LINERATE_LAB_SSH_CONFIG g1 id'
  linerate lab run --rtt 50ms --loss 0.01% -- sh -c 'ping -c 3 $LINERATE_LAB_ADDRESS_B'
  linerate lab run -- bash
";

const UP_EXAMPLES: &str = "\
Examples:
  linerate lab up --link 2.5gbit --name mine
  linerate lab down mine
";

const DOWN_EXAMPLES: &str = "\
Examples:
  linerate lab down mine
  linerate lab down          the only one
  linerate lab down --all
";

const STATUS_EXAMPLES: &str = "\
Examples:
  linerate lab status
  linerate lab status --json | jq -r '.[].name'
";

#[derive(Debug, Subcommand)]
enum LabAction {
    /// Make a lab, run a command on its near host, take the lab down
    #[command(before_long_help = RUN_EXAMPLES)]
    Run(LabRunArgs),
    /// Make a lab that stays until it is taken down (as root)
    #[command(before_long_help = UP_EXAMPLES)]
    Up(LabShape),
    /// Take a lab down: its processes, namespaces, link and files
    #[command(before_long_help = DOWN_EXAMPLES)]
    Down(Down),
    /// Show the labs that are up
    #[command(before_long_help = STATUS_EXAMPLES)]
    Status(Show),
}

#[derive(Debug, Args)]
struct LabRunArgs {
    #[command(flatten)]
    shape: LabShape,
    /// The command and its arguments; its exit code becomes this one's
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct LabShape {
    /// Rate each way: 10gbit, 2.5gbit, 100mbit, or open
    ///
    /// An open link isn't shaped.
    #[arg(long, value_name = "RATE", default_value = "open", value_parser = read_link)]
    link: LabLink,
    /// Parallel links of that rate, 1 to 8, each its own network
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    links: Option<u32>,
    /// Queues of each interface, each way [default: the kernel's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    queues: Option<u32>,
    /// Hosts behind b's end of the links, on a bridge
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    guests: u32,
    /// Kind of guests: namespace (the default), or qemu: virtual machines
    #[arg(
        long,
        value_name = "KIND",
        default_value = "namespace",
        requires = "guests",
        hide_possible_values = true,
        hide_default_value = true
    )]
    guest_kind: GuestKind,
    /// Virtual machines as guests: nic=virtio,vcpus=4,queues=4
    ///
    /// NAME=VALUE, separated by commas: nic (virtio, vmxnet3, e1000, e1000e or igb), vcpus, memory, queues,
    /// offload (on or off), accel (auto, kvm or tcg), vhost and pinned (on or off).
    #[arg(long, value_name = "PROPERTIES", requires = "guests")]
    guest: Option<GuestSpec>,
    /// Directory with boot/ and lib/modules/ of their kernel [default: /]
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
    /// By default as much as the link carries in one round trip, or in 20ms.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, conflicts_with_all = ["guests", "queues"])]
    queue: Option<u64>,
    /// Chooses which segments are lost [default: 0]
    #[arg(long, value_name = "N", requires = "loss")]
    seed: Option<u64>,
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
    /// With --rtt or --loss the default is large enough to fill the link.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(262_144..=2_147_483_647))]
    tcp_buffer_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GuestKind {
    Namespace,
    Qemu,
}

#[derive(Debug, Args)]
struct Down {
    /// The lab's name; may be left out when only one is up
    name: Option<LabName>,
    /// All labs of this user
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

#[derive(Debug, Args)]
struct Show {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Arguments of `linerate wan`: the emulator of a lab's link, which the lab starts.
#[derive(Debug, Args)]
pub struct WanArgs {
    /// The link to emulate, as JSON
    job: String,
}

/// Carries out `linerate wan`.
///
/// # Errors
/// If the emulator can't run.
pub fn emulate(args: WanArgs) -> Result<Code, Failure> {
    linerate_lab::wan::serve(&args.job).map_err(anyhow::Error::from)?;
    Ok(Code::Done)
}

/// Arguments of `linerate guest`: the first process of a lab's virtual machine, which its kernel starts.
#[derive(Debug, Args)]
pub struct GuestArgs {
    /// The guest's name
    name: String,
}

/// Carries out `linerate guest`.
///
/// # Errors
/// If this isn't the first process of a virtual machine.
pub fn be_guest(args: GuestArgs) -> Result<Code, Failure> {
    linerate_lab::guest::serve(&args.name).map_err(anyhow::Error::from)?;
    Ok(Code::Done)
}

/// A link as an argument. clap would read a bare `Option` as an optional argument.
#[derive(Clone, Copy, Debug)]
struct LabLink(Option<Rate>);

/// Carries out `linerate lab`.
///
/// # Errors
/// If the lab can't be made, found or removed. The exit code of `lab run` is its command's.
pub fn run(args: LabArgs) -> Result<Code, Failure> {
    Ok(match args.action {
        LabAction::Run(run) => run_command(&run),
        LabAction::Up(shape) => up(&shape),
        LabAction::Down(which) => down(&which),
        LabAction::Status(how) => status(&how),
    }?)
}

fn run_command(run: &LabRunArgs) -> anyhow::Result<Code> {
    linerate_lab::ensure_privileges()?;
    Ok(Code::Command(linerate_lab::run(&run.shape.options(false), &run.command)?))
}

fn up(shape: &LabShape) -> anyhow::Result<Code> {
    let lab = Lab::up(&shape.options(true)).map_err(|error| match error {
        linerate_lab::LabError::Unprivileged => linerate_lab::LabError::KeptNeedsRoot,
        other => other,
    })?;
    let (name, config) = (lab.name(), lab.ssh_config());
    let description = lab.description();
    say!("lab {name} is up: {}", describe_link(description));
    say!("  a command on a:  ip netns exec {} COMMAND", description.a.namespace);
    say!("  from a to b:     ip netns exec {} ssh -F {} b", description.a.namespace, config.display());
    say!("  addresses:       a {}, b {}", description.a.address, description.b.address);
    if !description.b.further.is_empty() {
        say!("  further links:   {}", listed(lab.addresses(linerate_lab::End::B).iter().skip(1)));
    }
    if !lab.guests().is_empty() {
        say!("  guests:          {}", listed(lab.guests().iter().map(|guest| guest.address)));
    }
    say!("  data directory:  {}", lab.scratch().display());
    say!("  when done:       linerate lab down {name}");
    Ok(Code::Done)
}

fn down(which: &Down) -> anyhow::Result<Code> {
    sweep_and_tell()?;
    if !which.all {
        say!("lab {} is down", linerate_lab::down(which.name.as_ref())?);
        return Ok(Code::Done);
    }
    for lab in linerate_lab::status()? {
        say!("lab {} is down", linerate_lab::down(Some(&lab.description.name))?);
    }
    Ok(Code::Done)
}

fn status(how: &Show) -> anyhow::Result<Code> {
    sweep_and_tell()?;
    let labs = linerate_lab::status()?;
    match how.json {
        true => say!("{}", serde_json::to_string_pretty(&labs)?),
        false if labs.is_empty() => say!("no lab is up"),
        false => labs.iter().for_each(|lab| say!("{}", describe(lab))),
    }
    Ok(Code::Done)
}

fn describe(lab: &Status) -> String {
    let Status { description, holder, kept, alive, left, ssh_config, counts } = lab;
    if let Some(left) = left {
        return format!("{}: only partly removed: {left}", description.name);
    }
    let held = match (alive, kept) {
        (false, _) => format!("stale: process {holder} is gone"),
        (true, true) => format!("kept until: linerate lab down {}", description.name),
        (true, false) => format!("until process {holder} ends"),
    };
    let (a, b) = (&description.a, &description.b);
    format!(
        "{}: {}, {held}\n  a {} in {}, b {} in {}\n  ssh -F {} b{}",
        description.name,
        describe_link(description),
        a.address,
        a.namespace,
        b.address,
        b.namespace,
        ssh_config.display(),
        counts.iter().enumerate().map(|(link, counts)| describe_counts(link, counts)).collect::<String>()
    )
}

fn describe_counts(link: usize, counts: &[SegmentCounts; 2]) -> String {
    let way = |(way, counts): (&str, &SegmentCounts)| {
        let SegmentCounts { segments, lost, dropped, latest_ns } = counts;
        let late = Duration::from_nanos(*latest_ns).as_secs_f64() * 1e3;
        format!(
            "\n  link {link}, {way}: {} segments, {} lost, {} dropped by the queue, delayed by up to {late:.1} ms",
            show_count(*segments),
            show_count(*lost),
            show_count(*dropped)
        )
    };
    ["a to b", "b to a"].into_iter().zip(counts).map(way).collect()
}

fn listed<T: std::fmt::Display>(words: impl Iterator<Item = T>) -> String {
    words.map(|word| word.to_string()).collect::<Vec<_>>().join(", ")
}

fn describe_link(lab: &Description) -> String {
    let link = lab.link.map_or_else(|| "an open link".into(), |rate| format!("a link of {rate}"));
    let Some(wan) = lab.wan else { return link };
    format!("{link} with a round trip of {} and a loss of {}", wan.rtt, wan.loss)
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

impl LabShape {
    fn wan(&self) -> Option<Wan> {
        let asked = self.rtt.is_some() || self.loss.is_some() || self.queue.is_some();
        let (rtt, loss) = (self.rtt.unwrap_or_default(), self.loss.unwrap_or_default());
        asked.then_some(Wan { rtt, loss, queue: self.queue, seed: self.seed.unwrap_or(0) })
    }

    fn machine(&self) -> Option<GuestSpec> {
        let plain = || (self.guest_kind == GuestKind::Qemu).then(GuestSpec::default);
        self.guest.clone().or_else(plain)
    }

    fn options(&self, kept: bool) -> LabOptions {
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
            kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Whole {
        #[command(flatten)]
        lab: LabArgs,
    }

    fn read(line: &str) -> Result<LabAction, String> {
        let parsed = Whole::try_parse_from(["lab"].into_iter().chain(line.split_whitespace()));
        parsed.map(|whole| whole.lab.action).map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_keeps_its_own_options() {
        let Ok(LabAction::Run(run)) = read("run --link 2.5gbit --name x -- ls -l --name y") else {
            panic!("it is well-formed")
        };
        assert_eq!(run.command, ["ls", "-l", "--name", "y"]);
        let options = run.shape.options(false);
        assert_eq!(options.link.map(Rate::bits_per_second), Some(2_500_000_000));
        assert_eq!(options.name.expect("given").as_str(), "x");
    }

    #[test]
    fn a_link_is_open_unless_said_otherwise() {
        let Ok(LabAction::Up(shape)) = read("up") else { panic!("it is well-formed") };
        assert_eq!(shape.options(true).link, None);
    }

    #[test]
    fn delay_loss_or_queue_make_a_long_path() {
        let wan = |line: &str| match read(line) {
            Ok(LabAction::Up(shape)) => shape.options(true).wan,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(wan("up --link 10gbit"), None);
        let asked = wan("up --link 10gbit --rtt 50ms --loss 0.01% --seed 3").expect("both");
        assert_eq!(
            (asked.rtt.to_string(), asked.loss.to_string(), asked.seed),
            ("50ms".into(), "0.01%".into(), 3)
        );
        assert_eq!(wan("up --link 1gbit --queue 64KiB").and_then(|wan| wan.queue), Some(65_536));
    }

    #[test]
    fn a_wrong_argument_is_told() {
        assert!(read("run --link 10gbps -- true").expect_err("bytes").contains("bytes per second"));
        assert!(read("run --name ../x -- true").expect_err("no name").contains("can't name a lab"));
        assert!(read("run").expect_err("no command").contains("COMMAND"));
        assert!(read("up --congestion teleport").expect_err("none such").contains("this kernel has"));
        assert!(read("up --rtt 50").expect_err("no unit").contains("50ms"));
        assert!(read("up --loss 0.01").expect_err("no unit").contains("percentage"));
        assert!(read("up --rtt 50ms --guests 2").expect_err("no bridge").contains("cannot be used with"));
        assert!(read("down x --all").expect_err("both").contains("cannot be used with"));
    }
}
