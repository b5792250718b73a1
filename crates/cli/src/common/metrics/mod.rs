//! `--metrics FILE`: the metrics of a run for Prometheus, in the format that its node exporter collects from files.
//! docs/formats.md specifies this format.

mod exposition;
mod gauge;
mod reading;

use clap::Args;
use linerate_sys::replace::{may_replace, replace_readable};
use linerate_transfer::lock::lock;
use linerate_wire::path::printable;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::failure::Failure;
use crate::common::spared::{ReplacedKind, taken};
use crate::exit::Code;
use crate::print::is_lost;
use crate::units::named_file;
use exposition::{ExposedSample, earlier_value, has_metrics, text};
pub use gauge::Gauge;

/// The extension of the files that the exporter's textfile collector reads.
const COLLECTED: &str = "prom";
/// The largest number of bytes that are read from an earlier metrics file.
const MOST_BYTES: u64 = 1 << 20;

/// Metrics files, as a kind of files that runs may replace.
pub const METRICS: ReplacedKind = ReplacedKind { name: "a file of linerate's metrics", begins: has_metrics };

/// The run whose metrics are written if the program must end immediately.
static CURRENT: Mutex<Weak<RunMetrics>> = Mutex::new(Weak::new());

/// The option `--metrics`, for commands without the option `--dry-run`.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Write the run's metrics to FILE, for Prometheus' node exporter
    ///
    /// Name FILE as DIRECTORY/TASK.prom, in the directory of the exporter's textfile collector. Every run writes FILE
    /// when it ends; the metrics include its exit code.
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    pub metrics: Option<PathBuf>,
}

/// Collects the metrics of a run, if the user wants them.
#[derive(Default)]
pub struct RunMetrics {
    wanted: Option<WantedMetrics>,
}

struct WantedMetrics {
    file: PathBuf,
    command: String,
    begun: SystemTime,
    /// The reason why the file can't be written, if that is known.
    fault: Option<String>,
    samples: Mutex<Vec<ExposedSample>>,
    is_written: AtomicBool,
}

/// Runs `work`, and writes its metrics to `file`, if one is given, even if `work` fails.
///
/// # Errors
/// The error of `work`, or a message that the metrics can't be written.
pub fn recording(
    file: Option<&Path>,
    command: &str,
    work: impl FnOnce(&Arc<RunMetrics>) -> Result<Code, Failure>,
) -> Result<Code, Failure> {
    let metrics = Arc::new(RunMetrics { wanted: file.map(|file| WantedMetrics::new(file, command)) });
    *lock(&CURRENT) = Arc::downgrade(&metrics);
    let outcome = work(&metrics);
    let code = outcome.as_ref().map_or_else(|failure| failure.1, |code| *code);
    // If output could not be written, that is a failure too.
    let code = if outcome.is_ok() && is_lost() { Code::Failed } else { code };
    let written = metrics.write(code);
    if let (Err(_), Err(Failure(message, _))) = (&outcome, &written) {
        // The run has already failed for another reason, which the caller reports.
        message!("linerate: {message}");
    }
    outcome.and_then(|code| written.map(|()| code))
}

/// Writes the metrics so far, because the program is about to end with this exit code.
pub fn end_at_once(code: u8) {
    let current = lock(&CURRENT).upgrade();
    // The program ends now, so an error can't be reported.
    current.into_iter().for_each(|metrics| drop(metrics.write(Code::Command(code))));
}

impl RunMetrics {
    /// True if the user wants the metrics.
    pub fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// Checks that the file can be written. Called before the work begins.
    ///
    /// # Errors
    /// A usage error with the reason, if the file can't be written.
    pub fn check(&self) -> Result<(), Failure> {
        let Some((wanted, fault)) = self.wanted.as_ref().and_then(|it| Some((it, it.fault.as_ref()?))) else {
            return Ok(());
        };
        Err(Failure::usage(format!("--metrics {}: {fault}", wanted.shown())))
    }

    /// A note for the user, if the node exporter won't collect the file because of its name.
    pub fn note(&self) -> Option<String> {
        let wanted = self.wanted.as_ref().filter(|wanted| !wanted.is_collected())?;
        let shown = wanted.shown();
        Some(format!("--metrics {shown}: the node exporter reads only files whose names end in .{COLLECTED}"))
    }

