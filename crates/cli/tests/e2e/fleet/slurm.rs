//! Fleets under Slurm: its own controller and two nodes on this machine, in the near host's namespace.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linerate_lab::End;
use linerate_testing::{has_all, program_path};
use rustix::process::Signal;

use super::{Fleet, done};
use crate::bed::{Case, args, case};
use crate::support::{PATIENCE, Running, processes_with, within};
use crate::tree::{noise, write};

/// The daemons; they end when it is dropped, after what they have started.
struct Slurm<'a> {
    case: &'a Case,
    /// Its ports are those of one at a time.
    _alone: MutexGuard<'static, ()>,
    top: PathBuf,
    controller: Option<Running>,
    nodes: Vec<Running>,
    munge: Option<Running>,
}

static ALONE: Mutex<()> = Mutex::new(());

/// How long a controller may take to save what it knows.
const SAVED: Duration = Duration::from_secs(8);

const PROGRAMS: [&str; 8] =
    ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo"];

impl<'a> Slurm<'a> {
    /// A controller and the nodes n1 and n2; none where Slurm isn't installed.
    fn up(case: &'a Case) -> Option<Self> {
        if !has_all(&PROGRAMS) {
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let top = case.aside("slurm");
        let mut slurm = Self { case, _alone: alone, top, controller: None, nodes: Vec::new(), munge: None };
        slurm.configure();
        let at = |name: &str| slurm.top.join(name);
        let munge = args!["--foreground", "--force", "--key-file", at("key"), "--socket", at("socket")];
        let files = args!["--pid-file", at("munge.pid"), "--log-file", at("munge.log")];
        let seed = args!["--seed-file", at("seed")];
        let munge = slurm.start("munged", [munge, files, seed].concat());
        assert!(within(PATIENCE, || at("socket").exists()), "munged: {}", munge.said());
        slurm.munge = Some(munge);
        slurm.control();
        slurm.nodes = ["n1", "n2"].map(|name| slurm.start("slurmd", args!["-D", "-N", name])).into();
        let are_idle = || slurm.say("sinfo", args!["--noheader", "--format", "%t %D"]).trim() == "idle 2";
        assert!(within(PATIENCE, are_idle), "{}", slurm.said());
        Some(slurm)
    }

    fn configure(&self) {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let top = self.top.display();
        write(self.top.join("key"), noise(11, 128));
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(self.top.join("key"), owner_only).unwrap();
        for name in ["state", "spool-n1", "spool-n2"] {
            fs::create_dir(self.top.join(name)).unwrap();
        }
        write(self.top.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n");
        let node = |name: &str, port: u32| {
            format!(
                "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN\n"
            )
        };
        let text = format!(
            "ClusterName=linerate\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={top}/socket\nCredType=cred/munge\nSlurmctldPort=16817\n\
             SlurmctldPidFile={top}/ctld.pid\nSlurmdPidFile={top}/%n.pid\nSlurmdSpoolDir={top}/spool-%n\n\
             StateSaveLocation={top}/state\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\n\
             SlurmdParameters=config_overrides\nSwitchType=switch/none\nMpiDefault=none\nReturnToService=2\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nJobRequeue=1\nKillWait=2\nMinJobAge=3600\n\
             SlurmdTimeout=10\nSchedulerParameters=batch_sched_delay=0,sched_interval=1\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n{}{}\
             PartitionName=dtn Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP\n",
            node("n1", 17001),
            node("n2", 17002),
        );
        write(self.top.join("slurm.conf"), text);
    }

    /// Starts the controller, or starts it again.
    fn control(&mut self) {
        self.controller = Some(self.start("slurmctld", args!["-D"]));
    }

    /// Kills the controller and starts it again. What it hasn't saved by then, every few seconds, it has lost.
    fn restart_controller(&mut self) {
        std::thread::sleep(SAVED);
        let controller = self.controller.take().expect("it is up");
        controller.signal(Signal::KILL);
        controller.end();
        self.control();
        let answers = || self.say("scontrol", args!["ping"]).contains("is UP");
        assert!(within(PATIENCE, answers), "{}", self.said());
    }

    /// Kills n2 as a power cut does: nobody there says anything any more.
    fn kill_last_node(&mut self) {
        let node = self.nodes.pop().expect("it is up");
        node.signal(Signal::KILL);
        let own = processes_with(&format!("SLURM_CONF={}", self.top.join("slurm.conf").display()));
        let mut tasks = processes_with("SLURMD_NODENAME=n2");
        tasks.retain(|pid| own.contains(pid));
        assert!(!tasks.is_empty(), "it had tasks");
        let is_manager = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with("slurmstepd")
        };
        let managers: Vec<i32> = tasks.iter().filter_map(|pid| parent(*pid)).filter(is_manager).collect();
        for pid in managers.into_iter().chain(tasks) {
            crate::support::send(pid, Signal::KILL);
        }
    }

    fn start(&self, program: &str, words: Vec<OsString>) -> Running {
        let path = program_path(program).expect("it was there");
        let mut all = args![path];
        all.extend(words);
        let mut command = self.case.bed.lab.place(End::A).command(&all).expect("well-formed");
        command.current_dir(&self.case.near).envs(self.case.bed.lab.environment());
        command
            .env("SLURM_CONF", self.top.join("slurm.conf"))
            .env("LINERATE_TEST_SLURM", self.top.as_os_str());
        command.stdin(Stdio::null());
        Running::start(command)
    }

    /// What one of Slurm's programs prints, or `linerate`.
    fn say(&self, program: &str, words: Vec<OsString>) -> String {
        let run = self.start(program, words).end();
        run.out + &run.err
    }

    fn fleet(&self, words: Vec<OsString>) -> crate::support::Run {
        let mut all = args![self.case.bed.program(), "fleet"];
        all.extend(words);
        let mut command = self.case.bed.lab.place(End::A).command(&all).expect("well-formed");
        command.current_dir(&self.case.near).env("SLURM_CONF", self.top.join("slurm.conf"));
        Running::start(command).end()
    }

    /// Submits what is left, two tasks at a time on each node, with slow copies.
    fn submit(&self) -> crate::support::Run {
        let program = args!["submit", "plan", "--tasks", "4", "--partition", "dtn", "--program"];
        let program = [program, args![self.case.bed.program()]].concat();
        let options = args!["--", "-F", self.case.bed.lab.ssh_config(), "--bwlimit", "1mb", "--lease", "4"];
        self.fleet([program, options].concat()).exits(0)
    }

    fn is_idle(&self) -> bool {
        self.say("squeue", args!["--noheader"]).trim().is_empty()
    }

    /// True once all tasks have ended. A task that was requeued may start only two minutes later, unless somebody says otherwise.
    fn is_over(&self) -> bool {
        let waiting = self.say("squeue", args!["--noheader", "--array", "--format", "%i %r"]);
        for task in waiting.lines().filter_map(|line| line.strip_suffix(" BeginTime")) {
            self.say("scontrol", args!["update", format!("jobid={task}"), "starttime=now"]);
        }
        self.is_idle()
    }

    fn said(&self) -> String {
        let daemons = self.controller.iter().chain(&self.nodes);
        let said = daemons.map(|daemon| daemon.said());
        said.map(|said| said[said.len().saturating_sub(2500)..].to_owned() + "\n").collect::<String>()
            + &self.say("squeue", args!["--array"])
    }
}

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        if self.controller.is_some() {
            self.say("scancel", args!["--user", "root"]);
            within(Duration::from_secs(20), || self.is_idle());
        }
        // Steps are no children of ours.
        let mark = format!("LINERATE_TEST_SLURM={}", self.top.display());
        processes_with(&mark).into_iter().for_each(|pid| crate::support::send(pid, Signal::KILL));
    }
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[test]
fn tasks_of_slurm_are_killed_and_requeued_and_its_controller_dies_and_all_arrives() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    for number in 0..8_u64 {
        write(fleet.source.join(format!("large/{number}")), noise(100 + number, 9_000_000));
    }
    let Some(mut slurm) = Slurm::up(&case) else { return };
    fleet.plan(args!["--shards", "8"]).exits(0);
    let submitted = slurm.submit();
    assert!(submitted.out.contains("shards 0-7"), "{submitted}");
    let job = submitted.out.split([' ', ':']).nth(1).unwrap().to_owned();
    let running = || fleet.states().iter().filter(|(state, _)| state == "running").count();
    assert!(within(PATIENCE, || running() >= 2), "{}{}", slurm.said(), fleet.status());
    let again = slurm.fleet(args!["submit", "plan"]).exits(1);
    assert!(again.err.contains(&format!("scancel {job}")), "{again}");
    let status = slurm.fleet(args!["status", "plan"]);
    assert!(status.out.contains(&format!("job {job} of Slurm")) && status.out.contains("n1"), "{status}");
    // One task is begun again by Slurm, one is killed behind its back, and its controller is.
    let requeued = slurm.say("scontrol", args!["requeue", format!("{job}_0")]);
    assert!(requeued.trim().is_empty(), "{requeued}");
    let mark = format!("SLURM_ARRAY_TASK_ID={}", 1);
    let of_task = processes_with(&mark);
    assert!(!of_task.is_empty());
    of_task.into_iter().for_each(|pid| crate::support::send(pid, Signal::KILL));
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
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case);
    for number in 0..4_u64 {
        write(fleet.source.join(format!("large/{number}")), noise(100 + number, 12_000_000));
    }
    let Some(mut slurm) = Slurm::up(&case) else { return };
    fleet.plan(args!["--shards", "4"]).exits(0);
    slurm.submit();
    let running = || fleet.states().iter().filter(|(state, _)| state == "running").count();
    assert!(within(PATIENCE, || running() == 4), "{}{}", slurm.said(), fleet.status());
    slurm.kill_last_node();
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
