//! Runs a command, and ends it when the connection over which it was started closes.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a command without input, as the leader of a process group. The group is ended when no process reads this
/// process's standard output any more. Otherwise, the commands of a killed remote shell would continue to run and
/// disturb later runs. Returns the command's exit code, or 128 + N if signal N ended it.
///
/// # Errors
/// If the command can't be started or waited for.
pub fn hold(argv: &[OsString]) -> io::Result<u8> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::other("there is no command to run"))?;
    let mut child = Command::new(program).args(arguments).stdin(Stdio::null()).process_group(0).spawn()?;
    let group = Pid::from_child(&child);
    let handle = pidfd_open(group, PidfdFlags::empty())?;
    if wait(&handle, None)? {
        // The command wasn't reaped yet, so its group's number can't belong to another group.
        let _ = kill_process_group(group, Signal::TERM);
        wait(&handle, Some(GRACE))?;
    }
    // This ends processes that the command left running. If there are none, the call fails, so its error is ignored.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Waits until the command ends, or for `patience` at most. Without `patience`, also stops waiting when no process
/// reads the output any more, and then returns true.
fn wait(handle: &impl AsFd, patience: Option<Duration>) -> io::Result<bool> {
    let output = io::stdout();
    let timeout = patience.map(|patience| Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    });
    loop {
        let mut both = [PollFd::new(handle, PollFlags::IN), PollFd::new(&output, PollFlags::empty())];
        let watched = if patience.is_some() { &mut both[..1] } else { &mut both[..] };
        match poll(watched, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
            Ok(_) => return Ok(both[0].revents().is_empty() && !both[1].revents().is_empty()),
        }
    }
}
