//! `linerate fleet run`: a task of a plan. A scheduler starts tasks on many hosts.

use clap::Args;
use linerate_fleet::attempt::{Attempt, AttemptProgress, AttemptState, ENTRIES_FAILED};
use linerate_fleet::claim::{Claim, ClaimPatience, Claimed, PartsEnd, claim, end_of};
use linerate_fleet::plan::{FleetPart, PlanDirectory};
use linerate_transfer::lock::lock;
use linerate_transfer::problem::Observer;
use linerate_wire::path::printable;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::figures::ShardSums;
use super::part::{Purpose, task};
use crate::common::event::Event;
use crate::common::failure::Failure;
use crate::common::log::{self, LoggedEvent, LoggedKind, LoggedPriority};
use crate::common::member::{MemberDone, MemberOutput};
use crate::common::output::{Output, Style};
use crate::common::recording::logging;
use crate::common::signals::interrupted;
use crate::copying::args::CopyingArgs;
use crate::copying::watched::WatchedTask;
use crate::exit::Code;

/// The number of times that an attempt renews its lease during the length of the lease.
const BEATS: u32 = 12;
/// The longest time between two renewals of a lease.
const RAREST: Duration = Duration::from_secs(5);

/// The reason why the part with the directories isn't complete although the directories have their modes and times.
const FOR_NOW: &str =
    "the directories' modes and times are set, and will be set again once the failed shards are done";

/// Arguments of `linerate fleet run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Move shard K (the first is 0); without it, all unclaimed shards
    ///
    /// Without this option, unclaimed shards are moved one after the other, until none is left.
    #[arg(long, value_name = "K")]
    shard: Option<u32>,
    /// Exit with code 1 if another task works on the shard
    #[arg(long, conflicts_with = "dry_run")]
    no_wait: bool,
    /// Take over from a task that is silent for SECONDS
    ///
    /// If the other task ran on this host and has ended, or if Slurm has started its job again, this task takes over at
    /// once.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, conflicts_with = "dry_run", value_parser = clap::value_parser!(u32).range(1..))]
    lease: u32,
    /// Print the changes; change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    common: CopyingArgs,
    /// The plan's directory
    plan: PathBuf,
}

/// A running task.
struct ShardTask<'a> {
    args: &'a RunArgs,
    directory: PlanDirectory,
    output: &'a Output,
    interrupted: Arc<AtomicBool>,
    sums: Mutex<ShardSums>,
}

/// The result of a task's work on a part.
enum PartEnd {
    /// This task or an earlier one has ended the part with this exit code.
    Ended(Code),
    /// Another task is working on the part.
    Left(Failure),
}

/// Moves one shard, or all shards that no other task has claimed.
pub fn run(args: RunArgs) -> Result<Code, Failure> {
    let (log, figures) = args.common.written();
    let names =
        args.common.names("fleet run", (vec![args.plan.clone().into()], Vec::new())).dry(args.dry_run);
    logging(log.as_deref(), names, figures.as_deref(), |metrics| {
        let output = Output::new(args.common.style()).itemizing(args.dry_run).measured(metrics);
        output.metrics().check()?;
        output.metrics().note().into_iter().for_each(|note| output.note(&note));
        let done = args.perform(&output);
        done.inspect_err(|failure| output.failed(failure))
    })
}

impl RunArgs {
    fn perform(&self, output: &Output) -> Result<Code, Failure> {
        let directory = PlanDirectory::open(&self.plan)?;
        let (interrupted, sums) = (interrupted()?, Mutex::default());
        let task = ShardTask { args: self, directory, output, interrupted, sums };
        let code = match self.shard {
            Some(number) => task.one(number),
            None => task.all(),
        }?;
        if !self.dry_run {
            // Each attempt records the totals. If every shard was done already, there was no attempt.
            lock(&task.sums).record(output.metrics());
        }
        Ok(code)
    }

    fn patience(&self, waits: bool) -> ClaimPatience {
        ClaimPatience { lease: Duration::from_secs(self.lease.into()), waits }
    }
}

