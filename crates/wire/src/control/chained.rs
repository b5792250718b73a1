//! Messages of a transfer to several hosts, each of which forwards the data that it receives to the next host.

use super::Cookie;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// A host's position in a chain, and the secrets that it needs there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainLink {
    /// DER of the SubjectPublicKeyInfo of the end that opens the data connections to this host: the client, or the
    /// agent before this one.
    pub previous: Vec<u8>,
    /// The cookie that data connections to this host send first, in place of the agent's own cookie.
    pub cookie: Cookie,
    /// The key with which the source makes this host's marks.
    pub key: ChainKey,
    /// The position of this host, and so of its mark, from 0.
    pub place: u8,
    /// The number of hosts, and so of marks.
    pub hosts: u8,
}

/// The next host of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainNext {
    /// DER of the SubjectPublicKeyInfo of its agent.
    pub public_key: Vec<u8>,
    /// The cookie that connections to the agent send first.
    pub cookie: Cookie,
    /// The addresses at which it listens, best first.
    pub candidates: Vec<SocketAddr>,
}

/// A secret that the source shares with one host of a chain.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainKey(pub [u8; 32]);

impl fmt::Debug for ChainKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChainKey")
    }
}
