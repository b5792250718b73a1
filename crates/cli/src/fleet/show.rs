//! Prints plans and their states, as text and as JSON. docs/formats.md specifies the JSON.

use linerate_doctor::limiter::Limiter;
use linerate_fleet::attempt::Attempt;
use linerate_fleet::plan::{FleetPart, FleetPlan, FoundSums, PlanDirectory};
use linerate_fleet::slurm::{ScheduledTask, ScheduledTasks, SubmittedJob};
use linerate_fleet::status::{FleetStatus, PartState};
use linerate_wire::path::printable;
use serde::Serialize;
use std::time::Duration;

use crate::units::{show_bytes, show_count, show_counted, show_time};

const SCHEMA: u32 = 1;
const HEAD: [&str; 11] =
    ["part", "state", "attempt", "host", "to", "bytes", "of", "files", "names", "Gbit/s", "limited by"];

/// A plan as a line of JSON.
#[derive(Serialize)]
pub struct PlanFields<'a> {
    schema: u32,
    r#type: &'static str,
    plan: String,
    id: &'a str,
    round: u32,
    shards: usize,
    files: u64,
    bytes: u64,
    /// The bytes of the largest shard divided by the mean bytes of a shard.
    evenness_bytes: f64,
    /// The largest number of files of a shard divided by the mean number.
    evenness_files: f64,
    found: FoundSums,
    /// The number of files that are divided among several shards.
    divided: usize,
}

/// A plan with its state and the scheduler's tasks.
pub struct SeenFleet<'a> {
    /// The plan's directory.
    pub directory: &'a PlanDirectory,
    /// The state, from the records of the tasks.
    pub status: &'a FleetStatus,
    /// The job that was last submitted to Slurm for this round, if there is one.
    pub job: Option<&'a SubmittedJob>,
    /// The plan's other jobs that still have tasks in the queue.
    pub others: Vec<OtherJob>,
    /// The states in Slurm of the tasks of all these jobs.
    pub tasks: &'a ScheduledTasks,
    /// The number of shards that aren't done although the job has ended; 0 if only the directories aren't done. `None`
    /// if the job hasn't ended, or if everything is done.
    pub ended: Option<usize>,
}

/// A job of this plan that was submitted before the last one and still has tasks in the queue.
#[derive(Clone, Serialize)]
pub struct OtherJob {
    /// The job's number.
    pub job: String,
    /// The number of the job's tasks in the queue.
    pub tasks: usize,
    /// The shards of these tasks, in the format of `sbatch --array`.
    pub array: String,
}

/// The state of a plan, as a line of JSON.
#[derive(Serialize)]
pub struct StatusFields<'a> {
    #[serde(flatten)]
    plan: PlanFields<'a>,
    done: bool,
    job: Option<&'a SubmittedJob>,
    other_jobs: Vec<OtherJob>,
    /// True if all tasks have ended although some shards or the directories aren't done.
    ended: bool,
    parts: Vec<PartFields<'a>>,
}

#[derive(Serialize)]
struct PartFields<'a> {
    part: String,
    state: PartState,
    attempts: u32,
    planned_files: u64,
    planned_bytes: u64,
    gbit_per_second: f64,
    task: Option<&'a ScheduledTask>,
    attempt: Option<&'a Attempt>,
}

/// The fields of the JSON line about a plan.
pub fn plan_fields(directory: &PlanDirectory) -> PlanFields<'_> {
    let plan = &directory.plan;
    let (burden, (evenness_bytes, evenness_files)) = (plan.burden(), plan.evenness());
    PlanFields {
        schema: SCHEMA,
        r#type: "plan",
        plan: directory.path.display().to_string(),
        id: &plan.id,
        round: plan.round,
        shards: plan.shards.len(),
        files: burden.files,
        bytes: burden.bytes,
        evenness_bytes,
        evenness_files,
        found: plan.found,
        divided: plan.divided.len(),
    }
}

/// The fields of the JSON line about a plan's state.
pub fn status_fields<'a>(seen: &SeenFleet<'a>) -> StatusFields<'a> {
    let SeenFleet { directory, status, job, ended, .. } = *seen;
    let other_jobs = seen.others.clone();
    let parts = status.parts().map(|(part, state, attempt, attempts)| {
        let planned = directory.plan.part(part);
        PartFields {
            part: part.name(),
            state,
            attempts,
            planned_files: planned.map_or(0, |planned| planned.files),
            planned_bytes: planned.map_or(0, |planned| planned.bytes),
            gbit_per_second: attempt.map_or(0.0, |attempt| attempt.progress.gbit_per_second()),
            task: seen.task(part),
            attempt,
        }
    });
    let plan = PlanFields { r#type: "status", ..plan_fields(directory) };
    let (done, ended, parts) = (status.is_done_all(), ended.is_some(), parts.collect());
    StatusFields { plan, done, job, other_jobs, ended, parts }
}

