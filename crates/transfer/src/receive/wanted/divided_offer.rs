//! Answers offers of divided files, of which this transfer sends only some pieces and other transfers send
//! the rest.

use linerate_wire::control::{Digest, DividedFile, ProblemKind, Want};
use linerate_wire::entry::Origin;
use linerate_wire::path::RelPath;
use rustix::io::Errno;
use std::collections::HashSet;

use super::Comparer;
use super::decide::Decision;
use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::receive::admission::Admitted;
use crate::receive::divided::{
    AwaitedPieces, DividedTarget, chunk_of, chunks_of, is_the_one, present_of_nothing,
};
use crate::receive::journal::bits;

const CHANGED: &str = "is a divided file that has changed since the plan was made; not copied; plan again";
const UNLOCKED: &str = "another transfer may be copying the same pieces of this file, because the destination's journal can't be locked; run the task again, or plan with --whole-files if the destination's file system has no locks";

impl Comparer<'_, '_> {
    /// The answer for a divided file; `None` if the file isn't divided, or if the whole file is already in
    /// place.
    pub(super) fn divided(
        &mut self,
        admitted: &Admitted<'_>,
        digest: Option<Digest>,
        origin: Origin,
    ) -> Option<Want> {
        let (entry, place) = (admitted.entry(), admitted.place());
        let divided = self.shared.settings.divided.get(&entry.path).filter(|_| entry.source == 0)?.clone();
        // The temporary file is looked up first: if another transfer renames it between the two look-ups, the
        // second one finds it under its real name.
        let begun = self.begun(&divided, admitted);
        let there = self.here.look_for(entry, place);
        let decision = match &there {
            Some(there) => self.decide(admitted, digest, there),
            None => self.rules.missing(entry),
        };
        if matches!(decision, Decision::Attributes(_) | Decision::LeftAlone) {
            return None;
        }
        let make_way = match (&decision, &there) {
            _ if !is_the_one(&divided, entry, origin) => Err((ProblemKind::Changed, CHANGED.to_owned())),
            (Decision::New, Some(there)) => {
                self.make_way(entry, place, there).map_err(|why| (ProblemKind::Failed, why))
            }
            _ => Ok(()),
        };
        let failed = |why: String| (ProblemKind::Failed, why);
        match make_way.and_then(|()| self.present(&divided, begun).map_err(failed)) {
            Ok(present) => {
                self.itemize(entry, &decision);
                Some(self.await_pieces(place, divided, present))
            }
            Err((kind, why)) => {
                let shown = self.shared.ground.landing.root.shown(place);
                (self.shared.reports.problem)(problem(shown, kind, why));
                Some(Want::Nothing)
            }
        }
    }

    /// The chunks that needn't be sent.
    ///
    /// # Errors
    /// A message for the user if this transfer may not send pieces, or if the existing pieces can't be read.
    fn present(
        &self,
        divided: &DividedFile,
        begun: Result<DividedTarget, Errno>,
    ) -> Result<HashSet<u32>, String> {
        let brings = divided.brings();
        // Without the journal's lock, two transfers with the same pieces would write to the same chunks.
        if brings && !self.shared.ground.journal.make() {
            return Err(UNLOCKED.to_owned());
        }
        match begun {
            Err(Errno::NOENT) if brings => Ok(present_of_nothing(divided)),
            begun => begun.and_then(|target| target.present()).map_err(why),
        }
    }

    fn await_pieces(&self, place: &RelPath, divided: DividedFile, present: HashSet<u32>) -> Want {
        let chunk = chunk_of(&divided);
        let mut held = bits(&present);
        held.resize(chunks_of(&divided).div_ceil(8) as usize, 0);
        lock(&self.shared.notes.awaited).insert(place.clone(), AwaitedPieces { divided, present });
        Want::Missing { chunk, present: held }
    }

    fn begun(&self, divided: &DividedFile, admitted: &Admitted<'_>) -> Result<DividedTarget, Errno> {
        let parent = admitted.place().parent().ok_or(Errno::NOENT)?;
        let parent = self.shared.ground.landing.root.directory(&parent)?;
        DividedTarget::open(parent, divided.clone(), false)
    }
}

fn why(error: Errno) -> String {
    match error {
        Errno::NOENT => {
            "the file's copied pieces have been removed from the destination; plan again".to_owned()
        }
        Errno::STALE => "the file with its pieces at the destination belongs to another transfer; remove that file with 'linerate clean', and plan again"
            .to_owned(),
        Errno::BUSY => "another program is removing the file's pieces from the destination; run the task again".to_owned(),
        error => format!("opening the file with its pieces at the destination failed: {error}"),
    }
}
