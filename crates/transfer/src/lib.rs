//! Moves file trees: scan, plan, queue, source, stream, sink, commit.
//!
//! The crate uses threads and blocking sockets. `docs/architecture.md` draws the pipeline and states its invariants.
//! The crate's modules are its rooms. Each room may use only the rooms above it in the groups of modules in `lib.rs`;
//! so `net` and `tree` don't use each other, and neither do `send` and `receive`.
//!
//! Unit tests are next to the code. The tests of whole transfers need the built program, so they are in
//! `crates/cli/tests`: `e2e` (two hosts in a lab), `hostile` and `peer` (far ends that break the protocol), `races`
//! (links swapped during a transfer). `crates/transfer/tests` compares filters and itemized changes with rsync.

mod base;

mod net;
mod tree;

pub mod between;
pub mod differences;
pub mod memory;
mod receive;
mod send;

pub mod agent;
pub mod detached;
#[doc(hidden)]
pub mod foreign;
pub mod permit;

pub use base::{lock, problem};
pub use memory::feed;
pub use net::{clock, control_link, pulse, routes, session};
pub use receive::{admission, leftovers, receiver};
pub use receive::{backup::NO_BACKUP_DIR, near::NO_TEMP_DIR, remove::NOT_ALL_READ};
pub use send::{
    ahead, chain, fan,
    reading::{CHANGED, SHORTER},
    sender, survey,
};
pub use tree::{bounds, charsets, digest, filter, itemize, own_files, pattern, root};
