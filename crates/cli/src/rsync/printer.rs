//! Output in rsync's format on standard output: lines of changes, totals and progress.

mod changed;
mod counts;
mod listing;
mod passes;
mod shown;

use linerate_transfer::NOT_ALL_READ;
use linerate_transfer::lock::lock;
use linerate_wire::control::{Change, OtherUse};
use linerate_wire::entry::Entry;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::changed::ChangedSources;
use self::shown::{backup_dir, shown};
use super::escape::Escape;
use super::format::{LineFormat, Subject, is_mere_name, is_unchanged};
use super::info::{InfoWord, Levels};
use super::line::Line;
use super::lines::StandardLines;
use super::log::LogFile;
use super::numbers::{Human, clock, shown_rate};
use super::summed::Summed;
use super::tops::{Top, full_name, keeps_root, tops};
use super::wording::Wording;
use crate::Code;
use crate::common::printer::{Done, Printer, Sums};
use crate::common::spec::Spec;
use counts::{Reported, ways};
use passes::Passes;

/// The interval at which the progress is printed.
const PROGRESS: Duration = Duration::from_secs(1);

/// Prints the events of a copy in rsync's format.
pub struct RsyncPrinter {
    format: Option<LineFormat>,
    /// The log of `--log-file`.
    log: Option<Arc<LogFile>>,
    log_format: LineFormat,
    /// Whether this end receives from another host.
    pulls: bool,
    escape: Escape,
    quiet: bool,
    /// The conversion of reported names; links are shown with the sender's text.
    wording: Wording,
    /// The first line that is printed.
    heading: Option<&'static str>,
    levels: Levels,
    /// The line about the directory for backups.
    backup_dir: Option<String>,
    dry_run: bool,
    /// Whether `--link-dest` was given.
    links_others: bool,
    /// Whether a list shows the targets of links.
    shows_links: bool,
    /// Whether a list shows the times of the last access.
    shows_atimes: bool,
    human: Human,
    /// The directories of the sources that are on this host.
    tops: Vec<Top>,
    /// The sources, as messages show them.
    sources: Vec<String>,
    /// The destination, as messages show it.
    destination: String,
    reported: Mutex<Reported>,
    lines: StandardLines,
    has_begun: AtomicBool,
    /// Set once a source that is a directory was left out.
    skipped: AtomicBool,
    has_errors: AtomicBool,
    changed_sources: ChangedSources,
    /// The text before the names of sent entries: a slash if `-R` keeps absolute paths, otherwise empty.
    root: &'static str,
    /// With `--existing` or `--ignore-existing`: a destination on this host, and whether only names that
    /// exist there are handled (true), or only names that don't.
    only: Option<(PathBuf, bool)>,
    /// Changes whose lines wait for checksums of files.
    summed: Option<Summed>,
    /// The lines of `--debug=NSTR` about the chosen checksums and compression.
    choices: Vec<String>,
    /// The state that is shared by the passes of `--delete-before`.
    pub passes: Passes,
}

/// The format of the lines about entries; `None` if entries aren't shown.
fn shown_format(line: &Line) -> Result<Option<LineFormat>, String> {
    Ok(match &line.out_format {
        Some(format) => Some(LineFormat::parse("--out-format", format)?),
        None if line.itemize > 0 => Some(LineFormat::itemized()),
        None if line.info(InfoWord::Name) > 0 => Some(LineFormat::named()),
        None => None,
    })
}

fn only(line: &Line) -> Option<(PathBuf, bool)> {
    let Spec::Local(destination) = Spec::parse(line.paths.last()?) else { return None };
    let existing = line.sync.existing.then_some(true).or(line.sync.ignore_existing.then_some(false))?;
    Some((destination.into(), existing))
}

