//! Offers the found entries to a receiver that may already have them, and queues the entries that the
//! receiver requests.

use crossbeam_channel::{Receiver, TryRecvError};
use linerate_wire::control::{
    Appending, BlockSearch, BlockSum, Digest, MAX_OFFERS, MAX_OPEN_OFFERS, Message, Offered, Options, Want,
};
use linerate_wire::entry::{Entry, Kind, Origin};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::lock::lock;
use crate::net::channel::Channel;
use crate::net::clock::Counters;
use crate::send::orphans::Orphans;
use crate::send::plan::{Cut, HeldChunks, Planner};
use crate::send::removable::Removable;
use crate::send::search::BlockTable;
use crate::tree::blocks::{BLOCK_LEAST, BLOCK_MOST};
use crate::tree::scan::{Seen, Stopped, Taker};

/// An offer is sent when it has about this many bytes. Even with the largest entry added, the offer is far shorter than
/// the longest message.
const OFFER_BYTES: usize = 256 << 10;
/// The most bytes of an offered entry in addition to its names and attributes.
const ENTRY_BYTES: usize = 128;
/// The limits of chunk sizes that a receiver may request, in bytes.
const CHUNK_LEAST: u64 = 64 << 10;
const CHUNK_MOST: u64 = 1 << 30;

/// If the tables of all files have this many blocks in total, no further table is created until there are
/// fewer.
const LIVE_BLOCKS: u64 = 1 << 20;
/// The interval at which the offering thread checks whether there is room for another table.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A function that computes the digest of a file's contents; `None` if they can't be read. The worker that
/// sends the file reports the error.
pub type Hash<'a> = &'a (dyn Fn(&Entry) -> Option<Digest> + Sync);

/// The state of the offers, which the session's thread reads.
#[derive(Default)]
pub struct OfferState {
    /// The receiver's violation of the protocol, which ends the transfer; `None` if there was none.
    pub breach: Mutex<Option<String>>,
    /// True once all offers are made and answered: another answer would violate the protocol.
    pub is_over: AtomicBool,
}

/// The receiver's answer to an offer, and the blocks that belong to it.
pub struct Answer {
    /// One element for each entry of the offer.
    pub wants: Vec<Want>,
    /// The blocks of all files in the answer, in the order of the files.
    pub blocks: Vec<BlockSum>,
}

/// Takes the scanner's entries and offers them to the receiver.
pub struct Offers<'a> {
    /// The channel on which offers are sent.
    pub channel: &'a Channel,
    /// The receiver's answers, in order.
    pub answers: Receiver<Answer>,
    /// Cuts the requested files into units.
    pub planner: Planner,
    /// This end's counters.
    pub counters: &'a Counters,
    /// Computes digests, if contents are compared.
    pub hash: Option<Hash<'a>>,
    /// The state of the offers, for the session's thread.
    pub state: &'a OfferState,
    /// Records the entries that the receiver has or gets, if sources are removed after the transfer.
    removable: Option<&'a Removable>,
    /// True in a dry run, in which requested entries aren't sent.
    dry_run: bool,
    /// True if the receiver's older versions may be used with pieces at any offset.
    moves: bool,
    /// True if a file that is shorter at the receiver gets the missing bytes appended.
    appends: bool,
    /// Set to end the transfer early.
    stop: &'a AtomicBool,
    /// True if digests are sent for all files, including those that the receiver already has.
    digests: bool,
    pending: Vec<Offered>,
    /// Further properties of the entries in `pending`, in the same order.
    seen: Vec<Seen>,
    pending_bytes: usize,
    open: VecDeque<(Vec<Offered>, Vec<Seen>)>,
    orphans: Orphans,
    /// The blocks of the current answer that haven't been used yet. `live` counts the blocks of all tables.
    blocks: std::vec::IntoIter<BlockSum>,
    live: Arc<AtomicU64>,
}

