//! The rights to make a lab: those of root, or those that an ordinary user has in a user namespace.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::CWD;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, move_mount, open_tree};
use rustix::thread::{CapabilitySet, capabilities};

use crate::account;
use crate::error::LabError;
use crate::process::Process;
use crate::tool::{self, UNSHARE};

/// The environment variable that marks the second start of this program. If that start still lacks rights,
/// the program fails instead of starting again.
const MARK: &str = "LINERATE_LAB_USER_NAMESPACE";

/// Options of unshare(1) with which this user keeps the same name and files, and has all rights over the mounts and
/// networks that are made inside the namespace.
const UNSHARE_OPTIONS: [&str; 5] = ["--user", "--map-current-user", "--keep-caps", "--mount", "--net"];

/// Ensures that this process may make a lab. If necessary, starts this program again in a user namespace, with the same
/// arguments. Call this function early and with a single thread: if a second start is necessary and succeeds, `main`
/// runs again from the beginning.
///
/// In such a namespace, /run and the account files are private copies for `ip netns` and sshd.
///
/// # Errors
/// [`LabError::UserNamespace`] if the kernel forbids user namespaces, with the setting to change.
pub fn ensure_privileges() -> Result<(), LabError> {
    if is_privileged() {
        return if has_private_run() { Ok(()) } else { settle_in() };
    }
    if std::env::var_os(MARK).is_some() {
        return Err(refused("the new namespace has no privileges".into()));
    }
    // This is done outside of the new user namespace, because inside it the processes of earlier namespaces aren't
    // accessible.
    crate::sweep::sweep_and_report()?;
    // The steps are first tried in a child process, because it gives a better error message than a failed
    // start.
    let mut trial = Command::new(UNSHARE.find()?);
    trial.args(UNSHARE_OPTIONS).args(["mount", "-t", "tmpfs", "tmpfs", "/run"]);
    tool::output(&mut trial).map_err(|error| refused(error.to_string()))?;
    let failed = restart()?;
    Err(refused(failed.to_string()))
}

/// True if this process may make network namespaces, links and mounts.
pub(crate) fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// True if this process is in a user namespace that doesn't map every user ID to itself.
pub(crate) fn is_in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.is_empty() && map.split_whitespace().ne(["0", "0", "4294967295"])
}

/// Replaces this process by unshare(1), which starts this program again. Returns only on failure.
fn restart() -> Result<io::Error, LabError> {
    let program = std::env::current_exe().map_err(LabError::file("finding", Path::new("/proc/self/exe")))?;
    let mut command = Command::new(UNSHARE.find()?);
    command.args(UNSHARE_OPTIONS).arg("--").arg(program).args(std::env::args_os().skip(1)).env(MARK, "1");
    Ok(command.exec())
}

/// Whether namespaces can be named in /run/netns: true for root, and for other users after the setup in a user
/// namespace.
fn has_private_run() -> bool {
    std::fs::create_dir_all("/run/netns").is_ok()
        && rustix::fs::access("/run/netns", rustix::fs::Access::WRITE_OK).is_ok()
}

/// Sets up the directories and accounts that a lab needs in a fresh user namespace.
fn settle_in() -> Result<(), LabError> {
    make_private_run().map_err(LabError::file("making private", Path::new("/run")))?;
    std::fs::create_dir_all("/run/netns").map_err(LabError::file("making", Path::new("/run/netns")))?;
    admit_this_user()
}

/// Mounts a tmpfs over /run that has the same contents, except the host's named network namespaces: this user
/// could neither enter those nor add namespaces to them.
fn make_private_run() -> io::Result<()> {
    let kept: Vec<(PathBuf, KeptEntry)> =
        std::fs::read_dir("/run")?.flatten().filter_map(|entry| keep(&entry)).collect();
    mount("tmpfs", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None::<&CStr>)?;
    for (path, entry) in kept {
        // An entry that can't be preserved, such as another user's private directory, is useless to this user
        // anyway.
        let _ = entry.restore(&path);
    }
    Ok(())
}

enum KeptEntry {
    Link(PathBuf),
    Tree { tree: OwnedFd, directory: bool },
}

