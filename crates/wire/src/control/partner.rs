//! Messages of a transfer between two agents, whose client carries what they say to each other.

use super::{Cookie, Digest, MAX_SOURCES, Totals};
use crate::bounded::at_most;
use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// The other end of an agent's data, where that isn't its client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partner {
    /// DER of the SubjectPublicKeyInfo of the key pair that it made for this transfer.
    pub public_key: Vec<u8>,
    /// What connections to either of the two show first, in place of their own cookies.
    pub cookie: Cookie,
    /// For an agent that receives: what its client has asked the partner for.
    pub asked: Option<AskedSources>,
}

/// The client's own request to the agent that sends, beside the options of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedSources {
    /// The sources, as the user wrote them.
    #[serde(deserialize_with = "at_most::<MAX_SOURCES, _, _>")]
    pub sources: Vec<Vec<u8>>,
    /// The digests of what is in place are to be told.
    pub delivered: bool,
}

/// What is known of the contents of a file that is in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The number of its source.
    pub source: u32,
    /// Its path there.
    pub path: RelPath,
    /// What is known.
    pub contents: DeliveredContents,
}

/// What is known of a file's contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveredContents {
    /// BLAKE3 of them.
    Digest(Digest),
    /// They are those of the file at this path of this source.
    SameAs(u32, RelPath),
    /// What was told before no longer counts.
    Withdrawn,
}

/// What an agent tells of a transfer with another one, at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The cipher of the data; none in clear.
    pub cipher: Option<String>,
    /// Connections to its data port that were turned away; none where it didn't listen.
    pub turned_away: Option<u64>,
    /// What was there already.
    pub unchanged: Totals,
    /// Bytes among it of files that have changed.
    pub matched: u64,
}

/// The most elements of one [`super::Message::Delivered`].
pub const MAX_DELIVERED: usize = 1024;