/// The contents of a plan, as lines of text.
pub fn plan_lines(directory: &PlanDirectory, took: Duration) -> Vec<String> {
    let FleetPlan { found, shards, divided, .. } = &directory.plan;
    let (burden, (bytes, files)) = (directory.plan.burden(), directory.plan.evenness());
    let mut lines = vec![format!(
        "found {}, {}, {} in {}",
        show_counted(found.files, "file", "files"),
        show_counted(found.directories, "directory", "directories"),
        show_bytes(found.bytes),
        show_time(took),
    )];
    if directory.plan.round > 1 {
        lines.push(format!(
            "since the previous plan: {} in place, {} gone from the source (listed in {})",
            show_count(found.in_place),
            show_count(found.gone),
            directory.round().join(linerate_fleet::plan::GONE_FILE).display(),
        ));
    }
    lines.push(format!(
        "{}: {}, {}; the largest shard has {bytes:.2} times the bytes and {files:.2} times the files of the mean",
        show_counted(shards.len() as u64, "shard", "shards"),
        show_counted(burden.files, "file", "files"),
        show_bytes(burden.bytes),
    ));
    if !divided.is_empty() {
        let count = show_counted(divided.len() as u64, "file is", "files are");
        lines.push(format!("{count} divided among several shards"));
    } else if bytes > 1.1 && found.largest > burden.bytes / (shards.len() as u64).max(1) {
        lines.push(format!(
            "the largest file has {}, more than the mean shard, and is not divided: about {} would be more even",
            show_bytes(found.largest),
            show_counted((burden.bytes / found.largest.max(1)).max(1), "shard", "shards"),
        ));
    }
    lines.push(next_step(directory));
    lines
}

/// The line that tells the user what to do next with a new plan.
fn next_step(directory: &PlanDirectory) -> String {
    let path = directory.path.display();
    match directory.plan.burden().files {
        0 => format!("only directories with their modes and times are left: linerate fleet run {path}"),
        _ => format!("to run the shards: linerate fleet run {path} --shard K"),
    }
}

impl<'a> SeenFleet<'a> {
    fn task(&self, part: FleetPart) -> Option<&'a ScheduledTask> {
        match part {
            FleetPart::Shard(number) => self.tasks.get(&number),
            FleetPart::Directories => None,
        }
    }

    /// A line with the facts about a part that only Slurm has, and the plan's files don't.
    fn word(&self, part: FleetPart, state: PartState) -> Option<String> {
        let task = self.task(part).filter(|_| state != PartState::Done)?;
        let words = [&task.state, &task.reason, &task.node].map(|word| printable(word.as_bytes()));
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty() && word != "None").collect();
        let is_last = self.job.is_some_and(|job| job.job == task.job);
        let of = if is_last { String::new() } else { format!(" job {},", printable(task.job.as_bytes())) };
        Some(format!("{part}: Slurm:{of} {}", words.join(", ")))
    }

    /// The advice to the user if the job has ended before all its shards were done.
    fn advice(&self) -> Option<String> {
        let (job, left) = (self.job?, self.ended?);
        let (path, round) = (self.directory.path.display(), self.directory.round());
        let left = match left {
            0 => "the directories aren't".to_owned(),
            left => show_counted(left as u64, "of its shards isn't", "of its shards aren't"),
        };
        Some(format!(
            "job {} has ended, but {left} done: see {}; 'linerate fleet submit {path}' submits the unfinished shards again",
            printable(job.job.as_bytes()),
            round.join("slurm-*.out").display(),
        ))
    }
}

