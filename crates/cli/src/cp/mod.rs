//! `linerate cp`: scp's rules, at the line rate.

mod output;
mod spec;

use clap::Args;
use linerate_remote::far_end::{FarEnd, Shell};
use linerate_transfer::clock::process_usage;
use linerate_transfer::problem::TransferError;
use linerate_transfer::session::{Client, Meters, Session};
use linerate_transfer::{pattern, receiver, sender};
use linerate_wire::control::{Job, Options, ProblemKind, Source, Totals};
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use output::{Kind, Output, Style, Summary};

use crate::exit::{CODES, Code};
use crate::reach::{Reach, interrupted, not_started};
use crate::units::{parse_ports, parse_rate, parse_streams};
use spec::Route;

const EXAMPLES: &str = "\
Examples:
  linerate cp -r tree host:/data/     makes /data/tree. A slash at the end of DST says: into this directory, make
                                      it if it isn't there. Without it, as with scp: into /data where that is a
                                      directory, else the tree itself becomes /data. A slash at the end of SRC
                                      changes nothing (rsync's users: that is 'tree/.' here)
  linerate cp a b user@host:          two files into the login directory
  linerate cp -rp host:/data/tree .   pull, with modes and times kept
  linerate cp 'host:logs/*.gz' .      patterns are expanded at the far end
  linerate cp -e 'ip netns exec' x ns:/tmp/   any remote shell that is called as CMD HOST COMMAND
";

/// What `linerate cp` takes.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = CODES)]
pub struct CpArgs {
    /// Copy directories and everything in them; symbolic links as links
    #[arg(short = 'r', long)]
    recursive: bool,
    /// Keep modes, and times to the nanosecond; else files are new, with modes as the umask leaves them
    #[arg(short = 'p', long)]
    preserve: bool,
    /// Say nothing but what went wrong
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    quiet: bool,
    /// Say each step
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Data streams: 1 to 64, or auto, which adds streams while they help
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_streams)]
    streams: Streams,
    /// TCP ports for the data, at whichever end listens
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    port_range: Option<(u16, u16)>,
    /// Send the data in clear, with a checksum on each frame: for a network that you trust
    #[arg(long)]
    no_encrypt: bool,
    /// Limit of the payload rate: KiB a second, or 20m (MiB a second), or 500mbit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    bwlimit: Option<Limit>,
    /// List what would be copied, copy nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print events as JSON lines on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
    /// What is copied
    #[arg(help = "Sources: PATH or [USER@]HOST:PATH", required = true, value_name = "SRC")]
    sources: Vec<OsString>,
    /// Where to
    #[arg(help = "Destination: [USER@]HOST:PATH or PATH", required = true, value_name = "DST")]
    destination: OsString,
}

/// `None` is auto. A type of its own, since clap would take an `Option` for an argument that may be missing.
type Streams = std::option::Option<u32>;
/// `None` is no limit.
type Limit = std::option::Option<u64>;

/// A failure with the exit code that tells it.
pub struct Failure(pub String, pub Code);

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let code = Code::from(&error);
        Self(error.to_string(), code)
    }
}

/// Copies.
pub fn run(args: CpArgs) -> ExitCode {
    let begun = Instant::now();
    linerate_sys::limits::raise_open_files();
    let output = Arc::new(Output::new(args.style()));
    let copy =
        Copy { options: args.options(), args, output: output.clone(), meters: Meters::default(), begun };
    match copy.run() {
        Ok(code) => code.into(),
        Err(Failure(message, code)) => {
            output.failure(&message, code);
            code.into()
        }
    }
}

struct Copy {
    args: CpArgs,
    options: Options,
    output: Arc<Output>,
    meters: Meters,
    begun: Instant,
}

impl CpArgs {
    fn style(&self) -> Style {
        match (self.json, self.quiet, self.verbose) {
            (true, ..) => Style::Json,
            (_, true, _) => Style::Quiet,
            (_, _, true) => Style::Verbose,
            _ => Style::Plain,
        }
    }

    fn options(&self) -> Options {
        Options {
            recursive: self.recursive,
            preserve: self.preserve,
            clear: self.no_encrypt,
            streams: self.streams,
            rate_limit: self.bwlimit.flatten(),
            ports: self.port_range,
        }
    }
}

impl Copy {
    fn run(&self) -> Result<Code, Failure> {
        let usage = |message| Failure(message, Code::Usage);
        let route = Route::find(&self.args.sources, &self.args.destination).map_err(usage)?;
        let interrupted = interrupted().map_err(|error| Failure(error.to_string(), Code::Failed))?;
        if self.args.no_encrypt && !self.args.dry_run {
            self.output
                .line("linerate: the data travels in clear (--no-encrypt), protected by checksums only");
        }
        match route {
            Route::Push { sources, host, destination } => self.push(sources, &host, destination, interrupted),
            Route::Pull { host, sources, destination } if self.args.dry_run => {
                drop(destination);
                self.list(&host, sources, interrupted)
            }
            Route::Pull { host, sources, destination } => {
                self.pull(&host, sources, &destination, interrupted)
            }
        }
    }

