//! Reports problems of single entries, and counts them.

use linerate_wire::control::{Change, Message, Problem, ProblemKind};
use linerate_wire::path::RelPath;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Meters;
use crate::base::problem::Observer;
use crate::net::channel::Channel;
use crate::net::clock::Counters;

/// Reports problems with single entries, and counts them.
#[derive(Clone)]
pub struct Reporter {
    observer: Arc<dyn Observer>,
    counters: Arc<Counters>,
}

impl Reporter {
    /// Reports to `observer`, and counts in this end's `meters`.
    pub fn new(observer: Arc<dyn Observer>, meters: &Meters) -> Self {
        Self { observer, counters: meters.local.clone() }
    }

    /// Reports a problem of this end.
    pub fn problem(&self, problem: Problem) {
        self.count(problem.kind);
        self.observer.problem(problem);
    }

    /// Reports a problem of the far end.
    pub fn far_problem(&self, problem: Problem) {
        self.count(problem.kind);
        self.observer.far_problem(problem);
    }

    /// Counts a problem that was already reported.
    pub fn count(&self, kind: ProblemKind) {
        let counter = match kind {
            ProblemKind::Failed | ProblemKind::Skipped => &self.counters.failed,
            ProblemKind::NotKept => &self.counters.not_kept,
            ProblemKind::Changed => &self.counters.changed,
            ProblemKind::NotDeleted => &self.counters.not_deleted,
            ProblemKind::Noted | ProblemKind::Remark => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports that a file was sent or is in place.
    pub fn moved(&self, path: &RelPath) {
        self.observer.moved(path);
    }

    /// Reports changes of entries.
    pub fn changes(&self, changes: Vec<Change>) {
        self.observer.changes(changes);
    }
}

/// The observer of an agent: sends everything to the client.
pub(super) struct ReportSender(pub Arc<Channel>);

impl Observer for ReportSender {
    fn problem(&self, problem: Problem) {
        // If the client is gone, the wait for its next message reports it.
        let _ = self.0.send(&Message::Problem(problem));
    }

    fn changes(&self, changes: Vec<Change>) {
        // If the client is gone, the wait for its next message reports it.
        let _ = self.0.send(&Message::Changes(changes));
    }

    fn note(&self, _: &str) {}
}

/// An observer that ignores all events.
pub(super) struct Quiet;

impl Observer for Quiet {
    fn problem(&self, _: Problem) {}

    fn changes(&self, _: Vec<Change>) {}

    fn note(&self, _: &str) {}
}
