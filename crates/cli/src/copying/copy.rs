//! One run of `linerate cp` or `sync`: its direction, and the parts that all directions share.

use linerate_remote::far_end::FarEnd;
use linerate_transfer::clock::process_usage;
use linerate_transfer::problem::{Observer, TransferError};
use linerate_transfer::routes::Interfaces;
use linerate_transfer::session::{Meters, Reporter, Session, check_job};
use linerate_wire::control::{Job, Totals};
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::between::Hosts;
use super::linked::HostsTeller;
use super::manifest::{Delivered, Landed};
use super::route::Route;
use super::showing::Showing;
use super::task::Task;
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd};
use crate::common::output::{Here, Output};
use crate::common::reach::interrupted;
use crate::common::summary::{Ends, Payload, Summary, Synced};
use crate::exit::Code;
use crate::units::show_counted;

/// The text after the reason why a run ended early.
const GO_ON: &str =
    "; run the same command again to go on from here, or 'linerate clean DST' to remove what is left";
/// The same, if unfinished files lie in a directory that no journal knows.
const BEGIN_AGAIN: &str = "; run the same command again: unfinished files start again, since --temp-dir without --partial-dir keeps no parts";

impl Failure {
    /// Without the text about the same command: this run itself goes on.
    pub fn without_advice(self) -> Self {
        let advice = [GO_ON, BEGIN_AGAIN].into_iter().find_map(|advice| self.0.strip_suffix(advice));
        Self(advice.map_or_else(|| self.0.clone(), str::to_owned), self.1)
    }
}

/// The state of a run.
pub struct Copy {
    /// The user's task.
    pub task: Arc<Task>,
    /// The output of the command.
    pub output: Arc<Output>,
    /// Both ends' counters.
    pub meters: Meters,
    /// The material of the manifest.
    pub delivered: Arc<Delivered>,
    /// Set once the two ends had a connection.
    pub was_connected: AtomicBool,
    /// Set by a signal.
    pub interrupted: Arc<AtomicBool>,
    /// The two hosts, if this process runs on the destination's host for a user on another host.
    pub hosts: Option<(String, String)>,
    begun: Instant,
}

/// The result of a transfer, in either direction.
pub struct Moved<'a> {
    /// The entries in place, as the receiver counted them.
    pub landed: Totals,
    /// The sent data, as the sender counted it.
    pub sent: Totals,
    /// Streams that carried data.
    pub streams: u32,
    /// The places of the sources at the destination.
    pub place: Landed<'a>,
}

impl Copy {
    /// A run with these arguments.
    ///
    /// # Errors
    /// If the system takes no signal handlers.
    pub fn new(task: Task, output: Arc<Output>) -> Result<Self, Failure> {
        let interrupted = interrupted()?;
        Self::interruptible(Arc::new(task), output, interrupted)
    }

    /// A run with these arguments that ends when `interrupted` is set; it may be one of several.
    ///
    /// # Errors
    /// If the manifest can't be written.
    pub fn interruptible(
        task: Arc<Task>,
        output: Arc<Output>,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let begun = Instant::now();
        if let Some(stop) = task.stop.clone() {
            stop.watch(interrupted.clone());
        }
        let delivered = Delivered::new(&task, output.clone());
        let delivered = Arc::new(delivered.map_err(Failure::usage)?);
        let (meters, was_connected) = (Meters::default(), AtomicBool::new(false));
        Ok(Self { task, output, meters, delivered, was_connected, interrupted, hosts: None, begun })
    }

