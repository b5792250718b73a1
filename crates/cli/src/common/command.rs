//! Runs a command while this program measures it.

use linerate_doctor::limiter::DeviceBytes;
use linerate_sys::usage::{ProcessUsage, UsageOf, usage};
use linerate_wire::path::printable;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::failure::Failure;
use crate::exit::Code;

/// A running command.
pub struct Running {
    pid: u32,
    begun: Instant,
    ended: Receiver<io::Result<(ExitStatus, Instant)>>,
    /// The resource usage of this process's children before the command was started.
    before: ProcessUsage,
}

/// How a command ended, and the resources that it used.
pub struct Ended {
    /// The command's exit code, or 128 plus the number of the signal that ended it.
    pub code: u8,
    /// The exit code or the signal as text.
    pub reported: String,
    /// The wall-clock time from the start of the command to its end.
    pub time: Duration,
    /// The processor seconds of the command and of all its descendants that were waited for.
    pub cpu_seconds: f64,
    /// The bytes that these processes read from devices and wrote to devices.
    pub devices: DeviceBytes,
}

impl Running {
    /// Starts the command. If this process needs standard output itself (`aside`), the command's standard
    /// output becomes standard error.
    pub fn start(words: &[OsString], aside: bool) -> Result<Self, Failure> {
        let (program, arguments) = words.split_first().ok_or_else(|| Failure::failed("no command".into()))?;
        let mut command = Command::new(program);
        command.args(arguments);
        if aside {
            command.stdout(io::stderr());
        }
        let (before, begun) = (usage(UsageOf::Children), Instant::now());
        let child = command.spawn().map_err(|error| not_run(program, &error))?;
        let (pid, ended) = (child.id(), watch(child));
        Ok(Self { pid, begun, ended, before })
    }

    /// Waits at most for `patience` until the command ends; `None` if it is still running.
    pub fn wait(&self, patience: Duration) -> Result<Option<Ended>, Failure> {
        match self.ended.recv_timeout(patience) {
            Ok(Ok((status, end))) => Ok(Some(self.end(status, end))),
            Ok(Err(error)) => Err(Failure::failed(format!("waiting for the command: {error}"))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Failure::failed("an error in linerate stopped the wait for the command".into()))
            }
        }
    }

    fn end(&self, status: ExitStatus, end: Instant) -> Ended {
        let signal = status.signal().map(|signal| 128 + signal);
        let code = status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(255);
        let reported = match status.signal() {
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("exit {code}"),
        };
        let (now, before) = (usage(UsageOf::Children), &self.before);
        let cpu_seconds = (now.cpu_seconds - before.cpu_seconds).max(0.0);
        let devices = DeviceBytes {
            read: now.device_read.saturating_sub(before.device_read),
            written: now.device_written.saturating_sub(before.device_written),
        };
        Ended { code, reported, time: end.duration_since(self.begun), cpu_seconds, devices }
    }

    /// Sends a signal to the command.
    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
            // The command may have ended just before.
            let _ = kill_process(pid, signal);
        }
    }
}

fn watch(mut child: Child) -> Receiver<io::Result<(ExitStatus, Instant)>> {
    let (sender, ended) = channel();
    thread::spawn(move || {
        let status = child.wait().map(|status| (status, Instant::now()));
        // If this program has failed meanwhile, no thread waits for the command any more.
        let _ = sender.send(status);
    });
    ended
}

/// The failure to start a program, with a shell's exit codes: 127 if the program doesn't exist, 126 if it
/// can't be run.
fn not_run(program: &OsString, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { Code::NotFound } else { Code::NotRun };
    Failure(format!("running {}: {error}", printable(program.as_bytes())), code)
}
