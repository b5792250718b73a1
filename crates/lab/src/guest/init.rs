//! The first process in a guest. It loads modules, mounts the host's root read-only below a layer in memory, configures
//! the network, and starts the ssh server. After that it reaps processes that have ended.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::mount::{MountFlags, mount, mount_move};
use rustix::process::{WaitOptions, chdir, chroot, wait};
use rustix::system::{RebootCommand, finit_module, reboot, sethostname};
use serde::{Deserialize, Serialize};

use crate::account;
use crate::process::wait_until;
use crate::ssh::speaks_ssh;

/// The subcommand with which a guest's kernel starts this program. It runs [`serve`].
pub const SUBCOMMAND: &str = "guest";

/// The name of this program's file in a guest's archive.
pub(super) const PROGRAM: &str = "linerate";

/// The directory of the archive with the modules. Their names are in the order in which they are loaded.
pub(super) const MODULES: &str = "modules";

/// The file of the archive that contains the job.
pub(super) const JOB: &str = "/lab/job.json";

/// The directory of the ssh server's files in a guest.
pub(crate) const LAB: &str = "/run/linerate-lab";

/// The beginning of the line on the console that reports that the guest is ready.
pub(super) const READY: &str = "linerate guest: ready";

/// The beginning of the line on the console with the reason why the guest failed.
pub(super) const FAILED: &str = "linerate guest: failed: ";

/// The name of a guest that only has to boot.
pub(super) const TRIAL: &str = "trial";

/// The longest time to wait for network cards and the ssh server, with an emulated processor.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The job of the guests of a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestJob {
    /// Commands for `ip -batch`, by the guest's name.
    pub(super) addresses: BTreeMap<String, Vec<String>>,
    /// The number of network cards of each guest.
    pub(super) cards: usize,
    /// Files below /proc/sys and their contents.
    pub(super) settings: Vec<(String, String)>,
}

