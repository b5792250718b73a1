//! The agent: it does the job that the client states, and answers questions about its host.

use linerate_wire::control::{
    AbortKind, AskedSources, Job, JobAttention, MAX_SAMPLES, Message, Options, Sampling, Totals,
};
use linerate_wire::path::RelPath;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::Child;

use crate::base::problem::TransferError;
use crate::net::session::{Neighbour, Reporter, Session, out_of_turn};
use crate::permit::Permit;
use crate::receive::admission::Request;
use crate::receive::deliveries::Deliveries;
use crate::receive::leftovers;
use crate::receive::receiver;
use crate::send::ahead::scan_ahead;
use crate::send::sender::{self, FoundSources, Selection};
use crate::send::survey::survey;
use crate::tree::bounds::{Bounds, Named};
use crate::tree::digest::ledger::Known;
use crate::tree::filter::FilesFrom;
use crate::tree::pattern::expand_destination;
use crate::tree::root::Root;
use crate::tree::source_root::{Finding, SourceRoot};
use crate::{differences, memory};

/// Ignores the digests of files: the agent itself has no use for them, because the client keeps them.
const UNHEARD: Known<'static> = &|_, _, _| {};

/// Answers questions about the agent's host and about its detached jobs.
pub trait HostObserver {
    /// Facts about the host and the file systems of `paths`, or about the usual file systems if `paths` is
    /// empty. Returns a compressed snapshot in the format of the `host` crate.
    fn facts(&self, paths: Vec<Vec<u8>>) -> Vec<u8>;
    /// The processor times of the agent's host, as compressed JSON of the `host` crate.
    fn cpu(&self) -> Vec<u8>;
    /// Starts to record the host's counters.
    ///
    /// # Errors
    /// The reason why the host's counters can't be recorded.
    fn record(&self, sampling: &Sampling) -> Result<Box<dyn Recording>, String>;
    /// Starts an agent that outlives this login; returns the child process, with pipes to its stdin and
    /// stdout.
    ///
    /// # Errors
    /// The reason why such an agent can't be started.
    fn background(&self) -> Result<Child, String> {
        Err(NO_JOBS.into())
    }

    /// The account's detached jobs on this host, each as JSON. If `forget` is set, the records of jobs that
    /// have ended are removed.
    ///
    /// # Errors
    /// The reason why the records can't be read or removed.
    fn jobs(&self, _forget: bool) -> Result<Vec<Vec<u8>>, String> {
        Err(NO_JOBS.into())
    }

    /// Calls `report` with new events of a detached job until the job has ended or `report` returns false.
    ///
    /// # Errors
    /// The reason why there is no such job.
    fn attend(&self, _: &JobAttention, _: &mut dyn FnMut(Message) -> bool) -> Result<(), String> {
        Err(NO_JOBS.into())
    }
}

/// The error message of an agent that can't answer questions about detached jobs.
const NO_JOBS: &str = "the far end runs linerate-agent, which can't run or list detached jobs: let --agent-command, or command= in authorized_keys, \
     name linerate";

/// Counters that are being recorded; dropping the value ends the recording.
pub trait Recording {
    /// The interval between two samples, in milliseconds.
    fn interval_ms(&self) -> u32;
    /// The samples that were recorded since the last call of this method.
    fn take(&mut self) -> Vec<u8>;
    /// Records one more sample, ends the recording, and returns the samples that [`Recording::take`] hasn't
    /// returned yet.
    fn stop(self: Box<Self>) -> Vec<u8>;
}

/// Serves one client on `reader` and `writer` until its job is done, within the limits of `permit`.
///
/// # Errors
/// The reason why the job ended early; the reason has been sent to the client too.
pub fn serve(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
    host: &dyn HostObserver,
    permit: Result<Permit, TransferError>,
) -> Result<(), TransferError> {
    let (mut session, job) = Session::agent(reader, writer)?;
    let done = permit.and_then(|permit| {
        permit.check(&job)?;
        // Only a separate process can continue without its client.
        if session.detached().is_some() {
            return Err(out_of_turn());
        }
        session.dials_client_alone(permit.is_restricted());
        perform(&mut session, permit.guarded(job), host, permit.bounds())
    });
    done.map_err(|error| session.give_up(error))
}

/// Serves a client that runs in the same process, until the client's job (to receive or to hash files) is
/// done.
///
/// # Errors
/// The reason why the job ended early; the reason has been sent to the client too.
pub fn serve_within(channel: UnixStream, neighbour: Neighbour) -> Result<(), TransferError> {
    let reader = channel.try_clone().map_err(|error| TransferError::Failed(error.to_string()))?;
    let (mut session, job) = Session::agent(reader, channel)?;
    session.stay_within(neighbour);
    let done = match job {
        Job::Receive { destination, options } => {
            Bounds::here().name(&destination).and_then(|named| receive(&mut session, &named, &options))
        }
        Job::Digests { path, keep } => differences::open(&Bounds::here(), &path)
            .and_then(|top| differences::serve(&mut session, &top, keep)),
        _ => Err(out_of_turn()),
    };
    done.map_err(|error| session.give_up(error))
}

