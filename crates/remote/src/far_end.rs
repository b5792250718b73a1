//! Starts an agent on another host through a remote shell.

use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::agent_command::AgentCommand;
use crate::binary::{BESIDE, Binaries, Binary, FarPart, Parcel};
use crate::greeting::{Greeting, Heard, TooMuch};
use crate::install::{CopyTrust, bootstrap_by};
use crate::patience::{Login, Patience, PatientInput, is_readable};

/// The end of the error message if no program could be run at the far end, even after a binary that can't be run was
/// removed there.
const NOT_RUN: &str = ". Exit codes 126 and 127 mean that a program can't be run: the remote shell itself, a word of \
    --agent-command, or an agent in the far account's cache directory (~/.cache/linerate, or below its XDG_CACHE_HOME), whose \
    file system may be mounted noexec. Install linerate on the far host, or set XDG_CACHE_HOME of that account to a directory in which programs may run";

/// How to reach another host, and how to start an agent on it.
#[derive(Clone, Debug)]
pub struct FarEnd {
    /// The remote shell with its options, for example `ssh -p 2222`.
    pub rsh: Vec<OsString>,
    /// The host's name for the remote shell, perhaps in the form `USER@HOST`.
    pub host: OsString,
    /// True if a binary is copied to a host that has none of this program's version.
    pub install: bool,
    /// The part of linerate that is needed at the far end.
    pub part: FarPart,
    /// The command that calls the agent at the far end.
    pub command: AgentCommand,
    /// The time limits of the login.
    pub patience: Patience,
}

/// The process of the remote shell.
pub struct RemoteShell(Child);

/// A running agent at the far end, which has reported that it is ready.
pub struct Agent {
    shell: RemoteShell,
    /// The agent's standard output.
    pub output: ChildStdout,
    /// The agent's standard input.
    pub input: PatientInput,
}

/// The reason why no agent runs at the far end.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The host's name is empty, or begins with a dash, so that the remote shell would read the name as an option.
    #[error("the host's name can't be empty or start with a dash")]
    Host,
    /// The remote shell can't be run.
    #[error("running {program} failed: {error}; is it installed?")]
    Shell {
        /// The remote shell's name.
        program: String,
        /// The reason why the remote shell can't be run.
        error: io::Error,
    },
    /// The remote shell ended before it answered.
    #[error("{message}")]
    Ended {
        /// The error message, with the status and the output of the remote shell.
        message: String,
        /// The remote shell's exit code; `None` if it didn't end by itself.
        code: Option<u8>,
    },
    /// This program's own binary can't be read.
    #[error("reading this program's own binary failed: {0}")]
    OwnBinary(io::Error),
    /// The far host is another kind of machine, for which no binary is available.
    #[error(
        "the far host is {there}, for which this host has no binary{unfit}: install linerate {version} on the far host, or on this host the package linerate-agents, which has binaries for other machines ({BESIDE} beside this program's directory)",
        version = env!("CARGO_PKG_VERSION")
    )]
    Machine {
        /// The output of `uname -sm` at the far end.
        there: String,
        /// The reasons why the files for that kind of machine that are installed here can't be used; empty if no such
        /// files are installed.
        unfit: String,
    },
    /// No agent could be started at the far end, for the reason in this message.
    #[error("{0}")]
    Failed(String),
}

impl FarEnd {
    /// This far end, but with the whole program, not only the agent.
    #[must_use]
    pub fn with_program(self) -> Self {
        Self { part: FarPart::Program, ..self }
    }

    /// This far end, but with compression by ssh, which makes lists of files ten times smaller. Other remote shells are
    /// left unchanged, because they have no such option. The user's own options of ssh take precedence.
    #[must_use]
    pub fn with_compression(mut self) -> Self {
        let program = self.rsh.first().and_then(|program| Path::new(program).file_name());
        if program.is_some_and(|program| program == "ssh") {
            self.rsh.push("-oCompression=yes".into());
        }
        self
    }

