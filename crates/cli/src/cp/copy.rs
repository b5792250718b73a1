//! One run of `linerate cp` or `sync`: which way it goes, and what both ways have in common.

use linerate_remote::far_end::{FarEnd, RemoteShell};
use linerate_transfer::clock::process_usage;
use linerate_transfer::problem::{Observer, TransferError};
use linerate_transfer::session::{Client, Meters, Reporter, Session, check_job};
use linerate_wire::control::{Job, Totals};
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::far::{end, start};
use super::manifest::{Delivered, Landed};
use super::showing::Showing;
use super::spec::Route;
use super::summary::{Kind, Summary, Synced};
use super::{Failure, Output, Task};
use crate::exit::Code;
use crate::reach::interrupted;

/// Said behind why a run ended early.
const GO_ON: &str =
    "; run the same command again to go on from here, or 'linerate clean DST' to remove what is left";

/// What a run works with.
pub struct Copy {
    /// What the user wants.
    pub task: Task,
    /// Where everything is told.
    pub output: Arc<Output>,
    /// Both ends' counters.
    pub meters: Meters,
    /// What the manifest is made of.
    pub delivered: Arc<Delivered>,
    /// Set once the two ends had a connection.
    pub was_connected: AtomicBool,
    /// Set by a signal.
    pub interrupted: Arc<AtomicBool>,
    begun: Instant,
}

/// What a transfer came to, either way.
pub struct Moved<'a> {
    /// What is in place, as the receiver counted.
    pub landed: Totals,
    /// What was sent, as the sender counted.
    pub sent: Totals,
    /// Streams that carried data.
    pub streams: u32,
    /// Where it is.
    pub place: Landed<'a>,
}

impl Copy {
    /// A run with these arguments.
    ///
    /// # Errors
    /// Where the system takes no signal handlers.
    pub fn new(task: Task, output: Arc<Output>) -> Result<Self, Failure> {
        let begun = Instant::now();
        let interrupted = interrupted().map_err(|error| Failure(error.to_string(), Code::Failed))?;
        let delivered = Delivered::new(task.manifest.as_deref(), output.clone());
        let delivered = Arc::new(delivered.map_err(|message| Failure(message, Code::Usage))?);
        let (meters, was_connected) = (Meters::default(), AtomicBool::new(false));
        Ok(Self { task, output, meters, delivered, was_connected, interrupted, begun })
    }

    /// Copies, or lists what would be copied.
    ///
    /// # Errors
    /// Where the whole failed; problems with single entries are told, and in the code.
    pub fn once(&self) -> Result<Code, Failure> {
        let usage = |message| Failure(message, Code::Usage);
        self.delivered.begin();
        let route = Route::find(&self.task.sources, &self.task.destination).map_err(usage)?;
        if self.task.options.clear && !self.task.list {
            self.output.note("the data travels in clear (--no-encrypt), protected by checksums only");
        }
        match route {
            Route::Push { sources, host, destination } => self.push(sources, &host, destination),
            Route::Pull { host, sources, .. } if self.task.list => self.list(&host, sources),
            Route::Pull { host, sources, destination } => self.pull(&host, sources, &destination),
        }
    }

    /// Logs in and starts `job` there, up to the first data stream where it needs one.
    pub fn connect(&self, host: &OsStr, job: Job) -> Result<(Session, RemoteShell), Failure> {
        check_job(&job)?;
        let far_end = self.task.reach.far_end(host, self.task.quiet).map_err(|m| Failure(m, Code::Usage))?;
        let far_end = FarEnd { patience: self.task.login, ..far_end };
        let silence = self.task.options.timeout;
        let (pipes, pulse) = start(&far_end, silence, &self.output, &self.interrupted)?;
        let ((reader, writer), mut shell) = pipes;
        let (interrupted, observer) = (self.interrupted.clone(), self.delivered.clone());
        match Session::client(
            reader,
            writer,
            Client { job, interrupted, observer, pulse },
            self.meters.clone(),
        ) {
            Ok(session) => {
                self.was_connected.store(true, Ordering::Relaxed);
                self.output.detail(&format!("data connection: {}", session.route()));
                Ok((session, shell))
            }
            Err(error) => {
                shell.end();
                Err(error.into())
            }
        }
    }

