//! Facts about a host: each fact is known, not applicable, or unreadable with the reason.
//!
//! Every value has only one source. If this source can't be read, the value is unreadable, and not wrong.

mod bond;
mod cpu;
mod driver;
mod drivers;
mod during;
mod fact;
mod fec;
mod fixed;
mod functions;
mod groups;
mod idle;
mod irqs;
mod kind;
mod layer;
mod layers;
mod link_modes;
mod machine;
mod memory;
mod module;
mod pci;
mod port;
mod ports;
mod qdisc;
mod read;
mod route;
mod softnet;
mod ssh;
mod steering;
mod storage;
mod strain;
mod tcp;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::root::Root;
use crate::snapshot::Snapshot;

pub use bond::Bond;
pub use cpu::{CpuFacts, Node};
pub use driver::{Channels, Coalescing, Media, Offload, Pause, Rings, Rss};
pub use fact::Fact;
pub use fec::Fec;
pub use functions::FunctionRate;
pub use groups::{GroupFacts, IoLimit, MemoryLimit};
pub use idle::{Idle, IdleState};
pub use irqs::Irq;
pub use kind::{PortKind, has_rate_of_its_own};
pub use layer::PortLayer;
pub use layers::{BlockLayer, Paths};
pub use link_modes::{LinkMode, LinkModes};
pub use machine::Machine;
pub use memory::{MemoryFacts, available_memory};
pub use module::{CableKind, Limits, Module, ModuleReach, Monitor};
pub use pci::{Bridge, Pci, PciLink};
pub use port::{Port, PortCounters, Vlan, VlanAbove};
pub(crate) use qdisc::shaper_of;
pub use qdisc::{Policers, Qdisc};
pub use read::{cpus_of_list, cpus_of_mask};
pub use route::{BesidePort, TakenRoute};
pub use softnet::{SoftnetCpu, SoftnetFacts};
pub use ssh::Ssh;
pub use steering::{RxQueue, TxQueue};
pub use storage::{BlockDevice, EncryptedDevice, FcHost, FileSystem, Storage, usual_paths};
pub use strain::{StallShares, Strain};
pub use tcp::{RouteFacts, Tcp};

/// The version of the JSON format. Later versions only add fields.
pub const SCHEMA: u32 = 1;

/// The facts about a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The version of the JSON format, [`SCHEMA`].
    pub schema: u32,
    /// The host's name.
    pub hostname: Fact<String>,
    /// The kernel release, as `uname -r` prints it.
    pub kernel: Fact<String>,
    /// The distribution: PRETTY_NAME of os-release.
    pub distribution: Fact<String>,
    /// Facts about the processors.
    pub cpu: CpuFacts,
    /// Facts about memory.
    pub memory: MemoryFacts,
    /// The limits of linerate's own control groups.
    pub groups: GroupFacts,
    /// Facts about the machine on which the kernel runs: a physical machine, or a guest.
    pub machine: Machine,
    /// Network interfaces of the reader's namespace, sorted by name, without loopback.
    pub ports: Fact<Vec<Port>>,
    /// Facts about the kernel's receive path.
    pub softnet: SoftnetFacts,
    /// TCP's settings and counters.
    pub tcp: Tcp,
    /// The route to the other end of a path, or the route back to the client that logged in by ssh; not applicable if
    /// there is neither a path nor such a login.
    pub route: Fact<TakenRoute>,
    /// Facts about file systems and block devices.
    pub storage: Storage,
    /// The installed ssh programs.
    pub ssh: Ssh,
    /// The host's strain: stolen time and stalls.
    pub strain: Strain,
    /// The seconds over which losses are counted; not applicable if they are counted since boot.
    pub counted_seconds: Fact<f64>,
}

