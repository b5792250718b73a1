//! The exit codes. A code has the same meaning for every command. Each command's help lists the codes that it
//! uses.

use linerate_transfer::problem::TransferError;
use std::process::ExitCode;

/// An exit code and its meaning, as the help of a command shows it.
pub type Meaning = (Code, &'static str);

/// The exit codes with the same meaning for every command, with these meanings.
pub const FAILED: Meaning =
    (Code::Failed, "the command failed as a whole, or its output could not be written");
pub const USAGE: Meaning = (Code::Usage, "the arguments are wrong");
pub const FAR_END: Meaning =
    (Code::FarEnd, "the far end could not be started or ended early, or the connection was lost");
pub const VERSION: Meaning = (Code::Version, "the versions of the two ends don't match");
pub const NOT_RUN: Meaning = (Code::NotRun, "COMMAND can't be run");
pub const NOT_FOUND: Meaning = (Code::NotFound, "COMMAND doesn't exist");
pub const INTERRUPTED: Meaning = (Code::Interrupted, "interrupted");

/// The list of exit codes at the end of a command's help.
pub fn table(meanings: &[Meaning]) -> String {
    let lines = meanings.iter().map(|(code, meaning)| format!("\n  {:<4} {meaning}", code.number()));
    format!("Exit codes:{}", lines.collect::<String>())
}

/// The result of a command, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Everything succeeded.
    Done,
    /// The command failed as a whole, or its output could not be written.
    Failed,
    /// The command failed as a whole, because another run holds something that it needs. It may succeed later.
    Busy,
    /// The arguments are invalid.
    Usage,
    /// None of the sources exists. The exit code is that of `Usage`.
    NoSource,
    /// Some entries failed, or lost metadata.
    Partial,
    /// Some sources changed.
    Changed,
    /// The far end could not be started, or was lost.
    FarEnd,
    /// The remote shell ended by itself with this exit code. The command ends with the exit code of `FarEnd`;
    /// `linerate rsync` ends with the shell's own code if that is higher.
    Shell(u8),
    /// A finding of the doctor has at least the severity that the user stated.
    Found,
    /// The two ends' versions don't match.
    Version,
    /// An entry that was to be deleted still exists; rsync uses this code too.
    NotDeleted,
    /// The user's command can't be run; shells use this code too.
    NotRun,
    /// The user's command doesn't exist; shells use this code too.
    NotFound,
    /// The user interrupted the command with Ctrl-C.
    Interrupted,
    /// The user's command was run, and this is its exit code.
    Command(u8),
}

impl Code {
    /// The exit code of the process.
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed | Self::Busy => 1,
            Self::Usage | Self::NoSource => 2,
            Self::Partial => 3,
            Self::Changed => 4,
            Self::FarEnd | Self::Shell(_) => 5,
            Self::Found => 6,
            Self::Version => 7,
            Self::NotDeleted => 25,
            Self::NotRun => 126,
            Self::NotFound => 127,
            Self::Interrupted => 130,
            Self::Command(number) => number,
        }
    }

    /// The severity of this result. Of several results, the one with the highest severity is used.
    pub fn severity(self) -> u8 {
        match self.number() {
            0 => 0,
            // The order is: results whose copied entries can be used; failures that a rerun may repair; failures
            // that only the user can repair.
            4 => 1,
            25 => 2,
            3 => 3,
            5 => 4,
            1 => 5,
            7 => 6,
            2 => 7,
            _ => 8,
        }
    }

    /// The result of a transfer that succeeded as a whole. The arguments are the numbers of entries that failed,
    /// that changed, and that weren't deleted.
    pub fn of_problems(failed: u64, changed: u64, not_deleted: u64) -> Self {
        match (failed, changed, not_deleted) {
            (0, 0, 0) => Self::Done,
            (0, 0, _) => Self::NotDeleted,
            (0, _, _) => Self::Changed,
            _ => Self::Partial,
        }
    }
}

impl From<&TransferError> for Code {
    fn from(error: &TransferError) -> Self {
        match error {
            TransferError::Arguments(_) => Self::Usage,
            TransferError::NoSource(_) => Self::NoSource,
            TransferError::FarEnd(_) | TransferError::Breach(_) | TransferError::Cut(_) => Self::FarEnd,
            TransferError::Version(_) => Self::Version,
            TransferError::Failed(_) | TransferError::BadData(_) => Self::Failed,
            TransferError::Busy(_) => Self::Busy,
            TransferError::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}
