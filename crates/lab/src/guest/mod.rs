//! Guests: virtual machines behind host b's end of a lab's links, made by QEMU or user-mode Linux without an image.
//!
//! A guest boots a kernel of the distribution. Its root file system is this host's, read-only, below a layer in
//! the guest's memory. So the guest has every program of this host.
//!
//! | file | does |
//! | --- | --- |
//! | `spec.rs` | the kinds of guests: card, processors, memory, queues |
//! | `kernel.rs`, `module.rs` | finds a kernel, and the modules that a guest needs, in their order |
//! | `cpio.rs`, `image.rs` | the archive that the kernel unpacks; its contents: this program and the modules |
//! | `machine.rs` | the processes of the machines |
//! | `qemu.rs`, `accel.rs`, `uml.rs` | the command lines of QEMU and of user-mode Linux; whether KVM works here |
//! | `init.rs` | the first process in a guest |

mod accel;
mod cpio;
mod image;
mod init;
mod kernel;
mod machine;
mod module;
mod qemu;
mod spec;
mod uml;

pub(crate) use init::LAB;
pub use init::{GuestJob, SUBCOMMAND, serve};
pub(crate) use machine::{GuestMachines, Surroundings};
pub use spec::{Accel, AccelError, GuestSpec, GuestSpecError, MachineKind, MachineKindError, Nic, NicError};
