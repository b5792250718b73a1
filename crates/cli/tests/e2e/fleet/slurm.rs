//! Tests of fleets under Slurm, with two sites of two hosts; the hosts of the first site run the tasks.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use linerate_lab::{SiteHost, SlurmWish};
use linerate_testing::has_all;
use rustix::process::Signal;

use super::{Fleet, done};
use crate::bed::{Case, args, case_with_sites};
use crate::support::{PATIENCE, Run, Running, processes_with, send, within};
use crate::tree::{noise, write};

/// The Slurm cluster of a case's lab.
pub struct Slurm<'a> {
    case: &'a Case,
    /// The directory of the cluster's files.
    top: PathBuf,
}

/// The longest time until a controller saves its state.
const SAVED: Duration = Duration::from_secs(8);

const PROGRAMS: [&str; 8] =
    ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo"];

/// A case with two sites of two hosts and with Slurm; `None` if Slurm isn't installed.
pub fn case_with_slurm() -> Option<Case> {
    if has_all(&PROGRAMS) { case_with_sites("2x2", SlurmWish::Always) } else { None }
}

impl<'a> Slurm<'a> {
    pub fn of(case: &'a Case) -> Self {
        let cluster = case.bed.lab.description().slurm.as_ref().expect("it was wished");
        Self { case, top: cluster.conf.parent().expect("it is in a directory").into() }
    }

    /// Kills the controller and starts it again. It loses what it hasn't saved; it saves every few seconds.
    pub fn restart_controller(&self) {
        std::thread::sleep(SAVED);
        let first = self.host("s1h1");
        let found = self.named("s1h1", &["slurmctld"]);
        assert_eq!(found.len(), 1, "{found:?}");
        send(found[0], Signal::KILL);
        assert!(within(PATIENCE, || !self.processes_of(first).contains(&found[0])));
        // There it has the host's name.
        let config = self.case.bed.lab.ssh_config();
        self.case.start_with(args!["ssh", "-F", config, "s1h1", "slurmctld"], args![]).end().exits(0);
        let answers = || self.say("scontrol", args!["ping"]).contains("is UP");
        assert!(within(PATIENCE, answers), "{}", self.said());
    }

    /// Kills all processes of a host at once, as a power failure would.
    fn cut_power_of(&self, host: &str) {
        let host = self.host(host);
        assert!(self.processes_of(host).len() > 2, "it had tasks");
        let is_dead = || {
            let left = self.processes_of(host);
            left.iter().for_each(|pid| send(*pid, Signal::KILL));
            left.is_empty()
        };
        assert!(within(PATIENCE, is_dead));
    }

    fn host(&self, name: &str) -> &SiteHost {
        let hosts = self.case.bed.lab.description().site_hosts();
        hosts.into_iter().find(|host| host.name == name).expect("it is one of the lab's")
    }

    /// The processes of a host that run one of these programs.
    pub fn named(&self, host: &str, programs: &[&str]) -> Vec<i32> {
        let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let is_one = |pid: &i32| programs.contains(&name(pid).trim());
        self.processes_of(self.host(host)).into_iter().filter(is_one).collect()
    }

    fn processes_of(&self, host: &SiteHost) -> Vec<i32> {
        let words = args!["ip", "netns", "pids", &host.host.namespace];
        let run = self.case.start_with(words, args![]).end().exits(0);
        run.out.split_whitespace().map(|pid| pid.parse().expect("ip prints numbers")).collect()
    }

    /// Runs one of Slurm's programs, and returns its output.
    pub fn say(&self, program: &str, words: Vec<OsString>) -> String {
        let run = self.case.start_with(args![program], words).end();
        run.out + &run.err
    }

    pub fn fleet(&self, words: Vec<OsString>) -> Run {
        self.case.start_with(args![self.case.bed.program(), "fleet"], words).end()
    }

    /// Submits the remaining shards, with two tasks per node and slow copies.
    pub fn submit(&self) -> Run {
        self.start_submission(args![]).end().exits(0)
    }

    /// Starts a submission with further options.
    pub fn start_submission(&self, options: Vec<OsString>) -> Running {
        let program = args!["submit", "plan", "--tasks", "4", "--partition", "site1", "--program"];
        let program = [program, args![self.case.bed.program()], options].concat();
        let options = args!["--", "-F", self.case.bed.lab.ssh_config(), "--bwlimit", "1mb", "--lease", "4"];
        let words = [program, options].concat();
        self.case.start_with(args![self.case.bed.program(), "fleet"], words)
    }

    fn is_idle(&self) -> bool {
        self.say("squeue", args!["--noheader"]).trim().is_empty()
    }

