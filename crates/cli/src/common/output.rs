//! The output of commands with a far end, while they run and at their end: text, or lines of JSON.

mod problems;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_doctor::limiter::{Evidence, Limiter, Verdict, transfer};
use linerate_transfer::lock::lock;
use linerate_transfer::session::Meters;
use linerate_wire::control::{Change, Link, Totals};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::{printable, printable_path};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::event::{Event, entry_name};
use super::failure::Failure;
use super::kept_output::{Keeper, Sighting};
use super::log::{self, RunFigures};
use super::losses::Losses;
use super::member::MemberOutput;
use super::metrics::RunMetrics;
use super::printer::{Done, Printer, Sums};
use super::summary::Summary;
use crate::exit::Code;
use crate::print;
use crate::units::{show_bytes, show_count, show_counted, show_rate, show_time};

/// How much a command prints, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Only errors are printed.
    Quiet,
    /// A progress bar (on a terminal), problems, and a last line.
    Plain,
    /// Everything that `Plain` prints, and each step.
    Verbose,
    /// Events as JSON on standard output.
    Json,
}

/// The part that this process has in a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// This process sends.
    Sender,
    /// This process receives.
    Receiver,
    /// This process sends and receives: the copy stays within this host.
    Both,
    /// This process neither sends nor receives: both ends are far hosts.
    Neither,
}

/// Prints a command's progress, problems and results.
pub struct Output {
    style: Style,
    bar: ProgressBar,
    last_event: Mutex<Instant>,
    /// True if each change is printed.
    itemize: bool,
    deleted: AtomicU64,
    losses: Mutex<Losses>,
    /// Prints lines in the format of another program (rsync or scp), if there is one.
    printer: Option<Box<dyn Printer>>,
    /// The number of entries that were left out on purpose, as the other program does.
    left_out: AtomicU64,
    metrics: Arc<RunMetrics>,
    /// Additional data if this is the output of one of several copies.
    member: Option<MemberOutput>,
    /// If set, gets everything that would be printed, because no terminal shows it.
    keeper: Option<Arc<dyn Keeper>>,
}