/// The state of a plan, as a table.
pub fn status_lines(seen: &SeenFleet<'_>) -> Vec<String> {
    let (plan, status) = (&seen.directory.plan, seen.status);
    let hosts = if plan.hosts.is_empty() { String::new() } else { plan.hosts.join(",") + ":" };
    let mut lines = vec![
        format!("{} to {hosts}{}, round {}", plan.source, plan.destination, plan.round),
        sums(plan, status),
    ];
    lines.extend(seen.job.map(|job| format!("job {} of Slurm: shards {}", job.job, job.array)));
    lines.extend(seen.others.iter().map(|other| {
        let tasks = show_counted(other.tasks as u64, "task", "tasks");
        let job = printable(other.job.as_bytes());
        format!(
            "job {job} of Slurm, submitted before, still has {tasks} in the queue: shards {}",
            other.array
        )
    }));
    lines.push(String::new());
    lines.push(row(HEAD.map(str::to_owned)));
    lines.extend(
        status
            .parts()
            .map(|(part, state, attempt, attempts)| part_line(plan, part, state, attempt, attempts)),
    );
    for (part, state, attempt, _) in status.parts() {
        let message = attempt.and_then(|attempt| attempt.message.as_deref());
        if let Some(message) = message.filter(|_| matches!(state, PartState::Failed | PartState::Interrupted))
        {
            lines.push(format!("{part}: {}", printable(message.as_bytes())));
        }
        lines.extend(seen.word(part, state));
    }
    lines.extend(seen.advice());
    lines
}

fn sums(plan: &FleetPlan, status: &FleetStatus) -> String {
    let count = |wanted: &[PartState]| status.parts().filter(|(_, state, ..)| wanted.contains(state)).count();
    // If files have grown since the scan, a part still counts at most its planned bytes.
    let bytes = |(part, _, attempt, _): (FleetPart, _, Option<&Attempt>, _)| {
        let planned = plan.part(part).map_or(0, |planned| planned.bytes);
        attempt.map_or(0, |attempt| attempt.progress.bytes.min(planned))
    };
    let come: u64 = status.parts().map(bytes).sum();
    format!(
        "{} of {} parts done, {} at work, {} failed or interrupted, {} silent; {} of {}",
        count(&[PartState::Done]),
        plan.shards.len() + 1,
        count(&[PartState::Running]),
        count(&[PartState::Failed, PartState::Interrupted]),
        count(&[PartState::Silent]),
        show_bytes(come),
        show_bytes(plan.burden().bytes),
    )
}

fn part_line(
    plan: &FleetPlan,
    part: FleetPart,
    state: PartState,
    attempt: Option<&Attempt>,
    attempts: u32,
) -> String {
    let (names, of) = plan.part(part).map_or((0, 0), |planned| (planned.files, planned.bytes));
    let shown = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), |text| printable(text.as_bytes()));
    let progress = attempt.map(|attempt| &attempt.progress);
    let to = attempt.and_then(Attempt::receiver);
    // The list of directories contains no files.
    let of_shard = |files: Option<u64>| {
        files.filter(|_| part != FleetPart::Directories).map_or_else(|| "-".into(), show_count)
    };
    let share = |progress: &linerate_fleet::attempt::AttemptProgress| {
        format!("{} ({:.0} %)", printable(progress.limiter.as_bytes()), 100.0 * progress.limiter_share)
    };
    row([
        part.name(),
        named(state).to_owned(),
        attempts.to_string(),
        shown(attempt.map(|attempt| attempt.maker.host.as_str())),
        shown(to),
        progress.map_or_else(|| "-".into(), |progress| show_bytes(progress.bytes)),
        show_bytes(of),
        of_shard(progress.map(|progress| progress.files)),
        of_shard(Some(names)),
        progress.map_or_else(|| "-".into(), |progress| format!("{:.3}", progress.gbit_per_second())),
        progress.filter(|progress| is_known(&progress.limiter)).map_or_else(|| "-".into(), share),
    ])
}

fn row(cells: [String; 11]) -> String {
    let [part, state, attempts, host, to, bytes, of, files, names, rate, limiter] = cells;
    format!(
        "{part:<11} {state:<11} {attempts:>7} {host:<12} {to:<12} {bytes:>9} {of:>9} {files:>9} {names:>9} {rate:>7}  {limiter}"
    )
}

/// False for the limiter of an attempt that was too short to have one.
fn is_known(limiter: &str) -> bool {
    !["", Limiter::TooShort.name()].contains(&limiter)
}

fn named(state: PartState) -> &'static str {
    match state {
        PartState::Waiting => "waiting",
        PartState::Running => "running",
        PartState::Silent => "silent",
        PartState::Done => "done",
        PartState::Failed => "failed",
        PartState::Interrupted => "interrupted",
    }
}
