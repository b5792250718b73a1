//! The fuzz targets. Each passes its input to a decoder, and checks properties that every accepted input must
//! have.
//!
//! The workspace's tests run the same functions over the committed corpus (`crates/cli/tests/corpus.rs`).

pub mod bench;
pub mod filter;
pub mod host;
pub mod journal;
pub mod packet;
pub mod receiver;
pub mod wire;
