//! The failure of a whole command.

use linerate_transfer::problem::TransferError;
use linerate_wire::path::printable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::exit::Code;

/// A failure: the message for people, and the exit code. `main` prints the message.
#[derive(Debug)]
pub struct Failure(pub String, pub Code);

impl Failure {
    /// The arguments can't be served.
    pub fn usage(message: String) -> Self {
        Self(message, Code::Usage)
    }

    /// The command failed as a whole.
    pub fn failed(message: String) -> Self {
        Self(message, Code::Failed)
    }
}

impl Failure {
    /// The failure with its host in front; an interruption belongs to no host.
    pub fn at(self, host: &OsStr) -> Self {
        let Self(message, code) = self;
        let is_own = code == Code::Interrupted;
        Self(if is_own { message } else { format!("{}: {message}", printable(host.as_bytes())) }, code)
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let code = Code::from(&error);
        Self(error.to_string(), code)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(format!("{error:#}"))
    }
}
