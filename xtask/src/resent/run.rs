//! The test bed of the kill test, and a run in it.

use anyhow::{Context, bail};
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{far, tree};
use crate::chaos::tree::names;

/// The longest duration of a step; a longer step counts as hanging.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// The direction of the transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EndWay {
    Push,
    Pull,
}

/// The process that is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Whom {
    Sender,
    Receiver,
    Shell,
    Both,
}

/// All values of [`Whom`], in the order of the results.
pub const WHOM: [Whom; 4] = [Whom::Sender, Whom::Receiver, Whom::Shell, Whom::Both];

/// The result of a run that was not killed.
#[derive(Debug, PartialEq)]
pub enum RunEnd {
    Done,
    Failed(String),
}

/// The directories and programs of the test.
pub struct ResentBed {
    top: PathBuf,
    pub tree: PathBuf,
    pub destination: PathBuf,
    program: PathBuf,
    largest: u64,
}

impl ResentBed {
    pub fn make(directory: &Path, program: PathBuf, size: u64, rng: &mut Rng) -> anyhow::Result<Self> {
        let top = directory.join(format!("linerate-resent-{}", std::process::id()));
        let (tree, destination) = (top.join("source/tree"), top.join("there/tree"));
        fs::create_dir_all(&tree).with_context(|| format!("making {}", tree.display()))?;
        fs::create_dir_all(top.join("there"))?;
        let largest = tree::make(&tree, size, rng)?;
        Ok(Self { top, tree, destination, program, largest })
    }

    /// The size in bytes of a chunk of the largest file, as the sender divides it.
    pub fn chunk(&self, streams: u32) -> u64 {
        (self.largest / (4 * u64::from(streams))).next_power_of_two().clamp(4 << 20, 64 << 20)
    }

    pub fn start(&self, way: EndWay, streams: u32) -> anyhow::Result<RunningCopy> {
        let shell = format!("{} resent-far", std::env::current_exe()?.display());
        let far = |path: &Path| format!("far:{}", path.display());
        let near = |path: &Path| path.display().to_string();
        // The destination directory exists beforehand. Otherwise, by scp's rules, a transfer that was
        // complete when its client was killed would be repeated inside the directory that it made.
        let there = self.top.join("there");
        let (from, to) = match way {
            EndWay::Push => (near(&self.tree), far(&there)),
            EndWay::Pull => (far(&self.tree), near(&there)),
        };
        let (agent, said) = (self.top.join("agent"), self.top.join("said"));
        let _ = fs::remove_file(&agent);
        let child = Command::new(&self.program)
            .args(["cp", "-r", "--quiet", "--streams", &streams.to_string(), "--rsh", &shell, &from, &to])
            .env("XDG_CACHE_HOME", self.top.join("cache"))
            .env(far::AGENT, &agent)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said)?)
            .spawn()?;
        Ok(RunningCopy { child, agent, said })
    }

    /// Restores the initial state of the destination.
    pub fn empty(&self) -> anyhow::Result<()> {
        let there = self.top.join("there");
        fs::remove_dir_all(&there)?;
        Ok(fs::create_dir(there)?)
    }

    /// The temporary names at the destination.
    pub fn leftovers(&self) -> anyhow::Result<Vec<String>> {
        let names = names(&self.top.join("there"));
        let ours = names.iter().filter(|path| path.to_string_lossy().contains(".linerate."));
        Ok(ours.map(|path| format!("{} is left", path.display())).collect())
    }

    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

/// A run in progress.
pub struct RunningCopy {
    child: Child,
    agent: PathBuf,
    said: PathBuf,
}

impl RunningCopy {
    pub fn ends_within(&mut self, patience: Duration) -> anyhow::Result<bool> {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if self.child.try_wait()?.is_some() {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    }

    pub fn end(mut self) -> anyhow::Result<RunEnd> {
        if !self.ends_within(STEP_TIMEOUT)? {
            self.child.kill()?;
            return Ok(RunEnd::Failed(format!("it hangs; {}", fs::read_to_string(&self.said)?)));
        }
        let status = self.child.wait()?;
        self.wait_for_agent()?;
        if status.success() {
            return Ok(RunEnd::Done);
        }
        Ok(RunEnd::Failed(format!("{status}: {}", fs::read_to_string(&self.said)?)))
    }

    /// Kills the process, and waits until all processes of this run have ended.
    pub fn kill(mut self, whom: Whom, way: EndWay) -> anyhow::Result<()> {
        let client = Some(self.child.id() as i32);
        let (sender, receiver) =
            if way == EndWay::Push { (client, self.agent()) } else { (self.agent(), client) };
        let victims = match whom {
            Whom::Sender => [sender, None],
            Whom::Receiver => [receiver, None],
            Whom::Shell => [child_of(self.child.id()), None],
            Whom::Both => [sender, receiver],
        };
        for pid in victims.into_iter().flatten() {
            // A process that has already ended causes an error, which is ignored.
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        if !self.ends_within(STEP_TIMEOUT)? {
            self.child.kill()?;
            bail!("the client hangs after {whom:?} was killed ({way:?})");
        }
        self.child.wait()?;
        self.wait_for_agent()
    }

    fn agent(&self) -> Option<i32> {
        fs::read_to_string(&self.agent).ok()?.parse().ok()
    }

    fn wait_for_agent(&self) -> anyhow::Result<()> {
        let Some(pid) = self.agent().and_then(Pid::from_raw) else { return Ok(()) };
        let begun = Instant::now();
        while test_kill_process(pid).is_ok() && !is_zombie(pid) {
            if begun.elapsed() > STEP_TIMEOUT {
                bail!("the far end stays behind");
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Whether a process is a zombie. If the far end's parent has ended, its new parent may be slow to reap it.
fn is_zombie(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z'))
}

fn child_of(parent: u32) -> Option<i32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .next()
}

/// The number of bytes that this namespace's loopback has carried.
pub fn sent() -> anyhow::Result<u64> {
    let table = fs::read_to_string("/proc/self/net/dev")?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix("lo:")).context("no loopback")?;
    line.split_whitespace().nth(8).context("a column is missing")?.parse().context("a number")
}
