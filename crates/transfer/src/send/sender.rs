//! The sending end, from the sources to the receiver's word that everything is on stable storage.

use crossbeam_channel::{Receiver, Sender as CrossbeamSender, TrySendError, bounded};
use linerate_wire::control::{Keep, MAX_OPEN_OFFERS, MAX_SOURCES, Message, Options, Problem, Totals, Want};
use linerate_wire::entry::Entry;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::Instant;

use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::channel::Channel;
use crate::net::clock::Counters;
use crate::net::crew::Crew;
use crate::net::pace::Pace;
use crate::net::rate::RateLimit;
use crate::net::session::{Event, FEWER, Session, TICK, check_length, out_of_turn};
use crate::send::again::{self, Resend, ResendVerdict};
use crate::send::ahead::Ahead;
use crate::send::offer::{Hash, OfferState, Offers};
use crate::send::plan::{Planner, Unit};
use crate::send::reading::digest;
use crate::send::removable::Removable;
use crate::send::streams::Streams;
use crate::send::under_way::UnderWay;
use crate::send::work::Work;
use crate::send::worker::{SendWorker, Transmission};
use crate::tree::bounds::Bounds;
use crate::tree::digest::ledger::{Known, Ledger};
use crate::tree::pattern::expand;
use crate::tree::scan::Scanner;
pub use crate::tree::selection::Selection;
pub use crate::tree::source_root::{Finding, SourceRoot};

/// Units that wait for a worker.
const QUEUE: usize = 32;
/// The result of the sending end.
pub struct Sent {
    /// Entries that the receiver has put in place.
    pub landed: Totals,
    /// Streams that carried data.
    pub streams: u32,
    /// The destination took each source under its own name; only known if digests are sent.
    pub within: bool,
}

/// Finds the sources that the user named; the ones that aren't there are reported. At the far end patterns
/// are expanded, since no shell has seen the names. How is what `finding` says.
///
/// # Errors
/// If not one is there, or they are more than one transfer can announce.
pub fn find_sources(
    bounds: &Bounds,
    written: &[Vec<u8>],
    finding: Finding,
    tell: &dyn Fn(Problem),
) -> Result<Vec<SourceRoot>, TransferError> {
    let mut sources = Vec::new();
    for (argument, written) in (0..).zip(written) {
        let named = bounds.name(written)?;
        let names = if bounds.is_far() { expand(named) } else { Ok(vec![named]) };
        for name in names.unwrap_or_else(|problem| {
            tell(problem);
            Vec::new()
        }) {
            let found = SourceRoot::find(&name, argument, finding);
            match if finding.follows { found.and_then(SourceRoot::following_links) } else { found } {
                Ok(source) => sources.push(source),
                Err(problem) => tell(problem),
            }
        }
    }
    match sources.len() {
        0 => return Err(TransferError::NoSource("none of the sources can be copied".into())),
        1..=MAX_SOURCES => {}
        _ => return Err(TransferError::Arguments(format!("more than {MAX_SOURCES} sources: {FEWER}"))),
    }
    check_length(&announcement(&sources))?;
    Ok(sources)
}

fn announcement(sources: &[SourceRoot]) -> Message {
    Message::Sources(sources.iter().map(|source| source.source.clone()).collect())
}

/// Walks the sources and lists each entry, with its path as the user would write it, instead of sending it.
pub fn survey(
    sources: &[SourceRoot],
    keep: Keep,
    selection: &Selection,
    counters: &Counters,
    tell: &(dyn Fn(Problem) + Sync),
    mut each: impl FnMut(&Path, &Entry),
) {
    let (queue, units) = bounded(QUEUE);
    let stop = AtomicBool::new(false);
    // Attributes and ACLs are large and of no interest.
    let Keep { hard_links, devices, specials, .. } = keep;
    let keep = Keep { hard_links, devices, specials, ..Keep::NOTHING };
    let mut show = |entry: &Entry| each(&sources[entry.source as usize].shown(&entry.path), entry);
    thread::scope(|scope| {
        let (found, stop) = (&counters.found, &stop);
        let scanner = Scanner { sources, found, problem: tell, keep, stop, selection };
        scope.spawn(move || scanner.run(Planner::new(queue, 1, false)));
        for unit in units {
            match unit {
                Unit::Batch(entries) => entries.iter().for_each(&mut show),
                Unit::Chunk { file, offset: 0, .. } => show(&file.entry),
                Unit::Chunk { .. } => {}
            }
        }
    });
}

