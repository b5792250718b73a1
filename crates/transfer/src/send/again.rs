//! The second round of a transfer, in which files that are damaged on stable storage are sent again.

use linerate_wire::control::{Keep, MAX_AGAIN, Message, ProblemKind, Totals};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use std::collections::HashSet;

use crate::base::problem::{TransferError, problem};
use crate::base::totals::SharedTotals;
use crate::net::session::{Session, out_of_turn};
use crate::send::plan::Planner;
use crate::send::transmission::Transmission;
use crate::tree::scan::{Scanner, Seen, Stopped, Taker};
use crate::tree::selection::Selection;

/// This number is added to the numbers of large files in the second round, so that they differ from those of the first
/// round.
const SECOND: u64 = 1 << 62;

/// The receiver's message after everything was sent.
pub enum ResendVerdict {
    /// Everything is in place; these are the totals.
    Committed(Totals),
    /// The files with these sources and paths are damaged, and are requested again.
    Again(Vec<(u32, RelPath)>),
}

/// The sender: waits until the receiver reports that everything is in place, or requests damaged files again.
///
/// # Errors
/// If the receiver gave up, went away or breaks the protocol.
pub fn verdict(session: &mut Session, shared: &Transmission<'_>) -> Result<ResendVerdict, TransferError> {
    loop {
        match session.awaiting("its confirmation that everything is in place", Session::receive)? {
            Message::Committed(landed) => return Ok(ResendVerdict::Committed(landed)),
            Message::Again(names) => return Ok(ResendVerdict::Again(names)),
            // The receiver may have sent this message before the last data arrived.
            Message::Skip { file } => shared.skip(file)?,
            _ => return Err(out_of_turn()),
        }
    }
}

/// The files that the receiver requests again.
pub struct Resend {
    names: HashSet<(u32, RelPath)>,
}

impl Resend {
    /// The files in `names`, of a transfer with `sources` sources.
    ///
    /// # Errors
    /// If no honest receiver could have requested these files.
    pub fn new(names: Vec<(u32, RelPath)>, sources: usize) -> Result<Self, TransferError> {
        let strange = names.iter().any(|(source, _)| *source as usize >= sources);
        if names.is_empty() || names.len() > MAX_AGAIN || strange {
            return Err(TransferError::FarEnd(
                "the far end breaks the protocol: it requests files again that were never sent".into(),
            ));
        }
        Ok(Self { names: names.into_iter().collect() })
    }

    /// True once for each file that is requested.
    fn take(&mut self, entry: &Entry) -> bool {
        matches!(entry.kind, Kind::File { .. }) && self.names.remove(&(entry.source, entry.path.clone()))
    }
}

/// The sender: walks the sources as in the first round, with the same `selection`, but plans only the files
/// that are requested. So a receiver can only get files that were sent before, and no list of sent files is
/// needed.
pub fn rescan(
    shared: &Transmission<'_>,
    mut wanted: Resend,
    planner: Planner,
    keep: Keep,
    selection: &Selection,
) {
    for (source, path) in &wanted.names {
        shared.digests.iter().for_each(|known| known.withdraw(*source, path));
    }
    let (found, linked) = (&SharedTotals::default(), keep.hard_links);
    // The first name of a file may differ in this walk, so hard links are ignored.
    let keep = Keep { hard_links: false, ..keep };
    let (sources, stop) = (shared.sources, shared.stop);
    // Problems aren't reported, because the first round has reported them.
    let scanner = Scanner { sources, found, problem: &|_| {}, keep, stop, selection };
    scanner.run(Only { wanted: &mut wanted, planner: planner.numbered_from(SECOND), linked });
    for (source, path) in &wanted.names {
        let shown = shared.sources[*source as usize].shown(path);
        let message = "is damaged at the destination, and is gone from the source, so it can't be sent again";
        (shared.problem)(problem(shown, ProblemKind::Changed, message));
    }
}

/// Passes only the requested files to the planner.
struct Only<'a> {
    wanted: &'a mut Resend,
    planner: Planner,
    /// True if files that have several names are marked as such.
    linked: bool,
}

impl Taker for Only<'_> {
    fn take(&mut self, mut entry: Entry, seen: Seen) -> Result<(), Stopped> {
        if !self.wanted.take(&entry) {
            return Ok(());
        }
        if self.linked && seen.linked {
            entry.extra.get_or_insert_default().linked = true;
        }
        self.planner.take(entry, seen)?;
        if self.wanted.names.is_empty() {
            self.planner.finish()?;
            return Err(Stopped);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Stopped> {
        self.planner.finish()
    }
}
