//! `linerate fleet plan`: scans a tree, and divides it into shards.

use clap::Args;
use linerate_fleet::catalogue::{EntryKind, EntryStamp};
use linerate_fleet::plan::PlanDirectory;
use linerate_fleet::planner::{PlanMaker, PlanRequest, ShardCount};
use linerate_transfer::bounds::Bounds;
use linerate_transfer::sender::{Finding, Selection, SourceRoot, find_sources};
use linerate_transfer::session::{Meters, Reporter};
use linerate_transfer::survey::{Seen, walk};
use linerate_wire::control::Options;
use linerate_wire::entry::{Entry, Kind, Timestamp};
use linerate_wire::path::printable;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::show;
use crate::common::failure::Failure;
use crate::common::output::{Output, Style};
use crate::common::signals::interrupted;
use crate::common::spec::{Spec, check_destination, check_host};
use crate::exit::Code;
use crate::keep::{ARCHIVE, KeepArgs};
use crate::sync::selecting::Filtering;
use crate::units::{named_file, parse_size};

/// Arguments of `linerate fleet plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Divide into N shards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), required_unless_present = "shard_size")]
    shards: Option<u32>,
    /// Divide into shards of about SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "shards")]
    shard_size: Option<u64>,
    /// The plan's directory, which all hosts share
    ///
    /// linerate creates the directory. If the directory already has a plan, the new plan contains the changes since
    /// that plan, and everything that isn't done.
    #[arg(long, value_name = "DIR", value_parser = named_file())]
    into: PathBuf,
    /// Further hosts that have DST; shards go to DST's host and these in turn
    #[arg(long, value_name = "HOST,...", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Tasks read each file back from storage before it gets its name
    #[arg(long)]
    verify: bool,
    /// Tasks write the BLAKE3 hashes of the copied files into the plan
    #[arg(long)]
    manifest: bool,
    /// Divide no file among shards
    ///
    /// Without this option, large files are divided, unless you give --verify, --manifest or --no-times. If files are
    /// divided, the locks of the destination's file system must work between all hosts.
    #[arg(long)]
    whole_files: bool,
    #[command(flatten)]
    filtering: Filtering,
    #[command(flatten)]
    keep: KeepArgs,
    /// Print only errors
    #[arg(short = 'q', long, conflicts_with = "json")]
    quiet: bool,
    /// Print the plan as a line of JSON on standard output
    #[arg(long)]
    json: bool,
    /// The original, on this host: PATH
    #[arg(value_name = "SRC")]
    source: OsString,
    /// The copy to make or update: PATH or HOST:PATH
    #[arg(value_name = "DST")]
    destination: OsString,
}

/// Makes a plan.
pub fn run(args: &PlanArgs) -> Result<Code, Failure> {
    let begun = Instant::now();
    linerate_sys::limits::raise_open_files();
    let style = match (args.json, args.quiet) {
        (true, _) | (_, true) => Style::Quiet,
        _ => Style::Plain,
    };
    let output = Arc::new(Output::new(style));
    let meters = Meters::default();
    let reporter = Reporter::new(output, &meters);
    let source = args.find(&reporter)?;
    let interrupted = interrupted()?;
    let mut maker = PlanMaker::begin(&args.into, args.request()?)?;
    let selection = Selection::new(&args.options()?, None);
    let keep = args.keep.keep(ARCHIVE);
    let mut failure = None;
    let report = |problem| reporter.problem(problem);
    walk(&[source], keep, &selection, &meters.local, &report, |entry, seen| {
        let taken = take(&mut maker, &entry, &seen, keep.hard_links);
        failure = taken.err().map(Failure::from);
        failure.is_none() && !interrupted.load(Ordering::Relaxed)
    });
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure("interrupted; there is no new plan".into(), Code::Interrupted));
    }
    failure.map_or(Ok(()), Err)?;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (failed, changed) = (count(&meters.local.failed), count(&meters.local.changed));
    maker.failed(failed + changed);
    let made = maker.finish()?;
    args.show(&made, begun);
    Ok(Code::of_problems(failed, changed, 0))
}

fn take(maker: &mut PlanMaker, entry: &Entry, seen: &Seen, links: bool) -> anyhow::Result<()> {
    let (kind, size) = match &entry.kind {
        Kind::File { size } => (EntryKind::File, *size),
        Kind::Directory => (EntryKind::Directory, 0),
        Kind::Symlink { .. } => (EntryKind::Link, 0),
        _ => (EntryKind::Special, 0),
    };
    let time = |Timestamp { seconds, nanoseconds }: Timestamp| (seconds, nanoseconds);
    let stamp = EntryStamp {
        size,
        mtime: time(entry.mtime),
        ctime: time(seen.origin.ctime),
        inode: seen.origin.inode,
    };
    let is_linked = links && seen.linked && kind != EntryKind::Directory;
    maker.take(entry.path.as_bytes(), kind, stamp, is_linked)
}

