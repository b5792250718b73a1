//! Walks the sources without sending anything, to list the entries or to plan a transfer.

use crossbeam_channel::{Sender, bounded};
use linerate_wire::control::{Keep, Problem};
use linerate_wire::entry::Entry;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use crate::net::clock::Counters;
pub use crate::tree::scan::Seen;
use crate::tree::scan::{Scanner, Stopped, Taker};
use crate::tree::selection::Selection;
use crate::tree::source_root::SourceRoot;

/// The number of entries that the walk passes on together. `WAITING` is the number of such groups that may
/// wait.
const TOGETHER: usize = 256;
const WAITING: usize = 16;

/// Walks the sources and lists each entry, with its path as the user would write it, and its size in bytes.
pub fn survey(
    sources: &[SourceRoot],
    keep: Keep,
    selection: &Selection,
    counters: &Counters,
    report: &(dyn Fn(Problem) + Sync),
    mut each: impl FnMut(&Path, &Entry, u64),
) {
    walk(sources, keep, selection, counters, report, |entry, seen| {
        each(&sources[entry.source as usize].shown(&entry.path), &entry, seen.size);
        true
    });
}

/// Walks the sources and passes each entry to `each`, in the order of the walk, until `each` returns false.
pub fn walk(
    sources: &[SourceRoot],
    keep: Keep,
    selection: &Selection,
    counters: &Counters,
    report: &(dyn Fn(Problem) + Sync),
    mut each: impl FnMut(Entry, Seen) -> bool,
) {
    let (queue, entries) = bounded(WAITING);
    let stop = AtomicBool::new(false);
    // Attributes and ACLs aren't read: they are large, and aren't needed here.
    let Keep { hard_links, devices, specials, .. } = keep;
    let keep = Keep { hard_links, devices, specials, ..Keep::NOTHING };
    thread::scope(|scope| {
        let (found, stop) = (&counters.found, &stop);
        let scanner = Scanner { sources, found, problem: report, keep, stop, selection };
        scope.spawn(move || scanner.run(Lister { queue, found: Vec::new() }));
        // The scan ends if nobody takes its entries any more.
        entries.into_iter().flatten().all(|(entry, seen)| each(entry, seen));
    });
}

/// Passes on the entries that the scan finds, in order.
struct Lister {
    queue: Sender<Vec<(Entry, Seen)>>,
    found: Vec<(Entry, Seen)>,
}

impl Taker for Lister {
    fn take(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped> {
        self.found.push((entry, seen));
        if self.found.len() < TOGETHER { Ok(()) } else { self.finish() }
    }

    fn finish(&mut self) -> Result<(), Stopped> {
        let found = std::mem::replace(&mut self.found, Vec::with_capacity(TOGETHER));
        self.queue.send(found).map_err(|_| Stopped)
    }
}
