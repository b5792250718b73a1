//! Processes and threads in another network namespace.
//!
//! A process that enters a namespace with these functions keeps the mounts of its parent, so all hosts of a lab see the
//! same files. Therefore the process's `/sys/class/net` still shows the interfaces of the parent's namespace. Netlink,
//! ioctl and `/proc/self/net` show the interfaces of the process's own namespace.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::socket_option::read;

/// The number of this thread's network namespace (SO_NETNS_COOKIE, socket(7)); `None` before Linux 5.14. Until the host
/// is booted again, the kernel gives this number to no other namespace. The inode numbers of namespaces, in contrast,
/// are reused.
pub fn cookie() -> Option<u64> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    let mut cookie = 0_u64;
    // SAFETY: any bytes are a valid number.
    unsafe { read(socket.as_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, &mut cookie) }.ok()?;
    Some(cookie)
}

/// Makes `command` run in the network namespace to which the descriptor `namespace` refers.
///
/// The descriptor is that of a file that refers to a network namespace: `/run/netns/NAME` or `/proc/PID/ns/net`. The
/// caller needs `CAP_SYS_ADMIN` in the user namespace that owns the network namespace; otherwise the spawn fails with
/// `EPERM` (setns(2)).
pub fn enter(command: &mut Command, namespace: OwnedFd) {
    let hook = move || enter_now(namespace.as_fd());
    // SAFETY: between fork and exec the hook makes one system call, setns, on a descriptor that it owns. The hook
    // neither allocates nor takes a lock, so it is sound even if another thread held a lock at the fork.
    unsafe { command.pre_exec(hook) };
}

/// Gives `command`'s process, and all processes that it starts, a separate hostname (uts_namespaces(7)).
///
/// Without `CAP_SYS_ADMIN` the spawn fails with `EPERM`.
pub fn name_host(command: &mut Command, name: String) {
    let hook = move || {
        // SAFETY: UnshareFlags::NEWUTS only changes the namespace of the hostname; file descriptors aren't
        // affected.
        unsafe { unshare_unsafe(UnshareFlags::NEWUTS)? };
        Ok(rustix::system::sethostname(name.as_bytes())?)
    };
    // SAFETY: the hook makes two system calls, unshare and sethostname, on values that it owns. The hook neither
    // allocates nor takes a lock.
    unsafe { command.pre_exec(hook) };
}

/// Runs `work` on a new thread inside a network namespace, and returns its result.
///
/// Sockets that `work` opens stay in that namespace, even if another thread uses them later. The calling
/// thread stays in its own namespace.
///
/// # Errors
/// If no thread can be started, or setns(2) fails (`EPERM` without `CAP_SYS_ADMIN`).
pub fn inside<T: Send>(namespace: BorrowedFd<'_>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let job = move || enter_now(namespace).map(|()| work());
        let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, job)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn enter_now(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Signal;
    use std::fs::File;

    use crate::child::{die_with_parent, new_session};

    fn own_namespace() -> OwnedFd {
        File::open("/proc/self/ns/net").expect("procfs is mounted").into()
    }

    fn privileged() -> bool {
        let granted = inside(own_namespace().as_fd(), || ()).is_ok();
        if !granted {
            linerate_testing::skip("root", "entering a namespace needs CAP_SYS_ADMIN");
        }
        granted
    }

    #[test]
    fn a_descriptor_of_something_else_is_refused() {
        let file: OwnedFd = File::open("/dev/null").expect("/dev/null is there").into();
        let error = inside(file.as_fd(), || ()).expect_err("/dev/null is no namespace");
        assert!(matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)), "{error}");
    }

    #[test]
    fn a_command_and_a_thread_enter_a_namespace() {
        if !privileged() {
            return;
        }
        let mut command = Command::new("readlink");
        enter(&mut command, own_namespace());
        let shown = command.arg("/proc/self/ns/net").output().expect("readlink runs");
        let here = std::fs::read_link("/proc/self/ns/net").expect("procfs is mounted");
        assert_eq!(String::from_utf8_lossy(&shown.stdout).trim(), here.to_string_lossy());
        let there = inside(own_namespace().as_fd(), || std::fs::read_link("/proc/thread-self/ns/net"));
        assert_eq!(there.expect("privileged").expect("procfs is mounted"), here);
    }

    #[test]
    fn a_command_has_a_hostname_of_its_own() {
        if !privileged() {
            return;
        }
        let here = rustix::system::uname().nodename().to_owned();
        let mut command = Command::new("uname");
        name_host(&mut command, "s1h1".into());
        let shown = command.arg("-n").output().expect("uname runs");
        assert_eq!(String::from_utf8_lossy(&shown.stdout).trim(), "s1h1");
        assert_eq!(rustix::system::uname().nodename(), &*here);
    }

    #[test]
    fn a_child_dies_with_the_thread_that_spawned_it() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            die_with_parent(&mut command, Signal::KILL);
            new_session(&mut command);
            command.arg("60").spawn().expect("sleep runs")
        })
        .join()
        .expect("the thread only spawns");
        let status = child.wait().expect("our own child");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    }
}
