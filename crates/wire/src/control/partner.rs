//! Data in the messages of a transfer between two agents, which exchange messages through their client.

use super::{Cookie, Digest, MAX_SOURCES, Totals};
use crate::bounded::at_most;
use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// The partner of an agent: the other agent, with which the agent exchanges data in a transfer between two far hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partner {
    /// DER of the SubjectPublicKeyInfo of the key pair that the partner has made for this transfer.
    pub public_key: Vec<u8>,
    /// The cookie that connections between the two agents send in their preface, in place of the agents' own cookies.
    pub cookie: Cookie,
    /// The sources that the client has requested from the partner, if this agent receives. `None` if this agent sends.
    pub asked: Option<AskedSources>,
}

/// The client's request to the sending agent, as far as it isn't part of the job's options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedSources {
    /// The sources, as the user wrote them.
    #[serde(deserialize_with = "at_most::<MAX_SOURCES, _, _>")]
    pub sources: Vec<Vec<u8>>,
    /// True if the receiver must report the digests of files that are in place, in [`super::Message::Delivered`].
    pub delivered: bool,
}

/// A report about the contents of a file that is in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The number of the file's source.
    pub source: u32,
    /// The file's path below that source.
    pub path: RelPath,
    /// The digest of the contents, or another statement about them.
    pub contents: DeliveredContents,
}

/// The digest of a file's contents, or another statement about the contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveredContents {
    /// The BLAKE3 hash of the contents.
    Digest(Digest),
    /// The contents are those of the file of this source at this path.
    SameAs(u32, RelPath),
    /// Earlier reports about this file are no longer valid.
    Withdrawn,
}

/// Values that an agent reports at the end of a transfer with another agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The cipher of the data; `None` if the data isn't encrypted.
    pub cipher: Option<String>,
    /// The number of rejected connections to the agent's data port; `None` if the agent didn't listen.
    pub turned_away: Option<u64>,
    /// The totals of the entries that the receiver already had.
    pub unchanged: Totals,
    /// The bytes of changed files that weren't sent because the receiver already had them.
    pub matched: u64,
}

/// The most elements of one [`super::Message::Delivered`].
pub const MAX_DELIVERED: usize = 1024;
