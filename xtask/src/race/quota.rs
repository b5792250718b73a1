//! Limits the processor time of both ends of a race by control groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// The kernel's directory of control groups, and of those for processor time in version 1.
const GROUPS: &str = "/sys/fs/cgroup";
const VERSION_1: &str = "/sys/fs/cgroup/cpu";
/// The file of a group with the numbers of its processes.
const MEMBERS: &str = "cgroup.procs";
/// The period of a quota in microseconds: the kernel's default.
const PERIOD: f64 = 1e5;

/// A control group for each end.
pub struct EndQuotas {
    near: PathBuf,
    far: PathBuf,
}

impl EndQuotas {
    /// Makes the groups, each of which may use this number of processors.
    pub fn make(processors: f64) -> anyhow::Result<Self> {
        let is_version_1 = Path::new(VERSION_1).join("cpu.cfs_quota_us").exists();
        let group = |end: &str| -> anyhow::Result<PathBuf> {
            let top = if is_version_1 { VERSION_1 } else { GROUPS };
            let group = Path::new(top).join(format!("linerate-race-{}-{end}", std::process::id()));
            fs::create_dir(&group).with_context(|| format!("making {}", group.display()))?;
            let quota = (processors * PERIOD) as u64;
            match is_version_1 {
                true => fs::write(group.join("cpu.cfs_quota_us"), quota.to_string())?,
                false => fs::write(group.join("cpu.max"), format!("{quota} {PERIOD}"))?,
            }
            Ok(group)
        };
        Ok(Self { near: group("near")?, far: group("far")? })
    }

    /// Limits the programs that the ssh server in the network namespace `namespace` will start.
    pub fn limit_logins(&self, namespace: &str) -> anyhow::Result<()> {
        let output =
            Command::new("ip").args(["netns", "pids", namespace]).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "ip netns pids {namespace}: {}", output.status);
        let pids = String::from_utf8(output.stdout)?;
        pids.split_whitespace().try_for_each(|pid| Ok(fs::write(self.far.join(MEMBERS), pid)?))
    }

    /// Limits a process of the near end, and its later child processes.
    pub fn limit(&self, pid: u32) -> anyhow::Result<()> {
        Ok(fs::write(self.near.join(MEMBERS), pid.to_string())?)
    }

    /// Removes the groups, in which no process may be left.
    pub fn remove(self) -> anyhow::Result<()> {
        [self.near, self.far].iter().try_for_each(|group| Ok(fs::remove_dir(group)?))
    }
}
