//! The surroundings of a treatment: the start of the host, the network namespace, the login.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_host::facts::Machine;
use linerate_sys::netns::cookie;
use linerate_sys::process::{boot_id, start_of};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The most parents of a process that are searched for the login.
const MOST_PARENTS: usize = 32;
/// Beginnings of the names of ssh servers' processes, such as `sshd-session`.
const SERVERS: [&str; 2] = ["sshd", "dropbear"];
/// The number of the audit session if none is set.
const NO_SESSION: &str = "4294967295";
/// The kernel's first namespace of processes (PROC_PID_INIT_INO of include/linux/proc_ns.h).
const FIRST_PROCESSES: &str = "pid:[4026531836]";
/// The file of a setting that the kernel has only in its first network namespace.
const FIRST_ONLY: &str = "/proc/sys/net/core/netdev_max_backlog";

/// The start of the host and the network namespace that settings belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The kernel's identifier of this start of the host.
    pub boot: String,
    /// The network namespace, as /proc/self/ns/net names it. A later namespace may have the same name.
    pub namespace: String,
    /// The kernel's number for the network namespace, which no other namespace has; `None` before Linux 5.14, and in
    /// journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<u64>,
}

/// A user's login to the host. Two logins are different if any part that is known for both differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entrance {
    /// Addresses and ports of the ssh connection.
    pub connection: Option<String>,
    /// The audit session.
    pub session: Option<String>,
}

impl Whereabouts {
    /// The start of the host and the network namespace of this process.
    pub fn here() -> Self {
        let boot = boot_id().unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/net").unwrap_or_default();
        Self { boot, namespace: namespace.to_string_lossy().into_owned(), cookie: cookie() }
    }

    /// True if both are the same place, or if nothing shows that they differ.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_known = self.cookie.is_some() && other.cookie.is_some();
        (&self.boot, &self.namespace) == (&other.boot, &other.namespace)
            && (!is_known || self.cookie == other.cookie)
    }
}

impl Entrance {
    /// The login from which this process was started. sudo(8) hides the ssh connection, so the parent processes are
    /// searched too.
    pub fn here() -> Self {
        let session = fs::read_to_string("/proc/self/sessionid").ok().map(|text| text.trim().to_owned());
        Self { connection: connection(), session: session.filter(|id| id != NO_SESSION && !id.is_empty()) }
    }

    /// True if this is another login than `other`, or nothing shows that it is the same.
    pub fn is_other(&self, other: &Self) -> bool {
        match (&self.connection, &other.connection) {
            (Some(own), Some(theirs)) => own != theirs,
            _ => self.session.is_none() || other.session.is_none() || self.session != other.session,
        }
    }
}

/// Milliseconds since the host was started, including the time that it was asleep.
pub fn uptime() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Seconds since 1970.
pub fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// True in a network namespace other than the host's first one, as in a container.
pub fn is_apart() -> bool {
    !Path::new(FIRST_ONLY).exists()
}

/// The container in which this process runs, if the container has the network of its host. The container's end would
/// end an undo timer, and remove the journal and all files that keep settings, but the host would keep the changes.
pub fn host_network_container() -> Option<String> {
    let name = Machine::container_here().known().cloned().filter(|_| is_contained());
    shares_network(name.as_deref(), is_apart())
}

/// True if this process sees other processes or other mounts than the host's first process. The files of a container
/// don't show that this process runs in one: a virtual machine whose disk was made from a container's image has them
/// too.
fn is_contained() -> bool {
    let of = |process: &str, kind: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
    let is_first = of("self", "pid").is_none_or(|name| name == Path::new(FIRST_PROCESSES));
    !is_first || of("1", "mnt").is_some_and(|first| of("self", "mnt").is_some_and(|own| own != first))
}

/// The container's name, if the container has the network of its host. WSL doesn't count: its systemd calls its virtual
/// machine a container.
fn shares_network(container: Option<&str>, is_apart: bool) -> Option<String> {
    container.filter(|name| *name != "wsl" && !is_apart).map(str::to_owned)
}

