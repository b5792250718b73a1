//! Logs the events of a run. `--log-file FILE` appends one line for each event to a file. If standard error is
//! connected to systemd's journal, the journal gets the lines for standard error as entries with fields.
//! docs/formats.md specifies both logs.

mod event;
mod file;
mod systemd;

use clap::Args;
use linerate_sys::replace::is_descriptor;
use linerate_transfer::lock::lock;
use linerate_transfer::own_files;
use linerate_wire::path::{printable, printable_path};
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::common::failure::Failure;
use crate::common::output::Style;
use crate::common::spared::ADVICE;
use crate::exit::Code;
use crate::print::{LineWeight, aside_to};
use crate::units::named_file;
pub use event::{LoggedEvent, LoggedKind, LoggedPriority, quoted};
pub use file::LineFile;
use systemd::JournalSocket;

/// The largest number of sources that an entry in the journal names, and the largest number of destinations.
const MOST_NAMED: usize = 32;

/// The largest number of bytes at the beginning of a file that are read to recognise it as a log.
const BEGINNING: usize = 64;

/// The log of the run of this process.
static CURRENT: OnceLock<RunLog> = OnceLock::new();

/// The option `--log-file`.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Append the run's events to FILE, one on each line
    ///
    /// The events are the start, each problem with its path, notes, and the end with the exit code, files, bytes,
    /// seconds and rate. Each line begins with the time and the process ID. -q and --json don't change the log.
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    pub log_file: Option<PathBuf>,
}