impl ShardTask<'_> {
    fn one(&self, number: u32) -> Result<Code, Failure> {
        let part = FleetPart::Shard(number);
        if self.directory.plan.part(part).is_none() {
            let shards = self.directory.plan.shards.len();
            return Err(Failure::usage(format!(
                "there is no shard {number}: the plan has {shards}, from 0 to {}",
                shards.saturating_sub(1)
            )));
        }
        match self.part(part, !self.args.no_wait)? {
            PartEnd::Left(failure) => Err(failure),
            PartEnd::Ended(code) if self.args.dry_run => Ok(code),
            PartEnd::Ended(code) => {
                let end = self.end_of_shards(number)?;
                Ok(worse(code, self.directories(number, end)?))
            }
        }
    }

    /// Moves all unclaimed shards, and then the shards whose tasks have died. Leaves shards that fail to a later run.
    fn all(&self) -> Result<Code, Failure> {
        let (mut worst, mut left) = (Code::Done, Vec::new());
        for part in self.directory.plan.parts().filter(|part| *part != FleetPart::Directories) {
            match self.one_of_all(part, false)? {
                PartEnd::Ended(code) => worst = worse(worst, code),
                PartEnd::Left(_) => left.push(part),
            }
        }
        for part in left.into_iter().filter(|_| !self.args.no_wait) {
            if let PartEnd::Ended(code) = self.one_of_all(part, true)? {
                worst = worse(worst, code);
            }
        }
        if self.args.dry_run {
            return Ok(worst);
        }
        let end = self.end_of_shards(0)?;
        if let PartsEnd::Lacks(part) = end {
            let message =
                "empty directories are created, and modes and times of directories set, after the last shard";
            self.output.note(&format!("{part} isn't done yet: {message}"));
        }
        Ok(worse(worst, self.directories(0, end)?))
    }

    /// Moves one of several shards. A failure is only printed, and the run continues with the next shard, which may go
    /// to another host.
    fn one_of_all(&self, part: FleetPart, waits: bool) -> Result<PartEnd, Failure> {
        match self.part(part, waits) {
            Err(failure) if failure.1 != Code::Interrupted && !self.args.dry_run => {
                self.output.failed(&failure);
                let event = LoggedEvent::plain(LoggedKind::Error, LoggedPriority::Error, &failure.0);
                let event = event.at(&MemberOutput::of_part(part));
                log::record(&event);
                if !log::to_journal(&event) {
                    message!("linerate: {}", failure.0);
                }
                Ok(PartEnd::Ended(failure.1))
            }
            ended => ended,
        }
    }

    /// Sets the metadata of the directories, if this is the last task. `number` is the shard of this task, and `end`
    /// the result of all shards after it. If another task is repeating a failed shard at the same time, that task is
    /// the last one.
    fn directories(&self, number: u32, mut end: PartsEnd) -> Result<Code, Failure> {
        while !matches!(end, PartsEnd::Lacks(_)) {
            // If the claim fails, another task that ended at the same time is setting the directories' metadata.
            let PartEnd::Ended(code) = self.part(FleetPart::Directories, !self.args.no_wait)? else { break };
            let before = std::mem::replace(&mut end, self.end_of_shards(number)?);
            if before == PartsEnd::Done || end != PartsEnd::Done {
                return Ok(code);
            }
        }
        Ok(Code::Done)
    }

    fn end_of_shards(&self, number: u32) -> Result<PartsEnd, Failure> {
        let shards = u32::try_from(self.directory.plan.shards.len()).unwrap_or(u32::MAX);
        // The tasks of the next shards are the most likely ones to be still running, so they are asked first.
        let parts = (number + 1..shards).chain(0..=number).map(FleetPart::Shard);
        Ok(end_of(&self.directory.runs(), parts)?)
    }

    fn part(&self, part: FleetPart, waits: bool) -> Result<PartEnd, Failure> {
        let plan = &self.directory.plan;
        if self.args.dry_run {
            let to = plan.destination_of(part, 1);
            let output = Arc::new(self.output.of_member(MemberOutput::of_part(part)));
            let task = task(&self.directory, part, (&to, 1), &self.args.common, Purpose::Preview)?;
            let ended = WatchedTask::new(self.interrupted.clone()).perform(&output, task);
            self.show(&output, part, output.member().and_then(|member| member.done()));
            return ended.map(PartEnd::Ended);
        }
        let goes_on = || !self.interrupted.load(Ordering::Relaxed);
        let to = |number| plan.destination_of(part, number);
        match claim(&self.directory.runs(), part, self.args.patience(waits), to, goes_on)? {
            Claimed::Ours(claim) => self.attempt(part, *claim).map(PartEnd::Ended),
            Claimed::Done(number, attempt) => {
                if part != FleetPart::Directories {
                    self.output.note(&format!("{part} {}", done_by(number, &attempt)));
                }
                Ok(PartEnd::Ended(Code::Done))
            }
            Claimed::Busy(..) if !goes_on() => Err(Failure("interrupted".into(), Code::Interrupted)),
            Claimed::Busy(number, attempt) => {
                let host = printable(attempt.maker.host.as_bytes());
                let message = format!("{part}: attempt {number} is running on host '{host}'");
                Ok(PartEnd::Left(Failure(message, Code::Busy)))
            }
        }
    }

    /// Makes an attempt at a part, and renews its lease regularly.
    fn attempt(&self, part: FleetPart, claim: Claim) -> Result<Code, Failure> {
        let is_empty = self.directory.plan.is_empty(part);
        let is_for_now = part == FleetPart::Directories && self.end_of_shards(0)? != PartsEnd::Done;
        let within = self.directory.plan.hosts.is_empty();
        let output = Arc::new(self.output.of_member(MemberOutput::of_part(part)));
        // If another task takes the part over, only this attempt ends, and not the whole run.
        let ends = Arc::new(AtomicBool::new(false));
        let watched = WatchedTask::new(ends.clone());
        let (to, number) = (claim.attempt.to.clone(), claim.number);
        let (claim, is_over) = (Mutex::new(claim), AtomicBool::new(false));
        let mut result = thread::scope(|scope| {
            let beats = scope.spawn(|| self.beat(&claim, &watched, &is_over, within));
            let result = if is_empty {
                Ok(Code::Done)
            } else {
                task(&self.directory, part, (&to, number), &self.args.common, Purpose::Move)
                    .and_then(|task| watched.perform(&output, task))
            };
            is_over.store(true, Ordering::Relaxed);
            beats.thread().unpark();
            // If the thread failed, the lease wasn't renewed any more; the attempt's own result counts all the same.
            let _ = beats.join();
            result
        });
        let mut claim = claim.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if result.is_err() && claim.is_overtaken() {
            result = Err(Failure(format!("{part}: another task has taken over"), Code::Busy));
        }
        let done = output.member().and_then(|member| member.done());
        note_end(&mut claim.attempt, &result, &watched, done.as_ref(), within);
        if is_for_now && claim.attempt.state == AttemptState::Done {
            note_for_now(&mut claim.attempt);
        }
        // Once a divided file is in place, each task that has pieces of the file has counted the whole file. The pieces
        // of other tasks are subtracted again.
        if done.is_some() {
            let (plan, progress) = (&self.directory.plan, &mut claim.attempt.progress);
            progress.bytes = progress.bytes.saturating_sub(plan.bytes_of_others(part));
            progress.files = progress.files.saturating_sub(plan.files_of_others(part));
        }
        self.count(&claim.attempt.progress, done.as_ref());
        claim.attempt.note_history();
        let written = self.note_left(part, number, &output).and_then(|()| claim.write());
        self.show(&output, part, done);
        // A result that can't be recorded is a failure: another run would do the part again, which is harmless, but the
        // last task would wait for the result.
        result.and_then(|code| written.map(|()| code).map_err(Failure::from))
    }

    /// Records the names that the attempt has left out, so that the next plan contains them. This must happen before
    /// the attempt counts as done.
    fn note_left(&self, part: FleetPart, number: u32, output: &Output) -> anyhow::Result<()> {
        let left = output.member().map_or_else(Vec::new, MemberOutput::left);
        linerate_fleet::left::note(&self.directory, part, number, &left)
    }

    fn beat(&self, claim: &Mutex<Claim>, watched: &WatchedTask, is_over: &AtomicBool, within: bool) {
        let lease = Duration::from_secs(self.args.lease.into());
        let pause = (lease / BEATS).min(RAREST);
        let mut last = std::time::Instant::now();
        let mut is_reported = false;
        while !is_over.load(Ordering::Relaxed) {
            thread::park_timeout(Duration::from_millis(100));
            if self.interrupted.load(Ordering::Relaxed) {
                watched.interrupted.store(true, Ordering::Relaxed);
            }
            if last.elapsed() < pause {
                continue;
            }
            last = std::time::Instant::now();
            let mut claim = lock(claim);
            if claim.is_overtaken() {
                watched.interrupted.store(true, Ordering::Relaxed);
                continue;
            }
            claim.attempt.progress = progress(watched, within);
            claim.attempt.note_history();
            if let Err(error) = claim.write()
                && !std::mem::replace(&mut is_reported, true)
            {
                self.output.note(&format!("the plan can't be written; the task continues: {error:#}"));
            }
        }
    }

    fn count(&self, progress: &AttemptProgress, done: Option<&MemberDone>) {
        let mut sums = lock(&self.sums);
        sums.add(progress, done);
        sums.record(self.output.metrics());
    }

    fn show(&self, output: &Output, part: FleetPart, done: Option<MemberDone>) {
        let Some(done) = done else { return };
        match output.style() {
            Style::Json => output.event(&Event::Summary(done.summary)),
            Style::Quiet => {}
            Style::Plain if part == FleetPart::Directories => {}
            Style::Plain | Style::Verbose => output.line(&format!("linerate: {part}: {}", done.line)),
        }
    }
}

