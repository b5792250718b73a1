//! Several transfers of the same sources at the same time: each piece of a file is read and hashed once for all of
//! them.
//!
//! The pieces that were read last are kept, up to a limit. A transfer that is ahead waits for the others, so that they
//! find these pieces, but only while the wait costs little. A transfer that is slower is *left behind*: no other
//! transfer waits for it any more, and it must itself read again the pieces that are no longer kept. So the slowest
//! transfer increases neither the time of the others nor the memory.
//!
//! The cost of a wait is measured for all transfers together. If they share a link or the processors, a transfer that
//! waits leaves its share to the others: all together advance as fast as without the wait, which then costs nothing,
//! however long it is. If all together advance less, the wait costs the rest of the time. If a transfer that was left
//! behind is near the others again, by chance or because it only started late, the others wait for it again as soon as
//! its cost is within the limit, which grows with time.

mod pieces;
mod scan;

use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use linerate_wire::control::{Options, Problem};

use crate::base::lock::lock;
use crate::net::clock::Counters;
use crate::net::rate::RateLimit;
use crate::send::ahead::Ahead;
use crate::send::sender::FoundSources;
use crate::tree::selection::Selection;
use crate::tree::source_root::SourceRoot;
use pieces::KeptPieces;
pub use pieces::{FanPiece, PIECE, PieceKey};
use scan::ScanLog;

/// How many bytes one transfer may be ahead of another. This is less than the kept bytes, because several streams read
/// at different offsets.
const AHEAD: u64 = 24 << 20;
/// How much time the others may lose by waiting for one transfer: this time or the time in which all together send half
/// of `AHEAD`, whichever is longer, plus a share (`SHARE`) of the time since the beginning.
const LEAST_WAIT: Duration = Duration::from_millis(300);
const SHARE: f64 = 0.03;
/// A wait that loses no time gives a credit for later waits, of at most this time.
const CREDIT: Duration = Duration::from_millis(100);
/// The first transfer that is ready waits for the others' logins as long as its own login took, but at least
/// for this time.
const GATHERING: Duration = Duration::from_secs(3);
/// The interval at which a waiting transfer checks whether it may continue.
const NAP: Duration = Duration::from_millis(2);

/// The data that several transfers of the same sources share.
pub struct FanReading {
    members: Vec<FanPlace>,
    kept: Mutex<KeptPieces>,
    gathering: Mutex<FanGathering>,
    gathered: Condvar,
    rate: Option<RateLimit>,
    /// The number of bytes that were read from files.
    read: AtomicU64,
    made: Instant,
    log: ScanLog,
}

/// The progress of one transfer.
#[derive(Default)]
struct FanPlace {
    counters: OnceLock<Arc<Counters>>,
    sent: AtomicU64,
    /// How this transfer has waited, and how much time others have lost by waiting for it.
    waits: Mutex<FanWaits>,
    /// True if no transfer waits for this one: it isn't ready yet, was left behind, or has ended.
    is_alone: AtomicBool,
    was_left_behind: AtomicBool,
}

/// How a transfer has waited for others, and how much time others have lost by waiting for it.
#[derive(Default)]
struct FanWaits {
    /// The number of this transfer's workers that are waiting now.
    waiting: u32,
    /// The time at which the last wait ended, and the bytes that all transfers together had sent by then.
    free_since: Option<FanMoment>,
    /// The seconds in which this transfer didn't wait, and the bytes that all transfers together sent in that
    /// time.
    free: (f64, u64),
    /// The seconds that other transfers have lost by waiting for this one, and the time up to which they were
    /// counted.
    cost: f64,
    counted: Option<FanMoment>,
}

/// A point in time, and the number of bytes that all transfers together had sent by then.
#[derive(Clone, Copy)]
struct FanMoment {
    at: Instant,
    sent: u64,
}

/// How many transfers are ready to begin, and when the first one was ready.
#[derive(Default)]
struct FanGathering {
    /// The number of transfers that are ready or have ended.
    met: usize,
    begun: Option<Instant>,
}

/// One of the transfers. When this value is dropped, no other transfer waits for it any more.
pub struct FanMember {
    shared: Arc<FanReading>,
    number: usize,
    beginning: FanBeginning,
}

/// The way in which a transfer begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FanBeginning {
    /// Together with the other transfers, with the common scan.
    Together,
    /// Alone: no other transfer waits for this one.
    Alone,
    /// A transfer with a separate scan, which starts together with other such transfers.
    Orphan,
}

impl FanReading {
    /// The shared data of `members` transfers, which together send at most `bytes_per_second`, if that is set.
    pub fn new(members: usize, bytes_per_second: Option<u64>) -> Arc<Self> {
        let alone = || FanPlace { is_alone: AtomicBool::new(true), ..FanPlace::default() };
        Arc::new(Self {
            members: std::iter::repeat_with(alone).take(members).collect(),
            kept: Mutex::default(),
            gathering: Mutex::default(),
            gathered: Condvar::new(),
            rate: bytes_per_second.map(RateLimit::new),
            read: AtomicU64::new(0),
            made: Instant::now(),
            log: ScanLog::new(members),
        })
    }

