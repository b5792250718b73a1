//! Data in the messages of a transfer to several hosts, which forward the data that they receive to other hosts.
//!
//! The hosts have positions from 0. In a chain, each host forwards to the host at the next position; in a tree, each
//! host forwards to two hosts. Only the client knows the shape: an agent forwards to the hosts that the client names.

use super::Cookie;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// A host's position in a chain or tree, and the secrets that the host needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainLink {
    /// DER of the SubjectPublicKeyInfo of the end that opens the data connections to this host: the client, or the
    /// agent that forwards to this one.
    pub previous: Vec<u8>,
    /// The cookie that data connections to this host send in their preface, in place of the cookie in the agent's
    /// Hello.
    pub cookie: Cookie,
    /// The key with which the source makes this host's marks.
    pub key: ChainKey,
    /// The position of this host in the chain or tree, which is also the position of its mark, from 0.
    pub place: u8,
    /// The number of hosts in the chain or tree, which is also the number of marks.
    pub hosts: u8,
}

/// The most hosts to which one host forwards.
pub const MAX_NEXT: usize = 2;

/// A host to which an agent forwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainNext {
    /// The host's position.
    pub place: u8,
    /// DER of the SubjectPublicKeyInfo of the host's agent.
    pub public_key: Vec<u8>,
    /// The cookie that connections to the agent send in their preface.
    pub cookie: Cookie,
    /// The addresses at which the host's agent listens, best first.
    pub candidates: Vec<SocketAddr>,
    /// The length of the longest row of hosts behind this host, of which each gets its data through the previous one.
    pub behind: u8,
}

/// A host to which an agent has stopped forwarding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostNext {
    /// The host's position.
    pub place: u8,
    /// The reason why the agent has stopped forwarding to the host.
    pub reason: String,
}

/// A secret that the source shares with one host.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainKey(pub [u8; 32]);

impl fmt::Debug for ChainKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChainKey")
    }
}
