//! `linerate rsync`: an rsync command line, as it is.

mod chmod;
mod codes;
mod line;
mod look;
mod relative;
mod table;

use clap::Args;
use linerate_remote::patience::Patience;
use linerate_transfer::filter::{Reading, Rules};
use linerate_transfer::sender::Selection;
use linerate_wire::control::Options;
use linerate_wire::filter::Rule;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::common::failure::Failure;
use crate::common::look::{Look, Sums};
use crate::common::output::{Output, Style};
use crate::common::reach::Reach;
use crate::common::spec::Spec;
use crate::copying::perform;
use crate::copying::task::Task;
use crate::exit::Code;
use crate::sync::selecting::{RuleOption, build, list};
use codes::{MEANINGS, USAGE, of_failure, of_result};
use line::Line;
use look::RsyncLook;
use table::OPTIONS;

/// Arguments of `linerate rsync`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = codes_table())]
pub struct RsyncArgs {
    /// rsync's own options and paths
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "RSYNC-ARGUMENT")]
    words: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  linerate rsync -aHAX --delete tree/ host:/data/copy/
      what rsync does with the same words
  linerate rsync --help
      rsync's options, and what becomes of each
";

const HELP: &str = "\
Usage: linerate rsync [RSYNC'S OPTIONS] SRC... [USER@]HOST:DST
       linerate rsync [RSYNC'S OPTIONS] [USER@]HOST:SRC... DST
       linerate rsync [RSYNC'S OPTIONS] SRC... DST

Does what rsync does with the same words, over linerate's streams: the same
tree, the same lines, the same exit codes. An option that it doesn't have is
refused by its name, before anything is done.";

/// Copies as rsync would.
///
/// # Errors
/// If the command failed as a whole; the code is rsync's.
pub fn run(args: RsyncArgs) -> Result<Code, Failure> {
    let mut line = Line::parse(&args.words).map_err(|message| Failure(message, USAGE))?;
    if line.help || line.version {
        // Scripts look for the first words.
        let version = format!(
            "rsync  version 3.5.0  protocol version 32: as linerate {} has it",
            env!("CARGO_PKG_VERSION")
        );
        say!("{}", if line.help { help() } else { version });
        return Ok(Code::Done);
    }
    line.find().map_err(|message| Failure(message, USAGE))?;
    if line.paths.len() < 2 && line.ignore_missing {
        return Ok(Code::Done);
    }
    let look = RsyncLook::new(&line).map_err(|message| Failure(message, USAGE))?;
    let mut task = line.task().map_err(|message| Failure(message, USAGE))?;
    let pulls = task.sources.first().is_some_and(|source| matches!(Spec::parse(source), Spec::Remote(..)));
    look.begin(pulls, line.makes_directory().as_deref());
    if !line.recursive && task.selection.listed.is_none() {
        task.sources.retain(|source| !look.skips_directory(source));
        if task.sources.is_empty() {
            look.end(&Sums::default());
            return Ok(Code::Done);
        }
    }
    let output = Output::new(Style::Quiet).looking_like(look);
    of_result(perform(output, Ok(task))).map_err(of_failure)
}

/// How it is called, and what becomes of each of rsync's options.
fn help() -> String {
    let rows = OPTIONS.iter().map(|option| format!("\n  {:<42} {}", option.shown(), option.verdict()));
    format!("{HELP}\n\nrsync's options:{}\n\n{}", rows.collect::<String>(), codes_table())
}

fn codes_table() -> String {
    let codes = MEANINGS.iter().map(|(code, meaning)| format!("\n  {code:<4} {meaning}"));
    format!("Exit codes:{}", codes.collect::<String>())
}

impl Line {
    /// Passes over sources that aren't there, and makes what is above the destination, where that is asked for.
    fn find(&mut self) -> Result<(), String> {
        let Some((destination, sources)) = self.paths.split_last() else { return Ok(()) };
        let is_here = |path: &OsString| matches!(Spec::parse(path), Spec::Local(_));
        if self.ignore_missing {
            if !sources.iter().all(is_here) {
                return Err(
                    "--ignore-missing-args is supported by linerate rsync for sources of this host alone"
                        .into(),
                );
            }
            let is_there = |source: &&OsString| Path::new(source).symlink_metadata().is_ok();
            let there = sources.iter().filter(is_there).chain([destination]).cloned().collect();
            self.paths = there;
        }
        let Some(destination) = self.paths.last().filter(|_| self.makes_path && !self.sync.dry_run) else {
            return Ok(());
        };
        if !is_here(destination) {
            return Err("--mkpath is supported by linerate rsync for a destination on this host alone: make the directories \
                        above the destination first"
                .into());
        }
        let above = Path::new(destination).parent().filter(|above| !above.as_os_str().is_empty());
        above.map_or(Ok(()), std::fs::create_dir_all).map_err(|error| {
            let shown = linerate_wire::path::printable(destination.as_bytes());
            format!("making the directories above {shown} failed: {error}")
        })
    }

    fn task(&self) -> Result<Task, String> {
        let Some(([destination], sources)) = self.paths.split_last().map(|(last, rest)| ([last], rest))
        else {
            return Err("there are no paths: rsync's usage is SRC... DST".into());
        };
        if sources.is_empty() {
            return Err(
                "a list of one path alone is not supported by linerate rsync: use ls, or name DST".into()
            );
        }
        if let Some(daemon) = self.paths.iter().find(|path| is_daemon(path)) {
            return Err(format!(
                "{}: it is for rsync's daemon; linerate uses ssh alone: write HOST:PATH",
                linerate_wire::path::printable(daemon.as_bytes())
            ));
        }
        let (sources, listed) = match &self.files_from {
            Some(_) if sources.len() > 1 => return Err("--files-from takes exactly one source".into()),
            Some(file) => (sources.to_vec(), Some(list(file, self.from0)?)),
            None if self.relative == Some(true) => {
                let (top, listed) = relative::read(sources)?;
                (vec![top], Some(listed))
            }
            None => (sources.to_vec(), None),
        };
        let filter = self.filter()?;
        let whole =
            |source: &OsString| source.as_bytes().ends_with(b"/") || source == "." || listed.is_some();
        if filter.as_slice().iter().any(is_anchored) && !sources.iter().all(whole) {
            return Err("a rule that begins with '/' is supported by linerate rsync only where each source ends in '/'".into());
        }
        let options = Options {
            // A list is walked, and nothing but what it names is sent.
            recursive: self.recursive || listed.is_some(),
            keep: self.keep,
            sync: Some(self.sync.clone()),
            filter,
            listed: listed.is_some(),
            // -a doesn't mean -r to a list from a file.
            listed_whole: listed.is_some()
                && self.recursive
                && (self.recursion_named || self.files_from.is_none()),
            no_implied: self.no_implied,
            prune_empty: self.prune_empty,
            copy_links: self.copy_links,
            copy_dirlinks: self.copy_dirlinks,
            copy_unsafe_links: self.copy_unsafe_links,
            remove_sources: self.remove_sources,
            modes: self.modes.clone(),
            safe_links: self.safe_links,
            no_links: !self.links,
            one_file_system: self.one_file_system,
            rate_limit: self.bwlimit,
            timeout: Some(self.timeout).filter(|seconds| *seconds > 0),
            ..Options::default()
        };
        let contents = listed.is_some();
        let mut sources = sources;
        sort_named(&mut sources);
        Ok(Task {
            selection: Selection::new(&options, listed),
            sources: sources.iter().map(|source| source_of(source, contents)).collect(),
            destination: destination.clone(),
            options,
            manifest: None,
            list: false,
            login: Patience::by_option(Some(self.timeout).filter(|seconds| *seconds > 0)),
            quiet: true,
            retries: 0,
            reach: Reach { rsh: self.shell()?, ..Reach::default() },
        })
    }

    /// The directory of this host that is to be made for the sources, where it is known before.
    fn makes_directory(&self) -> Option<OsString> {
        let (destination, sources) = self.paths.split_last()?;
        let Spec::Local(path) = Spec::parse(destination) else { return None };
        let slash = |path: &OsString| path.as_bytes().ends_with(b"/");
        let is_directory = |source: &OsString| match Spec::parse(source) {
            Spec::Local(path) => look::is_directory(&path),
            Spec::Remote(..) => slash(source),
        };
        let has_directory =
            slash(destination) || sources.len() > 1 || self.recursive && sources.iter().any(is_directory);
        (has_directory && !Path::new(&path).exists()).then_some(path)
    }

    fn filter(&self) -> Result<Rules, String> {
        let per_directory = [": /.rsync-filter", "- .rsync-filter"];
        let per_directory = per_directory.into_iter().take(usize::from(self.per_directory));
        let mut rules: Vec<_> =
            per_directory.map(|rule| (RuleOption::Filter, OsString::from(rule))).collect();
        rules.extend(self.rules.iter().cloned());
        let reading = Reading { delete_excluded: self.delete_excluded, nul: self.from0 };
        build(&rules, reading, self.cvs_exclude).map_err(|error| error.to_string())
    }

    fn shell(&self) -> Result<Option<String>, String> {
        let shell = self.rsh.clone().map(OsString::into_string).transpose();
        let shell = shell.map_err(|_| "the remote shell's command is not text".to_owned())?;
        let Some(family) = self.family else { return Ok(shell) };
        Ok(Some(format!("{} {family}", shell.as_deref().unwrap_or("ssh"))))
    }
}

/// Sources of this host that come under their own names come as if they were in one directory: first what is no directory, each
/// by the bytes of its name. Of the same name the first stays the first.
fn sort_named(sources: &mut [OsString]) {
    let name = |source: &OsString| match Spec::parse(source) {
        Spec::Local(path) => Path::new(&path).file_name().map(|name| name.as_bytes().to_vec()),
        Spec::Remote(..) => None,
    };
    let has_name =
        |source: &OsString| !source.as_bytes().ends_with(b"/") && !source.as_bytes().ends_with(b"/.");
    if !sources.iter().all(|source| has_name(source) && name(source).is_some()) {
        return;
    }
    sources.sort_by_cached_key(|source| {
        let is_directory = look::is_directory(source);
        let slash: &[u8] = if is_directory { b"/" } else { b"" };
        (is_directory, [name(source).unwrap_or_default().as_slice(), slash].concat())
    });
}

/// The rule's pattern begins at the top of what is copied.
fn is_anchored(rule: &Rule) -> bool {
    matches!(rule, Rule::Pattern(rule) if !rule.absolute && rule.pattern.starts_with(b"/"))
}

fn is_daemon(path: &OsString) -> bool {
    let bytes = path.as_bytes();
    let head = bytes.split(|&byte| byte == b'/').next().unwrap_or(bytes);
    bytes.starts_with(b"rsync://") || head.windows(2).any(|pair| pair == b"::")
}

/// A slash behind a source's name says what is in it; so does a list of files.
fn source_of(source: &OsString, contents: bool) -> OsString {
    let bytes = source.as_bytes();
    let more: &[u8] = match bytes.last() {
        Some(b'/') => b".",
        _ if contents => b"/.",
        _ => b"",
    };
    OsString::from_vec([bytes, more].concat())
}
