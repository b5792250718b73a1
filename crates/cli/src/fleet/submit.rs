//! `linerate fleet submit`: submits a plan to Slurm.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use linerate_fleet::export::{ExportedTask, JobShape, slurm_script};
use linerate_fleet::plan::{FleetPart, PlanDirectory};
use linerate_fleet::slurm::{SubmittedJob, array_of, hold_submissions, output_path};
use linerate_fleet::status::{FleetStatus, PartState};
use std::path::PathBuf;

use super::{export, scheduler};
use crate::common::failure::Failure;
use crate::exit::Code;
use crate::units::show_counted;

/// Arguments of `linerate fleet submit`.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Run at most N tasks at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: u32,
    /// The partition of the nodes that move data
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Time limit of a task, in sbatch's format: 2:00:00
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Features of nodes, in sbatch's format
    #[arg(long, value_name = "FEATURES")]
    constraint: Option<String>,
    /// A further option for sbatch: --sbatch=--exclusive
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Name or path of linerate on the tasks' hosts
    #[arg(long, value_name = "FILE", default_value = "linerate", value_parser = NonEmptyStringValueParser::new())]
    program: String,
    /// The plan's directory
    plan: PathBuf,
    /// Options passed on to the 'linerate fleet run' of each task
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Submits the shards that aren't done.
pub fn run(args: &SubmitArgs) -> Result<Code, Failure> {
    let directory = PlanDirectory::open(&args.plan)?;
    let held = hold_submissions(&directory)?;
    refuse_twice(&directory)?;
    let left = left(&directory)?;
    if left.is_empty() {
        output!("nothing to submit: every part of the plan is done");
        return Ok(Code::Done);
    }
    let plan = export::plan_path(&args.plan)?;
    let array = array_of(&left);
    let output = format!("--output={}/round-{}/slurm-%a.out", output_path(&plan)?, directory.plan.round);
    let shape = JobShape {
        shards: directory.plan.shards.len(),
        array: array.clone(),
        at_once: args.tasks,
        partition: args.partition.clone(),
        time: args.time.clone(),
        constraint: args.constraint.clone(),
        others: [output].into_iter().chain(args.sbatch.iter().cloned()).collect(),
    };
    let task = ExportedTask { program: args.program.clone(), plan, options: args.options.clone() };
    let script = slurm_script(&task, &shape).map_err(Failure::from)?;
    let note = |line: &str| {
        let submitted = SubmittedJob::note(&directory, line, &array)?;
        // The lock is released here already, because sbatch may wait until the job ends.
        drop(held);
        output!("job {}: shards {array}", submitted.job);
        Ok(submitted.job)
    };
    scheduler::submit(&script, note)?;
    Ok(Code::Done)
}

/// The shards that aren't done. If only the directories aren't done, returns shard 0, whose task then processes the
/// directories.
pub fn left(directory: &PlanDirectory) -> Result<Vec<u32>, Failure> {
    let status = FleetStatus::read(directory)?;
    let shard = |part| match part {
        FleetPart::Shard(number) => Some(number),
        FleetPart::Directories => None,
    };
    let left = status.parts().filter(|(_, state, ..)| *state != PartState::Done);
    let left: Vec<u32> = left.filter_map(|(part, ..)| shard(part)).collect();
    match left.is_empty() && !status.is_done_all() {
        true => Ok(vec![0]),
        false => Ok(left),
    }
}

/// Returns an error if tasks of one of the plan's jobs haven't ended. Jobs of earlier rounds count too, because their
/// tasks would process the shards of this round.
fn refuse_twice(directory: &PlanDirectory) -> Result<(), Failure> {
    let jobs = SubmittedJob::all(directory)?;
    if jobs.is_empty() {
        return Ok(());
    }
    let tasks = scheduler::queue(&jobs).map_err(Failure::failed)?;
    for job in jobs {
        let active = tasks.values().filter(|task| task.job == job && task.is_active()).count();
        if active > 0 {
            return Err(Failure::failed(format!(
                "job {job} of this plan still has {} in the queue: wait for its end, or 'scancel {job}'",
                show_counted(active as u64, "task", "tasks"),
            )));
        }
    }
    Ok(())
}
