//! Records how much of a part has arrived, if the part takes long. So a file is completed in the end even
//! over a link that breaks repeatedly.

use linerate_wire::entry::{Chunk, Origin};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ReceiveWorker;
use super::assembly::{Assembly, least_chunk};
use super::part::Target;
use crate::base::lock::lock;
use crate::net::stream::StreamError;
use crate::receive::admission::Admitted;
use crate::tree::temporary::Temporary;

/// If a part isn't complete after this time, the bytes that have arrived are recorded, and again after each
/// further period of this length.
const SLOW: Duration = Duration::from_secs(2);

/// How much of a part the journal has recorded.
pub(super) struct Progress {
    /// The offset in the file up to which bytes are recorded.
    kept: u64,
    begun: Instant,
    looked: Instant,
}

impl Progress {
    /// The progress of a part that begins now, at `offset`.
    pub fn at(offset: u64) -> Self {
        let now = Instant::now();
        Self { kept: offset, begun: now, looked: now }
    }

    /// True if it is time to record the progress of the part.
    pub fn is_slow(&self) -> bool {
        self.begun.elapsed() >= SLOW
    }
}

impl ReceiveWorker<'_> {
    /// If a part takes long, records the bytes that have arrived so far in order.
    pub(super) fn keep_progress(&mut self) -> Result<(), StreamError> {
        let journal = self.shared.ground.journal;
        let is_due = |progress: &Progress| progress.looked.elapsed() >= SLOW && journal.is_wanted();
        let Some(part) = self.part.as_mut().filter(|part| is_due(&part.progress)) else { return Ok(()) };
        part.progress.looked = Instant::now();
        if matches!(part.target, Target::Whole(..)) {
            self.make_shared()?;
        }
        if let Some(part) = &mut self.part
            && let Target::Shared(assembly) = &part.target
            && let Some(size) = assembly.size()
        {
            let least = least_chunk(size, self.shared.settings.inplace);
            let (from, to) = (part.progress.kept, part.at - part.at % least);
            if to > from {
                assembly.write_down(from, to - from, Some(least), journal);
                part.progress.kept = to;
            }
        }
        Ok(())
    }

    /// Turns a file that arrives as a single part, and has no temporary name yet, into a file that a journal
    /// can list.
    fn make_shared(&mut self) -> Result<(), StreamError> {
        let shared = self.shared;
        let Some(part) = &mut self.part else { return Ok(()) };
        let mut assemblies = lock(&shared.notes.assemblies);
        let least = least_chunk(part.length, shared.settings.inplace);
        let is_worth_it = part.length > least && assemblies.has_room_for(part.number);
        let can_be_listed = |file: &Temporary| {
            !file.is_in_place() && !file.is_elsewhere() && shared.ground.journal.covers(file.parent())
        };
        let Target::Whole(file, ..) = &mut part.target else { return Ok(()) };
        if !is_worth_it || !can_be_listed(file) || file.give_name(shared.ground.names).is_err() {
            return Ok(());
        }
        let Target::Whole(file, admitted, origin) = std::mem::replace(&mut part.target, Target::Dropped)
        else {
            return Ok(());
        };
        match assembly(file, &admitted, (part.number, part.length), origin) {
            Ok(assembly) => {
                assemblies.begin(part.number, assembly.clone());
                (part.target, part.sized) = (Target::Shared(assembly), true);
                Ok(())
            }
            Err(error) => {
                (shared.reports.skip)(part.number);
                drop(assemblies);
                self.failed(&admitted, error)
            }
        }
    }
}

/// Creates an assembly for a file that arrives as a single part, and sets the file's size.
fn assembly(
    file: Temporary,
    admitted: &Admitted<'static>,
    (number, length): (u64, u64),
    origin: Origin,
) -> Result<Arc<Assembly>, Errno> {
    rustix::fs::ftruncate(file.fd()?, length)?;
    let entry = admitted.entry().clone();
    let chunk = Chunk { entry, file: number, offset: 0, length, parts: 1, origin };
    Assembly::new(file, &chunk, admitted).map(Arc::new)
}
