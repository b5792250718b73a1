//! `linerate clean`: lists and removes the files that abandoned transfers have left.

use clap::Args;
use linerate_transfer::bounds::Bounds;
use linerate_transfer::leftovers;
use linerate_transfer::routes::Interfaces;
use linerate_transfer::session::{Meters, Reporter};
use linerate_wire::control::{Job, Leftover};
use linerate_wire::path::printable_path;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::event::{Event, leftover_name};
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd, SILENCE};
use crate::common::login::LoginOptions;
use crate::common::output::{Output, Style};
use crate::common::signals::interrupted;
use crate::common::spec::{Spec, check_places};
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::jobs;
use crate::units::show_bytes;

const EXAMPLES: &str = "\
Examples:
  linerate clean -n host:/data
      lists the remains of interrupted transfers below /data: journals, with
      which the same command would continue, and files with temporary names
  linerate clean host:/data
      removes these remains, except those of running transfers
  linerate clean --jobs host
      removes the records of ended detached jobs (linerate status host)
";

const MEANINGS: [Meaning; 7] = [
    (Code::Done, "all remains were listed, or removed"),
    FAILED,
    USAGE,
    (Code::Partial, "something could not be removed"),
    FAR_END,
    VERSION,
    INTERRUPTED,
];

/// Arguments of `linerate clean`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct CleanArgs {
    /// List the files that would be removed; remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print only errors
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print events as JSON lines on standard output
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    #[command(flatten)]
    login: LoginOptions,
    /// Remove the records of detached jobs that have ended; DST is a host
    #[arg(long, conflicts_with_all = ["dry_run", "json", "quiet"])]
    jobs: bool,
    /// The directory that is searched with everything below it
    #[arg(
        help = "Directory: PATH or [USER@]HOST:PATH",
        value_name = "DST",
        required_unless_present = "jobs"
    )]
    destination: Option<OsString>,
}

/// The leftovers that were found so far.
#[derive(Default)]
struct CleanedUp {
    leftovers: u64,
    bytes: u64,
}

/// Carries out `linerate clean`.
///
/// # Errors
/// If the directory or the far end can't be reached.
pub fn run(args: CleanArgs) -> Result<Code, Failure> {
    if args.jobs {
        return jobs::clean(&args.login, args.destination.as_deref());
    }
    check_places(&args.destination).map_err(Failure::usage)?;
    let output = Arc::new(Output::new(args.style()));
    let (meters, mut found) = (Meters::default(), CleanedUp::default());
    let cleaned = match Spec::parse(args.destination.as_deref().unwrap_or_default()) {
        Spec::Local(path) => args.clean(&path, &output, &meters, &mut found),
        Spec::Remote(host, path) => args.clean_far(&host, path, &output, &meters, &mut found),
    };
    cleaned.inspect_err(|failure| output.failed(failure))?;
    Ok(args.conclude(&output, &found, meters.local.failed.load(Ordering::Relaxed)))
}

impl CleanArgs {
    fn style(&self) -> Style {
        match (self.json, self.quiet) {
            (true, _) => Style::Json,
            (_, true) => Style::Quiet,
            _ => Style::Plain,
        }
    }

    fn clean(
        &self,
        path: &OsStr,
        output: &Arc<Output>,
        meters: &Meters,
        found: &mut CleanedUp,
    ) -> Result<(), Failure> {
        let reporter = Reporter::new(output.clone(), meters);
        let root = Bounds::here().name(path.as_bytes())?.directory()?;
        let show = |left| self.show(output, &left, found);
        leftovers::clean(&root, !self.dry_run, show, |problem| reporter.problem(problem));
        Ok(())
    }

    fn clean_far(
        &self,
        host: &OsStr,
        destination: Vec<u8>,
        output: &Arc<Output>,
        meters: &Meters,
        found: &mut CleanedUp,
    ) -> Result<(), Failure> {
        let far_end = self.login.far_end(host, self.quiet)?;
        let near = NearEnd {
            interrupted: interrupted()?,
            observer: output.clone(),
            meters: meters.clone(),
            interfaces: Interfaces::One,
        };
        let job = Job::Clean { destination, remove: !self.dry_run };
        let mut far = FarSession::open(&far_end, job, Some(SILENCE), near)?;
        far.work(|session| session.receive_leftovers(|left| self.show(output, left, found)))?;
        Ok(())
    }

    fn show(&self, output: &Output, left: &Leftover, found: &mut CleanedUp) {
        found.leftovers += 1;
        // The far end may send any numbers, so the sum must not overflow.
        found.bytes = found.bytes.saturating_add(left.size);
        let (path, kind, bytes) = (printable_path(&left.path), leftover_name(left.kind), left.size);
        match (self.json, self.quiet) {
            (true, _) => output.event(&Event::Leftover { path, kind, bytes }),
            (_, true) => {}
            _ => output!("{kind:14} {:>10}  {path}", show_bytes(bytes)),
        }
    }

    fn conclude(&self, output: &Output, found: &CleanedUp, failed: u64) -> Code {
        let code = Code::of_problems(failed, 0, 0);
        if self.json {
            let CleanedUp { leftovers, bytes } = *found;
            let (dry_run, exit) = (self.dry_run, code.number());
            output.event(&Event::Cleaned { dry_run, leftovers, bytes, failed, exit });
        }
        code
    }
}
