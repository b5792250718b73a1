//! An attempt to move a part of a plan: its process, progress and result. Each attempt has a file, which only
//! its own process writes.

use linerate_sys::process::{boot_id, start_of};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::history::History;
use crate::plan::SCHEMA;

/// The contents of an attempt's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The version of the format, [`SCHEMA`].
    pub schema: u32,
    /// Whether the attempt is running, or how it ended.
    pub state: AttemptState,
    /// A counter that increases with each write of the file. If a reader sees it increase, the attempt is
    /// alive.
    pub beat: u64,
    /// The process that makes the attempt.
    pub maker: AttemptMaker,
    /// The time at which the attempt began, in seconds since 1970 by the clock of its host.
    pub begun: u64,
    /// The time at which this file was written, in seconds since 1970 by the clock of its host.
    pub written: u64,
    /// The destination of the attempt, in the form for `linerate cp` and `linerate sync`.
    pub to: String,
    /// The progress of the attempt.
    pub progress: AttemptProgress,
    /// The number of bytes that the attempt had sent at several times; empty if an earlier version of linerate wrote
    /// the file.
    #[serde(default)]
    pub history: History,
    /// The exit code of the attempt, once it has ended.
    pub exit: Option<u8>,
    /// The reason why the attempt failed, if it failed.
    pub message: Option<String>,
}

/// The state of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptState {
    /// The attempt was running when the file was last written.
    Running,
    /// All entries are in place, except those that changed or vanished at the source during the copy.
    Done,
    /// Some entries aren't in place.
    Failed,
    /// The attempt was ended by a signal, or because another attempt took over.
    Interrupted,
}

/// The process that makes an attempt, with the properties that identify it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptMaker {
    /// The host's name.
    pub host: String,
    /// The boot ID of the host.
    pub boot: String,
    /// The process ID namespace to which `pid` belongs.
    pub namespace: String,
    /// The process ID.
    pub pid: u32,
    /// The start time of the process, in ticks since boot.
    pub started: u64,
    /// The Slurm job in which the process runs, if any.
    pub job: Option<SchedulerJob>,
}

/// A job of Slurm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerJob {
    /// The job's number; for a task of an array, the number of the task.
    pub id: String,
    /// How many times Slurm restarted the job.
    pub restarts: u32,
}

/// The progress of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AttemptProgress {
    /// The seconds since the first data connection was established.
    pub seconds: f64,
    /// Bytes that are in place or in flight, including bytes that were in place before the attempt.
    pub bytes: u64,
    /// Bytes that the attempt sent.
    pub sent_bytes: u64,
    /// The number of files that are in place.
    pub files: u64,
    /// The name of the limiting factor, as in the output of `--json`.
    pub limiter: String,
    /// The share of the time in which `limiter` was the limiting factor, 0 to 1.
    pub limiter_share: f64,
    /// The number of entries that failed.
    pub failed: u64,
    /// The number of entries that changed or vanished during the copy.
    pub changed: u64,
    /// The number of entries for which some metadata couldn't be kept.
    pub not_kept: u64,
    /// The processor time of both ends in seconds; 0 until the attempt ends.
    pub cpu_seconds: f64,
}

impl AttemptProgress {
    /// The mean rate at which data was sent, in Gbit/s.
    pub fn gbit_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.sent_bytes as f64 * 8e-9 / self.seconds } else { 0.0 }
    }
}

/// The exit code of an attempt that copied everything except entries that couldn't be copied.
pub const ENTRIES_FAILED: u8 = 3;

impl Attempt {
    /// Whether the attempt has failed only because some entries couldn't be copied; all other entries are in place.
    pub fn has_only_failed_entries(&self) -> bool {
        self.state == AttemptState::Failed && self.exit == Some(ENTRIES_FAILED)
    }

    /// An attempt that begins now.
    pub fn begin(to: String) -> Self {
        Self {
            schema: SCHEMA,
            state: AttemptState::Running,
            beat: 0,
            maker: AttemptMaker::of_this_process(),
            begun: now(),
            written: now(),
            to,
            progress: AttemptProgress::default(),
            history: History::default(),
            exit: None,
            message: None,
        }
    }

    /// The receiving host, from a destination such as `dtn1:/data` or `u@[::1]:data`; `None` if the
    /// destination is an absolute path on this host.
    pub fn receiver(&self) -> Option<&str> {
        let colon = self.to.find(':').filter(|_| !self.to.starts_with('/'))?;
        let is_in_brackets = self.to[..colon].contains('[');
        let end = if is_in_brackets { self.to.find("]:")? + 1 } else { colon };
        Some(&self.to[..end])
    }

