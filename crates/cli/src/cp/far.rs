//! The far end of a command: the remote shell that holds the agent, from its start to its end.

use linerate_remote::far_end::{FarEnd, RemoteShell};
use linerate_remote::patience::PatientInput;
use linerate_transfer::problem::Observer;
use linerate_transfer::pulse::Pulse;
use linerate_transfer::session::Session;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{Failure, Output};
use crate::reach::not_started;

/// How long an agent may be silent where the user says nothing else, in seconds.
pub const SILENCE: u32 = 30;

/// Pipes to an agent, and the remote shell that holds them.
pub type Pipes = ((ChildStdout, PatientInput), RemoteShell);

/// Starts the far end's agent, which may be silent for `silence` seconds from then on; none for ever. The pulse is the session's.
///
/// # Errors
/// Where the login fails or lasts too long, or no agent can be run there.
pub fn start(
    far_end: &FarEnd,
    silence: Option<u32>,
    output: &Output,
    interrupted: &AtomicBool,
) -> Result<(Pipes, Arc<Pulse>), Failure> {
    let agent = far_end.start(&|note| output.note(note), interrupted).map_err(|error| {
        let (message, code) = not_started(&error, interrupted);
        Failure(message, code)
    })?;
    let (shell, reader, mut writer) = agent.into_parts();
    let silence = silence.map(|seconds| Duration::from_secs(seconds.into()));
    let pulse = Arc::new(Pulse::new(silence));
    let heard = pulse.clone();
    writer.wait(silence, move || heard.is_there());
    Ok((((reader, writer), shell), pulse))
}

/// Ends the control channel and waits for the remote shell, so that what it used is counted.
pub fn end(session: Session, shell: &mut RemoteShell) {
    drop(session);
    shell.end();
}
