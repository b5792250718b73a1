//! The processes of guests: starts each guest's machine, and waits until the guest is ready.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linerate_sys::child::die_with_parent;
use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::image::{self, LabFiles};
use super::init::{FAILED, GuestJob, READY, TRIAL};
use super::kernel::GuestKernel;
use super::spec::{Accel, GuestSpec, MachineKind};
use super::{accel, qemu, uml};
use crate::child::{Child, last_lines, settle};
use crate::error::LabError;
use crate::network;
use crate::process::{Process, wait_until};
use crate::state::Description;

/// The longest time to wait until a guest is ready. Normally a guest takes three seconds, or one second under KVM, but
/// longer on a busy host.
const GUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The time that each further guest adds to [`GUEST_TIMEOUT`].
const FURTHER_GUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The beginning of the line on the console that reports that the kernel has failed. User-mode Linux then continues to run.
const PANIC: &str = "Kernel panic - not syncing: ";

/// The beginning of the Ethernet addresses of the network cards: QEMU's usual prefix.
const MAC_PREFIX: &str = "52:54:00";

/// The running guests of a lab. Dropping this value doesn't end them; [`GuestMachines::stop`] does.
#[derive(Debug, Default)]
pub(crate) struct GuestMachines(Vec<Child>);

/// The parts of a lab and of this host that guests need.
pub(crate) struct Surroundings<'a> {
    /// The lab's directory.
    pub(crate) directory: &'a Path,
    /// The linerate program.
    pub(crate) program: &'a Path,
    /// A directory with `boot` and `lib/modules` of the guests' kernel; `None` for `/`.
    pub(crate) kernel: Option<&'a Path>,
    /// Files for the guests' ssh servers.
    pub(crate) files: &'a LabFiles,
    /// True if the guests continue to run after the end of this process.
    pub(crate) kept: bool,
}

/// The files from which guests boot.
pub(super) struct BootFiles {
    pub(super) kernel: PathBuf,
    pub(super) archive: PathBuf,
}

/// The parts from which each kind of machine makes the command of one guest.
pub(super) struct Booted<'a> {
    pub(super) spec: &'a GuestSpec,
    pub(super) boot: &'a BootFiles,
    /// The file for the console's output.
    pub(super) log: &'a Path,
    /// The guest's name.
    pub(super) name: &'a str,
}

/// A network card of a guest.
pub(super) struct Card {
    /// The interface of this host at the card's other end.
    pub(super) tap: String,
    /// The Ethernet address.
    pub(super) mac: String,
}

impl GuestMachines {
    /// Prepares the files from which the lab's guests boot, decides how their processors run, starts the
    /// guests, and writes the kernel's version and the way the processors run to the description.
    ///
    /// # Errors
    /// If no kernel has the needed modules, or if KVM was requested and doesn't work.
    pub(crate) fn start(surroundings: &Surroundings, lab: &mut Description) -> Result<Self, LabError> {
        let Some(spec) = lab.machine.clone() else { return Ok(Self(Vec::new())) };
        let kernel = GuestKernel::find(surroundings.kernel, &spec)?;
        let boot = boot_files(surroundings, &kernel, &spec, lab)?;
        let accel = match spec.kind {
            MachineKind::Qemu => {
                accel::choose(spec.accel, || boots_under_kvm(surroundings.directory, &boot))?
            }
            MachineKind::Uml => spec.accel,
        };
        let spec = GuestSpec { accel, ..spec };
        lab.machine = Some(spec.clone());
        lab.kernel = Some(kernel.version().to_owned());
        let mut machines = Self(Vec::new());
        for number in 0..lab.guests.len() {
            let started = machine(surroundings, lab, &spec, &boot, number)
                .and_then(|command| spawn(command, "guest").map_err(failed));
            match started {
                Ok(child) => {
                    pin(&spec, &child, number);
                    machines.0.push(child);
                }
                Err(error) => {
                    machines.stop();
                    return Err(error);
                }
            }
        }
        Ok(machines)
    }

    /// Waits until all guests are ready.
    ///
    /// # Errors
    /// [`LabError::Guest`] with the last lines of the console of a guest that isn't ready.
    pub(crate) fn wait(&self, directory: &Path) -> Result<(), LabError> {
        let deadline = Instant::now() + GUEST_TIMEOUT + FURTHER_GUEST_TIMEOUT * self.0.len() as u32;
        for (number, child) in self.0.iter().enumerate() {
            let log = console(directory, number);
            let ready = await_ready(child, &log, deadline.saturating_duration_since(Instant::now()));
            let logs = || {
                [log.clone(), errors(directory, number)].map(|log| last_lines(&log)).join("; the machine: ")
            };
            ready.map_err(|reason| LabError::Guest { reason, log: logs() })?;
        }
        Ok(())
    }

