//! Sends small requests while a command runs, and measures their response times.

use std::ffi::OsString;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use linerate_load::error::LoadError;
use linerate_load::pair::{Scheduled, Span, TransactionsResult};
use linerate_load::window::StopFlag;
use rustix::process::Signal;

use crate::common::command::Running;
use crate::common::failure::Failure;
use crate::exit::Code;

/// The interval at which flags are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Runs a command while the load runs. The command is started when the connections of the load are open. Returns the
/// command's exit code and the load's result.
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
            thread::sleep(CHECK_INTERVAL);
        }
        if !span.ready.is_set() {
            return Err(result(running).map_or_else(Failure::from, |_| Failure::from(LoadError::Interrupted)));
        }
        let status = Running::start(argv, false).and_then(|command| wait(&command, stop));
        span.end.set();
        let result = result(running);
        let code = status?;
        // If the command fails immediately, the load may fail too, because it had no time for a request. Then the
        // command's exit code is returned, because it says more about the cause.
        let result = result.map_err(|error| match (Failure::from(error), code) {
            (own, 0) => own,
            (Failure(message, _), code) => Failure(message, Code::Command(code)),
        });
        Ok((Code::Command(code), result?))
    })
}

type LoadThread<'scope> = ScopedJoinHandle<'scope, Result<TransactionsResult, LoadError>>;

fn result(running: LoadThread<'_>) -> Result<TransactionsResult, LoadError> {
    running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Waits for the command, and returns its exit code. If `stop` is set, ends the command.
fn wait(command: &Running, stop: &StopFlag) -> Result<u8, Failure> {
    let mut is_ended = false;
    loop {
        if let Some(ended) = command.wait(CHECK_INTERVAL)? {
            return Ok(ended.code);
        }
        if stop.is_set() && !is_ended {
            command.signal(Signal::TERM.as_raw());
            is_ended = true;
        }
    }
}
