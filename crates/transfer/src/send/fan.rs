//! Several transfers of the same sources at the same time: a piece of a file is read and hashed once for all of them.
//!
//! What was read last is kept, within a bound. Whoever is ahead waits for the others, so that they find it there; but for each only
//! for so long. A transfer that is slower than that is *left behind*: nobody waits for it any more, and it reads on its own what is
//! no longer kept. So neither the time of the others nor the memory grows with the slowest. A wait in which the slower one comes
//! forward faster than the other did before costs nothing: they share a link.

use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use linerate_wire::control::Digest;
use linerate_wire::entry::Timestamp;

use crate::base::lock::lock;
use crate::net::clock::Counters;
use crate::net::rate::RateLimit;
use crate::tree::digest::{Hashing, of_bytes};

/// Bytes of a piece, but for a file's last one: a power of two, so that it is a subtree of the file's hash tree.
pub const PIECE: u64 = 256 << 10;
/// Bytes that are kept.
const KEPT: u64 = 64 << 20;
/// How far one may be ahead of another: less than what is kept, since several streams are at several places.
const AHEAD: u64 = 24 << 20;
/// How long is waited for one of them: so much, and this share of the time since the beginning.
const PATIENCE: Duration = Duration::from_millis(300);
const SHARE: f64 = 0.03;
/// How long the first one that is ready waits for the others' logins.
const GATHERING: Duration = Duration::from_secs(3);
/// How often whoever waits looks.
const NAP: Duration = Duration::from_millis(2);

/// What the transfers share.
pub struct FanReading {
    members: Vec<FanPlace>,
    kept: Mutex<KeptPieces>,
    gathering: Mutex<FanGathering>,
    gathered: Condvar,
    rate: Option<RateLimit>,
    /// Bytes that were read.
    read: AtomicU64,
}

/// How far one of them is.
#[derive(Default)]
struct FanPlace {
    counters: OnceLock<Arc<Counters>>,
    sent: AtomicU64,
    /// How long it has waited, and was waited for.
    waits: Mutex<FanWaits>,
    /// Nobody waits for it: it isn't ready yet, was left behind, or has ended.
    is_alone: AtomicBool,
    was_left_behind: AtomicBool,
}

/// How long a transfer has waited, and others for it.
#[derive(Default)]
struct FanWaits {
    /// Workers that wait now, and since when.
    waiting: u32,
    since: Option<Instant>,
    waited: Duration,
    /// What others have lost by waiting for it, and until when that is counted.
    cost: Duration,
    counted: Option<Instant>,
}

/// Who is ready.
#[derive(Default)]
struct FanGathering {
    /// Transfers that are ready or have ended.
    met: usize,
    begun: Option<Instant>,
}

/// Which bytes of which state of a file a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PieceKey {
    /// The file: device and inode.
    pub file: (u64, u64),
    /// Its last change, and its size as it was found.
    pub state: (i64, u32, u64),
    /// Where the piece begins in bytes.
    pub offset: u64,
}

/// A piece that was read.
pub struct FanPiece {
    key: PieceKey,
    bytes: Vec<u8>,
    digest: OnceLock<Option<Digest>>,
}

/// A piece that somebody reads, or has read.
type PieceSlot = Arc<Mutex<Option<Arc<FanPiece>>>>;

#[derive(Default)]
struct KeptPieces {
    slots: HashMap<PieceKey, PieceSlot>,
    order: VecDeque<(PieceKey, u64)>,
    bytes: u64,
}

/// One of the transfers. When it is dropped, nobody waits for it.
pub struct FanMember {
    shared: Arc<FanReading>,
    number: usize,
}

impl FanReading {
    /// For N transfers that send no more than a number of bytes a second together, if that is limited.
    pub fn new(members: usize, bytes_per_second: Option<u64>) -> Arc<Self> {
        let alone = || FanPlace { is_alone: AtomicBool::new(true), ..FanPlace::default() };
        Arc::new(Self {
            members: std::iter::repeat_with(alone).take(members).collect(),
            kept: Mutex::default(),
            gathering: Mutex::default(),
            gathered: Condvar::new(),
            rate: bytes_per_second.map(RateLimit::new),
            read: AtomicU64::new(0),
        })
    }

