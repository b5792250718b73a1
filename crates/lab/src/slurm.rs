//! A Slurm cluster of the sites' hosts: munged and slurmctld on the first host, slurmd on each host. All files of the
//! cluster are in the lab's directory.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use linerate_sys::netns;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::account;
use crate::child::{Child, last_lines, settle};
use crate::error::LabError;
use crate::process::wait_until;
use crate::sites::{LabSite, SiteHost};
use crate::state::{Description, make_private, write_private};
use crate::tool::{MUNGED, SBATCH, SINFO, SLURMCTLD, SLURMD, SystemTool};

/// The longest time to wait until all nodes are idle. Normally a second is enough, but not on a host under full load.
const NODES_TIMEOUT: Duration = Duration::from_secs(60);

/// The length in bytes of the key that mungekey(8) makes for munge.
const KEY: usize = 128;

/// The first version of Slurm (major, minor) that works without control groups.
const WITHOUT_CGROUPS: (u32, u32) = (23, 11);

/// The prefixes of the environment variables that Slurm's commands read as options or that tell processes which job
/// they belong to.
const VARIABLES: [&str; 8] =
    ["SLURM_", "SLURMD_", "SALLOC_", "SBATCH_", "SRUN_", "SINFO_", "SQUEUE_", "SCANCEL_"];

/// Whether the hosts of sites are nodes of a Slurm cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlurmWish {
    /// The lab has no Slurm cluster.
    #[default]
    Never,
    /// The hosts are nodes if Slurm is installed; otherwise a message on standard error names the missing
    /// program.
    IfInstalled,
    /// The hosts are nodes; if Slurm isn't installed, an error is returned.
    Always,
}

/// The Slurm cluster of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlurmCluster {
    /// The path of the cluster's configuration, for the variable `SLURM_CONF`.
    pub conf: PathBuf,
    /// Slurm's name and version, as slurmd prints them.
    pub version: String,
}

/// The running daemons. Dropping them doesn't end them; [`Child::stop_all`] does.
pub(crate) type SlurmDaemons = Vec<Child>;

/// Removes the variables of other clusters from a command's environment, for example those of a job that this process
/// is part of.
pub(crate) fn forget_other_clusters(command: &mut Command) {
    let of_slurm =
        |name: &OsString| VARIABLES.iter().any(|start| name.as_bytes().starts_with(start.as_bytes()));
    std::env::vars_os().map(|(name, _)| name).filter(of_slurm).for_each(|name| {
        command.env_remove(name);
    });
}

/// The cluster that a lab with this directory will have; `None` if no cluster is wanted, or if Slurm isn't installed
/// and needn't be.
///
/// # Errors
/// If Slurm must be installed and isn't; the error names a missing program.
pub(crate) fn plan(wish: SlurmWish, directory: &Path) -> Result<Option<SlurmCluster>, LabError> {
    if wish == SlurmWish::Never {
        return Ok(None);
    }
    let missing = [SLURMCTLD, SLURMD, MUNGED, SBATCH, SINFO].into_iter().find_map(|tool| tool.find().err());
    match missing {
        None => {
            let version = SLURMD.run(&["-V"])?.trim().to_owned();
            Ok(Some(SlurmCluster { conf: home(directory).join("slurm.conf"), version }))
        }
        Some(error) if wish == SlurmWish::Always => Err(error),
        Some(error) => {
            eprintln!("linerate: the lab has no Slurm cluster: {error}");
            Ok(None)
        }
    }
}

/// Starts the cluster of the lab, if the lab has one, and waits until all of its nodes are idle. Unless `kept`, the
/// cluster ends with this process.
pub(crate) fn start(directory: &Path, lab: &Description, kept: bool) -> Result<SlurmDaemons, LabError> {
    let Some(cluster) = &lab.slurm else { return Ok(Vec::new()) };
    let starting = Starting { home: home(directory), cluster, lab, kept };
    starting.write_files()?;
    let mut daemons = Vec::new();
    match starting.start_all(&mut daemons) {
        Ok(()) => Ok(daemons),
        Err(error) => {
            Child::stop_all(daemons);
            Err(error)
        }
    }
}

