//! The protocol between the two ends of a transfer: control messages, frames and the types inside them.
//!
//! This crate opens no sockets or files and reads no clock, so two ends can be tested in memory. `docs/protocol.md`
//! specifies the bytes.

/// The number of the protocol, as a macro, so that the number can also be part of a string constant.
macro_rules! protocol_number {
    () => {
        18
    };
}

pub mod batch;
mod bounded;
pub mod control;
pub mod entry;
pub mod filter;
pub mod frame;
pub mod identity;
pub mod path;
pub mod sealed;
pub mod stages;

/// The version of the protocol, and thus of everything in this crate. Two ends with different versions refuse to
/// communicate.
pub const PROTOCOL: u32 = protocol_number!();
