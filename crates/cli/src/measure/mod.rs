//! `linerate measure`: runs any command, and reports what it achieved and what it cost.

mod export;
mod figures;
mod follow;
mod host;
mod limiter;
mod table;

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::command::{Ended, Running};
use crate::common::failure::Failure;
use crate::common::login::LoginOptions;
use crate::common::metrics::{MetricsArgs, RunMetrics, recording};
use crate::common::signals::{ending_signals, set_by};
use crate::common::spec::only_once;
use crate::exit::{Code, FAILED, FAR_END, Meaning, NOT_FOUND, NOT_RUN, USAGE, VERSION, table};
use crate::print::note_loss;
use crate::units::{named_file, parse_time};
use export::Measured;
use follow::Follow;
use host::Host;

// No line is longer than 79 characters, so that the text isn't wrapped on a terminal with 80 columns.
const EXAMPLES: &str = "\
Examples:
  linerate measure -- scp big host:/tmp
      prints the copy's rate, and its cost on this host
  linerate measure --host user@host -- scp big user@host:/tmp
      also prints its cost on the other host
  linerate measure --follow --seconds 10
      shows this host's activity live, for ten seconds
  linerate measure --out scp.rec -- scp big host:/tmp
      also saves the whole recording
  linerate measure --read scp.rec --export csv
      prints a saved recording as CSV
";

/// The longest time between two checks for signals, even if the interval between samples is longer.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

const MEANINGS: [Meaning; 7] = [
    (
        Code::Done,
        "without a command: measured; with one, the exit code is the command's (128+N for signal N)",
    ),
    FAILED,
    USAGE,
    FAR_END,
    VERSION,
    NOT_RUN,
    NOT_FOUND,
];

/// Arguments of `linerate measure`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct MeasureArgs {
    /// Time between two samples: 20ms to 60s
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = parse_interval)]
    interval: Duration,
    /// Without a command: end after SECONDS
    #[arg(long, value_name = "SECONDS", value_parser = parse_time, conflicts_with = "command")]
    seconds: Option<Duration>,
    /// Save the recording in FILE
    ///
    /// Recordings of other hosts are saved in FILE.HOST.
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    out: Option<PathBuf>,
    /// Print all samples on standard output
    ///
    /// The command's standard output then goes to standard error.
    #[arg(long, value_name = "FORMAT")]
    export: Option<Format>,
    /// Show live values on standard error
    #[arg(long)]
    follow: bool,
    /// Also sample HOST; may be repeated
    #[arg(long = "host", value_name = "[USER@]HOST")]
    hosts: Vec<OsString>,
    /// Record the processes of programs with this name; may be repeated
    ///
    /// The processes are recorded on every sampled host.
    #[arg(long = "process", value_name = "NAME")]
    names: Vec<String>,
    /// Read a saved recording; measure nothing
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["command", "seconds", "out", "follow", "hosts", "names", "interval", "metrics"])]
    read: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    login: LoginOptions,
    /// The command to measure; without it, the host is measured
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One value on each line: host, seconds, kind, name, unit, value
    Csv,
    /// One object, which also has sums
    Json,
}

/// Carries out `linerate measure`.
///
/// # Errors
/// If the command can't be run, a host can't be sampled, or a recording can't be saved.
pub fn run(mut args: MeasureArgs) -> Result<Code, Failure> {
    only_once(&mut args.hosts);
    if let Some(path) = &args.read {
        return read(path, args.export);
    }
    recording(args.metrics.metrics.as_deref(), "measure", |metrics| {
        metrics.check()?;
        metrics.note().into_iter().for_each(|note| message!("linerate: {note}"));
        measure(&args, metrics)
    })
}

fn measure(args: &MeasureArgs, metrics: &RunMetrics) -> Result<Code, Failure> {
    args.out.as_deref().map_or(Ok(()), |out| host::may_keep(out, &args.hosts))?;
    let signals = Signals::catch(args.command.is_empty())?;
    let mut hosts = args.start_hosts(&signals)?;
    let ended = args.work(&mut hosts, &signals);
    let stopped = hosts.into_iter().map(|host| host.stop(args.out.as_deref()));
    let (hosts, kept): (Vec<_>, Vec<_>) = stopped.unzip();
    let ended = ended?;
    let code = ended.as_ref().map_or(Code::Done, |ended| Code::Command(ended.code));
    let measured = Measured { command: &args.command, ended, hosts };
    metrics.measured(&measured);
    // The results are printed even if the recording can't be saved.
    show(&measured, args.export);
    kept.into_iter().collect::<Result<(), _>>()?;
    Ok(code)
}

fn read(path: &Path, format: Option<Format>) -> Result<Code, Failure> {
    let host = host::read(path)?;
    show(&Measured { command: &[], ended: None, hosts: vec![host] }, format);
    Ok(Code::Done)
}

