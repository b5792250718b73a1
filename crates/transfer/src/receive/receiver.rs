//! The receiving end, from the announced sources to the word that everything is on stable storage.

use crossbeam_channel::{Receiver, Sender as CrossbeamSender, TrySendError, bounded};
use linerate_wire::control::{MAX_OPEN_OFFERS, Message, Options, Problem, Source, Totals};
use linerate_wire::path::RelPath;
use rustix::fs::Mode;
use std::sync::Mutex;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Instant;

use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::channel::Channel;
use crate::net::crew::Crew;
use crate::net::session::{Event, Session, TICK, WorkerEnd, out_of_turn};
use crate::net::stream::Stream;
use crate::receive::admission::{self, Request, Terms};
use crate::receive::again;
use crate::receive::commit::{Committer, ToCommit, Touched};
use crate::receive::journal::Past;
use crate::receive::proof::{Proof, Verifier};
use crate::receive::remove::{News, Remover};
use crate::receive::resume::{self, Resume, settle};
use crate::receive::sink::{FIRST_NAMES, Older, Shared, Worker, note_still_opened};
use crate::receive::spool::Spool;
use crate::receive::wanted::{Comparer, Offer, OfferedNames};
use crate::tree::bounds::Named;
use crate::tree::digest::ledger::{Known, Told};
use crate::tree::landing::{Landing, umask};
use crate::tree::metadata::write::Writer as MetadataWriter;
use crate::tree::places::Places;
use crate::tree::temporary::Names;

/// What waits for the committer, up to 64 files at a time; each may be open.
const WAITING: usize = 16;
/// Files that stay and wait for the sender's digest: more than are offered and under way at a time.
const STANDING: usize = 65_536;

/// What the receiver's end came to.
pub struct Received {
    /// What is in place.
    pub landed: Totals,
    /// What the sender says it found.
    pub announced: Totals,
    /// Streams that carried data.
    pub streams: u32,
    /// The destination took each source under its own name.
    pub within: bool,
    /// The sources' names, as the sender announced them.
    pub sources: Vec<RelPath>,
}

/// Receives into `destination`. `request` is there where this end asked for what comes, and takes
/// nothing else. `known` is told the digests of files that are in place, where they are asked for.
///
/// # Errors
/// Where the transfer as a whole failed; problems of single entries are told and counted.
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
    let landing = match (resume::landing(destination, &sources, options), &options.sync) {
        (Some(again), _) => again,
        (None, Some(_)) => Landing::mirror(destination, &sources)?,
        (None, None) => Landing::find(destination, &sources)?,
    };
    let resume = Resume::find(session, &landing, options)?;
    let offers = options.sync.is_some() || resume.past.is_some();
    if options.digests {
        session.send(&Message::Within(landing.within))?;
    }
    session.send(&Message::Ready { offers })?;
    // Modes are made here, bit by bit; the kernel's mask would only take from them.
    rustix::process::umask(Mode::empty());
    let terms = Terms::new(&landing, options, request);
    let received = receive(session, &terms, sources, options, &resume, umask, known);
    rustix::process::umask(umask);
    // A client that is gone begins again, and must find what tells it that everything is there.
    let received = received.and_then(|received| session.stand_by().map(|()| received));
    let received = received.inspect_err(|error| resume.abandon(&landing, error))?;
    session.meanwhile(|| resume.finish(&landing))?;
    session.send(&Message::Committed(received.landed))?;
    Ok(received)
}