    /// The transfer with this number.
    pub fn member(self: &Arc<Self>, number: usize) -> FanMember {
        self.beginning(number, FanBeginning::Together)
    }

    /// A member like [`Self::member`], for a transfer that starts after the others, which haven't waited for
    /// it.
    pub fn latecomer(self: &Arc<Self>, number: usize) -> FanMember {
        self.beginning(number, FanBeginning::Alone)
    }

    /// A member like [`Self::latecomer`], for one of several transfers that start at about the same time
    /// because another way of copying has failed for their hosts.
    pub fn orphan(self: &Arc<Self>, number: usize) -> FanMember {
        self.beginning(number, FanBeginning::Orphan)
    }

    fn beginning(self: &Arc<Self>, number: usize, beginning: FanBeginning) -> FanMember {
        FanMember { shared: self.clone(), number, beginning }
    }

    /// Walks the sources for all transfers, until each transfer has all entries or has ended.
    pub fn scan(&self, sources: &[SourceRoot], options: &Options, selection: &Selection) {
        self.log.scan(sources, options, selection);
    }

    /// The number of bytes that were read from files.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Whether the transfer with this number was left behind.
    pub fn was_left_behind(&self, number: usize) -> bool {
        self.members[number].was_left_behind.load(Ordering::Relaxed)
    }

    fn is_held_back(&self, than: u64) -> bool {
        self.members.iter().any(|place| place.holds_back(than))
    }

    /// A set of the transfers that wait for each other, with a bit for each.
    fn together(&self) -> u64 {
        let bit = |number: usize| 1_u64.checked_shl(number as u32).unwrap_or(0);
        let waits = |(_, place): &(usize, &FanPlace)| !place.is_alone.load(Ordering::Acquire);
        self.members.iter().enumerate().filter(waits).fold(0, |bits, (number, _)| bits | bit(number))
    }

    fn elapsed(&self) -> Duration {
        lock(&self.gathering).begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    fn now(&self) -> FanMoment {
        let sent = self.members.iter().map(|place| place.sent.load(Ordering::Relaxed));
        FanMoment { at: Instant::now(), sent: sent.fold(0, u64::saturating_add) }
    }

    /// How much time may be lost for one transfer, if all together send `together` bytes a second.
    fn patience(&self, together: f64) -> f64 {
        let least = LEAST_WAIT.as_secs_f64().max(AHEAD as f64 / 2.0 / together.max(1.0));
        // Before a transfer has to wait, all of them send the bytes that one may be ahead. Only a part of
        // that time may be lost.
        let elapsed = self.elapsed().as_secs_f64();
        least.min(LEAST_WAIT.as_secs_f64().max(elapsed / 4.0)) + SHARE * elapsed
    }

    /// Assigns the time lost by a wait that started at `begun` to the transfers that hold back the waiting
    /// one, which has sent `so_far` bytes. A transfer that has cost too much time is left behind. Without
    /// waits, all transfers together would send `together` bytes per second.
    fn count(&self, begun: FanMoment, together: f64, so_far: u64) {
        let now = self.now();
        for place in self.members.iter().filter(|place| place.holds_back(so_far)) {
            let mut waits = lock(&place.waits);
            let from = waits.counted.filter(|counted| counted.at > begun.at).unwrap_or(begun);
            waits.counted = Some(now);
            let passed = now.at.saturating_duration_since(from.at).as_secs_f64();
            let gained = now.sent.saturating_sub(from.sent) as f64 / together.max(1.0);
            waits.cost = (waits.cost + passed - gained).max(-CREDIT.as_secs_f64());
            if waits.cost > self.patience(together) {
                place.was_left_behind.store(true, Ordering::Relaxed);
                place.is_alone.store(true, Ordering::Release);
            }
        }
    }

    /// Makes the others wait again for a transfer that was left behind, if it is near the others and its cost
    /// is within the limit.
    fn take_back(&self, place: &FanPlace) {
        let others = self.members.iter().filter(|other| !other.is_alone.load(Ordering::Acquire));
        let first = others.map(FanPlace::bytes).max();
        let is_near = first.is_some_and(|first| first <= place.bytes().saturating_add(AHEAD));
        if is_near
            && lock(&place.waits).cost < LEAST_WAIT.as_secs_f64() + SHARE * self.elapsed().as_secs_f64()
        {
            place.was_left_behind.store(false, Ordering::Relaxed);
            place.is_alone.store(false, Ordering::Release);
        }
    }
}

impl FanPlace {
    fn bytes(&self) -> u64 {
        let there = self.counters.get().map_or(0, |counters| counters.unchanged.get().bytes);
        self.sent.load(Ordering::Relaxed).saturating_add(there)
    }

    /// Whether a transfer that has sent `so_far` bytes has to wait for this one.
    fn holds_back(&self, so_far: u64) -> bool {
        !self.is_alone.load(Ordering::Acquire) && self.bytes().saturating_add(AHEAD) < so_far
    }

