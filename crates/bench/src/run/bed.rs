//! The interface of a test bed: two ends, a link, and their properties.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use linerate_host::{CpuTimes, Facts, Snapshot};
pub use linerate_lab::End;
use linerate_remote::host_agent::HostAgent;
use linerate_remote::place::Place;

use super::samples::{self, Followed};
use crate::data::{Answer, Task, Tree};
use crate::record::Link;
use crate::spec::template::one;
use crate::spec::{Value, Values};

/// A test bed: two hosts that one or more links connect.
pub trait Bed {
    /// The command that runs `argv` at an end, with the bed's environment.
    ///
    /// # Errors
    /// If the end can't run commands.
    fn command(&self, end: End, argv: &[OsString]) -> io::Result<Command>;

    /// The path of an ssh configuration file. With `ssh -F` and this file, the sending end can log in to
    /// [`Bed::host`].
    fn ssh_config(&self) -> PathBuf;

    /// The host name that ssh uses for the receiving end.
    fn host(&self) -> String;

    /// The receiving end's address on the first link.
    fn address(&self) -> String;

    /// The addresses to which copies of a tool connect in turn: the receiving end's addresses, one on each
    /// link, or the guests' addresses.
    fn addresses(&self) -> Vec<String> {
        vec![self.address()]
    }

    /// The reason why the bed doesn't have the link that the study requests, with advice; `None` if it does.
    fn lacks(&self) -> Option<String> {
        None
    }

    /// The hosts to which copies of a tool send files in turn, by their names for ssh: guests with their own files, or
    /// the receiving end.
    fn receivers(&self) -> Vec<String> {
        vec![self.host()]
    }

    /// The directory for received files at each receiver, if it differs from [`Bed::work`].
    fn arrivals(&self) -> Option<PathBuf> {
        self.work()
    }

    /// Performs a task on the files of the receiver with this number, from 0.
    ///
    /// # Errors
    /// The errors of [`Bed::files`].
    fn receiver_files(&self, _receiver: usize, task: &Task) -> io::Result<Answer> {
        self.files(End::B, task)
    }

    /// The network interface of an end on the first link, if it is known.
    fn interface(&self, _end: End) -> Option<String> {
        None
    }

    /// The number of hosts behind the receiving end's link. If there are any, servers run on these hosts and not at the
    /// receiving end itself.
    fn guests(&self) -> usize {
        0
    }

    /// The command that runs `argv` on the guest with this number, from 0.
    ///
    /// # Errors
    /// If the guest can't run commands.
    fn guest_command(&self, _guest: usize, argv: &[OsString]) -> io::Result<Command> {
        self.command(End::B, argv)
    }

    /// The place (host or network namespace) in which commands of an end run.
    fn place(&self, _end: End) -> Place {
        Place::Here
    }

    /// The path of the `linerate` program at an end, if it differs from the running program.
    fn linerate(&self, _end: End) -> Option<PathBuf> {
        None
    }

    /// A bed of the same kind whose link has no rate limit. Measurements in that bed show the other limits of this bed.
    /// `None` if such a bed is impossible, or if this bed's link has no rate limit.
    ///
    /// # Errors
    /// If such a bed can't be made.
    fn unshaped(&self) -> io::Result<Option<Box<dyn Bed>>> {
        Ok(None)
    }

    /// The directory for data and received files at both ends, if it differs from the study's working
    /// directory.
    fn work(&self) -> Option<PathBuf> {
        None
    }

    /// Performs a task on an end's files.
    ///
    /// # Errors
    /// If the end can't be reached. A failure at the end itself is an [`Answer`].
    fn files(&self, _end: End, task: &Task) -> io::Result<Answer> {
        Ok(task.perform())
    }

    /// True if this process itself can read the files of the sending end and of the receivers.
    fn sees_receivers_files(&self) -> bool {
        true
    }

    /// A message about the first difference between the files at `here`, at the sending end, and those at
    /// `there`, at a receiver.
    ///
    /// # Errors
    /// If a file at either end can't be read.
    fn difference(&self, here: &Path, receiver: usize, there: &Path) -> io::Result<Option<String>> {
        if self.sees_receivers_files() {
            return Tree::read(here)?.difference(here, there);
        }
        let sent = self.files(End::A, &Task::Digest(here.to_owned()))?;
        sent.difference(&self.receiver_files(receiver, &Task::Digest(there.to_owned()))?)
    }

    /// The agent of an end, which reads facts and samples counters of its host; `None` if the bed gets them in
    /// another way.
    fn agent(&mut self, _end: End) -> Option<&mut HostAgent> {
        None
    }