/// The command, sources and destinations of a run.
#[derive(Debug)]
pub struct RunNames {
    /// The name of the command.
    pub command: String,
    /// The sources as the user wrote them.
    pub sources: Vec<OsString>,
    /// The destinations as the user wrote them.
    pub destinations: Vec<OsString>,
    /// The style of the output.
    pub style: Style,
    /// True if the run changes nothing (a dry run).
    pub is_dry_run: bool,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct RunFigures {
    /// The result as a sentence.
    pub text: String,
    /// Numbers of the result, with their names.
    pub numbers: Vec<(&'static str, u64)>,
}

/// The log of a run.
struct RunLog {
    file: Option<LoggedFile>,
    journal: Option<JournalSocket>,
    names: RunNames,
    begun: Instant,
    figures: Mutex<RunFigures>,
    is_ended: AtomicBool,
}

struct LoggedFile {
    lines: Mutex<LineFile>,
    shown: String,
    is_faulty: AtomicBool,
}

impl RunNames {
    /// The names of a run whose output has this style.
    pub fn new(command: &str, sources: Vec<OsString>, destinations: Vec<OsString>, style: Style) -> Self {
        Self { command: command.to_owned(), sources, destinations, style, is_dry_run: false }
    }

    /// Sets whether this is a dry run.
    pub fn dry(self, is_dry_run: bool) -> Self {
        Self { is_dry_run, ..self }
    }

    /// True if only errors are printed on standard error.
    fn is_quiet(&self) -> bool {
        matches!(self.style, Style::Quiet | Style::Json)
    }
}

/// Begins the log of the run of this process: in `file`, if one is given, and in the journal, if standard
/// error is connected to it.
///
/// # Errors
/// A usage error if the file can't be written to.
pub fn begin(file: Option<&Path>, names: RunNames) -> Result<(), Failure> {
    let file = file.map(LoggedFile::open).transpose()?;
    let journal = JournalSocket::of_stderr();
    if file.is_some() || journal.is_some() {
        let (begun, figures, is_ended) = (Instant::now(), Mutex::default(), AtomicBool::new(false));
        let log = RunLog { file, journal, names, begun, figures, is_ended };
        // A process has only one run, so this is set only once.
        let log = CURRENT.get_or_init(|| log);
        if log.journal.is_some() {
            aside_to(report);
        }
        log.start();
    }
    Ok(())
}

/// Protects a log from being deleted or replaced by its own run. If the log's name is a link, the link's target
/// is protected too.
pub fn keep_own(file: &Path) {
    let there = file.canonicalize().ok();
    for file in [Some(file), there.as_deref()].into_iter().flatten() {
        // If another option names the same file, the file is protected already.
        let _ = own_files::keep(file, "--log-file");
    }
}

/// True if events are logged to a file.
pub fn has_file() -> bool {
    CURRENT.get().is_some_and(|log| log.file.is_some())
}

/// Writes an event to the log file, if there is one.
pub fn record(event: &LoggedEvent) {
    if let Some(file) = CURRENT.get().and_then(|log| log.file.as_ref()) {
        file.write(event.kind, &event.line);
    }
}

/// Sends an event to the journal in place of a line on standard error; false if there is no journal.
pub fn to_journal(event: &LoggedEvent) -> bool {
    CURRENT.get().is_some_and(|log| log.send(event))
}

/// Sends an event to the journal in place of a line on standard output; false if standard output doesn't go
/// to the journal.
pub fn to_journal_as_output(event: &LoggedEvent) -> bool {
    let goes_there = |log: &&RunLog| log.journal.as_ref().is_some_and(|journal| journal.has_stdout);
    CURRENT.get().filter(goes_there).is_some_and(|log| log.send(event))
}

/// Sends a line to the journal instead of printing it on standard error; false if there is no journal.
fn report(text: &str, weight: LineWeight) -> bool {
    let Some(log) = CURRENT.get().filter(|log| log.journal.is_some()) else { return false };
    // The program's name is in a field of the journal, so it is removed from the text.
    let text = text.strip_prefix("linerate: ").unwrap_or(text);
    let priority = match weight {
        LineWeight::Warning => LoggedPriority::Warning,
        LineWeight::Information => LoggedPriority::Info,
    };
    log.send(&LoggedEvent::plain(LoggedKind::Note, priority, text))
}

/// Stores the run's result, which is written when the run ends.
pub fn sum_up(figures: RunFigures) {
    if let Some(log) = CURRENT.get() {
        *lock(&log.figures) = figures;
    }
}

/// True if the journal gets the text of the result when the run ends, so that the text isn't printed.
pub fn takes_result() -> bool {
    CURRENT.get().is_some_and(|log| log.journal.is_some() && !log.names.is_quiet())
}

/// Ends the log of a run. If there is a `message`, the run has failed as a whole.
pub fn end(message: Option<&str>, code: Code) {
    let Some(log) = CURRENT.get().filter(|log| !log.is_ended.swap(true, Ordering::Relaxed)) else { return };
    if let Some(file) = &log.file {
        log.end_file(file, message, code);
    }
    // `main` prints the message of a failure, or sends the message to the journal instead.
    if message.is_none() && (!log.names.is_quiet() || code.number() != 0) && !log.end_journal(None, code) {
        log.print_result();
    }
}

/// Sends the end of a failed run to the journal; false if there is no journal.
pub fn report_failure(message: &str, code: Code) -> bool {
    CURRENT.get().is_some_and(|log| log.end_journal(Some(message), code))
}

impl RunLog {
    fn start(&self) {
        let names = |names: &[OsString]| {
            names.iter().map(|name| quoted(&printable_path(name.as_bytes()))).collect::<Vec<_>>().join(" ")
        };
        let RunNames { command, sources, destinations, .. } = &self.names;
        let mut line = format!("linerate {} {command} {}", env!("CARGO_PKG_VERSION"), names(sources));
        if !destinations.is_empty() {
            line += &format!(" -> {}", names(destinations));
        }
        let event = LoggedEvent::plain(LoggedKind::Start, LoggedPriority::Info, &line);
        self.file.iter().for_each(|file| file.write(event.kind, &event.line));
        if !self.names.is_quiet() {
            self.send(&event);
        }
    }

    fn end_file(&self, file: &LoggedFile, message: Option<&str>, code: Code) {
        let figures = lock(&self.figures);
        match message {
            Some(message) => file.write(LoggedKind::Error, message),
            None if figures.text.is_empty() => {}
            None => file.write(LoggedKind::Summary, &figures.text),
        }
        let mut line = format!("exit_code={}", code.number());
        if self.names.is_dry_run {
            line += " dry_run=1";
        }
        let numbers = figures.numbers.iter().map(|(name, number)| format!(" {name}={number}"));
        line.extend(numbers.chain([format!(" seconds={:.3}", self.seconds())]));
        file.write(LoggedKind::End, &line);
    }

    fn end_journal(&self, message: Option<&str>, code: Code) -> bool {
        let figures = lock(&self.figures);
        let text = match message {
            Some(message) => message.to_owned(),
            None if figures.text.is_empty() => format!("exit code {}", code.number()),
            None => figures.text.clone(),
        };
        let mut event = LoggedEvent::plain(LoggedKind::End, LoggedPriority::of_code(code), &text);
        event.fields = vec![
            ("LINERATE_EXIT_CODE".into(), code.number().to_string()),
            ("LINERATE_SECONDS".into(), format!("{:.3}", self.seconds())),
        ];
        if self.names.is_dry_run {
            event.fields.push(("LINERATE_DRY_RUN".into(), "1".into()));
        }
        let field = |name: &str| format!("LINERATE_{}", name.to_ascii_uppercase()).into();
        event.fields.extend(figures.numbers.iter().map(|(name, number)| (field(name), number.to_string())));
        self.send(&event)
    }

    /// Prints the result that was kept for the journal, if the journal doesn't accept it.
    fn print_result(&self) {
        let text = lock(&self.figures).text.clone();
        if self.journal.is_some() && !self.names.is_quiet() && !text.is_empty() {
            message!("{text}");
        }
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn send(&self, event: &LoggedEvent) -> bool {
        let Some(journal) = &self.journal else { return false };
        let priority = (event.priority as u8).to_string();
        let mut fields = vec![
            ("MESSAGE", &*event.message),
            ("PRIORITY", &*priority),
            ("SYSLOG_IDENTIFIER", "linerate"),
            ("LINERATE_EVENT", event.kind.name()),
            ("LINERATE_VERSION", env!("CARGO_PKG_VERSION")),
            ("LINERATE_COMMAND", &*self.names.command),
        ];
        fields.extend(event.kind.message_id().map(|id| ("MESSAGE_ID", id)));
        fields.extend(event.fields.iter().map(|(name, value)| (&**name, &**value)));
        let shown = |names: &[OsString]| {
            names.iter().take(MOST_NAMED).map(|name| printable_path(name.as_bytes())).collect::<Vec<_>>()
        };
        let (sources, destinations) = (shown(&self.names.sources), shown(&self.names.destinations));
        fields.extend(sources.iter().map(|source| ("LINERATE_SOURCE", &**source)));
        // An event of one of several destinations names that destination.
        if !fields.iter().any(|(name, _)| *name == "LINERATE_DESTINATION") {
            fields.extend(destinations.iter().map(|name| ("LINERATE_DESTINATION", &**name)));
        }
        journal.send(fields)
    }
}

impl LoggedFile {
    fn open(path: &Path) -> Result<Self, Failure> {
        let shown = printable(path.as_os_str().as_bytes());
        let refused = |why: &str| Failure::usage(format!("--log-file {shown} {why}; nothing was done"));
        let lines = opened(path).map_err(|why| refused(&format!("can't be opened: {why}")))?;
        if !is_descriptor(path) && lines.beginning(BEGINNING).is_some_and(|bytes| !begins_log(&bytes)) {
            return Err(refused(&format!("isn't a log of linerate, so nothing is appended to it: {ADVICE}")));
        }
        keep_own(path);
        Ok(Self { lines: Mutex::new(lines), shown, is_faulty: AtomicBool::new(false) })
    }

    /// Writes a line to the file. `text` contains no newline.
    fn write(&self, kind: LoggedKind, text: &str) {
        let (kind, text) = (kind.name(), printable(text.as_bytes()));
        let line = format!("{} [{}] {kind}: {text}\n", now(), std::process::id());
        let written = lock(&self.lines).write(line.as_bytes());
        if let Err(error) = written
            && !self.is_faulty.swap(true, Ordering::Relaxed)
        {
            message!(
                "linerate: --log-file {} can't be written, so the log lacks at least this event: {error}; the run continues",
                self.shown
            );
        }
    }
}

fn opened(path: &Path) -> Result<LineFile, String> {
    const FIFO: &str = "it is a fifo, and the run would have to wait for a reader";
    let lines = LineFile::open(path).map_err(|error| match path.metadata() {
        Ok(there) if there.file_type().is_fifo() => FIFO.to_owned(),
        _ => error.to_string(),
    })?;
    let opened = lines.file().metadata().map_err(|error| error.to_string())?.file_type();
    match opened {
        _ if opened.is_fifo() && !is_descriptor(path) => Err(FIFO.into()),
        _ if opened.is_block_device() => Err("it is a disk (a block device)".into()),
        _ => Ok(lines),
    }
}

/// True if `beginning` is the beginning of a log: its first line has the form that [`LoggedFile::write`]
/// writes, or was cut off within its time because the disk was full. An empty file counts as a log.
fn begins_log(beginning: &[u8]) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000Z [0";
    const DATE: usize = 11;
    let line = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_formed = FORM.iter().zip(line).all(|(form, byte)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    });
    let rest = line.get(FORM.len()..).unwrap_or_default();
    let event = rest.iter().position(|byte| !byte.is_ascii_digit()).map_or(&[][..], |end| &rest[end..]);
    beginning.is_empty() || is_formed && line.len() > DATE && (event.is_empty() || event.starts_with(b"] "))
}

/// The current time in UTC with milliseconds (RFC 3339).
fn now() -> String {
    let mut shown = String::new();
    // humantime panics for a time before 1970, and fails for a time after the year 9999.
    let time = SystemTime::now().max(UNIX_EPOCH);
    if write!(shown, "{}", humantime::format_rfc3339_millis(time)).is_err() {
        shown = "9999-12-31T23:59:59.999Z".into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::begins_log;

    #[test]
    fn a_log_is_known_by_its_first_line() {
        let line = "2026-11-26T04:40:50.965Z [6819] start: linerate 0.1.0 sync \"a\" -> \"b\"\n";
        // A full disk may cut the line off at any place.
        for whole in [line, "", &line[..12], &line[..24], &line[..29], &line[..33]] {
            assert!(begins_log(whole.as_bytes()), "{whole:?}");
        }
        for other in [
            "\n",
            "2026",
            "2026-11-26\n",
            "2026-11-26 04:40:50.965Z [6819] x",
            "2026-11-26T04:40:50Z [6819] start: x",
            "2026-11-26T04:40:50.965Z start: x",
            "2026-11-26T04:40:50.965Z [6819]: x",
            "2026/11/26 04:40:50 [6819] building file list",
            "{\"schema\":1}",
            &format!("text\n{line}"),
        ] {
            assert!(!begins_log(other.as_bytes()), "{other:?}");
        }
    }
}
