//! Why a load could not be made.

use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a load could not be made; the message says what to try.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The arguments can't be served.
    #[error("{0}")]
    Arguments(String),
    /// Nobody answers there.
    #[error("connecting to {0}: {1}; is the server running, and does a firewall let port {p} through?", p = .0.port())]
    Connect(SocketAddr, io::Error),
    /// The peer answers, but not as it should.
    #[error("{0}: {1}")]
    Peer(String, String),
    /// A server can't listen.
    #[error("listening on {0}: {1}; is the address this host's and the port free?")]
    Listen(SocketAddr, io::Error),
    /// The system refuses what every load needs.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// What a thread that panicked would have said; it is passed on.
pub(crate) fn joined<T>(thread: std::thread::Result<T>) -> T {
    thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
