//! Streams that pass through several hosts. Each host stores the data and forwards it: in a chain to the next host, in a
//! tree to two hosts.
//!
//! Each hop has a TLS connection of its own, which carries parts of the source's stream. Each part has a mark for each
//! host ([`linerate_wire::sealed`]), made with a key that only the source and that host have. A host checks its mark
//! before it uses a byte of the part, so hosts before it can withhold data but not change it.

mod forwarding;
mod host;
mod reader;
mod relay;
mod shape;
mod source;
mod writer;

pub use host::ChainHost;
pub use reader::SealedReader;
pub use relay::{ChainRelay, NextHost};
pub use shape::ChainShape;
pub use source::ChainSource;
pub use writer::SealedWriter;

use linerate_wire::control::ChainKey;
use linerate_wire::sealed::{Mark, sealed_head};

/// The mark of a part for the host that has this key.
fn mark(key: &ChainKey, stream: u32, number: u64, digest: &blake3::Hash) -> Mark {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(&sealed_head(stream, number)).update(digest.as_bytes());
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests;
