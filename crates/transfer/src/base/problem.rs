//! Messages about single entries and about whole transfers.

use linerate_wire::control::{AbortKind, Change, Problem, ProblemKind};
use linerate_wire::path::{RelPath, printable};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The text at the end of every refusal, which tells the user who can lift the restriction.
pub const BY_WHOM: &str = "the far end's account restricts this login to `linerate agent --below DIR` (usually by a rule in authorized_keys); only the administrator of that account can change this";

/// Receives the events of one end; an agent's observer sends them to the client.
pub trait Observer: Send + Sync {
    /// Called when something is wrong with one entry; the other entries are still processed.
    fn problem(&self, problem: Problem);
    /// Called when the far end has reported that something is wrong with one of its entries.
    fn far_problem(&self, problem: Problem) {
        self.problem(problem);
    }
    /// Called with the changes that a receiver makes, or would make in a dry run.
    fn changes(&self, changes: Vec<Change>);
    /// Called at a sender when the contents of the file that was reported as a change at this path have been sent, and
    /// at a receiver when the file is in place. It is called only if changes are reported, and only by the client's own
    /// end.
    fn moved(&self, _path: &RelPath) {}
    /// Called when the far end gives up; the far end has sent the reason before.
    fn far_end_gave_up(&self) {}
    /// Called with a remark for the user, for example that the data doesn't take the direct way.
    fn note(&self, note: &str);
}

/// The reason why a whole transfer ended early.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The arguments can't be used, for example because the destination doesn't exist, or because several sources have
    /// a file as their destination.
    #[error("{0}")]
    Arguments(String),
    /// None of the sources exists.
    #[error("{0}")]
    NoSource(String),
    /// The far end is gone, or doesn't speak the protocol.
    #[error("{0}")]
    FarEnd(String),
    /// The far end sends a message that isn't allowed at this point.
    #[error("{0}")]
    Breach(String),
    /// The far end's data breaks the protocol.
    #[error("{0}")]
    BadData(String),
    /// The two programs are incompatible.
    #[error("{0}")]
    Version(String),
    /// Something failed during the transfer.
    #[error("{0}")]
    Failed(String),
    /// A connection broke. The other end may still send the reason over another connection.
    #[error("{0}")]
    Cut(String),
    /// Another run of the same command is still at work.
    #[error("{0}")]
    Busy(String),
    /// The user interrupted the transfer.
    #[error("interrupted")]
    Interrupted,
}

impl TransferError {
    /// The kind of this error, as it is sent to the other end.
    pub fn abort_kind(&self) -> AbortKind {
        match self {
            Self::Arguments(_) | Self::NoSource(_) => AbortKind::Arguments,
            Self::Interrupted => AbortKind::Interrupted,
            Self::Cut(_) => AbortKind::Lost,
            Self::Busy(_) => AbortKind::Busy,
            Self::FarEnd(_) | Self::Breach(_) | Self::BadData(_) | Self::Version(_) | Self::Failed(_) => {
                AbortKind::Failed
            }
        }
    }

    /// True if the far end broke the protocol. A later run that resumes the transfer then doesn't use the data that the
    /// far end sent.
    pub fn is_breach(&self) -> bool {
        matches!(self, Self::Breach(_) | Self::BadData(_))
    }

    /// Converts the reason and kind of an abort message from the other end into an error.
    pub fn from_abort(reason: String, kind: AbortKind) -> Self {
        match kind {
            AbortKind::Arguments => Self::Arguments(reason),
            AbortKind::Failed => Self::Failed(reason),
            AbortKind::Interrupted => Self::Interrupted,
            AbortKind::Lost => Self::Cut(reason),
            AbortKind::Busy => Self::Busy(reason),
        }
    }
}

/// The reason why an entry is refused. An honest far end never sends such an entry.
#[derive(Debug, thiserror::Error)]
#[error("{why}{}", if path.is_root() { String::new() } else { format!(": '{}'", printable(path.as_bytes())) })]
pub struct Refused {
    /// The entry's path below its source.
    pub path: RelPath,
    /// The reason.
    pub why: &'static str,
}

/// A problem with the entry at `path`.
pub fn problem(path: impl AsRef<OsStr>, kind: ProblemKind, message: impl Into<String>) -> Problem {
    Problem { path: path.as_ref().as_bytes().to_vec(), message: message.into(), kind }
}
