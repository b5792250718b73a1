//! The second round of a transfer: files that came damaged to stable storage are sent once more.

use crossbeam_channel::{Sender, bounded};
use linerate_wire::control::{MAX_AGAIN, Message, ProblemKind, Totals};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use crate::clock::SharedTotals;
use crate::commit::ToCommit;
use crate::problem::{TransferError, problem};
use crate::scan::{LargeFile, Scanner, Unit};
use crate::session::{Session, TICK, out_of_turn};
use crate::source::Shared;
use crate::verify::Verifier;

/// Units of the second scan that wait.
const QUEUE: usize = 32;
/// Added to the numbers of large files, which are those of the first round otherwise.
const SECOND: u64 = 1 << 62;

/// The receiver: commits what has come, and asks once more for what differs; false where nothing does.
///
/// # Errors
/// Where the sender is gone.
pub fn ask(
    session: &mut Session,
    verifier: &Verifier<'_>,
    finished: &Sender<ToCommit>,
) -> Result<bool, TransferError> {
    settle(session, finished)?;
    let names = verifier.take_differing();
    if names.is_empty() {
        return Ok(false);
    }
    session.begin_round();
    session.send(&Message::Again(names))?;
    Ok(true)
}

/// Waits until the committer is done with what it has. One that has failed tells so at its end.
fn settle(session: &Session, finished: &Sender<ToCommit>) -> Result<(), TransferError> {
    let (done, settled) = bounded(1);
    if finished.send(ToCommit::Settle(done)).is_err() {
        return Ok(());
    }
    while settled.recv_timeout(TICK).is_err_and(|error| error.is_timeout()) {
        session.tell_progress()?;
    }
    Ok(())
}

/// What the receiver says when everything was sent.
pub enum Verdict {
    /// It is in place.
    Committed(Totals),
    /// These are wanted once more.
    Again(Vec<(u32, RelPath)>),
}

/// The sender: waits for it.
///
/// # Errors
/// Where the receiver gave up, went away or breaks the protocol.
pub fn verdict(session: &mut Session) -> Result<Verdict, TransferError> {
    loop {
        match session.receive()? {
            Message::Committed(landed) => return Ok(Verdict::Committed(landed)),
            Message::Again(names) => return Ok(Verdict::Again(names)),
            Message::Skip { .. } => {}
            _ => return Err(out_of_turn()),
        }
    }
}

/// Files that are wanted once more.
pub struct Wanted {
    names: HashSet<(u32, RelPath)>,
}

impl Wanted {
    /// Of a transfer with so many sources.
    ///
    /// # Errors
    /// Where no receiver can want that.
    pub fn new(names: Vec<(u32, RelPath)>, sources: usize) -> Result<Self, TransferError> {
        let strange = names.iter().any(|(source, _)| *source as usize >= sources);
        if names.is_empty() || names.len() > MAX_AGAIN || strange {
            return Err(TransferError::FarEnd(
                "the far end breaks the protocol: it wants files once more that were never sent".into(),
            ));
        }
        Ok(Self { names: names.into_iter().collect() })
    }

    /// True once for each file that is wanted.
    fn take(&mut self, entry: &Entry) -> bool {
        matches!(entry.kind, Kind::File { .. }) && self.names.remove(&(entry.source, entry.path.clone()))
    }
}

/// The sender: walks the sources as before, and queues of what it finds the files that are wanted. So nothing can be had
/// that wasn't sent before, however it is asked for, and no list of what was sent is kept.
pub fn rescan(shared: &Shared<'_>, mut wanted: Wanted, queue: &Sender<Unit>, streams: u32) {
    for (source, path) in &wanted.names {
        shared.digests.iter().for_each(|known| known.withdraw(*source, path));
    }
    let (all, units) = bounded(QUEUE);
    let (stop, found) = (AtomicBool::new(false), SharedTotals::default());
    thread::scope(|scope| {
        let (sources, found, stop) = (shared.sources, &found, &stop);
        // What is wrong was told in the first round.
        scope.spawn(move || Scanner { sources, queue: all, found, problem: &|_| {}, streams, stop }.run());
        let mut current = None;
        for unit in units {
            let unit = wanted.only(unit, &mut current);
            if unit.is_some_and(|unit| queue.send(unit).is_err()) || shared.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    for (source, path) in &wanted.names {
        let shown = shared.sources[*source as usize].shown(path);
        let message = "came damaged to stable storage, and is no longer there to be sent once more";
        (shared.problem)(problem(shown, ProblemKind::Changed, message));
    }
}

impl Wanted {
    /// What is wanted of a unit. `current` is the large file whose parts are coming.
    fn only(&mut self, unit: Unit, current: &mut Option<Arc<LargeFile>>) -> Option<Unit> {
        match unit {
            Unit::Batch(mut entries) => {
                entries.retain(|entry| self.take(entry));
                (!entries.is_empty()).then_some(Unit::Batch(entries))
            }
            Unit::Chunk { file, offset, length } => {
                if offset == 0 {
                    *current = self.take(&file.entry).then(|| renumbered(&file));
                    file.given_up.store(current.is_none(), Ordering::Relaxed);
                }
                current.clone().map(|file| Unit::Chunk { file, offset, length })
            }
        }
    }
}

fn renumbered(file: &LargeFile) -> Arc<LargeFile> {
    Arc::new(LargeFile {
        entry: file.entry.clone(),
        number: SECOND + file.number,
        parts: file.parts,
        left: AtomicU32::new(file.parts),
        given_up: AtomicBool::new(false),
        descriptor: OnceLock::new(),
    })
}
