//! Another program's way to print what a copy does, where a command stands in for that program.

use linerate_wire::control::{Change, Totals};
use std::time::Duration;

/// Prints on standard output what that program prints.
pub trait Look: Send + Sync {
    /// Begins each line on standard error.
    fn program(&self) -> &'static str {
        "linerate"
    }
    /// The line on standard error for what is wrong with the entry at this path.
    fn error(&self, path: &str, message: &str) -> String {
        format!("{}: {path}: {message}", self.program())
    }
    /// Whether it is no error that the entry at this path is left out, for what the message says.
    fn leaves_out(&self, _path: &str, _message: &str) -> bool {
        true
    }
    /// A change of an entry with this name, and with this behind it: where a link leads to.
    fn change(&self, change: &Change, name: &str, link: &str);
    /// An entry that is left out on purpose; its path is as its source was written.
    fn skip(&self, path: &str, message: &str);
    /// How far it is. Called a few times a second.
    fn progress(&self, done: &Done);
    /// The end of a run that went through.
    fn end(&self, sums: &Sums);
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Bytes that are there, and of those that were found.
    pub bytes: (u64, u64),
    /// Entries likewise.
    pub entries: (u64, u64),
    /// Since the beginning.
    pub seconds: f64,
    /// Nothing follows.
    pub is_last: bool,
}

/// The sums of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Everything that is at the destination.
    pub there: Totals,
    /// What was sent of it.
    pub moved: Totals,
    /// Of the whole command.
    pub elapsed: Duration,
    /// True where this end received.
    pub received: bool,
}