/// The directory with the cluster's files.
fn home(directory: &Path) -> PathBuf {
    directory.join("slurm")
}

/// A cluster while it is being started.
struct Starting<'a> {
    home: PathBuf,
    cluster: &'a SlurmCluster,
    lab: &'a Description,
    kept: bool,
}

impl Starting<'_> {
    fn write_files(&self) -> Result<(), LabError> {
        make_private(&self.home)?;
        make_private(&self.home.join("state"))?;
        for host in self.lab.site_hosts() {
            make_private(&self.home.join(format!("spool-{}", host.name)))?;
        }
        let write = |name: &str, text: &[u8]| {
            let path = self.home.join(name);
            write_private(&path, text).map_err(LabError::file("writing", &path))
        };
        let random = Path::new("/dev/urandom");
        let mut key = [0; KEY];
        let filled = File::open(random).and_then(|mut file| file.read_exact(&mut key));
        filled.map_err(LabError::file("reading", random))?;
        write("munge.key", &key)?;
        write("cgroup.conf", cgroup_text(&self.cluster.version).as_bytes())?;
        write("slurm.conf", self.text(&account::user_name()?).as_bytes())
    }

    fn text(&self, user: &str) -> String {
        let home = self.home.display();
        let hosts = || self.lab.site_hosts();
        let first = hosts().next().map(|host| format!("{}({})", host.name, host.host.address));
        let (first, nodes) = (first.unwrap_or_default(), hosts().map(node_text).collect::<String>());
        let sites = self.lab.sites.iter().enumerate();
        let partition =
            |(number, site): (usize, &LabSite)| partition_text(&site.name, number == 0, site.hosts.iter());
        let partitions: String = sites.map(partition).collect();
        // With these settings, the controller soon gives up a dead node. Without control groups, Slurm tracks the
        // processes of a job by their process group.
        format!(
            "ClusterName=linerate\nSlurmctldHost={first}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={home}/munge.socket\nCredType=cred/munge\n\
             SlurmctldPidFile={home}/slurmctld.pid\nSlurmdPidFile={home}/slurmd-%n.pid\n\
             SlurmdSpoolDir={home}/spool-%n\nStateSaveLocation={home}/state\n\
             ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSlurmdParameters=config_overrides\n\
             SwitchType=switch/none\nMpiDefault=none\nReturnToService=2\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU,CR_LLN\n\
             JobRequeue=1\nKillWait=2\nMinJobAge=3600\nSlurmdTimeout=10\n\
             SchedulerParameters=batch_sched_delay=0,sched_interval=1\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
             {nodes}{partitions}{}",
            partition_text("all", false, hosts())
        )
    }

    fn start_all(&self, daemons: &mut SlurmDaemons) -> Result<(), LabError> {
        let Some(first) = self.lab.site_hosts().next() else { return Ok(()) };
        let at = |name: &str| self.home.join(name);
        let mut munged = self.command(MUNGED, first)?;
        munged.args(["--foreground", "--force", "--key-file"]).arg(at("munge.key"));
        munged.arg("--socket").arg(at("munge.socket")).arg("--pid-file").arg(at("munge.pid"));
        munged.arg("--seed-file").arg(at("munge.seed")).args(["--origin", &first.host.address.to_string()]);
        daemons.push(self.spawn(munged, "munged")?);
        self.wait(daemons, || at("munge.socket").exists())?;
        daemons.push(self.daemon(SLURMCTLD, first)?);
        for host in self.lab.site_hosts() {
            daemons.push(self.daemon(SLURMD, host)?);
        }
        let idle = format!("idle {}", self.lab.site_hosts().count());
        self.wait(daemons, || self.nodes(first).is_ok_and(|nodes| nodes.trim() == idle))
    }

    /// Starts a Slurm daemon on a host, in the foreground.
    fn daemon(&self, tool: SystemTool, host: &SiteHost) -> Result<Child, LabError> {
        let mut command = self.command(tool, host)?;
        command.arg("-D");
        self.spawn(command, &format!("{}-{}", tool.program(), host.name))
    }

    /// The command that runs a program on a host. If the lab ends with this process, so does the program.
    fn command(&self, tool: SystemTool, host: &SiteHost) -> Result<Command, LabError> {
        let path = host.host.namespace_path();
        let namespace = File::open(&path).map_err(LabError::file("opening", &path))?;
        let mut command = Command::new(tool.find()?);
        forget_other_clusters(&mut command);
        command.env("SLURM_CONF", &self.cluster.conf).env("LINERATE_LAB", self.lab.name.as_str());
        command.env("PATH", account::search_path()).current_dir("/").stdin(Stdio::null());
        settle(&mut command, namespace, (!self.kept).then_some(Signal::KILL));
        netns::name_host(&mut command, host.name.clone());
        Ok(command)
    }

    /// Starts a daemon that writes its messages to the log with this name.
    fn spawn(&self, mut command: Command, name: &str) -> Result<Child, LabError> {
        let log = log_file(&self.home, name);
        let output = File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (output, errors) = output.map_err(LabError::file("making", &log))?;
        command.stdout(output).stderr(errors);
        Child::spawn(name, command)
            .map(|(child, _)| child)
            .map_err(|reason| self.failed(format!("starting {name}: {reason}")))
    }

    /// The states of the nodes, each with the number of nodes in this state.
    fn nodes(&self, first: &SiteHost) -> io::Result<String> {
        let command = self.command(SINFO, first).map_err(io::Error::other);
        let output = command?.args(["--noheader", "--partition", "all", "--format", "%t %D"]).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn wait(&self, daemons: &SlurmDaemons, done: impl Fn() -> bool) -> Result<(), LabError> {
        let ended = || daemons.iter().any(|daemon| !daemon.process().is_alive());
        let mut is_done = false;
        wait_until(NODES_TIMEOUT, || {
            is_done = done();
            is_done || ended()
        });
        match is_done {
            true => Ok(()),
            false if ended() => Err(self.failed("a daemon has ended".into())),
            false => {
                Err(self
                    .failed(format!("the cluster's nodes aren't idle within {} s", NODES_TIMEOUT.as_secs())))
            }
        }
    }

    fn failed(&self, reason: String) -> LabError {
        let daemons = self.lab.site_hosts().map(|host| format!("slurmd-{}", host.name)).take(1);
        let first = self.lab.site_hosts().next().map(|host| format!("slurmctld-{}", host.name));
        let logs = ["munged".to_owned()].into_iter().chain(first).chain(daemons);
        let said = logs.map(|name| format!("{name}: {}", last_lines(&log_file(&self.home, &name))));
        LabError::Slurm { reason, log: said.collect::<Vec<_>>().join("; ") }
    }
}