impl RsyncPrinter {
    /// The output for the command line `line`.
    ///
    /// # Errors
    /// If its format has an unknown element.
    pub fn new(line: &Line) -> Result<Self, String> {
        let format = shown_format(line)?;
        let logged = line.log_format.as_deref();
        let logged = logged.map(|format| LineFormat::parse("--log-file-format", format)).transpose()?;
        let escape = Escape::of_locale(line.eight_bit);
        let log_format = logged.unwrap_or_else(LineFormat::itemized);
        let sums = format.as_ref().is_some_and(LineFormat::needs_sums)
            || line.log_file.is_some() && log_format.needs_sums();
        let destination = line.paths.last().map(|destination| shown(destination, escape)).unwrap_or_default();
        Ok(Self {
            levels: Levels::of(line, format.as_ref().is_some_and(LineFormat::itemizes)),
            format,
            log: None,
            log_format,
            pulls: line.pulls(),
            quiet: line.quiet,
            wording: Wording::of(line),
            heading: line.heading(),
            backup_dir: backup_dir(line, escape),
            escape,
            dry_run: line.sync.dry_run,
            links_others: line.sync.others.as_ref().is_some_and(|others| others.used == OtherUse::Link),
            human: Human(line.human),
            sources: line.sources().iter().map(|source| shown(source, escape)).collect(),
            tops: tops(line),
            destination,
            shows_links: line.links,
            shows_atimes: line.details.atimes > 0,
            reported: Mutex::default(),
            lines: StandardLines::default(),
            has_begun: AtomicBool::new(false),
            skipped: AtomicBool::new(false),
            has_errors: AtomicBool::new(false),
            changed_sources: ChangedSources::default(),
            root: if keeps_root(line) { "/" } else { "" },
            only: only(line),
            summed: sums.then(|| Summed::new(line)),
            choices: line.checked.choices(line),
            passes: Passes::of(line),
        })
    }

    /// Makes this output write a log too.
    pub fn logging(self, log: Option<Arc<LogFile>>) -> Self {
        Self { log, ..self }
    }

    /// Prints the first lines, once.
    pub fn begin(&self) {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        self.choices.iter().for_each(|choice| self.lines.say(choice.as_bytes()));
        self.log(if self.pulls { "receiving file list" } else { "building file list" });
        if let Some(heading) = self.heading.filter(|_| !self.quiet) {
            self.lines.say(heading.as_bytes());
            if heading.ends_with(' ') {
                self.lines.wait_for_count();
            }
        }
        if let Some(line) = self.backup_dir.as_ref().filter(|_| self.levels.backup > 0) {
            self.print(line);
        }
    }

    /// Whether directories were left out, and nothing else failed.
    pub fn skipped_all(&self) -> bool {
        self.skipped.load(Ordering::Relaxed) && !self.has_reported_errors()
    }

    /// The code for a run in which sources changed.
    pub fn code_of_changes(&self) -> Code {
        self.changed_sources.code(self.has_reported_errors())
    }

    /// True if an error was printed.
    pub fn has_reported_errors(&self) -> bool {
        self.has_errors.load(Ordering::Relaxed)
    }

    /// Reports that the destination itself is created.
    fn created(&self) {
        if self.levels.name > 0 || self.levels.itemize > 0 {
            self.print(format!("created directory {}", self.destination.trim_end_matches('/')));
        }
    }

    /// Reports that a pass that only deletes has created the destination.
    pub fn make_top(&self, change: &Change) {
        self.change(change);
        self.passes.make_top();
    }

    /// Prints a line on standard output and in the log.
    fn print(&self, line: impl AsRef<[u8]>) {
        self.log(line.as_ref());
        if !self.quiet {
            self.lines.say(line.as_ref());
        }
    }

    fn log(&self, line: impl AsRef<[u8]>) {
        if let Some(log) = &self.log {
            log.write(line);
        }
    }

    /// Whether the printed lines need reports of unchanged entries from the other end, and whether they need reports of
    /// entries' properties.
    pub fn needs(&self) -> (bool, bool) {
        let levels = &self.levels;
        let unchanged = levels.itemizes_all() || levels.says_uptodate() || levels.skip > 0;
        let formats = self.format.iter().chain(self.log.as_ref().map(|_| &self.log_format));
        (unchanged, formats.into_iter().any(LineFormat::needs_facts))
    }

    /// Prints a line and returns true if `source` is a directory of this host that isn't sent because `-r` is
    /// missing.
    pub fn skips_directory(&self, source: &OsStr, relative: bool) -> bool {
        let is_one = matches!(Spec::parse(source), Spec::Local(path) if is_directory(&path));
        if is_one {
            let shown = self.escape.shown(source.as_bytes());
            let mut shown = match shown.rsplit('/').next().unwrap_or_default() {
                "" | "." | ".." => ".",
                name => name,
            };
            let written = self.escape.shown(source.as_bytes());
            if relative {
                let below = written.split_once("/./").map_or(&*written, |(_, below)| below);
                shown = below.trim_start_matches("./").trim_end_matches('/');
            }
            self.print(format!("skipping directory {shown}"));
        }
        is_one
    }