/// Sends the sources, of which `ahead` brings what is in them, and waits until they are in place. `known` is told the
/// digests, where they are asked for.
///
/// # Errors
/// If the transfer as a whole failed; problems of single entries are reported and counted.
pub fn run(
    session: &mut Session,
    sources: &[SourceRoot],
    ahead: Ahead<'_>,
    options: &Options,
    known: Known<'_>,
) -> Result<Sent, TransferError> {
    session.send(&announcement(sources))?;
    let within = options.digests && session.keeps_source_names()?;
    let offers = session.wait_for_ready()?;
    let counters = session.meters.local.clone();
    let rate = options.rate_limit.map(RateLimit::new);
    let is_paced = !options.unpaced && options.rate_limit.is_none() && !session.is_within();
    let shared = Transmission {
        sources,
        removable: options.remove_sources.then(Removable::default),
        counters: &counters,
        problem: ahead.problem,
        rate: rate.as_ref(),
        pace: is_paced.then(Pace::new),
        digests: options.digests.then(|| Ledger::new(known)),
        under_way: UnderWay::default(),
        splits: !session.is_within() && !options.sync.as_ref().is_some_and(|sync| sync.inplace),
        stop: ahead.stop,
        leave: AtomicU32::new(0),
        working: AtomicU32::new(0),
        unstated: AtomicU64::new(0),
    };
    let state = OfferState::default();
    let rounds =
        Rounds { shared: &shared, options, selection: ahead.selection, whole: ahead.whole, state: &state };
    let (landed, streams) = rounds.run(session, ahead, offers)?;
    if let Some(removable) = &shared.removable {
        let is_all = landed == counters.found.get() && counters.has_no_problem();
        removable.remove(sources, is_all, shared.problem);
    }
    Ok(Sent { landed, streams, within })
}

/// All that the rounds of a transfer share.
#[derive(Clone, Copy)]
struct Rounds<'a> {
    shared: &'a Transmission<'a>,
    options: &'a Options,
    selection: &'a Selection,
    /// True while everything in the sources could be read.
    whole: &'a AtomicBool,
    /// What the offers come to.
    state: &'a OfferState,
}

impl<'a> Rounds<'a> {
    /// Sends everything; returns what landed, and how many streams carried data.
    fn run(
        self,
        session: &mut Session,
        ahead: Ahead<'a>,
        offers: bool,
    ) -> Result<(Totals, u32), TransferError> {
        let (queue, units) = bounded(QUEUE);
        let (answered, answers) = bounded(MAX_OPEN_OFFERS);
        let channel = session.channel();
        let number = Streams::new(self.options, self.shared.counters);
        let (first, streams) = (number.first, number.planned());
        let planner = Planner::new(queue, streams, self.options.keep.sparse);
        let planner = if session.is_within() { planner.finely() } else { planner };
        thread::scope(|scope| {
            scope.spawn(|| self.plan(ahead, planner, offers.then_some((&*channel, answers))));
            let answers = Answers { answered: offers.then_some(answered), state: self.state };
            let sent = self.round(scope, session, units, number, &answers, (first - 1, 0));
            drop(answers);
            let sent = sent.and_then(|used| self.settle(scope, session, first, used));
            self.shared.stop.store(true, Ordering::Relaxed);
            if sent.is_err() {
                session.cut();
            }
            sent
        })
    }

