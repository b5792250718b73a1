//! The output of a command that stands in for another program, in that program's format.

use linerate_wire::control::{Change, Totals};
use linerate_wire::entry::Entry;
use linerate_wire::path::printable_path;
use std::sync::Arc;
use std::time::Duration;

/// Prints on standard output what the program would print in whose place this command runs.
pub trait Look: Send + Sync {
    /// The name that begins each line on standard error.
    fn program(&self) -> &'static str {
        "linerate"
    }
    /// The line on standard error for a problem with the entry at this path.
    fn error(&self, path: &str, message: &str) -> String {
        format!("{}: {path}: {message}", self.program())
    }
    /// True if the entry at this path is left out on purpose, for the reason in the message: then it is no
    /// error.
    fn leaves_out(&self, _path: &str, _message: &str) -> bool {
        true
    }
    /// The far end has been reached.
    fn connected(&self) {}
    /// A path as text that is safe on a terminal.
    fn shown(&self, name: &[u8]) -> String {
        printable_path(name)
    }
    /// A change of an entry.
    fn change(&self, change: &Change);
    /// An entry of a list; its path is as its source was written, raw bytes.
    fn listed(&self, _path: &[u8], _entry: &Entry, _size: u64) {}
    /// An entry that is left out on purpose; its path is as its source was written.
    fn skip(&self, path: &str, message: &str);
    /// Something that was done with an entry, in the words of the end that did it.
    fn remark(&self, _message: &str) {}
    /// The progress of the run. Called a few times a second.
    fn progress(&self, done: &Done);
    /// The end of a run that completed.
    fn end(&self, sums: &Sums);
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Bytes in place, and bytes found.
    pub bytes: (u64, u64),
    /// Entries in place, and entries found.
    pub entries: (u64, u64),
    /// Seconds since the beginning.
    pub seconds: f64,
    /// The scan is over.
    pub scanned: bool,
    /// This is the last report.
    pub is_last: bool,
}

/// The sums of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Everything that is at the destination.
    pub there: Totals,
    /// Bytes of all that, with those of links' texts and of each name of a file.
    pub size: u64,
    /// The part of it that was sent.
    pub moved: Totals,
    /// Bytes of changed files that the destination already had.
    pub matched: u64,
    /// Bytes that the data connections carried for it.
    pub wire: u64,
    /// The time that the whole command took.
    pub elapsed: Duration,
    /// True if this end received.
    pub received: bool,
}

impl<T: Look + ?Sized> Look for Arc<T> {
    fn program(&self) -> &'static str {
        (**self).program()
    }

    fn error(&self, path: &str, message: &str) -> String {
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
