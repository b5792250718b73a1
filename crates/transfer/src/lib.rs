//! Moves file trees: scan, plan, queue, source, stream, sink, commit.
//!
//! Threads and blocking sockets. `docs/architecture.md` draws the pipeline and its invariants.

mod again;
pub mod agent;
pub mod ahead;
mod auto;
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
mod plan;
pub mod problem;
mod rate;
mod read_back;
pub mod receiver;
mod remove;
mod resume;
mod root;
mod scan;
pub mod sender;
pub mod session;
mod sink;
pub mod source;
mod spent;
mod stamp;
mod stream;
mod temporary;
mod tls;
mod transport;
mod under_way;
mod verify;
mod wanted;
