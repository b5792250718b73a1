//! Runs `linerate cp` and `linerate sync`, from the task to the exit code.

mod again;
pub mod args;
mod awaited;
mod between;
mod copy;
pub mod details;
pub mod fan;
pub mod identities;
mod leave;
pub mod linked;
mod manifest;
mod overlap;
mod pull;
mod push;
mod route;
pub mod showing;
pub mod task;
pub mod watched;
mod within;
mod workers;

use linerate_transfer::problem::Observer;
use std::sync::Arc;

use crate::common::failure::Failure;
use crate::common::output::Output;
use crate::exit::{Code, Meaning};
use copy::Copy;
use fan::args::FanPlaces;
use task::Task;

/// The meanings of exit codes that `cp` and `sync` share.
pub const WHOLE: Meaning = (Code::Done, "everything is in place, complete and on stable storage");
pub const SOME_FAILED: Meaning =
    (Code::Partial, "some entries failed, were skipped or lost something; the others are in place");
pub const SOME_CHANGED: Meaning =
    (Code::Changed, "some sources changed or vanished while they were read; the others are in place");

/// Runs a task; returns the exit code.
///
/// # Errors
/// If the command failed as a whole.
pub fn perform(output: Output, task: Result<Task, Failure>) -> Result<Code, Failure> {
    perform_all(output, task.map(|task| (task, None)))
}

/// Runs a task as [`perform`] does; if several destinations are given, runs it for each of them.
///
/// # Errors
/// If the command failed as a whole.
pub fn perform_all(
    output: Output,
    task: Result<(Task, Option<FanPlaces>), Failure>,
) -> Result<Code, Failure> {
    linerate_sys::limits::raise_open_files();
    linerate_sys::limits::keep_freed_memory();
    let output = Arc::new(output);
    let task = output.metrics().check().and(task);
    output.metrics().note().into_iter().for_each(|note| output.note(&note));
    let ended = task.and_then(|(task, destinations)| match destinations {
        Some(_) if task.detach => Err(Failure::usage(leave::ONE_TO_ANOTHER.into())),
        Some(destinations) => fan::perform(&output, task, &destinations),
        None => Copy::new(task.resumable(), output.clone())?.run(),
    });
    ended.inspect_err(|failure| output.failed(failure))
}
