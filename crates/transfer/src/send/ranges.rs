//! Sends ranges of open files if both ends are in one process; the receiver copies the ranges.

use linerate_wire::control::ProblemKind;
use std::os::fd::BorrowedFd;

use crate::net::stream::StreamError;
use crate::send::reading::SHORTER;
use crate::send::worker::{FileProblem, SendWorker, read_problem};

/// Bytes of a range that is copied with one request: few enough that progress is visible and an interruption
/// is noticed, even on a slow disk.
const RANGE: u64 = 16 << 20;
/// Bytes of a range if the user limits the rate, so that the rate isn't exceeded by much.
const LIMITED: u64 = 256 << 10;

impl SendWorker<'_> {
    /// Makes the receiver copy the bytes of a part. The outer error is an error of the stream, the inner one
    /// a problem with the file.
    pub(super) fn ranges(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
    ) -> Result<Result<(), FileProblem>, StreamError> {
        let most = if self.shared.rate.is_some() { LIMITED } else { RANGE };
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let want = (end - at).min(most);
            self.limit(want as usize);
            let Some(within) = self.stream.within() else { return Err(StreamError::Cut) };
            match within.send_range(file, at, want, &mut self.clock)? {
                Ok(copied) if copied < want => return Ok(Err((ProblemKind::Changed, SHORTER.into()))),
                Ok(_) => {}
                Err(error) => return Ok(Err(read_problem(error))),
            }
            self.count(want);
            self.flush();
            at += want;
        }
        Ok(Ok(()))
    }
}
