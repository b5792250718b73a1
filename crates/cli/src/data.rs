//! `linerate data`: handles a study's files and commands on a far host. `linerate bench` starts it.

use std::ffi::OsString;
use std::io::Write;

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::common::failure::Failure;
use crate::exit::{Code, FAILED, Meaning, USAGE, table};

const MEANINGS: [Meaning; 3] = [(Code::Done, "done; the exit code of data hold is COMMAND's"), FAILED, USAGE];

/// Arguments of `linerate data`.
#[derive(Debug, Args)]
#[command(after_long_help = table(&MEANINGS))]
pub struct DataArgs {
    #[command(subcommand)]
    action: DataAction,
}

#[derive(Debug, Subcommand)]
enum DataAction {
    /// Make, slice, clear, count or hash files: read a JSON task from stdin, print a JSON answer
    Task,
    /// Run a command that ends with the connection
    Hold {
        /// The command to run, with its arguments
        #[arg(required = true, last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

/// Carries out `linerate data`.
///
/// # Errors
/// If the command can't be started. A task that fails isn't an error; the answer contains its failure.
pub fn run(args: DataArgs) -> Result<Code, Failure> {
    match args.action {
        DataAction::Hold { command } => {
            let shown = command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
            let ended = linerate_bench::run::hold(&command).with_context(|| format!("starting {shown}"));
            Ok(Code::Command(ended?))
        }
        DataAction::Task => {
            let mut answer = linerate_bench::data::answer(std::io::stdin().lock());
            answer.push(b'\n');
            std::io::stdout().write_all(&answer).context("writing the answer")?;
            Ok(Code::Done)
        }
    }
}