impl Output {
    /// An output with this style.
    pub fn new(style: Style) -> Self {
        let shown = style == Style::Plain || style == Style::Verbose;
        let bar = if shown && std::io::stderr().is_terminal() {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10))
        } else {
            ProgressBar::hidden()
        };
        let template = ProgressStyle::with_template("{bar:24} {percent:>3}%  {wide_msg}");
        bar.set_style(template.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
        Self::bare(style, bar)
    }

    fn bare(style: Style, bar: ProgressBar) -> Self {
        let last_event = Mutex::new(Instant::now());
        Self {
            style,
            bar,
            last_event,
            itemize: false,
            deleted: AtomicU64::new(0),
            losses: Mutex::default(),
            printer: None,
            left_out: AtomicU64::new(0),
            metrics: Arc::default(),
            member: None,
            keeper: None,
        }
    }

    /// Makes the output use another program's format.
    pub fn with_printer(self, printer: impl Printer + 'static) -> Self {
        Self { printer: Some(Box::new(printer)), ..self }
    }

    /// The number of entries that were left out as the other program does, which isn't an error.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// The output for one of several copies.
    pub fn of_member(&self, member: MemberOutput) -> Self {
        let (bar, itemize) = (self.bar.clone(), self.itemize);
        let own = Self { bar, itemize, ..Self::bare(self.style, ProgressBar::hidden()) };
        Self { member: Some(member), ..own }
    }

    /// An output for a run that no terminal shows.
    pub fn kept(keeper: Arc<dyn Keeper>) -> Self {
        Self { keeper: Some(keeper), ..Self::bare(Style::Json, ProgressBar::hidden()) }
    }

    /// The data that was set by [`Self::of_member`]; `None` for the output of a whole command.
    pub fn member(&self) -> Option<&MemberOutput> {
        self.member.as_ref()
    }

    /// The style of the output.
    pub fn style(&self) -> Style {
        self.style
    }

    /// The progress bar, which is hidden if no bar is shown.
    pub fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// The program's name, which begins each line of text.
    fn program(&self) -> String {
        match (&self.printer, &self.member) {
            (Some(printer), _) => printer.program().to_owned(),
            (None, Some(member)) => format!("linerate: {}", member.name),
            (None, None) => "linerate".to_owned(),
        }
    }

    /// The destination, if this is the output of one of several copies.
    fn destination(&self) -> Option<&str> {
        self.member.as_ref().map(|member| &*member.named)
    }

    /// Makes the output also collect the metrics of the run.
    pub fn measured(self, metrics: &Arc<RunMetrics>) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// The metrics of the run.
    pub fn metrics(&self) -> &RunMetrics {
        &self.metrics
    }

    /// Sets whether each change is printed.
    pub fn itemizing(self, itemize: bool) -> Self {
        Self { itemize, ..self }
    }

    /// The number of entries that were deleted, or would be deleted in a dry run.
    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    fn change(&self, change: &Change) {
        if change.item == Change::DELETED {
            self.deleted.fetch_add(1, Ordering::Relaxed);
        }
        self.member.iter().for_each(|member| member.count(change));
        if let Some(printer) = &self.printer {
            return printer.change(change);
        }
        if !self.itemize || self.member.as_ref().is_some_and(|member| !member.shows(change)) {
            return;
        }
        let difference = self.member.as_ref().and_then(|member| member.difference(change));
        difference.iter().for_each(log::record);
        let item = printable(&change.item);
        if self.style == Style::Json {
            return self.event(&Event::Change { item, path: printable_path(change.path.as_bytes()) });
        }
        if difference.is_some_and(|event| log::to_journal_as_output(&event)) {
            return;
        }
        let place = self.member.as_ref().map_or_else(String::new, |member| format!("{}: ", member.name));
        self.bar.suspend(|| output!("{place}{item} {}", shown(change)));
    }

    /// Called when the far end has been reached.
    pub fn connected(&self) {
        self.printer.iter().for_each(|printer| printer.connected());
    }

    /// Prints a line of text on standard error, above the progress bar.
    pub fn line(&self, text: &str) {
        self.bar.suspend(|| print::inform(text));
    }

    /// Prints a step, only with `-v`.
    pub fn detail(&self, text: &str) {
        if self.style == Style::Verbose {
            self.line(&format!("{}: {text}", self.program()));
        }
    }

    /// True if the output has the format of another program, whose messages don't name hosts.
    pub fn looks_like_another(&self) -> bool {
        self.printer.is_some()
    }

    /// Prints an event, if `--json` is given.
    pub fn event(&self, event: &Event) {
        let line = event.of_destination(self.destination());
        match &self.keeper {
            Some(keeper) => serde_json::to_string(&line).into_iter().for_each(|line| keeper.event(line)),
            None => print::json(&line),
        }
    }

    /// Displays the progress of the transfer. Called a few times a second.
    pub fn progress(&self, meters: &Meters, begun: Instant, here: Here) {
        let local = meters.local.progress();
        let remote = *lock(&meters.remote);
        let (sender, receiver) = match here {
            Here::Sender | Here::Both => (local, remote),
            Here::Receiver => (remote, local),
            Here::Neither => (*lock(&meters.source), remote),
        };
        let within = here == Here::Both;
        let seconds = begun.elapsed().as_secs_f64();
        let evidence = Evidence::under_way(sender.stages, receiver.stages, seconds, within);
        let limiter = transfer::name(&evidence);
        let there = meters.local.unchanged.get();
        let came = receiver.stages.bytes.saturating_add(there.bytes);
        // Between two far hosts, only the receiver's totals include files that already existed.
        let came = if here == Here::Neither { came.max(receiver.landed.bytes) } else { came };
        let done = came.min(sender.found.bytes);
        if let Some(printer) = &self.printer {
            return printer.progress(&Done {
                bytes: (done, sender.found.bytes),
                entries: (receiver.landed.entries(), sender.found.entries()),
                seconds,
                scanned: sender.scanned,
                is_last: false,
            });
        }
        let sighting = Sighting {
            seconds,
            bytes: done,
            files: receiver.landed.files,
            found_files: sender.found.files,
            found_bytes: sender.found.bytes,
            scanned: sender.scanned,
            ..Sighting::limited(&limiter)
        };
        match (&self.keeper, self.style) {
            (Some(keeper), _) => keeper.progress(sighting),
            (None, Style::Json) => self.progress_event(sighting),
            (None, Style::Plain | Style::Verbose) if self.member.is_some() => {}
            (None, Style::Plain | Style::Verbose) => self.bar_at(&sighting, &by(&limiter)),
            (None, Style::Quiet) => {}
        }
    }

    /// Displays the progress of a run that another process has kept; `by` names the limiter.
    pub fn show(&self, sighting: Sighting, by: &str) {
        match self.style {
            Style::Json => self.progress_event(sighting),
            Style::Plain | Style::Verbose => self.bar_at(&sighting, by),
            Style::Quiet => {}
        }
    }

    fn progress_event(&self, sighting: Sighting) {
        let mut last = lock(&self.last_event);
        if last.elapsed() < Duration::from_millis(500) {
            return;
        }
        *last = Instant::now();
        self.event(&Event::Progress(sighting));
    }

    fn bar_at(&self, sighting: &Sighting, by: &str) {
        let Sighting { seconds, bytes, files, found_files, found_bytes, scanned, .. } = *sighting;
        self.bar.set_length(found_bytes.max(1));
        self.bar.set_position(bytes);
        let left = found_bytes.saturating_sub(bytes) as f64;
        let eta = match (scanned, bytes) {
            (true, 1..) => show_left(left * seconds / bytes as f64),
            _ => "still scanning".to_owned(),
        };
        self.bar.set_message(format!(
            "{} of {}, {} of {} files, {}, {eta}{by}",
            show_bytes(bytes),
            show_bytes(found_bytes),
            show_count(files),
            show_count(found_files),
            show_rate(bytes, seconds),
        ));
    }

    /// Removes the progress bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints an entry that would be copied (`--dry-run`). `size` is the size that its file system reports.
    pub fn listed(&self, path: &[u8], entry: &Entry, size: u64) {
        if let Some(printer) = &self.printer {
            return printer.listed(path, entry, size);
        }
        let bytes = if let Kind::File { size } = entry.kind { size } else { 0 };
        let (path, kind) = (printable_path(path), entry_name(&entry.kind));
        match self.style {
            Style::Json => self.event(&Event::Entry { path, kind, bytes }),
            Style::Quiet => {}
            Style::Plain | Style::Verbose => output!("{kind:9} {bytes:>14} {path}"),
        }
    }

    /// Prints the totals of `--dry-run`; `further` is the number of bytes of links' texts and of further
    /// names of files.
    pub fn surveyed(&self, found: Totals, further: u64, code: Code) {
        if let Some(printer) = &self.printer {
            printer.end(&Sums { there: found, size: found.bytes + further, ..Sums::default() });
        }
        let text = format!(
            "would copy {}, {}, {}: {}",
            show_counted(found.files, "file", "files"),
            show_counted(found.directories, "directory", "directories"),
            show_counted(found.symlinks, "link", "links"),
            show_bytes(found.bytes)
        );
        log::sum_up(RunFigures { text: text.clone(), numbers: Vec::new() });
        match self.style {
            Style::Json => {
                self.event(&Event::Surveyed { dry_run: true, found: found.into(), exit: code.number() });
            }
            Style::Quiet => {}
            Style::Plain | Style::Verbose if log::takes_result() => {}
            Style::Plain | Style::Verbose => self.line(&text),
        }
    }

    /// Prints the last event of a failed command, if `--json` is given.
    pub fn failed(&self, Failure(message, code): &Failure) {
        self.clear();
        self.losses();
        if self.style == Style::Json {
            self.event(&Event::Failed { message: message.clone(), exit: code.number() });
        }
    }

    /// Prints the last line and the last event.
    pub fn summary(&self, summary: &Summary, code: Code, meters: &Meters) {
        if let Some(member) = &self.member {
            member.keep(summary, summary.fields(&summary.limiter(), code, meters));
            return self.losses();
        }
        self.clear();
        if let Some(printer) = &self.printer {
            let sums = summary.sums();
            let (bytes, entries) = (sums.there.bytes, sums.there.entries());
            printer.progress(&Done {
                bytes: (bytes, bytes),
                entries: (entries, entries),
                seconds: sums.elapsed.as_secs_f64(),
                scanned: true,
                is_last: true,
            });
            printer.end(&sums);
        }
        let limiter = summary.limiter();
        self.metrics.transfer(summary, &limiter);
        self.keeper.iter().for_each(|keeper| keeper.last(summary.text(&limiter), summary.sighting(&limiter)));
        log::sum_up(summary.figures(&limiter, meters));
        match self.style {
            Style::Quiet => {}
            Style::Json => self.event(&summary.event(&limiter, code, meters)),
            Style::Plain | Style::Verbose if log::takes_result() => {}
            Style::Plain | Style::Verbose => message!("{}", summary.text(&limiter)),
        }
        if let Some(count @ 1..) = summary.turned_away {
            let s = if count == 1 { "" } else { "s" };
            self.detail(&format!("{} connection{s} to the data port rejected", show_count(count)));
        }
        let failed = meters.local.failed.load(Ordering::Relaxed).saturating_sub(self.left_out());
        self.lost(failed, meters.local.changed.load(Ordering::Relaxed));
    }

    /// Prints the lines after the last one: the losses, and the numbers of entries that failed or changed.
    pub fn lost(&self, failed: u64, changed: u64) {
        self.losses();
        if failed.saturating_add(changed) > 0 && self.style != Style::Json {
            let entries = if failed == 1 { "entry is" } else { "entries are" };
            message!(
                "{}: {} {entries} missing or incomplete, {} changed during the transfer: see the messages above",
                self.program(),
                show_count(failed),
                show_count(changed)
            );
        }
    }
}

/// A changed entry in rsync's form: the path of a directory ends in a slash, and a link is followed by its
/// target.
fn shown(change: &Change) -> String {
    name(change) + &link(change)
}

fn name(change: &Change) -> String {
    let path = if change.path.is_root() { ".".into() } else { printable_path(change.path.as_bytes()) };
    let slash = if change.directory { "/" } else { "" };
    format!("{path}{slash}")
}

fn link(change: &Change) -> String {
    match &change.link {
        None => String::new(),
        Some(Link::Target(target)) => format!(" -> {}", printable_path(target)),
        Some(Link::SameAs(other)) => format!(" => {}", printable_path(other.as_bytes())),
    }
}

/// The limiter of a run, for the text beside the progress bar.
fn by(limiter: &Verdict) -> String {
    match limiter.limiter {
        Limiter::TooShort => String::new(),
        _ => format!(", {} ({:.0} %)", limiter.clause(), 100.0 * limiter.share),
    }
}

/// The remaining time as text. The far end may send any numbers, so `seconds` may have any value.
fn show_left(seconds: f64) -> String {
    format!("{} left", show_time(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
}