    /// Does `work` with its progress shown, waits for the far end's last word, and tells what it came to.
    pub fn transfer<'a>(
        &self,
        (mut session, mut shell): (Session, RemoteShell),
        pushed: bool,
        work: impl FnOnce(&mut Session) -> Result<Moved<'a>, TransferError>,
    ) -> Result<Code, Failure> {
        let showing = Showing::start(self.output.clone(), self.meters.clone(), pushed);
        let moved = work(&mut session);
        let moved = moved.and_then(|moved| Ok((moved, session.wait_for_report()?)));
        let payload_seconds = session.payload_seconds();
        drop(showing);
        let (moved, far) = moved.map_err(|error| self.gave_up(&mut session, &mut shell, error))?;
        let (turned_away, cipher) = (session.strangers(), session.cipher());
        end(session, &mut shell);
        let reporter = self.reporter();
        let written = self.delivered.write(&moved.place, &|problem| reporter.problem(problem));
        written.map_err(|message| Failure(message, Code::Failed))?;
        let near = (self.meters.local.stages(), process_usage());
        let (sender, receiver) = if pushed { (near, far) } else { (far, near) };
        let summary = Summary {
            landed: moved.landed,
            payload_seconds,
            elapsed_seconds: self.begun.elapsed().as_secs_f64(),
            streams: moved.streams,
            cipher,
            sender,
            receiver,
            pushed,
            turned_away,
            kind: Kind::Files,
            synced: self.task.options.sync.as_ref().map(|sync| Synced {
                unchanged: self.meters.local.unchanged.get(),
                deleted: self.output.deleted(),
                dry_run: sync.dry_run,
            }),
        };
        self.finish(&summary, moved.sent)
    }

    /// Where problems with single entries are told and counted.
    pub fn reporter(&self) -> Reporter {
        Reporter::new(self.delivered.clone(), &self.meters)
    }

    /// Tells the far end why this one gives up, and ends it.
    pub fn gave_up(&self, session: &mut Session, shell: &mut RemoteShell, error: TransferError) -> Failure {
        let error = session.give_up(error);
        session.cut();
        // The far end has a moment to clean up: it ends by itself when it has read the reason.
        shell.end();
        let Failure(message, code) = error.into();
        Failure(format!("{message}{}", self.how_to_go_on()), code)
    }

    /// What has arrived is not lost.
    fn how_to_go_on(&self) -> &'static str {
        let moved = self.meters.local.stages().bytes > 0;
        if moved && self.task.options.resume.is_some() { GO_ON } else { "" }
    }

    /// The end of a run that only listed.
    pub fn surveyed(&self, found: Totals) -> Code {
        let code = self.code();
        self.output.surveyed(found, code);
        code
    }

    /// Nothing is believed to be there that the receiver hasn't counted.
    fn finish(&self, summary: &Summary, sent: Totals) -> Result<Code, Failure> {
        let code = self.code();
        if self.has_no_problem() && sent != summary.landed {
            let message = format!(
                "{} entries ({} bytes) were sent and {} ({} bytes) arrived: the copy is not complete",
                sent.entries(),
                sent.bytes,
                summary.landed.entries(),
                summary.landed.bytes,
            );
            return Err(Failure(message, Code::Failed));
        }
        self.output.summary(summary, code, &self.meters);
        Ok(code)
    }

    /// What was lost of an entry changes no count.
    fn has_no_problem(&self) -> bool {
        self.meters.local.has_no_problem()
    }

    fn code(&self) -> Code {
        let of = &self.meters.local;
        let [failed, not_kept, changed, not_deleted] =
            [&of.failed, &of.not_kept, &of.changed, &of.not_deleted]
                .map(|count| count.load(Ordering::Relaxed));
        Code::of_problems(failed.saturating_add(not_kept), changed, not_deleted)
    }
}
