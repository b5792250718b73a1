//! A round: a command is run, is disturbed once or several times, and is then run again until it succeeds.

mod running;

use anyhow::Context;
use fastrand::Rng;
use linerate_lab::End;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::bed::{ChaosBed, far};
use super::blow::{Blow, BlowKind, Moment};
use super::compare;
use super::ground::{Ground, GroundKind, KINDS, ROOM};
use super::operation::{OPERATIONS, Operation, SourceForm, Special};
use super::processes::{marked, running, signal, within};
use super::tree::{Shape, names};
use super::watch::{Scene, SceneWatch};
use crate::call;
pub use running::RunningRound;

/// The longest time that a run may take without further faults.
const RUN_TIMEOUT: Duration = Duration::from_secs(150);
/// The greatest number of repeated runs. Some of them may fail, because processes of an earlier run may still exist, or
/// because the machine may be slow.
const TRIES: u32 = 4;

/// The direction of the transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RoundWay {
    Push,
    Pull,
    Within,
    /// From one far host to another.
    Between,
}

/// A round, as determined by its seed.
pub struct ChaosRound<'a> {
    bed: &'a ChaosBed,
    pub operation: &'static Operation,
    pub ground: &'a Ground,
    shape: &'a Shape,
    way: RoundWay,
    options: Vec<String>,
    timeout: u64,
    blows: Vec<Blow>,
    /// The initial size of a small file system, as a share of the size that is needed.
    small: f64,
    /// Whether a repeated run starts without waiting for the far end of the previous run.
    hurries: bool,
}

/// The result of a round.
pub struct RoundOutcome {
    pub blows: Vec<&'static str>,
    pub wrong: Vec<String>,
    pub read: u64,
    pub again: u32,
}

impl<'a> ChaosRound<'a> {
    /// Determines the round of this seed. Remainders of the seed select the operation and the file system.
    pub fn draw(bed: &'a ChaosBed, seed: u64) -> anyhow::Result<Self> {
        let operations = OPERATIONS.len() as u64;
        let operation = &OPERATIONS[(seed % operations) as usize];
        let kind = KINDS[(seed / operations) as usize % KINDS.len()];
        let ground = bed.grounds.iter().find(|ground| ground.kind == kind);
        let ground = ground.with_context(|| format!("{kind:?} isn't to be had here"))?;
        let mut rng = Rng::with_seed(seed);
        let fitting: Vec<&Shape> =
            bed.shapes.iter().filter(|shape| shape.is_plain || operation.takes_all()).collect();
        let shape = fitting[rng.usize(..fitting.len())];
        let way = draw_way(&mut rng, operation);
        let timeout = if operation.words[0] == "scp" { 30 } else { rng.u64(5..9) };
        let options = draw_options(&mut rng, operation, way, timeout);
        // A part of the older tree is already correct, so fewer bytes are sent.
        let bytes = if operation.is_onto { shape.bytes / 3 } else { shape.bytes };
        let blows = (0..[1, 1, 2, 3][rng.usize(0..4)]).map(|_| Blow {
            kind: BlowKind::draw(&mut rng, way == RoundWay::Within, timeout < 30),
            moment: Moment::draw(&mut rng, way == RoundWay::Within, bytes),
        });
        let blows = blows.collect();
        let mut options = options;
        if operation.is_cp_or_sync() && rng.u32(0..5) == 0 {
            options.push(format!("--manifest={}", bed.work.join("manifest").display()));
        }
        let (small, hurries) = (0.1 + rng.f64() * 0.8, rng.bool());
        Ok(Self { bed, operation, ground, shape, way, options, timeout, blows, small, hurries })
    }

    /// Plays the round, from the preparation to the comparison of the trees.
    pub fn play(&self) -> anyhow::Result<RoundOutcome> {
        self.prepare()?;
        let watch = SceneWatch::start(self.scene());
        let mut outcome = RoundOutcome { blows: Vec::new(), wrong: Vec::new(), read: 0, again: 0 };
        let ended = self.hit_all(&mut outcome).and_then(|()| self.finish(&mut outcome));
        let seen = watch.end();
        outcome.read = seen.read;
        outcome.wrong.extend(seen.wrong);
        ended?;
        if outcome.wrong.is_empty() {
            outcome.wrong.extend(self.judge()?);
        }
        self.ground.empty()?;
        call(Command::new("rm").arg("-rf").arg(self.source_top()))?;
        Ok(outcome)
    }

