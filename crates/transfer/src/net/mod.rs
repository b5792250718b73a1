//! Everything that moves bytes between the two ends: sessions, connections, streams, rates and clocks.

pub mod auto;
pub mod chain;
pub mod channel;
pub mod clock;
pub mod compress;
pub mod connect;
pub mod control_link;
pub mod crew;
pub mod dial;
pub mod handshake;
pub mod keys;
pub mod pace;
pub mod pulse;
pub mod rate;
pub mod routes;
pub mod session;
pub mod spent;
pub mod stream;
pub mod tls;
pub mod transport;
