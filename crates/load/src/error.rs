//! Errors of loads.

use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// The reason why a load failed. Most messages contain advice.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The load's arguments are invalid.
    #[error("{0}")]
    Arguments(String),
    /// No server answers at the address.
    #[error("connecting to {0}: {1}; is the server running, and does a firewall let port {p} through?", p = .0.port())]
    Connect(SocketAddr, io::Error),
    /// The other end's answer violates the protocol: the other end, and the error.
    #[error("{0}: {1}")]
    Peer(String, String),
    /// The server can't listen at the address.
    #[error("listening on {0}: {1}; does the address belong to this host, and is the port free?")]
    Listen(SocketAddr, io::Error),
    /// The system refuses a resource that each load needs.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// The user stopped the load.
    #[error("interrupted")]
    Interrupted,
}

/// The result of a thread that has ended. If the thread panicked, this function panics too.
pub(crate) fn joined<T>(thread: std::thread::Result<T>) -> T {
    thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
