//! The receiving end, from the announced sources to the word that everything is on stable storage.

use crossbeam_channel::{Sender as CrossbeamSender, TrySendError, bounded};
use linerate_wire::control::{MAX_OPEN_OFFERS, Message, Offered, Options, Problem, Source, Totals};
use rustix::fs::Mode;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Instant;

use crate::channel::Channel;
use crate::commit::{Committer, ToCommit, Touched};
use crate::crew::Crew;
use crate::journal::Past;
use crate::landing::{Landing, umask};
use crate::metadata::write::Writer as MetadataWriter;
use crate::pattern::expand_home;
use crate::problem::TransferError;
use crate::remove::{News, Remover};
use crate::resume::{self, Resume, settle};
use crate::session::{Event, Session, TICK, WorkerEnd, out_of_turn};
use crate::sink::{Older, Shared, Worker};
use crate::source::lock;
use crate::stream::Stream;
use crate::temporary::Names;
use crate::wanted::{Comparer, OfferedNames};

/// What waits for the committer, up to 64 files at a time; each may be open.
const WAITING: usize = 16;

/// What the receiver's end came to.
pub struct Received {
    /// What is in place.
    pub landed: Totals,
    /// What the sender says it found.
    pub announced: Totals,
    /// Streams that carried data.
    pub streams: u32,
}

/// Receives into `destination` as the user wrote it. `expected` looks at the announced sources: a client accepts
/// only names that it asked for.
///
/// # Errors
/// Where the transfer as a whole failed; problems of single entries are told and counted.
pub fn run(
    session: &mut Session,
    destination: &[u8],
    options: &Options,
    expected: impl Fn(&[Source]) -> Result<(), TransferError>,
) -> Result<Received, TransferError> {
    session.limit_silence(options.timeout);
    let sources = session.receive_sources()?;
    expected(&sources)?;
    let umask = umask();
    // The near end's shell has seen the destination, the far end's has not.
    let destination = if session.is_agent() { expand_home(destination) } else { destination.to_vec() };
    let landing = match (resume::landing(&destination, &sources, options), &options.sync) {
        (Some(again), _) => again,
        (None, Some(_)) => Landing::mirror(&destination, &sources)?,
        (None, None) => Landing::find(&destination, &sources)?,
    };
    let resume = Resume::find(session, &landing, options)?;
    let offers = options.sync.is_some() || resume.past.is_some();
    session.send(&Message::Ready { offers })?;
    // Modes are made here, bit by bit; the kernel's mask would only take from them.
    rustix::process::umask(Mode::empty());
    let received = receive(session, &landing, sources.len(), options, &resume, umask);
    rustix::process::umask(umask);
    let received = received?;
    // A client that is gone begins again, and must find what tells it that everything is there.
    session.stand_by()?;
    session.meanwhile(|| resume.finish(&landing))?;
    session.send(&Message::Committed(received.landed))?;
    Ok(received)
}

fn receive(
    session: &mut Session,
    landing: &Landing,
    sources: usize,
    options: &Options,
    resume: &Resume,
    umask: Mode,
) -> Result<Received, TransferError> {
    let reporter = session.reporter();
    let tell = |problem: Problem| reporter.problem(problem);
    let channel = session.channel();
    // A sender that is gone is noticed where its next message is waited for.
    let skip = |file: u64| drop(channel.send(&Message::Skip { file }));
    let counters = session.meters.local.clone();
    let names = Names::new(session.nonce());
    let (finished, whole) = bounded(WAITING);
    let shared = Shared {
        landing,
        arrived: (0..sources).map(|_| AtomicBool::new(false)).collect(),
        names: &names,
        assemblies: Mutex::new(HashMap::new()),
        older: Older::default(),
        dry_run: options.sync.as_ref().is_some_and(|sync| sync.dry_run),
        inplace: options.sync.as_ref().is_some_and(|sync| sync.inplace),
        directories: Mutex::default(),
        first_names: Mutex::default(),
        further_names: Mutex::default(),
        opened: Mutex::default(),
        finished,
        counters: &counters,
        problem: &tell,
        skip: &skip,
        journal: &resume.journal,
        resumed: Mutex::default(),
        keep: options.keep,
        writer: MetadataWriter::new(options.keep),
        umask,
    };
    let committer = Committer { counters: &counters, problem: &tell, journal: &resume.journal };
    let past = resume.past.as_deref();
    let offers = options.sync.is_some() || past.is_some();
    let (mut touched, streams, announced, compared) = thread::scope(|scope| -> Result<_, TransferError> {
        let committing = scope.spawn(|| committer.run(whole));
        let crew = Crew::new(scope, |stream| work(&shared, stream));
        let (settling, ended) = bounded(0);
        scope.spawn(|| settle(&shared, ended));
        let mut desk = offers.then(|| {
            let news = News::new(reporter.clone(), session.is_agent());
            Desk::open(scope, &shared, options, past, &channel, news)
        });
        let received = drive(session, crew, &committing, desk.as_ref());
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
    if lock(&shared.assemblies).values().any(|assembly| !assembly.has_failed()) {
        return Err(TransferError::Failed("the far end left files unfinished".into()));
    }
    let missing = shared.arrived.iter().filter(|arrived| !arrived.load(Ordering::Relaxed)).count();
    if missing > 0 && counters.has_no_problem() {
        return Err(TransferError::Failed(format!(
            "the far end announced {missing} sources that it didn't send"
        )));
    }
    let mut last = Worker::new(&shared);
    last.make_further_names(&mut touched);
    if let Some((offered, remover)) =
        compared.filter(|_| options.sync.as_ref().is_some_and(|sync| sync.delete))
    {
        match announced.complete {
            true => remover.run(&landing.places, &offered, &mut touched),
            false => remover.refuse(),
        }
    }
    session.meanwhile(|| {
        last.finish_directories(&mut touched);
        last.finish();
        touched.sync().map_err(TransferError::Failed)
    })??;
    Ok(Received { landed: counters.landed.get(), announced: announced.totals, streams })
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
    mut crew: Crew<'scope, '_, W>,
    committing: &ScopedJoinHandle<'_, Result<Touched, String>>,
    desk: Option<&Desk<'_, '_>>,
) -> Result<(u32, Announced), TransferError> {
    let mut announced = None;
    let mut looked = Instant::now();
    while announced.is_none_or(|(streams, _)| crew.used < streams) {
        match session.next(crew.ends())? {
            Event::Stream(stream) => crew.hire(stream),
            Event::Worker(end) => crew.ended(end, session.is_tunnelled())?,
            Event::Message(Message::Sent { totals, streams, complete }) => {
                announced = Some((streams, Announced { totals, complete }));
            }
            Event::Message(Message::Offer(offered)) => desk.ok_or_else(out_of_turn)?.hand_on(offered)?,
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
    offers: CrossbeamSender<Vec<Offered>>,
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
    fn hand_on(&self, offered: Vec<Offered>) -> Result<(), TransferError> {
        match self.offers.try_send(offered) {
            Err(TrySendError::Full(_)) => {
                Err(TransferError::FarEnd("the far end breaks the protocol: too many offers are open".into()))
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