    /// The transfer of this number.
    pub fn member(self: &Arc<Self>, number: usize) -> FanMember {
        FanMember { shared: self.clone(), number }
    }

    /// Bytes that were read of files.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Whether the transfer of this number was left behind.
    pub fn was_left_behind(&self, number: usize) -> bool {
        self.members[number].was_left_behind.load(Ordering::Relaxed)
    }

    fn is_held_back(&self, than: u64) -> bool {
        self.members.iter().any(|place| place.holds_back(than))
    }

    fn elapsed(&self) -> Duration {
        lock(&self.gathering).begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    /// Counts what a wait for those costs who hold back one that is so far; who costs too much is left behind.
    fn count(&self, wait: &FanWait, so_far: u64) {
        let (elapsed, now) = (self.elapsed(), Instant::now());
        for (place, before) in self.members.iter().zip(&wait.before) {
            if !place.holds_back(so_far) {
                continue;
            }
            let gained = place.bytes().saturating_sub(*before) as f64;
            let mut waits = lock(&place.waits);
            let from = waits.counted.map_or(wait.begun, |counted| counted.max(wait.begun));
            waits.counted = Some(now);
            if gained < wait.pace * now.duration_since(wait.begun).as_secs_f64() {
                waits.cost += now.saturating_duration_since(from);
            }
            if waits.cost > PATIENCE + elapsed.mul_f64(SHARE) {
                place.was_left_behind.store(true, Ordering::Relaxed);
                place.is_alone.store(true, Ordering::Release);
            }
        }
    }
}

/// A worker's wait.
struct FanWait {
    begun: Instant,
    /// Bytes a second that its transfer had before,
    pace: f64,
    /// and how far all of them were.
    before: Vec<u64>,
}

impl FanPlace {
    fn bytes(&self) -> u64 {
        let there = self.counters.get().map_or(0, |counters| counters.unchanged.get().bytes);
        self.sent.load(Ordering::Relaxed).saturating_add(there)
    }

    /// Whether one that is so far has to wait for it.
    fn holds_back(&self, so_far: u64) -> bool {
        !self.is_alone.load(Ordering::Acquire) && self.bytes().saturating_add(AHEAD) < so_far
    }

    fn begins_to_wait(&self) {
        let mut waits = lock(&self.waits);
        waits.waiting += 1;
        waits.since.get_or_insert_with(Instant::now);
    }

    fn ends_to_wait(&self) {
        let mut waits = lock(&self.waits);
        waits.waiting -= 1;
        if waits.waiting == 0 {
            let waited = waits.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            waits.waited += waited;
        }
    }

