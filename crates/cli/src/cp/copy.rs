//! One run of `linerate cp`: which way it goes, and what both ways have in common.

use linerate_remote::far_end::Shell;
use linerate_transfer::clock::process_usage;
use linerate_transfer::problem::{Observer, TransferError};
use linerate_transfer::session::{Client, Meters, Reporter, Session, check_job};
use linerate_wire::control::{Job, Options, Totals};
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::far::{end, start};
use super::manifest::{Delivered, Landed};
use super::showing::Showing;
use super::spec::Route;
use super::summary::{Kind, Summary};
use super::{CpArgs, Failure, Output};
use crate::exit::Code;
use crate::reach::interrupted;

/// What a run works with.
pub struct Copy {
    /// As the user wrote them.
    pub args: CpArgs,
    /// What of them both ends must know.
    pub options: Options,
    /// Where everything is told.
    pub output: Arc<Output>,
    /// Both ends' counters.
    pub meters: Meters,
    /// What the manifest is made of.
    pub delivered: Arc<Delivered>,
    begun: Instant,
    interrupted: Arc<AtomicBool>,
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
    pub fn new(args: CpArgs, output: Arc<Output>) -> Result<Self, Failure> {
        let begun = Instant::now();
        let interrupted = interrupted().map_err(|error| Failure(error.to_string(), Code::Failed))?;
        let delivered = Delivered::new(args.manifest.as_deref(), output.clone())
            .map_err(|message| Failure(message, Code::Usage))?;
        let (options, meters, delivered) = (args.options(), Meters::default(), Arc::new(delivered));
        Ok(Self { options, args, output, meters, delivered, begun, interrupted })
    }

    /// Copies, or lists what would be copied.
    ///
    /// # Errors
    /// Where the whole failed; problems with single entries are told, and in the code.
    pub fn run(&self) -> Result<Code, Failure> {
        let usage = |message| Failure(message, Code::Usage);
        let route = Route::find(&self.args.sources, &self.args.destination).map_err(usage)?;
        if self.args.no_encrypt && !self.args.dry_run {
            self.output.note("the data travels in clear (--no-encrypt), protected by checksums only");
        }
        match route {
            Route::Push { sources, host, destination } => self.push(sources, &host, destination),
            Route::Pull { host, sources, .. } if self.args.dry_run => self.list(&host, sources),
            Route::Pull { host, sources, destination } => self.pull(&host, sources, &destination),
        }
    }

    /// Logs in and starts `job` there, up to the first data stream where it needs one.
    pub fn connect(&self, host: &OsStr, job: Job) -> Result<(Session, Shell), Failure> {
        check_job(&job)?;
        let far_end = self.args.reach.far_end(host, self.args.quiet).map_err(|m| Failure(m, Code::Usage))?;
        let ((reader, writer), mut shell) = start(&far_end, &self.output, &self.interrupted)?;
        let (interrupted, observer) = (self.interrupted.clone(), self.delivered.clone());
        match Session::client(reader, writer, Client { job, interrupted, observer }, self.meters.clone()) {
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

    /// Does `work` with its progress shown, waits for the far end's last word, and tells what it came to.
    pub fn transfer<'a>(
        &self,
        (mut session, mut shell): (Session, Shell),
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
        self.delivered.write(&moved.place).map_err(|message| Failure(message, Code::Failed))?;
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
        };
        self.finish(&summary, moved.sent)
    }

    /// Where problems with single entries are told and counted.
    pub fn reporter(&self) -> Reporter {
        Reporter::new(self.delivered.clone(), &self.meters)
    }

    /// Tells the far end why this one gives up, and ends it.
    pub fn gave_up(&self, session: &mut Session, shell: &mut Shell, error: TransferError) -> Failure {
        let error = session.give_up(error);
        session.cut();
        // The far end has a moment to clean up: it ends by itself when it has read the reason.
        shell.end();
        error.into()
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
        self.output.summary(summary, code, &self.meters);
        Ok(code)
    }

    fn code(&self) -> Code {
        let (failed, changed) = (&self.meters.local.failed, &self.meters.local.changed);
        Code::of_problems(failed.load(Ordering::Relaxed), changed.load(Ordering::Relaxed))
    }
}
