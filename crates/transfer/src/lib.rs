//! Moves file trees: scan, plan, queue, source, stream, sink, commit.
//!
//! Threads and blocking sockets. `docs/architecture.md` draws the pipeline and its invariants.
//!
//! Unit tests stand beside the code. The tests of whole transfers need the built program, so they are in
//! `crates/cli/tests`: `e2e` (two hosts in a lab), `hostile` and `peer` (far ends that break the protocol), `races`
//! (links swapped meanwhile). `crates/transfer/tests` compares filters and itemized changes with rsync.

pub mod admission;
mod again;
pub mod agent;
pub mod ahead;
mod auto;
pub mod bounds;
mod channel;
pub mod clock;
mod commit;
pub mod compare;
mod connect;
mod crew;
mod dial;
pub mod digest;
pub mod feed;
pub mod filter;
#[doc(hidden)]
pub mod foreign;
mod handshake;
pub mod itemize;
mod journal;
mod keys;
mod landing;
pub mod leftovers;
pub mod lock;
pub mod memory;
mod metadata;
mod offer;
mod orphans;
mod pace;
pub mod pattern;
pub mod permit;
mod places;
mod plan;
pub mod problem;
pub mod pulse;
mod rate;
mod read_back;
pub mod receiver;
mod remove;
mod resume;
mod root;
mod safe_link;
mod scan;
pub mod sender;
pub mod session;
mod sink;
pub mod source;
mod spent;
mod spool;
mod stamp;
mod stream;
mod temporary;
mod tls;
mod transport;
mod under_way;
mod verify;
mod wanted;