    /// Bytes a second since the beginning, without the time in which it waited.
    fn pace(&self, elapsed: Duration) -> f64 {
        let waits = lock(&self.waits);
        let waited = waits.waited + waits.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.bytes() as f64 / elapsed.saturating_sub(waited).as_secs_f64().max(1e-3)
    }
}

impl FanMember {
    /// Waits for the others' logins, but not for long; `counters` say what the receiver has already.
    pub fn meet(&self, counters: &Arc<Counters>) {
        let shared = &*self.shared;
        let place = self.place();
        // A second try is made by another member.
        let _ = place.counters.set(counters.clone());
        let mut gathering = lock(&shared.gathering);
        gathering.met += 1;
        let begun = *gathering.begun.get_or_insert_with(Instant::now);
        shared.gathered.notify_all();
        if begun.elapsed() >= GATHERING {
            place.was_left_behind.store(true, Ordering::Relaxed);
            return;
        }
        place.is_alone.store(false, Ordering::Release);
        while gathering.met < shared.members.len() {
            let left = GATHERING.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let waited = shared.gathered.wait_timeout(gathering, left);
            gathering = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How many transfers there are.
    pub fn beside(&self) -> usize {
        self.shared.members.len()
    }

    /// The limit of all together.
    pub fn rate(&self) -> Option<&RateLimit> {
        self.shared.rate.as_ref()
    }

    /// Counts bytes that were sent, and waits for those who are far behind; true where it has waited.
    pub fn advance(&self, bytes: u64, stop: &AtomicBool) -> bool {
        let place = self.place();
        place.sent.fetch_add(bytes, Ordering::Relaxed);
        let is_ahead = || !place.is_alone.load(Ordering::Acquire) && self.shared.is_held_back(place.bytes());
        if !is_ahead() {
            return false;
        }
        let pace = place.pace(self.shared.elapsed());
        let before = self.shared.members.iter().map(FanPlace::bytes).collect();
        let wait = FanWait { begun: Instant::now(), pace, before };
        place.begins_to_wait();
        while is_ahead() && !stop.load(Ordering::Relaxed) {
            thread::sleep(NAP);
            self.shared.count(&wait, place.bytes());
        }
        place.ends_to_wait();
        true
    }

    /// A piece, which `read` reads where nobody has.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn piece(
        &self,
        key: PieceKey,
        read: impl FnOnce() -> Result<Vec<u8>, Errno>,
    ) -> Result<Arc<FanPiece>, Errno> {
        let keeps = !self.place().is_alone.load(Ordering::Acquire);
        let slot = lock(&self.shared.kept).slot(key, keeps);
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
        Ok(Arc::new(FanPiece { key, bytes, digest: OnceLock::new() }))
    }

    fn place(&self) -> &FanPlace {
        &self.shared.members[self.number]
    }
}

impl Drop for FanMember {
    fn drop(&mut self) {
        let place = self.place();
        place.is_alone.store(true, Ordering::Release);
        if place.counters.get().is_none() {
            lock(&self.shared.gathering).met += 1;
            self.shared.gathered.notify_all();
        }
    }
}

impl KeptPieces {
    /// The slot of a piece; a new one where it `keeps` what it reads.
    fn slot(&mut self, key: PieceKey, keeps: bool) -> Option<PieceSlot> {
        if let Some(slot) = self.slots.get(&key) {
            return Some(slot.clone());
        }
        if !keeps {
            return None;
        }
        let slot = PieceSlot::default();
        self.slots.insert(key, slot.clone());
        // A small file costs more than its bytes.
        let bytes = key.length().max(1 << 10);
        self.order.push_back((key, bytes));
        self.bytes += bytes;
        while self.bytes > KEPT
            && let Some((oldest, bytes)) = self.order.pop_front()
        {
            self.slots.remove(&oldest);
            self.bytes -= bytes;
        }
        Some(slot)
    }
}

impl PieceKey {
    /// The piece of a file's state that has the byte at `offset`.
    pub fn of(file: (u64, u64), ctime: Timestamp, size: u64, offset: u64) -> Self {
        let state = (ctime.seconds, ctime.nanoseconds, size);
        Self { file, state, offset: offset / PIECE * PIECE }
    }

    /// How many bytes it has, if the file has as many as were found.
    pub fn length(&self) -> u64 {
        let (.., size) = self.state;
        size.saturating_sub(self.offset).min(PIECE)
    }
}

impl FanPiece {
    /// Which one it is.
    pub fn key(&self) -> PieceKey {
        self.key
    }

