//! What `cp` says under way and at its end: for people, or as JSON lines.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_doctor::limiter::{Evidence, Limiter, limiter};
use linerate_transfer::problem::Observer;
use linerate_transfer::session::Meters;
use linerate_wire::control::{Problem, ProblemKind, Totals};
use linerate_wire::path::printable;
use linerate_wire::stages::{Stages, Usage};
use serde_json::json;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::exit::Code;
use crate::units::{show_bytes, show_count, show_rate, show_time};

/// The version of the events that `--json` prints; it grows with changes that are not additions.
pub const SCHEMA: u32 = 1;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Nothing but what went wrong with the whole.
    Quiet,
    /// A progress bar on a terminal, problems, and a last line.
    Plain,
    /// Also each step.
    Verbose,
    /// Events on standard output.
    Json,
}

/// Says things.
pub struct Output {
    style: Style,
    bar: ProgressBar,
    last_event: Mutex<Instant>,
}

/// A transfer that went through.
pub struct Summary {
    /// What is in place.
    pub landed: Totals,
    /// From the first data connection to the last word, in seconds.
    pub payload_seconds: f64,
    /// The whole command, in seconds.
    pub elapsed_seconds: f64,
    /// Streams that carried data.
    pub streams: u32,
    /// Whether the data was encrypted.
    pub encrypted: bool,
    /// The sender's stages and process.
    pub sender: (Stages, Usage),
    /// The receiver's stages and process.
    pub receiver: (Stages, Usage),
    /// True where this end sent.
    pub pushed: bool,
    /// What was moved.
    pub kind: Kind,
}

/// What a transfer moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Files and what holds them.
    Files,
    /// Bytes from memory to memory.
    Memory,
}

impl Output {
    /// Output in a style.
    pub fn new(style: Style) -> Self {
        let shown = style == Style::Plain || style == Style::Verbose;
        let bar = if shown && std::io::stderr().is_terminal() {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10))
        } else {
            ProgressBar::hidden()
        };
        let template = ProgressStyle::with_template("{bar:24} {percent:>3}%  {msg}");
        bar.set_style(template.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
        Self { style, bar, last_event: Mutex::new(Instant::now()) }
    }

    /// A line for people on standard error, above the bar.
    pub fn line(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// A step that only `-v` shows.
    pub fn detail(&self, text: &str) {
        if self.style == Style::Verbose {
            self.line(&format!("linerate: {text}"));
        }
    }

    fn event(&self, event: &serde_json::Value) {
        println!("{event}");
    }

    /// Shows how far the transfer is. Called a few times a second.
    pub fn progress(&self, meters: &Meters, begun: Instant, pushed: bool) {
        let local = meters.local.progress();
        let remote = *meters.remote.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, receiver) = if pushed { (local, remote) } else { (remote, local) };
        let seconds = begun.elapsed().as_secs_f64();
        let evidence =
            Evidence { sender: sender.stages, receiver: receiver.stages, seconds, ..Evidence::default() };
        let limiter = limiter(&evidence);
        let done = receiver.stages.bytes.min(sender.found.bytes);
        match self.style {
            Style::Json => {
                self.progress_event(sender.found, sender.scanned, receiver.landed, done, seconds, limiter)
            }
            Style::Plain | Style::Verbose => {
                self.bar_at(sender.found, sender.scanned, receiver.landed, done, limiter, begun)
            }
            Style::Quiet => {}
        }
    }

    fn progress_event(
        &self,
        found: Totals,
        scanned: bool,
        landed: Totals,
        done: u64,
        seconds: f64,
        limiter: Limiter,
    ) {
        let mut last = self.last_event.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < Duration::from_millis(500) {
            return;
        }
        *last = Instant::now();
        self.event(&json!({
            "schema": SCHEMA, "type": "progress", "seconds": seconds, "bytes": done, "files": landed.files,
            "found_files": found.files, "found_bytes": found.bytes, "scanned": scanned,
            "limiter": limiter.name(),
        }));
    }

    fn bar_at(
        &self,
        found: Totals,
        scanned: bool,
        landed: Totals,
        done: u64,
        limiter: Limiter,
        begun: Instant,
    ) {
        let seconds = begun.elapsed().as_secs_f64();
        self.bar.set_length(found.bytes.max(1));
        self.bar.set_position(done);
        let left = found.bytes.saturating_sub(done) as f64;
        let eta = match (scanned, done) {
            (true, 1..) => show_left(left * seconds / done as f64),
            _ => "still scanning".to_owned(),
        };
        let by = if limiter == Limiter::TooShort { String::new() } else { format!(", limited by {limiter}") };
        self.bar.set_message(format!(
            "{} of {}, {} of {} files, {}, {eta}{by}",
            show_bytes(done),
            show_bytes(found.bytes),
            show_count(landed.files),
            show_count(found.files),
            show_rate(done, seconds),
        ));
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// An entry of `--dry-run`.
    pub fn listed(&self, path: &[u8], entry: &linerate_wire::entry::Entry) {
        use linerate_wire::entry::Kind as EntryKind;
        let (kind, size) = match entry.kind {
            EntryKind::File { size } => ("file", size),
            EntryKind::Directory => ("directory", 0),
            EntryKind::Symlink { .. } => ("symlink", 0),
        };
        match self.style {
            Style::Json => self.event(&json!({
                "schema": SCHEMA, "type": "entry", "path": printable(path), "kind": kind, "bytes": size,
            })),
            Style::Quiet => {}
            Style::Plain | Style::Verbose => println!("{kind:9} {size:>14} {}", printable(path)),
        }
    }

    /// The sums of `--dry-run`.
    pub fn surveyed(&self, found: Totals, code: Code) {
        match self.style {
            Style::Json => self.event(&json!({
                "schema": SCHEMA, "type": "summary", "dry_run": true, "files": found.files,
                "directories": found.directories, "symlinks": found.symlinks, "bytes": found.bytes,
                "exit": code as u8,
            })),
            Style::Quiet => {}
            Style::Plain | Style::Verbose => self.line(&format!(
                "would copy {} files, {} directories, {} links: {}",
                show_count(found.files),
                show_count(found.directories),
                show_count(found.symlinks),
                show_bytes(found.bytes)
            )),
        }
    }

    /// The whole failed.
    pub fn failure(&self, message: &str, code: Code) {
        self.clear();
        if self.style == Style::Json {
            self.event(
                &json!({ "schema": SCHEMA, "type": "failed", "message": message, "exit": code as u8 }),
            );
        }
        eprintln!("linerate: {message}");
    }

    /// The last line, and the last event.
    pub fn summary(&self, summary: &Summary, code: Code, meters: &Meters) {
        self.clear();
        let limiter = summary.limiter();
        match self.style {
            Style::Quiet => {}
            Style::Json => self.event(&summary.event(limiter, code, meters)),
            Style::Plain | Style::Verbose => eprintln!("{}", summary.text(limiter)),
        }
        let failed = meters.local.failed.load(Ordering::Relaxed);
        let changed = meters.local.changed.load(Ordering::Relaxed);
        if failed + changed > 0 && self.style != Style::Json {
            eprintln!(
                "linerate: {} entries are not there, {} changed while they were read: see the messages above",
                show_count(failed),
                show_count(changed)
            );
        }
    }
}