fn keep(entry: &std::fs::DirEntry) -> Option<(PathBuf, KeptEntry)> {
    let (path, kind) = (entry.path(), entry.file_type().ok()?);
    if entry.file_name() == "netns" {
        return None;
    }
    if kind.is_symlink() {
        return Some((path.clone(), KeptEntry::Link(std::fs::read_link(path).ok()?)));
    }
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, &path, flags).ok()?;
    Some((path, KeptEntry::Tree { tree, directory: kind.is_dir() }))
}

impl KeptEntry {
    fn restore(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Link(target) => std::os::unix::fs::symlink(target, path),
            Self::Tree { tree, directory } => {
                if directory {
                    std::fs::create_dir(path)?
                } else {
                    File::create(path).map(drop)?
                }
                Ok(move_mount(tree.as_fd(), c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
            }
        }
    }
}

/// Mounts other account files over the system's account files, so that sshd admits this user. Without them, sshd
/// couldn't read the shadow file in this namespace.
fn admit_this_user() -> Result<(), LabError> {
    let ids = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let user = account::user_name().unwrap_or_else(|_| "linerate".into());
    let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/') && !home.contains([':', '\n']));
    let passwd = std::fs::read_to_string("/etc/passwd")
        .map_err(LabError::file("reading", Path::new("/etc/passwd")))?;
    let passwd = account::admitting_passwd(&passwd, &user, ids, home.as_deref().unwrap_or("/"));
    let holder = Process::current().map_err(LabError::file("reading", Path::new("/proc/self/stat")))?;
    overlay("/etc/passwd", &format!("/run/{}", passwd_of(&holder)), &passwd)?;
    overlay("/etc/shadow", "/run/linerate-shadow", &account::admitting_shadow(&user))
}

/// The name of the account file in the user namespace of this holder's lab. No other lab has an account file of
/// this name.
fn passwd_of(holder: &Process) -> String {
    format!("linerate-passwd-{}-{}", holder.pid, holder.start)
}

/// True if a process is in the user namespace that this holder made for its lab: it has the lab's account file.
pub(crate) fn is_in_lab_of(pid: u32, holder: &Process) -> bool {
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    let file = passwd_of(holder);
    // By proc_pid_mountinfo(5), the fourth and fifth fields are the mounted file and the mount point.
    let mounted = |line: &str| {
        let mut fields = line.split(' ').skip(3);
        fields.next().and_then(|path| path.strip_prefix('/')) == Some(file.as_str())
            && fields.next() == Some("/etc/passwd")
    };
    mounts.lines().any(mounted)
}

fn overlay(path: &'static str, source: &str, text: &str) -> Result<(), LabError> {
    let bound = std::fs::write(source, text).and_then(|()| Ok(mount_bind(source, path)?));
    bound.map_err(LabError::file("replacing, for this process only,", Path::new(path)))
}

fn refused(reason: String) -> LabError {
    let read = |name: &str| std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok();
    LabError::UserNamespace { reason, fix: remedy(read) }
}

/// Advice for the setting that forbids user namespaces: the command that changes it. `read` reads a setting.
fn remedy(read: impl Fn(&str) -> Option<String>) -> String {
    let is = |name: &str, value: &str| read(name).is_some_and(|text| text.trim() == value);
    let setting = match () {
        () if is("kernel/apparmor_restrict_unprivileged_userns", "1") => {
            "kernel.apparmor_restrict_unprivileged_userns=0"
        }
        () if is("kernel/unprivileged_userns_clone", "0") => "kernel.unprivileged_userns_clone=1",
        () if is("user/max_user_namespaces", "0") => "user.max_user_namespaces=10000",
        () if is("user/max_net_namespaces", "0") => "user.max_net_namespaces=10000",
        () => {
            return "no sysctl forbids it, so a container's seccomp or security profile probably does; \
                    run as root, or in a container started with --privileged"
                .into();
        }
    };
    format!("run as root, or allow it with: sysctl -w {setting}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_is_named() {
        let only = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| format!("{value}\n"))
        };
        assert!(
            remedy(only("kernel/unprivileged_userns_clone", "0")).contains("unprivileged_userns_clone=1")
        );
        assert!(remedy(only("user/max_user_namespaces", "0")).contains("max_user_namespaces=10000"));
        assert!(remedy(only("kernel/apparmor_restrict_unprivileged_userns", "1")).contains("apparmor"));
        assert!(remedy(only("kernel/unprivileged_userns_clone", "1")).contains("seccomp"));
    }
}