fn receive(
    session: &mut Session,
    terms: &Terms<'_>,
    sources: Vec<Source>,
    options: &Options,
    resume: &Resume,
    umask: Mode,
    known: Known<'_>,
) -> Result<Received, TransferError> {
    let landing = terms.landing();
    let reporter = session.reporter();
    let tell = |problem: Problem| reporter.problem(problem);
    let channel = session.channel();
    // A sender that is gone is noticed where its next message is waited for.
    let skip = |file: u64| drop(channel.send(&Message::Skip { file }));
    let counters = session.meters.local.clone();
    let names = Names::new(session.nonce(), options.verify);
    let (finished, whole) = bounded(WAITING);
    let shared = Shared {
        landing,
        terms,
        names: &names,
        assemblies: Mutex::default(),
        older: Older::default(),
        leaves: options.sync.clone().filter(|sync| sync.ignore_existing || sync.update),
        dry_run: options.sync.as_ref().is_some_and(|sync| sync.dry_run),
        inplace: options.sync.as_ref().is_some_and(|sync| sync.inplace),
        directories: Mutex::new(Spool::new(landing.root.top())),
        changed: Mutex::default(),
        first_names: Places::new(FIRST_NAMES),
        further_names: Mutex::new(Spool::new(landing.root.top())),
        finished,
        counters: &counters,
        problem: &tell,
        skip: &skip,
        past: resume.past.as_deref(),
        journal: &resume.journal,
        resumed: Mutex::default(),
        standing: Places::new(STANDING),
        keep: options.keep,
        digests: options.digests,
        writer: MetadataWriter::new(options.keep),
        umask,
    };
    resume.past.iter().for_each(|past| note_still_opened(past, &shared));
    let received = bring(session, &shared, whole, options, resume.past.as_deref(), known);
    if received.as_ref().is_err_and(TransferError::is_breach) {
        shared.discard();
    }
    let Brought { landed, announced, streams } = received?;
    let sources = sources.into_iter().map(|source| source.name).collect();
    Ok(Received { landed, announced, streams, within: landing.within, sources })
}

/// What came over the streams, as in [`Received`].
struct Brought {
    landed: Totals,
    announced: Totals,
    streams: u32,
}

/// Everything that the sender has, up to stable storage.
fn bring(
    session: &mut Session,
    shared: &Shared<'_>,
    whole: Receiver<ToCommit>,
    options: &Options,
    past: Option<&Past>,
    known: Known<'_>,
) -> Result<Brought, TransferError> {
    let (channel, reporter, counters) = (session.channel(), session.reporter(), shared.counters);
    let verifier = (options.digests && options.verify).then(|| Verifier::new(shared.problem));
    let verifier = verifier.as_ref();
    let proven = |proof: &Proof| known(proof.source, &proof.path, Told::Digest(proof.digest));
    let (problem, journal) = (shared.problem, shared.journal);
    let committer = Committer { counters, problem, journal, verifier, proven: &proven };
    let offers = options.sync.is_some() || past.is_some();
    let (mut touched, streams, announced, compared) = thread::scope(|scope| -> Result<_, TransferError> {
        let committing = scope.spawn(|| committer.run(whole));
        let mut crew = Crew::new(scope, |stream| work(shared, stream));
        let (settling, ended) = bounded(0);
        scope.spawn(|| settle(shared, ended));
        let mut desk = offers.then(|| {
            let news = News::new(reporter.clone(), session.is_agent());
            Desk::open(scope, shared, options, past, &channel, news)
        });
        let received = drive(session, &mut crew, &committing, desk.as_ref());
        let received = received.and_then(|received| match verifier {
            Some(_) if desk.as_ref().is_some_and(Desk::has_ended) => Ok(received),
            Some(verifier) if again::ask(session, verifier, &shared.finished)? => {
                drive(session, &mut crew, &committing, None)
            }
            _ => Ok(received),
        });
        session.cut();
        drop(settling);
        let compared = desk.take().map(Desk::close).transpose();
        // The committer is there, so it takes this.
        let _ = shared.finished.send(if received.is_ok() { ToCommit::End } else { ToCommit::Abandon });
        // An end that breaks the protocol is told so, not that it went away for it.
        let compared = compared?;
        let (streams, announced) = received?;
        while !committing.is_finished() {
            session.stand_by()?;
        }
        let touched = committing.join().unwrap_or_else(|_| Err("the committer failed".into()));
        Ok((touched.map_err(TransferError::Failed)?, streams, announced, compared))
    })?;
    if lock(&shared.assemblies).open().any(|assembly| !assembly.has_failed()) {
        return Err(TransferError::BadData("the far end left files unfinished".into()));
    }
    let missing = shared.terms.missing();
    if missing > 0 && counters.has_no_problem() {
        return Err(TransferError::BadData(format!(
            "the far end announced {missing} sources that it didn't send"
        )));
    }
    let mut last = Worker::new(shared);
    last.make_further_names(&mut touched, known).map_err(TransferError::Failed)?;
    if let Some((offered, remover)) =
        compared.filter(|_| options.sync.as_ref().is_some_and(|sync| sync.delete))
    {
        match announced.complete {
            true => remover.run(&shared.landing.places, &offered, &mut touched),
            false => remover.refuse(),
        }
    }
    session
        .meanwhile(|| {
            last.finish_directories(&mut touched)?;
            last.finish();
            touched.absorb(&lock(&shared.changed));
            touched.sync()
        })?
        .map_err(TransferError::Failed)?;
    let (landed, announced) = (counters.landed.get(), announced.totals);
    Ok(Brought { landed, announced, streams })
}

