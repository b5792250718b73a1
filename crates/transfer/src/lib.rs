//! Moves file trees: scan, plan, queue, source, stream, sink, commit.
//!
//! Threads and blocking sockets. `docs/architecture.md` draws the pipeline and its invariants.

mod again;
pub mod agent;
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
mod handshake;
mod keys;
mod landing;
pub mod memory;
pub mod pattern;
pub mod problem;
mod rate;
mod read_back;
pub mod receiver;
mod root;
mod scan;
pub mod sender;
pub mod session;
mod sink;
pub mod source;
mod stream;
mod temporary;
mod tls;
mod transport;
mod under_way;
mod verify;
