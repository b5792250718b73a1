//! Facts about a host: each is known, not applicable, or unreadable with the reason.
//!
//! Every value has one source, so that a source that can't be read makes a value unreadable and never another one.

mod bond;
mod cpu;
mod driver;
mod fact;
mod irqs;
mod machine;
mod memory;
mod pci;
mod port;
mod qdisc;
mod softnet;
mod ssh;
mod steering;
mod storage;
mod strain;
mod tcp;

use serde::{Deserialize, Serialize};

pub use bond::Bond;
pub use cpu::{Cpu, Node};
pub use driver::{Channels, Coalescing, Media, Offload, Pause, Rings, Rss};
pub use fact::Fact;
pub use irqs::Irq;
pub use machine::Machine;
pub use memory::Memory;
pub use pci::{Bridge, Pci, PciLink};
pub use port::{Counters, Kind, Port, Vlan};
pub use qdisc::Qdisc;
pub use softnet::{Softnet, SoftnetCpu};
pub use ssh::Ssh;
pub use steering::{RxQueue, TxQueue};
pub use storage::{BlockDevice, FcHost, FileSystem, Storage};
pub use strain::{Stall, Strain};
pub use tcp::{Route, Tcp};

/// The version of the JSON form; fields are only ever added.
pub const SCHEMA: u32 = 1;

/// What a host says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Host name.
    pub hostname: Fact<String>,
    /// Kernel release, as `uname -r`.
    pub kernel: Fact<String>,
    /// Distribution, as PRETTY_NAME of os-release.
    pub distribution: Fact<String>,
    /// Processors.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// Real or a guest.
    pub machine: Machine,
    /// Network interfaces of the reader's namespace, sorted by name, loopback left out.
    pub ports: Fact<Vec<Port>>,
    /// The kernel's receive path.
    pub softnet: Softnet,
    /// TCP.
    pub tcp: Tcp,
    /// File systems.
    pub storage: Storage,
    /// ssh.
    pub ssh: Ssh,
    /// Steal and pressure.
    pub strain: Strain,
}

/// Nothing is known.
impl Default for Facts {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            hostname: Fact::default(),
            kernel: Fact::default(),
            distribution: Fact::default(),
            cpu: Cpu::default(),
            memory: Memory::default(),
            machine: Machine::default(),
            ports: Fact::default(),
            softnet: Softnet::default(),
            tcp: Tcp::default(),
            storage: Storage::default(),
            ssh: Ssh::default(),
            strain: Strain::default(),
        }
    }
}

impl Facts {
    /// The interface of a name.
    pub fn port(&self, name: &str) -> Option<&Port> {
        self.ports.known()?.iter().find(|port| port.name == name)
    }
}