#[cfg(test)]
mod tests;

fn perform(
    session: &mut Session,
    job: Job,
    host: &dyn HostObserver,
    bounds: &Bounds,
) -> Result<(), TransferError> {
    match job {
        Job::Receive { destination, options } => {
            receive(session, &meant(bounds.name(&destination)?, &options), &options)
        }
        Job::Send { sources, options } => {
            let found = find(bounds, &sources, &options, &session.reporter())?;
            send(session, &found, &options)
        }
        Job::List { sources, options } => {
            let report = session.reporter();
            let found = sender::find_sources(bounds, &sources, Finding::of(&options), &|problem| {
                report.problem(problem)
            })?;
            list(session, &found, &options)
        }
        Job::Discard { options } => {
            session.offer(&options)?;
            memory::discard(session)?;
            session.send_report()
        }
        Job::Observe => observe(session, host),
        Job::Clean { destination, remove } => {
            clean(session, &bounds.name(&destination)?.directory()?, remove)
        }
        Job::Digests { path, keep } => differences::serve(session, &differences::open(bounds, &path)?, keep),
        Job::Background => leave_behind(session, host),
        Job::Jobs { forget } => jobs(session, host, forget),
        Job::Attach(attention) => attend(session, host, &attention),
    }
}

/// The destination that `named` means. With [`Sync::into`](linerate_wire::control::Sync::into), as with rsync, the path
/// may be a pattern, which is expanded as by a shell.
fn meant(named: Named, options: &Options) -> Named {
    let is_like_rsync = options.sync.as_ref().is_some_and(|sync| sync.into);
    if is_like_rsync { expand_destination(named) } else { named }
}

/// Hands the client over to a process that outlives this one.
fn leave_behind(session: &mut Session, host: &dyn HostObserver) -> Result<(), TransferError> {
    let mut left = host.background().map_err(|error| {
        TransferError::Failed(format!("starting a process that outlives the login failed: {error}"))
    })?;
    match (left.stdin.take(), left.stdout.take()) {
        (Some(to), Some(from)) => session.relay(to, from),
        _ => Err(TransferError::Failed("the process that outlives the login has no pipes".into())),
    }
}

fn jobs(session: &mut Session, host: &dyn HostObserver, forget: bool) -> Result<(), TransferError> {
    for job in host.jobs(forget).map_err(TransferError::Failed)? {
        session.send(&Message::JobRecord(job))?;
    }
    session.send_report()
}

fn attend(
    session: &mut Session,
    host: &dyn HostObserver,
    attention: &JobAttention,
) -> Result<(), TransferError> {
    let mut gone = None;
    let attended = host.attend(attention, &mut |message| {
        let heard = session.send(&message).and_then(|()| session.check());
        heard.map_err(|error| gone = Some(error)).is_ok()
    });
    attended.map_err(TransferError::Arguments)?;
    gone.map_or_else(|| session.send_report(), Err)
}

fn receive(session: &mut Session, destination: &Named, options: &Options) -> Result<(), TransferError> {
    // An agent in a chain starts to listen later, when it knows which end will connect.
    if !session.is_chained() {
        session.offer(options)?;
    }
    match session.take_asked() {
        Some(asked) => receive_asked(session, destination, options, &asked)?,
        // Unless its client has sent a request, the agent doesn't know which entries the other agent may
        // send.
        None if session.has_partner() => return Err(out_of_turn()),
        None => drop(receiver::run(session, destination, options, None, UNHEARD)?),
    }
    session.send_report()
}

/// Receives from another agent the sources that the client has requested there, and nothing else.
fn receive_asked(
    session: &mut Session,
    destination: &Named,
    options: &Options,
    asked: &AskedSources,
) -> Result<(), TransferError> {
    let listed = options.listed.then(|| receive_selection(session)).transpose()?;
    let deliveries = Deliveries::new(session.channel(), asked.delivered);
    let request = Request { sources: &asked.sources, options, listed: listed.as_ref() };
    let known = |source, path: &RelPath, reported| deliveries.add(source, path, reported);
    receiver::run(session, destination, options, Some(&request), &known)?;
    deliveries.flush();
    Ok(())
}

/// Sends files from one of two agents that continue without their client to the other. What the other agent requests,
/// `asked` and a list of files, must be exactly `job` and the paths in `listed`. Returns the totals of the entries that
/// are in place at the other agent.
pub(crate) fn send_linked(
    session: &mut Session,
    job: &Job,
    asked: &Job,
    listed: Option<&FilesFrom>,
) -> Result<Totals, TransferError> {
    let Job::Send { sources, options } = job else { return Err(out_of_turn()) };
    if asked != job {
        return Err(TransferError::Breach(
            "the far end requests another transfer than the client requested".into(),
        ));
    }
    let reporter = session.reporter();
    let found = find(&Bounds::anywhere(), sources, options, &reporter)?;
    session.offer(options)?;
    let selected = options.listed.then(|| receive_selection(session)).transpose()?;
    if selected.as_ref() != listed {
        return Err(TransferError::Breach("the far end's list of files differs from the client's".into()));
    }
    send_found(session, &found, options, selected)
}

