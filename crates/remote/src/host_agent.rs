//! An agent that answers questions about its host: about facts and processor times, and with a recording of the host's
//! counters.

use linerate_wire::PROTOCOL;
use linerate_wire::control::{self, Cookie, Hello, Job, Message};
use linerate_wire::identity::differing;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use crate::far_end::{Agent, RemoteShell};
use crate::greeting::{Greeting, Heard};
use crate::patience::{Login, MOMENT_OF_WAITING, Patience, PatientInput, is_readable};
use crate::place::Place;

pub use linerate_wire::control::Sampling;

/// The most bytes of a recording that are accepted in one answer. An honest agent keeps at most a quarter of this
/// number.
const MOST_SAMPLES: usize = 256 << 20;

/// The longest time for which an agent may be silent while this end waits for an answer. The agent's longest work,
/// reading all facts of a host with many ports and mounts, takes seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const UNANSWERED: &str = "the agent has sent nothing for 60 s, while this end waited for its answer: a process of that host hangs (as \
     if the server of a mounted file system is gone: try 'df' there), or full packets from there don't arrive (try 'linerate doctor \
     --path local HOST')";

/// The error that the agent speaks another version of the protocol. This error is the inner error of an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AnotherProtocol(String);

impl AnotherProtocol {
    /// True if `error` was caused by an agent that speaks another version of the protocol.
    #[must_use]
    pub fn is_reason(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

/// A running agent that answers questions about its host.
pub struct HostAgent {
    // This field comes before the process, because the channel must be closed before this end waits for the process to
    // end.
    input: PatientInput,
    output: BufReader<ChildStdout>,
    _process: AgentProcess,
}

impl HostAgent {
    /// Starts the `linerate` binary as an agent in `place`.
    ///
    /// # Errors
    /// If the agent can't be started in `place`, or the program doesn't answer as an agent.
    pub fn start(place: &Place, linerate: &Path) -> io::Result<Self> {
        let mut command = place.command(&[linerate.as_os_str().to_owned(), "agent".into()])?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let input = child.stdin.take().expect("its input is a pipe");
        let process = AgentProcess::Child(child);
        let mut agent = Self { input: PatientInput::new(input, None)?, output, _process: process };
        agent.wait_for_ready_line()?;
        agent.greet()?;
        Ok(agent)
    }

    /// Takes over an agent that was started on another host (see [`crate::far_end::FarEnd::start`]).
    ///
    /// # Errors
    /// If the agent speaks another version of the protocol, or has ended.
    pub fn over(agent: Agent) -> io::Result<Self> {
        let (shell, output, input) = agent.into_parts();
        let process = AgentProcess::Shell(shell);
        let mut agent = Self { input, output: BufReader::new(output), _process: process };
        agent.greet()?;
        Ok(agent)
    }

    fn wait_for_ready_line(&mut self) -> io::Result<()> {
        let (login, mut greeting) = (Login::begin(Patience::LOGIN), Greeting::default());
        loop {
            self.wait_readable(&login)?;
            let mut byte = [0];
            if self.output.read(&mut byte)? == 0 {
                return Err(io::Error::other("the started program isn't a linerate agent"));
            }
            match greeting.take(byte[0]) {
                Ok(Some(Heard::Ready)) => return Ok(()),
                Ok(_) => {}
                Err(_) => {
                    return Err(io::Error::other(
                        "the started program is no agent of linerate: it printed too much before an agent's first line",
                    ));
                }
            }
        }
    }

    /// Waits until more of the agent's output has come, within the limits of `login`.
    fn wait_readable(&self, login: &Login) -> io::Result<()> {
        while !has_more(&self.output) {
            if let Some(why) = login.too_long() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
        Ok(())
    }

    fn greet(&mut self) -> io::Result<()> {
        let hello = Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").into(),
            public_key: Vec::new(),
            cookie: Cookie::default(),
        };
        self.say(&Message::Hello(hello))?;
        self.say(&Message::Job(Job::Observe))?;
        self.wait_readable(&Login::begin(Patience::LOGIN))?;
        match self.hear()? {
            Message::Hello(there) if there.protocol == PROTOCOL => Ok(()),
            Message::Hello(there) => {
                let reported = differing("the far end", &there.version, there.protocol);
                Err(io::Error::other(AnotherProtocol(reported)))
            }
            other => Err(unexpected(other)),
        }
    }

    /// Asks for facts about the agent's host and about the file systems of `paths`; if `paths` is empty, about those of
    /// `/` and of the agent's current directory. Returns a compressed snapshot for the `host` crate's
    /// `Snapshot::from_bytes`.
    ///
    /// # Errors
    /// If the agent has ended.
    pub fn facts(&mut self, paths: &[PathBuf]) -> io::Result<Vec<u8>> {
        let paths = paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        self.ask(&Message::AskFacts(paths))
    }

    /// Asks for the processor times of the agent's host. Returns JSON of the `host` crate's `CpuTimes`.
    ///
    /// # Errors
    /// If the agent has ended.
    pub fn cpu(&mut self) -> io::Result<Vec<u8>> {
        self.ask(&Message::AskCpu)
    }

    /// Starts to record the host's counters; network counters are those of the agent's own network namespace. When this
    /// method returns, the first sample has been recorded. Returns the interval between two samples that the agent
    /// uses, from 20 ms to a minute.
    ///
    /// # Errors
    /// If the agent can't record, or has ended.
    pub fn start_sampling(&mut self, sampling: &Sampling) -> io::Result<Duration> {
        let answer = self.ask(&Message::StartSampling(sampling.clone()))?;
        let milliseconds = std::str::from_utf8(&answer).ok().and_then(|text| text.trim().parse().ok());
        milliseconds
            .map(Duration::from_millis)
            .ok_or_else(|| io::Error::other("the agent's answer lacks the sampling interval"))
    }

    /// Returns the bytes of the samples since the last call, which are the beginning or a continuation of the
    /// recording.
    ///
    /// # Errors
    /// If no recording runs, or the agent has ended.
    pub fn take_samples(&mut self) -> io::Result<Vec<u8>> {
        self.samples(false)
    }

    /// Records one more sample, ends the recording, and returns the bytes of the samples since the last call of
    /// [`HostAgent::take_samples`]. If there was no such call, these bytes are the whole recording, for the `host`
    /// crate's `sample::Recording::parse`.
    ///
    /// # Errors
    /// If no recording runs, or the agent has ended.
    pub fn stop_sampling(&mut self) -> io::Result<Vec<u8>> {
        self.samples(true)
    }

    fn samples(&mut self, last: bool) -> io::Result<Vec<u8>> {
        self.say(&Message::TakeSamples { last })?;
        let mut taken = Vec::new();
        loop {
            match self.hear()? {
                Message::Samples(piece) if piece.is_empty() => return Ok(taken),
                Message::Samples(piece) if taken.len() < MOST_SAMPLES => taken.extend(piece),
                other => return Err(unexpected(other)),
            }
        }
    }

    fn ask(&mut self, question: &Message) -> io::Result<Vec<u8>> {
        self.say(question)?;
        match self.hear()? {
            Message::Answer(answer) => Ok(answer),
            other => Err(unexpected(other)),
        }
    }

    /// Sends a message. If the agent has ended and has sent a reason, the error is this reason.
    fn say(&mut self, message: &Message) -> io::Result<()> {
        control::write(&mut self.input, message).map_err(|error| match self.hear() {
            Ok(abort @ Message::Abort { .. }) => unexpected(abort),
            _ => io::Error::other(error),
        })
    }

    fn hear(&mut self) -> io::Result<Message> {
        let mut output = PatientOutput { output: &mut self.output, longest: ANSWER_TIMEOUT };
        control::read(&mut output).map_err(io::Error::other)
    }
}

/// The output of an agent, which may be silent for `longest`. The time is counted in waits, not by the clock, so that
/// time in which this process was stopped doesn't count.
struct PatientOutput<'a> {
    output: &'a mut BufReader<ChildStdout>,
    longest: Duration,
}

impl Read for PatientOutput<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut waited = Duration::ZERO;
        while !has_more(self.output) {
            waited += MOMENT_OF_WAITING;
            if waited >= self.longest {
                return Err(io::Error::new(io::ErrorKind::TimedOut, UNANSWERED));
            }
        }
        self.output.read(buffer)
    }
}

