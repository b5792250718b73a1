//! The receiving end: all steps from the announced sources to the message that everything is on stable
//! storage.

use crossbeam_channel::{Receiver, Sender as CrossbeamSender, TrySendError, bounded};
use linerate_sys::process::umask;
use linerate_wire::control::{MAX_OPEN_OFFERS, Message, Options, Problem, ProblemKind, Source, Totals};
use linerate_wire::path::RelPath;
use rustix::fs::Mode;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Instant;

use crate::base::lock::lock;
use crate::base::problem::{TransferError, problem};
use crate::net::chain::ChainHost;
use crate::net::compress::longest_window;
use crate::net::crew::Crew;
use crate::net::session::{Event, Session, TICK, WorkerEnd, out_of_turn, with_end};
use crate::net::stream::{Stream, StreamError};
use crate::receive::admission::{self, Request, Terms};
use crate::receive::again;
use crate::receive::changes::ChangeReports;
use crate::receive::commit::{Committer, ToCommit, Touched};
use crate::receive::land::{land, made_path, made_top, reports_made};
use crate::receive::near::Near;
use crate::receive::proof::{Proof, Verifier};
use crate::receive::reception::{Ground, Reception, Reports, Settings};
use crate::receive::remove::Remover;
use crate::receive::resume::{Resume, settle};
use crate::receive::sink::{ReceiveWorker, note_still_opened};
use crate::receive::wanted::{Comparer, Offer, OfferedNames};
use crate::tree::bounds::Named;
use crate::tree::digest::ledger::{Known, Reported};
use crate::tree::filter::Side;
use crate::tree::filter::attributes::AttributeRules;
use crate::tree::metadata::write::MetadataWriter;
use crate::tree::temporary::Names;
use crate::tree::ways::ImpliedWays;

/// The most messages that may wait for the committer. Each message has up to 64 files, which may all be open.
const WAITING: usize = 16;

/// The result of the receiving end.
pub struct Received {
    /// The totals of the entries that are in place.
    pub landed: Totals,
    /// The totals of the entries that the sender has found, as it announced them.
    pub announced: Totals,
    /// The number of streams that carried data.
    pub streams: u32,
    /// True if the destination takes each source under its own name.
    pub within: bool,
    /// The sources' names, as the sender announced them.
    pub sources: Vec<RelPath>,
}

/// Receives into `destination`. If `request` is set, this end has requested entries from the sender, and accepts only
/// the requested entries. If digests are requested, `known` receives the digest of each file that is in place.
///
/// # Errors
/// If the transfer as a whole fails; problems of single entries are reported and counted.
pub fn run(
    session: &mut Session,
    destination: &Named,
    options: &Options,
    request: Option<&Request<'_>>,
    known: Known<'_>,
) -> Result<Received, TransferError> {
    let sources = session.receive_sources()?;
    request.map_or(Ok(()), |request| request.admit(&sources))?;
    admission::refuse_reserved(&sources)?;
    let umask = umask();
    let (landing, made) = land(destination, &sources, options)?;
    // As with rsync, the creation of a destination that was written without a slash is reported only if the destination
    // takes several entries.
    let reports_made = options.sync.as_ref().is_some_and(|sync| reports_made(&landing, sync));
    if reports_made && landing.has_slash {
        session.reporter().changes(vec![made_top()]);
    }
    let above = if options.no_implied { Settings::new(options, umask).created() } else { Mode::RWXU };
    let landing =
        landing.keeping_links(options.details.keep_dirlinks).with_ways(ways(options, request), above);
    let created = Settings::new(options, umask).created();
    let reporter = session.reporter();
    let near = Near::find(destination, options, created, &|problem| reporter.problem(problem))?;
    near.partial.iter().for_each(|partial| partial.note_destination(landing.root.top()));
    let resume = Resume::find(session, &landing, options)?;
    let offers = options.sync.is_some() || resume.past.is_some();
    if options.digests {
        session.send(&Message::Within(landing.within))?;
    }
    session.send(&Message::Ready { offers, window: longest_window() })?;
    if made > 0 {
        session.reporter().problem(made_path(destination, &landing, made));
    }
    let joined = session.join_chain(options);
    // This program sets all modes explicitly; the kernel's umask would only remove bits.
    rustix::process::umask(Mode::empty());
    let terms = Terms::new(&landing, options, request).announced(&sources);
    let received =
        joined.and_then(|()| receive(session, (&terms, &near), sources, options, &resume, umask, known));
    rustix::process::umask(umask);
    // If the client is gone now, it will run the command again. The journal must still exist for that run, because it
    // shows that everything is in place.
    let received = received.and_then(|received| session.check().map(|()| received));
    let received = received.inspect_err(|error| resume.abandon(&landing, &near, error))?;
    session.meanwhile(|| resume.finish(&landing, &near))?;
    if let Some(host) = session.chain_host() {
        session.meanwhile(|| host.drain())?;
    }
    session.send(&Message::Committed(received.landed))?;
    Ok(received)
}

