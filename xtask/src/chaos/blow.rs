//! Faults that are injected into a transfer, and the times of their injection.

use anyhow::Context;
use fastrand::Rng;
use rustix::process::Signal;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::round::RunningRound;

/// A fault, and the time at which it is injected.
#[derive(Clone, Debug)]
pub struct Blow {
    pub kind: BlowKind,
    pub moment: Moment,
}

/// The time at which a fault is injected.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    After(Duration),
    /// When the link has carried this number of bytes.
    Bytes(u64),
}

/// The kind of a fault.
#[derive(Clone, Debug, PartialEq)]
pub enum BlowKind {
    Client(Signal),
    Agent(Signal),
    Shell(Signal),
    Both,
    ShellAndAgent,
    /// All data connections are reset.
    Reset,
    Cut(Duration),
    CutForGood,
    StopClient(Duration),
    StopAgent(Duration),
    StopShell(Duration),
    StopAgentForGood,
    FullDisk,
}

impl BlowKind {
    pub fn draw(rng: &mut Rng, is_within: bool, may_last: bool) -> Self {
        let signal = draw_signal(rng);
        let pause = Duration::from_millis(rng.u64(200..9000));
        if is_within {
            return match rng.u32(0..8) {
                0 => Self::StopClient(pause),
                1 => Self::FullDisk,
                2..5 => Self::Client(Signal::KILL),
                _ => Self::Client(signal),
            };
        }
        let cut = Duration::from_millis(rng.u64(1000..15_000));
        match rng.u32(0..24) {
            0..4 => Self::Client(Signal::KILL),
            4..8 => Self::Client(signal),
            8..11 => Self::Agent(Signal::KILL),
            11 => Self::Agent(signal),
            12..14 => Self::Shell(signal),
            14 => Self::Shell(Signal::KILL),
            15 => Self::Both,
            16 => Self::ShellAndAgent,
            17 => Self::Reset,
            18 => Self::Cut(cut),
            19 if may_last => Self::CutForGood,
            20 if may_last => Self::StopAgentForGood,
            21 => Self::StopAgent(pause),
            22 => Self::StopClient(pause),
            23 => Self::StopShell(pause),
            _ => Self::FullDisk,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Client(Signal::TERM) => "client TERM",
            Self::Client(Signal::INT) => "client INT",
            Self::Client(Signal::HUP) => "client HUP",
            Self::Client(_) => "client KILL",
            Self::Agent(Signal::TERM) => "agent TERM",
            Self::Agent(Signal::INT) => "agent INT",
            Self::Agent(Signal::HUP) => "agent HUP",
            Self::Agent(_) => "agent KILL",
            Self::Shell(_) => "ssh",
            Self::Both => "both",
            Self::ShellAndAgent => "ssh and agent",
            Self::Reset => "reset",
            Self::Cut(_) => "cut",
            Self::CutForGood => "cut for good",
            Self::StopClient(_) => "client STOP",
            Self::StopAgent(_) => "agent STOP",
            Self::StopShell(_) => "ssh STOP",
            Self::StopAgentForGood => "agent STOP for good",
            Self::FullDisk => "full disk",
        }
    }

    /// Injects the fault into `run`. After some faults, checks that the client and the agent end by themselves in time.
    pub fn hit(&self, run: &mut RunningRound<'_>) -> anyhow::Result<()> {
        match self {
            Self::Client(signal) => run.signal_client(*signal),
            Self::Agent(signal) => run.signal_agent(*signal),
            Self::Shell(signal) => run.signal_shell(*signal),
            Self::Both => kill_with_agent(run, RunningRound::signal_client),
            Self::ShellAndAgent => kill_with_agent(run, RunningRound::signal_shell),
            Self::Reset => run.bed().reset()?,
            Self::Cut(time) => {
                run.bed().cut()?;
                thread::sleep(*time);
                run.bed().mend()?;
            }
            Self::CutForGood => {
                run.bed().cut()?;
                run.must_end_alone("the link is cut");
                run.bed().mend()?;
            }
            Self::StopClient(time) => pause(run, *time, RunningRound::signal_client),
            Self::StopAgent(time) => pause(run, *time, RunningRound::signal_agent),
            Self::StopShell(time) => pause(run, *time, RunningRound::signal_shell),
            Self::StopAgentForGood => {
                let agent = run.agent();
                super::processes::signal(&agent, Signal::STOP);
                run.must_end_client("the agent is stopped");
                super::processes::signal(&agent, Signal::KILL);
            }
            Self::FullDisk => {
                let filling = run.ground().fill().context("filling the destination")?;
                run.wait_for(Duration::from_secs(4));
                drop(filling);
            }
        }
        Ok(())
    }
}

/// Kills a process of the run and the agent. The agent is looked up first, because it may lose its parent
/// process.
fn kill_with_agent<'a>(run: &RunningRound<'a>, signal: fn(&RunningRound<'a>, Signal)) {
    let agent = run.agent();
    signal(run, Signal::KILL);
    super::processes::signal(&agent, Signal::KILL);
}

/// Stops a process of the run for this time, then continues it.
fn pause<'a>(run: &RunningRound<'a>, time: Duration, signal: fn(&RunningRound<'a>, Signal)) {
    signal(run, Signal::STOP);
    thread::sleep(time);
    signal(run, Signal::CONT);
}

fn draw_signal(rng: &mut Rng) -> Signal {
    [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP][rng.usize(0..4)]
}

impl Moment {
    pub fn draw(rng: &mut Rng, is_within: bool, bytes: u64) -> Self {
        // Early and late times are equally probable, regardless of the duration of a transfer.
        if is_within {
            return Self::After(Duration::from_secs_f64(0.02 * (rng.f64() * 3.5).exp()));
        }
        if rng.u32(0..3) == 0 {
            return Self::After(Duration::from_secs_f64(0.02 * (rng.f64() * 4.5).exp()));
        }
        Self::Bytes((bytes as f64 * rng.f64() * 1.02) as u64)
    }

    /// Waits until the time of the fault. Returns false if the run ends before this time.
    pub fn wait(&self, run: &mut RunningRound<'_>) -> bool {
        let begun = Instant::now();
        let has_come = |run: &RunningRound<'_>| match self {
            Self::After(time) => begun.elapsed() >= *time,
            Self::Bytes(bytes) => run.bytes() >= *bytes,
        };
        while !has_come(run) {
            if run.has_ended() {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
        !run.has_ended()
    }
}

/// The number of bytes that an interface in the network namespace of a process has carried, in both
/// directions.
pub fn carried(pid: u32, interface: &str) -> Option<u64> {
    let table = fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    let columns: Vec<u64> = line.split_whitespace().filter_map(|column| column.parse().ok()).collect();
    Some(columns.first()? + columns.get(8)?)
}
