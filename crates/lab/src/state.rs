//! The state file of each lab, with which any later command finds the lab, even after the process that made
//! it was killed.
//!
//! The root directory holds a `lock`, and one directory for each lab, with the lab's name. That directory
//! holds `state.json`, and the keys, the configuration and the log of the ssh server. A lab exists as long as
//! one process, its holder.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::guest::GuestSpec;
use crate::name::LabName;
use crate::process::Process;
use crate::rate::Rate;
use crate::sites::{LabSite, SiteHost};
use crate::slurm::SlurmCluster;
use crate::wan::Wan;

/// The description of a lab: enough for a reader of results, and to build the same lab again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The name of the lab.
    pub name: LabName,
    /// The link's rate in each direction; `None` for an open link, which only the processors limit.
    pub link: Option<Rate>,
    /// The link's largest packet, in bytes without the Ethernet header.
    pub mtu: u32,
    /// The TCP congestion control of routes over the link; `None` for the kernel's default.
    pub congestion: Option<String>,
    /// The largest TCP buffer in bytes, if it isn't the kernel's default.
    pub tcp_buffer_max: Option<u64>,
    /// Receive and transmit queues of each interface, if they aren't the kernel's default.
    #[serde(default)]
    pub queues: Option<u32>,
    /// Delay and loss of the link, if an emulator adds them.
    #[serde(default)]
    pub wan: Option<Wan>,
    /// The near host, where commands run.
    pub a: LabHost,
    /// The far host, with an ssh server.
    pub b: LabHost,
    /// Hosts behind b's end of the links. They share the links.
    #[serde(default)]
    pub guests: Vec<LabHost>,
    /// The kind of virtual machines that the guests are, with the way their processors run; `None` if they are
    /// network namespaces.
    #[serde(default)]
    pub machine: Option<GuestSpec>,
    /// The version of the kernel in virtual machines.
    #[serde(default)]
    pub kernel: Option<String>,
    /// Both sites, if the lab has sites. In that case, a is the first host of the first site, and b the first host of
    /// the second site.
    #[serde(default)]
    pub sites: Vec<LabSite>,
    /// The rate of each link between a site's host and its switch, in each direction; `None` for open links.
    #[serde(default)]
    pub host_link: Option<Rate>,
    /// The Slurm cluster of the sites' hosts.
    #[serde(default)]
    pub slurm: Option<SlurmCluster>,
}

/// One host of a lab: a network namespace with loopback and an interface for each link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabHost {
    /// The name of the namespace for `ip netns`.
    pub namespace: String,
    /// The interface on the first link.
    pub interface: String,
    /// The host's IPv4 address: in a /30 network, in a /25 if guests share the link, or in a /26 on a site.
    pub address: Ipv4Addr,
    /// The host's IPv6 address, in a /64 network; `None` if the kernel has no IPv6.
    pub address6: Option<Ipv6Addr>,
    /// The host's ends of the lab's links after the first.
    #[serde(default)]
    pub further: Vec<LinkPort>,
}

/// A host's end of one link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPort {
    /// The interface.
    pub interface: String,
    /// The IPv4 address of this end.
    pub address: Ipv4Addr,
    /// The IPv6 address of this end, in a /64 network; `None` if the kernel has no IPv6.
    pub address6: Option<Ipv6Addr>,
}

/// The contents of a lab's `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LabState {
    pub(crate) description: Description,
    /// The number of the lab's address block, unique among the labs of a root directory.
    pub(crate) slot: u8,
    /// The process with which the lab ends.
    pub(crate) holder: Process,
    /// Whether the lab exists until it is taken down by name. Its holder is then the ssh server.
    pub(crate) kept: bool,
    pub(crate) sshd: Option<Process>,
    /// The link's emulator, if it has one.
    #[serde(default)]
    pub(crate) emulator: Option<Process>,
    /// The guests that are virtual machines.
    #[serde(default)]
    pub(crate) machines: Vec<Process>,
    /// The lab's directory for data, which may be on a tmpfs.
    pub(crate) scratch: PathBuf,
    /// The device and inode numbers of the hosts' namespaces.
    pub(crate) namespaces: Vec<(u64, u64)>,
    /// The parts that remained when the lab was taken down, each with the reason.
    #[serde(default)]
    pub(crate) left: Option<String>,
}

