//! `linerate rsync`: accepts rsync command lines without changes.

mod checked;
mod choice;
mod codes;
mod compress;
mod deleted_first;
mod details;
mod escape;
mod far_words;
mod format;
mod info;
mod line;
mod lines;
mod lists;
mod log;
mod numbers;
mod placing;
mod printer;
mod relative;
mod stop;
mod summed;
mod sums;
mod table;
mod tops;
mod version;
mod wording;

use clap::Args;
use linerate_remote::patience::{OPTION, Patience};
use linerate_transfer::bounds::trust_all_links;
use linerate_transfer::filter::attributes::AttributeRules;
use linerate_transfer::filter::{FilterError, Reading, Rules, Side};
use linerate_transfer::routes::Interfaces;
use linerate_transfer::sender::{ALL_LEFT_OUT, NONE_FOUND, NONE_IS_THERE, Selection};
use linerate_transfer::{NO_BACKUP_DIR, NO_TEMP_DIR};
use linerate_wire::control::{Keep, Options, Sync};
use linerate_wire::filter::Rule;
use linerate_wire::path::printable;
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::failure::Failure;
use crate::common::login::LoginOptions;
use crate::common::output::{Output, Style};
use crate::common::printer::{Printer, Sums};
use crate::common::signals::interrupted_exits_with;
use crate::common::spared::log_refusal;
use crate::common::spec::{Spec, check_destination, check_places};
use crate::copying::perform;
use crate::copying::task::{Stop, Task};
use crate::exit::Code;
use crate::sync::selecting::{RuleOption, build};
use choice::Choice;
use codes::{MEANINGS, SIGNAL, TIMEOUT, UNSUPPORTED, USAGE, VANISHED, of_failure, of_result, rsync_name};
use deleted_first::delete_first;
use details::Way;
use info::InfoWord;
use line::Line;
use log::LogFile;
use printer::RsyncPrinter;
use table::OPTIONS;

/// Arguments of `linerate rsync`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = codes_table(), override_usage = FORMS)]
pub struct RsyncArgs {
    /// rsync's own options and paths
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "RSYNC-ARGUMENT")]
    words: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  linerate rsync -aHAX --delete tree/ host:/data/copy/
      makes the same copy as rsync with these arguments
  linerate rsync --help
      lists rsync's options, and the effect of each
";

