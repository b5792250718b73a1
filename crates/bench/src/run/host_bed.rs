//! Two real hosts as a bed: an agent on each host, data on both hosts, and the existing path between them.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linerate_host::Facts;
use linerate_lab::{Undo, UndoJournal};
use linerate_remote::agent_command::AgentCommand;
use linerate_remote::binary::{Binaries, FarPart};
use linerate_remote::far_end::FarEnd;
use linerate_remote::host_agent::HostAgent;
use linerate_remote::install::find;
use linerate_remote::patience::Patience;
use linerate_remote::place::Place;

use super::bed::{Bed, End, facts};
use super::hosts::Hosts;
use super::hypervisor;
use super::path::{HostPath, PathPort, holder, routed};
use super::process::{Stop, tail};
use super::programs;
use super::samples::{self, Followed};
use crate::data::{Answer, Task};
use crate::record::Link;
use crate::spec::study::LinkSpec;

/// The greatest length of a process name in the kernel, in bytes (proc_pid_comm(5)).
const LONGEST_COMM: usize = 15;

/// Two hosts, each with an agent and a directory for data. The directories are removed with the bed.
pub struct HostBed {
    ends: [HostEnd; 2],
    /// Other hosts that are sampled, by name.
    watched: Vec<(String, HostEnd)>,
    path: HostPath,
    /// The interface of each end on the first link of the path; `None` for b if its address belongs to another host.
    interfaces: [Option<String>; 2],
    /// The number of the path's links that are used, as the study's link requests.
    count: usize,
    /// The reason why the path can't be used as the study's link.
    lacks: Option<String>,
    ssh_config: PathBuf,
    host: String,
    link: Link,
    same_machine: bool,
    far_is_guest: bool,
    work: PathBuf,
    _journal: UndoJournal,
}

struct HostEnd {
    place: Place,
    linerate: PathBuf,
    agent: HostAgent,
}

impl HostBed {
    /// Starts an agent on each host, and makes a directory for data on both. Copies this program to a host that lacks
    /// it, and reports that to `note`. `linerate` is the path of this program, for places on this machine.
    ///
    /// # Errors
    /// If a host can't be reached, or a needed fact is unknown. In that case, nothing is left behind.
    pub fn up(hosts: &Hosts, linerate: &Path, stop: &Stop, note: &dyn Fn(&str)) -> io::Result<HostBed> {
        let end = |name: &str, place: &Place| {
            HostEnd::start(place, linerate, stop, note).map_err(|e| reported(&format!("host {name}"), &e))
        };
        let mut ends = [end("a", &hosts.a)?, end("b", &hosts.b)?];
        let watched = hosts.watched.iter().map(|(name, place)| Ok((name.clone(), end(name, place)?)));
        let watched = watched.collect::<io::Result<_>>()?;
        let host = match &hosts.b {
            Place::Ssh { host, .. } => host.to_string_lossy().into_owned(),
            Place::Here | Place::Namespace(_) => hosts.addresses_b.first().cloned().unwrap_or_default(),
        };
        let [a, b] = &ends;
        let ssh_config = a.ssh_config(&hosts.rsh)?;
        let addresses = match hosts.addresses_b.as_slice() {
            [] => vec![a.address_of(&host, &ssh_config).or_else(|_| b.connected_address())?],
            named => named.to_vec(),
        };
        let same_machine = a.boot()? == b.boot()?;
        let far_is_guest = !same_machine && hypervisor::is_of(&a.place, &b.place);
        let [a, b] = &mut ends;
        let path = a.path_to(addresses, b)?;
        let far_port = path.far_ports[0].as_ref();
        let interfaces = [Some(path.ports[0].name.clone()), far_port.map(|port| port.name.clone())];
        let (work, journal) = make_work(&ends)?;
        let link = path.link(1);
        let (count, lacks) = (path.addresses.len(), None);
        Ok(HostBed {
            ends,
            watched,
            path,
            interfaces,
            count,
            lacks,
            ssh_config,
            host,
            link,
            same_machine,
            far_is_guest,
            work,
            _journal: journal,
        })
    }

