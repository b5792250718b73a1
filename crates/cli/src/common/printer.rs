//! Output in the format of another program, for commands that take the place of that program.

use linerate_wire::control::{Change, Totals};
use linerate_wire::entry::Entry;
use linerate_wire::path::printable_path;
use std::sync::Arc;
use std::time::Duration;

/// Prints on standard output the lines that the other program (rsync or scp) would print.
pub trait Printer: Send + Sync {
    /// The program's name, which begins each line on standard error.
    fn program(&self) -> &'static str {
        "linerate"
    }
    /// The line for standard error about a problem with the entry at this path; `None` if it was printed already.
    fn error(&self, path: &str, message: &str) -> Option<String> {
        Some(format!("{}: {path}: {message}", self.program()))
    }
    /// True if the entry at this path is left out on purpose, according to the message, so that it isn't an
    /// error.
    fn leaves_out(&self, _path: &str, _message: &str) -> bool {
        true
    }
    /// Called when the far end has been reached.
    fn connected(&self) {}
    /// Converts a path to text that is safe on a terminal.
    fn shown(&self, name: &[u8]) -> String {
        printable_path(name)
    }
    /// Prints a change of an entry.
    fn change(&self, change: &Change);
    /// Called for a change of a file that was not sent, which isn't printed.
    fn not_sent(&self, _change: &Change) {}
    /// Prints an entry of a list. Its path begins as its source was written, and consists of raw bytes.
    fn listed(&self, _path: &[u8], _entry: &Entry, _size: u64) {}
    /// Prints that an entry is left out on purpose. Its path begins as its source was written.
    fn skip(&self, path: &str, message: &str);
    /// Prints a remark about what was done with an entry, in the words of the end that did it.
    fn remark(&self, _message: &str) {}
    /// Prints the progress of the run. Called a few times a second.
    fn progress(&self, done: &Done);
    /// Prints the end of a run that succeeded.
    fn end(&self, sums: &Sums);
}

/// The progress of a run at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The bytes in place, and the bytes found.
    pub bytes: (u64, u64),
    /// The number of entries in place, and of entries found.
    pub entries: (u64, u64),
    /// Seconds since the beginning of the run.
    pub seconds: f64,
    /// True once the scan is complete.
    pub scanned: bool,
    /// True for the last report.
    pub is_last: bool,
}

/// The totals of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// All entries that the sender has found; without problems, they are all at the destination.
    pub there: Totals,
    /// The bytes of all these entries, including the texts of links, and counting a file once for each name.
    pub size: u64,
    /// The entries that were sent.
    pub moved: Totals,
    /// The bytes of changed files that the destination already had.
    pub matched: u64,
    /// The bytes that the data connections carried.
    pub wire: u64,
    /// The duration of the whole command.
    pub elapsed: Duration,
    /// True if this end received.
    pub received: bool,
}

impl<T: Printer + ?Sized> Printer for Arc<T> {
    fn program(&self) -> &'static str {
        (**self).program()
    }

    fn error(&self, path: &str, message: &str) -> Option<String> {
        (**self).error(path, message)
    }

    fn leaves_out(&self, path: &str, message: &str) -> bool {
        (**self).leaves_out(path, message)
    }

    fn connected(&self) {
        (**self).connected();
    }

    fn shown(&self, name: &[u8]) -> String {
        (**self).shown(name)
    }

    fn change(&self, change: &Change) {
        (**self).change(change);
    }

    fn not_sent(&self, change: &Change) {
        (**self).not_sent(change);
    }

    fn listed(&self, path: &[u8], entry: &Entry, size: u64) {
        (**self).listed(path, entry, size);
    }

    fn skip(&self, path: &str, message: &str) {
        (**self).skip(path, message);
    }

    fn remark(&self, message: &str) {
        (**self).remark(message);
    }

    fn progress(&self, done: &Done) {
        (**self).progress(done);
    }

    fn end(&self, sums: &Sums) {
        (**self).end(sums);
    }
}