fn connection() -> Option<String> {
    ancestors().find_map(|pid| connection_of(&pid))
}

/// The time, in milliseconds of uptime, at which the ssh login began from which this process was started; `None`
/// without ssh. The windows of tmux(1) belong to the login that started tmux.
pub fn login_begun() -> Option<u64> {
    let own = connection()?;
    let all: Vec<String> = ancestors().collect();
    let outermost = all.iter().rposition(|pid| connection_of(pid).as_ref() == Some(&own))?;
    // The ssh server's process for this login is the next one above, unless this program has outlived its login. Logins
    // that share a connection also share this process.
    let server = all.get(outermost + 1).filter(|pid| is_server(pid));
    begun(server.unwrap_or(&all[outermost]))
}

/// This process and its ancestors, from the nearest on.
fn ancestors() -> impl Iterator<Item = String> {
    let first = Some(std::process::id().to_string());
    std::iter::successors(first, |pid| parent(pid).filter(|parent| parent != "0")).take(MOST_PARENTS)
}

/// The ssh connection that a process has in its environment.
fn connection_of(pid: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut words = environment.split(|byte| *byte == 0);
    let value = words.find_map(|word| word.strip_prefix(b"SSH_CONNECTION="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn is_server(pid: &str) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    SERVERS.iter().any(|server| name.starts_with(server))
}

/// The start of a process in milliseconds of uptime. The kernel counts in hundredths of a second (USER_HZ).
fn begun(pid: &str) -> Option<u64> {
    start_of(pid.parse().ok()?).ok()?.checked_mul(10)
}

fn parent(pid: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_namespace_of_the_same_name_is_another_place() {
        let here = Whereabouts::here();
        assert!(here.is_same(&here) && here.is_same(&Whereabouts { cookie: None, ..here.clone() }));
        let later = Whereabouts { cookie: here.cookie.map(|cookie| cookie + 1), ..here.clone() };
        assert_eq!(here.is_same(&later), here.cookie.is_none(), "Linux 5.14 or later");
        assert!(!here.is_same(&Whereabouts { boot: "earlier".into(), ..here.clone() }));
    }

    #[test]
    fn a_login_is_another_one_by_its_connection() {
        let of = |connection: Option<&str>, session: Option<&str>| Entrance {
            connection: connection.map(str::to_owned),
            session: session.map(str::to_owned),
        };
        let first = of(Some("10.0.0.1 5000 10.0.0.2 22"), Some("3"));
        assert!(!first.is_other(&first));
        assert!(of(Some("10.0.0.1 5001 10.0.0.2 22"), Some("4")).is_other(&first));
        assert!(!of(None, Some("3")).is_other(&first), "the same session without its environment");
        assert!(of(None, None).is_other(&first) && of(None, None).is_other(&of(None, Some("1"))));
        assert!(!of(None, Some("1")).is_other(&of(None, Some("1"))), "a web console's own login");
        assert!(of(None, Some("2")).is_other(&of(None, Some("1"))));
    }

    #[test]
    fn only_a_container_with_the_hosts_network_outlasts_nothing() {
        assert_eq!(shares_network(Some("podman"), false).as_deref(), Some("podman"));
        assert_eq!(shares_network(Some("lxc"), true), None, "its settings end with it");
        assert_eq!((shares_network(Some("wsl"), false), shares_network(None, false)), (None, None));
    }

    #[test]
    fn a_process_begins_after_the_one_above_it() {
        let all: Vec<u64> = ancestors().map_while(|pid| begun(&pid)).collect();
        assert!(all.len() > 1 && all.is_sorted_by(|a, b| a >= b), "{all:?}");
        assert!(all[0] <= uptime(), "{all:?}");
    }

    #[test]
    fn this_place_is_known() {
        let here = Whereabouts::here();
        assert!(here.boot.len() > 30 && here.namespace.starts_with("net:["), "{here:?}");
        assert!(uptime() > 0 && today() > 1_700_000_000);
    }
}
