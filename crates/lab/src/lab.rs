//! A lab and its life.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use linerate_remote::place::Place;

use crate::child::Child;
use crate::error::LabError;
use crate::guest::{self, GuestMachines, Surroundings};
use crate::name::LabName;
use crate::network;
use crate::options::{LabOptions, check_shape};
use crate::process::{Process, file_identity};
use crate::sites::{self, LabSite};
use crate::slurm::{self, SlurmDaemons};
use crate::ssh::{self, SshServer};
use crate::state::{Description, LabHost, LabState, StateRoot, make_private};
use crate::sweep::{dismantle, report, shared_scratch, sweep_locked};
use crate::tool;
use crate::user;
use crate::wan::{self, Emulator, SegmentCounts, Wan};

/// A host of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The near host, where commands run.
    A,
    /// The far host, with the ssh server.
    B,
}

/// Two hosts joined by a link, and an ssh server on the far host.
///
/// Unless the lab is kept, dropping this value takes the lab down, with all processes that still run in it.
/// [`Lab::down`] does the same and returns errors.
#[derive(Debug)]
pub struct Lab {
    parts: LabParts,
    servers: Vec<SshServer>,
    emulator: Option<Emulator>,
    machines: GuestMachines,
    slurm: SlurmDaemons,
}

/// The parts of a lab on this host. While `armed`, they are removed on drop.
#[derive(Debug)]
struct LabParts {
    state: LabState,
    directory: PathBuf,
    armed: bool,
}

impl Lab {
    /// Makes a lab. When this function returns, `ssh -F` [`Lab::ssh_config`] `b` works from host a.
    ///
    /// Before that, it removes labs whose holders have ended, with messages on standard error (see
    /// [`crate::sweep()`]). The lab ends with this process, even if the process is killed: then the lab's ssh
    /// server ends at once, and the next sweep removes the rest.
    ///
    /// # Errors
    /// [`LabError::Unprivileged`] if this process lacks the rights to make a lab ([`crate::ensure_privileges`] may get
    /// them). Other errors if a program is missing, the name is in use, or any step fails. In each case, nothing is
    /// left behind.
    pub fn up(options: &LabOptions) -> Result<Self, LabError> {
        check(options)?;
        let mut parts = LabParts::claim(options)?;
        network::make_namespaces(&parts.state.description)?;
        parts.record_namespaces()?;
        let emulator = parts.start_emulator(options)?;
        network::build(&parts.state.description)?;
        ssh::prepare(&parts.directory, &parts.state.description)?;
        // The guests boot while the ssh servers start.
        let machines = parts.start_machines(options)?;
        let mut lab = Self { parts, servers: Vec::new(), emulator, machines, slurm: Vec::new() };
        let state = &mut lab.parts.state;
        lab.servers = SshServer::start_all(&lab.parts.directory, &state.description, options.kept)?;
        state.sshd = lab.servers.first().map(|server| server.process().clone());
        lab.slurm = slurm::start(&lab.parts.directory, &state.description, options.kept)?;
        lab.machines.wait(&lab.parts.directory)?;
        lab.settle(options.kept)?;
        Ok(lab)
    }

    /// Takes the lab down: every process in it, the link, the namespaces, its directories.
    ///
    /// # Errors
    /// [`LabError::Leftover`] with the parts that couldn't be removed.
    pub fn down(mut self) -> Result<(), LabError> {
        self.stop();
        self.parts.remove()
    }

    /// The lab's description, for a record of the results.
    pub fn description(&self) -> &Description {
        &self.parts.state.description
    }

    /// The lab's name.
    pub fn name(&self) -> &LabName {
        &self.description().name
    }

    /// The description of one of the two hosts.
    pub fn host(&self, end: End) -> &LabHost {
        match end {
            End::A => &self.description().a,
            End::B => &self.description().b,
        }
    }

    /// The place in which the host's processes run.
    pub fn place(&self, end: End) -> Place {
        Place::Namespace(self.host(end).namespace_path())
    }