    /// Sets the value of a metric with these labels.
    pub fn set(&self, gauge: Gauge, labels: &[(&'static str, &str)], value: f64) {
        if let Some(wanted) = &self.wanted {
            lock(&wanted.samples).push(ExposedSample::new(gauge, labels, value));
        }
    }

    fn write(&self, code: Code) -> Result<(), Failure> {
        match &self.wanted {
            Some(wanted) if wanted.fault.is_none() && !wanted.is_written.swap(true, Ordering::Relaxed) => {
                let bytes = wanted.text(code, SystemTime::now());
                replace_readable(&wanted.file, bytes.as_bytes()).map_err(|error| {
                    Failure::failed(format!("writing the metrics to {}: {error}", wanted.shown()))
                })
            }
            _ => Ok(()),
        }
    }
}

impl WantedMetrics {
    fn new(file: &Path, command: &str) -> Self {
        let fault = match file.file_name() {
            None => Some("it names no file".to_owned()),
            Some(_) => may_replace(file).err().map(|error| error.to_string()),
        };
        let taken = taken(file, "--metrics");
        let fault = fault.or(taken).or_else(|| METRICS.refusal(file));
        let (command, begun) = (command.to_owned(), SystemTime::now());
        let (samples, is_written) = (Mutex::default(), AtomicBool::new(false));
        Self { file: file.to_owned(), command, begun, fault, samples, is_written }
    }

    fn shown(&self) -> String {
        printable(self.file.as_os_str().as_bytes())
    }

    /// The label that distinguishes the metrics of several files in one directory. It is needed because the
    /// collector refuses two metrics with the same name and the same labels.
    fn task(&self) -> String {
        printable(self.file.file_stem().unwrap_or_default().as_bytes())
    }

    /// False if Prometheus' collector ignores the file because of its name. A device, such as /dev/stdout,
    /// isn't meant for the collector.
    fn is_collected(&self) -> bool {
        self.file.extension().is_some_and(|end| end == COLLECTED)
            || self.file.parent() == Some(Path::new("/dev"))
    }

    fn text(&self, code: Code, now: SystemTime) -> String {
        let mut samples = lock(&self.samples).clone();
        let mut set = |gauge, labels: &[_], value| samples.push(ExposedSample::new(gauge, labels, value));
        let (begun, now) = (unix_seconds(self.begun), unix_seconds(now));
        set(Gauge::RunInfo, &[("command", &*self.command), ("version", env!("CARGO_PKG_VERSION"))], 1.0);
        set(Gauge::RunExitCode, &[], code.number().into());
        set(Gauge::RunStart, &[], begun);
        set(Gauge::RunEnd, &[], now);
        set(Gauge::RunDuration, &[], (now - begun).max(0.0));
        // A run whose only problem is that sources changed counts as a success, because the next run copies
        // the changes.
        let is_success = code.number() == 0 || code == Code::Changed;
        let success = if is_success { Some(now) } else { self.earlier_success() };
        success.into_iter().for_each(|seconds| set(Gauge::RunLastSuccess, &[], seconds));
        text(&self.task(), &samples)
    }

    /// The time of the last successful run, which is read from the file that an earlier run has written.
    fn earlier_success(&self) -> Option<f64> {
        // The directory may belong to another user, who could put a link or a fifo there.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&self.file, flags, Mode::empty()).ok()?);
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut earlier = String::new();
        file.take(MOST_BYTES).read_to_string(&mut earlier).ok()?;
        earlier_value(&earlier, Gauge::RunLastSuccess)
    }
}

/// The time in seconds since 1970, rounded to milliseconds; 0 for a time before 1970.
fn unix_seconds(time: SystemTime) -> f64 {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    (seconds * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(file: &Path, code: Code) -> String {
        let ended = recording(Some(file), "cp", |metrics| metrics.check().map(|()| code));
        assert_eq!(ended.unwrap(), code);
        std::fs::read_to_string(file).unwrap()
    }

    fn value(text: &str, gauge: Gauge) -> f64 {
        earlier_value(text, gauge).unwrap()
    }

    #[test]
    fn the_last_success_outlives_failures() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nightly.prom");
        let failed = run(&file, Code::FarEnd);
        assert_eq!(
            (value(&failed, Gauge::RunExitCode), earlier_value(&failed, Gauge::RunLastSuccess)),
            (5.0, None)
        );
        let done = run(&file, Code::Done);
        assert_eq!(value(&done, Gauge::RunLastSuccess), value(&done, Gauge::RunEnd));
        let failed = run(&file, Code::Partial);
        assert_eq!(value(&failed, Gauge::RunLastSuccess), value(&done, Gauge::RunLastSuccess));
        assert_eq!(value(&failed, Gauge::RunExitCode), 3.0);
        for code in [Code::Changed, Code::Command(0)] {
            let done = run(&file, code);
            assert_eq!(value(&done, Gauge::RunLastSuccess), value(&done, Gauge::RunEnd), "{code:?}");
        }
        let done = run(&file, Code::Done);
        // Exit code 4 comes from the measured command here, not from linerate.
        let failed = run(&file, Code::Command(4));
        assert_eq!(value(&failed, Gauge::RunLastSuccess), value(&done, Gauge::RunEnd));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_before_the_work() {
        let directory = tempfile::tempdir().unwrap();
        for wrong in [directory.path().to_owned(), directory.path().join("missing/x.prom"), "..".into()] {
            let ended = recording(Some(&wrong), "cp", |metrics| metrics.check().map(|()| Code::Done));
            assert_eq!(ended.unwrap_err().1, Code::Usage, "{wrong:?}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_to_an_earlier_file_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let [file, other] = ["t.prom", "other"].map(|name| directory.path().join(name));
        run(&other, Code::Done);
        std::os::unix::fs::symlink(&other, &file).unwrap();
        assert_eq!(earlier_value(&run(&file, Code::Failed), Gauge::RunLastSuccess), None);
        assert!(file.symlink_metadata().unwrap().is_file(), "the link is replaced");
    }

    #[test]
    fn names_that_nothing_collects_are_noted() {
        let noted = |file: &str| {
            RunMetrics { wanted: Some(WantedMetrics::new(Path::new(file), "cp")) }.note().is_some()
        };
        assert!(
            noted("/tmp/linerate.txt") && noted("/tmp/prom") && noted("/dev/shm/x") && !noted("/tmp/a.prom")
        );
        assert!(!noted("/dev/stdout") && RunMetrics::default().note().is_none());
    }
}
