//! The output of one of several copies that run at the same time: lines that name their destination, a summary, and counts of
//! changes, which are kept.

use linerate_fleet::plan::FleetPart;
use linerate_transfer::lock::lock;
use linerate_wire::control::{Change, Problem, ProblemKind, Totals};
use std::sync::Mutex;

use super::event::CopySummary;
use super::log::LoggedEvent;
use super::summary::Summary;

/// The additions to the output of a copy that is one of several.
pub struct MemberOutput {
    /// The destination or the part of a plan, as lines name it.
    pub name: String,
    /// The same, as events name it.
    pub named: String,
    /// The group of copies to which it belongs.
    pub kind: MemberKind,
    done: Mutex<Option<MemberDone>>,
    changes: Mutex<ChangeCounts>,
    left: Mutex<Vec<Vec<u8>>>,
}

/// The groups of copies that run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// Copies to several destinations.
    Destination,
    /// A plan's parts.
    Part,
    /// A plan's parts, each of which is compared and not changed.
    Compared(FleetPart),
}

/// Entries with an itemized change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// Entries that exist but differ, without directories.
    pub differ: u64,
    /// Those of them that are files with the same contents.
    pub same_contents: u64,
    /// Missing entries, without directories.
    pub missing: u64,
    /// Directories that exist but differ.
    pub differing_directories: u64,
    /// Missing directories.
    pub missing_directories: u64,
}

/// A copy that completed.
pub struct MemberDone {
    /// Its last line.
    pub line: String,
    /// Entries and bytes that are in place.
    pub landed: Totals,
    /// Its last event's fields.
    pub summary: Box<CopySummary>,
}

impl MemberOutput {
    /// The additions for the destination `name`, which was written so.
    pub fn to(name: String, written: String) -> Self {
        Self { named: written, ..Self::new(name, MemberKind::Destination) }
    }

    /// The additions for a plan's part.
    pub fn of_part(part: FleetPart) -> Self {
        Self::new(part.to_string(), MemberKind::Part)
    }

    /// The additions for a plan's part that is compared.
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

    /// Counts a change.
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

    /// False for a change that another part shows: compared shards look at the directories above their files, which the part with
    /// all directories shows once.
    pub fn shows(&self, change: &Change) -> bool {
        let MemberKind::Compared(part) = self.kind else { return true };
        change.directory == (part == FleetPart::Directories)
    }

    /// The difference that a shown change would remove, if this is a comparison.
    pub fn difference(&self, change: &Change) -> Option<LoggedEvent> {
        matches!(self.kind, MemberKind::Compared(_)).then(|| LoggedEvent::of_change(change).at(self))
    }

    /// Keeps the path of a problem if a plan's part leaves that entry out although it is no failure.
    pub fn leave(&self, problem: &Problem) {
        let is_left = matches!(problem.kind, ProblemKind::Changed | ProblemKind::Skipped);
        if is_left && self.kind == MemberKind::Part {
            lock(&self.left).push(problem.path.clone());
        }
    }

    /// Takes the paths of the entries that were left out.
    pub fn left(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut lock(&self.left))
    }

    /// The changes so far.
    pub fn changes(&self) -> ChangeCounts {
        *lock(&self.changes)
    }

    /// Keeps the summary.
    pub fn keep(&self, summary: &Summary, fields: Box<CopySummary>) {
        *lock(&self.done) = Some(MemberDone { line: summary.row(), landed: summary.landed, summary: fields });
    }

    /// Takes the summary; `None` the second time, or if the copy failed.
    pub fn done(&self) -> Option<MemberDone> {
        lock(&self.done).take()
    }
}
