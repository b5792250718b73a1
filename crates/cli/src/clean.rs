//! `linerate clean`: what abandoned transfers have left, listed and removed.

use clap::Args;
use linerate_transfer::bounds::Bounds;
use linerate_transfer::clock::Counters;
use linerate_transfer::leftovers;
use linerate_transfer::session::{Meters, Reporter};
use linerate_wire::control::Job;
use linerate_wire::entry::Kind;
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd, SILENCE};
use crate::common::output::{Output, Style};
use crate::common::reach::{Reach, interrupted};
use crate::common::spec::Spec;
use crate::exit::{CODES, Code};
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
        let far_end = self.reach.far_end(host, false)?;
        let near = NearEnd { interrupted: interrupted()?, observer: output.clone(), meters: meters.clone() };
        let job = Job::Clean { destination, remove: !self.dry_run };
        let mut far = FarSession::open(&far_end, job, Some(SILENCE), near)?;
        far.work(|session| {
            session.receive_list(|path, entry| match entry.kind {
                Kind::File { size } => show(path, size),
                _ => show(path, 0),
            })
        })?;
        Ok(())
    }
}

fn show(path: &[u8], size: u64) {
    say!("{} ({})", printable(path), show_bytes(size));
}
