//! The sending end: all steps from the sources to the receiver's message that everything is on stable
//! storage.

use crossbeam_channel::{Receiver, Sender as CrossbeamSender, TrySendError, bounded};
use linerate_wire::control::{
    BlockSearch, BlockSum, MAX_ANSWER_BLOCKS, MAX_OPEN_OFFERS, MAX_SOURCES, Message, Options, Problem,
    ProblemKind, Totals, Want,
};
use linerate_wire::entry::Entry;
use linerate_wire::frame::WINDOW_LOG;
use linerate_wire::path::RelPath;
use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::Instant;

use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::channel::Channel;
use crate::net::crew::Crew;
use crate::net::pace::Pace;
use crate::net::rate::RateLimit;
use crate::net::session::{Event, FEWER, Session, TICK, check_length, out_of_turn};
use crate::send::again::{self, Resend, ResendVerdict};
use crate::send::ahead::Ahead;
use crate::send::chain::{ChainLead, DAMAGED};
use crate::send::compressing::Compressing;
use crate::send::fan::FanMember;
use crate::send::offer::{Answer, Hash, OfferState, Offers};
use crate::send::plan::{Planner, Unit};
use crate::send::reading::digest;
use crate::send::removable::Removable;
use crate::send::streams::Streams;
use crate::send::transmission::Transmission;
use crate::send::under_way::UnderWay;
use crate::send::work::Work;
use crate::send::worker::SendWorker;
use crate::send::worker_links::WorkerLinks;
use crate::tree::bounds::{Bounds, Named};
use crate::tree::digest::ledger::{Known, Ledger};
pub use crate::tree::entered::reaches;
use crate::tree::filter::{Filter, Side};
use crate::tree::pattern::expand;
use crate::tree::reported::reported_path;
pub use crate::tree::selection::{MissingPath, Selection};
pub use crate::tree::source_root::{Finding, SourceRoot};

/// The number of units that may wait for a worker.
const QUEUE: usize = 32;
/// The error message that no source can be copied.
pub const NONE_FOUND: &str = "none of the sources can be copied";
/// The message of a copy whose filter rules leave out all sources.
pub const ALL_LEFT_OUT: &str = "the rules leave out all sources";
/// The message that all sources are missing, in a case in which that isn't an error.
pub const NONE_IS_THERE: &str = "none of the sources exists";

/// The result of the sending end.
pub struct Sent {
    /// The entries that the receiver has put in place.
    pub landed: Totals,
    /// The number of streams that carried data.
    pub streams: u32,
    /// True if the destination takes each source under its own name; this is known only if digests are sent.
    pub within: bool,
}

/// The sources that were found.
pub struct FoundSources {
    roots: Vec<SourceRoot>,
    /// False if a source that the user named was not found and may have entries: then nothing may be deleted.
    pub(super) are_whole: bool,
}

impl FoundSources {
    /// The first source.
    pub fn into_first(self) -> Option<SourceRoot> {
        self.roots.into_iter().next()
    }
}

impl Deref for FoundSources {
    type Target = [SourceRoot];

    fn deref(&self) -> &[SourceRoot] {
        &self.roots
    }
}

/// Finds the sources that the user named, according to `finding`, and reports those that don't exist. At the far end,
/// this function also expands patterns, because no shell has expanded them.
///
/// # Errors
/// If no source exists, or there are more sources than one transfer can announce.
pub fn find_sources(
    bounds: &Bounds,
    written: &[Vec<u8>],
    finding: Finding,
    report: &dyn Fn(Problem),
) -> Result<FoundSources, TransferError> {
    let (mut sources, mut missing, mut are_whole) = (Vec::new(), 0, true);
    for (argument, written) in (0..).zip(written) {
        let named = bounds.name(written)?;
        let is_passed_over = finding.ignores_missing && named.lacks_only_name();
        let mut failed = |problem: Problem| {
            are_whole &= problem.kind == ProblemKind::Skipped
                || finding.deletes_despite_missing && named.lacks_only_name();
            report(problem);
        };
        let names = if bounds.is_far() { expand(named.clone()) } else { Ok(vec![named.clone()]) };
        let names = match names {
            Ok(names) if is_passed_over && names.iter().all(Named::is_missing) => Vec::new(),
            Err(_) if is_passed_over => Vec::new(),
            names => names.unwrap_or_else(|problem| {
                failed(problem);
                Vec::new()
            }),
        };
        missing += usize::from(is_passed_over && names.is_empty());
        for name in names {
            let found = SourceRoot::find(&name, argument, finding);
            match found.and_then(|source| source.opened_as(finding)) {
                Ok(source) => sources.push(source),
                Err(problem) => failed(problem),
            }
        }
    }
    match sources.len() {
        0 if missing == written.len() => return Err(TransferError::NoSource(NONE_IS_THERE.into())),
        0 => return Err(TransferError::NoSource(NONE_FOUND.into())),
        1..=MAX_SOURCES => {}
        _ => return Err(TransferError::Arguments(format!("more than {MAX_SOURCES} sources: {FEWER}"))),
    }
    check_length(&announcement(&sources))?;
    Ok(FoundSources { roots: sources, are_whole })
}