    /// Starts the agent. `note` gets a message for the user if a binary is copied to the far end or the login is
    /// repeated. The wait ends if `interrupted` is set.
    ///
    /// # Errors
    /// If the login fails or lasts too long, or no agent can run there.
    pub fn start(&self, note: &dyn Fn(&str), interrupted: &AtomicBool) -> Result<Agent, StartError> {
        if self.host.is_empty() || self.host.as_bytes().starts_with(b"-") {
            return Err(StartError::Host);
        }
        let mut binaries = Binaries::installed().map_err(StartError::OwnBinary)?;
        let mut trust = CopyTrust::AsFound;
        // Each iteration either succeeds or fails, or excludes one more binary that can't be copied or run.
        loop {
            match self.start_by(&mut binaries, trust, note, interrupted) {
                Ok(Some(agent)) => return Ok(agent),
                Ok(None) => {}
                Err(StartError::Ended { message, code: Some(code @ (126 | 127)) })
                    if self.command.path().is_none() && !interrupted.load(Ordering::Relaxed) =>
                {
                    if trust == CopyTrust::Tried {
                        return Err(StartError::Ended { message: message + NOT_RUN, code: Some(code) });
                    }
                    note(&self.retrial(code));
                    trust = CopyTrust::Tried;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The message that the login is repeated, because the remote shell's exit code `code` shows that no program could
    /// be run.
    fn retrial(&self, code: u8) -> String {
        format!(
            "{}: exit code {code} before an agent answered: logging in again, without the agent in that account's cache directory",
            printable(self.host.as_bytes())
        )
    }

    /// Starts the agent as [`Self::start`] does. Returns `None` if the far shell waits for a binary that can't be
    /// copied, for example a damaged packed agent. This binary is then removed from `binaries`, so that the next login
    /// offers another binary.
    fn start_by(
        &self,
        binaries: &mut Binaries,
        trust: CopyTrust,
        note: &dyn Fn(&str),
        interrupted: &AtomicBool,
    ) -> Result<Option<Agent>, StartError> {
        let mut agent = self.spawn(&bootstrap_by(binaries, self.part, self.install, &self.command, trust))?;
        let (mut greeting, mut brought) = (Greeting::default(), false);
        let mut login = Login::begin(self.patience);
        loop {
            match agent.next_line(&mut greeting, &login, interrupted)? {
                Heard::Ready => return Ok(Some(agent)),
                Heard::Failed(why) => return Err(StartError::Failed(why)),
                Heard::Noise => login.heard(),
                // Copying the binary again would fail in the same way.
                Heard::Wanted { .. } if brought => return Err(agent.never_ready(&greeting)),
                Heard::Wanted { machine, unpackers } => {
                    let binary = self.binary(binaries, &machine)?.clone();
                    if let Err(why) = binary.check() {
                        agent.leave();
                        binaries.give_up(&binary.file, &why);
                        self.binary(binaries, &machine)?;
                        note(&given_up(&binary, &why));
                        return Ok(None);
                    }
                    let unread = |error| {
                        StartError::Failed(format!("reading {} failed: {error}", binary.file.display()))
                    };
                    let parcel = binary.parcel(unpackers).map_err(unread)?;
                    note(&self.announcement(&binary, parcel.length, binaries));
                    self.bring(parcel, &mut agent)?;
                    (login, brought) = (Login::begin(self.patience), true);
                }
            }
        }
    }

    /// The binary that is copied to a host of this kind of machine.
    fn binary<'a>(&self, binaries: &'a Binaries, machine: &[u8]) -> Result<&'a Binary, StartError> {
        let there = || StartError::Machine {
            there: printable(machine),
            unfit: binaries
                .why_unfit(machine)
                .map_or_else(String::new, |why| format!(" that can be copied ({why})")),
        };
        binaries.for_machine(machine, self.part).pop().ok_or_else(there)
    }

    /// The message that a binary is being copied, with a remark if only the agent is needed but the whole program is
    /// copied, or if the binary isn't static.
    fn announcement(&self, binary: &Binary, length: u64, binaries: &Binaries) -> String {
        let is_whole = binary.packed.is_none();
        let mut lacks = Vec::new();
        if is_whole && self.part == FarPart::Agent {
            let no_agent = "the whole program, because no packed agent is beside it".to_owned();
            let unfit = binaries.why_unfit(binary.machine.as_bytes());
            lacks.push(unfit.map_or(no_agent, |why| format!("the whole program: {why}")));
        }
        if is_whole && *binary == binaries.own && !cfg!(target_feature = "crt-static") {
            lacks.push("not static, so that host needs a C library as new as this host's".into());
        }
        let lacks = if lacks.is_empty() { String::new() } else { format!(" ({})", lacks.join("; ")) };
        format!(
            "{} ({}) has no linerate {}: copying {} ({:.1} MB) into that account's cache directory \
             (~/.cache/linerate, or below its XDG_CACHE_HOME){lacks}",
            printable(self.host.as_bytes()),
            binary.machine,
            env!("CARGO_PKG_VERSION"),
            if is_whole { "linerate" } else { "its agent" },
            length as f64 * 1e-6
        )
    }

    fn bring(&self, parcel: Parcel, agent: &mut Agent) -> Result<(), StartError> {
        match parcel.bring(&mut agent.input) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                agent.shell.end();
                let option = self.patience.option();
                Err(StartError::Failed(format!("copying the binary to the far end failed: {error}{option}")))
            }
            // The next line that is read shows whether the far end has ended meanwhile.
            _ => Ok(()),
        }
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
        let input = PatientInput::new(input, self.patience.of_writing());
        let input =
            input.map_err(|error| StartError::Failed(format!("the pipe to the remote shell: {error}")))?;
        Ok(Agent { shell: RemoteShell(child), output, input })
    }
}