    /// Starts a wait. Returns the bytes per second that all transfers together have sent while this transfer
    /// didn't wait.
    fn begins_to_wait(&self, now: FanMoment) -> f64 {
        let mut waits = lock(&self.waits);
        waits.waiting += 1;
        if let Some(since) = waits.free_since.take() {
            waits.free.0 += now.at.saturating_duration_since(since.at).as_secs_f64();
            waits.free.1 += now.sent.saturating_sub(since.sent);
        }
        let (seconds, bytes) = waits.free;
        bytes as f64 / seconds.max(1e-3)
    }

    fn ends_to_wait(&self, now: FanMoment) {
        let mut waits = lock(&self.waits);
        waits.waiting -= 1;
        if waits.waiting == 0 {
            waits.free_since = Some(now);
        }
    }
}

impl FanMember {
    /// Waits for the other transfers' logins, for a limited time; `counters` show which entries the receiver
    /// already has.
    pub fn meet(&self, counters: &Arc<Counters>) {
        let shared = &*self.shared;
        let place = self.place();
        // The counters can be set already, because a second attempt uses another member.
        let _ = place.counters.set(counters.clone());
        if self.beginning == FanBeginning::Alone {
            return;
        }
        let mut gathering = lock(&shared.gathering);
        if self.beginning == FanBeginning::Orphan {
            gathering.begun.get_or_insert_with(Instant::now);
            place.is_alone.store(false, Ordering::Release);
            lock(&place.waits).free_since = Some(shared.now());
            return;
        }
        gathering.met += 1;
        let begun = *gathering.begun.get_or_insert_with(Instant::now);
        shared.gathered.notify_all();
        let patience = GATHERING.max(begun.saturating_duration_since(shared.made));
        if begun.elapsed() >= patience {
            place.was_left_behind.store(true, Ordering::Relaxed);
            return;
        }
        place.is_alone.store(false, Ordering::Release);
        while gathering.met < shared.members.len() {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let waited = shared.gathered.wait_timeout(gathering, left);
            gathering = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        lock(&place.waits).free_since = Some(shared.now());
    }

    /// Runs `work` while the common scan finds entries. If this transfer doesn't take part in that scan, `work` isn't
    /// run, and is returned as the error.
    pub fn scan_ahead<T, W: FnOnce(Ahead<'_>) -> T>(
        &self,
        sources: &FoundSources,
        selection: &Selection,
        counters: &Counters,
        problem: &(dyn Fn(Problem) + Sync),
        work: W,
    ) -> Result<T, W> {
        if self.beginning != FanBeginning::Together {
            return Err(work);
        }
        Ok(self.shared.log.read_ahead(self.number, sources, selection, counters, problem, work))
    }

    /// The user's rate limit for all transfers together.
    pub fn rate(&self) -> Option<&RateLimit> {
        self.shared.rate.as_ref()
    }

    /// Counts bytes that were sent, and waits for transfers that are too far behind; true if this transfer
    /// has waited.
    pub fn advance(&self, bytes: u64, stop: &AtomicBool) -> bool {
        let place = self.place();
        place.sent.fetch_add(bytes, Ordering::Relaxed);
        if place.was_left_behind.load(Ordering::Relaxed) {
            self.shared.take_back(place);
        }
        let is_ahead = || !place.is_alone.load(Ordering::Acquire) && self.shared.is_held_back(place.bytes());
        if !is_ahead() {
            return false;
        }
        let begun = self.shared.now();
        let together = place.begins_to_wait(begun);
        while is_ahead() && !stop.load(Ordering::Relaxed) {
            thread::sleep(NAP);
            self.shared.count(begun, together, place.bytes());
        }
        place.ends_to_wait(self.shared.now());
        true
    }

    /// The piece of a file with this key; `read` is called to read it, unless another transfer has already
    /// read it.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn piece(
        &self,
        key: PieceKey,
        read: impl FnOnce() -> Result<Vec<u8>, Errno>,
    ) -> Result<Arc<FanPiece>, Errno> {
        let together = self.shared.together();
        let slot = lock(&self.shared.kept).slot(key, self.bit(), together);
        let Some(slot) = slot else { return self.read(key, read) };
        let mut slot = lock(&slot);
        if let Some(piece) = &*slot {
            return Ok(piece.clone());
        }
        let piece = self.read(key, read)?;
        *slot = Some(piece.clone());
        Ok(piece)
    }

    fn read(
        &self,
        key: PieceKey,
        read: impl FnOnce() -> Result<Vec<u8>, Errno>,
    ) -> Result<Arc<FanPiece>, Errno> {
        let bytes = read()?;
        self.shared.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(Arc::new(FanPiece::new(key, bytes)))
    }

    fn place(&self) -> &FanPlace {
        &self.shared.members[self.number]
    }

    fn bit(&self) -> u64 {
        1_u64.checked_shl(self.number as u32).unwrap_or(0)
    }
}

impl Drop for FanMember {
    fn drop(&mut self) {
        let place = self.place();
        place.is_alone.store(true, Ordering::Release);
        self.shared.log.leave(self.number);
        if place.counters.get().is_none() {
            lock(&self.shared.gathering).met += 1;
            self.shared.gathered.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
