//! One run of a round's command.

use anyhow::Context;
use linerate_lab::End;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use super::{ChaosRound, RUN_TIMEOUT};
use crate::chaos::bed::ChaosBed;
use crate::chaos::blow::{BlowKind, carried};
use crate::chaos::ground::Ground;
use crate::chaos::processes::{marked, running, signal, within};

/// One run of a round's command.
pub struct RunningRound<'a> {
    round: &'a ChaosRound<'a>,
    child: Child,
    pub(super) status: Option<ExitStatus>,
    said: PathBuf,
    carried: u64,
    wrong: Vec<String>,
}

impl<'a> RunningRound<'a> {
    pub(super) fn start(round: &'a ChaosRound<'a>) -> anyhow::Result<Self> {
        // A shell makes its commands in the background ignore some signals, and the children of such commands would
        // inherit this.
        let mut words: Vec<OsString> = vec!["env".into(), "--default-signal=INT,QUIT,HUP".into()];
        words.extend(round.words());
        let said = round.bed.work.join("said");
        let mark = round.near_mark();
        let (name, value) = mark.split_once('=').expect("a name and a value");
        let mut command = round.bed.lab.place(End::A).command(&words)?;
        let child =
            command.env(name, value).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&said)?);
        let child = child.spawn().context("starting the transfer")?;
        let mut run = Self { round, child, status: None, said, carried: 0, wrong: Vec::new() };
        run.carried = run.carried();
        Ok(run)
    }

    pub fn bed(&self) -> &ChaosBed {
        self.round.bed
    }

    pub fn ground(&self) -> &Ground {
        self.round.ground
    }

    /// The number of bytes that the link has carried since the run began.
    pub fn bytes(&self) -> u64 {
        self.carried().saturating_sub(self.carried)
    }

    fn carried(&self) -> u64 {
        carried(self.child.id(), &self.round.bed.lab.host(End::A).interface).unwrap_or(0)
    }

    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    pub fn agent(&self) -> Vec<i32> {
        self.round.agents()
    }

    pub fn signal_client(&self, number: Signal) {
        signal(&[self.child.id() as i32], number);
    }

    pub fn signal_agent(&self, number: Signal) {
        signal(&self.agent(), number);
    }

    pub fn signal_shell(&self, number: Signal) {
        let shells = running(marked(&self.round.near_mark()), |name| name == "ssh");
        signal(&shells, number);
    }

    /// Waits for the end of the run; returns false if `patience` passes first.
    pub fn wait_for(&mut self, patience: Duration) -> bool {
        within(patience, || self.has_ended())
    }

    /// Records an error unless the client ends by itself in time.
    pub fn must_end_client(&mut self, why: &str) {
        let patience = self.patience();
        if !self.wait_for(patience) {
            let line = format!("the client is still there after {patience:?}, though {why}: {}", self.said());
            self.wrong.push(line);
        }
    }

    /// Records an error unless both ends end by themselves in time.
    pub fn must_end_alone(&mut self, why: &str) {
        self.must_end_client(why);
        let patience = Duration::from_secs(2 * self.round.timeout + 4);
        if !within(patience, || self.agent().is_empty()) {
            self.wrong.push(format!("the agent is still there after {patience:?}, though {why}"));
        }
    }

    /// Records an error unless the command ends, with or without success, in time after this fault.
    pub(super) fn must_end(&mut self, kind: &BlowKind) {
        // After these faults, if nothing was lost, the command continues without an error.
        let lasts = matches!(
            kind,
            BlowKind::Cut(_)
                | BlowKind::StopClient(_)
                | BlowKind::StopAgent(_)
                | BlowKind::StopShell(_)
                | BlowKind::FullDisk
                | BlowKind::Reset
        );
        let patience = if lasts { RUN_TIMEOUT } else { self.patience() };
        if !self.wait_for(patience) {
            let line = format!("it is still there {patience:?} after {}: {}", kind.name(), self.said());
            self.wrong.push(line);
        }
    }

    /// The time to wait for the end of a run: twice the timeout. With `--retry`, the time is longer, because each
    /// further try may have to wait for the far end of the earlier try.
    fn patience(&self) -> Duration {
        if self.round.options.iter().any(|option| option.starts_with("--retry")) {
            return RUN_TIMEOUT + Duration::from_secs(60);
        }
        Duration::from_secs(2 * self.round.timeout + 4)
    }

    pub(super) fn said(&self) -> String {
        let said = fs::read(&self.said).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        said.lines().take(6).collect::<Vec<_>>().join(" | ")
    }

    /// The errors of the run. If the run hasn't ended, it is killed.
    pub(super) fn wrong(mut self) -> Vec<String> {
        if !self.has_ended() {
            signal(&marked(&self.round.near_mark()), Signal::KILL);
            let _ = self.child.wait();
        }
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        if said.contains("panicked at") {
            self.wrong.push(format!("a panic: {}", self.said()));
        }
        self.wrong
    }
}