/// If the sources get their own names below the destination, as with rsync (`sync.into`), the sources that the filter
/// rules of `options` don't leave out; otherwise all sources.
///
/// # Errors
/// If the rules leave out all sources.
pub fn not_left_out(mut sources: FoundSources, options: &Options) -> Result<FoundSources, TransferError> {
    if options.sync.as_ref().is_some_and(|sync| sync.into) {
        sources.roots.retain(|source| {
            let scope = Filter::new(&options.filter, Side::Sender, source.place(true)).scope();
            !scope.excludes(&RelPath::root(), source.source.directory)
        });
    }
    if sources.is_empty() {
        return Err(TransferError::NoSource(ALL_LEFT_OUT.into()));
    }
    Ok(sources)
}

fn announcement(sources: &[SourceRoot]) -> Message {
    Message::Sources(sources.iter().map(|source| source.source.clone()).collect())
}

/// Sends the sources, whose entries come from `ahead`, and waits until they are in place. If digests are
/// requested, `known` receives them. With a `member`, the transfer shares the bytes that it reads with other
/// transfers.
///
/// # Errors
/// If the transfer as a whole fails; problems of single entries are reported and counted.
pub fn run(
    session: &mut Session,
    sources: &[SourceRoot],
    ahead: Ahead<'_>,
    options: &Options,
    known: Known<'_>,
    member: Option<&FanMember>,
) -> Result<Sent, TransferError> {
    let announced = announce(session, sources, options)?;
    run_announced(session, announced, sources, ahead, options, known, Sharing { member, chain: None })
}

/// The transfers or hosts that share data with a transfer.
#[derive(Clone, Copy, Default)]
pub struct Sharing<'a> {
    /// The transfer shares the bytes that it reads with other transfers, each of which sends them to its own
    /// host.
    pub member: Option<&'a FanMember>,
    /// The transfer's host forwards the data to other hosts.
    pub chain: Option<&'a ChainLead>,
}

/// The receiver's answer to the sources that were announced to it.
#[derive(Clone, Copy)]
pub struct Welcome {
    /// True if the destination takes each source under its own name; this is known only if digests are sent.
    within: bool,
    /// True if the receiver may already have some of the entries.
    pub offers: bool,
    window: u8,
}

/// Announces the sources, and waits until the receiver has a destination for each.
///
/// # Errors
/// If the receiver gives up or goes away, or has no destination for a source.
pub fn announce(
    session: &mut Session,
    sources: &[SourceRoot],
    options: &Options,
) -> Result<Welcome, TransferError> {
    session.send(&announcement(sources))?;
    let within = options.digests && session.keeps_source_names()?;
    let (offers, window) = session.wait_for_ready()?;
    Ok(Welcome { within, offers, window })
}

