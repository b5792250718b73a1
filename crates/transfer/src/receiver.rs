//! The receiving end, from the announced sources to the word that everything is on stable storage.

use crossbeam_channel::bounded;
use linerate_wire::control::{Message, Options, Problem, Source, Totals};
use linerate_wire::entry::Entry;
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use crate::again;
use crate::commit::{Committer, ToCommit, Touched};
use crate::crew::Crew;
use crate::digest::ledger::Known;
use crate::landing::{Landing, umask};
use crate::pattern::expand_home;
use crate::problem::{TransferError, problem};
use crate::session::{Event, Session, TICK, WorkerEnd, out_of_turn};
use crate::sink::{Shared, Worker, chmod};
use crate::source::lock;
use crate::stream::Stream;
use crate::temporary::{Names, timestamps};
use crate::verify::{Proof, Verifier};
use linerate_wire::control::ProblemKind;

/// Whole files that wait for the committer; each may be open.
const WAITING_FILES: usize = 256;

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

/// Receives into `destination` as the user wrote it. `expected` looks at the announced sources: a client accepts
/// only names that it asked for. `known` is told the digests of files that are in place, where they are asked for.
///
/// # Errors
/// Where the transfer as a whole failed; problems of single entries are told and counted.
pub fn run(
    session: &mut Session,
    destination: &[u8],
    options: &Options,
    expected: impl Fn(&[Source]) -> Result<(), TransferError>,
    known: Known<'_>,
) -> Result<Received, TransferError> {
    let sources = session.receive_sources()?;
    expected(&sources)?;
    let umask = umask();
    // The near end's shell has seen the destination, the far end's has not.
    let destination = if session.is_agent() { expand_home(destination) } else { destination.to_vec() };
    let landing = Landing::find(&destination, &sources)?;
    if options.digests {
        session.send(&Message::Within(landing.within))?;
    }
    session.send(&Message::Ready { offers: false })?;
    // Modes are made here, bit by bit; the kernel's mask would only take from them.
    rustix::process::umask(Mode::empty());
    let received = receive(session, &landing, sources, options, umask, known);
    rustix::process::umask(umask);
    let received = received?;
    session.send(&Message::Committed(received.landed))?;
    Ok(received)
}

fn receive(
    session: &mut Session,
    landing: &Landing,
    sources: Vec<Source>,
    options: &Options,
    umask: Mode,
    known: Known<'_>,
) -> Result<Received, TransferError> {
    let reporter = session.reporter();
    let tell = |problem: Problem| reporter.problem(problem);
    let channel = session.channel();
    // A sender that is gone is noticed where its next message is waited for.
    let skip = |file: u64| drop(channel.send(&Message::Skip { file }));
    let counters = session.meters.local.clone();
    let names = Names::new(session.nonce(), options.verify);
    let (finished, whole) = bounded(WAITING_FILES);
    let shared = Shared {
        landing,
        arrived: sources.iter().map(|_| AtomicBool::new(false)).collect(),
        names: &names,
        assemblies: Mutex::new(HashMap::new()),
        directories: Mutex::default(),
        opened: Mutex::default(),
        finished,
        counters: &counters,
        problem: &tell,
        skip: &skip,
        keep: options.keep,
        digests: options.digests,
        umask,
    };
    let verifier = (options.digests && options.verify).then(|| Verifier::new(&tell));
    let verifier = verifier.as_ref();
    let proven = |proof: &Proof| known(proof.source, &proof.path, Some(proof.digest));
    let committer = Committer { counters: &counters, problem: &tell, verifier, proven: Some(&proven) };
    let (touched, streams, announced) = thread::scope(|scope| -> Result<_, TransferError> {
        let committing = scope.spawn(|| committer.run(whole));
        let mut crew = Crew::new(scope, |stream| work(&shared, stream));
        let received = drive(session, &mut crew, &committing).and_then(|received| match verifier {
            Some(verifier) if again::ask(session, verifier, &shared.finished)? => {
                drive(session, &mut crew, &committing)
            }
            _ => Ok(received),
        });
        session.cut();
        // The committer is there, so it takes this.
        let _ = shared.finished.send(if received.is_ok() { ToCommit::End } else { ToCommit::Abandon });
        let (streams, announced) = received?;
        let touched = committing.join().unwrap_or_else(|_| Err("the committer failed".into()));
        Ok((touched.map_err(TransferError::Failed)?, streams, announced))
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
    finish_directories(&shared, touched)?;
    let sources = sources.into_iter().map(|source| source.name).collect();
    Ok(Received { landed: counters.landed.get(), announced, streams, within: landing.within, sources })
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
) -> Result<(u32, Totals), TransferError> {
    let mut announced = None;
    let mut looked = Instant::now();
    while announced.is_none_or(|(streams, _)| crew.used < streams) {
        match session.next(crew.ends())? {
            Event::Stream(stream) => crew.hire(stream),
            Event::Worker(end) => crew.ended(end, session.is_tunnelled())?,
            Event::Message(Message::Sent { totals, streams, .. }) => announced = Some((streams, totals)),
            Event::Message(_) => return Err(out_of_turn()),
            Event::Tick => {}
        }
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            session.tell_progress()?;
            // It ends early only where the storage has failed; the join tells how.
            if committing.is_finished() {
                break;
            }
        }
    }
    Ok((crew.used, announced.map_or_else(Totals::default, |(_, totals)| totals)))
}

/// Modes and times of directories, deepest first: a parent may no longer let its owner in.
fn finish_directories(shared: &Shared<'_>, mut touched: Touched) -> Result<(), TransferError> {
    let opened = lock(&shared.opened).drain().map(|(path, mode)| (path, (mode, None))).collect::<Vec<_>>();
    let explicit = lock(&shared.directories).drain(..).collect::<Vec<_>>();
    let explicit = explicit
        .into_iter()
        .map(|(path, entry)| (path, (Mode::from_raw_mode(entry.mode), shared.keep.times.then_some(entry))));
    let modes: BTreeMap<RelPath, (Mode, Option<Entry>)> = opened.into_iter().chain(explicit).collect();
    for (path, (mode, times)) in modes.into_iter().rev() {
        if let Err(error) = finish_directory(shared, &path, mode, times.as_ref(), &mut touched) {
            let message = format!("setting the directory's mode or times failed: {error}");
            (shared.problem)(problem(shared.landing.root.shown(&path), ProblemKind::Failed, message));
        }
    }
    touched.sync().map_err(TransferError::Failed)
}

fn finish_directory(
    shared: &Shared<'_>,
    path: &RelPath,
    mode: Mode,
    times: Option<&Entry>,
    touched: &mut Touched,
) -> Result<(), Errno> {
    let held = shared.landing.root.directory(path)?;
    touched.add(&held);
    if let Some(entry) = times {
        rustix::fs::utimensat(held.as_fd(), ".", &timestamps(entry), AtFlags::empty())?;
    }
    chmod(&held, mode)
}
