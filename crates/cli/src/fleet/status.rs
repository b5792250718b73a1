//! `linerate fleet status`: the state of a plan.

use clap::Args;
use linerate_fleet::attempt::Attempt;
use linerate_fleet::plan::{FleetPart, PlanDirectory};
use linerate_fleet::slurm::{ScheduledTask, ScheduledTasks, SubmittedJob};
use linerate_fleet::status::{FleetStatus, PartState};
use std::path::PathBuf;

use super::scheduler;
use super::show::{SeenFleet, status_fields, status_lines};
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
    let job = SubmittedJob::of(&directory)?;
    // Before the files of the tasks: a task that has ended by now has written its last state.
    let tasks = job.as_ref().map(scheduler::tasks).transpose();
    if let Err(why) = &tasks {
        tell!("linerate: the scheduler's states are missing: {why}");
    }
    let tasks = tasks.ok().flatten();
    let status = FleetStatus::read(&directory)?;
    let ended = job.as_ref().zip(tasks.as_ref()).and_then(|(job, tasks)| ended(job, tasks, &status));
    let tasks = tasks.unwrap_or_default();
    let seen = SeenFleet { directory: &directory, status: &status, job: job.as_ref(), tasks: &tasks, ended };
    match args.json {
        true => crate::say::json(&status_fields(&seen)),
        false => status_lines(&seen).iter().for_each(|line| say!("{line}")),
    }
    let is_bad = |state| matches!(state, PartState::Failed | PartState::Interrupted | PartState::Silent);
    let is_bad = ended.is_some() || status.parts().any(|(_, state, ..)| is_bad(state));
    Ok(if is_bad { Code::Some } else { Code::Done })
}

/// The number of the shards of a job that aren't done although all its tasks have ended, 0 if only the directories aren't; `None` if
/// there is nothing to do about it. A part that somebody runs without Slurm counts as one at work.
fn ended(job: &SubmittedJob, tasks: &ScheduledTasks, status: &FleetStatus) -> Option<usize> {
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

    /// The result for a job with shards 0 to 2, if shard 0 has no attempt, 1 is done, 2 runs, and their tasks have these states.
    fn left(states: [&str; 3], is_of_slurm: bool) -> Option<usize> {
        let job = SubmittedJob { schema: 2, job: "7".into(), submitted: 0, array: "0-2".into() };
        let task =
            |state: &str| ScheduledTask { state: state.into(), reason: String::new(), node: String::new() };
        let tasks = (0..).zip(states).filter(|(_, state)| !state.is_empty());
        let tasks: ScheduledTasks = tasks.map(|(shard, state)| (shard, task(state))).collect();
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
        let job = SubmittedJob { schema: 2, job: "7".into(), submitted: 0, array: "0".into() };
        let mut attempt = Attempt::begin("b:/x".into());
        attempt.state = AttemptState::Done;
        let done = BTreeMap::from([(1, Some(attempt))]);
        let with = |directories| {
            let parts = [(FleetPart::Shard(0), done.clone()), (FleetPart::Directories, directories)];
            ended(&job, &ScheduledTasks::new(), &FleetStatus::of(parts.into()))
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