/// Does the same as [`run`], for sources that were already announced.
///
/// # Errors
/// The errors of [`run`].
pub fn run_announced(
    session: &mut Session,
    Welcome { within, offers, window }: Welcome,
    sources: &[SourceRoot],
    ahead: Ahead<'_>,
    options: &Options,
    known: Known<'_>,
    sharing: Sharing<'_>,
) -> Result<Sent, TransferError> {
    let Sharing { member, chain } = sharing;
    let window = if member.is_some() || chain.is_some() { WINDOW_LOG } else { window };
    let counters = session.meters.local.clone();
    let rate = options.rate_limit.map(RateLimit::new);
    let is_paced = !options.unpaced && options.rate_limit.is_none() && !session.is_within();
    let moved = report_of_moved(session, sources, options);
    let shared = Transmission {
        sources,
        moved: moved.as_ref().map(|moved| moved as _),
        removable: options.remove_sources.then(Removable::default),
        counters: &counters,
        problem: ahead.problem,
        rate: member.and_then(FanMember::rate).or(rate.as_ref()),
        compressing: Compressing::new(options, window).filter(|_| !session.is_within()),
        pace: is_paced.then(Pace::new),
        digests: options.digests.then(|| Ledger::new(known)),
        under_way: UnderWay::default(),
        splits: !session.is_within() && may_split(options, sharing),
        search: options.sync.as_ref().map_or(BlockSearch::SamePlaces, |sync| sync.search),
        stop: ahead.stop,
        leave: AtomicU32::new(0),
        working: AtomicU32::new(0),
        links: WorkerLinks::default(),
        unstated: AtomicU64::new(0),
        member: member.filter(|_| chain.is_none()),
        chain: chain.map(ChainLead::source),
    };
    chain.into_iter().for_each(|chain| chain.begins(&counters));
    let state = OfferState::default();
    let (selection, whole) = (ahead.selection, ahead.whole);
    let rounds = Rounds { shared: &shared, options, selection, whole, state: &state, chain };
    let (landed, streams) = rounds.run(session, ahead, offers)?;
    if let Some(removable) = &shared.removable {
        // Entries that weren't found, or that could not be listed, don't matter here: only the entries that
        // were found must have arrived.
        removable.remove(sources, landed == counters.found.get(), shared.problem);
    }
    Ok(Sent { landed, streams, within })
}

/// The function that reports each file that was sent, if changes are reported to a user at this end.
fn report_of_moved(
    session: &Session,
    sources: &[SourceRoot],
    options: &Options,
) -> Option<impl Fn(&Entry) + Sync + use<>> {
    let reports = |sync: &&linerate_wire::control::Sync| sync.itemize && !sync.dry_run && !session.is_agent();
    let into = options.sync.as_ref().filter(reports)?.into;
    let reporter = session.reporter();
    let announced: Vec<_> = sources.iter().map(|source| source.source.clone()).collect();
    Some(move |entry: &Entry| reporter.moved(&reported_path(&announced, entry, into)))
}

/// Whether streams may split a part. False if a file is written in place, or if several hosts get a file from
/// one read: the parts must then end where they were planned to end.
fn may_split(options: &Options, Sharing { member, chain }: Sharing<'_>) -> bool {
    (member.is_none() || chain.is_some()) && !options.sync.as_ref().is_some_and(|sync| sync.inplace)
}

/// The data that the rounds of a transfer share.
#[derive(Clone, Copy)]
struct Rounds<'a> {
    shared: &'a Transmission<'a>,
    options: &'a Options,
    selection: &'a Selection,
    /// True while everything in the sources could be read.
    whole: &'a AtomicBool,
    /// The state of the offers.
    state: &'a OfferState,
    chain: Option<&'a ChainLead>,
}

