//! What a host has of the chain that it is in.

use linerate_wire::control::ChainLink;
use linerate_wire::sealed::{MAX_CHAINED, SealedPart};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::mark;
use super::relay::ChainRelay;
use crate::base::lock::lock;

/// A host's place in a chain.
pub struct ChainHost {
    link: ChainLink,
    /// The source's streams of which something has come.
    streams: Mutex<HashSet<u32>>,
    relay: Option<Arc<ChainRelay>>,
}

/// How far one of the source's streams has come.
#[derive(Default)]
pub struct ChainProgress {
    stream: Option<u32>,
    next: u64,
}

impl ChainHost {
    /// The place that `link` names; none where there is no such place.
    pub fn new(link: ChainLink, relay: Option<Arc<ChainRelay>>) -> Option<Self> {
        let is_fit = link.place < link.hosts && usize::from(link.hosts) <= MAX_CHAINED;
        is_fit.then(|| Self { link, streams: Mutex::default(), relay })
    }

    /// Whoever hands on what comes.
    pub fn relay(&self) -> Option<&Arc<ChainRelay>> {
        self.relay.as_ref()
    }

    /// The bytes of a part, if the source has made it and it is the next one of its stream.
    ///
    /// # Errors
    /// Why not.
    pub fn open<'a>(&self, payload: &'a [u8], so_far: &mut ChainProgress) -> Result<&'a [u8], &'static str> {
        let part = SealedPart::decode(payload, self.link.hosts.into()).ok_or("a part that is none")?;
        let theirs = part.mark(self.link.place.into()).ok_or("a part without a mark")?;
        let digest = blake3::hash(part.bytes);
        let ours = mark(&self.link.key, part.stream, part.number, &digest);
        // In constant time.
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
