//! A load of small requests beside a command: how long they take while it runs.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use linerate_load::error::LoadError;
use linerate_load::pair::{Scheduled, Span, TransactionsResult};
use linerate_load::window::StopFlag;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::failure::Failure;
use crate::exit::Code;

/// How often flags are looked at.
const LOOK: Duration = Duration::from_millis(1);

/// Runs a command while the load runs, from the moment at which it is connected. Gives the command's exit code
/// and the load's result.
///
/// # Errors
/// If the load can't begin, the command can't be started, or the load fails while it runs.
pub(super) fn run(
    load: &Scheduled,
    argv: &[OsString],
    stop: &StopFlag,
) -> Result<(Code, TransactionsResult), Failure> {
    let span = Span::default();
    thread::scope(|scope| {
        let running = scope.spawn(|| load.run(&span, stop));
        while !span.ready.is_set() && !running.is_finished() {
            thread::sleep(LOOK);
        }
        if !span.ready.is_set() {
            return Err(result(running).map_or_else(Failure::from, |_| Failure::from(LoadError::Interrupted)));
        }
        let status = start(argv).and_then(|child| wait(child, stop).map_err(|e| not_run(argv, &e)));
        span.end.set();
        let result = result(running);
        let code = status?;
        Ok((Code::Command(code), result?))
    })
}

type LoadThread<'scope> = ScopedJoinHandle<'scope, Result<TransactionsResult, LoadError>>;

fn result(running: LoadThread<'_>) -> Result<TransactionsResult, LoadError> {
    running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn start(argv: &[OsString]) -> Result<Child, Failure> {
    let (program, arguments) = argv.split_first().expect("the argument has a value at least");
    Command::new(program).args(arguments).spawn().map_err(|error| not_run(argv, &error))
}

/// The command's exit code; it is ended if the load is.
fn wait(mut child: Child, stop: &StopFlag) -> io::Result<u8> {
    let pid = Pid::from_child(&child);
    let status = thread::scope(|scope| {
        let waiting = scope.spawn(|| child.wait());
        while !waiting.is_finished() {
            if stop.is_set() {
                // It may have ended just now.
                let _ = kill_process(pid, Signal::TERM);
                break;
            }
            thread::sleep(LOOK);
        }
        waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

fn not_run(argv: &[OsString], error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { Code::NotFound } else { Code::NotRun };
    Failure(format!("running {}: {error}", argv[0].to_string_lossy()), code)
}