    /// Copies, or lists what would be copied.
    ///
    /// # Errors
    /// If the copy failed as a whole. Problems with single entries are printed, and set the exit code.
    pub fn once(&self) -> Result<Code, Failure> {
        self.delivered.begin();
        if self.task.detach {
            return self.leave();
        }
        let route = Route::find(&self.task.sources, &self.task.destination).map_err(Failure::usage)?;
        check_interfaces(&self.task, &route)?;
        if self.task.options.clear && !self.task.list {
            self.output.note("the data travels in clear (--no-encrypt), protected by checksums only");
        }
        match route {
            Route::Push { sources, host, destination } => self.push(sources, &host, destination),
            Route::Within { sources, destination } => self.within(sources, &destination),
            Route::Pull { host, sources, .. } | Route::Between { from: host, sources, .. }
                if self.task.list =>
            {
                self.list(&host, sources)
            }
            Route::Between { from, sources, to, destination } => {
                self.between(&Hosts { from: &from, to: &to }, sources, &destination)
            }
            Route::Pull { host, sources, destination } => self.pull(&host, sources, &destination),
        }
    }

    /// Logs in and starts `job` there, up to the first data stream if it needs one.
    pub fn connect(&self, host: &OsStr, job: Job) -> Result<FarSession, Failure> {
        check_job(&job)?;
        let far_end = self.task.reach.far_end(host, self.task.quiet)?;
        let far_end = FarEnd { patience: self.task.login, ..far_end };
        let compresses = self.task.options.compression.level.is_always();
        let far_end = if compresses { far_end.with_compression() } else { far_end };
        let far = FarSession::open(&far_end, job, self.task.options.timeout, self.near_end())?;
        self.was_connected.store(true, Ordering::Relaxed);
        self.output.connected();
        self.output.detail(&format!("data connection: {}", far.session.route()));
        Ok(far)
    }

    fn observer(&self) -> Arc<dyn Observer> {
        match &self.hosts {
            Some((from, to)) => Arc::new(HostsTeller::new(from, to, self.delivered.clone())),
            None => self.delivered.clone(),
        }
    }

    /// This end of a session.
    pub fn near_end(&self) -> NearEnd {
        NearEnd {
            interrupted: self.interrupted.clone(),
            observer: self.observer(),
            meters: self.meters.clone(),
            interfaces: self.task.interfaces.clone(),
        }
    }

