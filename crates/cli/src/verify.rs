//! `linerate verify`: compares two trees without sending their contents. Each tree is on this host or on
//! another one.

use clap::Args;
use linerate_transfer::bounds::Bounds;
use linerate_transfer::differences::{Compared, Difference, compare, compare_far, open};
use linerate_transfer::problem::Observer;
use linerate_transfer::routes::Interfaces;
use linerate_transfer::sender::SourceRoot;
use linerate_transfer::session::Meters;
use linerate_wire::control::{Change, Job, Keep, Problem};
use linerate_wire::path::{RelPath, printable, printable_path};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::compared::ComparedFigures;
use crate::common::event::{Event, aspect_name};
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd, SILENCE};
use crate::common::log::{self, LogArgs, LoggedEvent, RunNames};
use crate::common::login::LoginOptions;
use crate::common::metrics::MetricsArgs;
use crate::common::output::{Output, Style};
use crate::common::recording::logging;
use crate::common::signals::interrupted;
use crate::common::spec::{Spec, check_destination, check_places};
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::keep::AspectArgs;
use crate::units::{show_bytes, show_counted};

const EXAMPLES: &str = "\
Examples:
  linerate verify tree host:/data/tree
      compares the contents of both trees after
      'linerate cp -r tree host:/data/', by BLAKE3 hashes that both ends
      compute at the same time
  linerate verify -p host:/data/tree tree
      also compares modes and times of modification
  linerate verify -a --json tree host:/data/tree
      also compares owners, extended attributes, ACLs and hard links, and
      prints JSON lines
  linerate verify hostA:/data/tree hostB:/data/tree
      compares trees on two far hosts; each host hashes its own tree
";

const USER_ONLY: &str =
    "only extended attributes in 'user.' were compared, because the others need root at both ends";

/// The exit codes of a comparison; `same` is the meaning of code 0.
pub const fn meanings(same: &'static str) -> [Meaning; 8] {
    [
        (Code::Done, same),
        FAILED,
        USAGE,
        (Code::Partial, "something differs, or could not be read"),
        (Code::Changed, "a file changed while it was read"),
        FAR_END,
        VERSION,
        INTERRUPTED,
    ]
}

/// Arguments of `linerate verify`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&meanings("nothing differs")))]
pub struct VerifyArgs {
    /// Also compare modes and times of modification
    #[arg(short = 'p', long)]
    preserve: bool,
    #[command(flatten)]
    keep: AspectArgs,
    /// Print only errors; the exit code is the answer
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print events as JSON lines on standard output
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    login: LoginOptions,
    /// The original
    #[arg(help = "Source: PATH or [USER@]HOST:PATH", value_name = "SRC")]
    source: OsString,
    /// The copy
    #[arg(help = "Destination: PATH or [USER@]HOST:PATH", value_name = "DST")]
    destination: OsString,
}

/// Carries out `linerate verify`.
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
    let (source, destination) = (args.source.clone(), args.destination.clone());
    let names = RunNames::new("verify", vec![source], vec![destination], style);
    logging(args.log.log_file.as_deref(), names, args.metrics.metrics.as_deref(), |metrics| {
        let output = Arc::new(Output::new(style).measured(metrics));
        let checked = metrics.check();
        metrics.note().into_iter().for_each(|note| output.note(&note));
        checked.and_then(|()| args.compare(&output)).inspect_err(|failure| output.failed(failure))
    })
}

/// The hosts and paths of the two trees.
enum ComparedTrees {
    /// One tree is on this host.
    Near {
        near: OsString,
        /// The host of the other tree; `None` is this host.
        host: Option<OsString>,
        far: Vec<u8>,
        near_is_source: bool,
    },
    /// Both trees are on far hosts: the host and path of the source, and those of the destination.
    Far([(OsString, Vec<u8>); 2]),
}

impl VerifyArgs {
    fn compare(&self, output: &Arc<Output>) -> Result<Code, Failure> {
        check_places([&self.source, &self.destination]).map_err(Failure::usage)?;
        check_destination(&self.destination).map_err(Failure::usage)?;
        let interrupted = interrupted()?;
        let meters = Meters::default();
        let near_end = NearEnd {
            interrupted,
            observer: output.clone(),
            meters: meters.clone(),
            interfaces: Interfaces::One,
        };
        let compared = match ComparedTrees::find(&self.source, &self.destination) {
            ComparedTrees::Near { near, host, far, near_is_source } => {
                // The tree on this host is opened before any login, so that a wrong name is reported immediately.
                let near = open(&Bounds::here(), near.as_bytes())?;
                self.with_near(output, &near, (host.as_deref(), far, near_is_source), near_end)?
            }
            ComparedTrees::Far(trees) => self.both_far(output, &trees, &near_end)?,
        };
        if compared.user_only {
            output.note(USER_ONLY);
        }
        Ok(self.conclude(output, &compared, &meters))
    }

    fn with_near(
        &self,
        output: &Output,
        near: &SourceRoot,
        (host, path, near_is_source): (Option<&OsStr>, Vec<u8>, bool),
        near_end: NearEnd,
    ) -> Result<Compared, Failure> {
        let keep = self.kept();
        let job = Job::Digests { path, keep };
        let mut far = match host {
            Some(host) => {
                FarSession::open(&self.login.far_end(host, self.quiet)?, job, Some(SILENCE), near_end)?
            }
            None => FarSession::within(job, near_end)?,
        };
        let show = |path: &RelPath, difference: &Difference| self.show(output, path, difference);
        Ok(far.work(|session| compare(session, near, near_is_source, keep, show))?)
    }

