//! The common room of the commands: what several of them take, do and print.

pub mod failure;
pub mod far;
mod losses;
pub mod output;
pub mod reach;
pub mod spec;
pub mod summary;

/// The version of the events that `--json` prints; it grows with changes that are not additions.
pub const SCHEMA: u32 = 1;