impl PlanArgs {
    fn find(&self, reporter: &Reporter) -> Result<SourceRoot, Failure> {
        let Spec::Local(source) = Spec::parse(&self.source) else {
            return Err(Failure::usage(
                "SRC is on another host: log in to that host, and make and run the plan there".into(),
            ));
        };
        let finding = Finding { recursive: true, ..Finding::default() };
        let report = |problem| reporter.problem(problem);
        let found = find_sources(&Bounds::here(), &[source.into_vec()], finding, &report)?;
        let found = found.into_first().filter(|found| found.source.directory);
        let found = found
            .ok_or_else(|| Failure::usage("SRC isn't a directory; copy it with 'linerate cp'".into()))?;
        let (into, source) = (real(&self.into)?, real(Path::new(&self.source))?);
        if into.starts_with(&source) {
            return Err(Failure::usage(
                "the plan's directory would be a part of SRC; name another directory".into(),
            ));
        }
        if let Spec::Local(to) = Spec::parse(&self.destination)
            && real(Path::new(&to))?.starts_with(&source)
        {
            return Err(Failure::usage("DST is SRC or a part of it; name another directory".into()));
        }
        Ok(found)
    }

    fn options(&self) -> Result<Options, Failure> {
        let filter = self.filtering.rules(None, false).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Options { recursive: true, filter, keep: self.keep.keep(ARCHIVE), ..Options::default() })
    }

    fn request(&self) -> Result<PlanRequest, Failure> {
        let source = text("SRC", real(Path::new(&self.source))?.as_os_str())?;
        check_destination(&self.destination).map_err(Failure::usage)?;
        let (hosts, destination) = match Spec::parse(&self.destination) {
            Spec::Remote(host, path) => {
                let path = if path.is_empty() { b".".to_vec() } else { path };
                let own = text("DST's host", &host)?;
                let hosts = [own].into_iter().chain(self.hosts.iter().cloned()).collect();
                (hosts, text("DST", &OsString::from_vec(path))?)
            }
            Spec::Local(_) if !self.hosts.is_empty() => {
                return Err(Failure::usage("--hosts: DST names no host; write DST as HOST:PATH".into()));
            }
            Spec::Local(path) => (Vec::new(), text("DST", real(Path::new(&path))?.as_os_str())?),
        };
        let checked = hosts.iter().try_for_each(|host| check_host(host));
        checked.map_err(|why| Failure::usage(format!("the copy's hosts: {why}")))?;
        let mut named = HashSet::new();
        if let Some(twice) = hosts.iter().find(|host| !named.insert(*host)) {
            return Err(Failure::usage(format!("--hosts: {twice} is named twice")));
        }
        let shards = match (self.shards, self.shard_size) {
            (Some(shards), _) => ShardCount::Fixed(shards),
            (None, size) => ShardCount::OfSize(size.unwrap_or(u64::MAX)),
        };
        let keep = self.keep.keep(ARCHIVE);
        let (verify, manifest) = (self.verify, self.manifest);
        // With --verify and --manifest, a task must read a whole file to hash it, so dividing the file would save
        // nothing. If times aren't kept, tasks can't recognise that a divided file is complete.
        let divides = !self.whole_files && !verify && !manifest && keep.times;
        Ok(PlanRequest { source, destination, hosts, keep, verify, manifest, divides, shards })
    }

    fn show(&self, made: &PlanDirectory, begun: Instant) {
        if self.json {
            return crate::print::json(&show::plan_fields(made));
        }
        if !self.quiet {
            show::plan_lines(made, begun.elapsed()).iter().for_each(|line| output!("{line}"));
        }
    }
}

/// The absolute path. In the part of the path that exists, links are resolved.
fn real(path: &Path) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::usage(format!("{}: {error}", printable(path.as_os_str().as_bytes())));
    let path = absolute(path).map_err(failed)?;
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let rest = |above: &Path| path.strip_prefix(above).map(Path::to_owned).unwrap_or_default();
    // Joining an empty path would add a slash.
    Ok(there.map_or_else(
        || path.clone(),
        |(above, real)| if rest(above).as_os_str().is_empty() { real } else { real.join(rest(above)) },
    ))
}

/// The path as text. A plan is JSON, so the path must be text.
fn text(what: &str, path: &OsStr) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let shown = printable(path.as_bytes());
        Failure::usage(format!(
            "{what} '{shown}' isn't valid UTF-8, but a plan must be; names below SRC may have any bytes"
        ))
    })
}