/// Sets up the guest with this name. Only the first process in the guest may call this function. It doesn't return
/// while the guest runs.
///
/// # Errors
/// If this isn't the first process of a system. Other failures are written to the console, and end the guest.
pub fn serve(name: &str) -> io::Result<()> {
    if !rustix::process::getpid().is_init() {
        return Err(io::Error::other(
            "only a lab's kernel starts this command, as the first process of a guest",
        ));
    }
    let outcome = if name == TRIAL { Ok(()) } else { prepare(name) };
    match outcome {
        Ok(()) => println!("{READY}"),
        Err(error) => {
            println!("{FAILED}{error}");
            reboot(RebootCommand::PowerOff)?;
        }
    }
    loop {
        // An error means that there are no child processes to wait for yet.
        if wait(WaitOptions::empty()).is_err() {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn prepare(name: &str) -> io::Result<()> {
    mount_kernel_files()?;
    load_modules().map_err(during("loading the kernel's modules"))?;
    let job: GuestJob = serde_json::from_slice(&fs::read(JOB)?)?;
    let lab = read_lab()?;
    mount_root().map_err(during("mounting the host's root"))?;
    sethostname(name.as_bytes())?;
    write_files(&lab)?;
    for (file, value) in &job.settings {
        fs::write(Path::new("/proc/sys").join(file), value).map_err(during(file))?;
    }
    set_addresses(&job, name)?;
    start_ssh_server()
}

fn during(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn mount_kernel_files() -> io::Result<()> {
    let plain = MountFlags::empty();
    for (kind, path) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, path, kind, plain, None::<&CStr>).map_err(io::Error::from).map_err(during(path))?;
    }
    Ok(())
}

fn load_modules() -> io::Result<()> {
    let mut files: Vec<_> =
        fs::read_dir(Path::new("/").join(MODULES))?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in files {
        match finit_module(File::open(&path)?, c"", 0) {
            // EXIST: the module is already part of the kernel.
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(during(&path.display().to_string())(error.into())),
        }
    }
    Ok(())
}

/// Reads the ssh server's files from the archive, before the root file system replaces it.
fn read_lab() -> io::Result<Vec<(std::ffi::OsString, Vec<u8>)>> {
    let entries = fs::read_dir("/lab")?.flatten();
    entries.map(|entry| Ok((entry.file_name(), fs::read(entry.path())?))).collect()
}

/// Makes the host's root, below a layer in memory, the root file system.
fn mount_root() -> io::Result<()> {
    let plain = MountFlags::empty();
    mount_host_root()?;
    mount("upper", "/upper", "tmpfs", plain, None::<&CStr>)?;
    fs::create_dir("/upper/files")?;
    fs::create_dir("/upper/work")?;
    let layers = c"lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work";
    mount("root", "/root", "overlay", plain, Some(layers))?;
    for path in ["/proc", "/sys", "/dev"] {
        mount_move(path, format!("/root{path}"))?;
    }
    for path in ["/run", "/tmp"] {
        mount("tmpfs", format!("/root{path}"), "tmpfs", plain, None::<&CStr>)?;
    }
    for (path, kind) in [("/root/dev/shm", "tmpfs"), ("/root/dev/pts", "devpts")] {
        fs::create_dir_all(path)?;
        mount(kind, path, kind, plain, None::<&CStr>)?;
    }
    free_archive();
    chdir("/root")?;
    mount_move(".", "/")?;
    chroot(".")?;
    chdir("/")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}

/// Mounts the host's root read-only: by 9p from QEMU, by hostfs from user-mode Linux.
fn mount_host_root() -> io::Result<()> {
    let options = c"trans=virtio,version=9p2000.L,cache=loose,msize=512000";
    if fs::read_to_string("/proc/filesystems")?.contains("hostfs") {
        mount("root", "/lower", "hostfs", MountFlags::RDONLY, Some(c"/"))?;
    } else {
        mount("root", "/lower", "9p", MountFlags::RDONLY, Some(options))?;
    }
    Ok(())
}

/// Removes the files of the archive that are no longer needed, because the archive occupies memory. The file of
/// this program is in use until the program ends.
fn free_archive() {
    for path in [MODULES, "lab"] {
        // If a file can't be removed, it only occupies memory.
        let _ = fs::remove_dir_all(Path::new("/").join(path));
    }
}

/// Writes the ssh server's files, which only root may read, and account files in which root isn't locked.
fn write_files(files: &[(std::ffi::OsString, Vec<u8>)]) -> io::Result<()> {
    fs::create_dir_all("/run/sshd")?;
    fs::create_dir_all(LAB)?;
    for (name, bytes) in files {
        let path = Path::new(LAB).join(name);
        crate::state::write_private(&path, bytes)?;
    }
    fs::write("/etc/shadow", account::admitting_shadow("root")).map_err(during("/etc/shadow"))
}

fn set_addresses(job: &GuestJob, name: &str) -> io::Result<()> {
    let exists = |name: &str, card: usize| Path::new(&format!("/sys/class/net/{name}{card}")).exists();
    // User-mode Linux names its cards vec0, vec1, ...
    let has_cards = || (0..job.cards).all(|card| exists("eth", card) || exists("vec", card));
    if !wait_until(START_TIMEOUT, has_cards) {
        return Err(io::Error::other(format!("the kernel has found fewer than {} network cards", job.cards)));
    }
    let own = job.addresses.get(name).ok_or_else(|| io::Error::other(format!("no guest is named {name}")))?;
    let foreign = (0..job.cards).filter(|card| exists("vec", *card));
    let mut lines: Vec<String> = foreign.map(|card| format!("link set vec{card} name eth{card}")).collect();
    lines.extend_from_slice(own);
    let path = account::search_path();
    let mut ip =
        Command::new("/sbin/ip").args(["-batch", "-"]).env("PATH", path).stdin(Stdio::piped()).spawn()?;
    let input =
        ip.stdin.take().map_or(Ok(()), |mut input| input.write_all((lines.join("\n") + "\n").as_bytes()));
    match ip.wait()?.success() {
        true => input,
        false => Err(io::Error::other("ip -batch failed; its message is above")),
    }
}

fn start_ssh_server() -> io::Result<()> {
    let config = Path::new(LAB).join("sshd_config");
    let mut server = Command::new("/usr/sbin/sshd");
    server.args(["-D", "-e", "-f"]).arg(config).env_clear().env("PATH", account::search_path());
    let mut server = server.stdin(Stdio::null()).spawn().map_err(during("/usr/sbin/sshd"))?;
    let answered = wait_until(START_TIMEOUT, || {
        !matches!(server.try_wait(), Ok(None)) || speaks_ssh(Ipv4Addr::LOCALHOST)
    });
    match server.try_wait()? {
        Some(status) => {
            Err(io::Error::other(format!("the ssh server ended: {status}; its message is above")))
        }
        None if answered => Ok(()),
        None => Err(io::Error::other(format!("the ssh server doesn't answer within {START_TIMEOUT:?}"))),
    }
}
