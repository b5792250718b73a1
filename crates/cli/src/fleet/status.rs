//! `linerate fleet status`: the state of a plan.

use clap::Args;
use linerate_fleet::plan::PlanDirectory;
use linerate_fleet::slurm::SubmittedJob;
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
    let status = FleetStatus::read(&directory)?;
    let job = SubmittedJob::of(&directory)?;
    let tasks = job.as_ref().map(scheduler::tasks).transpose();
    if let Err(why) = &tasks {
        tell!("linerate: the scheduler's states are missing: {why}");
    }
    let tasks = tasks.ok().flatten().unwrap_or_default();
    let seen = SeenFleet { directory: &directory, status: &status, job: job.as_ref(), tasks: &tasks };
    match args.json {
        true => crate::say::json(&status_fields(&seen)),
        false => status_lines(&seen).iter().for_each(|line| say!("{line}")),
    }
    let is_bad = |state| matches!(state, PartState::Failed | PartState::Interrupted | PartState::Silent);
    Ok(if status.parts().any(|(_, state, ..)| is_bad(state)) { Code::Some } else { Code::Done })
}
