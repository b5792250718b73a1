//! `linerate fleet status`: shows the state of a plan.

use clap::Args;
use linerate_fleet::attempt::Attempt;
use linerate_fleet::plan::{FleetPart, PlanDirectory};
use linerate_fleet::slurm::{ScheduledTask, SubmittedJob, TasksOfJobs, array_of, by_shard};
use linerate_fleet::status::{FleetStatus, PartState};
use std::path::PathBuf;

use super::scheduler;
use super::show::{OtherJob, SeenFleet, status_fields, status_lines};
use crate::common::failure::Failure;
use crate::exit::Code;

/// Arguments of `linerate fleet status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print the state as a line of JSON
    #[arg(long)]
    json: bool,
    /// The plan's directory
    plan: PathBuf,
}

/// Shows the state.
pub fn run(args: &StatusArgs) -> Result<Code, Failure> {
    let directory = PlanDirectory::open(&args.plan)?;
    let (job, jobs) = (SubmittedJob::of(&directory)?, SubmittedJob::all(&directory)?);
    // Slurm is queried before the files of the tasks are read. So if a task has ended according to Slurm, it has
    // already written its last state.
    let tasks = (!jobs.is_empty()).then(|| scheduler::tasks(&jobs)).transpose();
    if let Err(why) = &tasks {
        message!("linerate: reading the scheduler's states failed: {why}");
    }
    let tasks = tasks.ok().flatten();
    let status = FleetStatus::read(&directory)?;
    let ended = job.as_ref().zip(tasks.as_ref()).and_then(|(job, tasks)| ended(job, tasks, &status));
    let tasks = tasks.unwrap_or_default();
    let (others, tasks) = (others(&jobs, job.as_ref(), &tasks), by_shard(&tasks, &jobs, job.as_ref()));
    let (directory, status, job) = (&directory, &status, job.as_ref());
    let seen = SeenFleet { directory, status, job, others, tasks: &tasks, ended };
    match args.json {
        true => crate::print::json(&status_fields(&seen)),
        false => status_lines(&seen).iter().for_each(|line| output!("{line}")),
    }
    let is_bad = |state| matches!(state, PartState::Failed | PartState::Interrupted | PartState::Silent);
    let is_bad = ended.is_some() || status.parts().any(|(_, state, ..)| is_bad(state));
    Ok(if is_bad { Code::Partial } else { Code::Done })
}

/// The plan's jobs that still have tasks in the queue, the newest first, without the job `last`.
fn others(jobs: &[String], last: Option<&SubmittedJob>, tasks: &TasksOfJobs) -> Vec<OtherJob> {
    let others = jobs.iter().filter(|job| last.is_none_or(|last| last.job != **job));
    let of = |job: &String| {
        let active = tasks.iter().filter(|((of, _), task)| of == job && task.is_active());
        let shards: Vec<u32> = active.map(|((_, shard), _)| *shard).collect();
        OtherJob { job: job.clone(), tasks: shards.len(), array: array_of(&shards) }
    };
    others.map(of).filter(|other| other.tasks > 0).collect()
}

