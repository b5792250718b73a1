//! Starts a server that a tool needs at the receiving end.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::spec::Values;
use crate::spec::template::expand;
use crate::spec::tool::Server;

use super::bed::{Bed, End};
use super::process::{Group, Stop};

/// The longest time that a server may take until it is ready.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a server, on a guest or else at the receiving end, and waits until it reports that it is ready. The server's
/// outputs go to files whose names begin with `output`. The server ends when the returned value is dropped.
///
/// # Errors
/// A message with the reason why the server isn't ready.
pub(crate) fn start(
    server: &Server,
    bed: &dyn Bed,
    guest: Option<usize>,
    values: &Values,
    output: &Path,
    stop: &Stop,
) -> Result<Group, String> {
    let argv = expand(&server.command, values)?;
    let command = match guest {
        Some(guest) => bed.guest_command(guest, &argv),
        None => bed.command(End::B, &argv),
    };
    let command = command.map_err(|e| format!("the server: {e}"))?;
    let group = Group::start(command, output).map_err(|e| format!("the server: {e}"))?;
    let deadline = Instant::now() + START_TIMEOUT;
    while !group.written().contains(&server.ready) {
        let look = Instant::now() + Duration::from_millis(5);
        let ended = group.wait(look, stop).map_err(|e| e.to_string())?;
        if ended && !group.written().contains(&server.ready) {
            return Err(format!("the server ended early: {}", group.said()));
        }
        if Instant::now() > deadline {
            return Err(format!(
                "the server didn't print {:?} in {} s",
                server.ready,
                START_TIMEOUT.as_secs()
            ));
        }
    }
    Ok(group)
}