impl<'a> Rounds<'a> {
    /// Sends everything in one or two rounds; returns the totals that have landed, and the number of streams
    /// that carried data.
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
        let planner = if self.shared.member.is_some() { planner.in_step() } else { planner };
        thread::scope(|scope| {
            scope.spawn(|| self.plan(ahead, planner, offers.then_some((&*channel, answers))));
            let mut answers =
                Answers { answered: offers.then_some(answered), state: self.state, blocks: Vec::new() };
            let sent = self.round(scope, session, units, number, &mut answers, (first - 1, 0));
            drop(answers);
            let sent = sent.and_then(|used| self.settle(scope, session, first, used));
            self.shared.stop.store(true, Ordering::Relaxed);
            if sent.is_err() {
                session.cut();
            }
            sent
        })
    }

    /// Plans the entries that the scan finds. If there is a channel for offers, entries are offered first.
    fn plan(self, ahead: Ahead<'_>, planner: Planner, offers: Option<(&Channel, Receiver<Answer>)>) {
        let Self { shared, options, state, .. } = self;
        let Some((channel, answers)) = offers else { return ahead.hand_on(planner) };
        // To compute the digest of a divided file, each transfer that sends pieces of it would have to read the whole
        // file. Without a digest, the pieces are simply sent.
        let brought = options.details.divided.iter().filter(|file| file.brings());
        let divided: HashSet<&RelPath> = brought.map(|file| &file.path).collect();
        let is_divided = |entry: &Entry| entry.source == 0 && divided.contains(&entry.path);
        let hash = |entry: &Entry| {
            if is_divided(entry) { None } else { digest(shared.sources, entry, shared.stop) }
        };
        let hash = options.sync.as_ref().filter(|sync| sync.checksum).map(|_| &hash as Hash<'_>);
        let removable = shared.removable.as_ref();
        let offers =
            Offers::new(channel, answers, planner, shared.counters, hash, state, (options, shared.stop));
        ahead.hand_on(offers.noting(removable));
    }

    /// Waits for the receiver's verdict. If files are damaged on the receiver's storage, sends them again.
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
        let names = match again::verdict(session, self.shared)? {
            ResendVerdict::Committed(landed) => return Ok((landed, used)),
            // The other hosts of the chain or tree have these files undamaged, so the files aren't sent through it
            // again.
            ResendVerdict::Again(_) if self.chain.is_some() => {
                return Err(TransferError::Failed(DAMAGED.into()));
            }
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
        let mut answers = Answers { answered: None, state: self.state, blocks: Vec::new() };
        let number = Streams::fixed(streams);
        let used = self.round(scope, session, units, number, &mut answers, (streams, used))?;
        match again::verdict(session, self.shared)? {
            ResendVerdict::Committed(landed) => Ok((landed, used)),
            ResendVerdict::Again(_) => Err(out_of_turn()),
        }
    }

    /// Sends the units of one round on `more` new streams. Returns the total number of streams, including the
    /// `before` streams of earlier rounds.
    fn round<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        session: &mut Session,
        units: Receiver<Unit>,
        mut streams: Streams,
        answers: &mut Answers<'_>,
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
                Event::Message(Message::Skip { file }) => shared.skip(file)?,
                Event::Message(Message::Blocks(sums)) => answers.gather(sums)?,
                Event::Message(Message::Wanted(wants)) => answers.hand_on(wants)?,
                Event::Message(_) => return Err(out_of_turn()),
                Event::Tick => {}
            }
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                session.report_progress()?;
                streams.adjust(session, shared, crew.running)?;
                answers.check()?;
            }
        }
        answers.check()?;
        let (totals, complete) = (shared.counters.found.get(), self.whole.load(Ordering::Acquire));
        let streams = before.saturating_add(crew.used);
        let sent = Message::Sent { totals, streams, complete };
        session.send(&sent)?;
        self.chain.into_iter().for_each(|chain| chain.has_sent(sent.clone()));
        Ok(streams)
    }
}

/// Collects the receiver's answers for the thread that offers entries.
struct Answers<'a> {
    answered: Option<CrossbeamSender<Answer>>,
    state: &'a OfferState,
    /// Blocks that have arrived for the next answer.
    blocks: Vec<BlockSum>,
}

impl Answers<'_> {
    /// Keeps blocks for the answer that counts them.
    fn gather(&mut self, sums: Vec<BlockSum>) -> Result<(), TransferError> {
        if self.answered.is_none() || self.blocks.len() + sums.len() > MAX_ANSWER_BLOCKS {
            return Err(out_of_turn());
        }
        self.blocks.extend(sums);
        Ok(())
    }

    /// Passes an answer on. This method never waits, because the queue has room for an answer to each open offer.
    fn hand_on(&mut self, wants: Vec<Want>) -> Result<(), TransferError> {
        let blocks = std::mem::take(&mut self.blocks);
        let answered = self.answered.as_ref().ok_or_else(out_of_turn)?;
        match answered.try_send(Answer { wants, blocks }) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(out_of_turn()),
            Err(TrySendError::Disconnected(_)) if self.state.is_over.load(Ordering::Acquire) => {
                Err(out_of_turn())
            }
            // The offering thread has ended. If the receiver broke the protocol, `check` reports that; any other reason
            // is reported elsewhere.
            Err(TrySendError::Disconnected(_)) => self.check(),
        }
    }

    fn check(&self) -> Result<(), TransferError> {
        lock(&self.state.breach).take().map_or(Ok(()), |breach| Err(TransferError::Breach(breach)))
    }
}