    /// Whether all tasks have ended. A requeued task may start only two minutes later, unless its time is
    /// changed.
    pub fn is_over(&self) -> bool {
        let waiting = self.say("squeue", args!["--noheader", "--array", "--format", "%i %r"]);
        for task in waiting.lines().filter_map(|line| line.strip_suffix(" BeginTime")) {
            self.say("scontrol", args!["update", format!("jobid={task}"), "starttime=now"]);
        }
        self.is_idle()
    }

    pub fn said(&self) -> String {
        let logs = fs::read_dir(&self.top).into_iter().flatten().flatten().map(|entry| entry.path());
        let said = logs.filter(|path| path.extension().is_some_and(|end| end == "log")).map(|path| {
            let said = fs::read(&path).unwrap_or_default();
            format!(
                "{}:\n{}\n",
                path.display(),
                String::from_utf8_lossy(&said[said.len().saturating_sub(2500)..])
            )
        });
        said.collect::<String>() + &self.say("squeue", args!["--array"])
    }
}

#[test]
fn tasks_of_slurm_are_killed_and_requeued_and_its_controller_dies_and_all_arrives() {
    let Some(case) = case_with_slurm() else { return };
    let fleet = Fleet::new(&case).with_tree();
    for number in 0..8_u64 {
        write(fleet.source.join(format!("large/{number}")), noise(100 + number, 9_000_000));
    }
    let slurm = Slurm::of(&case);
    fleet.plan(args!["--shards", "8", "--hosts", "s2h2"]).exits(0);
    let submitted = slurm.submit();
    assert!(submitted.out.contains("shards 0-7"), "{submitted}");
    let job = submitted.out.split([' ', ':']).nth(1).unwrap().to_owned();
    let running = || fleet.states().iter().filter(|(state, _)| state == "running").count();
    assert!(within(PATIENCE, || running() >= 2), "{}{}", slurm.said(), fleet.status());
    let again = slurm.fleet(args!["submit", "plan"]).exits(1);
    assert!(again.err.contains(&format!("scancel {job}")), "{again}");
    let status = slurm.fleet(args!["status", "plan"]);
    assert!(status.out.contains(&format!("job {job} of Slurm")) && status.out.contains("s1h1"), "{status}");
    // One task is begun again by Slurm, one is killed behind its back, and its controller is.
    let requeued = slurm.say("scontrol", args!["requeue", format!("{job}_0")]);
    assert!(requeued.trim().is_empty(), "{requeued}");
    let of_lab = processes_with(&format!("LINERATE_LAB={}", case.bed.lab.name()));
    let mut of_task = processes_with("SLURM_ARRAY_TASK_ID=1");
    of_task.retain(|pid| of_lab.contains(pid));
    assert!(!of_task.is_empty());
    of_task.into_iter().for_each(|pid| send(pid, Signal::KILL));
    slurm.restart_controller();
    assert!(within(PATIENCE * 2, || slurm.is_over()), "{}{}", slurm.said(), fleet.status());
    let states = fleet.states();
    assert!(states[0].1 >= 2 && states[0].0 == "done", "{states:?}");
    assert!(states[1] == ("running".to_owned(), 1), "killed, it could write nothing: {states:?}");
    let rest = slurm.submit();
    assert!(rest.out.contains(": shards 1"), "{rest}");
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    fleet.assert_done();
    assert_eq!(fleet.states()[1], done(2));
    let nothing = slurm.fleet(args!["submit", "plan"]).exits(0);
    assert!(nothing.out.contains("every part of the plan is done"), "{nothing}");
}

#[test]
fn a_node_that_dies_leaves_its_shards_to_others() {
    let Some(case) = case_with_slurm() else { return };
    let fleet = Fleet::new(&case);
    for number in 0..4_u64 {
        write(fleet.source.join(format!("large/{number}")), noise(100 + number, 12_000_000));
    }
    let slurm = Slurm::of(&case);
    fleet.plan(args!["--shards", "4", "--hosts", "s2h2"]).exits(0);
    slurm.submit();
    let running = || fleet.states().iter().filter(|(state, _)| state == "running").count();
    assert!(within(PATIENCE, || running() == 4), "{}{}", slurm.said(), fleet.status());
    slurm.cut_power_of("s1h2");
    assert!(
        within(PATIENCE * 3, || slurm.is_over() && fleet.status()["done"] == true),
        "{}{}",
        slurm.said(),
        fleet.status()
    );
    fleet.assert_done();
    let attempts: Vec<u64> = fleet.states().iter().map(|(_, attempts)| *attempts).collect();
    assert!(attempts.iter().filter(|attempts| **attempts > 1).count() >= 1, "{attempts:?}");
}
