//! Starts an agent on another host through a remote shell.

use linerate_wire::path::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::greeting::{Greeting, Heard, TooMuch};
use crate::install::{Binary, bootstrap};

/// How to reach another host.
#[derive(Clone, Debug)]
pub struct FarEnd {
    /// The remote shell with its options: `ssh -p 2222`.
    pub rsh: Vec<OsString>,
    /// The host as the remote shell knows it, perhaps with a user.
    pub host: OsString,
    /// Bring the binary where it is missing.
    pub install: bool,
}

/// The process of the remote shell.
pub struct Shell(Child);

/// An agent that has said that it is ready.
pub struct Agent {
    shell: Shell,
    /// What the agent says.
    pub output: ChildStdout,
    /// What it is told.
    pub input: ChildStdin,
}

/// Why no agent runs at the far end.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The host's name would be an option of the remote shell.
    #[error("the host's name can't be empty or start with a dash")]
    Host,
    /// The remote shell can't be run.
    #[error("running {program} failed: {error}; is it installed?")]
    Shell {
        /// Its name.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// This program's own binary can't be read.
    #[error("reading this program's own binary failed: {0}")]
    OwnBinary(io::Error),
    /// The far host is another kind of machine.
    #[error(
        "the far host is {there}, this binary is for {here}: install linerate {version} there",
        version = env!("CARGO_PKG_VERSION")
    )]
    Machine {
        /// What `uname -sm` says there.
        there: String,
        /// What this binary is for.
        here: String,
    },
    /// Nothing could be started there.
    #[error("{0}")]
    Failed(String),
}

impl FarEnd {
    /// Starts the agent; `note` is told where the binary is brought along, and `interrupted` ends the wait.
    ///
    /// # Errors
    /// Where the login fails, or no agent can be run there.
    pub fn start(&self, note: &dyn Fn(&str), interrupted: &AtomicBool) -> Result<Agent, StartError> {
        if self.host.is_empty() || self.host.as_bytes().starts_with(b"-") {
            return Err(StartError::Host);
        }
        let binary = Binary::own().map_err(StartError::OwnBinary)?;
        let mut agent = self.spawn(&bootstrap(&binary, self.install))?;
        let (mut greeting, mut brought) = (Greeting::default(), false);
        loop {
            match agent.next_line(&mut greeting, interrupted)? {
                Heard::Ready => return Ok(agent),
                Heard::Failed(why) => return Err(StartError::Failed(why)),
                Heard::Noise => {}
                // It would be asked for again and again for nothing.
                Heard::Wanted(_) if brought => return Err(agent.never_ready(&greeting)),
                Heard::Wanted(there) => {
                    check_machine(&there)?;
                    self.bring(&binary, &mut agent, note);
                    brought = true;
                }
            }
        }
    }

    fn bring(&self, binary: &Binary, agent: &mut Agent, note: &dyn Fn(&str)) {
        note(&format!(
            "{} has no linerate {}: bringing this binary ({} MB) into ~/.cache/linerate there",
            printable(self.host.as_bytes()),
            env!("CARGO_PKG_VERSION"),
            binary.size / 1_000_000
        ));
        // A far end that goes away meanwhile is noticed where its next line is read.
        let _ = binary.bring(&mut agent.input);
    }

    fn spawn(&self, line: &str) -> Result<Agent, StartError> {
        let (program, options) = self.rsh.split_first().ok_or(StartError::Host)?;
        let mut command = Command::new(program);
        command.args(options).arg(&self.host).arg(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command
            .spawn()
            .map_err(|error| StartError::Shell { program: printable(program.as_bytes()), error })?;
        let output = child.stdout.take().expect("its output is a pipe");
        let input = child.stdin.take().expect("its input is a pipe");
        Ok(Agent { shell: Shell(child), output, input })
    }
}

impl Agent {
    /// What the next line says.
    fn next_line(&mut self, greeting: &mut Greeting, interrupted: &AtomicBool) -> Result<Heard, StartError> {
        loop {
            let mut byte = [0];
            if !self.is_readable() && !interrupted.load(Ordering::Relaxed) {
                continue;
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(self.never_ready(greeting));
            }
            match self.output.read(&mut byte) {
                Ok(1) => match greeting.take(byte[0]) {
                    Ok(Some(heard)) => return Ok(heard),
                    Ok(None) => {}
                    Err(TooMuch) => return Err(self.never_ready(greeting)),
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(self.never_ready(greeting)),
            }
        }
    }

    /// Waits a moment for the agent to say something, or to end.
    fn is_readable(&self) -> bool {
        let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        poll(&mut [PollFd::new(&self.output, PollFlags::IN)], Some(&moment)).is_ok_and(|ready| ready > 0)
    }

    fn never_ready(&mut self, greeting: &Greeting) -> StartError {
        let status = self.shell.end();
        let heard = match greeting.shown() {
            text if text.is_empty() => text,
            text => format!("; the far shell printed: {text}"),
        };
        StartError::Failed(format!(
            "no agent could be started at the far end: the remote shell ended ({status}) before it answered{heard}"
        ))
    }

    /// The remote shell, and the two pipes.
    pub fn into_parts(self) -> (Shell, ChildStdout, ChildStdin) {
        (self.shell, self.output, self.input)
    }
}

impl Shell {
    /// Waits a moment for it to end by itself, then ends it: whatever it still does is of no use. Says how it ended.
    pub fn end(&mut self) -> String {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            match self.0.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Ok(Some(status)) => return status.to_string(),
                Err(error) => return error.to_string(),
            }
        }
        // It is this object's own child.
        let _ = self.0.kill();
        self.0.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

fn check_machine(there: &[u8]) -> Result<(), StartError> {
    let here = format!("Linux {}", std::env::consts::ARCH);
    if there == here.as_bytes() {
        return Ok(());
    }
    Err(StartError::Machine { there: printable(there), here })
}

/// The options with which ssh runs an agent and nothing else: no terminal, no forwarding, no other command.
pub fn quiet_ssh_options() -> impl Iterator<Item = &'static OsStr> {
    ["-x", "-T", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oRemoteCommand=none"]
        .into_iter()
        .map(OsStr::new)
}