    /// Removes from `path` the part that precedes its source's own name.
    fn named<'a>(&self, path: &'a str) -> &'a str {
        let is_in = |source: &&String| {
            path.strip_prefix(source.as_str()).is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        let source = self.sources.iter().find(is_in);
        let own = source.and_then(|source| source.rfind('/')).map_or(0, |slash| slash + 1);
        &path[own..]
    }

    /// Whether `--existing` or `--ignore-existing` skips this name at a destination on this host.
    fn is_left_alone(&self, name: &str) -> bool {
        let Some((destination, existing)) = &self.only else { return false };
        destination.join(name).symlink_metadata().is_ok() != *existing
    }

    /// Prints the lines that waited for checksums of files.
    pub fn show_held(&self) {
        let held = self.summed.iter().flat_map(Summed::take);
        held.for_each(|(change, sum)| self.show(&change, &sum));
    }

    /// Prints the line for an entry, if the output format has one.
    fn show(&self, change: &Change, sum: &str) {
        if self.is_as_it_was(change) { self.uptodate(change, sum) } else { self.changed(change, sum) }
    }

    fn is_as_it_was(&self, change: &Change) -> bool {
        let is_named_only = self.links_others && self.levels.says_uptodate() && is_mere_name(change);
        is_unchanged(change) || is_named_only
    }

    /// Prints the lines for a changed entry, on standard output and in the log.
    fn changed(&self, change: &Change, sum: &str) {
        let also = self.levels.says_uptodate();
        let printed = self.format.as_ref().filter(|_| !self.quiet);
        if let Some(line) = printed.and_then(|format| self.line(format, change, sum, self.escape, also)) {
            self.say_in_turn(line);
        }
        // rsync's log of a dry run has no lines about entries that would be sent or deleted.
        let is_unlogged = self.dry_run && matches!(change.item[0], b'<' | b'>' | b'*');
        if !is_unlogged {
            self.log_change(change, sum);
        }
    }

    /// Prints a line that rsync's sender would print. It is held back if rsync's receiver prints lines too,
    /// because those lines come first.
    fn say_in_turn(&self, line: Vec<u8>) {
        if self.levels.says_uptodate() || self.levels.skip > 0 {
            self.lines.hold(line)
        } else {
            self.lines.say(&line)
        }
    }

    fn line(
        &self,
        format: &LineFormat,
        change: &Change,
        sum: &str,
        escape: Escape,
        also: bool,
    ) -> Option<Vec<u8>> {
        let full = full_name(&self.tops, change, self.pulls);
        let root = if change.item == Change::DELETED { "" } else { self.root };
        format.line(&Subject { change, pulls: self.pulls, full: &full, root, sum, escape }, also)
    }

    fn log_change(&self, change: &Change, sum: &str) {
        if let Some(log) = &self.log
            && let Some(line) = self.line(&self.log_format, change, sum, Escape::Log, false)
        {
            log.write(&line);
        }
    }

    /// Prints a line for an unchanged entry, if such entries have one.
    fn uptodate(&self, change: &Change, sum: &str) {
        if self.levels.itemizes_all() {
            if let Some(format) = self.format.as_ref().filter(|_| !self.quiet) {
                self.line(format, change, sum, self.escape, true)
                    .into_iter()
                    .for_each(|line| self.say_in_turn(line));
            }
            if self.log_format.itemizes() {
                self.log_change(change, sum);
            }
        } else if self.levels.says_uptodate() && (!change.directory || change.item[0] == b'c') && !self.quiet
        {
            self.lines.say(&[&self.subject_name(change)[..], b" is uptodate"].concat());
        }
    }

    /// Prints why an entry is skipped, if the levels of `--info` request such lines.
    fn left(&self, change: &Change) {
        if self.levels.skip == 0 {
            return;
        }
        let name = self.escape.bytes(change.path.as_bytes());
        let (before, behind) = match change.item {
            Change::NEWER => ("", " is newer"),
            Change::OVER => ("", " is over max-size"),
            Change::UNDER => ("", " is under min-size"),
            Change::MISSING if change.directory => ("not creating new directory \"", "\""),
            Change::MISSING => ("not creating new file \"", "\""),
            _ => ("", " exists"),
        };
        self.print([before.as_bytes(), &name, behind.as_bytes()].concat());
    }

    fn subject_name(&self, change: &Change) -> Vec<u8> {
        Subject { change, pulls: self.pulls, full: b"", root: "", sum: "", escape: self.escape }.name()
    }
}

impl Printer for RsyncPrinter {
    fn connected(&self) {
        self.begin();
    }

    fn shown(&self, name: &[u8]) -> String {
        self.escape.shown(name)
    }

