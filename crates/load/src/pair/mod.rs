//! Endpoint pairs, each a TCP connection with its own thread. The loads are request/response, a connection
//! for each request and response, bulk, and datagrams. One server serves all of them.

mod bulk;
mod client;
mod datagram;
mod hello;
mod schedule;
mod server;

pub use bulk::{Amount, Bulk, BulkResult, Direction};
pub use client::{ConnectionStyle, Transactions, TransactionsResult};
pub use datagram::{Datagrams, LARGEST_DATAGRAM, SMALLEST_DATAGRAM};
pub use hello::FIRST_BYTE;
pub use schedule::{Scheduled, Span};
pub use server::{PairService, WORKERS};

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::LoadError;
use crate::serve::prepare;

/// The longest time to wait for a connection, and for an answer from the other end.
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(10);
/// The greatest number of pairs of one client.
pub const MOST_PAIRS: usize = 4096;

/// Connects, with socket buffers of `window` bytes if `window` is given.
fn connect(to: SocketAddr, window: Option<u32>) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(window) = window {
        socket.set_send_buffer_size(window as usize)?;
        socket.set_recv_buffer_size(window as usize)?;
    }
    socket.connect_timeout(&to.into(), PEER_TIMEOUT)?;
    let stream = TcpStream::from(socket);
    prepare(&stream)?;
    Ok(stream)
}

fn check(to: &[SocketAddr], pairs: usize) -> Result<(), LoadError> {
    if to.is_empty() {
        return Err(LoadError::Arguments(
            "no server to connect to; give one with --connect ADDRESS:PORT".into(),
        ));
    }
    if pairs == 0 || pairs > MOST_PAIRS {
        return Err(LoadError::Arguments(format!("--pairs {pairs}: it must be 1 to {MOST_PAIRS}")));
    }
    Ok(())
}
