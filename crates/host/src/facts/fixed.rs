//! Restrictions of this host: sysctls that can't be written here, and whether the kernel has fq.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{StatVfsMountFlags, statvfs};

use super::Fact;
use crate::root::Root;

/// The sysctls that the doctor may propose to change, and one other sysctl on which such a change depends.
const KEYS: [&str; 29] = [
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/optmem_max",
    "net/core/default_qdisc",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/netdev_max_backlog",
    "net/core/flow_limit_cpu_bitmap",
    "net/core/somaxconn",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_mem",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_allowed_congestion_control",
    "net/ipv4/tcp_moderate_rcvbuf",
    "net/ipv4/tcp_window_scaling",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_ecn",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_no_metrics_save",
    "net/ipv4/tcp_max_syn_backlog",
    "net/netfilter/nf_conntrack_max",
    "vm/dirty_ratio",
    "vm/dirty_background_ratio",
    "vm/swappiness",
];

/// The dotted names of the sysctls that even root can't write here. In a separate network namespace, some sysctls can
/// be written only in the host's own namespace; container runtimes also mount /proc/sys read-only.
pub(super) fn sysctls(root: &Root) -> Fact<Vec<String>> {
    root.answer("live/fixed", || {
        Ok(KEYS.iter().filter(|key| is_fixed(key)).map(|key| format!("{key}\n")).collect())
    })
    .map(|text| text.lines().map(|key| key.trim().replace('/', ".")).collect())
}

fn is_fixed(key: &str) -> bool {
    let path = format!("/proc/sys/{key}");
    let mode = fs::metadata(&path).map(|about| about.permissions().mode());
    let is_read_only =
        statvfs(path.as_str()).is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::RDONLY));
    mode.is_ok_and(|mode| mode & 0o222 == 0 || is_read_only)
}

/// True if the kernel has the queueing discipline fq, loaded or not.
pub(super) fn has_fq(root: &Root) -> Fact<bool> {
    root.answer("live/fq", || fq().map(|has| u8::from(has).to_string())).map(|text| text == "1")
}

fn fq() -> io::Result<bool> {
    if fs::exists("/sys/module/sch_fq")? {
        return Ok(true);
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let dir = format!("/lib/modules/{}", release.trim());
    let mut is_listed = false;
    for list in ["modules.builtin", "modules.dep"] {
        match fs::read_to_string(format!("{dir}/{list}")) {
            Ok(text) if text.contains("/sch_fq.ko") => return Ok(true),
            Ok(_) => is_listed = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    // The default discipline always exists. If there is no list of modules, no module can be loaded. In this case fq
    // can only be built into the kernel, and is recognized by its functions among the kernel's symbols, whose names
    // every user may read.
    let default = fs::read_to_string("/proc/sys/net/core/default_qdisc").unwrap_or_default();
    if default.trim() == "fq" || is_listed {
        return Ok(default.trim() == "fq");
    }
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let has =
        |name: &str| symbols.lines().any(|line| line.split(' ').nth(2).is_some_and(|symbol| symbol == name));
    if symbols.is_empty() { Err(ErrorKind::Unsupported.into()) } else { Ok(has("fq_enqueue")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_asked_for_is_reported() {
        let root = Root::dir(Path::new("/"));
        let fixed = sysctls(&root);
        assert!(fixed.known().is_some_and(|all| all.iter().all(|key| !key.contains('/'))), "{fixed:?}");
        assert!(!matches!(has_fq(&root), Fact::Unreadable(_)));
        assert!(!is_fixed("net/none"));
    }
}
