//! Exit codes: the same for every command, and documented in the help.

use linerate_transfer::problem::TransferError;
use std::process::ExitCode;

/// As the help shows them.
pub const CODES: &str = "\
Exit codes:
  0    all that was asked for is there, whole, verified and on stable storage
  1    it failed as a whole
  2    the arguments can't be served
  3    some entries failed, were skipped, or lost what was to be kept; the others
       are there
  4    some sources changed or vanished while they were read; the others are there
  5    the far end could not be started, or it or the connection went away
  6    doctor --fail-on: something is that bad
  7    the two ends' versions don't match
  25   not everything was deleted that the source doesn't have (sync --delete)
  130  interrupted";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Everything is there.
    Done = 0,
    /// It failed as a whole.
    Failed = 1,
    /// The arguments can't be served.
    Usage = 2,
    /// Some entries failed, or lost something.
    Some = 3,
    /// Some sources changed.
    Changed = 4,
    /// The far end could not be started or went away.
    FarEnd = 5,
    /// A doctor's finding is as bad as the user said.
    Found = 6,
    /// The two ends don't fit.
    Version = 7,
    /// Something stays that was to be deleted; rsync's code.
    NotDeleted = 25,
    /// A command of the user's can't be run, as shells tell it.
    NotRun = 126,
    /// There is no such command, as shells tell it.
    NotFound = 127,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Code {
    /// For entries that failed or changed while the transfer as a whole went through.
    pub fn of_problems(failed: u64, changed: u64, not_deleted: u64) -> Self {
        match (failed, changed, not_deleted) {
            (0, 0, 0) => Self::Done,
            (0, 0, _) => Self::NotDeleted,
            (0, _, _) => Self::Changed,
            _ => Self::Some,
        }
    }
}

impl From<&TransferError> for Code {
    fn from(error: &TransferError) -> Self {
        match error {
            TransferError::Arguments(_) => Self::Usage,
            TransferError::FarEnd(_) | TransferError::Cut(_) => Self::FarEnd,
            TransferError::Version(_) => Self::Version,
            TransferError::Failed(_) => Self::Failed,
            TransferError::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}