    /// Adapts this bed to the link `spec` of a study's `links`: the bed uses as many of the path's links as `spec`
    /// requests, and stores the reason if the path doesn't fit.
    #[must_use]
    pub fn standing_for(mut self, spec: &LinkSpec, links: &[LinkSpec]) -> HostBed {
        self.lacks = self.path.lacks(spec, links);
        self.count = (spec.count as usize).min(self.path.addresses.len());
        self.link = self.path.link(self.count);
        self.link.kind.push_str(&self.path.label(spec));
        self
    }

    fn end(&self, end: End) -> &HostEnd {
        match end {
            End::A => &self.ends[0],
            End::B => &self.ends[1],
        }
    }
}

impl HostEnd {
    fn start(place: &Place, linerate: &Path, stop: &Stop, note: &dyn Fn(&str)) -> io::Result<HostEnd> {
        let linerate = match place {
            Place::Here | Place::Namespace(_) => linerate.to_owned(),
            Place::Ssh { rsh, host } => bring(place, rsh, host, stop, note)?,
        };
        let agent = HostAgent::start(place, &linerate)?;
        Ok(HostEnd { place: place.clone(), linerate, agent })
    }

    fn is_far(&self) -> bool {
        matches!(self.place, Place::Ssh { .. })
    }

    /// The command that runs `argv` on this host. On another host, the command ends when its connection
    /// closes.
    fn command(&self, argv: &[OsString]) -> io::Result<Command> {
        if self.is_far() { held_at(&self.place, &self.linerate, argv) } else { self.place.command(argv) }
    }

    /// The study's processes on this host. On another host, this program's process number means nothing; the processes
    /// that this program starts there are descendants of the `linerate` on that host or of its ssh server.
    fn followed(&self) -> Followed {
        if self.is_far() { far_followed(&self.linerate) } else { Followed::Process(std::process::id()) }
    }

    /// The output of a shell line on this host.
    fn ask(&self, script: &str) -> io::Result<String> {
        ask(&self.place, script)
    }

    fn boot(&self) -> io::Result<String> {
        self.ask("cat /proc/sys/kernel/random/boot_id")
    }

    /// The configuration with which tools at this end use `ssh -F`. If this end is this machine, the configuration is
    /// the file that the user's --rsh names. Otherwise, or if --rsh names no file, it is the user's own configuration
    /// on that host, or /dev/null.
    fn ssh_config(&self, rsh: &[OsString]) -> io::Result<PathBuf> {
        if !self.is_far()
            && let Some(at) = rsh.iter().position(|word| word == "-F")
            && let Some(file) = rsh.get(at + 1)
        {
            return Ok(file.into());
        }
        let script = "f=$HOME/.ssh/config; if [ -r \"$f\" ]; then echo \"$f\"; else echo /dev/null; fi";
        self.ask(script).map(PathBuf::from)
    }

    /// The IP address to which this end's own ssh connects for `host`.
    fn address_of(&self, host: &str, config: &Path) -> io::Result<String> {
        let mut argv = ["ssh", "-F"].map(OsString::from).to_vec();
        argv.push(config.into());
        argv.extend(
            ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-n", host, "echo $SSH_CONNECTION"]
                .map(OsString::from),
        );
        server_address(&output(&mut self.place.command(&argv)?)?)
    }

    /// The address of this end to which the running program's ssh is connected.
    fn connected_address(&self) -> io::Result<String> {
        server_address(&self.ask("echo $SSH_CONNECTION")?)
    }

    /// The path from this end to the addresses, with the interface through which each address is reached.
    fn path_to(&mut self, addresses: Vec<String>, far: &mut HostEnd) -> io::Result<HostPath> {
        let facts = facts(&mut self.agent)?;
        let port = |address: &String| {
            let argv = ["ip", "-j", "route", "get", address].map(OsString::from);
            let shown = output(&mut self.place.command(&argv)?);
            let name = shown.and_then(|shown| routed(&shown));
            let name = name.map_err(|e| reported(&format!("finding the route from a to {address}"), &e))?;
            Ok(PathPort::of(&facts, &name))
        };
        let ports = addresses.iter().map(port).collect::<io::Result<_>>()?;
        let facts = self::facts(&mut far.agent)?;
        let far_port = |address: &String| Some(PathPort::of(&facts, &far.interface_of(address)?));
        let far_ports = addresses.iter().map(far_port).collect();
        Ok(HostPath { addresses, ports, far_ports })
    }

