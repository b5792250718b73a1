//! Runs one command in a lab that exists as long as the command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use linerate_sys::child::die_with_parent;
use linerate_sys::netns;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::LabError;
use crate::lab::{End, Lab};
use crate::options::LabOptions;
use crate::process::wait_until;
use crate::slurm;

/// The time that a command has to end after SIGTERM or SIGHUP.
const GRACE: Duration = Duration::from_secs(5);

/// Makes a lab, runs `argv` on host a with this process's stdio and [`Lab::environment`], takes the lab down,
/// and returns the exit code of a shell: the command's own, 128 + N after signal N, 126 or 127 for a command
/// that can't be started.
///
/// SIGTERM and SIGHUP are forwarded to the command, which then has five seconds to end. SIGINT and SIGQUIT
/// are also forwarded, without a time limit, unless they come from the terminal: the terminal itself sends
/// them to the command.
///
/// # Errors
/// The errors of [`Lab::up`] and [`Lab::down`].
pub fn run(options: &LabOptions, argv: &[OsString]) -> Result<u8, LabError> {
    // The handlers are installed before anything is created: from here on, a signal can't end this process
    // without its cleanup.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD]);
    let mut signals = signals.map_err(|error| failed(argv, &error))?;
    let lab = Lab::up(options)?;
    if let Some(signal) = signals.pending().find(|signal| *signal != SIGCHLD) {
        lab.down()?;
        return Ok(code_of_signal(signal));
    }
    let code = match start(&lab, argv) {
        Ok(child) => supervise(child, &mut signals).map_err(|error| failed(argv, &error)),
        Err(error) => Ok(code_of_start(argv, &error)),
    };
    lab.down()?;
    code
}

fn start(lab: &Lab, argv: &[OsString]) -> io::Result<Child> {
    let mut command = lab.place(End::A).command(argv)?;
    die_with_parent(&mut command, Signal::TERM);
    if let Some(host) = lab.description().site_hosts().next() {
        netns::name_host(&mut command, host.name.clone());
    }
    if lab.description().slurm.is_some() {
        slurm::forget_other_clusters(&mut command);
    }
    command.envs(lab.environment()).spawn()
}

fn supervise(mut child: Child, signals: &mut Signals) -> io::Result<u8> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(code_of_exit(status));
        }
        // A signal that arrived since the last check is still pending, so none is missed between the check
        // and this wait.
        for signal in signals.wait().collect::<Vec<_>>() {
            match signal {
                SIGTERM | SIGHUP => return end(child, signal),
                SIGINT | SIGQUIT if !comes_from_terminal() => send(&child, signal),
                _ => {}
            }
        }
    }
}

fn end(mut child: Child, signal: i32) -> io::Result<u8> {
    send(&child, signal);
    if !wait_until(GRACE, || !matches!(child.try_wait(), Ok(None))) {
        child.kill()?;
    }
    child.wait().map(code_of_exit)
}

fn send(child: &Child, signal: i32) {
    // This process hasn't waited for the command yet, so the command's number can't have been reused. If the
    // command has just ended, the signal has no effect.
    let pid = Pid::from_child(child);
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// True if this process is in the foreground of a terminal. Then keys such as Ctrl-C signal the command as
/// well.
fn comes_from_terminal() -> bool {
    let foreground =
        std::fs::File::open("/dev/tty").ok().and_then(|tty| rustix::termios::tcgetpgrp(tty).ok());
    foreground == Some(rustix::process::getpgrp())
}

fn code_of_exit(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

fn code_of_start(argv: &[OsString], error: &io::Error) -> u8 {
    eprintln!("linerate: {}", failed(argv, error));
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

fn failed(argv: &[OsString], error: &io::Error) -> LabError {
    let command =
        argv.first().map_or_else(|| "the command".into(), |program| program.to_string_lossy().into_owned());
    LabError::Command { command, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_as_a_shell_gives_them() {
        assert_eq!(code_of_exit(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code_of_exit(ExitStatus::from_raw(9)), 137);
        assert_eq!(code_of_signal(SIGTERM), 143);
        assert_eq!(code_of_start(&["x".into()], &io::ErrorKind::NotFound.into()), 127);
        assert_eq!(code_of_start(&["x".into()], &io::ErrorKind::PermissionDenied.into()), 126);
    }
}