    /// Its bytes: fewer than the key says where the file has become shorter.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its chaining value, or the root where it is the whole file; none where it is shorter than it was.
    pub fn digest(&self) -> Option<Digest> {
        let (.., size) = self.key.state;
        *self.digest.get_or_init(|| {
            let length = self.bytes.len() as u64;
            if length != self.key.length() {
                return None;
            }
            if length == 0 {
                return Some(of_bytes(&[]));
            }
            let mut hashing = Hashing::of(self.key.offset, length, size)?;
            hashing.update(&self.bytes);
            Some(hashing.finish())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: Timestamp = Timestamp { seconds: 1, nanoseconds: 2 };

    fn key(offset: u64) -> PieceKey {
        PieceKey::of((1, 2), STATE, 1 << 40, offset)
    }

    fn met(number: usize) -> Arc<FanReading> {
        let fan = FanReading::new(number, None);
        let members: Vec<_> = (0..number).map(|number| fan.member(number)).collect();
        thread::scope(|scope| {
            members.iter().for_each(|member| drop(scope.spawn(|| member.meet(&Arc::default()))));
        });
        members.into_iter().for_each(std::mem::forget);
        fan
    }

    #[test]
    fn a_piece_is_read_once_and_the_oldest_ones_are_forgotten() {
        let fan = met(2);
        let (one, other) = (fan.member(0), fan.member(1));
        let read = |member: &FanMember, offset| member.piece(key(offset), || Ok(vec![7; 1000])).unwrap();
        for offset in [0, PIECE, PIECE + 5] {
            assert_eq!(read(&one, offset).bytes(), read(&other, offset).bytes());
        }
        assert_eq!(fan.read(), 2000);
        (0..=KEPT / PIECE).for_each(|number| drop(read(&one, (number + 2) * PIECE)));
        assert!(lock(&fan.kept).bytes <= KEPT);
        let before = fan.read();
        read(&other, 0);
        assert_eq!(fan.read(), before + 1000);
        std::mem::forget((one, other));
    }

    #[test]
    fn what_one_can_not_read_another_tries_again() {
        let fan = met(2);
        let (one, other) = (fan.member(0), fan.member(1));
        assert!(one.piece(key(0), || Err(Errno::IO)).is_err());
        assert_eq!(other.piece(key(0), || Ok(vec![1])).unwrap().bytes(), [1]);
        std::mem::forget((one, other));
    }

    #[test]
    fn one_that_stands_still_holds_the_others_up_for_a_short_time() {
        let fan = met(3);
        let members = [0, 1, 2].map(|number| fan.member(number));
        let (begun, stop) = (Instant::now(), AtomicBool::new(false));
        for _ in 0..40 {
            members[..2].iter().for_each(|member| _ = member.advance(8 << 20, &stop));
        }
        let took = begun.elapsed();
        assert!(took >= PATIENCE && took < 3 * PATIENCE, "{took:?}");
        assert!(fan.was_left_behind(2) && !fan.was_left_behind(0) && !fan.was_left_behind(1));
        assert!(!members[2].advance(1, &stop), "it waits for nobody");
        members.into_iter().for_each(std::mem::forget);
    }

    #[test]
    fn nobody_waits_for_one_that_has_ended_or_for_what_it_has_already() {
        let fan = met(3);
        let members = [0, 1].map(|number| fan.member(number));
        drop(fan.member(2));
        let counters = fan.members[1].counters.get().unwrap();
        counters.unchanged.bytes(1 << 40);
        let stop = AtomicBool::new(false);
        assert!(!members[0].advance(1 << 30, &stop));
        members.into_iter().for_each(std::mem::forget);
    }

    #[test]
    fn pieces_hash_to_the_root_of_their_file() {
        let size = 3 * PIECE as usize + 1234;
        let bytes: Vec<u8> = (0..size).map(|at| ((at * 31) >> 3) as u8).collect();
        let fan = met(1);
        let member = fan.member(0);
        let mut whole = Hashing::of(0, size as u64, size as u64).unwrap();
        for (number, piece) in bytes.chunks(PIECE as usize).enumerate() {
            let key = PieceKey::of((1, 2), STATE, size as u64, number as u64 * PIECE);
            let piece = member.piece(key, || Ok(piece.to_vec())).unwrap();
            whole.part(key.offset, key.length(), piece.digest().unwrap());
        }
        assert_eq!(whole.finish(), of_bytes(&bytes));
        std::mem::forget(member);
    }
}
