//! A copy from one far host to another: the agents send the data to each other, and this process forwards
//! their messages.

use linerate_remote::far_end::FarEnd;
use linerate_transfer::between::{
    Carriage, CarriedSums, DataWay, FarError, FarRole, carry, give_up, introduce, meet,
};
use linerate_transfer::digest::ledger::Reported;
use linerate_transfer::problem::{Observer, TransferError};
use linerate_transfer::routes::Interfaces;
use linerate_transfer::session::{Meters, Session, check_job};
use linerate_wire::control::{AskedSources, Change, DeliveredContents, Delivery, Job, Problem, Progress};
use linerate_wire::path::printable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::copy::Copy;
use super::manifest::{Delivered, Landed};
use super::showing::Showing;
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd};
use crate::common::output::Here;
use crate::common::summary::{Ends, Payload, Summary, Synced};
use crate::exit::Code;

/// The largest number of characters of a cipher's name. A limit is necessary because a far host chooses the name.
const CIPHER: usize = 40;

/// The two hosts as the user wrote them.
pub struct Hosts<'a> {
    /// The host of the sources.
    pub from: &'a OsStr,
    /// The host of the destination.
    pub to: &'a OsStr,
}

impl Copy {
    /// Copies `sources` from one host to `destination` on another.
    pub fn between(
        &self,
        hosts: &Hosts<'_>,
        sources: Vec<Vec<u8>>,
        destination: &[u8],
    ) -> Result<Code, Failure> {
        let options = &self.task.options;
        let sending = Job::Send { sources: sources.clone(), options: options.clone() };
        let receiving = Job::Receive { destination: destination.to_vec(), options: options.clone() };
        check_job(&sending)?;
        let (from, to) = hosts.shown();
        let (at_sender, at_receiver) = (&self.meters.source, &self.meters.remote);
        let mut sender = self.log_in(hosts.from, FarRole::Sender, sending, (at_sender, at_receiver))?;
        let receiver = self.log_in(hosts.to, FarRole::Receiver, receiving, (at_receiver, at_sender));
        let mut receiver = receiver.inspect_err(|Failure(message, _)| {
            sender.session.give_up(TransferError::Failed(message.clone()));
        })?;
        let both = (&mut sender.session, &mut receiver.session);
        let carried = self.carry(both, (&from, &to), sources);
        let (carried, way) = carried.map_err(|failed| {
            let both = (&mut sender.session, &mut receiver.session);
            self.failed_at((&from, &to), give_up(both, (&from, &to), failed))
        })?;
        drop((sender, receiver));
        self.end_between(carried, way, (from, to), destination)
    }

    fn log_in(
        &self,
        host: &OsStr,
        role: FarRole,
        job: Job,
        (its, other): (&Arc<Mutex<Progress>>, &Arc<Mutex<Progress>>),
    ) -> Result<FarSession, Failure> {
        let login = match role {
            FarRole::Sender => &self.task.login,
            FarRole::Receiver => self.task.destination_login.as_ref().unwrap_or(&self.task.login),
        };
        // The user's ssh agent isn't forwarded, because the two ends authenticate each other with their own
        // keys.
        let far_end = login.keeping_agent().far_end(host, self.task.quiet)?;
        let far_end = FarEnd { patience: self.task.patience, ..far_end };
        let shown = printable(host.as_bytes());
        let near = NearEnd {
            interrupted: self.interrupted.clone(),
            observer: Arc::new(HostReporter { host: shown.clone(), delivered: self.delivered.clone() }),
            meters: Meters { local: self.meters.local.clone(), remote: its.clone(), ..Meters::default() },
            interfaces: Interfaces::One,
        };
        let far = FarSession::between(&far_end, job, self.task.options.timeout, near, other.clone());
        far.map_err(|failure| failure.at(host))
    }