/// By default, all facts are unknown.
impl Default for Facts {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            hostname: Fact::default(),
            kernel: Fact::default(),
            distribution: Fact::default(),
            cpu: CpuFacts::default(),
            memory: MemoryFacts::default(),
            groups: GroupFacts::default(),
            machine: Machine::default(),
            ports: Fact::default(),
            softnet: SoftnetFacts::default(),
            tcp: Tcp::default(),
            route: Fact::default(),
            storage: Storage::default(),
            ssh: Ssh::default(),
            strain: Strain::default(),
            counted_seconds: Fact::NotApplicable,
        }
    }
}

impl Facts {
    /// Reads the facts of this host, including the file systems of the given paths.
    ///
    /// This takes about 50 ms, because the rates of ciphers and hashes are measured.
    pub fn here(paths: &[PathBuf]) -> Self {
        Self::of(&Root::dir(Path::new("/")), paths)
    }

    /// Reads the facts as [`Facts::here`] does, and also returns a snapshot of everything that was read. From
    /// the snapshot, [`Facts::of_snapshot`] computes the same facts on any host.
    pub fn here_with_snapshot(paths: &[PathBuf]) -> (Self, Snapshot) {
        let root = Root::dir(Path::new("/")).keeping();
        let facts = Self::of(&root, paths);
        (facts, root.into_kept())
    }

    /// Reads the facts of the host whose `/` is the directory `root`. This never fails: an unreadable fact
    /// holds the reason.
    pub fn read(root: &Path) -> Self {
        Self::of(&Root::dir(root), &[PathBuf::from("/")])
    }

    /// Reads the facts as [`Facts::read`] does, but only from files, even if `root` is this host's `/`.
    pub(crate) fn of_files(root: &Path) -> Self {
        Self::of(&Root::files(root), &[])
    }

    /// The facts of the host on which the snapshot was made.
    pub fn of_snapshot(snapshot: &Snapshot) -> Self {
        Self::of(&Root::snapshot(snapshot), &[])
    }

    /// The facts of a snapshot file, or of the host whose `/` is the directory `path`.
    ///
    /// # Errors
    /// If the path is neither a snapshot nor a directory, or can't be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Ok(Self::read(path));
        }
        Ok(Self::of_snapshot(&Snapshot::open(path)?))
    }

    fn of(root: &Root, paths: &[PathBuf]) -> Self {
        let cpuinfo = root.needed("proc/cpuinfo");
        let machine = Machine::read(root, &cpuinfo);
        Self {
            schema: SCHEMA,
            hostname: root.needed("proc/sys/kernel/hostname"),
            kernel: root.needed("proc/sys/kernel/osrelease"),
            distribution: distribution(root),
            cpu: CpuFacts::read(root, &cpuinfo),
            memory: MemoryFacts::read(root),
            groups: GroupFacts::read(root),
            ports: ports::read(root, &machine.guest),
            machine,
            softnet: SoftnetFacts::read(root),
            tcp: Tcp::read(root),
            route: TakenRoute::back(root),
            storage: Storage::read(root, paths),
            ssh: Ssh::read(root),
            strain: Strain::read(root),
            counted_seconds: Fact::NotApplicable,
        }
    }

    /// True if all these facts are unknown: the host's name, its kernel, its distribution, its processors, its memory
    /// and its ports.
    pub fn is_nothing(&self) -> bool {
        let texts = [&self.hostname, &self.kernel, &self.distribution, &self.cpu.model];
        texts.iter().all(|text| text.known().is_none())
            && self.cpu.online.known().is_none()
            && self.memory.total.known().is_none()
            && self.ports.known().is_none()
    }

    /// The interface with this name.
    pub fn port(&self, name: &str) -> Option<&Port> {
        self.ports.known()?.iter().find(|port| port.name == name)
    }
}

/// PRETTY_NAME of os-release (os-release(5)), without its quotes.
fn distribution(root: &Root) -> Fact<String> {
    let text = root.text("etc/os-release").or_else(|| root.text("usr/lib/os-release"));
    text.and_then(|text| {
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        name.map_or(Fact::NotApplicable, |name| {
            Fact::Known(name.trim().trim_matches(|c| c == '"' || c == '\'').to_owned())
        })
    })
}