    /// Compares the digests that the agents on two far hosts send.
    fn both_far(
        &self,
        output: &Arc<Output>,
        trees: &[(OsString, Vec<u8>); 2],
        near_end: &NearEnd,
    ) -> Result<Compared, Failure> {
        let keep = self.kept();
        let start = |(host, path): &(OsString, Vec<u8>)| {
            let job = Job::Digests { path: path.clone(), keep };
            let near_end = NearEnd {
                observer: Arc::new(FarReporter { host: printable(host.as_bytes()), output: output.clone() }),
                interrupted: near_end.interrupted.clone(),
                meters: near_end.meters.clone(),
                interfaces: Interfaces::One,
            };
            let far_end = self.login.keeping_agent().far_end(host, self.quiet)?;
            FarSession::open(&far_end, job, Some(SILENCE), near_end).map_err(|failure| failure.at(host))
        };
        let (mut source, mut destination) = (start(&trees[0])?, start(&trees[1])?);
        let show = |path: &RelPath, difference: &Difference| self.show(output, path, difference);
        let compared = compare_far(&mut source.session, &mut destination.session, keep, show);
        compared.map_err(|(is_source, error)| {
            let (far, (host, _)) =
                if is_source { (&mut source, &trees[0]) } else { (&mut destination, &trees[1]) };
            Failure::from(far.session.give_up(error)).at(host)
        })
    }

    fn kept(&self) -> Keep {
        self.keep.0.keep(if self.preserve { Keep::SCP } else { Keep::NOTHING })
    }

    fn show(&self, output: &Output, path: &RelPath, difference: &Difference) {
        let path = if path.is_root() { ".".to_owned() } else { printable_path(path.as_bytes()) };
        let (word, aspects) = match difference {
            Difference::Missing => ("missing", Vec::new()),
            Difference::Extra => ("extra", Vec::new()),
            Difference::Differs(aspects) => ("differs", aspects.iter().copied().map(aspect_name).collect()),
        };
        let event = LoggedEvent::difference(word, &path, &aspects.join(", "));
        log::record(&event);
        match (self.json, self.quiet, difference) {
            (true, _, Difference::Missing) => output.event(&Event::Missing { path, aspects: [] }),
            (true, _, Difference::Extra) => output.event(&Event::Extra { path, aspects: [] }),
            (true, _, Difference::Differs(_)) => output.event(&Event::Differs { path, aspects }),
            (_, true, _) => {}
            _ if log::to_journal_as_output(&event) => {}
            _ if aspects.is_empty() => output!("{word:8} {path}"),
            _ => output!("{word:8} {path} ({})", aspects.join(", ")),
        }
    }

    fn conclude(&self, output: &Output, compared: &Compared, meters: &Meters) -> Code {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (failed, changed) = (count(&meters.local.failed), count(&meters.local.changed));
        let code = if compared.is_same() { Code::of_problems(failed, changed, 0) } else { Code::Partial };
        let Compared { entries, bytes, differ, missing, extra, .. } = *compared;
        let text = format!(
            "{} at both ends, {} the same: {differ} differ, {missing} missing, {extra} extra",
            show_counted(entries, "entry is", "entries are"),
            show_bytes(bytes),
        );
        let figures =
            ComparedFigures { entries, bytes, differ, missing, extra: Some(extra), failed, changed };
        figures.record(output.metrics(), &text);
        if self.json {
            let exit = code.number();
            let compared = entries;
            output.event(&Event::Compared { compared, bytes, differ, missing, extra, failed, changed, exit });
        } else if !self.quiet && !log::takes_result() {
            message!("{text}");
        }
        code
    }
}

impl ComparedTrees {
    fn find(source: &OsStr, destination: &OsStr) -> Self {
        match (Spec::parse(source), Spec::parse(destination)) {
            (Spec::Local(near), Spec::Remote(host, far)) => {
                Self::Near { near, host: Some(host), far, near_is_source: true }
            }
            (Spec::Remote(host, far), Spec::Local(near)) => {
                Self::Near { near, host: Some(host), far, near_is_source: false }
            }
            (Spec::Local(near), Spec::Local(far)) => {
                Self::Near { near, host: None, far: far.into_vec(), near_is_source: true }
            }
            (Spec::Remote(from, source), Spec::Remote(to, destination)) => {
                Self::Far([(from, source), (to, destination)])
            }
        }
    }
}

/// Reports the problems of one of two far hosts, with the host's name before each path.
struct FarReporter {
    host: String,
    output: Arc<Output>,
}

impl Observer for FarReporter {
    fn problem(&self, problem: Problem) {
        let path = [self.host.as_bytes(), b":", &problem.path].concat();
        self.output.problem(Problem { path, ..problem });
    }

    fn changes(&self, _: Vec<Change>) {}

    fn note(&self, note: &str) {
        self.output.note(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_here_or_there() {
        use ComparedTrees::{Far, Near};
        let find =
            |source: &str, destination: &str| ComparedTrees::find(source.as_ref(), destination.as_ref());
        assert!(matches!(find("a", "h:b"), Near { near_is_source: true, far, .. } if far == b"b"));
        assert!(matches!(find("h:a", "b"), Near { near_is_source: false, near, .. } if near == "b"));
        assert!(matches!(find("a", "b"), Near { host: None, near_is_source: true, .. }));
        assert!(matches!(find("h:a", "g:b"), Far([(from, _), (to, _)]) if from == "h" && to == "g"));
    }
}