    /// Does `work` with its progress shown, waits for the far end's last message, and prints the result.
    pub fn transfer<'a>(
        &self,
        mut far: FarSession,
        pushed: bool,
        work: impl FnOnce(&mut Session) -> Result<Moved<'a>, TransferError>,
    ) -> Result<Code, Failure> {
        let within = far.session.is_within();
        let end = match pushed {
            _ if within => Here::Both,
            true => Here::Sender,
            false => Here::Receiver,
        };
        let worked = far.work(|session| {
            let _showing = Showing::start(self.output.clone(), self.meters.clone(), end);
            let moved = work(session)?;
            Ok((moved, session.wait_for_report()?, session.payload_seconds()))
        });
        let (moved, there, payload_seconds) = worked.map_err(|error| self.gave_up(error))?;
        let (turned_away, cipher) = (far.session.strangers(), far.session.cipher());
        // Data that comes through other hosts is encrypted unless the whole copy is in clear.
        let is_encrypted = cipher.is_some() || far.session.is_chained() && !self.task.options.clear;
        // Its remote shell is counted below.
        drop(far);
        let reporter = self.reporter();
        let written = self.delivered.write(&moved.place, &|problem| reporter.problem(problem));
        written.map_err(Failure::failed)?;
        let here = (self.meters.local.stages(), process_usage());
        let (sender, receiver) = if pushed { (here, there) } else { (there, here) };
        let summary = Summary {
            landed: moved.landed,
            there: self.meters.local.unchanged.get(),
            payload_seconds,
            window: None,
            elapsed_seconds: self.elapsed_seconds(),
            streams: moved.streams,
            encrypted: is_encrypted,
            cipher: cipher.map(str::to_owned),
            sender,
            receiver,
            ends: self.ends(end),
            turned_away,
            kind: Payload::Files,
            synced: self.synced(),
        };
        self.finish(&summary, moved.sent)
    }

    fn ends(&self, end: Here) -> Ends {
        match (end, self.hosts.clone()) {
            (Here::Receiver, Some((from, to))) => Ends::Between { from, to, through: false },
            (Here::Receiver, None) => Ends::Pull,
            (Here::Both, _) => Ends::Within,
            (Here::Sender | Here::Neither, _) => Ends::Push,
        }
    }

    /// Seconds since the command began.
    pub fn elapsed_seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn synced(&self) -> Option<Synced> {
        self.task.options.sync.as_ref().map(|sync| Synced {
            matched: self.meters.local.matched.load(Ordering::Relaxed),
            further: self.meters.local.found.further_bytes(),
            deleted: self.output.deleted(),
            dry_run: sync.dry_run,
        })
    }

    /// The reporter that prints and counts problems with single entries.
    pub fn reporter(&self) -> Reporter {
        Reporter::new(self.observer(), &self.meters)
    }

    /// The failure of a run that ended early.
    pub fn gave_up(&self, error: TransferError) -> Failure {
        let Failure(message, code) = error.into();
        Failure(format!("{message}{}", self.how_to_go_on()), code)
    }

    /// A note that data that has arrived isn't lost.
    fn how_to_go_on(&self) -> &'static str {
        let moved = self.meters.local.stages().bytes > 0;
        let placing = &self.task.options.details.placing;
        match moved && self.task.options.resume.is_some() {
            true if placing.temporary.is_some() && placing.partial.is_none() => BEGIN_AGAIN,
            true => GO_ON,
            false => "",
        }
    }

    /// The end of a run that only listed.
    pub fn surveyed(&self, found: Totals) -> Code {
        let code = self.code();
        self.output.surveyed(found, self.meters.local.found.further_bytes(), code);
        code
    }

    /// Prints the result. Entries count only if the receiver has counted them; if some are missing, the copy failed.
    pub fn finish(&self, summary: &Summary, sent: Totals) -> Result<Code, Failure> {
        let code = self.code();
        if self.has_no_problem() && sent != summary.landed {
            return Err(Failure(incomplete(&sent, &summary.landed), Code::Failed));
        }
        self.output.summary(summary, code, &self.meters);
        Ok(code)
    }

    /// True if no problem changes the totals; a loss of metadata doesn't.
    fn has_no_problem(&self) -> bool {
        self.meters.local.has_no_problem()
    }

    fn code(&self) -> Code {
        let of = &self.meters.local;
        let [failed, not_kept, changed, not_deleted] =
            [&of.failed, &of.not_kept, &of.changed, &of.not_deleted]
                .map(|count| count.load(Ordering::Relaxed));
        let failed = failed.saturating_sub(self.output.left_out());
        Code::of_problems(failed.saturating_add(not_kept), changed, not_deleted)
    }
}

/// A message about entries that were sent but didn't arrive.
fn incomplete(sent: &Totals, landed: &Totals) -> String {
    let (left, arrived) = (show_counted(sent.entries(), "entry was", "entries were"), landed.entries());
    format!(
        "{left} sent ({} bytes) and {arrived} ({} bytes) arrived: the copy is not complete; run it again",
        sent.bytes, landed.bytes,
    )
}
/// Refuses `--interfaces` if no data leaves this host, and `--interfaces=all` with `--no-encrypt`: data in clear goes
/// only by interfaces that are named.
fn check_interfaces(task: &Task, route: &Route) -> Result<(), Failure> {
    let why = match (&task.interfaces, route) {
        (Interfaces::Named(_) | Interfaces::All, Route::Within { .. }) => {
            "--interfaces: no data leaves this host; omit the option"
        }
        (Interfaces::All, _) if task.options.clear => {
            "--no-encrypt with --interfaces=all: data in clear goes only where you say; name the interfaces"
        }
        _ => return Ok(()),
    };
    Err(Failure::usage(why.to_owned()))
}
