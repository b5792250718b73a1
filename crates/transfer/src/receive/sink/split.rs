//! Parts that end early because faster streams send the rest of them.

use linerate_wire::entry::Chunk;
use std::os::fd::AsFd;

use super::ReceiveWorker;
use super::part::Target;
use crate::base::lock::lock;
use crate::net::clock::Stage;
use crate::net::stream::StreamError;
use crate::tree::copying::{CopyError, copy_range};

impl ReceiveWorker<'_> {
    /// Handles a frame that ends the part here, because other parts bring the rest.
    pub(super) fn split(&mut self) -> Result<(), StreamError> {
        let damaged = StreamError::Protocol("an early end of a chunk where none is allowed");
        let count = <[u8; 4]>::try_from(self.payload.as_slice()).map(u32::from_le_bytes);
        let (Some(part), Ok(count)) = (&mut self.part, count) else { return Err(damaged) };
        let is_inside = !part.is_untouched() && !part.is_whole();
        if !is_inside || count < 2 || self.shared.settings.inplace {
            return Err(damaged);
        }
        part.length -= part.left();
        part.end = part.at;
        match &part.target {
            Target::Shared(assembly) => lock(&assembly.parts).expect(count),
            Target::Whole(file, ..) if file.is_in_place() => return Err(damaged),
            Target::Whole(..) => self.join_others(count)?,
            Target::Standing(..) => return Err(damaged),
            Target::Dropped => {}
        }
        self.clock.lap(Stage::Write);
        self.came()
    }

    /// Turns a part that was the whole file into one of `parts` parts; other parts may already have arrived.
    fn join_others(&mut self, parts: u32) -> Result<(), StreamError> {
        let Some(part) = &mut self.part else { return Ok(()) };
        let (file, length) = (part.number, part.length);
        let Target::Whole(temporary, admitted, origin) = std::mem::replace(&mut part.target, Target::Dropped)
        else {
            return Ok(());
        };
        let chunk = Chunk { entry: admitted.entry().clone(), file, offset: 0, length, parts, origin };
        let target = self.shared_target(chunk)?;
        let copied = match &target {
            Target::Shared(assembly) => temporary.fd().and_then(|from| {
                copy_range(from, assembly.file.as_fd(), 0, length).map_err(CopyError::errno)
            }),
            _ => Ok(()),
        };
        if let Some(part) = &mut self.part {
            (part.target, part.sized) = (target, true);
        }
        copied.or_else(|error| self.part_failed(error))
    }
}
