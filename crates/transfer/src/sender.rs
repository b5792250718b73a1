//! The sending end, from the sources to the receiver's word that everything is on stable storage.

use crossbeam_channel::bounded;
use linerate_wire::control::{Message, Options, Problem, Source, Totals};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use crate::auto::{Advice, Controller};
use crate::clock::process_usage;
use crate::crew::Crew;
use crate::problem::TransferError;
use crate::rate::RateLimit;
use crate::scan::{Scanner, Unit};
use crate::session::{Event, MAX_STREAMS, Session, TICK, WorkerEnd, out_of_turn};
use crate::source::{Shared, SourceRoot, Worker, expand, lock};
use crate::stream::Stream;

/// Units that wait for a worker.
const QUEUE: usize = 32;
/// Streams at the beginning where the user leaves it to us, and at most.
const FIRST_STREAMS: u32 = 2;
const MOST_AUTO_STREAMS: u32 = 16;

/// What the sender's end came to.
pub struct Sent {
    /// What the receiver has put in place.
    pub landed: Totals,
    /// Streams that carried data.
    pub streams: u32,
}

/// Finds the sources that the user named; the ones that aren't there are told.
///
/// # Errors
/// Where not one is there.
pub fn find_sources(
    session: &Session,
    written: &[Vec<u8>],
    options: &Options,
) -> Result<Vec<SourceRoot>, TransferError> {
    let mut sources = Vec::new();
    for (argument, written) in (0..).zip(written) {
        // What the user's own shell has not expanded at the near end is a name, at the far end a pattern.
        let names = if session.is_agent() { expand(written) } else { Ok(vec![written.clone()]) };
        let found = names.map(|names| {
            names
                .into_iter()
                .map(|name| SourceRoot::find(&name, argument, options.recursive))
                .collect::<Vec<_>>()
        });
        match found {
            Ok(found) => found.into_iter().for_each(|found| match found {
                Ok(source) => sources.push(source),
                Err(problem) => session.reporter().problem(problem),
            }),
            Err(problem) => session.reporter().problem(problem),
        }
    }
    if sources.is_empty() {
        return Err(TransferError::Arguments("none of the sources can be copied".into()));
    }
    Ok(sources)
}

/// Tells each unit of work to `each` instead of sending it.
pub fn survey(session: &Session, sources: &[SourceRoot], mut each: impl FnMut(Unit) + Send) -> Totals {
    let reporter = session.reporter();
    let tell = |problem: Problem| reporter.problem(problem);
    let (queue, units) = bounded(QUEUE);
    let (found, stop) = (&session.meters.local.found, AtomicBool::new(false));
    let scanner = Scanner { sources, queue, found, problem: &tell, streams: 1, stop: &stop };
    thread::scope(|scope| {
        scope.spawn(move || scanner.run());
        units.into_iter().for_each(&mut each);
    });
    found.get()
}

/// Sends the sources and waits until they are in place.
///
/// # Errors
/// Where the transfer as a whole failed; problems of single entries are told and counted.
pub fn run(session: &mut Session, sources: &[SourceRoot], options: &Options) -> Result<Sent, TransferError> {
    let announced: Vec<Source> = sources.iter().map(|source| source.source.clone()).collect();
    session.send(&Message::Sources(announced))?;
    session.wait_for_ready()?;
    let reporter = session.reporter();
    let tell = |problem: Problem| reporter.problem(problem);
    let counters = session.meters.local.clone();
    let rate = options.rate_limit.map(RateLimit::new);
    let shared = Shared {
        sources,
        counters: &counters,
        problem: &tell,
        rate: rate.as_ref(),
        skipped: Mutex::default(),
        stop: AtomicBool::new(false),
        leave: AtomicU32::new(0),
    };
    let (queue, units) = bounded(QUEUE);
    thread::scope(|scope| {
        let shared = &shared;
        let streams = options.streams.unwrap_or(FIRST_STREAMS);
        scope.spawn(move || {
            let (found, problem, stop) = (&shared.counters.found, shared.problem, &shared.stop);
            Scanner { sources, queue, found, problem, streams, stop }.run();
            shared.counters.scanned.store(true, Ordering::Release);
        });
        let crew = Crew::new(scope, move |stream| (true, Worker::new(shared, stream).run(&units)));
        let sent = drive(session, crew, shared, options);
        shared.stop.store(true, Ordering::Relaxed);
        if sent.is_err() {
            session.cut();
        }
        sent
    })
}

fn drive<'scope, W: Fn(Stream) -> WorkerEnd + Send + Sync + 'scope>(
    session: &mut Session,
    mut crew: Crew<'scope, '_, W>,
    shared: &Shared<'_>,
    options: &Options,
) -> Result<Sent, TransferError> {
    let mut streams = Streams::new(options);
    session.more(streams.first - 1)?;
    let mut looked = Instant::now();
    while crew.used == 0 || crew.running > 0 {
        match session.next(crew.ends())? {
            Event::Stream(stream) => crew.hire(stream),
            Event::Worker(end) => crew.ended(end)?,
            Event::Message(Message::Skip { file }) => drop(lock(&shared.skipped).insert(file)),
            Event::Message(_) => return Err(out_of_turn()),
            Event::Tick => {}
        }
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            session.tell_progress()?;
            streams.adjust(session, shared)?;
        }
    }
    session.send(&Message::Sent { totals: shared.counters.found.get(), streams: crew.used })?;
    Ok(Sent { landed: session.wait_for_commit()?, streams: crew.used })
}

/// The number of streams: as the user fixed it, or as it turns out best.
struct Streams {
    first: u32,
    controller: Option<Controller>,
}

impl Streams {
    fn new(options: &Options) -> Self {
        match options.streams {
            Some(fixed) => Self { first: fixed.clamp(1, MAX_STREAMS), controller: None },
            None => {
                let controller = Controller::new(FIRST_STREAMS, MOST_AUTO_STREAMS, Instant::now());
                Self { first: FIRST_STREAMS, controller: Some(controller) }
            }
        }
    }

    fn adjust(&mut self, session: &Session, shared: &Shared<'_>) -> Result<(), TransferError> {
        let Some(controller) = &mut self.controller else { return Ok(()) };
        let usage = process_usage();
        let cpu = usage.cpu_seconds / f64::from(usage.processors);
        match controller.advise(Instant::now(), shared.counters.stages().bytes, cpu) {
            Advice::Keep => {}
            Advice::Add(count) => session.more(count)?,
            Advice::Drop(count) => drop(shared.leave.fetch_add(count, Ordering::AcqRel)),
        }
        Ok(())
    }
}
