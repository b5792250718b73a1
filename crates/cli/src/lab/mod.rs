//! `linerate lab`: creates and uses test beds.

mod shape;
mod show;

use std::ffi::OsString;

use clap::{Args, Subcommand};
use linerate_lab::{Lab, LabName, sweep_and_report};

use self::shape::LabShape;
use crate::common::failure::Failure;
use crate::exit::{Code, FAILED, Meaning, NOT_FOUND, NOT_RUN, USAGE, table};

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

With --sites 2x4 there are two sites of four hosts, s1h1 to s1h4 and s2h1 to s2h4, each host with
an ssh server. COMMAND runs on s1h1. a is s1h1, and b is s2h1. The environment, also that of a
login, has for each site N:
  LINERATE_LAB_SITEN_DIR              a directory that the site's hosts share
  LINERATE_LAB_SITEN_HOSTS            names of its hosts for ssh; _ADDRESSES, _NETNS as above
  SLURM_CONF                          the configuration for sbatch and squeue, with Slurm installed

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
  linerate lab run --sites 2x4 --link 1gbit -- sh -c 'ssh -F $LINERATE_LAB_SSH_CONFIG s1h3 sinfo'
  linerate lab run -- bash
";

const UP_EXAMPLES: &str = "\
Examples:
  linerate lab up --link 2.5gbit --name mine
  linerate lab up --sites 2x4 --link 1gbit --name fleet
  linerate lab down mine
";

const DOWN_EXAMPLES: &str = "\
Examples:
  linerate lab down mine
  linerate lab down          takes down the only lab
  linerate lab down --all
";

const STATUS_EXAMPLES: &str = "\
Examples:
  linerate lab status
  linerate lab status --json | jq -r '.[].name'
";

#[derive(Debug, Subcommand)]
enum LabAction {
    /// Make a lab, run a command on host a, and take the lab down
    #[command(before_long_help = RUN_EXAMPLES)]
    Run(LabRunArgs),
    /// Make a lab that lasts until it is taken down (as root)
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
    /// The command and its arguments; linerate exits with its exit code
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct Down {
    /// The lab's name; not needed if only one lab is up
    name: Option<LabName>,
    /// Take down all labs of this user
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

/// Carries out `linerate lab`.
///
/// # Errors
/// If the lab can't be created, found or removed. The exit code of `lab run` is that of the command that it
/// runs.
pub fn run(args: LabArgs) -> Result<Code, Failure> {
    if let LabAction::Run(LabRunArgs { shape, .. }) | LabAction::Up(shape) = &args.action {
        shape.check()?;
    }
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
    show::usage(&lab).iter().for_each(|line| output!("{line}"));
    Ok(Code::Done)
}

fn down(which: &Down) -> anyhow::Result<Code> {
    sweep_and_report()?;
    if !which.all {
        output!("lab {} is down", linerate_lab::down(which.name.as_ref())?);
        return Ok(Code::Done);
    }
    for lab in linerate_lab::status()? {
        output!("lab {} is down", linerate_lab::down(Some(&lab.description.name))?);
    }
    Ok(Code::Done)
}

fn status(how: &Show) -> anyhow::Result<Code> {
    sweep_and_report()?;
    let labs = linerate_lab::status()?;
    match how.json {
        true => output!("{}", serde_json::to_string_pretty(&labs)?),
        false if labs.is_empty() => output!("no lab is up"),
        false => labs.iter().for_each(|lab| output!("{}", show::describe(lab))),
    }
    Ok(Code::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use linerate_lab::{Rate, SlurmWish};

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
    fn sites_have_slurm_where_it_is_installed_unless_said_otherwise() {
        let options = |line: &str| match read(line) {
            Ok(LabAction::Up(shape)) => shape.options(true),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!((options("up").sites, options("up").slurm), (None, SlurmWish::Never));
        let asked = options("up --sites 2x4 --rtt 20ms --loss 0.1% --mtu 9000 --host-link 100mbit");
        assert_eq!(asked.sites.map(|sites| sites.to_string()), Some("2x4".into()));
        assert_eq!(asked.host_link.map(Rate::bits_per_second), Some(100_000_000));
        assert_eq!(asked.slurm, SlurmWish::IfInstalled);
        assert_eq!(options("up --sites 2x4 --slurm on").slurm, SlurmWish::Always);
        assert_eq!(options("up --sites 2x4 --slurm off").slurm, SlurmWish::Never);
    }

    #[test]
    fn a_wrong_argument_is_reported() {
        assert!(read("run --link 10gbps -- true").expect_err("bytes").contains("bytes per second"));
        assert!(read("run --name ../x -- true").expect_err("no name").contains("can't name a lab"));
        assert!(read("run").expect_err("no command").contains("COMMAND"));
        assert!(read("up --congestion teleport").expect_err("none such").contains("this kernel has"));
        assert!(read("up --rtt 50").expect_err("no unit").contains("50ms"));
        assert!(read("up --loss 0.01").expect_err("no unit").contains("percentage"));
        assert!(read("up --rtt 50ms --guests 2").expect_err("no bridge").contains("cannot be used with"));
        assert!(read("up --host-link 1gbit").expect_err("no sites").contains("--sites"));
        for line in
            ["--links 2", "--queues 2", "--guests 2", "--guest-kind qemu", "--guest vcpus=2", "--kernel /"]
        {
            let error = read(&format!("up --sites 2x4 {line}")).expect_err("no such lab");
            assert!(error.contains("cannot be used with"), "{error}");
        }
        for shape in ["2x0", "9x99", "x", "2x17", "-1"] {
            assert!(read(&format!("up --sites={shape}")).expect_err("no shape").contains("such as 2x4"));
        }
        assert!(read("down x --all").expect_err("both").contains("cannot be used with"));
    }
}
