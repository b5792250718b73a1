//! Measurements and facts to findings: pure functions.

pub mod limiter;