    /// Adds the number of bytes sent so far to the attempt's history.
    pub fn note_history(&mut self) {
        self.history.note(now().saturating_sub(self.begun), self.progress.sent_bytes);
    }

    /// The seconds since the attempt last wrote its file, by the clocks of two hosts, which may differ.
    pub fn silence(&self) -> u64 {
        now().saturating_sub(self.written)
    }
}

impl AttemptMaker {
    /// The current process.
    pub fn of_this_process() -> Self {
        let pid = std::process::id();
        Self {
            host: host_name(),
            boot: boot_id().unwrap_or_default(),
            namespace: pid_namespace(),
            pid,
            started: start_of(pid).unwrap_or_default(),
            job: SchedulerJob::of_environment(|name| std::env::var(name).ok()),
        }
    }

    /// Whether the process is known to have ended: it ran on this host and doesn't exist any more, or Slurm
    /// has restarted its job.
    pub fn is_gone(&self, here: &Self) -> bool {
        let is_of_this_host = (&self.host, &self.namespace) == (&here.host, &here.namespace);
        match is_of_this_host && !self.boot.is_empty() {
            true if self.boot != here.boot => true,
            true => start_of(self.pid).ok() != Some(self.started),
            false => self.was_begun_again(here),
        }
    }

    fn was_begun_again(&self, here: &Self) -> bool {
        let jobs = self.job.as_ref().zip(here.job.as_ref());
        jobs.is_some_and(|(there, here)| there.id == here.id && there.restarts < here.restarts)
    }
}

impl SchedulerJob {
    /// The Slurm job of this process, from the variables that Slurm sets for its tasks.
    fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let restarts = variable("SLURM_RESTART_COUNT").and_then(|count| count.parse().ok());
        Some(Self { id: variable("SLURM_JOB_ID")?, restarts: restarts.unwrap_or(0) })
    }
}

/// The current time in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn pid_namespace() -> String {
    fs::read_link("/proc/self/ns/pid").map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_this_host_is_gone_once_it_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let here = AttemptMaker::of_this_process();
        let of_child =
            AttemptMaker { pid: child.id(), started: start_of(child.id()).unwrap(), ..here.clone() };
        assert!(!of_child.is_gone(&here) && !here.is_gone(&here));
        let reused = AttemptMaker { started: of_child.started + 1, ..of_child.clone() };
        assert!(reused.is_gone(&here), "another process has its number");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(of_child.is_gone(&here));
        let elsewhere = AttemptMaker { host: "elsewhere".into(), ..of_child.clone() };
        assert!(!elsewhere.is_gone(&here), "nothing is known of another host's processes");
        let contained = AttemptMaker { namespace: "pid:[1]".into(), ..of_child.clone() };
        assert!(!contained.is_gone(&here));
        assert!(AttemptMaker { boot: "before".into(), ..of_child }.is_gone(&here));
    }

    #[test]
    fn the_receiver_is_in_front_of_the_path() {
        let receiver = |to: &str| Attempt::begin(to.to_owned()).receiver().map(str::to_owned);
        let hosts = [("h:/a:b", "h"), ("u@h:a[1]:b", "u@h"), ("u@[::1]:/a", "u@[::1]"), ("h:", "h")];
        hosts.into_iter().for_each(|(to, host)| assert_eq!(receiver(to).as_deref(), Some(host), "{to}"));
        assert_eq!((receiver("/a:b"), receiver("")), (None, None));
    }

    #[test]
    fn a_job_that_slurm_has_begun_again_is_gone() {
        let job = |id: &str, restarts| Some(SchedulerJob { id: id.into(), restarts });
        let maker = |host: &str, job| AttemptMaker { host: host.into(), job, ..AttemptMaker::default() };
        let there = maker("a", job("7", 0));
        assert!(there.is_gone(&maker("b", job("7", 1))));
        assert!(!there.is_gone(&maker("b", job("7", 0))) && !there.is_gone(&maker("b", job("8", 1))));
        assert!(!there.is_gone(&maker("b", None)));
        let variables = |name: &str| match name {
            "SLURM_JOB_ID" => Some("12".to_owned()),
            "SLURM_RESTART_COUNT" => Some("2".to_owned()),
            _ => None,
        };
        assert_eq!(SchedulerJob::of_environment(variables), job("12", 2));
        assert_eq!(SchedulerJob::of_environment(|_| None), None);
    }
}
