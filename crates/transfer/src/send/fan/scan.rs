//! One scan for several transfers: the entries that it finds go into a log, which each transfer reads at its
//! own pace.
//!
//! The scan may be ahead of the fastest transfer by a fixed number of groups of entries. Entries that slower transfers
//! haven't read yet stay in memory and, beyond a limit, in a file without a name. So no transfer has to wait for slower
//! ones.

use crossbeam_channel::bounded;
use linerate_wire::control::{Options, Problem, ProblemKind};
use linerate_wire::entry::{Entry, Origin};
use rustix::fs::{CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::base::totals::SharedTotals;
use crate::net::clock::Counters;
use crate::send::ahead::{Ahead, Gathered, Gathering, WAITING, reported};
use crate::send::plan::extra_size;
use crate::send::sender::FoundSources;
use crate::tree::scan::{Scanner, Seen, Stopped};
use crate::tree::selection::Selection;
use crate::tree::source_root::SourceRoot;

/// The approximate limit in bytes for the log's memory.
const BUDGET: usize = 32 << 20;
/// The approximate memory of an entry in addition to its path and attributes.
const ENTRY_OVERHEAD: usize = 256;
/// The interval at which a waiting transfer checks whether it must stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The log of everything that the scan has found.
pub struct ScanLog {
    state: Mutex<LogState>,
    changed: Condvar,
    stop: AtomicBool,
}

struct LogState {
    /// The pieces of the log that some transfers haven't read yet. `first` is the number of the first of
    /// these pieces.
    pieces: VecDeque<LogPiece>,
    first: usize,
    /// For each transfer, the number of the piece of the log that it reads next; `None` if it reads no more.
    readers: Vec<Option<usize>>,
    /// Bytes of the log in memory.
    bytes: usize,
    budget: usize,
    file: Option<Arc<File>>,
    /// The length of the file in bytes.
    end: u64,
    is_over: bool,
}

/// One result of the scan: in memory, with the number of its bytes, or in the file.
#[derive(Clone)]
enum LogPiece {
    Kept(Arc<LoggedFind>, usize),
    Stored { offset: u64, length: usize },
}

/// One result of the scan: a group of entries, or a problem.
enum LoggedFind {
    Entries(Gathered),
    Problem(Problem),
}

/// An entry that was moved to the file.
#[derive(Serialize, Deserialize)]
struct StoredEntry {
    entry: Entry,
    flags: (bool, bool, bool),
    origin: Origin,
    size: u64,
}

impl ScanLog {
    /// A log for `readers` transfers.
    pub fn new(readers: usize) -> Self {
        Self::within(readers, BUDGET)
    }

    fn within(readers: usize, budget: usize) -> Self {
        let state = LogState {
            pieces: VecDeque::new(),
            first: 0,
            readers: vec![Some(0); readers],
            bytes: 0,
            budget,
            file: None,
            end: 0,
            is_over: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), stop: AtomicBool::new(false) }
    }

    /// Walks the sources, until everything is found or no transfer reads any more.
    pub fn scan(&self, sources: &[SourceRoot], options: &Options, selection: &Selection) {
        let problem = |problem: Problem| drop(self.add(LoggedFind::Problem(problem), ENTRY_OVERHEAD));
        let (found, stop) = (&SharedTotals::default(), &self.stop);
        let scanner = Scanner { sources, found, problem: &problem, keep: options.keep, stop, selection };
        scanner.run(Gathering::new(|entries: Gathered| {
            let bytes = entries.iter().map(|(entry, _)| size(entry)).sum();
            self.add(LoggedFind::Entries(entries), bytes)
        }));
        lock(&self.state).is_over = true;
        self.changed.notify_all();
    }

    /// Runs `work` while the transfer with this number reads the log of these sources' scan.
    pub fn read_ahead<T>(
        &self,
        number: usize,
        sources: &FoundSources,
        selection: &Selection,
        counters: &Counters,
        problem: &(dyn Fn(Problem) + Sync),
        work: impl FnOnce(Ahead<'_>) -> T,
    ) -> T {
        // Entries are counted when they are read from the log, and some are read before they are needed.
        let readers = lock(&self.state).readers.len();
        let (queue, found) = bounded((WAITING / readers.max(1)).max(1));
        let (stop, whole) = (AtomicBool::new(false), AtomicBool::new(sources.are_whole));
        let report = reported(&whole, selection, problem);
        thread::scope(|scope| {
            let (stop, report) = (&stop, &report);
            scope.spawn(move || {
                while let Some(found) = self.next(number, stop) {
                    let passed_on = match &*found {
                        LoggedFind::Entries(entries) => {
                            count(counters, entries);
                            queue.send(entries.clone()).is_ok()
                        }
                        LoggedFind::Problem(problem) => {
                            report(problem.clone());
                            true
                        }
                    };
                    if !passed_on {
                        break;
                    }
                }
                counters.scanned.store(true, Ordering::Release);
                self.leave(number);
            });
            let done = work(Ahead { found, selection, problem: report, whole: &whole, stop });
            stop.store(true, Ordering::Relaxed);
            done
        })
    }

    /// Records that the transfer with this number reads no more.
    pub fn leave(&self, number: usize) {
        let mut state = lock(&self.state);
        state.readers[number] = None;
        state.forget();
        if state.readers.iter().all(Option::is_none) {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.changed.notify_all();
    }

    fn add(&self, found: LoggedFind, bytes: usize) -> Result<(), Stopped> {
        let mut state = lock(&self.state);
        while !self.stop.load(Ordering::Relaxed) && !state.has_room() {
            state =
                self.changed.wait_timeout(state, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.bytes += bytes;
        state.pieces.push_back(LogPiece::Kept(Arc::new(found), bytes));
        self.changed.notify_all();
        if self.stop.load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
    }

    /// The next piece for this transfer; `None` at the end, or if it must stop.
    fn next(&self, number: usize, stop: &AtomicBool) -> Option<Arc<LoggedFind>> {
        let mut state = lock(&self.state);
        let (piece, file) = loop {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let at = state.readers[number]?;
            if let Some(piece) = state.pieces.get(at - state.first).cloned() {
                state.readers[number] = Some(at + 1);
                state.forget();
                break (piece, state.file.clone());
            }
            if state.is_over {
                return None;
            }
            state =
                self.changed.wait_timeout(state, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(state);
        self.changed.notify_all();
        match piece {
            LogPiece::Kept(found, _) => Some(found),
            LogPiece::Stored { offset, length } => match load(file.as_deref(), offset, length) {
                Ok(entries) => Some(Arc::new(LoggedFind::Entries(entries))),
                Err(error) => Some(Arc::new(LoggedFind::Problem(lost(&error)))),
            },
        }
    }
}

impl LogState {
    /// True if the scan may continue: it isn't too far ahead of the fastest transfer, and memory is available
    /// or can be freed.
    fn has_room(&mut self) -> bool {
        let fastest = self.readers.iter().flatten().max().copied().unwrap_or(self.first);
        let is_near = self.first + self.pieces.len() < fastest + WAITING;
        if is_near && self.bytes >= self.budget {
            // If moving entries to the file fails, the scan waits for the slower transfers.
            let _ = self.store(fastest);
        }
        is_near && self.bytes < self.budget
    }

    /// Moves entries that only the slower transfers still need to the file.
    fn store(&mut self, fastest: usize) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => self.file.insert(Arc::new(nameless()?)).clone(),
        };
        for piece in self.pieces.iter_mut().take(fastest - self.first) {
            let LogPiece::Kept(found, bytes) = piece else { continue };
            let LoggedFind::Entries(entries) = &**found else { continue };
            let (stored, bytes) = (stored(entries), *bytes);
            file.write_all_at(&stored, self.end)?;
            *piece = LogPiece::Stored { offset: self.end, length: stored.len() };
            self.end += stored.len() as u64;
            self.bytes -= bytes;
        }
        Ok(())
    }

    /// Drops the pieces that all transfers have read.
    fn forget(&mut self) {
        let slowest = self.readers.iter().flatten().min().copied().unwrap_or(usize::MAX);
        while self.first < slowest
            && let Some(piece) = self.pieces.pop_front()
        {
            self.first += 1;
            if let LogPiece::Kept(_, bytes) = piece {
                self.bytes -= bytes;
            }
        }
    }
}

fn size(entry: &Entry) -> usize {
    let extra = entry.extra.as_ref().map_or(0, |extra| extra_size(extra));
    ENTRY_OVERHEAD + entry.path.as_bytes().len() + extra as usize
}

fn count(counters: &Counters, entries: &Gathered) {
    for (entry, seen) in entries {
        counters.found.entry(&entry.kind);
        counters.found.further(&entry.kind, seen.size);
    }
}

fn nameless() -> io::Result<File> {
    let (directory, mode) = (std::env::temp_dir(), Mode::RUSR | Mode::WUSR);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat(CWD, &directory, flags | OFlags::TMPFILE, mode) {
        return Ok(File::from(file));
    }
    // Not every file system supports files without a name. Here the file is created with a name, which is removed
    // immediately.
    let name = directory.join(format!("linerate-{:016x}", RandomState::new().hash_one(std::process::id())));
    let file =
        rustix::fs::openat(CWD, &name, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode)?;
    rustix::fs::unlink(&name)?;
    Ok(File::from(file))
}

fn stored(entries: &Gathered) -> Vec<u8> {
    let store = |(entry, seen): &(Entry, Seen)| StoredEntry {
        entry: entry.clone(),
        flags: (seen.sparse, seen.linked, seen.whole),
        origin: seen.origin,
        size: seen.size,
    };
    postcard::to_stdvec(&entries.iter().map(store).collect::<Vec<_>>()).expect("entries are always encodable")
}

fn load(file: Option<&File>, offset: u64, length: usize) -> io::Result<Gathered> {
    let mut bytes = vec![0; length];
    file.ok_or(io::ErrorKind::NotFound)?.read_exact_at(&mut bytes, offset)?;
    let stored: Vec<StoredEntry> = postcard::from_bytes(&bytes).map_err(io::Error::other)?;
    let load = |StoredEntry { entry, flags: (sparse, linked, whole), origin, size }| {
        (entry, Seen { sparse, linked, origin, size, whole })
    };
    Ok(stored.into_iter().map(load).collect())
}

/// The problem that entries of the log are lost, so nothing that depends on them is complete.
fn lost(error: &io::Error) -> Problem {
    let message = format!("the entries that the scan found can't be read back: {error}");
    problem(std::env::temp_dir(), ProblemKind::Failed, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::entry::{Kind, Timestamp};
    use linerate_wire::path::RelPath;

    fn entries(number: usize) -> Gathered {
        let time = Timestamp { seconds: 5, nanoseconds: 0 };
        let entry = |at: usize| Entry {
            source: 0,
            path: RelPath::new(format!("{number}/{at}").as_bytes()).unwrap(),
            kind: Kind::File { size: 7 },
            mode: 0o644,
            mtime: time,
            atime: time,
            extra: None,
        };
        let seen = Seen { sparse: true, linked: false, origin: Origin::default(), size: 7, whole: true };
        (0..4).map(|at| (entry(at), seen)).collect()
    }

    fn read(log: &ScanLog, number: usize) -> Option<Vec<Entry>> {
        match &*log.next(number, &AtomicBool::new(false))? {
            LoggedFind::Entries(entries) => Some(entries.iter().map(|(entry, _)| entry.clone()).collect()),
            LoggedFind::Problem(problem) => panic!("{problem:?}"),
        }
    }

    #[test]
    fn each_reads_everything_in_its_order_and_the_slower_one_from_the_file() {
        let log = ScanLog::within(2, 100_000);
        for number in 0..1000 {
            assert!(log.add(LoggedFind::Entries(entries(number)), 4 * ENTRY_OVERHEAD).is_ok());
            assert_eq!(read(&log, 0).unwrap()[0], entries(number)[0].0);
            let state = lock(&log.state);
            assert!(state.bytes <= 100_000 + 4 * ENTRY_OVERHEAD, "{}", state.bytes);
        }
        assert!(lock(&log.state).end > 0, "something is in the file");
        lock(&log.state).is_over = true;
        for number in 0..1000 {
            let expected: Vec<_> = entries(number).into_iter().map(|(entry, _)| entry).collect();
            assert_eq!(read(&log, 1).unwrap(), expected);
        }
        assert!(read(&log, 0).is_none() && read(&log, 1).is_none());
        let state = lock(&log.state);
        assert_eq!((state.pieces.len(), state.bytes), (0, 0));
    }

    #[test]
    fn the_scan_waits_for_the_fastest_and_ends_when_nobody_reads() {
        let log = ScanLog::new(2);
        thread::scope(|scope| {
            let adding = scope.spawn(|| {
                let mut added = 0;
                while log.add(LoggedFind::Entries(entries(added)), 1).is_ok() {
                    added += 1;
                }
                added
            });
            thread::sleep(Duration::from_millis(300));
            assert_eq!(lock(&log.state).pieces.len(), WAITING);
            read(&log, 1);
            log.leave(0);
            thread::sleep(Duration::from_millis(300));
            assert_eq!(lock(&log.state).pieces.len(), WAITING, "one more, and one less");
            log.leave(1);
            assert_eq!(adding.join().unwrap(), WAITING + 1);
        });
    }
}