    /// The interface of this host that has the address; `None` if the address belongs to another host, such as an
    /// address translator (NAT).
    fn interface_of(&self, address: &str) -> Option<String> {
        let argv = ["ip", "-j", "addr", "show"].map(OsString::from);
        let shown = output(&mut self.place.command(&argv).ok()?).ok()?;
        holder(&shown, address)
    }
}

impl Bed for HostBed {
    fn command(&self, end: End, argv: &[OsString]) -> io::Result<Command> {
        self.end(end).command(argv)
    }

    fn ssh_config(&self) -> PathBuf {
        self.ssh_config.clone()
    }

    fn host(&self) -> String {
        self.host.clone()
    }

    fn address(&self) -> String {
        self.path.addresses[0].clone()
    }

    fn addresses(&self) -> Vec<String> {
        self.path.addresses[..self.count].to_vec()
    }

    fn lacks(&self) -> Option<String> {
        self.lacks.clone()
    }

    fn interface(&self, end: End) -> Option<String> {
        match end {
            End::A => self.interfaces[0].clone(),
            End::B => self.interfaces[1].clone(),
        }
    }

    fn place(&self, end: End) -> Place {
        self.end(end).place.clone()
    }

    fn linerate(&self, end: End) -> Option<PathBuf> {
        Some(self.end(end).linerate.clone())
    }

    fn work(&self) -> Option<PathBuf> {
        Some(self.work.clone())
    }

    fn files(&self, end: End, task: &Task) -> io::Result<Answer> {
        let end = self.end(end);
        if !end.is_far() {
            return Ok(task.perform());
        }
        perform_at(&end.place, &end.linerate, task)
    }

    fn sees_receivers_files(&self) -> bool {
        !self.end(End::A).is_far() && !self.end(End::B).is_far()
    }

    fn agent(&mut self, end: End) -> Option<&mut HostAgent> {
        match end {
            End::A => Some(&mut self.ends[0].agent),
            End::B => Some(&mut self.ends[1].agent),
        }
    }

    fn followed(&self, end: End) -> Followed {
        self.end(end).followed()
    }

    fn start_watching(&mut self) -> io::Result<()> {
        self.watched.iter_mut().try_for_each(|(name, host)| {
            let followed = host.followed();
            samples::start(&mut host.agent, followed).map_err(|e| reported(&format!("host {name}"), &e))
        })
    }

    fn stop_watching(&mut self) -> io::Result<Vec<(String, Vec<u8>)>> {
        let stop = |(name, host): &mut (String, HostEnd)| {
            let recording = host.agent.stop_sampling();
            recording.map(|bytes| (name.clone(), bytes)).map_err(|e| reported(&format!("host {name}"), &e))
        };
        self.watched.iter_mut().map(stop).collect()
    }

    fn watched_facts(&mut self) -> io::Result<Vec<(String, Facts)>> {
        self.watched.iter_mut().map(|(name, host)| Ok((name.clone(), facts(&mut host.agent)?))).collect()
    }

    fn link(&self) -> Link {
        self.link.clone()
    }

    fn shares_processors(&self) -> bool {
        self.same_machine
    }

    fn far_is_guest(&self) -> bool {
        self.far_is_guest
    }

    fn has(&self, end: End, program: &str) -> bool {
        let end = self.end(end);
        if !end.is_far() {
            return programs::find(program).is_some();
        }
        let find = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v \"$0\"";
        let argv = ["sh", "-c", find, program].map(OsString::from);
        end.place.command(&argv).and_then(|mut command| output(&mut command)).is_ok()
    }
}

/// The processes that this program started on another host: descendants of the `linerate` on that host or of its ssh
/// server.
pub(super) fn far_followed(linerate: &Path) -> Followed {
    let own = linerate.file_name().unwrap_or_default().to_string_lossy();
    let own = own.chars().take(LONGEST_COMM).collect();
    Followed::Named([own, "sshd".into(), "sshd-session".into(), "sshd-auth".into()].into())
}

/// The command that runs `argv` on another host, so that it ends when the connection closes.
pub(super) fn held_at(place: &Place, linerate: &Path, argv: &[OsString]) -> io::Result<Command> {
    let held = [linerate.as_os_str(), OsStr::new("data"), OsStr::new("hold"), OsStr::new("--")];
    let held: Vec<OsString> = held.map(OsStr::to_owned).into_iter().chain(argv.iter().cloned()).collect();
    place.command(&held)
}

