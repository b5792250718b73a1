//! Exit codes: the same for every command, and documented in the help.

use linerate_transfer::problem::TransferError;
use std::process::ExitCode;

/// As the help shows them.
pub const CODES: &str = "\
Exit codes:
  0    all that was asked for is there, whole, verified and on stable storage
  1    it failed as a whole
  2    the arguments can't be served
  3    some entries failed, were skipped, lost what was to be kept, or differ
       (verify); the others are there
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
    Done,
    /// It failed as a whole, or its output could not be written.
    Failed,
    /// The arguments can't be served.
    Usage,
    /// Some entries failed, or lost something.
    Some,
    /// Some sources changed.
    Changed,
    /// The far end could not be started or went away.
    FarEnd,
    /// A doctor's finding is as severe as the user said.
    Found,
    /// The two ends' versions don't match.
    Version,
    /// Something stays that was to be deleted; rsync's code.
    NotDeleted,
    /// The user's command can't be run; a shell's code.
    NotRun,
    /// The user's command doesn't exist; a shell's code.
    NotFound,
    /// Ctrl-C.
    Interrupted,
    /// The exit code of the user's command, which was run.
    Command(u8),
}

impl Code {
    /// The number that the caller of the program gets.
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Some => 3,
            Self::Changed => 4,
            Self::FarEnd => 5,
            Self::Found => 6,
            Self::Version => 7,
            Self::NotDeleted => 25,
            Self::NotRun => 126,
            Self::NotFound => 127,
            Self::Interrupted => 130,
            Self::Command(number) => number,
        }
    }

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
            TransferError::FarEnd(_) | TransferError::Breach(_) | TransferError::Cut(_) => Self::FarEnd,
            TransferError::Version(_) => Self::Version,
            TransferError::Failed(_) | TransferError::BadData(_) => Self::Failed,
            TransferError::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}
