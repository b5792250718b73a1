//! Output in scp's format: a progress meter on a terminal, and a line for each error.

use linerate_quantity::Bytes;
use linerate_wire::control::Change;
use linerate_wire::path::printable;
use std::io::{IsTerminal, Write};

use super::place::SourcePlace;
use crate::common::printer::{Done, Printer, Sums};

/// Prints the events of a copy in scp's format.
pub struct ScpPrinter {
    /// The sources, as messages name them.
    sources: Vec<String>,
    /// The name that the progress meter shows; `None` if the meter is off.
    meter: Option<String>,
}

impl ScpPrinter {
    /// Output for one copy of these sources. The meter is off if `quiet` is set, or if standard output is no
    /// terminal.
    pub fn new(sources: &[SourcePlace], quiet: bool) -> Self {
        let shown = |bytes: &[u8]| printable(bytes);
        let name = match sources {
            [one] => shown(one.name()),
            several => format!("{} sources", several.len()),
        };
        Self {
            sources: sources.iter().map(|source| shown(&source.path)).collect(),
            meter: (!quiet && std::io::stdout().is_terminal()).then_some(name),
        }
    }
}

impl Printer for ScpPrinter {
    fn program(&self) -> &'static str {
        "scp"
    }

    fn error(&self, path: &str, message: &str) -> Option<String> {
        Some(format!("scp: {path}: {}", in_scps_words(message)))
    }

    /// Whether `path` is an entry below a source that isn't a regular file. scp leaves such an entry out,
    /// with a message; for a source itself it reports an error.
    fn leaves_out(&self, path: &str, message: &str) -> bool {
        !message.starts_with("is a directory") && !self.sources.iter().any(|source| source == path)
    }

    fn change(&self, _: &Change) {}

    fn skip(&self, path: &str, _: &str) {
        message!("scp: {path}: {NO_FILE}");
    }

    fn progress(&self, done: &Done) {
        let Some(name) = &self.meter else { return };
        let mut out = std::io::stdout().lock();
        let end = if done.is_last { "\n" } else { "" };
        // A failure to print the progress doesn't stop the copy.
        let _ = write!(out, "\r{}{end}", meter(name, done)).and_then(|()| out.flush());
    }

    fn end(&self, _: &Sums) {}
}

const NO_FILE: &str = "not a regular file";

/// The reason of an error without further text, in scp's words, because scripts search for them: for example
/// `No such file or directory`.
fn in_scps_words(message: &str) -> &str {
    if message.starts_with("is a directory") || message.ends_with("; not copied") {
        return NO_FILE;
    }
    let reason = message.strip_prefix("can't be opened: ").unwrap_or(message);
    reason.split(" (os error").next().unwrap_or(reason)
}

/// A line of the progress meter, for example `name   45%  1.20 GB  980.50 MB/s   00:12 ETA`.
fn meter(name: &str, done: &Done) -> String {
    let (bytes, total) = done.bytes;
    let percent = (bytes.saturating_mul(100)).checked_div(total).unwrap_or(100).min(100);
    let rate = bytes as f64 / done.seconds.max(1e-3);
    let left = if done.is_last { done.seconds } else { total.saturating_sub(bytes) as f64 / rate.max(1.0) };
    let (left, eta) = (left as u64, if done.is_last { "    " } else { " ETA" });
    let (bytes, rate) = (Bytes::of(bytes).to_string(), Bytes::of(rate as u64).to_string());
    let clock = format!("{:02}:{:02}", left / 60, left % 60);
    format!("{name:<36.36} {percent:>3}% {bytes:>9} {rate:>9}/s {clock}{eta}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn the_meter_shows_how_far_it_is() {
        let done = Done { bytes: (500, 1000), entries: (0, 1), seconds: 0.5, scanned: true, is_last: false };
        let line = meter("file", &done);
        assert!(
            line.starts_with("file  ") && line.contains("  50% ") && line.ends_with("00:00 ETA"),
            "{line}"
        );
        assert!(meter("file", &Done { is_last: true, ..done }).ends_with("00:00    "));
    }

    #[test]
    fn errors_are_scps_where_it_has_them() {
        for (message, words) in [
            ("can't be opened: No such file or directory (os error 2)", "No such file or directory"),
            ("is a directory; not copied without -r", "not a regular file"),
            ("is a fifo; not copied", "not a regular file"),
            ("vanished while the tree was read", "vanished while the tree was read"),
        ] {
            assert_eq!(in_scps_words(message), words);
        }
    }

    #[test]
    fn a_source_that_is_no_file_is_an_error_and_one_in_a_tree_is_left_out() {
        let sources = [SourcePlace::parse(OsStr::new("h:/tree")).unwrap()];
        let printer = ScpPrinter::new(&sources, true);
        assert!(!printer.leaves_out("/tree/match", "is a directory; not copied without -r"));
        assert!(printer.leaves_out("/tree/fifo", "is a fifo") && !printer.leaves_out("/tree", "is a fifo"));
    }
}
