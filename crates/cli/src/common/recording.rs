//! Records a run: its metrics with `--metrics`, and its events with `--log-file` and in systemd's journal.

use linerate_sys::replace::is_replaced;
use linerate_wire::path::printable;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::failure::Failure;
use super::log::{self, RunNames};
use super::metrics::{self, METRICS, RunMetrics};
use super::output::{Output, Style};
use super::spared::{log_refusal, resolved};
use crate::exit::Code;
use crate::print::is_lost;

/// Runs `work`. Writes its events to the file `log` and its metrics to the file `figures`, if these are
/// given, even if `work` fails.
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
    let apart = keep_apart(log, figures).and_then(|()| spare_by_metrics(figures, &names));
    let figures = figures.filter(|_| apart.is_ok());
    let begun = apart.and_then(|()| spare_by_log(log, &names)).and_then(|()| log::begin(log, names));
    let begun = begun.inspect_err(|failure| Output::new(style).failed(failure));
    let outcome = metrics::recording(figures, &command, |metrics| begun.and_then(|()| work(metrics)));
    match &outcome {
        Ok(code) => log::end(None, if is_lost() { Code::Failed } else { *code }),
        Err(Failure(message, code)) => log::end(Some(message), *code),
    }
    outcome
}

/// Returns an error if the metrics would replace the log.
fn keep_apart(log: Option<&Path>, figures: Option<&Path>) -> Result<(), Failure> {
    let (Some(log), Some(figures)) = (log, figures) else { return Ok(()) };
    let replaced = resolved(figures).filter(|_| is_replaced(figures));
    // If the log's name is a link, the log is written to the link's target, whereas the metrics replace the
    // link.
    if replaced.is_some() && (resolved(log) == replaced || log.canonicalize().ok() == replaced) {
        let shown = printable(figures.as_os_str().as_bytes());
        return Err(Failure::usage(format!(
            "--metrics {shown} is the same file as the log: name another file"
        )));
    }
    Ok(())
}

/// Returns an error if the metrics would replace a file that the command itself reads or writes.
fn spare_by_metrics(figures: Option<&Path>, names: &RunNames) -> Result<(), Failure> {
    let Some(figures) = figures else { return Ok(()) };
    let why = METRICS.refusal_among(figures, &names.sources, &names.destinations);
    why.map_or(Ok(()), |why| Err(refused("--metrics", figures, &why)))
}

/// Returns an error if the log would be appended to one of the command's own operands.
fn spare_by_log(log: Option<&Path>, names: &RunNames) -> Result<(), Failure> {
    let Some(log) = log else { return Ok(()) };
    let why = log_refusal(log, &names.sources, &names.destinations);
    why.map_or(Ok(()), |why| Err(refused("--log-file", log, &why)))
}

fn refused(option: &str, file: &Path, why: &str) -> Failure {
    Failure::usage(format!("{option} {}: {why}", printable(file.as_os_str().as_bytes())))
}

/// Records a run that can't begin.
pub fn not_begun(
    log: Option<&Path>,
    figures: Option<&Path>,
    command: &str,
    Failure(message, code): &Failure,
) {
    let names = RunNames::new(command, Vec::new(), Vec::new(), Style::Plain);
    // The caller already has the failure.
    drop(logging(log, names, figures, |_| Err(Failure(message.clone(), *code))));
}

/// Records the run so far, because the program is about to end with this exit code.
pub fn end_at_once(code: u8) {
    metrics::end_at_once(code);
    log::end(None, Code::Command(code));
}
