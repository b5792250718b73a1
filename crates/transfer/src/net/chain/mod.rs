//! Streams that pass through several hosts. Each host stores the data and forwards it: in a chain to the next host, in a
//! tree to two hosts.
//!
//! Each hop has a TLS connection of its own, which carries parts of the source's stream. Each part has a mark for each
//! host ([`linerate_wire::sealed`]), made with a key that only the source and that host have. A host checks its mark
//! before it uses a byte of the part, so hosts before it can withhold data but not change it.

mod arrivals;
mod forwarding;
mod host;
mod reader;
mod relay;
mod shape;
mod source;
mod supply;
mod writer;

pub use host::ChainHost;
pub use reader::SealedReader;
pub use relay::{ChainRelay, NextHost};
pub use shape::ChainShape;
pub use source::ChainSource;
pub use supply::Supply;
pub use writer::SealedWriter;

use linerate_wire::control::ChainKey;
use linerate_wire::sealed::{Mark, sealed_head};
use std::time::Duration;

/// If no host is behind the next host, how long that one may take nothing, or delay the host before it. [`LONGER`] is added
/// for each host behind it, one behind the other, so that the host directly before one that hangs gives up first.
const STILL: Duration = Duration::from_secs(10);
/// See [`STILL`].
const LONGER: Duration = Duration::from_secs(2);

/// How long a host that waits for data lets everything stand still: longer than any host of `hosts` waits
/// for a next host, and at least the user's `--timeout`. So an honest host that hangs is given up by the host before it,
/// which knows best.
fn patience(hosts: usize, timeout: Duration) -> Duration {
    let longest = STILL + LONGER * u32::try_from(hosts).unwrap_or(u32::MAX);
    longest.max(timeout)
}

/// The mark of a part for the host that has this key.
fn mark(key: &ChainKey, stream: u32, number: u64, digest: &blake3::Hash) -> Mark {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(&sealed_head(stream, number)).update(digest.as_bytes());
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests;