    /// The host's IPv4 address on the link.
    pub fn address(&self, end: End) -> IpAddr {
        self.host(end).address.into()
    }

    /// The host's IPv6 address on the link; `None` if the kernel has no IPv6.
    pub fn address6(&self, end: End) -> Option<Ipv6Addr> {
        self.host(end).address6
    }

    /// The host's IPv4 addresses, one for each link.
    pub fn addresses(&self, end: End) -> Vec<IpAddr> {
        self.host(end).ports().iter().map(|port| port.address.into()).collect()
    }

    /// The guests behind host b, each with its address on the link that all guests share.
    pub fn guests(&self) -> &[LabHost] {
        &self.description().guests
    }

    /// The name for ssh of the guest with this number, from 0, if guests are virtual machines. `None` for other guests,
    /// because they have no ssh server.
    pub fn guest_host(&self, number: usize) -> Option<String> {
        let description = self.description();
        (description.machine.is_some() && number < description.guests.len()).then(|| format!("g{number}"))
    }

    /// The place in which a guest's processes run, by the guest's number from 0; `None` if there is no such
    /// guest.
    pub fn guest_place(&self, number: usize) -> Option<Place> {
        let guest = self.guests().get(number)?;
        Some(match self.guest_host(number) {
            None => Place::Namespace(guest.namespace_path()),
            Some(host) => {
                // The guest is reached from host a.
                let enter = ["ip", "netns", "exec", &self.description().a.namespace, "ssh", "-F"];
                let mut rsh: Vec<OsString> = enter.map(OsString::from).to_vec();
                rsh.push(self.ssh_config().into());
                Place::Ssh { rsh, host: host.into() }
            }
        })
    }

    /// The counts of the emulator of links with delay or loss: for each link, the direction from a to b, then
    /// the direction from b to a. The counts are at most half a second old; empty if the lab has no emulator.
    pub fn counts(&self) -> Vec<[SegmentCounts; 2]> {
        wan::counts(&self.parts.directory)
    }

    /// The path of ssh's client configuration. `ssh -F CONFIG b` on host a logs in to host b.
    pub fn ssh_config(&self) -> PathBuf {
        ssh::client_config(&self.parts.directory)
    }

    /// The sites. All of their hosts have an ssh server. Empty if the lab has just two hosts.
    pub fn sites(&self) -> &[LabSite] {
        &self.description().sites
    }

    /// A directory for data, on a tmpfs if there is one. The directory is removed with the lab.
    pub fn scratch(&self) -> &Path {
        &self.parts.state.scratch
    }

    /// The environment variables that describe the lab to a command: `LINERATE_LAB` and others with this
    /// prefix.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let address = |end| OsString::from(self.address(end).to_string());
        let namespace = |end| OsString::from(&self.host(end).namespace);
        let addresses = |end| joined(self.addresses(end).iter());
        let guests = self.guests();
        let namespaces = self.description().guest_namespaces().iter();
        let mut environment = vec![
            ("LINERATE_LAB", self.name().as_str().into()),
            ("LINERATE_LAB_SSH_CONFIG", self.ssh_config().into()),
            ("LINERATE_LAB_HOST", "b".into()),
            ("LINERATE_LAB_ADDRESS_A", address(End::A)),
            ("LINERATE_LAB_ADDRESS_B", address(End::B)),
            ("LINERATE_LAB_ADDRESSES_A", addresses(End::A)),
            ("LINERATE_LAB_ADDRESSES_B", addresses(End::B)),
            ("LINERATE_LAB_ADDRESSES_GUESTS", joined(guests.iter().map(|guest| guest.address))),
            ("LINERATE_LAB_NETNS_A", namespace(End::A)),
            ("LINERATE_LAB_NETNS_B", namespace(End::B)),
            ("LINERATE_LAB_NETNS_GUESTS", joined(namespaces.map(|guest| &guest.namespace))),
            (
                "LINERATE_LAB_HOSTS_GUESTS",
                joined((0..guests.len()).filter_map(|number| self.guest_host(number))),
            ),
            ("LINERATE_LAB_DIR", self.scratch().into()),
        ];
        environment.extend(sites::environment(self.description()));
        environment
    }

    /// Writes the lab's holder to the state file. If the lab is kept, it no longer ends with this process.
    fn settle(&mut self, kept: bool) -> Result<(), LabError> {
        let state = &mut self.parts.state;
        if let Some(sshd) = state.sshd.clone().filter(|_| kept) {
            state.holder = sshd;
        }
        self.parts.state.write(&self.parts.directory)?;
        self.parts.armed = !kept;
        Ok(())
    }

    fn stop(&mut self) {
        Child::stop_all(std::mem::take(&mut self.slurm));
        SshServer::stop_all(std::mem::take(&mut self.servers));
        if let Some(emulator) = self.emulator.take() {
            emulator.stop();
        }
        std::mem::take(&mut self.machines).stop();
    }
}

