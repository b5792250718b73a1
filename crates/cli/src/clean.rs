//! `linerate clean`: what abandoned transfers have left, listed and removed.

use clap::Args;
use linerate_transfer::bounds::Bounds;
use linerate_transfer::clock::Counters;
use linerate_transfer::leftovers;
use linerate_transfer::problem::{Observer, TransferError};
use linerate_transfer::session::{Client, Meters, Reporter, Session};
use linerate_wire::control::Job;
use linerate_wire::entry::Kind;
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cp::{Failure, Output, SILENCE, Spec, Style, end, start};
use crate::exit::{CODES, Code};
use crate::reach::{Reach, interrupted};
use crate::units::show_bytes;

const EXAMPLES: &str = "\
Examples:
  linerate clean -n host:/data
      lists what transfers that were cut off have left below /data: journals,
      by which the same command would go on, and files under temporary names
  linerate clean host:/data
      removes it. What a transfer under way holds stays
";

/// What `linerate clean` takes.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = CODES)]
pub struct CleanArgs {
    /// List what would be removed, remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    reach: Reach,
    /// Where to look
    #[arg(help = "Directory: PATH or [USER@]HOST:PATH", value_name = "DST")]
    destination: OsString,
}

/// Cleans.
///
/// # Errors
/// Where the directory or the far end can't be reached.
pub fn run(args: CleanArgs) -> Result<Code, Failure> {
    let output = Arc::new(Output::new(Style::Plain));
    let meters = Meters::default();
    args.clean(&output, &meters).inspect_err(|failure| output.failed(failure))?;
    Ok(code(&meters.local))
}

fn code(counters: &Counters) -> Code {
    Code::of_problems(counters.failed.load(Ordering::Relaxed), 0, 0)
}

impl CleanArgs {
    fn clean(&self, output: &Arc<Output>, meters: &Meters) -> Result<(), Failure> {
        match Spec::parse(&self.destination) {
            Spec::Local(path) => {
                let reporter = Reporter::new(output.clone(), meters);
                let tell = |left: &leftovers::Leftover| show(left.path.as_os_str().as_bytes(), left.size);
                let problem = |problem| reporter.problem(problem);
                let root = Bounds::here().name(path.as_bytes())?.directory()?;
                leftovers::clean(&root, !self.dry_run, tell, problem);
                Ok(())
            }
            Spec::Remote(host, path) => self.clean_far(&host, path, output, meters),
        }
    }

    fn clean_far(
        &self,
        host: &OsStr,
        destination: Vec<u8>,
        output: &Arc<Output>,
        meters: &Meters,
    ) -> Result<(), Failure> {
        let far_end = self.reach.far_end(host, false).map_err(|message| Failure(message, Code::Usage))?;
        let interrupted: Arc<AtomicBool> =
            interrupted().map_err(|error| Failure(error.to_string(), Code::Failed))?;
        let (pipes, pulse) = start(&far_end, Some(SILENCE), output, &interrupted)?;
        let ((reader, writer), mut shell) = pipes;
        let observer: Arc<dyn Observer> = output.clone();
        let job = Job::Clean { destination, remove: !self.dry_run };
        let client = Client { job, interrupted, observer, pulse };
        let cleaned = Session::client(reader, writer, client, meters.clone()).and_then(|mut session| {
            let listed = session.receive_list(|path, entry| match entry.kind {
                Kind::File { size } => show(path, size),
                _ => show(path, 0),
            });
            listed.map_err(|error: TransferError| session.give_up(error))?;
            Ok(session)
        });
        match cleaned {
            Ok(session) => {
                end(session, &mut shell);
                Ok(())
            }
            Err(error) => {
                shell.end();
                Err(error.into())
            }
        }
    }
}

fn show(path: &[u8], size: u64) {
    say!("{} ({})", printable(path), show_bytes(size));
}