fn done_by(number: u32, attempt: &Attempt) -> String {
    format!("is done: by attempt {number} on host '{}'", printable(attempt.maker.host.as_bytes()))
}

/// The more severe of two exit codes.
pub fn worse(one: Code, other: Code) -> Code {
    if other.severity() > one.severity() { other } else { one }
}

fn progress(watched: &WatchedTask, within: bool) -> AttemptProgress {
    let (sight, meters) = (watched.look(within), watched.meters());
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    AttemptProgress {
        seconds: sight.seconds,
        bytes: sight.bytes,
        sent_bytes: sight.sent,
        files: sight.files,
        limiter: sight.limiter.limiter.name().to_owned(),
        limiter_share: sight.limiter.share,
        failed: count(&meters.local.failed),
        changed: count(&meters.local.changed),
        not_kept: count(&meters.local.not_kept),
        cpu_seconds: 0.0,
    }
}

/// Records that the directories' metadata must be set again, because it was set before all shards were done.
fn note_for_now(attempt: &mut Attempt) {
    attempt.state = AttemptState::Failed;
    attempt.exit = Some(ENTRIES_FAILED);
    attempt.message = Some(FOR_NOW.to_owned());
}

fn note_end(
    attempt: &mut Attempt,
    result: &Result<Code, Failure>,
    watched: &WatchedTask,
    done: Option<&MemberDone>,
    within: bool,
) {
    attempt.progress = progress(watched, within);
    if let Some(done) = done {
        let (progress, summary) = (&mut attempt.progress, &done.summary);
        let there = summary.synced.as_ref().map_or(0, |synced| synced.unchanged_bytes);
        (progress.seconds, progress.bytes, progress.files) =
            (summary.payload_seconds, done.landed.bytes, done.landed.files);
        progress.sent_bytes = done.landed.bytes.saturating_sub(there);
        (progress.limiter, progress.limiter_share) =
            (summary.limiter.limiter.to_owned(), summary.limiter.limiter_share);
        progress.cpu_seconds = summary.sender.cpu_seconds + summary.receiver.cpu_seconds;
    }
    let code = result.as_ref().map_or_else(|failure| failure.1, |code| *code);
    attempt.exit = Some(code.number());
    attempt.message = result.as_ref().err().map(|failure| failure.0.clone());
    attempt.state = match code {
        // Files that have changed since the scan will be in the next plan.
        Code::Done | Code::Changed => AttemptState::Done,
        Code::Interrupted | Code::Busy => AttemptState::Interrupted,
        _ => AttemptState::Failed,
    };
}
