//! The highest rates of parts of a host or path. Each formula names its source; docs/guide/checks.md has the formulas
//! in words.

pub mod bounds;
pub mod buffer;
pub mod cpu;
pub mod flow;
pub mod goodput;
pub mod pcie;
pub mod ssh;
pub mod trip;

use linerate_quantity::{BitRate, Bytes, Share};

/// A rate known only as a range, in bits a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Bits a second for people: `6.57 Gbit/s`, `940 Mbit/s`.
pub fn gbit(bits: f64) -> String {
    BitRate(bits).to_string()
}

/// Bytes for people, in powers of two as buffers are set: `6.0 MiB`.
pub fn bytes(bytes: f64) -> String {
    format!("{:#}", Bytes(bytes))
}

/// Share of a whole for people: `34 %`.
pub fn percent(share: f64) -> String {
    Share(share).to_string()
}
