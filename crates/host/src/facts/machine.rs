//! What kind of machine it is: real or a guest, and what it does for guests of its own.

use serde::{Deserialize, Serialize};

use super::Fact;

/// The machine around the kernel. Each value has one source of its own; [`Machine::hypervisor`] joins them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Whether the processor says that a hypervisor is below (x86's flag).
    pub guest: Fact<bool>,
    /// The hypervisor's signature: CPUID leaf 0x4000_0000, as `KVMKVMKVM`.
    pub signature: Fact<String>,
    /// /sys/hypervisor/type: `xen`.
    pub hypervisor_type: Fact<String>,
    /// DMI: who made it.
    pub vendor: Fact<String>,
    /// DMI: its product name.
    pub product: Fact<String>,
    /// DMI: who made its firmware.
    pub bios_vendor: Fact<String>,
    /// Whether devices can be given to guests: the kernel has an IOMMU in use.
    pub iommu: Fact<bool>,
    /// Whether this host can run guests by KVM: /dev/kvm is there.
    pub kvm: Fact<bool>,
    /// Whether the kernel can move guests' packets itself: /dev/vhost-net is there.
    pub vhost_net: Fact<bool>,
    /// Guests that run on this host: processes of QEMU, Cloud Hypervisor, Firecracker, crosvm.
    pub guests: Fact<u32>,
    /// Kernel threads that move guests' packets (`vhost-PID`).
    pub vhost_threads: Fact<u32>,
}
