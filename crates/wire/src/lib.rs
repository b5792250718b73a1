//! The language of the two ends of a transfer: control messages, frames and the types inside them.
//!
//! Nothing here opens a socket, a file or a clock, so two ends can be tested in memory. `docs/protocol.md`
//! specifies the bytes.

pub mod batch;
mod bounded;
pub mod control;
pub mod entry;
pub mod filter;
pub mod frame;
pub mod path;
pub mod sealed;
pub mod stages;

/// The version of everything in this crate. Two ends that differ don't talk.
pub const PROTOCOL: u32 = 15;
