//! Divided files: this transfer brings some of their pieces, and other transfers bring the rest.

use linerate_wire::control::ProblemKind;
use linerate_wire::entry::Chunk;
use rustix::io::Errno;
use std::sync::Arc;

use super::ReceiveWorker;
use super::assembly::Assembly;
use crate::base::problem::problem;
use crate::net::stream::StreamError;
use crate::receive::admission::Admitted;
use crate::receive::divided::{AwaitedPieces, DividedState, DividedTarget, chunks_of, is_the_one};
use crate::tree::metadata::write::set_mode;
use crate::tree::root::Directory;
use crate::tree::temporary::Temporary;

impl ReceiveWorker<'_> {
    pub(super) fn begin_divided(
        &self,
        awaited: AwaitedPieces,
        chunk: &Chunk,
        admitted: &Admitted<'static>,
        parent: Arc<Directory>,
    ) -> Result<Assembly, Errno> {
        let divided = &awaited.divided;
        let chunks = u32::try_from(chunks_of(divided));
        if chunks != Ok(chunk.parts) || !is_the_one(divided, &chunk.entry, chunk.origin) {
            return Err(Errno::STALE);
        }
        let target = DividedTarget::open(parent, divided.clone(), divided.brings())?;
        Assembly::divided(target, awaited, chunk, admitted)
    }

    /// Called when all of this transfer's pieces of a file are on stable storage. If the pieces of all
    /// transfers are complete, the file gets its name.
    pub(super) fn divided_came(
        &mut self,
        temporary: Temporary,
        assembly: &Assembly,
        divided: &DividedTarget,
    ) -> Result<(), StreamError> {
        let admitted = &assembly.admitted;
        let state = divided.seal().and_then(|state| {
            if state == DividedState::Whole {
                set_mode(temporary.fd()?, self.first_mode(admitted.entry(), temporary.parent()))?;
            }
            Ok(state)
        });
        match state {
            Ok(DividedState::Whole) => self.complete(temporary, admitted, assembly.origin, None),
            Ok(DividedState::Lacks(count)) if !divided.brings() => {
                let message = format!(
                    "{count} pieces of this divided file are missing at the destination: plan the copy again"
                );
                (self.shared.reports.problem)(problem(
                    self.shown(admitted.place()),
                    ProblemKind::Failed,
                    message,
                ));
                Ok(())
            }
            Ok(DividedState::Lacks(_) | DividedState::Gone) => {
                self.clock.entries(1);
                self.shared.reports.counters.landed.entry(&admitted.entry().kind);
                Ok(())
            }
            Err(error) => self.failed(admitted, error),
        }
    }
}

impl Assembly {
    /// Records that a part has arrived, if the file is a divided file and the part had to be sent.
    pub(super) fn piece_came(&self, offset: u64, length: u64) -> Result<(), Errno> {
        match &self.divided {
            Some(divided) if !self.is_there(offset, length) => divided.came(offset, length),
            _ => Ok(()),
        }
    }
}
