//! The knowledge that a host has of the chain or tree that it belongs to.

use linerate_wire::control::ChainLink;
use linerate_wire::sealed::{MAX_CHAINED, SealedPart};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::forwarding::{self, Forwarding};
use super::mark;
use super::relay::ChainRelay;
use crate::base::lock::lock;

/// A host's position, and its state there.
pub struct ChainHost {
    link: ChainLink,
    /// The numbers of the source's streams from which a part has arrived.
    streams: Mutex<HashSet<u32>>,
    relays: Vec<Arc<ChainRelay>>,
}

/// The state of one of the source's streams.
#[derive(Default)]
pub struct ChainProgress {
    stream: Option<u32>,
    next: u64,
}

impl ChainHost {
    /// The host that `link` describes, which forwards by `relays`; `None` if its position doesn't exist.
    pub fn new(link: ChainLink, relays: Vec<ChainRelay>) -> Option<Self> {
        let is_fit = link.place < link.hosts && usize::from(link.hosts) <= MAX_CHAINED;
        let relays = relays.into_iter().map(Arc::new).collect();
        is_fit.then(|| Self { link, streams: Mutex::default(), relays })
    }

    /// Starts to forward a stream to the next hosts.
    pub(super) fn forward(&self) -> Forwarding {
        Forwarding::new(&self.relays)
    }

    /// Waits until everything was forwarded to each of the next hosts, or that host is lost.
    pub fn drain(&self) {
        forwarding::drain(&self.relays);
    }

    /// Checks a part's mark and order, and returns its bytes.
    ///
    /// # Errors
    /// The reason why the part isn't accepted.
    pub fn open<'a>(&self, payload: &'a [u8], so_far: &mut ChainProgress) -> Result<&'a [u8], &'static str> {
        let part = SealedPart::decode(payload, self.link.hosts.into()).ok_or("a part that is none")?;
        let theirs = part.mark(self.link.place.into()).ok_or("a part without a mark")?;
        let digest = blake3::hash(part.bytes);
        let ours = mark(&self.link.key, part.stream, part.number, &digest);
        // This comparison takes constant time.
        if blake3::Hash::from_bytes(ours) != blake3::Hash::from_bytes(theirs) {
            return Err("a part that isn't as the source has sent it");
        }
        if part.number != so_far.next || so_far.stream.is_some_and(|stream| stream != part.stream) {
            return Err("parts in another order than the source has sent them");
        }
        if so_far.stream.is_none() && !lock(&self.streams).insert(part.stream) {
            return Err("a stream of the source's for the second time");
        }
        so_far.stream = Some(part.stream);
        so_far.next += 1;
        Ok(part.bytes)
    }
}
