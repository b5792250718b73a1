//! A run of `linerate cp` or `sync`: the direction of the copy, and the steps that are the same for all
//! directions.

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
use super::linked::HostsReporter;
use super::manifest::{Delivered, Landed};
use super::route::Route;
use super::showing::Showing;
use super::task::Task;
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd};
use crate::common::output::{Here, Output};
use crate::common::signals::interrupted;
use crate::common::summary::{Ends, Payload, Summary, Synced};
use crate::exit::Code;
use crate::units::show_counted;

/// The advice after the reason why a run ended early.
const GO_ON: &str = "; run the same command again to resume, or 'linerate clean DST' to remove the remains";
/// The advice as in `GO_ON`, for the case that unfinished files are in a directory that no journal covers.
const BEGIN_AGAIN: &str = "; run the same command again: unfinished files start from the beginning, because --temp-dir without --partial-dir keeps no partial files";

impl Failure {
    /// The failure without the advice to run the command again, because this run itself continues.
    pub fn without_advice(self) -> Self {
        let advice = [GO_ON, BEGIN_AGAIN].into_iter().find_map(|advice| self.0.strip_suffix(advice));
        Self(advice.map_or_else(|| self.0.clone(), str::to_owned), self.1)
    }
}

/// A run of a copy.
pub struct Copy {
    /// The task that the user has requested.
    pub task: Arc<Task>,
    /// The output of the command.
    pub output: Arc<Output>,
    /// The counters of both ends.
    pub meters: Meters,
    /// Collects the data for the manifest.
    pub delivered: Arc<Delivered>,
    /// True once the two ends have been connected.
    pub was_connected: AtomicBool,
    /// The flag that a signal sets.
    pub interrupted: Arc<AtomicBool>,
    /// The names of the two hosts, if this process runs on the destination's host on behalf of a user on
    /// another host.
    pub hosts: Option<(String, String)>,
    begun: Instant,
}

/// The result of a transfer, in any direction.
pub struct Moved<'a> {
    /// The entries that are in place, as the receiver counted them.
    pub landed: Totals,
    /// The entries that were sent, as the sender counted them.
    pub sent: Totals,
    /// The number of streams that carried data.
    pub streams: u32,
    /// The paths at the destination at which the sources were placed.
    pub place: Landed<'a>,
}

impl Copy {
    /// A run with these arguments.
    ///
    /// # Errors
    /// If signal handlers can't be installed.
    pub fn new(task: Task, output: Arc<Output>) -> Result<Self, Failure> {
        let interrupted = interrupted()?;
        Self::interruptible(Arc::new(task), output, interrupted)
    }

    /// A run with these arguments that ends when `interrupted` is set. It may be one of several runs.
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
        if self.task.interfaces != Interfaces::One && matches!(route, Route::Between { .. }) {
            self.output.note("--interfaces is ignored: the data goes from one far host to the other");
        }
        let is_within = matches!(route, Route::Within { .. });
        if self.task.options.clear && !self.task.list && !is_within {
            self.output.note("the data travels in clear (--no-encrypt), protected by checksums only");
        }
        if !matches!(route, Route::Between { .. }) {
            self.delivered.await_files(&self.task.options);
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

    /// Logs in to `host` and starts `job` there, up to the first data stream if the job needs one.
    pub fn connect(&self, host: &OsStr, job: Job) -> Result<FarSession, Failure> {
        check_job(&job)?;
        let far_end = self.task.login.far_end(host, self.task.quiet)?;
        let far_end = FarEnd { patience: self.task.patience, ..far_end };
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
            Some((from, to)) => Arc::new(HostsReporter::new(from, to, self.delivered.clone())),
            None => self.delivered.clone(),
        }
    }

    /// The parameters of this end of a session.
    pub fn near_end(&self) -> NearEnd {
        NearEnd {
            interrupted: self.interrupted.clone(),
            observer: self.observer(),
            meters: self.meters.clone(),
            interfaces: self.task.interfaces.clone(),
        }
    }

    /// Runs `work` while the progress is displayed, then waits for the far end's last message and prints the
    /// result.
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
        self.delivered.end(worked.is_ok() && self.has_no_problem());
        let (moved, there, payload_seconds) = worked.map_err(|error| self.gave_up(error))?;
        let (turned_away, cipher) = (far.session.strangers(), far.session.cipher());
        // Data that passes through other hosts is encrypted, unless the whole copy is unencrypted.
        let is_encrypted = cipher.is_some() || far.session.is_chained() && !self.task.options.clear;
        // The remote shell's processor time can be read only after it has ended.
        drop(far);
        let reporter = self.reporter();
        let written = self.delivered.write(&moved.place, &|problem| reporter.problem(problem));
        written.map_err(Failure::failed)?;
        let here = (self.meters.local.stages(), process_usage());
        let (sender, receiver) = if pushed { (here, there) } else { (there, here) };
        let summary = Summary {
            landed: moved.landed,
            found: moved.sent,
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

    /// The seconds since the command began.
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

    /// The failure of a run that ended early because of `error`.
    pub fn gave_up(&self, error: TransferError) -> Failure {
        let Failure(message, code) = error.into();
        Failure(format!("{message}{}", self.how_to_go_on()), code)
    }

    /// The advice for the next run after this one has ended early; empty if no data was moved, or if a later run can't
    /// resume this one.
    fn how_to_go_on(&self) -> &'static str {
        let moved = self.meters.local.stages().bytes > 0;
        let placing = &self.task.options.details.placing;
        match moved && self.task.options.resume.is_some() {
            true if placing.temporary.is_some() && placing.partial.is_none() => BEGIN_AGAIN,
            true => GO_ON,
            false => "",
        }
    }

    /// Prints the totals of a run that only listed entries; returns its exit code.
    pub fn surveyed(&self, found: Totals) -> Code {
        let code = self.code();
        self.output.surveyed(found, self.meters.local.found.further_bytes(), code);
        code
    }

    /// Prints the result. Only entries that the receiver has counted count as copied; if some are missing,
    /// the copy has failed.
    pub fn finish(&self, summary: &Summary, sent: Totals) -> Result<Code, Failure> {
        let code = self.code();
        if self.has_no_problem() && sent != summary.landed {
            return Err(Failure(incomplete(&sent, &summary.landed), Code::Failed));
        }
        self.output.summary(summary, code, &self.meters);
        Ok(code)
    }

    /// True if no problem affects the totals. A loss of metadata doesn't affect them.
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

/// The message that some entries were sent but didn't arrive.
fn incomplete(sent: &Totals, landed: &Totals) -> String {
    let (left, arrived) = (show_counted(sent.entries(), "entry was", "entries were"), landed.entries());
    format!(
        "{left} sent ({} bytes) and {arrived} ({} bytes) arrived: the copy is incomplete; run the command again",
        sent.bytes, landed.bytes,
    )
}

/// Returns an error for `--interfaces` if no data leaves this host, and for `--interfaces=all` with
/// `--no-encrypt`, because unencrypted data must use only interfaces that the user names.
fn check_interfaces(task: &Task, route: &Route) -> Result<(), Failure> {
    let why = match (&task.interfaces, route) {
        (Interfaces::Named(_) | Interfaces::All, Route::Within { .. }) => {
            "--interfaces: no data leaves this host; leave the option out"
        }
        (Interfaces::All, _) if task.options.clear => {
            "--no-encrypt with --interfaces=all: data in clear may use only interfaces that you name; name them"
        }
        _ => return Ok(()),
    };
    Err(Failure::usage(why.to_owned()))
}
