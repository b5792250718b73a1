//! The undo timer, a dead man's switch: a separate process that undoes a treatment, unless the treatment is confirmed
//! in time. The undo timer continues when the login ends, and when the program that started the timer is killed.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use linerate_sys::child::new_session;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};

use crate::Controls;
use crate::course::{UndoneBy, WayBack, catch_up, restore_all};
use crate::journal::{Shelf, TreatmentEvent, TreatmentJournal};
use crate::surroundings::uptime;

/// The seconds until the undo timer undoes unconfirmed changes, by default: enough for a new login, and a host that
/// lost its network comes back soon.
pub const DEFAULT_SECONDS: u64 = 60;
/// The shortest time that a user can choose, in seconds.
pub const LEAST_SECONDS: u64 = 1;
/// The longest time that a user can choose, in seconds.
pub const MOST_SECONDS: u64 = 86_400;
/// The interval at which the undo timer reads the journal.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time until the undo timer must have started to wait.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for which the undo timer waits at the deadline for the program that applies the treatment.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of further tries to restore a setting that couldn't be restored, and the pause before each.
const TRIES: usize = 20;
const AGAIN: Duration = Duration::from_secs(1);
/// The control group of undo timers that can't be in the uppermost group.
const OWN_GROUP: &str = "linerate-undo-timer";

/// Starts the undo timer of a treatment, by a command that calls [`run`]; nothing may be changed before this function
/// returns.
///
/// # Errors
/// The reason, as a sentence, if the undo timer doesn't start to wait.
pub fn start(journal: &mut TreatmentJournal, mut command: Command) -> Result<(), String> {
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    new_session(&mut command);
    let failed = |why: String| format!("the process that undoes the changes can't be started: {why}");
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let until = Instant::now() + START_TIMEOUT;
    loop {
        journal.refresh().map_err(|error| failed(error.to_string()))?;
        if journal.events.iter().any(|stamped| matches!(stamped.event, TreatmentEvent::Watching { .. })) {
            let Some(unit) = unit_of(&cgroups(child.id())) else { return Ok(()) };
            // The process is our own child.
            let _ = child.kill();
            return Err(failed(format!(
                "systemd would end it together with the unit {unit}, and it can't leave this unit; start the treatment from a shell of a \
                 login, not from a service"
            )));
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed(format!("it ended with {status}")));
        }
        if Instant::now() > until {
            // The process is our own child.
            let _ = child.kill();
            return Err(failed("it doesn't start to wait".into()));
        }
        sleep(Duration::from_millis(5));
    }
}

/// Waits for the confirmation or the deadline; at the deadline, undoes the treatment.
///
/// # Errors
/// The reason, as a sentence, if the journal can't be read or written.
pub fn run(shelf: &Shelf, id: &str, starter: i32, controls: &mut dyn Controls) -> Result<(), String> {
    let mut journal = shelf.journal(id)?;
    let starter = parent(starter);
    leave_unit();
    // The program's file may be on a file system that needs the network, so the program is locked in memory. Without
    // the right to lock memory, parts of the file may have to be read again.
    let _ = mlockall(MlockAllFlags::CURRENT);
    journal.note(TreatmentEvent::Watching { pid: std::process::id() })?;
    while journal.is_open() && uptime() < journal.deadline() {
        sleep(CHECK_INTERVAL);
        // If the journal can't be read now, its earlier contents count.
        let _ = journal.refresh();
    }
    if !journal.is_open() {
        return Ok(());
    }
    let _lock = shelf.lock(LOCK_TIMEOUT).or_else(|_| freed(shelf, starter));
    let _ = journal.refresh();
    if !journal.is_open() {
        return Ok(());
    }
    shelf.reach_back(&mut journal);
    // A port that is just being reset may refuse for a moment, and a disk may be full for a moment.
    let mut noted = Ok(());
    for _ in 0..TRIES {
        let (ends, written) = restore_all(&mut journal, controls, UndoneBy::UndoTimer);
        let is_whole = written.is_ok() && ends.iter().all(|(_, end)| *end == WayBack::Restored);
        noted = written;
        if is_whole {
            break;
        }
        sleep(AGAIN);
    }
    catch_up(shelf, &journal, controls);
    noted
}