/// Determines which links at the destination may stand for directories above the entries that are sent: only links at
/// places for which no directory entries are sent (`--no-implied-dirs`). If this end requested the files on a list, the
/// far end can't have created such a link itself, because it may send only directories at these places.
fn ways(options: &Options, request: Option<&Request<'_>>) -> ImpliedWays {
    let is_like_rsync = options.sync.as_ref().is_some_and(|sync| sync.into);
    match request {
        _ if !options.no_implied || !is_like_rsync => ImpliedWays::None,
        None => ImpliedWays::Any,
        Some(request) => request
            .listed
            .map_or(ImpliedWays::None, |listed| ImpliedWays::At(listed.implied(options.listed_whole))),
    }
}

fn receive(
    session: &mut Session,
    (terms, near): (&Terms<'_>, &Near),
    sources: Vec<Source>,
    options: &Options,
    resume: &Resume,
    umask: Mode,
    known: Known<'_>,
) -> Result<Received, TransferError> {
    let landing = terms.landing();
    let reporter = session.reporter();
    let report = |problem: Problem| reporter.problem(problem);
    let channel = session.channel();
    // If the sender is gone, the code that waits for its next message reports the error.
    let skip = |file: u64| drop(channel.send(&Message::Skip { file }));
    let counters = session.meters.local.clone();
    let journal = &resume.journal;
    // With the journal, the next run knows which temporary names to remove.
    let announce = || journal.make_if_there_is_room().map(drop);
    let names =
        Names::new(session.nonce(), options.verify || options.details.dig_holes).announced_by(&announce);
    let (finished, whole) = bounded(WAITING);
    let (writer, past) = (writer(options, &report), resume.past.as_deref());
    let (names, writer) = (&names, &writer);
    let ground = Ground { landing, near, sources: &sources, terms, names, writer, past, journal };
    let moved = |path: &RelPath| reporter.moved(path);
    let is_reported = options.sync.as_ref().is_some_and(|sync| sync.itemize && !sync.dry_run);
    let moved = (is_reported && !session.is_agent()).then_some(&moved as _);
    let reports = Reports { finished, counters: &counters, problem: &report, moved, skip: &skip };
    let shared = Reception::new(Settings::new(options, umask), ground, reports);
    past.iter().for_each(|past| note_still_opened(past, &shared));
    let received = bring(session, &shared, whole, options, known);
    match &received {
        Err(error) if error.is_breach() => shared.discard(),
        Err(_) => shared.keep_partials(),
        Ok(_) => {}
    }
    let Taken { streams, announced, .. } = received?;
    let sources = sources.into_iter().map(|source| source.name).collect();
    let (landed, announced) = (counters.landed.get(), announced.totals);
    Ok(Received { landed, announced, streams, within: landing.within, sources })
}

/// The writer of entries' metadata; `report` receives problems about users and groups that are unknown on this host.
fn writer(options: &Options, report: &dyn Fn(Problem)) -> MetadataWriter {
    let rules = AttributeRules::new(&options.filter, Side::Receiver);
    MetadataWriter::new(options.keep).with_rules(rules).with(&options.details, |option, name| {
        let why = format!("Unknown {option} name on receiver: {name}; this rule is ignored");
        report(problem(Path::new(option), ProblemKind::Noted, why));
    })
}

/// The data for the receiver's last steps, after all streams have ended.
struct Taken<'a> {
    /// Directories that have changed.
    touched: Touched,
    streams: u32,
    announced: Announced,
    /// The offered names and the remover, if entries were offered.
    compared: Option<OfferComparison<'a>>,
}