/// Prints the results as tables, and exports the values if there is a `format`. Tables go to standard output; if a
/// command was measured, they go to standard error, because the command or the export uses standard output. Without a
/// command, an export is printed without tables.
fn show(measured: &Measured<'_>, format: Option<Format>) {
    let text = table::text(measured);
    match format {
        None if measured.ended.is_none() => output!("{text}"),
        None => message!("\n{text}"),
        Some(format) => {
            if measured.ended.is_some() {
                message!("\n{text}");
            }
            note_loss(match format {
                Format::Csv => export::csv(measured),
                Format::Json => export::json(measured),
            });
        }
    }
}

impl MeasureArgs {
    /// Starts to sample the hosts. It starts with the far hosts, which takes longest; the command begins only when all
    /// hosts are sampled.
    fn start_hosts(&self, signals: &Signals) -> Result<Vec<Host>, Failure> {
        let far = self.hosts.iter().map(|host| {
            let far_end = self.login.far_end(host, false)?;
            Host::there(&far_end, self.interval, &self.names, &signals.end)
        });
        let mut hosts = far.collect::<Result<Vec<_>, _>>()?;
        hosts.insert(0, Host::here(self.interval, &self.names)?);
        Ok(hosts)
    }

    /// Runs the command, and returns how it ended. Without a command, waits until a signal comes or the time is over,
    /// and returns `None`.
    fn work(&self, hosts: &mut [Host], signals: &Signals) -> Result<Option<Ended>, Failure> {
        let mut follow = self.follow.then(Follow::new);
        if self.command.is_empty() {
            self.wait(hosts, signals, follow.as_mut());
            return Ok(None);
        }
        let running = Running::start(&self.command, self.export.is_some())?;
        let mut shown = Instant::now();
        loop {
            if let Some(ended) = running.wait(self.interval.min(CHECK_INTERVAL))? {
                return Ok(Some(ended));
            }
            signals.pass_on(&running);
            if shown.elapsed() >= self.interval {
                shown = Instant::now();
                follow.iter_mut().for_each(|follow| follow.show(hosts));
            }
        }
    }

    fn wait(&self, hosts: &mut [Host], signals: &Signals, mut follow: Option<&mut Follow>) {
        let begun = Instant::now();
        let mut shown = Duration::ZERO;
        while !signals.end.load(Ordering::Relaxed) && self.seconds.is_none_or(|most| begun.elapsed() < most) {
            let left = self.seconds.map_or(Duration::MAX, |most| most.saturating_sub(begun.elapsed()));
            thread::sleep(left.min(self.interval).min(CHECK_INTERVAL));
            if begun.elapsed() >= shown + self.interval {
                shown = begun.elapsed();
                follow.iter_mut().for_each(|follow| follow.show(hosts));
            }
        }
    }
}

/// The signals that end a program. If the user presses Ctrl-C, the terminal sends SIGINT to the command too; all other
/// signals are forwarded to the command.
struct Signals {
    /// True once any of the signals has arrived.
    end: Arc<AtomicBool>,
    /// The signals to forward, each with a flag that is set when it arrives.
    passed: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    /// Installs handlers for the signals. Without a command (`alone`), a second signal ends this program
    /// immediately.
    fn catch(alone: bool) -> Result<Self, Failure> {
        use signal_hook::{consts::SIGINT, flag};
        let catch = || -> io::Result<Self> {
            let end = match alone {
                true => set_by(ending_signals(), Code::Interrupted.number())?,
                false => Arc::new(AtomicBool::new(false)),
            };
            let mut passed = Vec::new();
            for signal in ending_signals() {
                if !alone {
                    flag::register(signal, end.clone())?;
                }
                if signal != SIGINT {
                    let came = Arc::new(AtomicBool::new(false));
                    flag::register(signal, came.clone())?;
                    passed.push((signal, came));
                }
            }
            Ok(Self { end, passed })
        };
        catch().map_err(|error| Failure::failed(format!("signals can't be caught: {error}")))
    }

    fn pass_on(&self, running: &Running) {
        let came = self.passed.iter().filter(|(_, came)| came.swap(false, Ordering::Relaxed));
        came.for_each(|(signal, _)| running.signal(*signal));
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = linerate_quantity::seconds(text)?;
    let interval = Duration::try_from_secs_f64(seconds).ok();
    interval
        .filter(|interval| linerate_host::sample::clamped(*interval) == *interval)
        .ok_or_else(|| format!("'{text}' is too short or too long; write a time from 20ms to 60s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_make_no_sense_are_refused() {
        assert_eq!(parse_interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_interval("1s"), Ok(Duration::from_secs(1)));
        for wrong in ["0ms", "1ms", "2 min", "fast", "-1s", "250", "1e400"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
