//! One run of `linerate cp` or `linerate sync`, from its task to its exit code.

mod again;
pub mod args;
mod copy;
mod manifest;
mod pull;
mod push;
mod route;
mod showing;
pub mod task;

use std::sync::Arc;

use crate::common::failure::Failure;
use crate::common::output::Output;
use crate::exit::Code;
use copy::Copy;
use task::Task;

/// Runs a task to its exit code.
///
/// # Errors
/// If the command failed as a whole.
pub fn perform(output: Output, task: Result<Task, Failure>) -> Result<Code, Failure> {
    linerate_sys::limits::raise_open_files();
    linerate_sys::limits::keep_freed_memory();
    let output = Arc::new(output);
    let copy = task.and_then(|task| Copy::new(task.resumable(), output.clone()));
    copy.and_then(|copy| copy.run()).inspect_err(|failure| output.failed(failure))
}