    /// Connects the two agents to each other, and forwards their messages until the end.
    fn carry(
        &self,
        (sender, receiver): (&mut Session, &mut Session),
        (from, to): (&str, &str),
        sources: Vec<Vec<u8>>,
    ) -> Result<(CarriedSums, DataWay), FarError> {
        let options = &self.task.options;
        let asked = AskedSources { sources, delivered: self.delivered.is_wanted() };
        introduce(sender, receiver, asked, self.task.selection.listed.as_ref())?;
        let way = meet((&mut *sender, &mut *receiver), options, (from, to), &*self.delivered)?;
        self.was_connected.store(true, Ordering::Relaxed);
        self.output.connected();
        self.output.detail(&format!("data connection: {}", shown_way(way, from, to)));
        let _showing = Showing::start(self.output.clone(), self.meters.clone(), Here::Neither);
        let carriage = Carriage { digests: options.digests, verify: options.verify, way };
        let known = |reported: Delivery| {
            self.delivered.known(reported.source, &reported.path, of_contents(reported.contents))
        };
        carry(sender, receiver, carriage, &known).map(|carried| (carried, way))
    }

    fn failed_at(&self, (from, to): (&str, &str), FarError { role, error }: FarError) -> Failure {
        let host = if role == FarRole::Sender { from } else { to };
        let is_own = matches!(error, TransferError::Interrupted | TransferError::NoSource(_));
        let failure = self.gave_up(error);
        if is_own { failure } else { failure.at(OsStr::new(host)) }
    }

    fn end_between(
        &self,
        carried: CarriedSums,
        way: DataWay,
        hosts: (String, String),
        destination: &[u8],
    ) -> Result<Code, Failure> {
        let sources = carried.sources.into_iter().map(|source| source.name).collect();
        let reporter = self.reporter();
        let place = Landed { sources, within: carried.within, destination };
        let written = self.delivered.write(&place, &|problem| reporter.problem(problem));
        written.map_err(Failure::failed)?;
        let (of_sender, of_receiver) = (carried.sender.tally, carried.receiver.tally);
        let turned_away = [of_sender.turned_away, of_receiver.turned_away];
        let synced = self.task.options.sync.as_ref().map(|sync| Synced {
            matched: of_sender.matched,
            further: 0,
            deleted: self.output.deleted(),
            dry_run: sync.dry_run,
        });
        let summary = Summary {
            landed: carried.landed,
            found: carried.sent,
            there: of_sender.unchanged,
            payload_seconds: carried.payload_seconds,
            window: None,
            elapsed_seconds: self.elapsed_seconds(),
            streams: carried.streams,
            encrypted: of_sender.cipher.is_some(),
            cipher: of_sender
                .cipher
                .map(|cipher| printable(cipher.as_bytes()).chars().take(CIPHER).collect()),
            sender: carried.sender.report,
            receiver: carried.receiver.report,
            ends: Ends::Between { from: hosts.0, to: hosts.1, through: way == DataWay::Through },
            turned_away: turned_away.into_iter().flatten().reduce(u64::saturating_add),
            kind: Payload::Files,
            synced,
        };
        self.finish(&summary, carried.sent)
    }
}

impl Hosts<'_> {
    fn shown(&self) -> (String, String) {
        (printable(self.from.as_bytes()), printable(self.to.as_bytes()))
    }
}

fn shown_way(way: DataWay, from: &str, to: &str) -> String {
    match way {
        DataWay::SenderDials => format!("from {from} to {to}"),
        DataWay::ReceiverDials => format!("from {to} to {from}"),
        DataWay::Through => format!("through this host, encrypted from {from} to {to}"),
    }
}

fn of_contents(contents: DeliveredContents) -> Reported {
    match contents {
        DeliveredContents::Digest(digest) => Reported::Digest(digest),
        DeliveredContents::SameAs(source, first) => Reported::SameAs(source, first),
        DeliveredContents::Withdrawn => Reported::Withdrawn,
    }
}

/// Reports the problems and notes of one of the two hosts.
pub struct HostReporter {
    /// The host as the user wrote it, safe to print.
    pub host: String,
    /// The place to which problems are reported.
    pub delivered: Arc<Delivered>,
}

impl Observer for HostReporter {
    fn problem(&self, problem: Problem) {
        self.delivered.problem_at(&self.host, problem);
    }

    fn changes(&self, changes: Vec<Change>) {
        self.delivered.changes(changes);
    }

    fn note(&self, note: &str) {
        // The note itself names the host.
        self.delivered.note(note);
    }
}
