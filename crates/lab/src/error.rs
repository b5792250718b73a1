//! Errors of labs, most of them with advice.

use std::io;
use std::path::{Path, PathBuf};

use crate::name::LabName;

/// The reason why a lab couldn't be made, found or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A program that the distribution provides is missing.
    #[error("a lab needs {program} ({purpose}), which isn't installed; as root: apt-get install {package}")]
    Missing {
        /// The program's name.
        program: &'static str,
        /// The purpose for which the lab needs it.
        purpose: &'static str,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// A program ran and failed, or couldn't be run.
    #[error("{command}: {reason}")]
    Command {
        /// The command line.
        command: String,
        /// The output of the command, or the error of starting it.
        reason: String,
    },
    /// An operation on a file or directory of the lab failed.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// The action, such as "writing".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The state directory isn't private.
    #[error("{} {reason}, so a lab's keys wouldn't be safe in it; remove it", path.display())]
    Insecure {
        /// The directory.
        path: PathBuf,
        /// The reason why it isn't private.
        reason: &'static str,
    },
    /// Another lab has this name.
    #[error(
        "a lab named {name} is already up, held by process {holder}; choose another name, or: linerate lab down {name}"
    )]
    Exists {
        /// The name that was requested.
        name: LabName,
        /// The process ID of the other lab's holder.
        holder: u32,
    },
    /// No lab has this name.
    #[error("no lab is named {name}; {known}")]
    Unknown {
        /// The requested name.
        name: LabName,
        /// A phrase that lists the labs that are up.
        known: String,
    },
    /// The name of a lab must be given.
    #[error("name the lab: linerate lab down NAME, or --all; {known}")]
    Ambiguous {
        /// A phrase that lists the labs that are up.
        known: String,
    },
    /// A lab can't have this shape.
    #[error("a lab can't be made: {reason}")]
    Shape {
        /// The reason why the shape is impossible.
        reason: String,
    },
    /// The kernel gave an interface a different number of queues than requested.
    #[error(
        "{interface} should have {asked} receive and {asked} transmit queues, but has {}; request fewer",
        found.map_or("unknown ones".into(), |(rx, tx)| format!("{rx} and {tx}"))
    )]
    Queues {
        /// The name of the interface.
        interface: String,
        /// The requested number of queues in each direction.
        asked: u32,
        /// The interface's actual numbers of receive and transmit queues.
        found: Option<(u32, u32)>,
    },
    /// All address blocks for labs are in use.
    #[error(
        "all 250 address blocks of labs are in use; end a lab: linerate lab status, then linerate lab down NAME"
    )]
    Full,
    /// The far host's ssh server can't be used.
    #[error("the lab's ssh server isn't usable: {reason}; its log says: {log}")]
    Sshd {
        /// The failure.
        reason: String,
        /// The last lines of the server's log.
        log: String,
    },
    /// The Slurm cluster of a lab's sites can't be used.
    #[error(
        "the lab's Slurm cluster isn't usable: {reason}; its logs say: {log}; or make the lab without Slurm by --slurm off"
    )]
    Slurm {
        /// The failure.
        reason: String,
        /// The last lines of the logs of its daemons.
        log: String,
    },
    /// The emulator of a link with delay or loss doesn't run.
    #[error(
        "the emulator of the lab's link doesn't run: {reason}; let this user open /dev/net/tun (as root: modprobe tun; chmod 666 /dev/net/tun), or leave out --rtt and --loss"
    )]
    Emulator {
        /// The failure.
        reason: String,
    },
    /// There is no suitable kernel for guests.
    #[error(
        "guests need a kernel with the modules 9p and {modules}: below {} are {}; as root: apt-get install \
         linux-image-amd64, or name another directory with boot/ and lib/modules/ by --kernel",
        root.display(),
        if found.is_empty() { "none" } else { found }
    )]
    Kernel {
        /// The directory with `boot` and `lib/modules`.
        root: PathBuf,
        /// The modules that the network card needs.
        modules: String,
        /// The kernel versions that were found.
        found: String,
    },
    /// KVM was requested, but no guest boots under it.
    #[error(
        "no guest boots under KVM on this host: {reason}; use tcg or auto, or a host with virtualization enabled"
    )]
    Kvm {
        /// The failure.
        reason: String,
    },
    /// A guest doesn't run.
    #[error("a guest doesn't run: {reason}; its last messages: {log}")]
    Guest {
        /// The failure.
        reason: String,
        /// The last lines of the guest's console.
        log: String,
    },
    /// This process has no right to make network namespaces.
    #[error("a lab needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run as root, or as: linerate lab run -- COMMAND")]
    Unprivileged,
    /// An ordinary user can't keep a lab after the end of the process that made it.
    #[error("without root a lab can't outlive its process; use: linerate lab run -- $SHELL")]
    KeptNeedsRoot,
    /// The kernel doesn't let this user make a user namespace, or the namespace gives no rights.
    #[error(
        "a lab without root needs a user namespace, and this system refuses one ({reason}); {fix}. \
         Or measure on the loopback interface, without a lab: linerate cp FILE localhost:DIR"
    )]
    UserNamespace {
        /// The kernel's error.
        reason: String,
        /// The setting that must be changed.
        fix: String,
    },
    /// A part of a lab couldn't be removed.
    #[error(
        "lab {name} is only partly removed: {left}; it stays in `linerate lab status`, and each lab command tries again"
    )]
    Leftover {
        /// The name of the lab.
        name: LabName,
        /// The remaining parts, each with the reason.
        left: String,
    },
}

impl LabError {
    /// Whether the error concerns only virtual machines, so that a lab without them could be made.
    pub fn is_about_guests(&self) -> bool {
        let qemu = crate::tool::QEMU.program();
        matches!(self, Self::Kernel { .. } | Self::Kvm { .. } | Self::Guest { .. })
            || matches!(self, Self::Missing { program, .. } if *program == qemu)
    }

    /// A function for `map_err`: turns an [`io::Error`] that happened while doing `action` to `path` into a
    /// `LabError`.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}