/// Receives all entries from the sender, and writes them to stable storage.
fn bring<'a>(
    session: &mut Session,
    shared: &'a Reception<'a>,
    whole: Receiver<ToCommit>,
    options: &'a Options,
    known: Known<'_>,
) -> Result<Taken<'a>, TransferError> {
    let mut taken = take(session, shared, whole, options, known)?;
    check_whole(shared, taken.announced)?;
    let mut last = ReceiveWorker::new(shared);
    last.make_further_names(&mut taken.touched, known).map_err(TransferError::Failed)?;
    let deletes = options.sync.as_ref().is_some_and(|sync| sync.delete);
    if let Some((offered, remover)) = taken.compared.take().filter(|_| deletes) {
        match taken.announced.complete || options.sync.as_ref().is_some_and(|sync| sync.ignore_errors) {
            true => remover.run(&shared.ground.landing.places, &offered, &mut taken.touched),
            false => remover.refuse(),
        }
    }
    let mut touched = std::mem::take(&mut taken.touched);
    last.open_unlisted(&mut touched);
    session
        .meanwhile(|| {
            last.finish_directories(&mut touched)?;
            last.finish();
            touched.absorb(&lock(&shared.notes.changed));
            let root = &shared.ground.landing.root;
            let shown = root.shown(&RelPath::root());
            let report = |message| (shared.reports.problem)(problem(&shown, ProblemKind::Failed, message));
            touched.sync(root.top(), report)
        })?
        .map_err(TransferError::Failed)?;
    Ok(taken)
}

/// Receives all streams, until the committer has ended.
fn take<'a>(
    session: &mut Session,
    shared: &'a Reception<'a>,
    whole: Receiver<ToCommit>,
    options: &'a Options,
    known: Known<'_>,
) -> Result<Taken<'a>, TransferError> {
    let Reports { counters, problem, finished, moved, .. } = &shared.reports;
    let verifier = (options.digests && options.verify).then(|| Verifier::new(problem));
    let verifier = verifier.as_ref();
    let proven = |proof: &Proof| known(proof.source, &proof.path, Reported::Digest(proof.digest));
    let journal = shared.ground.journal;
    let Ground { names, landing, near, .. } = shared.ground;
    let (proven, moved) = (&proven, *moved);
    let committer = Committer { counters, problem, journal, verifier, proven, moved, names, landing, near };
    let offers = options.sync.is_some() || shared.ground.past.is_some();
    thread::scope(|scope| {
        let (commit, committed) = with_end(move || committer.run(whole));
        let committing = scope.spawn(commit);
        let chain = session.chain_host();
        let mut crew = Crew::new(scope, move |stream| work(shared, stream, chain.clone()));
        let (settling, ended) = bounded(0);
        scope.spawn(|| settle(shared, ended));
        let desk = offers.then(|| Desk::open(scope, shared, options, session));
        let received = take_rounds(session, &mut crew, &committing, desk.as_ref(), (verifier, finished));
        session.cut();
        drop(settling);
        let compared = desk.map(Desk::close).transpose();
        // If the committer is still running, it receives this message.
        let _ = finished.send(if received.is_ok() { ToCommit::End } else { ToCommit::Abandon });
        // If an end breaks the protocol, that error is reported, and not the later error that the end is gone.
        let compared = compared?;
        let (streams, announced) = received?;
        session.stand_by_until(&committed)?;
        let touched = committing.join().unwrap_or_else(|_| {
            Err("an error in linerate stopped the thread that writes to stable storage".into())
        });
        Ok(Taken { touched: touched.map_err(TransferError::Failed)?, streams, announced, compared })
    })
}