const FORMS: &str = "\
linerate rsync [RSYNC'S OPTIONS] SRC... [USER@]HOST:DST
       linerate rsync [RSYNC'S OPTIONS] [USER@]HOST:SRC... DST
       linerate rsync [RSYNC'S OPTIONS] SRC... DST
       linerate rsync [RSYNC'S OPTIONS] [[USER@]HOST:]SRC";

/// The extended attributes in which the kernel shows ACLs.
const ACL_ATTRIBUTES: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// The advice for a destination that became full before anything was deleted.
const ROOM_ADVICE: &str = "; with --delete-before, entries are deleted before anything is sent";

const HELP: &str = "\
Does the same as rsync with these arguments, over linerate's streams: makes the
same tree, prints the same output and ends with the same exit codes. If
linerate lacks an option, it refuses the command line before it does anything.";

/// Copies as rsync would.
///
/// # Errors
/// If the command failed as a whole; the code is rsync's.
pub fn run(args: RsyncArgs) -> Result<Code, Failure> {
    let line = Line::parse(&args.words).map_err(|message| Failure(message, USAGE))?;
    if line.answers() {
        return Ok(Code::Done);
    }
    if line.checked.aside {
        crate::print::all_aside();
    }
    if let Some(why) = line.refusal() {
        return Err(Failure(why, UNSUPPORTED));
    }
    if line.insecure_links {
        trust_all_links();
    }
    copy(line)
}

fn copy(mut line: Line) -> Result<Code, Failure> {
    let printer = RsyncPrinter::new(&line).map_err(|message| Failure(message, USAGE))?;
    let mut task = line.task()?;
    spare_by_log(&line, &task)?;
    let log = line.log_file.as_deref().and_then(LogFile::open).map(Arc::new);
    let printer = printer.logging(log.clone());
    if line.way() == Way::Within {
        printer.begin();
    }
    let printer = Arc::new(printer);
    if !task.options.recursive {
        task.sources.retain(|source| !printer.skips_directory(source, false));
    } else if line.leaves_directories() && line.leave_directories(&printer) {
        task = line.task()?;
    }
    if let Some(sync) = &mut task.options.sync {
        (sync.unchanged, sync.facts) = printer.needs();
    }
    if task.sources.is_empty() || line.sources().is_empty() {
        printer.begin();
        printer.end(&Sums::default());
        return Ok(Code::Done);
    }
    let output = Output::new(Style::Quiet).with_printer(printer.clone());
    interrupted_exits_with(SIGNAL);
    let stop = task.stop.clone();
    let done = perform_passes(&line, task, output, &printer).inspect_err(|Failure(_, code)| {
        if !matches!(code, Code::FarEnd | Code::Shell(_)) {
            printer.begin();
        }
    });
    printer.show_held();
    let done = done.map(|code| partly(code, &line, &printer));
    let done = of_result(done.or_else(|failure| as_rsyncs(failure, &line, &printer, stop.as_ref())));
    if let Some(log) = log {
        log.write(last_words(&done));
    }
    done
}

/// Converts the code of a run that has done at least a part of its work to one that rsync has.
fn partly(code: Code, line: &Line, printer: &RsyncPrinter) -> Code {
    match code {
        // rsync has a code of its own only for deletions that --max-delete stopped.
        Code::NotDeleted if line.sync.max_delete.is_none() => Code::Partial,
        Code::Changed => printer.code_of_changes(),
        code => code,
    }
}

/// Runs the pass that only deletes, if the line has one, and the pass that transfers.
fn perform_passes(
    line: &Line,
    mut task: Task,
    output: Output,
    printer: &Arc<RsyncPrinter>,
) -> Result<Code, Failure> {
    let first = delete_first(line, &mut task, printer)?;
    let second = perform(output, Ok(task))?;
    Ok(if second == Code::Done { first } else { second })
}

/// Refuses a log that would grow in one of the command's own files.
fn spare_by_log(line: &Line, task: &Task) -> Result<(), Failure> {
    let Some(log) = &line.log_file else { return Ok(()) };
    let why = log_refusal(Path::new(log), line.sources(), std::slice::from_ref(&task.destination));
    let refused = |why| Failure(format!("--log-file {}: {why}", printable(log.as_bytes())), USAGE);
    why.map_or(Ok(()), |why| Err(refused(why)))
}

/// Converts a failure to one with rsync's exit code. Returns no failure if rsync doesn't regard it as a failure.
fn as_rsyncs(
    failure: Failure,
    line: &Line,
    printer: &RsyncPrinter,
    stop: Option<&Stop>,
) -> Result<Code, Failure> {
    let Failure(message, code) = failure;
    if line.ignore_missing && message == NONE_IS_THERE {
        return Ok(Code::Done);
    }
    // All sources were directories, which aren't copied without -r.
    let are_skipped = message == NONE_FOUND && printer.skipped_all();
    if are_skipped || message == ALL_LEFT_OUT {
        printer.end(&Sums::default());
        return Ok(if printer.has_reported_errors() { Code::Partial } else { Code::Done });
    }
    if message == NONE_FOUND {
        printer.end(&Sums::default());
    }
    let code = match code {
        // A far end reports a missing source by the code for wrong arguments.
        Code::Usage if message == NONE_FOUND => Code::NoSource,
        // The directory is missing at the destination, but rsync reports this by its code for wrong usage.
        Code::Usage if [NO_TEMP_DIR, NO_BACKUP_DIR].iter().any(|no| message.starts_with(no)) => USAGE,
        Code::Interrupted if stop.is_some_and(|stop| stop.reached.load(Ordering::Relaxed)) => {
            return Err(Failure("stopping at requested limit".into(), Code::Command(TIMEOUT)));
        }
        Code::FarEnd if line.timeout > 0 && message.contains(OPTION) => Code::Command(TIMEOUT),
        code => code,
    };
    let is_full = line.sync.delete && !line.deletes_before() && message.contains(&Errno::NOSPC.to_string());
    let advice = if is_full { ROOM_ADVICE } else { "" };
    Err(of_failure(Failure(message + advice, code)))
}

/// The last lines of the log, for a run that failed as a whole or in part.
fn last_words(done: &Result<Code, Failure>) -> String {
    let (message, code) = match done {
        Ok(code) => (None, code.number()),
        Err(Failure(message, code)) => (Some(message), code.number()),
    };
    let kind = if code == VANISHED { "warning" } else { "error" };
    let message = message.map_or_else(String::new, |message| format!("linerate: {message}\n"));
    if code == 0 { message } else { format!("{message}rsync {kind}: {} (code {code})", rsync_name(code)) }
}

/// Whether a list of files is stored at the far end.
fn is_far(list: &OsString) -> bool {
    list.as_bytes().starts_with(b":") || matches!(Spec::parse(list), Spec::Remote(..))
}

/// The help: how the command is called, and the effect of each of rsync's options.
fn help() -> String {
    let rows = OPTIONS.iter().map(|option| format!("\n  {:<42} {}", option.shown(), option.verdict()));
    format!("Usage: {FORMS}\n\n{HELP}\n\nrsync's options:{}\n\n{}", rows.collect::<String>(), codes_table())
}

fn codes_table() -> String {
    let codes = MEANINGS.iter().map(|(code, meaning)| format!("\n  {code:<4} {meaning}"));
    format!("Exit codes:{}", codes.collect::<String>())
}

impl Line {
    /// Prints help or versions if the line asks for them. Returns true if it has printed something, because then
    /// there is nothing else to do.
    fn answers(&self) -> bool {
        match (self.version, self.words_help) {
            _ if self.help => output!("{}", help()),
            (1, _) => output!("{}", version::shown()),
            (2.., _) => output!("{:#}", version::as_json()),
            (0, Some(words)) => output!("{words}"),
            (0, None) => return false,
        }
        true
    }

    fn task(&self) -> Result<Task, Failure> {
        let wrong = |message| Failure(message, USAGE);
        let destination = self.checked_destination().map_err(wrong)?;
        let Choice { sources, listed, are_tops } = self.choice(self.sources())?;
        let options = self.options(listed.is_some(), are_tops)?;
        Ok(Task {
            selection: Selection::new(&options, listed),
            sources: sources.iter().map(|source| source_of(source, are_tops)).collect(),
            destination,
            options,
            manifest: None,
            list: self.list,
            patience: Patience::by_option(Some(self.timeout).filter(|seconds| *seconds > 0)),
            quiet: true,
            retries: 0,
            interfaces: Interfaces::One,
            stop: self.stop_at.map(|at| Stop { at, reached: Arc::default(), code: TIMEOUT }),
            detach: false,
            login: self.login().map_err(wrong)?,
            destination_login: None,
        })
    }

    /// The options that both ends must know. `is_listed` states that only listed paths are sent, and `are_tops`
    /// that the sources are the base directories of these paths.
    fn options(&self, is_listed: bool, are_tops: bool) -> Result<Options, Failure> {
        let way = self.way();
        let filter = self.filter()?;
        Ok(Options {
            // Only listed paths are sent, but to find them, the directories above them must be read.
            recursive: self.recursive || is_listed,
            keep: Keep { acls: self.keep.acls || self.sends_acls_as_attributes(&filter), ..self.kept(way) },
            sync: Some(Sync { make_path: self.makes_path, ..self.sync.clone() }),
            filter,
            listed: is_listed,
            listed_whole: is_listed && self.lists_whole(),
            ignore_missing: self.ignore_missing,
            no_implied: self.no_implied && are_tops,
            prune_empty: self.prune_empty,
            copy_links: self.copy_links,
            copy_dirlinks: self.copy_dirlinks,
            copy_unsafe_links: self.copy_unsafe_links,
            remove_sources: self.remove_sources,
            modes: self.modes.clone(),
            safe_links: self.safe_links,
            no_links: !self.links && !self.list,
            one_file_system: self.one_file_system,
            compression: self.compress.compression(),
            rate_limit: self.bwlimit,
            timeout: Some(self.timeout).filter(|seconds| *seconds > 0),
            details: Box::new(self.details.details(way)),
            ..Options::default()
        })
    }

    /// The destination; a message if the line has wrong paths.
    fn checked_destination(&self) -> Result<OsString, String> {
        let (sources, here) = (self.sources(), OsString::from("."));
        let destination = if self.list { Some(&here) } else { self.paths.last() };
        let Some(destination) = destination.filter(|_| !sources.is_empty()) else {
            return Err("there are no paths: rsync's usage is SRC... DST".into());
        };
        check_places(&self.paths)?;
        check_destination(destination)?;
        if let Some(daemon) = self.paths.iter().find(|path| is_daemon(path)) {
            return Err(format!(
                "{}: this form is for rsync's daemon; linerate uses only ssh: write HOST:PATH",
                printable(daemon.as_bytes())
            ));
        }
        if is_far(destination) && sources.iter().any(is_far) {
            return Err("The source and destination cannot both be remote.".into());
        }
        Ok(destination.clone())
    }

    /// True if sources that are directories must be removed from the line. With `-R` the sources become a list of
    /// files, and without `-r` and `-d` rsync leaves directories out.
    fn leaves_directories(&self) -> bool {
        let are_left = !self.recursive && !self.shallow && !self.pulls();
        self.relative == Some(true) && are_left && self.files_from.is_none()
    }

    /// Removes the sources that are directories of this host. Returns whether other sources remain.
    fn leave_directories(&mut self, printer: &RsyncPrinter) -> bool {
        let destination = self.paths.pop();
        self.paths.retain(|source| !printer.skips_directory(source, true));
        let is_any_left = !self.paths.is_empty();
        self.paths.extend(destination);
        is_any_left
    }

    /// The error message for options or values that contradict each other. rsync refuses them, too.
    fn refusal(&self) -> Option<String> {
        let sums = || self.checked.refusal(self.sync.checksum);
        self.compress.refusal().or_else(sums).or_else(|| self.details.refusal())
    }

    fn way(&self) -> Way {
        let is_far =
            |path: Option<&OsString>| path.is_some_and(|path| matches!(Spec::parse(path), Spec::Remote(..)));
        match (is_far(self.paths.first()), is_far(self.paths.last())) {
            (true, _) => Way::Pull,
            (_, true) => Way::Push,
            _ => Way::Within,
        }
    }

    fn login(&self) -> Result<LoginOptions, String> {
        Ok(LoginOptions { rsh: self.shell()?, agent_command: self.agent.clone(), ..LoginOptions::default() })
    }

    /// The attributes and kinds of entries that are kept. With `--list-only`, kinds that a copy would leave out are
    /// listed, too.
    fn kept(&self, way: Way) -> Keep {
        if self.list {
            return Keep { devices: true, specials: true, hard_links: false, ..self.keep };
        }
        let makes = !self.details.drops_devices(way);
        let (devices, specials) = (makes && self.details.may_make_devices(way), makes);
        Keep { devices: self.keep.devices && devices, specials: self.keep.specials && specials, ..self.keep }
    }

    /// True if rsync would send ACLs as extended attributes. rsync normally leaves out the attributes that hold ACLs,
    /// but not if there are rules for the names of attributes.
    fn sends_acls_as_attributes(&self, filter: &Rules) -> bool {
        let own = self.details.attribute_rule().map(|rule| rule.trim_start_matches("-xs ").as_bytes());
        let has_rules = filter.as_slice().iter().any(
            |rule| matches!(rule, Rule::Pattern(rule) if rule.attributes && own.is_none_or(|own| rule.pattern != own)),
        );
        let rules = AttributeRules::new(filter, Side::Sender);
        let are_sent = !ACL_ATTRIBUTES.iter().any(|name| rules.leave_out(name));
        self.keep.xattrs && self.keep.perms && has_rules && are_sent
    }

    /// rsync's first line, about building or receiving the list of files.
    fn heading(&self) -> Option<&'static str> {
        if self.info(InfoWord::Flist) == 0 {
            return None;
        }
        let has_directories = self.recursive || self.shallow || self.files_from.is_some();
        // With a list of files, -a doesn't imply -r.
        let recursive = self.recursive && (self.files_from.is_none() || self.recursion_named);
        let is_delayed = self.details.placing.delayed;
        let comes_bit_by_bit = recursive && !self.whole_list && !self.prune_empty && !is_delayed;
        Some(match (comes_bit_by_bit, self.pulls()) {
            (true, true) => "receiving incremental file list",
            (true, false) => "sending incremental file list",
            (false, _) if !has_directories => return None,
            (false, _) if self.info(InfoWord::Flist) > 1 && !self.pulls() => "building file list ... ",
            (false, _) if self.info(InfoWord::Flist) > 1 => "receiving file list ... ",
            (false, true) => "receiving file list ... done",
            (false, false) => "building file list ... done",
        })
    }

    /// The filter rules.
    fn filter(&self) -> Result<Rules, Failure> {
        let per_directory = [": /.rsync-filter", "- .rsync-filter"];
        let per_directory = per_directory.into_iter().take(usize::from(self.per_directory));
        let first = self.details.attribute_rule().into_iter().chain(per_directory);
        let mut rules: Vec<_> = first.map(|rule| (RuleOption::Filter, OsString::from(rule))).collect();
        rules.extend(self.rules.iter().cloned());
        rules.extend(self.details.placing.rule().map(|rule| (RuleOption::Filter, rule)));
        let reading = Reading { delete_excluded: self.delete_excluded, nul: self.from0 };
        build(&rules, reading, self.cvs_exclude).map_err(|error| {
            let code = if matches!(error, FilterError::Read { .. }) { Code::Failed } else { USAGE };
            of_failure(Failure(error.to_string(), code))
        })
    }

    fn shell(&self) -> Result<Option<String>, String> {
        let shell = self.rsh.clone().map(OsString::into_string).transpose();
        let shell = shell.map_err(|_| "the remote shell's command is not text".to_owned())?;
        let Some(family) = self.family else { return Ok(shell) };
        Ok(Some(format!("{} {family}", shell.as_deref().unwrap_or("ssh"))))
    }
}

/// Whether a path has the form `HOST::MODULE` or `rsync://HOST/MODULE`.
fn is_daemon(path: &OsString) -> bool {
    let bytes = path.as_bytes();
    let has_module = matches!(Spec::parse(path), Spec::Remote(_, path) if path.starts_with(b":"));
    has_module || bytes.starts_with(b"::") || bytes.starts_with(b"rsync://")
}

/// Converts a source to linerate's notation, in which `/.` at the end means the contents of a directory. A source
/// means its contents if it ends in a slash, or if `contents` is set because there is a list of files.
fn source_of(source: &OsString, contents: bool) -> OsString {
    let bytes = source.as_bytes();
    let more: &[u8] = match bytes.last() {
        Some(b'/') => b".",
        _ if contents => b"/.",
        _ => b"",
    };
    OsString::from_vec([bytes, more].concat())
}
