//! A host's knowledge of the chain or tree to which it belongs.

use linerate_wire::control::ChainLink;
use linerate_wire::sealed::{MAX_CHAINED, SealedPart};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::arrivals::Arrivals;
use super::forwarding::{self, Forwarding};
use super::mark;
use super::relay::ChainRelay;
use crate::base::lock::lock;

/// A host's position in the chain or tree, and the state of its streams.
pub struct ChainHost {
    link: ChainLink,
    /// The numbers of the source's streams from which a part has arrived.
    streams: Mutex<HashSet<u32>>,
    relays: Vec<Arc<ChainRelay>>,
    arrivals: Arc<Arrivals>,
    /// The total bytes of the parts that were accepted.
    accepted: AtomicU64,
    /// The number of streams with a part that is still to be forwarded or used.
    busy: AtomicU32,
}

/// The state of one of the source's streams, as this host sees it.
#[derive(Default)]
pub struct ChainProgress {
    stream: Option<u32>,
    next: u64,
}

impl ChainHost {
    /// The host that `link` describes, which forwards by `relays`; `None` if its position doesn't exist, or the chain
    /// or tree has too many hosts.
    pub fn new(link: ChainLink, relays: Vec<ChainRelay>) -> Option<Self> {
        let is_fit = link.place < link.hosts && usize::from(link.hosts) <= MAX_CHAINED;
        let relays = relays.into_iter().map(Arc::new).collect();
        is_fit.then(|| Self {
            link,
            streams: Mutex::default(),
            relays,
            arrivals: Arc::default(),
            accepted: AtomicU64::new(0),
            busy: AtomicU32::new(0),
        })
    }

    /// True if this host gets its data from the source, and not from another host.
    pub fn is_first(&self) -> bool {
        self.link.place == 0
    }

    /// The number of hosts in the chain or tree.
    pub fn hosts(&self) -> usize {
        self.link.hosts.into()
    }

    /// The total bytes of the parts that were accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// True while a stream has a part that is still to be forwarded or used.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    /// Runs `work`, which handles a part of a stream; meanwhile [`ChainHost::is_busy`] is true.
    pub(super) fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        self.busy.fetch_add(1, Ordering::Relaxed);
        let done = work();
        self.busy.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Starts to forward a stream to the next hosts.
    pub(super) fn forward(&self) -> Forwarding {
        Forwarding::new(&self.relays, self.arrivals.clone())
    }

    /// Waits until all parts were forwarded to each next host, or the host is lost.
    pub fn drain(&self) {
        forwarding::drain(&self.relays);
    }

    /// Checks a part's mark and its number in the stream, and returns the part's bytes.
    ///
    /// # Errors
    /// The reason why the part isn't accepted.
    pub fn open<'a>(&self, payload: &'a [u8], so_far: &mut ChainProgress) -> Result<&'a [u8], &'static str> {
        let part = SealedPart::decode(payload, self.link.hosts.into()).ok_or("a malformed part")?;
        let theirs = part.mark(self.link.place.into()).ok_or("a part without a mark")?;
        let digest = blake3::hash(part.bytes);
        let ours = mark(&self.link.key, part.stream, part.number, &digest);
        // This comparison of hashes takes constant time.
        if blake3::Hash::from_bytes(ours) != blake3::Hash::from_bytes(theirs) {
            return Err("a part that differs from the one that the source sent");
        }
        if part.number != so_far.next || so_far.stream.is_some_and(|stream| stream != part.stream) {
            return Err("parts in another order than the source sent them");
        }
        if so_far.stream.is_none() && !lock(&self.streams).insert(part.stream) {
            return Err("the same stream of the source twice");
        }
        so_far.stream = Some(part.stream);
        so_far.next += 1;
        self.accepted.fetch_add(payload.len() as u64, Ordering::Relaxed);
        Ok(part.bytes)
    }
}