    pub(crate) fn processes(&self) -> Vec<Process> {
        self.0.iter().map(|child| child.process().clone()).collect()
    }

    /// Ends all guests.
    pub(crate) fn stop(self) {
        self.0.iter().for_each(|child| child.process().signal(Signal::KILL));
        self.0.into_iter().for_each(Child::stop);
    }
}

/// The file with the console output of a guest.
pub(crate) fn console(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("guest{number}.log"))
}

/// The file with the machine's own messages about a guest.
fn errors(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("machine{number}.log"))
}

fn failed(reason: String) -> LabError {
    LabError::Guest { reason, log: "nothing".into() }
}

fn boot_files(
    surroundings: &Surroundings,
    kernel: &GuestKernel,
    spec: &GuestSpec,
    lab: &Description,
) -> Result<BootFiles, LabError> {
    let job = GuestJob {
        addresses: lab
            .guests
            .iter()
            .enumerate()
            .map(|(n, host)| (format!("g{n}"), network::guest_lines(lab, host)))
            .collect(),
        cards: lab.b.ports().len(),
        settings: network::tcp_settings(lab),
    };
    let archive = surroundings.directory.join("guest.cpio");
    image::write(&archive, surroundings.program, &kernel.modules(spec.modules())?, &job, surroundings.files)?;
    Ok(BootFiles { kernel: kernel.bootable(&surroundings.directory.join("vmlinux")), archive })
}

/// Boots a guest that has only a kernel and this program.
fn boots_under_kvm(directory: &Path, boot: &BootFiles) -> Result<(), String> {
    let log = directory.join("trial.log");
    let spec = GuestSpec { accel: Accel::Kvm, ..GuestSpec::default() };
    let booted = Booted { spec: &spec, boot, log: &log, name: TRIAL };
    let mut command = qemu::without_cards(&booted).map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    die_with_parent(&mut command, Signal::KILL);
    let child = spawn(command, "trial")?;
    let ready = await_ready(&child, &log, accel::KVM_BOOT_TIMEOUT);
    child.process().signal(Signal::KILL);
    child.stop();
    ready
}

fn spawn(command: Command, name: &str) -> Result<Child, String> {
    Child::spawn(name, command).map(|(child, _)| child)
}

fn await_ready(child: &Child, log: &Path, patience: Duration) -> Result<(), String> {
    let mut outcome = Err(format!("the guest isn't ready within {} s", patience.as_secs()));
    wait_until(patience, || {
        let text = std::fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line =
            |begin: &str| text.lines().find_map(|line| line.trim().strip_prefix(begin).map(str::to_owned));
        match (line(FAILED).or_else(|| line(PANIC)), line(READY)) {
            (Some(reason), _) => outcome = Err(reason),
            (None, Some(_)) => outcome = Ok(()),
            (None, None) if !child.process().is_alive() => outcome = Err("the machine ended".into()),
            (None, None) => return false,
        }
        true
    });
    outcome
}

/// The command of guest `number`, which is part of the lab.
fn machine(
    surroundings: &Surroundings,
    lab: &Description,
    spec: &GuestSpec,
    boot: &BootFiles,
    number: usize,
) -> Result<Command, LabError> {
    let directory = surroundings.directory;
    let log = console(directory, number);
    let booted = Booted { spec, boot, log: &log, name: &format!("g{number}") };
    let cards: Vec<Card> = lab
        .b
        .ports()
        .iter()
        .enumerate()
        .map(|(link, port)| Card {
            tap: network::tap(link, number),
            mac: format!("{MAC_PREFIX}:{:02x}:{link:02x}:{number:02x}", port.address.octets()[2]),
        })
        .collect();
    let mut command = match spec.kind {
        MachineKind::Qemu => qemu::with_cards(&booted, &cards)?,
        MachineKind::Uml => uml::with_cards(&booted, &cards, directory)?,
    };
    let path = lab.b.namespace_path();
    let namespace = File::open(&path).map_err(LabError::file("opening", &path))?;
    let errors = errors(directory, number);
    let errors = File::create(&errors).map_err(LabError::file("making", &errors))?;
    command.stdin(Stdio::null()).stderr(errors).current_dir("/");
    // The variable marks the process as part of the lab, even after the namespace has lost its name.
    command.env("LINERATE_LAB", lab.name.as_str());
    settle(&mut command, namespace, (!surroundings.kept).then_some(Signal::KILL));
    Ok(command)
}

/// Binds the threads of guest `number` to one processor.
fn pin(spec: &GuestSpec, child: &Child, number: usize) {
    if !spec.pinned {
        return;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut set = CpuSet::new();
    set.set(number % processors);
    let pid = i32::try_from(child.process().pid).ok().and_then(Pid::from_raw);
    // The machine has just been started, and its later threads and processes inherit the setting.
    let _ = sched_setaffinity(pid, &set);
}