/// The directory of this user's labs.
#[derive(Clone, Debug)]
pub(crate) struct StateRoot(PathBuf);

impl LabHost {
    /// The file that names the host's namespace.
    pub fn namespace_path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.namespace)
    }

    /// The host's end of each link.
    pub fn ports(&self) -> Vec<LinkPort> {
        let Self { interface, address, address6, .. } = self;
        let first = LinkPort { interface: interface.clone(), address: *address, address6: *address6 };
        std::iter::once(first).chain(self.further.iter().cloned()).collect()
    }
}

impl Description {
    /// The network namespaces: those of a, b, and guests that aren't virtual machines; or those of the switches and
    /// hosts of the sites.
    pub fn namespaces(&self) -> impl Iterator<Item = &LabHost> {
        let pair = if self.sites.is_empty() { vec![&self.a, &self.b] } else { Vec::new() };
        let switches = self.sites.iter().map(|site| &site.switch);
        let hosts = self.site_hosts().map(|host| &host.host);
        pair.into_iter().chain(self.guest_namespaces()).chain(switches).chain(hosts)
    }

    /// The hosts of all sites.
    pub fn site_hosts(&self) -> impl Iterator<Item = &SiteHost> {
        self.sites.iter().flat_map(|site| &site.hosts)
    }

    /// The two ends of the links: a and b, or the switches of the sites.
    pub(crate) fn link_ends(&self) -> [&LabHost; 2] {
        match self.sites.as_slice() {
            [one, other] => [&one.switch, &other.switch],
            _ => [&self.a, &self.b],
        }
    }

    /// The guests that are network namespaces: all guests, or none.
    pub fn guest_namespaces(&self) -> &[LabHost] {
        if self.machine.is_none() { &self.guests } else { &[] }
    }

    /// The guests that are virtual machines: all guests, or none.
    pub fn machines(&self) -> &[LabHost] {
        if self.machine.is_some() { &self.guests } else { &[] }
    }
}

impl LabState {
    /// Replaces the state file in one step, so that a reader never gets a partial file.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), LabError> {
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        let (partial, path) = (directory.join("state.json.new"), directory.join("state.json"));
        let written = text.and_then(|text| write_private(&partial, &text));
        written.and_then(|()| std::fs::rename(&partial, &path)).map_err(LabError::file("writing", &path))
    }

    pub(crate) fn read(directory: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(directory.join("state.json"))?)?)
    }
}

impl StateRoot {
    /// Opens the root directory: `/run/linerate` for root; for other users, a directory under `$XDG_RUNTIME_DIR`, or
    /// `/tmp/linerate-UID` if the variable isn't set. If the directory is missing, creates it, closed to other users.
    pub(crate) fn open() -> Result<Self, LabError> {
        let user = rustix::process::geteuid().as_raw();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let path = match runtime.filter(|path| is_usable(path, user)) {
            _ if user == 0 => PathBuf::from("/run/linerate"),
            Some(runtime) => runtime.join("linerate"),
            None => PathBuf::from(format!("/tmp/linerate-{user}")),
        };
        Self::at(path)
    }

    /// Uses this directory as the root directory. It must belong to the user and be closed to other users.
    pub(crate) fn at(path: PathBuf) -> Result<Self, LabError> {
        make_private(&path)?;
        let meta = path.symlink_metadata().map_err(LabError::file("reading", &path))?;
        let insecure = |reason| Err(LabError::Insecure { path: path.clone(), reason });
        match () {
            () if !meta.is_dir() => insecure("is not a directory"),
            () if meta.uid() != rustix::process::geteuid().as_raw() => insecure("belongs to another user"),
            () if meta.permissions().mode() & 0o077 != 0 => insecure("is open to other users"),
            () => Ok(Self(path)),
        }
    }

    /// Locks the set of labs against changes by other commands, until the returned file is dropped.
    pub(crate) fn lock(&self) -> Result<File, LabError> {
        let path = self.0.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let locked = file.and_then(|file| file.lock().map(|()| file));
        locked.map_err(LabError::file("locking", &path))
    }

