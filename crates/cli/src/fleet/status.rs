//! `linerate fleet status`: how a plan stands.

use clap::Args;
use linerate_fleet::plan::PlanDirectory;
use linerate_fleet::status::{FleetStatus, PartState};
use std::path::PathBuf;

use super::show::{status_fields, status_lines};
use crate::common::failure::Failure;
use crate::exit::Code;

/// Arguments of `linerate fleet status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print it as a line of JSON
    #[arg(long)]
    json: bool,
    /// The plan's directory
    plan: PathBuf,
}

/// Shows it.
pub fn run(args: &StatusArgs) -> Result<Code, Failure> {
    let directory = PlanDirectory::open(&args.plan)?;
    let status = FleetStatus::read(&directory)?;
    match args.json {
        true => crate::say::json(&status_fields(&directory, &status)),
        false => status_lines(&directory, &status).iter().for_each(|line| say!("{line}")),
    }
    let is_bad = |state| matches!(state, PartState::Failed | PartState::Interrupted | PartState::Silent);
    Ok(if status.parts().any(|(_, state, ..)| is_bad(state)) { Code::Some } else { Code::Done })
}
