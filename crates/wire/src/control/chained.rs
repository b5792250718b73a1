//! Messages of a transfer to several hosts, of which each hands on to the next what it gets.

use super::Cookie;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// A host's place in a chain, and what it needs there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainLink {
    /// DER of the SubjectPublicKeyInfo of whoever opens the data connections to this host: the client, or the agent before
    /// it.
    pub previous: Vec<u8>,
    /// The cookie that data connections to this host show first, in place of the agent's own.
    pub cookie: Cookie,
    /// The key with which the source makes this host's marks.
    pub key: ChainKey,
    /// Which of the marks is this host's, from 0.
    pub place: u8,
    /// How many hosts, and marks, there are.
    pub hosts: u8,
}

/// The host behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainNext {
    /// DER of the SubjectPublicKeyInfo of its agent.
    pub public_key: Vec<u8>,
    /// The cookie that connections to the agent show first.
    pub cookie: Cookie,
    /// Where it listens, best first.
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
