//! Streams that pass through several hosts. Each host stores the data and forwards it: in a chain to the next host, in
//! a tree to at most two hosts.
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

/// How long the next host may accept nothing, or delay this host, before this host gives it up, if the next host
/// forwards to nobody. Otherwise, [`LONGER`] is added for each host on the longest path behind the next host. So if a
/// host hangs, the host directly before it is the first to give it up.
const STILL: Duration = Duration::from_secs(10);
/// The time that is added to [`STILL`] for each host on the longest path behind the next host.
const LONGER: Duration = Duration::from_secs(2);

/// How long a host waits if no data arrives: longer than any of `hosts` hosts waits for its next host, and at
/// least the user's `--timeout`. So a host that hangs is given up by the host directly before it, which knows
/// best which host hangs.
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
