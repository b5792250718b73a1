//! What each fuzz target does with its bytes: a decoder, and what must hold of whatever it accepted.
//!
//! The workspace's tests run the same functions over the committed corpus (`crates/cli/tests/corpus.rs`).

pub mod bench;
pub mod filter;
pub mod host;
pub mod journal;
pub mod packet;
pub mod receiver;
pub mod wire;
