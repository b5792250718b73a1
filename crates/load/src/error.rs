//! Errors of loads.

use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// The reason that a load failed; the message says what to try.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Invalid arguments.
    #[error("{0}")]
    Arguments(String),
    /// No server answers at the address.
    #[error("connecting to {0}: {1}; is the server running, and does a firewall let port {p} through?", p = .0.port())]
    Connect(SocketAddr, io::Error),
    /// The peer gives a wrong answer.
    #[error("{0}: {1}")]
    Peer(String, String),
    /// The server can't listen.
    #[error("listening on {0}: {1}; is the address this host's and the port free?")]
    Listen(SocketAddr, io::Error),
    /// The system refuses a resource that every load needs.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// The error of a thread; its panic is passed on.
pub(crate) fn joined<T>(thread: std::thread::Result<T>) -> T {
    thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
