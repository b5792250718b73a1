//! An agent that is asked about its host: facts, and processor times.

use linerate_wire::PROTOCOL;
use linerate_wire::control::{self, AGENT_LINE, Cookie, Hello, Job, Message};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::place::Place;

/// An agent under way.
pub struct HostAgent {
    child: Child,
    output: BufReader<ChildStdout>,
    input: ChildStdin,
}

impl HostAgent {
    /// Starts the `linerate` binary as an agent in `place`.
    ///
    /// # Errors
    /// Where it can't be started there or doesn't answer as an agent.
    pub fn start(place: &Place, linerate: &Path) -> io::Result<Self> {
        let mut command = place.command(&[linerate.as_os_str().to_owned(), "agent".into()])?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let input = child.stdin.take().expect("its input is a pipe");
        let mut agent = Self { child, output, input };
        agent.greet()?;
        Ok(agent)
    }

    fn greet(&mut self) -> io::Result<()> {
        self.wait_for_ready_line()?;
        let hello = Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").into(),
            public_key: Vec::new(),
            cookie: Cookie::default(),
        };
        self.say(&Message::Hello(hello))?;
        self.say(&Message::Job(Job::Observe))?;
        match self.hear()? {
            Message::Hello(there) if there.protocol == PROTOCOL => Ok(()),
            _ => Err(io::Error::other("the agent speaks another version of the protocol")),
        }
    }

    fn wait_for_ready_line(&mut self) -> io::Result<()> {
        let mut line = String::new();
        while line.trim_end() != AGENT_LINE {
            line.clear();
            if self.output.read_line(&mut line)? == 0 {
                return Err(io::Error::other("the program that was started is no linerate agent"));
            }
        }
        Ok(())
    }

    /// Facts about its host, as JSON of the `host` crate's `Facts`.
    ///
    /// # Errors
    /// Where the agent is gone.
    pub fn facts(&mut self) -> io::Result<Vec<u8>> {
        self.ask(&Message::AskFacts)
    }

    /// Its host's processor times, as JSON of the `host` crate's `CpuTimes`.
    ///
    /// # Errors
    /// Where the agent is gone.
    pub fn cpu(&mut self) -> io::Result<Vec<u8>> {
        self.ask(&Message::AskCpu)
    }

    fn ask(&mut self, question: &Message) -> io::Result<Vec<u8>> {
        self.say(question)?;
        match self.hear()? {
            Message::Answer(answer) => Ok(answer),
            _ => Err(io::Error::other("the agent answers out of turn")),
        }
    }

    fn say(&mut self, message: &Message) -> io::Result<()> {
        control::write(&mut self.input, message).map_err(io::Error::other)
    }

    fn hear(&mut self) -> io::Result<Message> {
        control::read(&mut self.output).map_err(io::Error::other)
    }
}

impl Drop for HostAgent {
    fn drop(&mut self) {
        // It is this object's own child, and nothing it does outlives the question.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
