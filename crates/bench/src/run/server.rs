//! A server that a tool needs at the receiving end.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::spec::Values;
use crate::spec::template::expand;
use crate::spec::tool::Server;

use super::bed::{Bed, End};
use super::process::{Group, Stop};

/// How long a server may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts a server and waits until it says that it is ready. It ends when what is returned is dropped.
///
/// # Errors
/// Why it isn't ready, for people.
pub(crate) fn start(
    server: &Server,
    bed: &dyn Bed,
    values: &Values,
    dir: &Path,
    stop: &Stop,
) -> Result<Group, String> {
    let argv = expand(&server.command, values)?;
    let command = bed.command(End::B, &argv).map_err(|e| format!("the server: {e}"))?;
    let group = Group::start(command, &dir.join("server")).map_err(|e| format!("the server: {e}"))?;
    let deadline = Instant::now() + PATIENCE;
    while !group.written().contains(&server.ready) {
        let look = Instant::now() + Duration::from_millis(5);
        let ended = group.wait(look, stop).map_err(|e| e.to_string())?;
        if ended && !group.written().contains(&server.ready) {
            return Err(format!("the server ended early: {}", group.said()));
        }
        if Instant::now() > deadline {
            return Err(format!("the server didn't print {:?} in {} s", server.ready, PATIENCE.as_secs()));
        }
    }
    Ok(group)
}