    fn push(
        &self,
        sources: Vec<OsString>,
        host: &OsStr,
        destination: Vec<u8>,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Code, Failure> {
        let written: Vec<Vec<u8>> = sources.into_iter().map(OsString::into_vec).collect();
        let tell = |problem| self.tell(problem);
        // Before any login: a name that was mistyped needs none.
        let found = sender::find_sources(&written, self.options.recursive, false, &tell)?;
        if self.args.dry_run {
            let show = |path: &Path, entry: &_| self.output.listed(path.as_os_str().as_bytes(), entry);
            sender::survey(&found, &self.meters.local, &tell, show);
            return Ok(self.surveyed(self.meters.local.found.get()));
        }
        let job = Job::Receive { destination, options: self.options.clone() };
        let (mut session, mut shell) = self.connect(host, job, interrupted)?;
        let showing = self.show_progress(true);
        let sent = sender::run(&mut session, &found, &self.options);
        let report = sent.and_then(|sent| Ok((sent, session.wait_for_report()?)));
        let payload_seconds = seconds_since(session.connected);
        drop(showing);
        let (sent, far) = report.map_err(|error| self.gave_up(&mut session, &mut shell, error))?;
        end(session, &mut shell);
        let summary = Summary {
            landed: sent.landed,
            payload_seconds,
            elapsed_seconds: self.begun.elapsed().as_secs_f64(),
            streams: sent.streams,
            encrypted: !self.options.clear,
            sender: (self.meters.local.stages(), process_usage()),
            receiver: far,
            pushed: true,
            kind: Kind::Files,
        };
        self.finish(&summary, self.meters.local.found.get())
    }

    fn pull(
        &self,
        host: &OsStr,
        sources: Vec<Vec<u8>>,
        destination: &OsStr,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Code, Failure> {
        let job = Job::Send { sources: sources.clone(), options: self.options.clone() };
        let (mut session, mut shell) = self.connect(host, job, interrupted)?;
        let showing = self.show_progress(false);
        let expected =
            |announced: &[Source]| only_what_was_asked_for(&sources, self.options.recursive, announced);
        let received = receiver::run(&mut session, destination.as_bytes(), &self.options, expected);
        let report = received.and_then(|received| Ok((received, session.wait_for_report()?)));
        let payload_seconds = seconds_since(session.connected);
        drop(showing);
        let (received, far) = report.map_err(|error| self.gave_up(&mut session, &mut shell, error))?;
        end(session, &mut shell);
        let summary = Summary {
            landed: received.landed,
            payload_seconds,
            elapsed_seconds: self.begun.elapsed().as_secs_f64(),
            streams: received.streams,
            encrypted: !self.options.clear,
            sender: far,
            receiver: (self.meters.local.stages(), process_usage()),
            pushed: false,
            kind: Kind::Files,
        };
        self.finish(&summary, received.announced)
    }

    fn list(
        &self,
        host: &OsStr,
        sources: Vec<Vec<u8>>,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Code, Failure> {
        let job = Job::List { sources, recursive: self.options.recursive };
        let (mut session, mut shell) = self.connect(host, job, interrupted)?;
        let listed = session.receive_list(|path, entry| self.output.listed(path, entry));
        listed.map_err(|error| self.gave_up(&mut session, &mut shell, error))?;
        end(session, &mut shell);
        let found = self.meters.remote.lock().unwrap_or_else(PoisonError::into_inner).found;
        Ok(self.surveyed(found))
    }

    fn connect(
        &self,
        host: &OsStr,
        job: Job,
        interrupted: Arc<AtomicBool>,
    ) -> Result<(Session, Shell), Failure> {
        let far_end = self.args.reach.far_end(host, self.args.quiet).map_err(|m| Failure(m, Code::Usage))?;
        let ((reader, writer), mut shell) = start(&far_end, &self.output, &interrupted)?;
        let client = Client { job, interrupted, observer: self.output.clone() };
        match Session::client(reader, writer, client, self.meters.clone()) {
            Ok(session) => {
                self.output.detail(&format!("data connection: {}", session.route()));
                Ok((session, shell))
            }
            Err(error) => {
                shell.end();
                Err(error.into())
            }
        }
    }

    fn tell(&self, problem: linerate_wire::control::Problem) {
        let counter = match problem.kind {
            ProblemKind::Failed | ProblemKind::Skipped => &self.meters.local.failed,
            ProblemKind::Changed => &self.meters.local.changed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        linerate_transfer::problem::Observer::problem(&*self.output, problem);
    }

    fn show_progress(&self, pushed: bool) -> Showing {
        let (output, meters) = (self.output.clone(), self.meters.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, begun) = (stop.clone(), Instant::now());
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(100));
                output.progress(&meters, begun, pushed);
            }
        });
        Showing { stop, thread: Some(thread) }
    }