/// Lets the `linerate` on another host perform a task on that host's files.
pub(super) fn perform_at(place: &Place, linerate: &Path, task: &Task) -> io::Result<Answer> {
    let argv = [linerate.as_os_str(), OsStr::new("data"), OsStr::new("task")].map(OsStr::to_owned);
    let question = serde_json::to_vec(task).map_err(io::Error::other)?;
    let said = output_of(&mut place.command(&argv)?, &question)?;
    // The answer is the last line, because a login may print other lines before.
    let last = said.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|e| io::Error::other(format!("linerate data on that host: {e}")))
}

/// Starts an agent as `cp` does, which copies this program to the host if needed. Returns the agent and the
/// path of the program on the host.
fn bring(
    place: &Place,
    rsh: &[OsString],
    host: &OsStr,
    stop: &Stop,
    note: &dyn Fn(&str),
) -> io::Result<PathBuf> {
    let far = FarEnd {
        rsh: rsh.to_vec(),
        host: host.to_owned(),
        install: true,
        part: FarPart::Program,
        command: AgentCommand::default(),
        patience: Patience::LOGIN,
    };
    drop(far.start(note, stop).map_err(io::Error::other)?);
    ask(place, &find(&Binaries::installed()?)).map(PathBuf::from)
}

/// Makes a directory with the same name on both hosts, in memory if both have /dev/shm. The journal removes the
/// directories.
fn make_work(ends: &[HostEnd; 2]) -> io::Result<(PathBuf, UndoJournal)> {
    let name = format!("linerate-data-{}-{:08x}", std::process::id(), fastrand::u32(..));
    let in_memory = ends.iter().all(|end| end.ask("[ -w /dev/shm ]").is_ok());
    let work = Path::new(if in_memory { "/dev/shm" } else { "/tmp" }).join(name);
    let shown = work.display();
    let undo = |end: &HostEnd| Undo {
        what: format!("{shown}, which is removed"),
        place: end.place.clone(),
        argv: [OsStr::new("rm"), OsStr::new("-rf"), OsStr::new("--"), work.as_os_str()]
            .map(OsStr::to_owned)
            .to_vec(),
        environment: Vec::new(),
    };
    let journal = UndoJournal::open(ends.iter().map(undo).collect()).map_err(io::Error::other)?;
    for end in ends {
        end.ask(&make_private(&work))?;
    }
    Ok((work, journal))
}

/// A shell line that makes a directory that only this user can enter. If both hosts are the same machine, the
/// directory already exists. If the existing directory belongs to another user, the line fails.
fn make_private(path: &Path) -> String {
    let path = path.display();
    let refuse = format!("{{ echo {path} is somebody else\\'s >&2; exit 1; }}");
    format!("umask 077; mkdir {path} || {{ [ -O {path} ] && [ ! -L {path} ]; }} || {refuse}")
}

/// The address of the server in SSH_CONNECTION: its third word, after the client's address and port (ssh(1)).
fn server_address(connection: &str) -> io::Result<String> {
    let last = connection.lines().last().unwrap_or_default();
    let address = last.split_whitespace().nth(2).map(str::to_owned);
    address.ok_or_else(|| io::Error::other("b's address can't be found; name the address by --address-b"))
}

pub(super) fn ask(place: &Place, script: &str) -> io::Result<String> {
    let argv = ["sh", "-c", script].map(OsString::from);
    output(&mut place.command(&argv)?)
}

fn output(command: &mut Command) -> io::Result<String> {
    output_of(command, b"")
}

/// Runs a command and returns its standard output, trimmed. If the command fails, the error contains its output.
fn output_of(command: &mut Command, input: &[u8]) -> io::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|e| reported(&program, &e))?;
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input));
    let done = child.wait_with_output()?;
    if !done.status.success() {
        return Err(io::Error::other(format!("{program}: {}: {}", done.status, tail(&done.stderr))));
    }
    written?;
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

fn reported(what: &str, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{what}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_somebody_else_has_made_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let make = || ask(&Place::Here, &make_private(&path)).map(drop);
        make().unwrap();
        make().expect("both hosts are one machine");
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
        std::fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink(parent.path(), &path).unwrap();
        assert!(make().unwrap_err().to_string().contains("is somebody else's"));
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(make().is_err(), "it is another user's");
        }
    }
}
