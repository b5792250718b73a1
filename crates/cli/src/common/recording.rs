//! A run that is recorded: its metrics by `--metrics`, its events by `--log-file` and in systemd's journal.

use std::path::Path;
use std::sync::Arc;

use super::failure::Failure;
use super::log::{self, RunNames};
use super::metrics::{self, RunMetrics};
use super::output::{Output, Style};
use crate::exit::Code;
use crate::say::is_lost;

/// Does `work`; writes its events to `log` and its metrics to `figures`, if these are named, whether or not it failed.
///
/// # Errors
/// The error of `work`, or a message that the log can't be opened or the metrics can't be written.
pub fn logging(
    log: Option<&Path>,
    names: RunNames,
    figures: Option<&Path>,
    work: impl FnOnce(&Arc<RunMetrics>) -> Result<Code, Failure>,
) -> Result<Code, Failure> {
    let (command, style) = (names.command.clone(), names.style);
    let begun = log::begin(log, names).inspect_err(|failure| Output::new(style).failed(failure));
    let outcome = metrics::recording(figures, &command, |metrics| begun.and_then(|()| work(metrics)));
    match &outcome {
        Ok(code) => log::end(None, if is_lost() { Code::Failed } else { *code }),
        Err(Failure(message, code)) => log::end(Some(message), *code),
    }
    outcome
}

/// Records a run that can't begin.
pub fn not_begun(
    log: Option<&Path>,
    figures: Option<&Path>,
    command: &str,
    Failure(message, code): &Failure,
) {
    let names = RunNames::new(command, Vec::new(), Vec::new(), Style::Plain);
    // The caller has the failure already.
    drop(logging(log, names, figures, |_| Err(Failure(message.clone(), *code))));
}

/// Records the run so far, since the program ends with this code at once.
pub fn end_at_once(code: u8) {
    metrics::end_at_once(code);
    log::end(None, Code::Command(code));
}