    fn change(&self, change: &Change) {
        let change = self.passes.with_made_top(change);
        let change = &*self.wording.word(&change);
        match change.item {
            Change::MADE => return self.created(),
            Change::NEWER | Change::EXISTS | Change::MISSING | Change::OVER | Change::UNDER => {
                return self.left(change);
            }
            _ => {}
        }
        if !self.is_as_it_was(change) {
            self.count(change);
        }
        match &self.summed {
            Some(summed) => summed.hold(change.clone()),
            None => self.show(change, ""),
        }
    }

    /// Counts the file: rsync's statistics include files that could not be read.
    fn not_sent(&self, change: &Change) {
        self.count(change);
    }

    fn error(&self, path: &str, message: &str) -> Option<String> {
        if !self.changed_sources.note(message) {
            self.has_errors.store(true, Ordering::Relaxed);
        }
        if self.passes.repeat(path, message) {
            return None;
        }
        if message.ends_with(NOT_ALL_READ) {
            self.print("IO error encountered -- skipping file deletion");
        }
        let line = format!("{}: {path}: {message}", self.program());
        self.log(&line);
        Some(line)
    }

    fn remark(&self, message: &str) {
        let is_shown = (message.starts_with("backed up ") && self.levels.backup > 0)
            || (message.starts_with("created ") && (self.levels.name > 0 || self.levels.itemize > 0))
            || message.starts_with("cannot delete non-empty directory")
            || (message.starts_with("ignoring unsafe symlink ") && self.levels.symsafe > 0)
            || (message.starts_with("fuzzy basis selected ") && self.levels.fuzzy);
        if is_shown {
            self.print(message);
        }
    }

    fn listed(&self, path: &[u8], entry: &Entry, size: u64) {
        self.print(self.listing(path, entry, size));
    }

    fn skip(&self, path: &str, message: &str) {
        let name = path.split_once("/./").map_or_else(|| self.named(path), |(_, below)| below);
        let name = name.strip_prefix("./").unwrap_or(name);
        self.print(if message.starts_with("is a directory") {
            self.skipped.store(true, Ordering::Relaxed);
            let name = if name.ends_with("/.") { "." } else { name };
            format!("skipping directory {name}")
        } else if message.ends_with("; not copied") {
            if self.levels.nonreg == 0 || self.is_left_alone(name) {
                return;
            }
            format!("skipping non-regular file \"{name}\"")
        } else {
            format!("skipping {name}: {message}")
        });
    }

    fn progress(&self, done: &Done) {
        self.lines.count(done.scanned, done.entries.1);
        let Done { bytes: (bytes, total), entries: (landed, found), seconds, is_last, .. } = *done;
        // A dry run sends no file, so that only the progress of the whole run is shown.
        if self.levels.progress <= u8::from(self.dry_run) || self.quiet {
            return;
        }
        let mut reported = lock(&self.reported);
        if !is_last && reported.progress.is_some_and(|last| last.elapsed() < PROGRESS) {
            return;
        }
        reported.progress = Some(Instant::now());
        let percent = (bytes * 100).checked_div(total).unwrap_or(100).min(100);
        let rate = bytes as f64 / seconds.max(1e-3);
        let left = if is_last { seconds } else { total.saturating_sub(bytes) as f64 / rate.max(1.0) };
        let line = format!(
            "{:>15} {percent:>3}% {:>11} {:>10} (xfr#{}, to-chk={}/{found})",
            self.human.number(bytes),
            shown_rate(rate),
            clock(left),
            reported.transferred,
            found.saturating_sub(landed),
        );
        self.lines.progress(&line, is_last);
    }

    fn end(&self, sums: &Sums) {
        self.lines.count(true, sums.there.entries());
        self.show_held();
        if self.levels.stats > 1 {
            self.statistics(sums);
        }
        let (sent, received) = ways(sums);
        if self.levels.stats == 0 {
            let size = sums.size;
            return self.log(format!("sent {sent} bytes  received {received} bytes  total size {size}"));
        }
        let (sent, received, size) =
            (self.human.number(sent), self.human.number(received), self.human.number(sums.size));
        let rate = sums.wire as f64 / sums.elapsed.as_secs_f64().max(1e-3);
        let speedup = sums.size as f64 / (sums.wire.max(1)) as f64;
        self.print("");
        self.print(format!(
            "sent {sent} bytes  received {received} bytes  {} bytes/sec",
            self.human.decimal(rate)
        ));
        let dry = if self.dry_run { " (DRY RUN)" } else { "" };
        self.print(format!("total size is {size}  speedup is {}{dry}", self.human.decimal(speedup)));
    }
}

/// Whether `path` is a directory. A symbolic link to a directory counts only if the path ends with a slash.
pub fn is_directory(path: &OsStr) -> bool {
    Path::new(path).symlink_metadata().is_ok_and(|found| found.is_dir())
}
