//! A command that runs while this program measures.

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
    /// The usage of this process's children before the command began.
    before: ProcessUsage,
}

/// The end of a command.
pub struct Ended {
    /// Its exit code, or 128 and the number of the signal that ended it.
    pub code: u8,
    /// The exit code or signal, for people.
    pub told: String,
    /// Wall time from its start to its end.
    pub time: Duration,
    /// Processor seconds of the command and all its descendants that were waited for.
    pub cpu_seconds: f64,
    /// Bytes that these read from devices and wrote to them.
    pub devices: DeviceBytes,
}

impl Running {
    /// Starts the command. Its standard output becomes standard error if ours is needed.
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

    /// Waits up to this time for the command's end; none if it is still running.
    pub fn wait(&self, patience: Duration) -> Result<Option<Ended>, Failure> {
        match self.ended.recv_timeout(patience) {
            Ok(Ok((status, end))) => Ok(Some(self.end(status, end))),
            Ok(Err(error)) => Err(Failure::failed(format!("waiting for the command: {error}"))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Failure::failed("the command's end was missed".into()))
            }
        }
    }

    fn end(&self, status: ExitStatus, end: Instant) -> Ended {
        let signal = status.signal().map(|signal| 128 + signal);
        let code = status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(255);
        let told = match status.signal() {
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("exit {code}"),
        };
        let (now, before) = (usage(UsageOf::Children), &self.before);
        let cpu_seconds = (now.cpu_seconds - before.cpu_seconds).max(0.0);
        let devices = DeviceBytes {
            read: now.device_read.saturating_sub(before.device_read),
            written: now.device_written.saturating_sub(before.device_written),
        };
        Ended { code, told, time: end.duration_since(self.begun), cpu_seconds, devices }
    }

    /// Sends the command a signal.
    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
            // The command may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }
}

fn watch(mut child: Child) -> Receiver<io::Result<(ExitStatus, Instant)>> {
    let (sender, ended) = channel();
    thread::spawn(move || {
        let status = child.wait().map(|status| (status, Instant::now()));
        // After a failure of this program, nothing waits for the command any more.
        let _ = sender.send(status);
    });
    ended
}

/// A shell's exit codes: 127 if there is no such program, 126 if it can't be run.
fn not_run(program: &OsString, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { Code::NotFound } else { Code::NotRun };
    Failure(format!("running {}: {error}", printable(program.as_bytes())), code)
}