impl LabParts {
    /// Chooses the name and the addresses, and writes them to the state file before anything else is created.
    fn claim(options: &LabOptions) -> Result<Self, LabError> {
        let root = StateRoot::open()?;
        let _lock = root.lock()?;
        sweep_locked(&root)?.iter().for_each(report);
        let labs = root.labs()?;
        let taken =
            |slot| labs.iter().any(|(_, state)| state.as_ref().is_some_and(|state| state.slot == slot));
        let free = |slot: &u8| {
            !taken(*slot) && (options.name.is_some() || !is_named(&labs, &LabName::of_slot(*slot)))
        };
        let slot = (0..250).find(free).ok_or(LabError::Full)?;
        let name = options.name.clone().unwrap_or_else(|| LabName::of_slot(slot));
        if let Some((_, Some(state))) = labs.iter().find(|(known, _)| *known == name) {
            if let Some(left) = state.left.clone() {
                return Err(LabError::Leftover { name, left });
            }
            return Err(LabError::Exists { name, holder: state.holder.pid });
        }
        let directory = root.directory(&name);
        // If the state file of an earlier lab was lost, the lab's remains are found by its name.
        dismantle(&name, None, &directory)?;
        Self::make(options, name, slot, directory)
    }

    fn make(options: &LabOptions, name: LabName, slot: u8, directory: PathBuf) -> Result<Self, LabError> {
        let shared = shared_scratch(&name);
        let scratch = if is_on_tmpfs(Path::new("/dev/shm")) { shared } else { directory.join("scratch") };
        let holder = Process::current().map_err(LabError::file("reading", Path::new("/proc/self/stat")))?;
        let cluster = slurm::plan(options.slurm, &directory)?;
        let description = Description { slurm: cluster, ..describe(options, name, slot, &scratch) };
        make_private(&directory)?;
        let state = LabState {
            description,
            slot,
            holder,
            kept: options.kept,
            sshd: None,
            emulator: None,
            machines: Vec::new(),
            scratch,
            namespaces: Vec::new(),
            left: None,
        };
        let parts = Self { state, directory, armed: true };
        parts.state.write(&parts.directory)?;
        // make_private isn't used here, because it accepts an existing directory. In the public /dev/shm, such a
        // directory could belong to another user.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&parts.state.scratch);
        made.map_err(LabError::file("making", &parts.state.scratch))?;
        parts.state.description.sites.iter().try_for_each(|site| make_private(&site.directory))?;
        Ok(parts)
    }

    fn record_namespaces(&mut self) -> Result<(), LabError> {
        for host in self.state.description.namespaces() {
            let path = host.namespace_path();
            self.state.namespaces.push(file_identity(&path).map_err(LabError::file("reading", &path))?);
        }
        self.state.write(&self.directory)
    }

