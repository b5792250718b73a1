//! The scan begins before the connection to the far end exists: during ssh's login it finds thousands of files.

use crossbeam_channel::{Receiver, bounded};
use linerate_wire::control::{Options, Problem, ProblemKind};
use linerate_wire::entry::{Entry, Kind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::net::clock::Counters;
use crate::send::plan::extra_size;
use crate::send::sender::Selection;
use crate::tree::scan::{Scanner, Seen, Stopped, Taker};
use crate::tree::source_root::SourceRoot;

/// The most entries that are passed on together. `CONTENTS` and `ATTRIBUTES` limit the bytes of their contents, which
/// wait on storage, and of their attributes.
const ENTRIES: usize = 256;
const CONTENTS: u64 = 4 << 20;
const ATTRIBUTES: u64 = 256 << 10;
/// The number of groups of entries that may wait before the scan waits: what a scan finds during a login of a few
/// tenths of a second, in about twenty megabytes of memory.
pub(super) const WAITING: usize = 256;

/// Entries that are passed on together.
pub(super) type Gathered = Vec<(Entry, Seen)>;

/// The entries that a running scan finds.
pub struct Ahead<'a> {
    pub(super) found: Receiver<Gathered>,
    /// The selection of the scan, for a second walk.
    pub selection: &'a Selection,
    /// Receives problems of entries, from the scan and from the sender.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// False once a problem was reported: entries that weren't found may exist all the same.
    pub whole: &'a AtomicBool,
    /// Ends the scan early, and the steps after it.
    pub stop: &'a AtomicBool,
}

/// Does `work` while the scan walks the sources.
pub fn scan_ahead<T>(
    sources: &[SourceRoot],
    options: &Options,
    selection: &Selection,
    counters: &Counters,
    problem: &(dyn Fn(Problem) + Sync),
    work: impl FnOnce(Ahead<'_>) -> T,
) -> T {
    let (queue, found) = bounded(WAITING);
    let (stop, whole) = (AtomicBool::new(false), AtomicBool::new(true));
    let tell = told(&whole, selection, problem);
    // The taker owns the queue, so the queue ends with the scan.
    let gathering = Gathering::new(move |found| queue.send(found).map_err(|_| Stopped));
    thread::scope(|scope| {
        scope.spawn(|| {
            let scanner = Scanner {
                sources,
                found: &counters.found,
                problem: &tell,
                keep: options.keep,
                stop: &stop,
                selection,
            };
            scanner.run(gathering);
            counters.scanned.store(true, Ordering::Release);
        });
        let done = work(Ahead { found, selection, problem: &tell, whole: &whole, stop: &stop });
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// Reports problems, and records that not everything was found.
pub(super) fn told<'a>(
    whole: &'a AtomicBool,
    selection: &'a Selection,
    problem: &'a (dyn Fn(Problem) + Sync),
) -> impl Fn(Problem) + Sync + 'a {
    |told: Problem| {
        // With sync, the receiver gets the names of skipped entries.
        if !matches!(told.kind, ProblemKind::Skipped | ProblemKind::Remark) || !selection.names_skipped {
            whole.store(false, Ordering::Release);
        }
        problem(told);
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

/// Collects the entries that are found, and passes them on in groups.
pub(super) struct Gathering<F> {
    hand_on: F,
    found: Gathered,
    contents: u64,
    attributes: u64,
}

impl<F: FnMut(Gathered) -> Result<(), Stopped>> Gathering<F> {
    /// Starts without entries.
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
