//! The failure of a whole command.

use linerate_transfer::problem::TransferError;

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