    /// Starts the emulator if the link needs one, and writes its process to the state file.
    fn start_emulator(&mut self, options: &LabOptions) -> Result<Option<Emulator>, LabError> {
        let Some(wan) = self.state.description.wan else { return Ok(None) };
        let program = program(options)?;
        let lab = &self.state.description;
        let emulator = Emulator::start(&program, &self.directory, lab, &wan, options.kept)?;
        self.state.emulator = Some(emulator.process().clone());
        self.state.write(&self.directory)?;
        Ok(Some(emulator))
    }

    /// Starts the guests if they are virtual machines, and writes their processes to the state file.
    fn start_machines(&mut self, options: &LabOptions) -> Result<GuestMachines, LabError> {
        let lab = &mut self.state.description;
        if lab.machine.is_none() {
            return Ok(GuestMachines::default());
        }
        let surroundings = Surroundings {
            directory: &self.directory,
            program: &program(options)?,
            kernel: options.kernel.as_deref(),
            files: &ssh::guest_files(&self.directory, Path::new(guest::LAB), lab)?,
            kept: options.kept,
        };
        let machines = GuestMachines::start(&surroundings, lab)?;
        self.state.machines = machines.processes();
        self.state.write(&self.directory)?;
        Ok(machines)
    }

    fn remove(&mut self) -> Result<(), LabError> {
        self.armed = false;
        dismantle(&self.state.description.name, Some(&self.state), &self.directory)
    }
}

/// The description of the lab with these options in this address block, without a Slurm cluster.
fn describe(options: &LabOptions, name: LabName, slot: u8, scratch: &Path) -> Description {
    let network::LabHosts { mut a, mut b, guests } =
        network::hosts(&name, slot, options.links.unwrap_or(1), options.guests);
    let sites = options.sites.map(|shape| sites::sites(&name, slot, shape, scratch)).unwrap_or_default();
    if let [near, far] = sites.as_slice() {
        (a, b) = (near.hosts[0].host.clone(), far.hosts[0].host.clone());
    }
    // A path with a long round-trip time needs a larger TCP window than the kernel's default.
    let buffer = options.wan.map(|wan| wan.tcp_buffer_max(options.link));
    Description {
        name,
        link: options.link,
        mtu: options.mtu.unwrap_or(1500),
        congestion: network::congestion(options.congestion.as_deref()),
        tcp_buffer_max: options.tcp_buffer_max.or(buffer),
        queues: options.queues,
        wan: options.wan.map(|wan| Wan { queue: wan.queue_bytes(options.link), ..wan }),
        a,
        b,
        guests,
        machine: options.machine.clone(),
        kernel: None,
        sites,
        host_link: options.host_link,
        slurm: None,
    }
}

/// The path of the linerate program.
fn program(options: &LabOptions) -> Result<PathBuf, LabError> {
    let own = || std::env::current_exe().map_err(LabError::file("finding", Path::new("/proc/self/exe")));
    options.linerate.clone().map_or_else(own, Ok)
}

fn joined<T: std::fmt::Display>(words: impl Iterator<Item = T>) -> OsString {
    words.map(|word| word.to_string()).collect::<Vec<_>>().join(" ").into()
}

fn check(options: &LabOptions) -> Result<(), LabError> {
    check_shape(options)?;
    for tool in [tool::IP, tool::TC, tool::SSHD, tool::SSH, tool::SSH_KEYGEN] {
        tool.find()?;
    }
    if !user::is_privileged() {
        return Err(LabError::Unprivileged);
    }
    if options.kept && user::is_in_user_namespace() { Err(LabError::KeptNeedsRoot) } else { Ok(()) }
}

fn is_named(labs: &[(LabName, Option<LabState>)], name: &LabName) -> bool {
    labs.iter().any(|(known, _)| known == name)
}

/// True if files below `path` are in memory.
pub fn is_on_tmpfs(path: &Path) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type == TMPFS_MAGIC)
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.parts.armed {
            self.stop();
        }
    }
}

impl Drop for LabParts {
    fn drop(&mut self) {
        if self.armed
            && let Err(error) = self.remove()
        {
            eprintln!("linerate: {error}");
        }
    }
}