/// Receives the first round, and a second one if files are damaged on stable storage.
fn take_rounds<'scope, W: Fn(Stream) -> WorkerEnd + Send + Sync + 'scope>(
    session: &mut Session,
    crew: &mut Crew<'scope, '_, W>,
    committing: &ScopedJoinHandle<'_, Result<Touched, String>>,
    desk: Option<&Desk<'_, '_>>,
    (verifier, finished): (Option<&Verifier<'_>>, &CrossbeamSender<ToCommit>),
) -> Result<(u32, Announced), TransferError> {
    let received = drive(session, crew, committing, desk)?;
    match verifier {
        Some(_) if desk.is_some_and(Desk::has_ended) => Ok(received),
        Some(verifier) if again::ask(session, verifier, finished)? => drive(session, crew, committing, None),
        _ => Ok(received),
    }
}

/// Checks that the sender has sent all that it announced. A client that sends knows by itself what it couldn't read.
fn check_whole(shared: &Reception<'_>, announced: Announced) -> Result<(), TransferError> {
    if lock(&shared.notes.assemblies).open().any(|assembly| !assembly.has_failed()) {
        return Err(TransferError::BadData(
            "the far end ended before it had sent all parts of some files".into(),
        ));
    }
    let is_known = !announced.complete && !shared.ground.terms.is_request();
    match shared.ground.terms.missing() {
        missing if missing > 0 && !is_known && shared.reports.counters.has_no_problem() => Err(
            TransferError::BadData(format!("the far end announced {missing} sources that it didn't send")),
        ),
        _ => Ok(()),
    }
}

fn work(shared: &Reception<'_>, stream: Stream, chain: Option<Arc<ChainHost>>) -> WorkerEnd {
    let mut worker = ReceiveWorker::new(shared);
    let unpacks = shared.settings.unpacks.clone();
    let mut reader = match chain {
        Some(chain) => stream.into_sealed_reader(chain, unpacks),
        None => stream.into_reader(unpacks),
    };
    let result = reader.run(&mut worker);
    match &result {
        Ok(()) | Err(StreamError::Protocol(_) | StreamError::Refused(_)) => {}
        Err(_) => worker.keep_whole(),
    }
    worker.finish();
    (reader.is_used(), result)
}

fn drive<'scope, W: Fn(Stream) -> WorkerEnd + Send + Sync + 'scope>(
    session: &mut Session,
    crew: &mut Crew<'scope, '_, W>,
    committing: &ScopedJoinHandle<'_, Result<Touched, String>>,
    desk: Option<&Desk<'_, '_>>,
) -> Result<(u32, Announced), TransferError> {
    let mut announced = None;
    let mut looked = Instant::now();
    let mut supply = session.supply();
    while crew.is_awaited(announced.map(|(streams, _)| streams))? {
        match session.next(crew.ends())? {
            Event::Stream(stream) => crew.hire(stream),
            Event::Worker(end) => crew.ended(end, session.is_tunnelled())?,
            Event::Message(Message::Sent { totals, streams, complete }) if announced.is_none() => {
                announced = Some((streams, Announced { totals, complete }));
            }
            Event::Message(Message::Offer(offered)) => {
                desk.ok_or_else(out_of_turn)?.hand_on((offered, session.take_room()))?;
            }
            Event::Message(_) => return Err(out_of_turn()),
            Event::Tick => {}
        }
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            session.report_progress()?;
            if let Some(supply) = &mut supply {
                let source = lock(&session.meters.remote).stages;
                supply.look(&source, announced.is_some(), looked).map_err(TransferError::Cut)?;
            }
            // The committer and the thread that answers offers end early only if the storage failed or the sender's
            // offers were invalid. Joining the threads returns the reason.
            if committing.is_finished() || desk.is_some_and(Desk::has_ended) {
                break;
            }
        }
    }
    Ok((crew.used, announced.map(|(_, announced)| announced).unwrap_or_default()))
}

/// The totals that the sender announces when it has sent everything.
#[derive(Clone, Copy, Default)]
struct Announced {
    totals: Totals,
    complete: bool,
}

/// Passes offers to the thread that answers them, and holds that thread's handle.
struct Desk<'scope, 'a> {
    offers: CrossbeamSender<Offer>,
    thread: ScopedJoinHandle<'scope, Result<OfferComparison<'a>, TransferError>>,
}

type OfferComparison<'a> = (OfferedNames, Remover<'a>);

impl<'scope, 'a: 'scope> Desk<'scope, 'a> {
    fn open(
        scope: &'scope Scope<'scope, '_>,
        shared: &'a Reception<'a>,
        options: &'a Options,
        session: &Session,
    ) -> Self {
        let (offers, offered) = bounded(MAX_OPEN_OFFERS);
        let (sync, channel) = (options.sync.as_ref(), session.channel());
        let changes = ChangeReports::new(session.reporter(), session.is_agent() && !session.is_within());
        let remover = Remover::new(shared, sync, &options.filter, changes);
        let thread = scope.spawn(move || Comparer::new(shared, sync, channel, remover).run(&offered));
        Self { offers, thread }
    }

    /// Passes on an offer. This never waits, because the queue has room for as many offers as may be open.
    fn hand_on(&self, offered: Offer) -> Result<(), TransferError> {
        match self.offers.try_send(offered) {
            Err(TrySendError::Full(_)) => Err(TransferError::Breach(
                "the far end breaks the protocol: it offers more entries before the answers than allowed"
                    .into(),
            )),
            // The reason why the thread ended is returned when the thread is joined.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    fn close(self) -> Result<OfferComparison<'a>, TransferError> {
        drop(self.offers);
        self.thread.join().unwrap_or_else(|_| {
            Err(TransferError::Failed("an error in linerate stopped the comparison".into()))
        })
    }
}
