//! A command that ends with the connection over which it was started.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// How long the command gets to end when it is asked.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a command without input, as the leader of a group that is ended when nobody reads this process's
/// standard output any more: a remote shell that was killed leaves its commands running, and they would
/// disturb what follows. Gives the command's exit code, 128 + N if signal N ended it.
///
/// # Errors
/// The command can't be started or waited for.
pub fn hold(argv: &[OsString]) -> io::Result<u8> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::other("there is no command to run"))?;
    let mut child = Command::new(program).args(arguments).stdin(Stdio::null()).process_group(0).spawn()?;
    let group = Pid::from_child(&child);
    let handle = pidfd_open(group, PidfdFlags::empty())?;
    if wait(&handle, None)? {
        // The command isn't waited for yet, so the number of its group is still its own.
        let _ = kill_process_group(group, Signal::TERM);
        wait(&handle, Some(GRACE))?;
    }
    // Processes that the command leaves behind; there may be none.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Waits for the command's end, or where there is no time for it, also for that of the output's reader. True
/// for the latter.
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
