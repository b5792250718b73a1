//! The identity of processes. The kernel reuses process numbers, but a number with a start time and a boot ID
//! identifies a single process.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use linerate_sys::process::{boot_id, start_of};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process of this host, which may have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process ID.
    pub pid: u32,
    /// The start time in clock ticks since boot (field 22 of `/proc/PID/stat`, proc(5)).
    pub start: u64,
    /// The ID of the boot in which it ran (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
}

impl Process {
    /// The calling process.
    ///
    /// # Errors
    /// If procfs can't be read.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// The process with this number now.
    ///
    /// # Errors
    /// `NotFound` if there is no such process, or if it is a zombie.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, start: start_of(pid)?, boot: boot_id()? })
    }

    /// True while the process runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == *self)
    }

    /// Sends the process a signal. If the process has ended, no other process with its number gets the signal.
    pub(crate) fn signal(&self, signal: Signal) {
        signal_if(self.pid, signal, || self.is_alive());
    }

    /// Waits until the process has ended, but at most for `patience`. Returns true if it has ended.
    pub(crate) fn gone_within(&self, patience: Duration) -> bool {
        wait_until(patience, || !self.is_alive())
    }
}

/// Sends SIGTERM to all `pids()`, and SIGKILL after `patience`. Returns the processes that are still left.
///
/// `pids` is called again before each step, so that a reused number gets no signal. A process that was started
/// between that call and the signals gets SIGKILL after the next call.
pub(crate) fn end_all(pids: impl Fn() -> Vec<u32>, patience: Duration) -> Vec<u32> {
    let send = |signal| {
        let found = pids();
        found.iter().for_each(|pid| signal_if(*pid, signal, || pids().contains(pid)));
        found.is_empty()
    };
    if send(Signal::TERM) || wait_until(patience, || pids().is_empty()) {
        return Vec::new();
    }
    wait_until(patience, || send(Signal::KILL));
    pids()
}

/// The processes in the network namespaces with these device and inode numbers that also satisfy `belongs`,
/// without the caller.
pub(crate) fn in_namespaces(namespaces: &[(u64, u64)], belongs: impl Fn(u32) -> bool) -> Vec<u32> {
    let is_in = |pid: &u32| {
        let of = file_identity(Path::new(&format!("/proc/{pid}/ns/net")));
        of.is_ok_and(|namespace| namespaces.contains(&namespace))
    };
    let ours = |pid: &u32| *pid != std::process::id() && is_in(pid) && belongs(*pid);
    numbers().into_iter().filter(ours).collect()
}

/// Whether a process was started with this environment variable, given as `NAME=VALUE`.
pub(crate) fn has_variable(pid: u32, variable: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
}

/// The device and inode number of a path's target.
pub(crate) fn file_identity(path: &Path) -> io::Result<(u64, u64)> {
    path.metadata().map(|meta| (meta.dev(), meta.ino()))
}

/// Calls `done` every few milliseconds until it returns true, but at most for `patience`, and returns its last
/// result.
pub(crate) fn wait_until(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Signals `pid` if `still` returns true after a process handle was opened for that number.
fn signal_if(pid: u32, signal: Signal, still: impl Fn() -> bool) {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let handle = pidfd_open(number, PidfdFlags::empty());
    if !still() {
        return;
    }
    // An error usually means that the process has just ended, which is intended. If it hasn't, the caller
    // finds it in its next check.
    let _ = match handle {
        Ok(handle) => pidfd_send_signal(handle, signal),
        // Before Linux 5.3 there are no process handles, so a race between the check and the signal remains.
        Err(Errno::NOSYS) => kill_process(number, signal),
        Err(_) => Ok(()),
    };
}

fn numbers() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn this_process_lives_and_its_likenesses_do_not() {
        let current = Process::current().expect("procfs is mounted");
        assert!(current.is_alive());
        assert!(!Process { start: current.start + 1, ..current.clone() }.is_alive());
        assert!(!Process { boot: "another".into(), ..current }.is_alive());
    }

    #[test]
    fn a_signal_reaches_only_the_very_process() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let process = Process::of(child.id()).expect("it runs");
        Process { start: process.start + 1, ..process.clone() }.signal(Signal::KILL);
        assert!(!process.gone_within(Duration::from_millis(50)));
        process.signal(Signal::KILL);
        assert!(process.gone_within(Duration::from_secs(5)), "a zombie counts as gone");
        child.wait().expect("our child");
    }

    #[test]
    fn what_ignores_the_request_is_made_to_end() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; while :; do sleep 0.05; done"])
            .spawn()
            .expect("sh runs");
        std::thread::sleep(Duration::from_millis(100));
        let process = Process::of(child.id()).expect("it runs");
        let pids = || if process.is_alive() { vec![process.pid] } else { Vec::new() };
        assert_eq!(end_all(pids, Duration::from_millis(200)), Vec::<u32>::new());
        child.wait().expect("our child");
    }
}
