//! Messages about single entries and about whole transfers.

use linerate_wire::control::{AbortKind, Change, Problem, ProblemKind};
use linerate_wire::path::{RelPath, printable};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Added to every refusal, so that the user knows whom to ask.
pub const BY_WHOM: &str = "the far end's account restricts this login to `linerate agent --below DIR` (as a rule in its \
                           authorized_keys), and only who keeps that account can change it";

/// Receives an end's events; the agent's sends them to the client.
pub trait Observer: Send + Sync {
    /// Something is wrong with one entry; the rest goes on.
    fn problem(&self, problem: Problem);
    /// Something is wrong with one entry at the far end, which has told so.
    fn far_problem(&self, problem: Problem) {
        self.problem(problem);
    }
    /// Changes that a receiver makes, or would make in a dry run.
    fn changes(&self, changes: Vec<Change>);
    /// The far end gives up, and has told why.
    fn far_end_gave_up(&self) {}
    /// A step that the user should know of: a detour, a slow way.
    fn note(&self, note: &str);
}

/// Why a whole transfer ended early.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The arguments can't be served: no such destination, several sources into a file.
    #[error("{0}")]
    Arguments(String),
    /// Not one of the sources is there.
    #[error("{0}")]
    NoSource(String),
    /// The far end is gone or speaks something else.
    #[error("{0}")]
    FarEnd(String),
    /// The far end says what it may not say.
    #[error("{0}")]
    Breach(String),
    /// The far end's data breaks the protocol.
    #[error("{0}")]
    BadData(String),
    /// The two programs don't fit.
    #[error("{0}")]
    Version(String),
    /// Something failed under way.
    #[error("{0}")]
    Failed(String),
    /// A connection broke, which may be the trace of a reason that the other end has yet to send.
    #[error("{0}")]
    Cut(String),
    /// Another run of the same command is at work.
    #[error("{0}")]
    Busy(String),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl TransferError {
    /// The kind of this error, as the other end gets it.
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

    /// True where the far end broke the protocol: nobody goes on with what it sent.
    pub fn is_breach(&self) -> bool {
        matches!(self, Self::Breach(_) | Self::BadData(_))
    }

    /// The other end's error.
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

/// Why an entry isn't admitted: an honest peer doesn't send it.
#[derive(Debug, thiserror::Error)]
#[error("{why}{}", if path.is_root() { String::new() } else { format!(": '{}'", printable(path.as_bytes())) })]
pub struct Refused {
    /// Below its source.
    pub path: RelPath,
    /// The reason.
    pub why: &'static str,
}

/// A problem with the entry at `path`.
pub fn problem(path: impl AsRef<OsStr>, kind: ProblemKind, message: impl Into<String>) -> Problem {
    Problem { path: path.as_ref().as_bytes().to_vec(), message: message.into(), kind }
}