/// Waits for at most [`MOMENT_OF_WAITING`] until an agent's output can be read or has ended; false if that time has
/// passed.
fn has_more(output: &BufReader<ChildStdout>) -> bool {
    !output.buffer().is_empty() || is_readable(output.get_ref())
}

/// The error for an unexpected message: the agent's own reason, if the message contains one.
fn unexpected(message: Message) -> io::Error {
    match message {
        Message::Abort { reason, .. } => io::Error::other(linerate_wire::path::printable(reason.as_bytes())),
        _ => io::Error::other("the agent sends an unexpected message"),
    }
}

/// The agent's process.
enum AgentProcess {
    Child(Child),
    Shell(RemoteShell),
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        match self {
            // The agent is a child of this process, and none of its work needs to continue.
            Self::Child(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Self::Shell(shell) => drop(shell.end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_agent_that_is_silent_is_given_up_and_one_that_answers_is_heard() {
        let read = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let longest = Duration::from_secs(2);
            let read = PatientOutput { output: &mut output, longest }.read_to_end(&mut Vec::new());
            child.kill().unwrap();
            child.wait().unwrap();
            read
        };
        assert_eq!(read("echo a; sleep 0.5; echo b").unwrap(), 4);
        assert_eq!(read("echo a; exec sleep 60").unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