    fn prepare(&self) -> anyhow::Result<()> {
        self.ground.empty()?;
        call(Command::new("rm").arg("-rf").arg(self.source_top()))?;
        fs::create_dir_all(self.there())?;
        if self.operation.is_onto {
            copy(&self.shape.older(), &self.destination())?;
        }
        if self.operation.special == Special::Aside {
            fs::create_dir(self.there().join("aside"))?;
        }
        if self.operation.special == Special::LinkDest {
            copy(&self.shape.older(), &self.there().join("before"))?;
        }
        if self.operation.special == Special::RemoveSource {
            fs::create_dir_all(self.source_top())?;
            copy(&self.shape.tree(), &self.source())?;
        }
        if self.ground.kind == GroundKind::Small {
            let used = rustix::fs::statvfs(&self.ground.top)?;
            let used = (used.f_blocks - used.f_bfree) * used.f_frsize;
            self.ground.resize(used + (self.shape.bytes as f64 * self.small) as u64)?;
        }
        Ok(())
    }

    fn scene(&self) -> Scene {
        let has_older = self.operation.is_onto;
        Scene {
            tree: self.shape.tree(),
            older: has_older.then(|| self.shape.older()),
            destination: self.destination(),
            reads: !self.operation.writes_in_place(),
            judges_modes: self.operation.special != Special::Follow,
        }
    }

    fn hit_all(&self, outcome: &mut RoundOutcome) -> anyhow::Result<()> {
        for blow in &self.blows {
            let mut run = RunningRound::start(self)?;
            if blow.moment.wait(&mut run) {
                outcome.blows.push(blow.kind.name());
                blow.kind.hit(&mut run)?;
                run.must_end(&blow.kind);
            }
            self.end_of(run, outcome)?;
            if !outcome.wrong.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn end_of(&self, run: RunningRound<'_>, outcome: &mut RoundOutcome) -> anyhow::Result<()> {
        outcome.wrong.extend(run.wrong());
        if !self.hurries {
            outcome.wrong.extend(self.survivors());
        }
        if self.operation.special == Special::RemoveSource {
            outcome.wrong.extend(compare::lost_sources(
                &self.shape.tree(),
                &self.source(),
                &self.destination(),
            ));
        }
        if self.ground.kind == GroundKind::Small {
            self.ground.resize(ROOM)?;
        }
        Ok(())
    }

    /// Runs the command again until it succeeds.
    fn finish(&self, outcome: &mut RoundOutcome) -> anyhow::Result<()> {
        let mut said = String::new();
        for number in 0..TRIES {
            if !outcome.wrong.is_empty() {
                return Ok(());
            }
            let mut run = RunningRound::start(self)?;
            run.wait_for(RUN_TIMEOUT);
            let status = run.status;
            said = format!("{status:?}: {}", run.said());
            self.end_of(run, outcome)?;
            match status {
                None => outcome.wrong.push(format!("it hangs: {said}")),
                Some(status) if status.success() => {
                    outcome.again += number;
                    outcome.wrong.extend(self.survivors());
                    return Ok(());
                }
                Some(_) => thread::sleep(Duration::from_millis(300)),
            }
        }
        outcome.wrong.push(format!("{TRIES} reruns failed, the last with {said}"));
        Ok(())
    }

    /// The processes that still exist after twice the timeout, or after 30 seconds if that is longer. An agent whose
    /// client was cut off early waits that long for its job, because the client hasn't sent its timeout yet.
    fn survivors(&self) -> Vec<String> {
        let left = || [marked(&self.near_mark()), self.agents()].concat();
        let patience = Duration::from_secs((2 * self.timeout).max(30) + 2);
        if within(patience, || left().is_empty()) {
            return Vec::new();
        }
        let left = left();
        let line = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ")
        };
        let lines =
            left.iter().map(|pid| format!("still there after {patience:?}: {pid} {}", line(pid))).collect();
        signal(&left, Signal::KILL);
        lines
    }

    fn judge(&self) -> anyhow::Result<Vec<String>> {
        let (tree, older) = (self.shape.tree(), self.shape.older());
        let mut wrong = compare::differences(self.operation, &tree, &self.destination())?;
        wrong.extend(compare::leftovers(&self.ground.top));
        wrong.extend(compare::leftovers(&self.source_top()));
        wrong.extend(compare::leftovers(&self.shape.top));
        match self.operation.special {
            Special::Backup => {
                wrong.extend(compare::missing_backups(&tree, &older, &self.there().join("backup")));
            }
            Special::LinkDest => {
                let (before, exactly) = (self.there().join("before"), &OPERATIONS[3]);
                wrong.extend(compare::differences(exactly, &older, &before)?);
            }
            Special::Aside => {
                let left = names(&self.there().join("aside"));
                wrong.extend(left.into_iter().map(|name| format!("{name:?} is left aside")));
            }
            Special::RemoveSource => {
                let left =
                    names(&self.source()).into_iter().filter(|name| !self.source().join(name).is_dir());
                wrong.extend(left.map(|name| format!("{name:?} is left at the source")));
            }
            _ => {}
        }
        Ok(wrong)
    }

    fn agents(&self) -> Vec<i32> {
        let is_ours = |name: &str| name.starts_with("agent-") || name.starts_with("linerate");
        running(marked(&self.bed.far_mark()), is_ours)
    }

    fn near_mark(&self) -> String {
        format!("LINERATE_CHAOS={}", self.bed.work.display())
    }

    fn there(&self) -> PathBuf {
        self.ground.top.join("there")
    }

    fn destination(&self) -> PathBuf {
        self.there().join("tree")
    }

    fn source_top(&self) -> PathBuf {
        self.bed.work.join("source")
    }

    fn source(&self) -> PathBuf {
        match self.operation.special {
            Special::RemoveSource => self.source_top().join("tree"),
            _ => self.shape.tree(),
        }
    }

    /// The words of the command line.
    fn words(&self) -> Vec<OsString> {
        let source = self.source();
        let top = source.parent().expect("below the work directory");
        let (from, to) = match self.operation.source {
            SourceForm::Tree => (source.clone(), self.there().join("")),
            SourceForm::Contents => (source.join(""), self.destination().join("")),
            SourceForm::Relative => (top.join("./tree"), self.there().join("")),
        };
        let mut words: Vec<OsString> = vec![self.bed.program.clone().into()];
        words.extend(self.operation.words.iter().map(OsString::from));
        words.extend(self.options.iter().map(OsString::from));
        words.extend(self.operation.directory_option(&self.there()).map(OsString::from));
        if self.way != RoundWay::Within {
            let config = self.bed.config();
            match self.operation.words[0] {
                "rsync" => words.extend(["-e".into(), format!("ssh -F {}", config.display()).into()]),
                _ => words.extend(["-F".into(), config.into()]),
            }
        }
        words.extend(match self.way {
            RoundWay::Push => [from.into(), far(End::B, &to)],
            RoundWay::Pull => [far(End::B, &from), to.into()],
            RoundWay::Between => [far(End::A, &from), far(End::B, &to)],
            RoundWay::Within => [from.into(), to.into()],
        });
        words
    }
}

impl fmt::Display for ChaosRound<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, way, ground, shape, .. } = self;
        write!(
            out,
            "{} {way:?} {} tree onto {} [{}]",
            operation.name,
            shape.name,
            ground.name(),
            self.options.join(" ")
        )
    }
}

