//! Messages of a transfer between two agents, which exchange messages through their client.

use super::{Cookie, Digest, MAX_SOURCES, Totals};
use crate::bounded::at_most;
use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// The other end of an agent's data, if that end isn't the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partner {
    /// DER of the SubjectPublicKeyInfo of the key pair that the partner has made for this transfer.
    pub public_key: Vec<u8>,
    /// The cookie that connections between the two agents send in their preface, in place of the agents' own cookies.
    pub cookie: Cookie,
    /// For an agent that receives: the sources that the client has requested from the partner. `None` for an
    /// agent that sends.
    pub asked: Option<AskedSources>,
}

/// The client's request to the sending agent, in addition to the options of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedSources {
    /// The sources, as the user wrote them.
    #[serde(deserialize_with = "at_most::<MAX_SOURCES, _, _>")]
    pub sources: Vec<Vec<u8>>,
    /// The receiver reports the digests of files that are in place.
    pub delivered: bool,
}

/// A report about the contents of a file that is in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The number of the file's source.
    pub source: u32,
    /// The file's path below that source.
    pub path: RelPath,
    /// The digest of the contents, or a statement in its place.
    pub contents: DeliveredContents,
}

/// The digest of a file's contents, or a statement in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveredContents {
    /// BLAKE3 of the contents.
    Digest(Digest),
    /// The contents are equal to those of the file at this path of this source.
    SameAs(u32, RelPath),
    /// Earlier reports about this file are no longer valid.
    Withdrawn,
}

/// The figures that an agent reports at the end of a transfer with another agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The cipher of the data; `None` if the data isn't encrypted.
    pub cipher: Option<String>,
    /// The number of rejected connections to the agent's data port; `None` if the agent didn't listen.
    pub turned_away: Option<u64>,
    /// Entries that the receiver already had.
    pub unchanged: Totals,
    /// Bytes of changed files that the receiver already had, and that weren't sent.
    pub matched: u64,
}

/// The most elements of one [`super::Message::Delivered`].
pub const MAX_DELIVERED: usize = 1024;
