//! The output of one of several copies that run at the same time: lines that name their destination, and a summary that is kept.

use linerate_transfer::lock::lock;
use linerate_wire::control::Totals;
use std::sync::Mutex;

use super::event::CopySummary;
use super::summary::Summary;

/// The additions to the output of a copy that is one of several.
pub struct MemberOutput {
    /// The destination, as lines and events name it.
    pub name: String,
    done: Mutex<Option<MemberDone>>,
}

/// A copy that went through.
pub struct MemberDone {
    /// Its last line.
    pub line: String,
    /// Entries and bytes that are in place.
    pub landed: Totals,
    /// Its last event's fields.
    pub summary: Box<CopySummary>,
}

impl MemberOutput {
    /// The additions for the destination `name`.
    pub fn new(name: String) -> Self {
        Self { name, done: Mutex::default() }
    }

    /// Keeps the summary.
    pub fn keep(&self, summary: &Summary, fields: Box<CopySummary>) {
        *lock(&self.done) = Some(MemberDone { line: summary.row(), landed: summary.landed, summary: fields });
    }

    /// The summary, which can be had once; none if the copy failed.
    pub fn done(&self) -> Option<MemberDone> {
        lock(&self.done).take()
    }
}