fn draw_way(rng: &mut Rng, operation: &Operation) -> RoundWay {
    use RoundWay::{Between, Pull, Push, Within};
    let ways: &[RoundWay] = match operation.words[0] {
        // Within one host, scp behaves like cp, including its handling of links.
        "scp" => &[Push, Pull, Push, Pull, Between],
        "rsync" => &[Push, Pull, Push, Pull, Within],
        _ => &[Push, Pull, Push, Pull, Within, Between],
    };
    ways[rng.usize(..ways.len())]
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    call(Command::new("cp").arg("-a").arg(from).arg(to))
}

fn draw_options(rng: &mut Rng, operation: &Operation, way: RoundWay, timeout: u64) -> Vec<String> {
    let is_within = way == RoundWay::Within;
    let rate = format!("{}m", rng.u64(3..30));
    let is_slow = rng.u32(0..5) < 2 && !is_within;
    let mut options = Vec::new();
    if operation.words[0] == "scp" {
        return if is_slow { vec!["-l".into(), "100000".into()] } else { options };
    }
    if is_slow {
        options.push(format!("--bwlimit={rate}"));
    }
    options.push(format!("--timeout={timeout}"));
    if !operation.is_cp_or_sync() {
        return options;
    }
    let streams = rng.u32(0..20);
    if (1..=16).contains(&streams) {
        options.push(format!("--streams={streams}"));
    }
    for (option, chance) in [("--verify", 4), ("--no-encrypt", 4)] {
        if rng.u32(0..chance) == 0 && !(is_within && option == "--no-encrypt") {
            options.push(option.into());
        }
    }
    if rng.u32(0..6) == 0 && !is_within {
        options.push(format!("--retry={}", rng.u32(1..4)));
    }
    options
}