fn work(shared: &Shared<'_>, stream: Stream) -> WorkerEnd {
    let mut worker = Worker::new(shared);
    let result = stream.into_reader().run(&mut worker);
    let used = worker.frames > 0;
    worker.finish();
    (used, result)
}

fn drive<'scope, W: Fn(Stream) -> WorkerEnd + Send + Sync + 'scope>(
    session: &mut Session,
    crew: &mut Crew<'scope, '_, W>,
    committing: &ScopedJoinHandle<'_, Result<Touched, String>>,
    desk: Option<&Desk<'_, '_>>,
) -> Result<(u32, Announced), TransferError> {
    let mut announced = None;
    let mut looked = Instant::now();
    while announced.is_none_or(|(streams, _)| crew.used < streams) {
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
            session.tell_progress()?;
            // They end early only where the storage or the sender's offers failed; the joins tell how.
            if committing.is_finished() || desk.is_some_and(Desk::has_ended) {
                break;
            }
        }
    }
    Ok((crew.used, announced.map(|(_, announced)| announced).unwrap_or_default()))
}

/// What the sender says it has sent.
#[derive(Clone, Copy, Default)]
struct Announced {
    totals: Totals,
    complete: bool,
}

/// Where offers are handed to the thread that answers them.
struct Desk<'scope, 'env> {
    offers: CrossbeamSender<Offer>,
    thread: ScopedJoinHandle<'scope, Result<Compared<'env>, TransferError>>,
}

type Compared<'env> = (OfferedNames, Remover<'env>);

impl<'scope, 'env: 'scope> Desk<'scope, 'env> {
    fn open(
        scope: &'scope Scope<'scope, 'env>,
        shared: &'env Shared<'env>,
        options: &'env Options,
        past: Option<&'env Past>,
        channel: &'env Channel,
        news: News,
    ) -> Self {
        let (offers, offered) = bounded(MAX_OPEN_OFFERS);
        let sync = options.sync.as_ref();
        let remover = Remover::new(shared, sync, &options.filter, news);
        let thread = scope.spawn(move || Comparer::new(shared, sync, past, channel, remover).run(&offered));
        Self { offers, thread }
    }

    /// Never waits: there is room for as many as may be open.
    fn hand_on(&self, offered: Offer) -> Result<(), TransferError> {
        match self.offers.try_send(offered) {
            Err(TrySendError::Full(_)) => {
                Err(TransferError::Breach("the far end breaks the protocol: too many offers are open".into()))
            }
            // The join tells why it ended.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    fn close(self) -> Result<Compared<'env>, TransferError> {
        drop(self.offers);
        self.thread.join().unwrap_or_else(|_| Err(TransferError::Failed("comparing failed".into())))
    }
}