fn log_file(home: &Path, name: &str) -> PathBuf {
    home.join(format!("{name}.log"))
}

fn node_text(host: &SiteHost) -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let SiteHost { name, host } = host;
    format!("NodeName={name} NodeHostname={name} NodeAddr={} CPUs={processors} State=UNKNOWN\n", host.address)
}

fn partition_text<'a>(name: &str, is_default: bool, hosts: impl Iterator<Item = &'a SiteHost>) -> String {
    let hosts: Vec<&str> = hosts.map(|host| host.name.as_str()).collect();
    let default = if is_default { "YES" } else { "NO" };
    format!("PartitionName={name} Nodes={} Default={default} MaxTime=INFINITE State=UP\n", hosts.join(","))
}

/// The configuration with which this version of Slurm uses no control groups (cgroup.conf(5)).
fn cgroup_text(version: &str) -> &'static str {
    let number = version.split_whitespace().next_back().unwrap_or_default();
    let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
    let known = parts.next().zip(parts.next());
    if known.is_some_and(|version| version >= WITHOUT_CGROUPS) {
        "CgroupPlugin=disabled\n"
    } else {
        "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_are_left_alone_in_the_words_of_each_version() {
        for old in ["slurm-wlm 22.05.8", "slurm 23.02.3", "unknown", ""] {
            assert!(cgroup_text(old).contains("cgroup/v1"), "{old}");
        }
        for new in ["slurm-wlm 23.11.4", "slurm-wlm 24.11.5", "slurm 25.05.0-rc1"] {
            assert_eq!(cgroup_text(new), "CgroupPlugin=disabled\n", "{new}");
        }
    }
}