    /// A file in the root directory; for an empty name, the root directory itself.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.clone() } else { self.0.join(name) }
    }

    /// The directory of a lab.
    pub(crate) fn directory(&self, name: &LabName) -> PathBuf {
        self.0.join(name.as_str())
    }

    /// All labs by name. A lab whose state file is missing or unreadable has no state: the process that made the lab
    /// was killed after it created the directory.
    pub(crate) fn labs(&self) -> Result<Vec<(LabName, Option<LabState>)>, LabError> {
        let entries = std::fs::read_dir(&self.0).map_err(LabError::file("reading", &self.0))?;
        let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let names = directories.filter_map(|entry| entry.file_name().to_str()?.parse::<LabName>().ok());
        let mut labs: Vec<_> =
            names.map(|name| (name.clone(), LabState::read(&self.directory(&name)).ok())).collect();
        labs.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(labs)
    }
}

/// Creates a directory that only its user may enter. An existing directory stays unchanged.
pub(crate) fn make_private(path: &Path) -> Result<(), LabError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(LabError::file("making", path)),
    }
}

/// Writes a file that only its user may read.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text)
}

/// True for a runtime directory of this user whose path needs no quoting in configuration files.
fn is_usable(path: &Path, user: u32) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let simple = path.is_absolute() && path.to_str().is_some_and(|text| text.chars().all(plain));
    simple && path.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(name: &str, holder: Process, scratch: &Path) -> LabState {
        let name: LabName = name.parse().expect("a good name");
        let host = |letter| LabHost {
            namespace: name.namespace(letter),
            interface: "to-b".into(),
            address: Ipv4Addr::new(10, 213, 9, 1),
            address6: None,
            further: Vec::new(),
        };
        let (a, b) = (host('a'), host('b'));
        let link = Some("10gbit".parse().expect("a rate"));
        let description = Description {
            name,
            link,
            mtu: 1500,
            congestion: None,
            tcp_buffer_max: None,
            queues: None,
            wan: None,
            a,
            b,
            guests: Vec::new(),
            machine: None,
            kernel: None,
            sites: Vec::new(),
            host_link: None,
            slurm: None,
        };
        LabState {
            description,
            slot: 9,
            holder,
            kept: false,
            sshd: None,
            emulator: None,
            machines: Vec::new(),
            scratch: scratch.into(),
            namespaces: vec![],
            left: None,
        }
    }

    pub(crate) fn root_in(directory: &Path) -> StateRoot {
        StateRoot::at(directory.join("root")).expect("a private directory")
    }

    #[test]
    fn a_state_is_read_as_written_and_its_rate_as_text() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let state = sample("x", Process::current().expect("procfs"), directory.path());
        state.write(directory.path()).expect("writable");
        assert_eq!(LabState::read(directory.path()).expect("just written"), state);
        let text = std::fs::read_to_string(directory.path().join("state.json")).expect("just written");
        assert!(text.contains("\"10gbit\""), "{text}");
    }

    #[test]
    fn labs_are_listed_and_a_torn_state_is_none() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = root_in(directory.path());
        let state = sample("whole", Process::current().expect("procfs"), directory.path());
        for name in ["whole", "torn", "empty"] {
            make_private(&root.directory(&name.parse().expect("a name"))).expect("writable");
        }
        state.write(&root.directory(&state.description.name)).expect("writable");
        std::fs::write(root.0.join("torn/state.json"), "{\"slot\":").expect("writable");
        std::fs::create_dir(root.0.join("Not A Lab")).expect("writable");
        let found: Vec<_> =
            root.labs().expect("readable").into_iter().map(|(n, s)| (n.to_string(), s.is_some())).collect();
        assert_eq!(found, [("empty".into(), false), ("torn".into(), false), ("whole".into(), true)]);
    }

    #[test]
    fn an_open_or_linked_root_is_refused() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let open = directory.path().join("open");
        std::fs::create_dir(&open).expect("writable");
        std::fs::set_permissions(&open, Permissions::from_mode(0o755)).expect("our own");
        assert!(matches!(StateRoot::at(open.clone()), Err(LabError::Insecure { .. })));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&open, &link).expect("writable");
        assert!(matches!(StateRoot::at(link), Err(LabError::Insecure { .. })));
    }
}