fn find(
    bounds: &Bounds,
    sources: &[Vec<u8>],
    options: &Options,
    reporter: &Reporter,
) -> Result<FoundSources, TransferError> {
    let report = |problem| reporter.problem(problem);
    let found = sender::find_sources(bounds, sources, Finding::of(options), &report)?;
    sender::not_left_out(found, options)
}

fn send(session: &mut Session, found: &FoundSources, options: &Options) -> Result<(), TransferError> {
    session.offer(options)?;
    let listed = options.listed.then(|| receive_selection(session)).transpose()?;
    send_found(session, found, options, listed).map(drop)
}

fn send_found(
    session: &mut Session,
    found: &FoundSources,
    options: &Options,
    listed: Option<FilesFrom>,
) -> Result<Totals, TransferError> {
    let reporter = session.reporter();
    let report = |problem| reporter.problem(problem);
    let selection = Selection::new(options, listed);
    let counters = session.meters.local.clone();
    let sent = scan_ahead(found, options, &selection, &counters, &report, |ahead| {
        sender::run(session, found, ahead, options, UNHEARD, None)
    })?;
    session.send_report()?;
    Ok(sent.landed)
}

/// # Errors
/// If the client is gone, or lists more paths than the limit.
pub(crate) fn receive_selection(session: &mut Session) -> Result<FilesFrom, TransferError> {
    let mut listed = FilesFrom::default();
    session.receive_selection(|path| {
        listed.add(path).map_err(|error| TransferError::Arguments(error.to_string()))
    })?;
    Ok(listed)
}

fn list(session: &mut Session, found: &[SourceRoot], options: &Options) -> Result<(), TransferError> {
    let reporter = session.reporter();
    let report = |problem| reporter.problem(problem);
    let channel = session.channel();
    let listed = options.listed.then(|| receive_selection(session)).transpose()?;
    let selection = Selection::new(options, listed);
    survey(found, options.keep, &selection, &session.meters.local, &report, |path, entry, size| {
        let path = path.as_os_str().as_bytes().to_vec();
        let listed = Message::Listed { path, entry: entry.clone(), size };
        // If the client is gone, a later step notices it.
        let _ = channel.send(&listed);
    });
    session.send_report()
}

fn clean(session: &mut Session, root: &Root, remove: bool) -> Result<(), TransferError> {
    let (channel, reporter) = (session.channel(), session.reporter());
    // If the client is gone, a later step notices it.
    let report = |left| drop(channel.send(&Message::Leftover(left)));
    leftovers::clean(root, remove, report, |problem| reporter.problem(problem));
    session.send_report()
}

fn observe(session: &mut Session, host: &dyn HostObserver) -> Result<(), TransferError> {
    let mut recording = None;
    loop {
        match session.receive() {
            Ok(Message::AskFacts(paths)) => session.send(&Message::Answer(host.facts(paths)))?,
            Ok(Message::AskCpu) => session.send(&Message::Answer(host.cpu()))?,
            Ok(Message::StartSampling(sampling)) => {
                // The previous recording must end before the next begins.
                drop(recording.take());
                recording = start(session, host.record(&sampling))?;
            }
            Ok(Message::TakeSamples { last }) => report_samples(session, &mut recording, last)?,
            Ok(_) => {
                refuse(session, "this agent was started only to answer questions about its host".into())?
            }
            // The client has no more questions.
            Err(_) => return Ok(()),
        }
    }
}

type Started = Result<Box<dyn Recording>, String>;

fn start(session: &Session, started: Started) -> Result<Option<Box<dyn Recording>>, TransferError> {
    match started {
        Ok(recording) => {
            session.send(&Message::Answer(recording.interval_ms().to_string().into_bytes()))?;
            Ok(Some(recording))
        }
        Err(reason) => refuse(session, reason).map(|()| None),
    }
}

fn report_samples(
    session: &Session,
    recording: &mut Option<Box<dyn Recording>>,
    last: bool,
) -> Result<(), TransferError> {
    let taken = match recording.take() {
        Some(ending) if last => ending.stop(),
        Some(mut going_on) => {
            let taken = going_on.take();
            *recording = Some(going_on);
            taken
        }
        None => return refuse(session, "no recording is running".into()),
    };
    for piece in taken.chunks(MAX_SAMPLES) {
        session.send(&Message::Samples(piece.to_vec()))?;
    }
    session.send(&Message::Samples(Vec::new()))
}

fn refuse(session: &Session, reason: String) -> Result<(), TransferError> {
    session.send(&Message::Abort { reason, kind: AbortKind::Failed })
}
