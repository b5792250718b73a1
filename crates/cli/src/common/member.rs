//! The output of one of several copies that run at the same time. Its lines contain the destination; its
//! summary and counts of changes are kept.

use linerate_fleet::plan::FleetPart;
use linerate_transfer::lock::lock;
use linerate_wire::control::{Change, Problem, ProblemKind, Totals};
use std::sync::Mutex;

use super::event::CopySummary;
use super::log::LoggedEvent;
use super::summary::Summary;

/// Additional data for the output of a copy that is one of several.
pub struct MemberOutput {
    /// The destination, or the part of a plan, as lines name it.
    pub name: String,
    /// The destination, or the part of a plan, as events name it.
    pub named: String,
    /// The kind of group to which the copy belongs.
    pub kind: MemberKind,
    done: Mutex<Option<MemberDone>>,
    changes: Mutex<ChangeCounts>,
    left: Mutex<Vec<Vec<u8>>>,
}

/// A kind of group of copies that run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// The copies go to several destinations.
    Destination,
    /// The copies are the parts of a plan.
    Part,
    /// The comparisons are the parts of a plan; nothing is changed.
    Compared(FleetPart),
}

/// The numbers of entries with an itemized change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// The number of existing entries that differ, without directories.
    pub differ: u64,
    /// The number of existing entries that differ, but are files with the same contents.
    pub same_contents: u64,
    /// The number of missing entries, without directories.
    pub missing: u64,
    /// The number of existing directories that differ.
    pub differing_directories: u64,
    /// The number of missing directories.
    pub missing_directories: u64,
}

/// The result of a copy that succeeded.
pub struct MemberDone {
    /// The last line of the copy's output.
    pub line: String,
    /// The entries and bytes that are in place.
    pub landed: Totals,
    /// The fields of the copy's last event.
    pub summary: Box<CopySummary>,
}

impl MemberOutput {
    /// For the copy to the destination `name`, which the user wrote as `written`.
    pub fn to(name: String, written: String) -> Self {
        Self { named: written, ..Self::new(name, MemberKind::Destination) }
    }

    /// For the copy of a plan's part.
    pub fn of_part(part: FleetPart) -> Self {
        Self::new(part.to_string(), MemberKind::Part)
    }

    /// For the comparison of a plan's part.
    pub fn of_compared(part: FleetPart) -> Self {
        Self::new(part.to_string(), MemberKind::Compared(part))
    }

    fn new(name: String, kind: MemberKind) -> Self {
        Self {
            named: name.clone(),
            name,
            kind,
            done: Mutex::default(),
            changes: Mutex::default(),
            left: Mutex::default(),
        }
    }

    /// Counts a change of an entry.
    pub fn count(&self, change: &Change) {
        let mut counts = lock(&self.changes);
        let count = match (change.directory, change.item[2] == b'+') {
            (false, false) => &mut counts.differ,
            (false, true) => &mut counts.missing,
            (true, false) => &mut counts.differing_directories,
            (true, true) => &mut counts.missing_directories,
        };
        *count += 1;
        counts.same_contents += u64::from(change.item.starts_with(b".f"));
    }

    /// False for a change that another part shows. Shards that are compared also examine the directories
    /// above their files, but these are shown only by the part with all directories.
    pub fn shows(&self, change: &Change) -> bool {
        let MemberKind::Compared(part) = self.kind else { return true };
        change.directory == (part == FleetPart::Directories)
    }

    /// The difference that a shown change would remove, if this is a comparison.
    pub fn difference(&self, change: &Change) -> Option<LoggedEvent> {
        matches!(self.kind, MemberKind::Compared(_)).then(|| LoggedEvent::of_change(change).at(self))
    }

    /// Keeps the path of an entry that a plan's part leaves out although that isn't a failure: the entry has changed,
    /// or was skipped.
    pub fn leave(&self, problem: &Problem) {
        let is_left = matches!(problem.kind, ProblemKind::Changed | ProblemKind::Skipped);
        if is_left && self.kind == MemberKind::Part {
            lock(&self.left).push(problem.path.clone());
        }
    }

    /// Removes and returns the paths of the entries that were left out.
    pub fn left(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut lock(&self.left))
    }

    /// The counts of changes so far.
    pub fn changes(&self) -> ChangeCounts {
        *lock(&self.changes)
    }

    /// Keeps the summary of the copy.
    pub fn keep(&self, summary: &Summary, fields: Box<CopySummary>) {
        *lock(&self.done) = Some(MemberDone { line: summary.row(), landed: summary.landed, summary: fields });
    }

    /// Removes and returns the summary; `None` on the second call, or if the copy failed.
    pub fn done(&self) -> Option<MemberDone> {
        lock(&self.done).take()
    }
}