    /// Plans what the scan finds; with a channel and the answers on it, offers it first.
    fn plan(self, ahead: Ahead<'_>, planner: Planner, offers: Option<(&Channel, Receiver<Vec<Want>>)>) {
        let Self { shared, options, state, .. } = self;
        let Some((channel, answers)) = offers else { return ahead.hand_on(planner) };
        let hash = |entry: &Entry| digest(shared.sources, entry, shared.stop);
        let hash = options.sync.as_ref().filter(|sync| sync.checksum).map(|_| &hash as Hash<'_>);
        let removable = shared.removable.as_ref();
        let offers = Offers::new(channel, answers, planner, shared.counters, hash, state, options);
        ahead.hand_on(offers.noting(removable));
    }

    /// Waits for the receiver's word, and sends once more the files that came damaged to stable storage.
    fn settle<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        session: &mut Session,
        streams: u32,
        used: u32,
    ) -> Result<(Totals, u32), TransferError>
    where
        'a: 'scope,
    {
        let names = match session.awaiting("its word that everything is in place", again::verdict)? {
            ResendVerdict::Committed(landed) => return Ok((landed, used)),
            ResendVerdict::Again(names) if self.options.verify => {
                Resend::new(names, self.shared.sources.len())?
            }
            ResendVerdict::Again(_) => return Err(out_of_turn()),
        };
        let (queue, units) = bounded(QUEUE);
        self.shared.begin_round();
        session.begin_round();
        let keep = self.options.keep;
        let planner = Planner::new(queue, streams, keep.sparse);
        scope.spawn(move || again::rescan(self.shared, names, planner, keep, self.selection));
        let answers = Answers { answered: None, state: self.state };
        let number = Streams::fixed(streams);
        let used = self.round(scope, session, units, number, &answers, (streams, used))?;
        Ok((session.wait_for_commit()?, used))
    }

    /// Sends one round's units: opens `more` streams, and returns how many there were, with those `before`.
    fn round<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        session: &mut Session,
        units: Receiver<Unit>,
        mut streams: Streams,
        answers: &Answers<'_>,
        (more, before): (u32, u32),
    ) -> Result<u32, TransferError>
    where
        'a: 'scope,
    {
        let shared = self.shared;
        let work = Work::new(units);
        let mut crew = Crew::new(scope, move |stream| (true, SendWorker::new(shared, stream, &work).run()));
        session.more(more)?;
        let mut looked = Instant::now();
        while crew.used == 0 || crew.running > 0 {
            match session.next(crew.ends())? {
                Event::Stream(stream) => {
                    streams.meet(session, &stream)?;
                    crew.hire(stream);
                }
                Event::Worker(end) => crew.ended(end, session.is_tunnelled())?,
                Event::Message(Message::Skip { file }) => shared.under_way.skip(file)?,
                Event::Message(Message::Wanted(wants)) => answers.hand_on(wants)?,
                Event::Message(_) => return Err(out_of_turn()),
                Event::Tick => {}
            }
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                session.tell_progress()?;
                streams.adjust(session, shared, crew.running)?;
                answers.check()?;
            }
        }
        answers.check()?;
        let (totals, complete) = (shared.counters.found.get(), self.whole.load(Ordering::Acquire));
        let streams = before.saturating_add(crew.used);
        session.send(&Message::Sent { totals, streams, complete })?;
        Ok(streams)
    }
}

/// The way of the receiver's answers to whoever offers.
struct Answers<'a> {
    answered: Option<CrossbeamSender<Vec<Want>>>,
    state: &'a OfferState,
}

impl Answers<'_> {
    /// Never waits: there is room for as many as may be open.
    fn hand_on(&self, wants: Vec<Want>) -> Result<(), TransferError> {
        let answered = self.answered.as_ref().ok_or_else(out_of_turn)?;
        match answered.try_send(wants) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(out_of_turn()),
            Err(TrySendError::Disconnected(_)) if self.state.is_over.load(Ordering::Acquire) => {
                Err(out_of_turn())
            }
            // The reason why nobody offers any more is reported, or was.
            Err(TrySendError::Disconnected(_)) => self.check(),
        }
    }

    fn check(&self) -> Result<(), TransferError> {
        lock(&self.state.breach).take().map_or(Ok(()), |breach| Err(TransferError::Breach(breach)))
    }
}
