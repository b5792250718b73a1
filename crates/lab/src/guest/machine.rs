//! The processes of guests: starts QEMU, and waits until each guest is ready.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linerate_sys::child::die_with_parent;
use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::accel;
use super::image::{self, LabFiles};
use super::init::{FAILED, GuestJob, PROGRAM, READY, SUBCOMMAND, TRIAL};
use super::kernel::GuestKernel;
use super::spec::{Accel, GuestSpec, Nic};
use crate::child::{Child, last_lines, settle};
use crate::error::LabError;
use crate::network;
use crate::process::{Process, wait_until};
use crate::state::Description;
use crate::tool::QEMU;

/// The longest time to wait until a guest is ready. Normally a guest takes three seconds, or one second under KVM, but
/// longer on a busy host.
const GUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The time that each further guest adds to [`GUEST_TIMEOUT`].
const FURTHER_GUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The beginning of the Ethernet addresses of the network cards: QEMU's usual prefix.
const MAC_PREFIX: &str = "52:54:00";

/// The processor model of an emulated guest, without fast string operations, because QEMU emulates them slowly.
const TCG_MODEL: &str = "max,-erms,-fsrm";

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
struct BootFiles {
    kernel: PathBuf,
    archive: PathBuf,
}

impl GuestMachines {
    /// Prepares the files from which the lab's guests boot, decides how their processors run, starts the
    /// guests, and writes the kernel's version and the way the processors run to the description.
    ///
    /// # Errors
    /// If no kernel has the needed modules, or if KVM was requested and doesn't work.
    pub(crate) fn start(surroundings: &Surroundings, lab: &mut Description) -> Result<Self, LabError> {
        let Some(spec) = lab.machine.clone() else { return Ok(Self(Vec::new())) };
        let kernel = GuestKernel::find(surroundings.kernel, spec.modules())?;
        let boot = boot_files(surroundings, &kernel, &spec, lab)?;
        let accel = accel::choose(spec.accel, || boots_under_kvm(surroundings.directory, &boot))?;
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
            let logs =
                || [log.clone(), errors(directory, number)].map(|log| last_lines(&log)).join("; QEMU: ");
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

/// The file with QEMU's own messages about a guest.
fn errors(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("qemu{number}.log"))
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
    let mut command = base(&spec, boot, &log, TRIAL).map_err(|error| error.to_string())?;
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
        match (line(FAILED), line(READY)) {
            (Some(reason), _) => outcome = Err(reason),
            (None, Some(_)) => outcome = Ok(()),
            (None, None) if !child.process().is_alive() => outcome = Err("QEMU ended".into()),
            (None, None) => return false,
        }
        true
    });
    outcome
}

/// The command that runs a guest without network cards.
fn base(spec: &GuestSpec, boot: &BootFiles, log: &Path, name: &str) -> Result<Command, LabError> {
    let mut command = Command::new(QEMU.find()?);
    let (accel, model, kernel_options) = match spec.accel {
        Accel::Kvm => ("kvm", "host", ""),
        // Mitigations of processor vulnerabilities cost much time if every instruction is emulated.
        Accel::Tcg | Accel::Auto => ("tcg,thread=multi", TCG_MODEL, "mitigations=off tsc=unstable "),
    };
    let append = format!(
        "console=ttyS0 quiet loglevel=3 {kernel_options}net.ifnames=0 panic=-1 rdinit=/{PROGRAM} -- {SUBCOMMAND} {name}"
    );
    let (vcpus, memory) = (spec.vcpus.to_string(), format!("{}k", spec.memory / 1024));
    command.args(["-name", &format!("linerate-{name}"), "-machine", "q35", "-accel", accel, "-cpu", model]);
    command.args(["-smp", &vcpus, "-m", &memory, "-nodefaults", "-no-user-config", "-no-reboot"]);
    command.args(["-display", "none", "-monitor", "none", "-append", &append, "-serial"]);
    command.arg(with_path("file:", log)).arg("-kernel").arg(&boot.kernel).arg("-initrd").arg(&boot.archive);
    Ok(command)
}

/// An option of QEMU that ends in a path. A comma in the path is written twice.
fn with_path(option: &str, path: &Path) -> OsString {
    format!("{option}{}", path.display().to_string().replace(',', ",,")).into()
}

fn machine(
    surroundings: &Surroundings,
    lab: &Description,
    spec: &GuestSpec,
    boot: &BootFiles,
    number: usize,
) -> Result<Command, LabError> {
    let mut command = base(spec, boot, &console(surroundings.directory, number), &format!("g{number}"))?;
    command.args(["-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"]);
    for (link, port) in lab.b.ports().iter().enumerate() {
        let tap = network::tap(link, number);
        let queues = if spec.queues > 1 { format!(",queues={}", spec.queues) } else { String::new() };
        let vhost = if spec.vhost { "on" } else { "off" };
        command.args([
            "-netdev",
            &format!("tap,id=n{link},ifname={tap},script=no,downscript=no,vhost={vhost}{queues}"),
        ]);
        let mac = format!("{MAC_PREFIX}:{:02x}:{link:02x}:{number:02x}", port.address.octets()[2]);
        command.args(["-device", &device(spec, link, &mac)]);
    }
    let path = lab.b.namespace_path();
    let namespace = File::open(&path).map_err(LabError::file("opening", &path))?;
    let errors = errors(surroundings.directory, number);
    let errors = File::create(&errors).map_err(LabError::file("making", &errors))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).current_dir("/");
    // The variable marks the process as part of the lab, even after the namespace has lost its name.
    command.env("LINERATE_LAB", lab.name.as_str());
    settle(&mut command, namespace, (!surroundings.kept).then_some(Signal::KILL));
    Ok(command)
}

fn device(spec: &GuestSpec, link: usize, mac: &str) -> String {
    let name = spec.nic.device();
    // `romfile=`: the card has no boot ROM.
    let plain = format!("{name},netdev=n{link},mac={mac},romfile=");
    if spec.nic != Nic::Virtio {
        return plain;
    }
    // The number of interrupts: two for each queue, one for the configuration and one for the control queue.
    let queues =
        if spec.queues > 1 { format!(",mq=on,vectors={}", 2 * spec.queues + 2) } else { String::new() };
    let rss = if spec.rss { ",rss=on" } else { "" };
    let offload = if spec.offload {
        ""
    } else {
        ",csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,host_tso4=off,host_tso6=off,mrg_rxbuf=off"
    };
    format!("{plain}{queues}{rss}{offload}")
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
    // QEMU has just been started, and its later threads inherit the setting.
    let _ = sched_setaffinity(pid, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_as_many_queues_as_asked() {
        let spec = GuestSpec { vcpus: 4, queues: 4, ..GuestSpec::default() };
        assert_eq!(device(&spec, 0, "m"), "virtio-net-pci,netdev=n0,mac=m,romfile=,mq=on,vectors=10");
        let rss = GuestSpec { rss: true, ..GuestSpec::default() };
        assert!(device(&rss, 0, "m").ends_with("romfile=,rss=on"));
        let plain = GuestSpec { nic: Nic::E1000, ..GuestSpec::default() };
        assert_eq!(device(&plain, 1, "m"), "e1000,netdev=n1,mac=m,romfile=");
        let bare = GuestSpec { offload: false, ..GuestSpec::default() };
        assert!(device(&bare, 0, "m").contains("gso=off"));
    }

    #[test]
    fn a_comma_in_a_path_ends_no_option() {
        assert_eq!(with_path("file:", Path::new("/a,b")), "file:/a,,b");
    }
}
