//! `linerate verify`: compares a tree here with one on another host, of which no contents travel, or two trees here.

use clap::Args;
use linerate_transfer::bounds::Bounds;
use linerate_transfer::differences::{Compared, Difference, compare, open};
use linerate_transfer::problem::Observer;
use linerate_transfer::session::Meters;
use linerate_wire::control::{Job, Keep};
use linerate_wire::path::{RelPath, printable_path};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::event::{Event, aspect_name};
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd, SILENCE};
use crate::common::output::{Output, Style};
use crate::common::reach::{Reach, interrupted};
use crate::common::spec::Spec;
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::keep::AspectArgs;
use crate::units::{show_bytes, show_counted};

const EXAMPLES: &str = "\
Examples:
  linerate verify tree host:/data/tree
      after 'linerate cp -r tree host:/data/': what is in one against what is
      in the other, by BLAKE3 hashes that both ends make at the same time
  linerate verify -p host:/data/tree tree
      modes and times of modification too
  linerate verify -a --json tree host:/data/tree
      owners, extended attributes, ACLs and hard links as well, as JSON lines
";

const USER_ONLY: &str = "only extended attributes in 'user.' were compared: root alone sees the others, and not \
                         both ends are root";

const MEANINGS: [Meaning; 8] = [
    (Code::Done, "nothing differs"),
    FAILED,
    USAGE,
    (Code::Some, "something differs, or could not be read"),
    (Code::Changed, "a file changed while it was read"),
    FAR_END,
    VERSION,
    INTERRUPTED,
];

/// Arguments of `linerate verify`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct VerifyArgs {
    /// Compare modes and times of modification too
    #[arg(short = 'p', long)]
    preserve: bool,
    #[command(flatten)]
    keep: AspectArgs,
    /// Print errors alone; the exit code is the answer
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print events as JSON lines on standard output
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    #[command(flatten)]
    reach: Reach,
    /// The original
    #[arg(help = "Source: PATH or [USER@]HOST:PATH", value_name = "SRC")]
    source: OsString,
    /// The copy
    #[arg(help = "Destination: PATH or [USER@]HOST:PATH", value_name = "DST")]
    destination: OsString,
}

/// Compares.
///
/// # Errors
/// If the trees can't be compared as a whole.
pub fn run(args: VerifyArgs) -> Result<Code, Failure> {
    linerate_sys::limits::raise_open_files();
    let style = match (args.json, args.quiet) {
        (true, _) => Style::Json,
        (_, true) => Style::Quiet,
        _ => Style::Plain,
    };
    let output = Arc::new(Output::new(style));
    args.compare(&output).inspect_err(|failure| output.failed(failure))
}

/// The two trees, by where they are.
struct ComparedTrees {
    near: OsString,
    /// `None` is this host.
    host: Option<OsString>,
    far: Vec<u8>,
    near_is_source: bool,
}

impl VerifyArgs {
    fn compare(&self, output: &Arc<Output>) -> Result<Code, Failure> {
        let ends = ComparedTrees::find(&self.source, &self.destination).map_err(Failure::usage)?;
        let interrupted = interrupted()?;
        // Before any login: a name that was mistyped needs none.
        let near = open(&Bounds::here(), ends.near.as_bytes())?;
        let meters = Meters::default();
        let keep = self.keep.0.keep(if self.preserve { Keep::SCP } else { Keep::NOTHING });
        let job = Job::Digests { path: ends.far.clone(), keep };
        let near_end = NearEnd { interrupted, observer: output.clone(), meters: meters.clone() };
        let mut far = match &ends.host {
            Some(host) => {
                FarSession::open(&self.reach.far_end(host, self.quiet)?, job, Some(SILENCE), near_end)?
            }
            None => FarSession::within(job, near_end)?,
        };
        let show = |path: &RelPath, difference: &Difference| self.show(output, path, difference);
        let compared = far.work(|session| compare(session, &near, ends.near_is_source, keep, show))?;
        drop(far);
        if compared.user_only {
            output.note(USER_ONLY);
        }
        Ok(self.conclude(output, &compared, &meters))
    }

    fn show(&self, output: &Output, path: &RelPath, difference: &Difference) {
        let path = if path.is_root() { ".".to_owned() } else { printable_path(path.as_bytes()) };
        let (word, aspects) = match difference {
            Difference::Missing => ("missing", Vec::new()),
            Difference::Extra => ("extra", Vec::new()),
            Difference::Differs(aspects) => ("differs", aspects.iter().copied().map(aspect_name).collect()),
        };
        match (self.json, self.quiet, difference) {
            (true, _, Difference::Missing) => output.event(&Event::Missing { path, aspects: [] }),
            (true, _, Difference::Extra) => output.event(&Event::Extra { path, aspects: [] }),
            (true, _, Difference::Differs(_)) => output.event(&Event::Differs { path, aspects }),
            (_, true, _) => {}
            _ if aspects.is_empty() => say!("{word:8} {path}"),
            _ => say!("{word:8} {path} ({})", aspects.join(", ")),
        }
    }

    fn conclude(&self, output: &Output, compared: &Compared, meters: &Meters) -> Code {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (failed, changed) = (count(&meters.local.failed), count(&meters.local.changed));
        let code = if compared.is_same() { Code::of_problems(failed, changed, 0) } else { Code::Some };
        let Compared { entries, bytes, differ, missing, extra, .. } = *compared;
        if self.json {
            let exit = code.number();
            let compared = entries;
            output.event(&Event::Compared { compared, bytes, differ, missing, extra, failed, changed, exit });
        } else if !self.quiet {
            tell!(
                "{} at both ends, {} the same: {differ} differ, {missing} missing, {extra} extra",
                show_counted(entries, "entry is", "entries are"),
                show_bytes(bytes),
            );
        }
        code
    }
}

impl ComparedTrees {
    fn find(source: &OsStr, destination: &OsStr) -> Result<Self, String> {
        match (Spec::parse(source), Spec::parse(destination)) {
            (Spec::Local(near), Spec::Remote(host, far)) => {
                Ok(Self { near, host: Some(host), far, near_is_source: true })
            }
            (Spec::Remote(host, far), Spec::Local(near)) => {
                Ok(Self { near, host: Some(host), far, near_is_source: false })
            }
            (Spec::Local(near), Spec::Local(far)) => {
                Ok(Self { near, host: None, far: far.into_vec(), near_is_source: true })
            }
            _ => Err("both trees are on far hosts: run linerate on one of these hosts".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_is_here() {
        let find =
            |source: &str, destination: &str| ComparedTrees::find(source.as_ref(), destination.as_ref());
        assert!(find("a", "h:b").is_ok_and(|ends| ends.near_is_source && ends.far == b"b"));
        assert!(find("h:a", "b").is_ok_and(|ends| !ends.near_is_source && ends.near == "b"));
        assert!(find("a", "b").is_ok_and(|ends| ends.host.is_none() && ends.near_is_source));
        assert!(find("h:a", "g:b").is_err());
    }
}
