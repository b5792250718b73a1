//! Starts the scan of the sources before the far end is connected: while ssh logs in, the scan finds
//! thousands of files.

use crossbeam_channel::{Receiver, bounded};
use linerate_wire::control::{Options, Problem, ProblemKind};
use linerate_wire::entry::{Entry, Kind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::net::clock::Counters;
use crate::send::plan::extra_size;
use crate::send::sender::{FoundSources, Selection};
use crate::tree::scan::{Scanner, Seen, Stopped, Taker};

/// The most entries in one group that the scan passes on. `CONTENTS` and `ATTRIBUTES` limit the group's bytes
/// of file contents and of attributes.
const ENTRIES: usize = 256;
const CONTENTS: u64 = 4 << 20;
const ATTRIBUTES: u64 = 256 << 10;
/// The number of groups that may wait before the scan waits too. A scan finds about this number of groups during a
/// login of a few tenths of a second; the groups take about twenty megabytes of memory.
pub(super) const WAITING: usize = 256;

/// A group of entries that the scan passes on together.
pub(super) type Gathered = Vec<(Entry, Seen)>;

/// The entries of a scan that is already running.
pub struct Ahead<'a> {
    pub(super) found: Receiver<Gathered>,
    /// The selection with which the scan runs, for a second walk.
    pub selection: &'a Selection,
    /// Receives problems with entries, both from the scan and from the sender.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// False if a source wasn't found, or once a problem was reported: then the scan may not have found all existing
    /// entries.
    pub whole: &'a AtomicBool,
    /// Ends the scan, and the steps after it, early.
    pub stop: &'a AtomicBool,
}

/// Runs `work` while the scan walks the sources.
pub fn scan_ahead<T>(
    sources: &FoundSources,
    options: &Options,
    selection: &Selection,
    counters: &Counters,
    problem: &(dyn Fn(Problem) + Sync),
    work: impl FnOnce(Ahead<'_>) -> T,
) -> T {
    let (queue, found) = bounded(WAITING);
    let (stop, whole) = (AtomicBool::new(false), AtomicBool::new(sources.are_whole));
    let report = reported(&whole, selection, problem);
    // The closure owns the queue's sender, so the queue is closed when the scan ends.
    let gathering = Gathering::new(move |found| queue.send(found).map_err(|_| Stopped));
    thread::scope(|scope| {
        scope.spawn(|| {
            let scanner = Scanner {
                sources,
                found: &counters.found,
                problem: &report,
                keep: options.keep,
                stop: &stop,
                selection,
            };
            scanner.run(gathering);
            counters.scanned.store(true, Ordering::Release);
        });
        let done = work(Ahead { found, selection, problem: &report, whole: &whole, stop: &stop });
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// A function that reports a problem, and records that the scan may not have found everything.
pub(super) fn reported<'a>(
    whole: &'a AtomicBool,
    selection: &'a Selection,
    problem: &'a (dyn Fn(Problem) + Sync),
) -> impl Fn(Problem) + Sync + 'a {
    |reported: Problem| {
        // Skipped entries don't count if the receiver gets their names too, as with sync.
        if !matches!(reported.kind, ProblemKind::Skipped | ProblemKind::Remark) || !selection.names_skipped {
            whole.store(false, Ordering::Release);
        }
        problem(reported);
    }
}

impl Ahead<'_> {
    /// Passes all entries to `taker` as they are found.
    pub fn hand_on(self, mut taker: impl Taker) {
        for (entry, seen) in self.found.into_iter().flatten() {
            if taker.take(entry, seen).is_err() {
                return;
            }
        }
        let _ = taker.finish();
    }
}

/// Collects the entries that the scan finds, and passes them on in groups.
pub(super) struct Gathering<F> {
    hand_on: F,
    found: Gathered,
    contents: u64,
    attributes: u64,
}

impl<F: FnMut(Gathered) -> Result<(), Stopped>> Gathering<F> {
    /// A gathering without entries, which passes groups to `hand_on`.
    pub(super) fn new(hand_on: F) -> Self {
        Self { hand_on, found: Vec::new(), contents: 0, attributes: 0 }
    }
}

impl<F: FnMut(Gathered) -> Result<(), Stopped>> Taker for Gathering<F> {
    fn take(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped> {
        if let Kind::File { size } = entry.kind {
            self.contents = self.contents.saturating_add(size);
        }
        self.attributes += entry.extra.as_ref().map_or(0, |extra| extra_size(extra));
        self.found.push((entry, seen));
        let goes_on = self.found.len() < ENTRIES && self.contents < CONTENTS && self.attributes < ATTRIBUTES;
        if goes_on { Ok(()) } else { self.finish() }
    }

    fn finish(&mut self) -> Result<(), Stopped> {
        (self.contents, self.attributes) = (0, 0);
        let found = std::mem::replace(&mut self.found, Vec::with_capacity(ENTRIES));
        (self.hand_on)(found)
    }
}
