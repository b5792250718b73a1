//! The source's side of a chain or tree: the keys of the hosts, and the marks that the source makes with these keys.

use linerate_wire::control::ChainKey;
use linerate_wire::sealed::sealed_head;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mark;
use crate::base::problem::TransferError;

/// The source's data about all hosts.
pub struct ChainSource {
    keys: Vec<ChainKey>,
    streams: AtomicU32,
}

impl ChainSource {
    /// Makes keys for `hosts` hosts.
    ///
    /// # Errors
    /// If the system's random number generator fails.
    pub fn new(hosts: usize) -> Result<Self, TransferError> {
        let key = |_| {
            let mut key = [0; 32];
            aws_lc_rs::rand::fill(&mut key)
                .map(|()| ChainKey(key))
                .map_err(|_| TransferError::Failed("the system gives no randomness".into()))
        };
        Ok(Self { keys: (0..hosts).map(key).collect::<Result<_, _>>()?, streams: AtomicU32::new(0) })
    }

    /// The key of the host at this position.
    pub fn key(&self, place: usize) -> Option<&ChainKey> {
        self.keys.get(place)
    }

    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        self.keys.len()
    }

    /// Allocates the number of a new stream.
    pub(super) fn stream(&self) -> u32 {
        self.streams.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes a part of a stream, preceded by its marks for all hosts, to `payload`.
    pub fn seal(&self, (stream, number): (u32, u64), bytes: &[u8], payload: &mut Vec<u8>) {
        payload.clear();
        payload.extend(sealed_head(stream, number));
        let digest = blake3::hash(bytes);
        self.keys.iter().for_each(|key| payload.extend(mark(key, stream, number, &digest)));
        payload.extend(bytes);
    }
}
