//! The failure of a whole command.

use linerate_transfer::problem::TransferError;
use linerate_wire::path::printable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::exit::Code;

/// A failure: the message for the user and the exit code. `main` prints the message.
#[derive(Debug)]
pub struct Failure(pub String, pub Code);

impl Failure {
    /// A failure because the arguments are invalid.
    pub fn usage(message: String) -> Self {
        Self(message, Code::Usage)
    }

    /// A failure of the whole command.
    pub fn failed(message: String) -> Self {
        Self(message, Code::Failed)
    }
}

impl Failure {
    /// The failure with the host's name before its message. A failure by interruption isn't changed.
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
