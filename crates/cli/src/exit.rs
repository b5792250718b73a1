//! Exit codes: a number means the same for every command, whose help lists its own.

use linerate_transfer::problem::TransferError;
use std::process::ExitCode;

/// A code and its meaning, as a command's help shows it.
pub type Meaning = (Code, &'static str);

/// The meanings that codes have for every command.
pub const FAILED: Meaning = (Code::Failed, "it failed as a whole, or its output could not be written");
pub const USAGE: Meaning = (Code::Usage, "the arguments can't be served");
pub const FAR_END: Meaning =
    (Code::FarEnd, "the far end could not be started, or it or the connection went away");
pub const VERSION: Meaning = (Code::Version, "the two ends' versions don't match");
pub const NOT_RUN: Meaning = (Code::NotRun, "COMMAND can't be run");
pub const NOT_FOUND: Meaning = (Code::NotFound, "there is no such COMMAND");
pub const INTERRUPTED: Meaning = (Code::Interrupted, "interrupted");

/// The end of a command's help: its exit codes.
pub fn table(meanings: &[Meaning]) -> String {
    let lines = meanings.iter().map(|(code, meaning)| format!("\n  {:<4} {meaning}", code.number()));
    format!("Exit codes:{}", lines.collect::<String>())
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The command did everything.
    Done,
    /// The command failed as a whole, or its output could not be written.
    Failed,
    /// The command failed as a whole because another run of it is at work; a later try may help.
    Busy,
    /// The arguments can't be served.
    Usage,
    /// None of the sources exists. The number is that of `Usage`.
    NoSource,
    /// Some entries failed, or lost something.
    Some,
    /// Some sources changed.
    Changed,
    /// The far end could not be started or went away.
    FarEnd,
    /// The remote shell ended by itself, with this code. The number is that of `FarEnd`.
    Shell(u8),
    /// A doctor's finding is as severe as the user said.
    Found,
    /// The two ends' versions don't match.
    Version,
    /// Something that was to be deleted is still there; rsync's code.
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
            Self::Failed | Self::Busy => 1,
            Self::Usage | Self::NoSource => 2,
            Self::Some => 3,
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

    /// The severity: of several results the worst one counts.
    pub fn severity(self) -> u8 {
        match self.number() {
            0 => 0,
            // In this order: the copied entries can be used; a rerun may help; only the user can help.
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
