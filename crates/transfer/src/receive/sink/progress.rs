//! Writes down what has come of a part that takes long, so that a link that breaks again and again brings a file to its end
//! all the same.

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

/// A part that isn't whole after this time is written down as it comes, each time that this long has passed.
const SLOW: Duration = Duration::from_secs(2);

/// How far a part is written down in the journal.
pub(super) struct Progress {
    /// Where in the file that ends.
    kept: u64,
    begun: Instant,
    looked: Instant,
}

impl Progress {
    /// The progress of a part that begins at `offset`, now.
    pub fn at(offset: u64) -> Self {
        let now = Instant::now();
        Self { kept: offset, begun: now, looked: now }
    }

    /// True where the part takes long.
    pub fn is_slow(&self) -> bool {
        self.begun.elapsed() >= SLOW
    }
}

impl ReceiveWorker<'_> {
    /// Writes down what has come in order of a part that takes long.
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

    /// Makes of a file that comes in one part, and has no name yet, one that a journal can list.
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

/// The file, with its size, as one of a single part.
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