    /// The processes of the study at an end. The sampler records their processor time and that of their descendants.
    fn followed(&self, _end: End) -> Followed {
        Followed::Process(std::process::id())
    }

    /// Starts the samplers of both ends, and returns the time at which each began.
    ///
    /// # Errors
    /// If an end's agent doesn't answer.
    fn start_samples(&mut self) -> io::Result<[Instant; 2]> {
        let mut start = |end| {
            let followed = self.followed(end);
            let started = self.agent(end).map_or(Ok(()), |agent| samples::start(agent, followed));
            started.map(|()| Instant::now())
        };
        Ok([start(End::A)?, start(End::B)?])
    }

    /// Stops an end's sampler, and returns its recording; `None` if there is no sampler.
    ///
    /// # Errors
    /// If the end's agent doesn't answer.
    fn stop_samples(&mut self, end: End) -> io::Result<Option<Vec<u8>>> {
        self.agent(end).map(HostAgent::stop_sampling).transpose()
    }

    /// Starts the samplers of the watched hosts.
    ///
    /// # Errors
    /// If a host's agent doesn't answer.
    fn start_watching(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Stops the samplers of the watched hosts, and returns their recordings by the host's name.
    ///
    /// # Errors
    /// If a host's agent doesn't answer.
    fn stop_watching(&mut self) -> io::Result<Vec<(String, Vec<u8>)>> {
        Ok(Vec::new())
    }

    /// The facts of the watched hosts, by name.
    ///
    /// # Errors
    /// If a host's agent doesn't answer.
    fn watched_facts(&mut self) -> io::Result<Vec<(String, Facts)>> {
        Ok(Vec::new())
    }

    /// The properties of the link between the ends.
    fn link(&self) -> Link;

    /// Whether both ends run on the same processors.
    fn shares_processors(&self) -> bool;

    /// Whether the receiving end is a virtual machine on the sending end's host.
    fn far_is_guest(&self) -> bool {
        false
    }

    /// Whether a program is installed at an end.
    fn has(&self, end: End, program: &str) -> bool;

    /// The facts of an end's host.
    ///
    /// # Errors
    /// If the end's agent doesn't answer.
    fn facts(&mut self, end: End) -> io::Result<Facts> {
        facts(self.agent(end).ok_or_else(no_agent)?)
    }

    /// The processor time of an end's whole host.
    ///
    /// # Errors
    /// If the end's agent doesn't answer, or can't read the processor time.
    fn cpu(&mut self, end: End) -> io::Result<CpuTimes> {
        let agent = self.agent(end).ok_or_else(no_agent)?;
        serde_json::from_slice(&agent.cpu()?).map_err(io::Error::other)
    }
}

fn no_agent() -> io::Error {
    io::Error::other("the host has no agent")
}

/// The facts of an agent's host.
pub(crate) fn facts(agent: &mut HostAgent) -> io::Result<Facts> {
    Ok(Facts::of_snapshot(&Snapshot::from_bytes(&agent.facts(&[])?)?))
}

/// The values of the placeholders that a bed defines, for the copy of a tool with this number.
pub(crate) fn values(bed: &dyn Bed, copy: usize) -> Values {
    let addresses = bed.addresses();
    let address = addresses.get(copy % addresses.len().max(1)).cloned().unwrap_or_else(|| bed.address());
    let url_hosts = addresses.iter().map(|address| url_host(address).into()).collect();
    let addresses = addresses.into_iter().map(OsString::from).collect();
    let receivers = bed.receivers();
    let host = receivers.get(copy % receivers.len().max(1)).cloned().unwrap_or_else(|| bed.host());
    Values::from([
        ("ssh_config", Value::One(bed.ssh_config().into())),
        ("host", Value::One(host.into())),
        ("url_host", Value::One(url_host(&address).into())),
        ("url_hosts", Value::Many(url_hosts)),
        ("address", Value::One(address.into())),
        ("addresses", Value::Many(addresses)),
        ("index", Value::One(copy.to_string().into())),
    ])
}

/// The values that [`values`] returns, and two more for commands at an end: `port`, and `linerate`, which is `program`
/// unless the bed has a different program at this end.
pub(crate) fn values_at(bed: &dyn Bed, end: End, copy: usize, program: &Path, port: u16) -> Values {
    let mut values = values(bed, copy);
    values.insert("linerate", one(bed.linerate(end).as_deref().unwrap_or(program)));
    values.insert("port", one(port.to_string()));
    values
}

/// An address in the form that can precede a port: IPv6 addresses are in brackets (RFC 3986).
fn url_host(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}
