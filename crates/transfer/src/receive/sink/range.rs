//! Parts of large files that are copied from open files of this host.

use rustix::io::Errno;
use std::os::fd::AsFd;

use super::ReceiveWorker;
use super::part::Target;
use super::parts::STANDS;
use super::storage::in_room;
use crate::net::clock::Stage;
use crate::net::stream::{FileRange, StreamError};
use crate::tree::copying::{CopyError, copy_range};

impl ReceiveWorker<'_> {
    /// Copies the next bytes of a part; returns how many of these bytes the source had.
    ///
    /// # Errors
    /// If the range isn't the part's next bytes, or writing fails; the inner error if the source can't be
    /// read.
    pub(super) fn bring_range(&mut self, range: &FileRange) -> Result<Result<u64, Errno>, StreamError> {
        let FileRange { offset, length, .. } = *range;
        let part = self.part.as_mut().ok_or(StreamError::Protocol("a range outside a chunk"))?;
        if matches!(part.target, Target::Standing(..)) {
            return Err(StreamError::Protocol(STANDS));
        }
        if part.at != offset || length > part.left() {
            return Err(StreamError::Protocol("a range out of order in its chunk"));
        }
        part.at += length;
        let end = offset + length;
        let mut read = Ok(());
        let copy = || match part.fd().map_or(Ok(()), |new| copy_range(range.as_fd(), new, offset, end)) {
            Err(CopyError::Write(error)) => Err(error),
            other => {
                read = other;
                Ok(())
            }
        };
        let written = part.forget(offset).and_then(|()| in_room(part.under_way.as_ref(), copy));
        let copied = written.map_err(CopyError::Write).and(read);
        self.clock.bytes(length);
        self.clock.lap(Stage::Write);
        match copied {
            Ok(()) => self.keep_progress()?,
            // The source ended early; the sender will give up the file.
            Err(CopyError::Ended(end)) => return Ok(Ok(end - offset)),
            Err(CopyError::Read(error)) => return Ok(Err(error)),
            Err(CopyError::Write(error)) => self.part_failed(error)?,
        }
        self.came().map(|()| Ok(length))
    }
}
