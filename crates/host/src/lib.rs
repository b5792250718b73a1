//! Facts about a host and the counters that a run samples.

mod facts;

pub use facts::{Fact, Facts, Interface};
