//! `linerate agent`: the far end. It talks to the client over its standard input and output.

use clap::Args;
use linerate_agent::{LocalHost, serve_client};
use linerate_transfer::agent::{HostObserver, Recording};
use linerate_transfer::permit::{Permit, Restriction};
use linerate_transfer::problem::TransferError;
use linerate_wire::control::{JobAttention, Message, Sampling};
use std::path::PathBuf;
use std::process::Child;

use crate::common::failure::Failure;
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};

const MEANINGS: [Meaning; 6] = [(Code::Done, "served"), FAILED, USAGE, FAR_END, VERSION, INTERRUPTED];

const EXAMPLES: &str = "\
Examples:
  restrict,command=\"linerate agent --below /srv/backup --write-only --no-delete\" ssh-ed25519 AAAA...
      in ~/.ssh/authorized_keys: a login with this key can only write files below /srv/backup
";

/// Arguments of `linerate agent`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct AgentArgs {
    /// Print the version identification, which must be equal at both ends
    #[arg(long)]
    id: bool,
    /// Run a job that continues without its client; started by an agent
    #[arg(long, hide = true, conflicts_with_all = ["id", "below"])]
    background: bool,
    /// Serve only paths below DIR: for command="..." in authorized_keys
    #[arg(long, value_name = "DIR", conflicts_with = "id")]
    below: Option<PathBuf>,
    /// With --below: refuse to write or remove anything
    #[arg(long, requires = "below", conflicts_with_all = ["write_only", "id", "background"])]
    read_only: bool,
    /// With --below: refuse to read, list or compare anything
    #[arg(long, requires = "below", conflicts_with_all = ["id", "background"])]
    write_only: bool,
    /// With --below: refuse to delete; existing files can still be overwritten
    #[arg(long, requires = "below", conflicts_with_all = ["id", "background"])]
    no_delete: bool,
}

impl AgentArgs {
    fn permit(&self) -> Result<Permit, TransferError> {
        let Self { read_only, write_only, no_delete, .. } = *self;
        match &self.below {
            Some(directory) => Permit::below(directory, Restriction { read_only, write_only, no_delete }),
            None => Ok(Permit::all()),
        }
    }
}

/// Serves one client. Failures are reported to the client over the control channel.
///
/// # Errors
/// None: the client prints the failure. If this end printed it too, it would appear twice on the client's terminal.
pub fn run(args: AgentArgs) -> Result<Code, Failure> {
    if args.id {
        output!("{}", linerate_wire::identity::IDENTITY);
        return Ok(Code::Done);
    }
    if args.background {
        return crate::jobs::go_on();
    }
    Ok(match serve_client(&HostWithJobs, args.permit()) {
        Ok(()) => Code::Done,
        Err(Some(error)) => Code::from(&error),
        Err(None) => Code::FarEnd,
    })
}

/// Provides everything that an agent can do. Only this part needs the whole program, for detached jobs; the
/// separate agent program does the rest in the same way.
struct HostWithJobs;

impl HostObserver for HostWithJobs {
    fn facts(&self, paths: Vec<Vec<u8>>) -> Vec<u8> {
        LocalHost.facts(paths)
    }

    fn cpu(&self) -> Vec<u8> {
        LocalHost.cpu()
    }

    fn record(&self, sampling: &Sampling) -> Result<Box<dyn Recording>, String> {
        LocalHost.record(sampling)
    }

    fn background(&self) -> Result<Child, String> {
        crate::jobs::start()
    }

    fn jobs(&self, forget: bool) -> Result<Vec<Vec<u8>>, String> {
        let records = if forget { crate::jobs::forget() } else { crate::jobs::records() };
        records.map(reported)
    }

    fn attend(
        &self,
        attention: &JobAttention,
        report: &mut dyn FnMut(Message) -> bool,
    ) -> Result<(), String> {
        crate::jobs::attend(attention, report)
    }
}

/// These job records, each as JSON.
fn reported(records: Vec<crate::jobs::JobRecord>) -> Vec<Vec<u8>> {
    records.iter().map(crate::jobs::JobRecord::json).collect()
}