/// The number of shards of the job that aren't done although all tasks of the plan have ended; 0 if only the
/// directories aren't done. `None` if tasks are still running, or if everything is done. A shard that a task outside of
/// Slurm is moving doesn't count.
fn ended(job: &SubmittedJob, tasks: &TasksOfJobs, status: &FleetStatus) -> Option<usize> {
    if tasks.values().any(ScheduledTask::is_active) {
        return None;
    }
    let is_left = |state: PartState, attempt: Option<&Attempt>| {
        let is_of_other = attempt.is_some_and(|attempt| attempt.maker.job.is_none());
        state != PartState::Done && !(state == PartState::Running && is_of_other)
    };
    let shards = job.shards();
    let is_its = |part| matches!(part, FleetPart::Shard(number) if shards.contains(&number));
    let of_job =
        status.parts().filter(|(part, state, attempt, _)| is_its(*part) && is_left(*state, *attempt));
    let left = of_job.count();
    let are_only_directories = || {
        status.parts().all(|(part, state, attempt, _)| match part {
            FleetPart::Shard(_) => state == PartState::Done,
            FleetPart::Directories => is_left(state, attempt),
        })
    };
    (left > 0 || are_only_directories()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_fleet::attempt::{AttemptState, SchedulerJob};
    use std::collections::BTreeMap;

    fn job(array: &str) -> SubmittedJob {
        let (job, array) = ("7".into(), array.into());
        SubmittedJob { schema: 2, job, submitted: 0, array, earlier: Vec::new() }
    }

    /// The states of a job's tasks, from shard 0 on. Tasks without a state are unknown.
    fn tasks(job: &str, states: [&str; 3]) -> TasksOfJobs {
        let task = |state: &str| {
            let (reason, node) = (String::new(), String::new());
            ScheduledTask { job: job.into(), state: state.into(), reason, node }
        };
        let known = (0..).zip(states).filter(|(_, state)| !state.is_empty());
        known.map(|(shard, state)| ((job.to_owned(), shard), task(state))).collect()
    }

    #[test]
    fn other_jobs_are_those_with_tasks_in_the_queue() {
        let mut all = tasks("7", ["PENDING", "", ""]);
        all.extend(tasks("5", ["FAILED", "RUNNING", "PENDING"]));
        all.extend(tasks("6", ["FAILED", "FAILED", "FAILED"]));
        let jobs = ["7", "6", "5"].map(str::to_owned);
        let seen = |last: Option<&SubmittedJob>| {
            let others = others(&jobs, last, &all).into_iter();
            others.map(|other| (other.job, other.tasks, other.array)).collect::<Vec<_>>()
        };
        let (fifth, seventh) = (("5".into(), 2, "1-2".into()), ("7".into(), 1, "0".into()));
        assert_eq!(seen(Some(&job("0-2"))), vec![fifth.clone()]);
        assert_eq!(seen(None), [seventh, fifth]);
    }

    /// The result for a job with shards 0 to 2, whose tasks have these states in Slurm: shard 0 has no
    /// attempt, shard 1 is done, and shard 2 is running.
    fn left(states: [&str; 3], is_of_slurm: bool) -> Option<usize> {
        let (tasks, job) = (tasks("7", states), job("0-2"));
        let attempt = |state| {
            let mut attempt = Attempt::begin("b:/x".into());
            attempt.state = state;
            attempt.maker.job = is_of_slurm.then(|| SchedulerJob { id: "8".into(), restarts: 0 });
            BTreeMap::from([(1, Some(attempt))])
        };
        let (done, running) = (attempt(AttemptState::Done), attempt(AttemptState::Running));
        let parts = [BTreeMap::new(), done, running, BTreeMap::new(), BTreeMap::new()];
        let names = [0, 1, 2, 9].map(FleetPart::Shard).into_iter().chain([FleetPart::Directories]);
        ended(&job, &tasks, &FleetStatus::of(names.zip(parts).collect()))
    }

    #[test]
    fn directories_without_an_attempt_are_left_once_all_shards_are_done() {
        let job = job("0");
        let mut attempt = Attempt::begin("b:/x".into());
        attempt.state = AttemptState::Done;
        let done = BTreeMap::from([(1, Some(attempt))]);
        let with = |directories| {
            let parts = [(FleetPart::Shard(0), done.clone()), (FleetPart::Directories, directories)];
            ended(&job, &TasksOfJobs::new(), &FleetStatus::of(parts.into()))
        };
        assert_eq!((with(BTreeMap::new()), with(done.clone())), (Some(0), None));
    }

    #[test]
    fn a_job_without_active_tasks_whose_shards_are_not_done_has_ended() {
        assert_eq!(left(["FAILED", "COMPLETED", "NODE_FAIL"], true), Some(2));
        assert_eq!(left(["FAILED", "COMPLETED", "CANCELLED"], false), Some(1), "somebody else runs one");
        assert_eq!(left(["", "", ""], true), Some(2), "Slurm doesn't know it any more");
        for active in ["PENDING", "RUNNING", "COMPLETING", "REQUEUE_HOLD", "SPECIAL_EXIT"] {
            assert_eq!(left(["FAILED", "COMPLETED", active], true), None);
        }
    }
}