/// A far end may tell any numbers.
fn show_left(seconds: f64) -> String {
    format!("{} left", show_time(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
}

impl Observer for Output {
    fn problem(&self, problem: Problem) {
        let path = printable(&problem.path);
        let message = printable(problem.message.as_bytes());
        if self.style == Style::Json {
            let kind = match problem.kind {
                ProblemKind::Failed => "failed",
                ProblemKind::Changed => "changed",
                ProblemKind::Skipped => "skipped",
            };
            self.event(&json!({
                "schema": SCHEMA, "type": "problem", "path": path, "message": message, "kind": kind,
            }));
        } else {
            self.line(&format!("linerate: {path}: {message}"));
        }
    }

    fn note(&self, note: &str) {
        match self.style {
            Style::Json => self.event(&json!({ "schema": SCHEMA, "type": "note", "message": note })),
            Style::Quiet => {}
            Style::Plain | Style::Verbose => self.line(&format!("linerate: {note}")),
        }
    }
}

impl Summary {
    fn limiter(&self) -> Limiter {
        limiter(&Evidence {
            sender: self.sender.0,
            receiver: self.receiver.0,
            sender_usage: Some(self.sender.1),
            receiver_usage: Some(self.receiver.1),
            seconds: self.payload_seconds,
        })
    }

    fn cpu_per_gb(&self, usage: Usage) -> f64 {
        usage.cpu_seconds / (self.landed.bytes.max(1) as f64 * 1e-9)
    }

    fn text(&self, limiter: Limiter) -> String {
        let Totals { files, bytes, .. } = self.landed;
        let cipher = if self.encrypted { "encrypted" } else { "NOT ENCRYPTED" };
        let (here, there) =
            if self.pushed { (self.sender.1, self.receiver.1) } else { (self.receiver.1, self.sender.1) };
        let cpu = if bytes >= 1_000_000 {
            format!("CPU {:.2} s/GB here, {:.2} s/GB there", self.cpu_per_gb(here), self.cpu_per_gb(there))
        } else {
            format!("CPU {:.3} s here, {:.3} s there", here.cpu_seconds, there.cpu_seconds)
        };
        let what = match (self.kind, files) {
            (Kind::Memory, _) => "memory to memory".to_owned(),
            (Kind::Files, 1) => "1 file".to_owned(),
            (Kind::Files, files) => format!("{} files", show_count(files)),
        };
        format!(
            "{what}, {} in {}: {}, {cipher}, {} stream{}; {cpu}; limited by {limiter}",
            show_bytes(bytes),
            show_time(Duration::from_secs_f64(self.payload_seconds)),
            show_rate(bytes, self.payload_seconds),
            self.streams,
            if self.streams == 1 { "" } else { "s" },
        )
    }

    fn event(&self, limiter: Limiter, code: Code, meters: &Meters) -> serde_json::Value {
        let end = |(stages, usage): (Stages, Usage)| {
            json!({
                "cpu_seconds": usage.cpu_seconds, "cpu_seconds_per_gb": self.cpu_per_gb(usage),
                "peak_rss_bytes": usage.peak_rss_bytes, "stages": stages,
            })
        };
        json!({
            "schema": SCHEMA, "type": "summary",
            "files": self.landed.files, "directories": self.landed.directories,
            "symlinks": self.landed.symlinks, "bytes": self.landed.bytes,
            "payload_seconds": self.payload_seconds, "elapsed_seconds": self.elapsed_seconds,
            "gbit_per_second": self.landed.bytes as f64 * 8e-9 / self.payload_seconds.max(1e-9),
            "encrypted": self.encrypted, "cipher": self.encrypted.then_some("aes128-gcm"),
            "streams": self.streams, "limiter": limiter.name(),
            "sender": end(self.sender), "receiver": end(self.receiver),
            "failed": meters.local.failed.load(Ordering::Relaxed),
            "changed": meters.local.changed.load(Ordering::Relaxed), "exit": code as u8,
        })
    }
}
