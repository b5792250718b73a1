//! A test bed as the runner sees it: two ends, a link, and their properties.

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

/// Two hosts joined by one link or several.
pub trait Bed {
    /// The command that runs `argv` at an end, with the bed's environment.
    ///
    /// # Errors
    /// The end can't run commands.
    fn command(&self, end: End, argv: &[OsString]) -> io::Result<Command>;

    /// The client configuration with which `ssh -F` at the sending end logs in to [`Bed::host`].
    fn ssh_config(&self) -> PathBuf;

    /// The receiving end's name for ssh.
    fn host(&self) -> String;

    /// The receiving end's address on the first link.
    fn address(&self) -> String;

    /// The addresses for copies of a tool, in turn: the receiving end's address on each link, or the guests'
    /// addresses.
    fn addresses(&self) -> Vec<String> {
        vec![self.address()]
    }

    /// The reason why the bed isn't the link that the study asks for, with advice; `None` if it is.
    fn lacks(&self) -> Option<String> {
        None
    }

    /// The names for ssh of the hosts at which files arrive, copies of a tool in turn: guests with files of their
    /// own, or the receiving end.
    fn receivers(&self) -> Vec<String> {
        vec![self.host()]
    }

    /// The directory for destinations at each receiver, where that isn't [`Bed::work`].
    fn arrivals(&self) -> Option<PathBuf> {
        self.work()
    }

    /// Does something with the files of a receiver, by its number from 0.
    ///
    /// # Errors
    /// As [`Bed::files`].
    fn receiver_files(&self, _receiver: usize, task: &Task) -> io::Result<Answer> {
        self.files(End::B, task)
    }

    /// The interface of an end by which the first link leaves it, if it is known.
    fn interface(&self, _end: End) -> Option<String> {
        None
    }

    /// Hosts behind the receiving end's link; with any, servers run there and not at the receiving end
    /// itself.
    fn guests(&self) -> usize {
        0
    }

    /// The command that runs `argv` on a guest, by its number from 0.
    ///
    /// # Errors
    /// The guest can't run commands.
    fn guest_command(&self, _guest: usize, argv: &[OsString]) -> io::Result<Command> {
        self.command(End::B, argv)
    }

    /// The place where commands of an end run.
    fn place(&self, _end: End) -> Place {
        Place::Here
    }

    /// The `linerate` of an end, if it isn't the running program.
    fn linerate(&self, _end: End) -> Option<PathBuf> {
        None
    }

    /// A bed of the same kind whose link has no rate, which shows what else limits this one; `None` where
    /// that can't be had, or this is it.
    ///
    /// # Errors
    /// Such a bed can't be made.
    fn unshaped(&self) -> io::Result<Option<Box<dyn Bed>>> {
        Ok(None)
    }

    /// The directory for data and destinations at both ends, where that isn't the study's own working
    /// directory.
    fn work(&self) -> Option<PathBuf> {
        None
    }

    /// Does something with an end's files.
    ///
    /// # Errors
    /// If the end can't be reached. A failure at the end itself is an [`Answer`].
    fn files(&self, _end: End, task: &Task) -> io::Result<Answer> {
        Ok(task.perform())
    }

    /// True if this process can read the files of the sending end and of the receivers itself.
    fn sees_receivers_files(&self) -> bool {
        true
    }

    /// The first difference between what is at `here`, at the sending end, and at `there`, at a receiver.
    ///
    /// # Errors
    /// A file at either end can't be read.
    fn difference(&self, here: &Path, receiver: usize, there: &Path) -> io::Result<Option<String>> {
        if self.sees_receivers_files() {
            return Tree::read(here)?.difference(here, there);
        }
        let sent = self.files(End::A, &Task::Digest(here.to_owned()))?;
        sent.difference(&self.receiver_files(receiver, &Task::Digest(there.to_owned()))?)
    }

    /// The agent of an end, which says and samples what is known of its host; `None` if a bed knows it
    /// otherwise.
    fn agent(&mut self, _end: End) -> Option<&mut HostAgent> {
        None
    }

    /// The processes of an end whose processor time is sampled, with their descendants: the study's own.
    fn followed(&self, _end: End) -> Followed {
        Followed::Process(std::process::id())
    }

    /// Starts the ends' samplers, and gives the moments at which each had begun.
    ///
    /// # Errors
    /// An end's agent doesn't answer.
    fn start_samples(&mut self) -> io::Result<[Instant; 2]> {
        let mut start = |end| {
            let followed = self.followed(end);
            let started = self.agent(end).map_or(Ok(()), |agent| samples::start(agent, followed));
            started.map(|()| Instant::now())
        };
        Ok([start(End::A)?, start(End::B)?])
    }

    /// The recording of an end's sampler since the start; `None` without a sampler.
    ///
    /// # Errors
    /// The end's agent doesn't answer.
    fn stop_samples(&mut self, end: End) -> io::Result<Option<Vec<u8>>> {
        self.agent(end).map(HostAgent::stop_sampling).transpose()
    }

    /// Starts the samplers of further hosts that are watched.
    ///
    /// # Errors
    /// A host's agent doesn't answer.
    fn start_watching(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The recordings of the watched hosts' samplers since the start, by the host's name.
    ///
    /// # Errors
    /// A host's agent doesn't answer.
    fn stop_watching(&mut self) -> io::Result<Vec<(String, Vec<u8>)>> {
        Ok(Vec::new())
    }

    /// The facts of the watched hosts, by name.
    ///
    /// # Errors
    /// A host's agent doesn't answer.
    fn watched_facts(&mut self) -> io::Result<Vec<(String, Facts)>> {
        Ok(Vec::new())
    }

    /// The link.
    fn link(&self) -> Link;

    /// True if both ends run on the same processors.
    fn shares_processors(&self) -> bool;

    /// True if the receiving end is a virtual machine of the sending one.
    fn far_is_guest(&self) -> bool {
        false
    }

    /// True if an end has the program.
    fn has(&self, end: End, program: &str) -> bool;

    /// The facts of an end's host.
    ///
    /// # Errors
    /// The end's agent doesn't answer.
    fn facts(&mut self, end: End) -> io::Result<Facts> {
        facts(self.agent(end).ok_or_else(no_agent)?)
    }

    /// An end's processor time, all of the host's.
    ///
    /// # Errors
    /// The end's agent doesn't answer, or can't read it.
    fn cpu(&mut self, end: End) -> io::Result<CpuTimes> {
        let agent = self.agent(end).ok_or_else(no_agent)?;
        serde_json::from_slice(&agent.cpu()?).map_err(io::Error::other)
    }
}

fn no_agent() -> io::Error {
    io::Error::other("there is no agent to ask")
}

/// The facts of an agent's host.
pub(crate) fn facts(agent: &mut HostAgent) -> io::Result<Facts> {
    Ok(Facts::of_snapshot(&Snapshot::from_bytes(&agent.facts(&[])?)?))
}

/// The placeholders that a bed gives values to, for the copy of this number.
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

/// The values of [`values`], and two more for the commands of a tool or of this program at an end: `port`, and
/// `linerate`, which is `program` if the bed knows no other.
pub(crate) fn values_at(bed: &dyn Bed, end: End, copy: usize, program: &Path, port: u16) -> Values {
    let mut values = values(bed, copy);
    values.insert("linerate", one(bed.linerate(end).as_deref().unwrap_or(program)));
    values.insert("port", one(port.to_string()));
    values
}

/// An address as it stands before a port: one of IPv6 in brackets (RFC 3986).
fn url_host(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}
