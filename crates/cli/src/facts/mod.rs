//! `linerate facts`: prints facts about a host.

mod module;
mod port;
mod table;

pub use table::ranges;

use clap::Args;
use linerate_host::facts::usual_paths;
use linerate_host::{Facts, Snapshot};
use linerate_remote::host_agent::HostAgent;
use linerate_sys::replace::may_replace;
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::common::failure::Failure;
use crate::common::login::{LoginOptions, not_started, unanswered};
use crate::common::signals::interrupted;
use crate::common::spared::ReplacedKind;
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::print::json;
use crate::units::named_file;

// No line is longer than 79 characters, so that the text isn't wrapped on a terminal with 80 columns.
const EXAMPLES: &str = "\
Examples:
  linerate facts
      prints facts about this host: processors, slots, ports, TCP, storage ...
  linerate facts user@host --json
      prints facts about another host, as JSON
  linerate facts --snapshot web1.txt
      saves all data that was read
  linerate facts --root web1.txt
      prints the facts from the saved data, on any host
";

/// The word by which a user names this host.
pub const HERE: &str = "local";

/// Snapshots, as a kind of files that runs may replace.
const SNAPSHOTS: ReplacedKind = ReplacedKind { name: "a snapshot of a host", begins: Snapshot::begins };

const MEANINGS: [Meaning; 6] =
    [(Code::Done, "printed, or saved"), FAILED, USAGE, FAR_END, VERSION, INTERRUPTED];

/// Arguments of `linerate facts`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct FactsArgs {
    /// The host, or 'local' for this one [default: local]
    #[arg(value_name = "[USER@]HOST", conflicts_with = "root")]
    host: Option<OsString>,
    /// Print one JSON object on standard output
    #[arg(long, conflicts_with = "snapshot")]
    json: bool,
    /// Save all data that was read to FILE
    ///
    /// If FILE ends in .zst, the data is compressed.
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    snapshot: Option<PathBuf>,
    /// Read the facts from a snapshot, or from a directory instead of /
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["snapshot", "paths"])]
    root: Option<PathBuf>,
    /// Report the file system of PATH; may be repeated
    ///
    /// Without this option, the file systems of / and of the current directory are reported; on another host, those of
    /// / and of the login directory.
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    login: LoginOptions,
}

/// Prints the facts.
///
/// # Errors
/// If facts can't be read, or a snapshot can't be saved.
pub fn run(args: FactsArgs) -> Result<Code, Failure> {
    args.snapshot.as_deref().map_or(Ok(()), may_keep)?;
    args.report().map(|()| Code::Done)
}

impl FactsArgs {
    fn report(&self) -> Result<(), Failure> {
        let facts = match (&self.root, &self.host) {
            (Some(root), _) => open(root)?,
            (None, Some(host)) if host != HERE => self.keep(ask(host, &self.paths, &self.login)?)?,
            (None, _) => self.here()?,
        };
        if self.json {
            json(&FactsOf { r#type: "facts", facts: &facts });
        } else if self.snapshot.is_none() {
            output!("{}", table::text(&facts));
        }
        Ok(())
    }

    fn here(&self) -> Result<Facts, Failure> {
        let paths = if self.paths.is_empty() { usual_paths() } else { self.paths.clone() };
        match self.snapshot {
            None => Ok(Facts::here(&paths)),
            Some(_) => self.keep(Facts::here_with_snapshot(&paths).1),
        }
    }

    fn keep(&self, snapshot: Snapshot) -> Result<Facts, Failure> {
        if let Some(path) = &self.snapshot {
            let saved = snapshot.save(path);
            saved.map_err(|error| not_kept(path, &error))?;
        }
        Ok(Facts::of_snapshot(&snapshot))
    }
}

/// Checks, before any fact is read, whether a snapshot can be saved to `file`.
fn may_keep(file: &Path) -> Result<(), Failure> {
    may_replace(file).map_err(|error| not_kept(file, &error))?;
    let refused =
        |why| Failure::usage(format!("--snapshot {}: {why}", printable(file.as_os_str().as_bytes())));
    SNAPSHOTS.refusal(file).map_or(Ok(()), |why| Err(refused(why)))
}

fn not_kept(file: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("saving the snapshot in {}: {error}", file.display()))
}

/// Reads the facts from a snapshot, or from a directory in place of `/`.
///
/// # Errors
/// If the snapshot or directory can't be read.
pub fn open(root: &Path) -> Result<Facts, Failure> {
    let name = printable(root.as_os_str().as_bytes());
    Facts::open(root).map_err(|error| Failure::failed(format!("reading {name}: {error}")))
}

#[derive(serde::Serialize)]
struct FactsOf<'a> {
    r#type: &'a str,
    #[serde(flatten)]
    facts: &'a Facts,
}

/// Gets a snapshot of another host from an agent on that host. The snapshot includes the file systems of `paths` on
/// that host; if `paths` is empty, those of `/` and of the login directory.
///
/// # Errors
/// If no agent can be started there, or the agent is lost.
pub fn ask(host: &OsStr, paths: &[PathBuf], login: &LoginOptions) -> Result<Snapshot, Failure> {
    let far_end = login.far_end(host, false)?;
    let name = printable(far_end.host.as_bytes());
    let interrupted = interrupted()?;
    let agent = far_end.start(&|note| message!("linerate: {note}"), &interrupted).map_err(|error| {
        let Failure(message, code) = not_started(&error, &interrupted);
        Failure(format!("{name}: {message}"), code)
    })?;
    let answer = HostAgent::over(agent).and_then(|mut agent| Snapshot::from_bytes(&agent.facts(paths)?));
    answer.map_err(|error| Failure(format!("{name}: its facts can't be read: {error}"), unanswered(&error)))
}