    fn gave_up(&self, session: &mut Session, shell: &mut Shell, error: TransferError) -> Failure {
        let error = session.give_up(error);
        session.cut();
        // The far end has a moment to clean up: it ends by itself when it has read the reason.
        shell.end();
        error.into()
    }

    fn code(&self) -> Code {
        let (failed, changed) = (&self.meters.local.failed, &self.meters.local.changed);
        Code::of_problems(failed.load(Ordering::Relaxed), changed.load(Ordering::Relaxed))
    }

    fn surveyed(&self, found: Totals) -> Code {
        let code = self.code();
        self.output.surveyed(found, code);
        code
    }

    /// Nothing is believed to be there that the receiver hasn't counted.
    fn finish(&self, summary: &Summary, sent: Totals) -> Result<Code, Failure> {
        let code = self.code();
        self.output.summary(summary, code, &self.meters);
        if code == Code::Done && sent != summary.landed {
            let message = format!(
                "{} entries ({} bytes) were sent and {} ({} bytes) arrived: the copy is not complete",
                sent.entries(),
                sent.bytes,
                summary.landed.entries(),
                summary.landed.bytes,
            );
            return Err(Failure(message, Code::Failed));
        }
        Ok(code)
    }
}

/// Pipes to an agent, and the remote shell that holds them.
type Pipes = ((std::process::ChildStdout, std::process::ChildStdin), Shell);

/// Starts the far end's agent.
///
/// # Errors
/// Where the login fails or no agent can be run there.
pub fn start(far_end: &FarEnd, output: &Output, interrupted: &AtomicBool) -> Result<Pipes, Failure> {
    let note = |note: &str| linerate_transfer::problem::Observer::note(output, note);
    let agent = far_end.start(&note, interrupted).map_err(|error| {
        let (message, code) = not_started(&error, interrupted);
        Failure(message, code)
    })?;
    let (shell, reader, writer) = agent.into_parts();
    Ok(((reader, writer), shell))
}

/// The progress display; it ends when this is dropped.
struct Showing {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Showing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A display that failed is no reason to fail.
            let _ = thread.join();
        }
    }
}

/// Seconds since the first data connection; 0 where there was none.
pub fn seconds_since(connected: Option<Instant>) -> f64 {
    connected.map_or(0.0, |connected| connected.elapsed().as_secs_f64())
}

/// Ends the control channel and waits for the remote shell, so that what it used is counted.
pub fn end(session: Session, shell: &mut Shell) {
    drop(session);
    shell.end();
}

/// A far end that sends may only use the names that were asked for.
fn only_what_was_asked_for(
    asked: &[Vec<u8>],
    recursive: bool,
    announced: &[Source],
) -> Result<(), TransferError> {
    let matches = |source: &Source| {
        if source.directory && !recursive {
            return false;
        }
        let Some(asked) = asked.get(source.argument as usize) else { return false };
        let wanted = pattern::name_of(asked, true);
        source.name.as_bytes() == wanted || pattern::matches(&wanted, source.name.as_bytes())
    };
    match announced.iter().find(|source| source.name.components().count() > 1 || !matches(source)) {
        None => Ok(()),
        Some(source) => Err(TransferError::FarEnd(format!(
            "the far end wants to send '{}', which was not asked for: nothing was written",
            printable(source.name.as_bytes())
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::path::RelPath;

    fn source(argument: u32, name: &str) -> Source {
        Source { argument, name: RelPath::new(name.as_bytes()).unwrap(), directory: false }
    }

    #[test]
    fn a_far_end_sends_only_what_was_asked_for() {
        let asked = [b"dir/file".to_vec(), b"logs/*.gz".to_vec(), b".".to_vec()];
        let refused =
            |name: &str, argument| only_what_was_asked_for(&asked, false, &[source(argument, name)]).is_err();
        assert!(!refused("file", 0) && !refused("a.gz", 1) && !refused("", 2));
        assert!(refused(".ssh", 0) && refused("a.txt", 1) && refused(".x.gz", 1) && refused(".bashrc", 2));
        assert!(refused("", 0) && refused("", 1) && refused("file", 9) && refused("a/b.gz", 1));
    }
}