impl<'a> Offers<'a> {
    /// Offers that are sent on `channel`; the receiver's answers are in `answers`.
    pub fn new(
        channel: &'a Channel,
        answers: Receiver<Answer>,
        planner: Planner,
        counters: &'a Counters,
        hash: Option<Hash<'a>>,
        state: &'a OfferState,
        (options, stop): (&Options, &'a AtomicBool),
    ) -> Self {
        Self {
            channel,
            answers,
            planner,
            counters,
            hash,
            state,
            removable: None,
            dry_run: options.sync.as_ref().is_some_and(|sync| sync.dry_run),
            moves: options.sync.as_ref().is_some_and(|sync| sync.search != BlockSearch::SamePlaces),
            stop,
            appends: options.details.placing.append != Appending::Never,
            digests: options.digests,
            pending: Vec::new(),
            seen: Vec::new(),
            pending_bytes: 0,
            open: VecDeque::new(),
            orphans: Orphans::default(),
            blocks: Vec::new().into_iter(),
            live: Arc::default(),
        }
    }

    /// Makes these offers record the entries that the receiver has or gets.
    pub fn noting(self, removable: Option<&'a Removable>) -> Self {
        Self { removable, ..self }
    }

    fn offer(&mut self) -> Result<(), Stopped> {
        let offered = std::mem::replace(&mut self.pending, Vec::with_capacity(MAX_OFFERS));
        self.pending_bytes = 0;
        if offered.is_empty() {
            return Ok(());
        }
        while self.open.len() >= MAX_OPEN_OFFERS {
            self.wait()?;
        }
        let message = Message::Offer(offered);
        self.channel.send(&message).map_err(|_| Stopped)?;
        let Message::Offer(offered) = message else { return Ok(()) };
        let seen = std::mem::replace(&mut self.seen, Vec::with_capacity(MAX_OFFERS));
        self.open.push_back((offered, seen));
        self.take_what_came()
    }

    /// Waits for an answer. If the transfer ends early, the session's thread closes the queue of answers,
    /// which ends the wait.
    fn wait(&mut self) -> Result<(), Stopped> {
        let answer = self.answers.recv().map_err(|_| Stopped)?;
        self.answered(answer)
    }

    fn take_what_came(&mut self) -> Result<(), Stopped> {
        loop {
            match self.answers.try_recv() {
                Ok(answer) => self.answered(answer)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(Stopped),
            }
        }
    }

    fn answered(&mut self, Answer { wants, blocks }: Answer) -> Result<(), Stopped> {
        self.blocks = blocks.into_iter();
        let Some((offered, seen)) = self.open.pop_front() else {
            return Err(self.breach("it answers an offer that this end didn't make"));
        };
        if offered.len() != wants.len() {
            return Err(self.breach("its answer has another number of entries than the offer"));
        }
        let mut entries = offered.into_iter().zip(seen).zip(wants);
        entries.try_for_each(|((Offered { entry, .. }, seen), want)| self.wanted(entry, seen, want))
    }

    fn wanted(&mut self, entry: Entry, seen: Seen, want: Want) -> Result<(), Stopped> {
        if let Some(removable) = self.removable.filter(|_| want != Want::LeftAlone && !self.dry_run) {
            removable.note(&entry, &seen);
        }
        match want {
            Want::Nothing => {
                self.counters.unchanged.entry(&entry.kind);
                Ok(())
            }
            Want::LeftAlone => {
                self.counters.unchanged.entry(&entry.kind);
                self.orphans.first_is_left(entry, seen);
                Ok(())
            }
            _ if self.dry_run => Ok(()),
            Want::Whole => self.whole(entry, seen),
            Want::Digest => self.proof(entry, seen),
            Want::Missing { chunk, present } => {
                let (size, parts) = self.cut(&entry, chunk)?;
                if present.len() as u64 != parts.div_ceil(8) {
                    return Err(self.breach("its list of a file's chunks doesn't have the file's length"));
                }
                let cut = Cut { cut: chunk, there: HeldChunks::Present(present) };
                self.planner.add_large(entry, seen, size, cut)
            }
            Want::Blocks { block, count } => self.blocks(entry, seen, block, count),
            Want::Rest { from, digest } => self.rest(entry, seen, (from, digest)),
            Want::Differing { chunk, digests } => {
                let (size, parts) = self.cut(&entry, chunk)?;
                if digests.len() as u64 > parts {
                    return Err(self.breach("it lists more chunks than the file has"));
                }
                let cut = Cut { cut: chunk, there: HeldChunks::Older(digests) };
                self.planner.add_large(entry, seen, size, cut)
            }
        }
    }

    /// Queues a file that the receiver already has, and for which it requests only the digest.
    fn proof(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped> {
        match entry.kind {
            Kind::File { size } if self.digests => {
                self.counters.unchanged.file(0);
                self.planner.add_proof(entry, seen, size)
            }
            _ => Err(self.breach(
                "it requests a digest of an entry that has none, or although digests weren't requested",
            )),
        }
    }

    /// Queues a file of which the receiver has the first bytes.
    fn rest(&mut self, entry: Entry, seen: Seen, rest: (u64, Option<Digest>)) -> Result<(), Stopped> {
        match entry.kind {
            Kind::File { size } if self.appends && rest.0 > 0 && rest.0 < size => {
                self.planner.add_rest(entry, seen, size, rest)
            }
            _ => Err(self.breach(
                "it requests the rest of an entry that has none, or although this command doesn't append",
            )),
        }
    }

    /// Queues a file of which the receiver's older version has blocks. Waits as long as the existing tables have too
    /// many blocks.
    fn blocks(&mut self, entry: Entry, seen: Seen, block: u64, count: u32) -> Result<(), Stopped> {
        let Kind::File { size } = entry.kind else {
            return Err(self.breach("it offers blocks of an entry that isn't a file"));
        };
        let fits =
            block.is_power_of_two() && (BLOCK_LEAST..=BLOCK_MOST).contains(&block) && block <= size / 8;
        let sums: Vec<_> = self.blocks.by_ref().take(count as usize).collect();
        if !fits || !self.moves || count == 0 || sums.len() < count as usize {
            return Err(self.breach("it offers blocks that don't fit the file, or didn't send them"));
        }
        while self.live.load(Ordering::Acquire) > LIVE_BLOCKS {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        self.planner.add_delta(entry, seen, size, BlockTable::new(block, sums, &self.live))
    }

    fn whole(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped> {
        let was_link = matches!(entry.kind, Kind::HardLink { .. });
        let (entry, seen) = self.orphans.adopt(entry, seen);
        if let (Kind::File { size }, true) = (&entry.kind, was_link) {
            self.counters.found.bytes(*size);
        }
        self.planner.add(entry, seen)
    }

    /// The file's size in bytes, and the number of chunks of `chunk` bytes into which it will be cut.
    fn cut(&self, entry: &Entry, chunk: u64) -> Result<(u64, u64), Stopped> {
        let Kind::File { size } = entry.kind else {
            return Err(self.breach("it requests parts of an entry that isn't a file"));
        };
        let parts = size.div_ceil(chunk.max(1));
        if self.digests && !chunk.is_power_of_two() {
            return Err(self.breach("it requests a file in chunks that can't have digests"));
        }
        if !(CHUNK_LEAST..=CHUNK_MOST).contains(&chunk) || parts < 2 || u32::try_from(parts).is_err() {
            return Err(self.breach("it requests a file in chunks of an invalid size"));
        }
        Ok((size, parts))
    }

    fn breach(&self, what: &str) -> Stopped {
        *lock(&self.state.breach) = Some(format!("the far end breaks the protocol: {what}"));
        Stopped
    }
}

impl Taker for Offers<'_> {
    fn take(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped> {
        self.pending_bytes += ENTRY_BYTES + bytes(&entry);
        let digest =
            self.hash.filter(|_| matches!(entry.kind, Kind::File { .. })).and_then(|hash| hash(&entry));
        let (Origin { inode, ctime }, whole) = (seen.origin, seen.whole);
        self.seen.push(seen);
        self.pending.push(Offered { entry, inode, ctime, digest, whole });
        if self.pending.len() == MAX_OFFERS || self.pending_bytes >= OFFER_BYTES {
            self.offer()
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) -> Result<(), Stopped> {
        self.offer()?;
        while !self.open.is_empty() {
            self.planner.flush()?;
            self.wait()?;
        }
        self.take_what_came()?;
        self.state.is_over.store(true, Ordering::Release);
        self.planner.flush()
    }
}

/// The approximate length of an entry's names and attributes in a message, in bytes.
fn bytes(entry: &Entry) -> usize {
    let kind = match &entry.kind {
        Kind::Symlink { target } => target.len(),
        Kind::HardLink { path, .. } => path.as_bytes().len(),
        _ => 0,
    };
    let extra = entry.extra.as_ref().map_or(0, |extra| {
        let owner = extra.owner.as_ref().map_or(0, |owner| owner.user.len() + owner.group.len() + 16);
        let xattrs: usize = extra.xattrs.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        // An entry of an ACL contains the name of a user or group, which is at most 256 bytes long
        // (useradd(8)).
        owner + xattrs + 272 * (extra.acl.len() + extra.default_acl.len())
    });
    entry.path.as_bytes().len() + kind + extra
}
