//! The far end of a command: the remote shell that holds the agent, from its start to its end.

use linerate_remote::far_end::{FarEnd, Shell};
use linerate_transfer::problem::Observer;
use linerate_transfer::session::Session;
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::AtomicBool;

use super::{Failure, Output};
use crate::reach::not_started;

/// Pipes to an agent, and the remote shell that holds them.
pub type Pipes = ((ChildStdout, ChildStdin), Shell);

/// Starts the far end's agent.
///
/// # Errors
/// Where the login fails or no agent can be run there.
pub fn start(far_end: &FarEnd, output: &Output, interrupted: &AtomicBool) -> Result<Pipes, Failure> {
    let agent = far_end.start(&|note| output.note(note), interrupted).map_err(|error| {
        let (message, code) = not_started(&error, interrupted);
        Failure(message, code)
    })?;
    let (shell, reader, writer) = agent.into_parts();
    Ok(((reader, writer), shell))
}

/// Ends the control channel and waits for the remote shell, so that what it used is counted.
pub fn end(session: Session, shell: &mut Shell) {
    drop(session);
    shell.end();
}