impl Agent {
    /// Reads the next line of the far shell, and returns its meaning.
    fn next_line(
        &mut self,
        greeting: &mut Greeting,
        login: &Login,
        interrupted: &AtomicBool,
    ) -> Result<Heard, StartError> {
        loop {
            let mut byte = [0];
            let is_readable = is_readable(&self.output);
            if interrupted.load(Ordering::Relaxed) {
                return Err(self.never_ready(greeting));
            }
            if let Some(why) = login.too_long() {
                self.shell.end();
                return Err(StartError::Failed(format!("{why}{}", printed(greeting))));
            }
            if !is_readable {
                continue;
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

    fn never_ready(&mut self, greeting: &Greeting) -> StartError {
        let (status, code) = self.shell.end_with_code();
        let message = format!(
            "no agent could be started at the far end: the remote shell ended ({status}) before it answered{}",
            printed(greeting)
        );
        StartError::Ended { message, code }
    }

    /// Ends a remote shell that waits for a binary.
    fn leave(self) {
        let (mut shell, output, input) = self.into_parts();
        drop((output, input));
        shell.end();
    }

    /// The remote shell, the agent's output and its input.
    pub fn into_parts(self) -> (RemoteShell, ChildStdout, PatientInput) {
        (self.shell, self.output, self.input)
    }
}

impl RemoteShell {
    /// Waits for up to two seconds until the process ends by itself, else ends it. Returns the status of the process,
    /// for a message.
    pub fn end(&mut self) -> String {
        self.end_with_code().0
    }

    /// Ends the process as [`RemoteShell::end`] does. Returns the status of the process and, if it ended by itself, its
    /// exit code.
    fn end_with_code(&mut self) -> (String, Option<u8>) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            match self.0.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Ok(Some(status)) => {
                    return (status.to_string(), status.code().and_then(|code| code.try_into().ok()));
                }
                Err(error) => return (error.to_string(), None),
            }
        }
        // The process is a child of this process.
        let _ = self.0.kill();
        (self.0.wait().map_or_else(|error| error.to_string(), |status| status.to_string()), None)
    }
}

/// The message that a binary can't be copied, for the reason `why`.
fn given_up(binary: &Binary, why: &str) -> String {
    let file = printable(binary.file.as_os_str().as_bytes());
    format!(
        "{file} can't be copied: {why}; install that file again. Logging in again, to copy the whole program"
    )
}

/// The far shell's output, in a form that can be appended to an error message.
fn printed(greeting: &Greeting) -> String {
    match greeting.shown() {
        text if text.is_empty() => text,
        text => format!("; the far shell printed: {text}"),
    }
}

/// The options with which ssh only runs the agent: without terminal, without forwarding, and without commands from the
/// user's ssh configuration.
pub fn quiet_ssh_options() -> impl Iterator<Item = &'static OsStr> {
    ["-x", "-T", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oRemoteCommand=none"]
        .into_iter()
        .map(OsStr::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far_end(rsh: &[&str]) -> FarEnd {
        FarEnd {
            rsh: rsh.iter().map(OsString::from).collect(),
            host: "far".into(),
            install: false,
            part: FarPart::Agent,
            command: AgentCommand::default(),
            patience: Patience::LOGIN,
        }
    }

    #[test]
    fn only_ssh_is_asked_to_compress_and_after_the_users_options() {
        for (rsh, last) in [
            (&["ssh", "-oCompression=no"][..], "-oCompression=yes"),
            (&["/usr/bin/ssh"], "-oCompression=yes"),
            (&["sudo", "ssh"], "ssh"),
            (&["rsh", "-4"], "-4"),
        ] {
            let far = far_end(rsh).with_compression();
            assert_eq!(far.rsh.last().unwrap(), last, "{rsh:?}");
            assert!(far.rsh.iter().zip(rsh).all(|(word, given)| word == given), "{rsh:?}");
        }
    }
}