/// The process of a treatment's undo timer, if it still waits.
pub fn running(id: &str) -> Option<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.into_iter().find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1);
        words.next() == Some(b"undo-timer") && words.next() == Some(id.as_bytes())
    })
}

/// The process that started this one, if it still lives: a later process with the same number is a different one.
fn parent(starter: i32) -> Option<OwnedFd> {
    let is_it = || getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == starter);
    let parent = getppid().filter(|_| is_it())?;
    pidfd_open(parent, PidfdFlags::empty()).ok().filter(|_| is_it())
}

/// Ends the program that applies the treatment, and then takes the shelf's lock: if that program makes no more steps,
/// it hangs, and must not continue later.
fn freed(shelf: &Shelf, starter: Option<OwnedFd>) -> Result<crate::journal::ShelfLock, String> {
    if let Some(starter) = starter {
        let _ = pidfd_send_signal(&starter, Signal::KILL);
    }
    shelf.lock(LOCK_TIMEOUT)
}

/// Leaves the control group of this process's service or login, and protects this process from a lack of memory. When a
/// service ends, systemd ends all processes of the service; on some hosts it does the same for a login. If a host has
/// no more memory, the kernel ends the largest processes.
fn leave_unit() {
    for (hierarchy, _) in hierarchies(&cgroups(std::process::id())) {
        let is_there = |mount: &&&str| Path::new(mount).join("cgroup.procs").exists();
        let Some(mount) = hierarchy.iter().find(is_there).map(Path::new) else { continue };
        if fs::write(mount.join("cgroup.procs"), "0").is_err() {
            // In a container with a systemd of its own, the uppermost group may hold no processes.
            let own = mount.join(OWN_GROUP);
            let _ = fs::create_dir(&own).and_then(|()| fs::write(own.join("cgroup.procs"), "0"));
        }
    }
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
}

/// The control groups of a process, as /proc has them (cgroups(7)).
fn cgroups(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

/// The hierarchies of control groups by which systemd follows processes, if the process isn't in the uppermost group of
/// the hierarchy: the possible mounts of the hierarchy, of which the first that exists counts, and the process's group.
fn hierarchies(cgroups: &str) -> impl Iterator<Item = (&'static [&'static str], &str)> {
    cgroups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let mounts: &[&str] = match parts.next()? {
            "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
            "name=systemd" => &["/sys/fs/cgroup/systemd"],
            _ => return None,
        };
        parts.next().filter(|group| *group != "/").map(|group| (mounts, group))
    })
}

/// The service whose end would end a process in these control groups.
fn unit_of(cgroups: &str) -> Option<String> {
    let units = hierarchies(cgroups).flat_map(|(_, group)| group.split('/'));
    units.filter(|unit| unit.ends_with(".service")).last().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_in_each_of_systemds_hierarchies() {
        assert_eq!(unit_of("0::/system.slice/run-r1.service\n").as_deref(), Some("run-r1.service"));
        let hybrid = "12:pids:/system.slice/a.service\n1:name=systemd:/system.slice/cron.service\n0::/\n";
        assert_eq!(unit_of(hybrid).as_deref(), Some("cron.service"));
        assert_eq!(unit_of("12:pids:/system.slice/a.service\n1:name=systemd:/\n0::/\n"), None);
        assert_eq!(unit_of("0::/user.slice/user-0.slice/session-3.scope\n"), None);
        let groups = "1:name=systemd:/a\n0::/b:c\n";
        let all: Vec<_> = hierarchies(groups).map(|(mounts, group)| (mounts.len(), group)).collect();
        assert_eq!(all, [(1, "/a"), (2, "/b:c")]);
    }
}
