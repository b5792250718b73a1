//! Control messages: the two ends exchange them on the agent's standard input and output.
//!
//! Each message is encoded as its length (4 bytes, little endian), followed by a [`Message`] in postcard.

mod chained;
mod change;
mod channel;
mod detached;
mod details;
mod divided_file;
mod job;
mod journal_key;
mod leftover;
mod memory;
mod offer;
mod partner;
mod placing;

use crate::bounded::at_most;
use crate::entry::Entry;
use crate::filter::ListedPath;
use crate::path::RelPath;
use crate::stages::{Stages, Usage};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

pub use chained::{ChainKey, ChainLink, ChainNext, LostNext, MAX_NEXT};
pub use change::{Change, EntryFacts, Link, MAX_CHANGES};
pub use channel::{ControlError, read, write, write_from};
pub use detached::{DetachedJob, JobAttention, JobId, MAX_JOB_RECORD};
pub use details::{Charsets, Details, Fakes, IdentityFrom, IdentityRule, MAX_IDENTITY_RULES, MUNGED};
pub use divided_file::{DividedFile, LEAST_PIECE, MAX_DIVIDED, MAX_PIECES};
pub use job::{
    Backup, BlockSearch, Compression, CompressionLevel, Job, Keep, MAX_COMPRESSION, MAX_OTHER_TREES,
    ModeRule, Options, OtherTrees, OtherUse, Sync,
};
pub use journal_key::JournalKey;
pub use leftover::{Leftover, LeftoverKind};
pub use offer::{BlockSum, MAX_ANSWER_BLOCKS, MAX_BLOCKS, MAX_OFFERS, MAX_OPEN_OFFERS, Offered, Want};
pub use partner::{AskedSources, DeliveredContents, Delivery, MAX_DELIVERED, Partner, Tally};
pub use placing::{Appending, Placing};

/// The largest message in bytes.
pub const MAX_MESSAGE: usize = 1 << 20;
/// The most bytes of a data stream that one [`Message::Tunnel`] carries.
pub const MAX_TUNNEL: usize = 256 << 10;
/// The most bytes of a recording that one [`Message::Samples`] carries.
pub const MAX_SAMPLES: usize = 256 << 10;
/// The most sources of one transfer. The message that names all of them must fit into [`MAX_MESSAGE`] too; about 50,000
/// names of usual length fit.
pub const MAX_SOURCES: usize = 65_536;
/// The line that an agent prints before its first message. It separates the messages from the output of a
/// login shell's start-up files.
pub const AGENT_LINE: &str = "linerate-agent ready";

/// Bytes that a data connection sends first, in its preface before the handshake, so that connections from
/// strangers can be closed at no cost.
pub type Cookie = [u8; 16];

/// Everything that one end sends to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The first message of each end.
    Hello(Hello),
    /// Client to agent: the job to do.
    Job(Job),
    /// Agent to client: the addresses at which the agent accepts data connections.
    Listening(Listening),
    /// Client to agent: connect to the client, which can't reach the agent.
    ConnectBack {
        /// The addresses at which the client listens, best first.
        candidates: Vec<SocketAddr>,
    },
    /// Agent to client: whether connecting to the client has worked.
    ConnectedBack {
        /// `None` if connecting has worked, else the reason why not.
        error: Option<String>,
    },
    /// Client to agent: no data connection is possible in either direction; data is sent in [`Message::Tunnel`].
    UseTunnel,
    /// To the end that opens data connections: open this number of further connections.
    MoreStreams(u32),
    /// Bytes of the only data stream, which uses this channel; empty at the stream's end.
    Tunnel(Vec<u8>),
    /// Sender to receiver: the sources that will be sent, in the order of their numbers.
    Sources(#[serde(deserialize_with = "at_most::<MAX_SOURCES, _, _>")] Vec<Source>),
    /// Receiver to sender: each source has a destination, so start to send.
    Ready {
        /// The receiver may have some of the entries: send [`Message::Offer`] for everything first, and then send only
        /// entries that are wanted.
        offers: bool,
        /// The longest window that one compressed stream may use, as a power of two in bytes. The other
        /// streams' windows are limited to [`crate::frame::WINDOW_LOG`].
        window: u8,
    },
    /// Receiver to sender: send no more of this file.
    Skip {
        /// The file's number, [`crate::entry::Chunk::file`].
        file: u64,
    },
    /// Agent to client: a problem with one entry. The other entries are still processed.
    Problem(Problem),
    /// Agent to client, a few times a second: the agent's counters so far.
    Progress(Progress),
    /// Sender to receiver: every stream has ended.
    Sent {
        /// The totals of everything that was sent.
        totals: Totals,
        /// The number of data streams that were used. The receiver waits until this number of streams has
        /// ended.
        streams: u32,
        /// True if the scan had no error, so that an entry that wasn't offered doesn't exist at the source.
        complete: bool,
    },
    /// Receiver to sender: everything that was received is in place and on stable storage.
    Committed(Totals),
    /// Agent to client, the last message: the resources that the agent has used.
    Report {
        /// The agent's stages.
        stages: Stages,
        /// The usage of the agent's process.
        usage: Usage,
    },
    /// Agent to client: an entry that would be sent.
    Listed {
        /// The entry's path, as a user at that end would write it, as raw bytes.
        path: Vec<u8>,
        /// The entry at this path.
        entry: Entry,
        /// The entry's size in bytes as its file system reports it, also for a directory.
        size: u64,
    },
    /// The whole transfer failed.
    Abort {
        /// The reason, as text for the user.
        reason: String,
        /// The kind of failure, which determines the exit code of the client's program.
        kind: AbortKind,
    },
    /// Client to agent: report facts about the agent's host, and about the file systems of these paths (raw
    /// bytes). Without paths, the agent selects the file systems.
    AskFacts(Vec<Vec<u8>>),
    /// Client to agent: report the processor times of the agent's host.
    AskCpu,
    /// Agent to client: the answer to a question. It is a compressed snapshot of facts, or JSON of the `host`
    /// crate's `CpuTimes`.
    Answer(Vec<u8>),
    /// Client to agent: start to record the counters of the agent's host. The agent replies with
    /// [`Message::Answer`], which contains the interval that it uses, in milliseconds, as JSON.
    StartSampling(Sampling),
    /// Client to agent: send the samples that weren't sent yet, in [`Message::Samples`].
    TakeSamples {
        /// Record one more sample now, and then end the recording.
        last: bool,
    },
    /// Agent to client, in answer to [`Message::TakeSamples`]: the next bytes of the recording, at most [`MAX_SAMPLES`].
    /// An empty message ends the answer.
    Samples(Vec<u8>),
    /// Sender to receiver: entries that could be sent, at most [`MAX_OFFERS`]. A directory comes before its contents.
    Offer(#[serde(deserialize_with = "at_most::<MAX_OFFERS, _, _>")] Vec<Offered>),
    /// Receiver to sender: the answer to one [`Message::Offer`], with one element for each of its entries.
    Wanted(#[serde(deserialize_with = "at_most::<MAX_OFFERS, _, _>")] Vec<Want>),
    /// Receiver to sender, in place of [`Message::Committed`]: these files are damaged on stable storage; send them
    /// again.
    Again(#[serde(deserialize_with = "at_most::<MAX_AGAIN, _, _>")] Vec<(u32, RelPath)>),
    /// Agent that receives, to client: the changes that it makes, or would make in a dry run.
    Changes(#[serde(deserialize_with = "at_most::<MAX_CHANGES, _, _>")] Vec<Change>),
    /// Client to an agent that sends, after its [`Job`]: the next paths of a list of files; empty at the list's end.
    Select(#[serde(deserialize_with = "at_most::<MAX_SELECTED, _, _>")] Vec<ListedPath>),
    /// Receiver to sender, before [`Message::Ready`], if [`Options::digests`] is set: true if the destination
    /// is a directory in which each source gets its own name; false if the only source gets the destination's
    /// name.
    Within(bool),
    /// Agent to client: the next entries for a [`Job::Digests`], at most [`MAX_DIGESTED`]. A directory comes before its
    /// contents, and names are sorted by their bytes.
    Digested(#[serde(deserialize_with = "at_most::<MAX_DIGESTED, _, _>")] Vec<Digested>),
    /// Agent to client: a leftover of an abandoned transfer. If the job requests removal, it has already been
    /// removed.
    Leftover(Leftover),
    /// Receiver to sender, before the [`Message::Wanted`] that states their number: the next blocks of older versions.
    Blocks(#[serde(deserialize_with = "at_most::<MAX_BLOCKS, _, _>")] Vec<BlockSum>),
    /// Client to agent, before its [`Job`]: the data goes to or comes from another agent. [`Message::Partner`] will
    /// name that agent.
    Between,
    /// Client to an agent that got [`Message::Between`], before it listens: the agent at the other end of the data.
    Partner(Partner),
    /// Receiving agent that got [`Message::Between`], to its client, if [`AskedSources::delivered`] is set: the next
    /// digests of files that are in place.
    Delivered(#[serde(deserialize_with = "at_most::<MAX_DELIVERED, _, _>")] Vec<Delivery>),
    /// Agent that got [`Message::Between`], to its client, before its [`Message::Report`]: figures that only
    /// this agent knows.
    Tally(Tally),
    /// Client to an agent that sends: the number of links that its streams may use.
    Routes(u32),
    /// Client to agent, before its [`Job::Receive`]: the agent belongs to a chain or tree, so it gets the
    /// data from other agents or forwards it to them. After its [`Message::Ready`], the agent gets
    /// [`Message::Link`], and then listens.
    Chained,
    /// Client to an agent that got [`Message::Chained`]: its position, and the host before it.
    Link(ChainLink),
    /// Client to an agent that got [`Message::Chained`], after the agent's [`Message::Listening`]: the hosts
    /// to which the agent has to forward. The agent replies with one [`Message::ConnectedBack`] for each
    /// host, in the same order.
    Next(#[serde(deserialize_with = "at_most::<MAX_NEXT, _, _>")] Vec<ChainNext>),
    /// Agent that got [`Message::Chained`], to its client: the agent has stopped forwarding to one of the
    /// hosts that [`Message::Next`] named.
    NextLost(LostNext),
    /// Client to an agent that [`Job::Background`] has started, between [`Message::Hello`] and the job: the
    /// transfer continues without its client.
    Detached(DetachedJob),
    /// Agent that got [`Message::Detached`], its last message to its client: the agent no longer needs the
    /// client.
    UnderWay,
    /// Agent to client, for a [`Job::Jobs`] or [`Job::Attach`]: a job as JSON, at most [`MAX_JOB_RECORD`] bytes.
    JobRecord(Vec<u8>),
    /// Agent to client, for a [`Job::Attach`]: the next bytes of the job's events, lines of JSON.
    JobEvents(Vec<u8>),
}

/// An entry, with the digests of its contents and extended attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digested {
    /// The entry, without the values of extended attributes.
    pub entry: Entry,
    /// BLAKE3 of the entry's contents, if the entry is a file that could be read.
    pub contents: Option<Digest>,
    /// The digest of the entry's extended attributes, if these or ACLs were requested; `None` if they could
    /// not be read.
    pub attributes: Option<Attributes>,
    /// The entry's device and inode numbers, if hard links were requested and the entry has several names.
    pub file: Option<(u64, u64)>,
}

/// The digest of extended attributes: BLAKE3 of the lengths and bytes of names and values, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The digest of the attributes in the namespace `user.`.
    pub user: Digest,
    /// The digest of the other attributes that are kept; `None` from an end that may not see all of them.
    pub others: Option<Digest>,
}

/// The most entries of one [`Message::Digested`].
pub const MAX_DIGESTED: usize = 128;
/// The most names of one [`Message::Again`].
pub const MAX_AGAIN: usize = 1024;
/// The most paths of one [`Message::Select`].
pub const MAX_SELECTED: usize = 65_536;

/// A BLAKE3 hash.
pub type Digest = [u8; 32];

/// The settings of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Milliseconds between two samples; a value out of range is replaced by the nearest valid one.
    pub interval_ms: u32,
    /// The process IDs, at the agent's host, of processes that are recorded together with their descendants.
    pub processes: Vec<u32>,
    /// Names of programs. All processes that run these programs are recorded too.
    pub names: Vec<String>,
}

/// The first message of an end, with its identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The end's protocol number, [`crate::PROTOCOL`].
    pub protocol: u32,
    /// The program's version, for messages.
    pub version: String,
    /// DER of the SubjectPublicKeyInfo of the key pair that this end has made for this transfer.
    pub public_key: Vec<u8>,
    /// The bytes that each connection to this end's data port sends in its preface.
    pub cookie: Cookie,
}

/// The addresses at which an end accepts data connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Addresses at which the end accepts connections, best first; empty if it can't listen.
    pub candidates: Vec<SocketAddr>,
    /// Further addresses of the end's host at which it accepts connections, on the same port.
    pub further: Vec<IpAddr>,
    /// The client's address as the ssh server saw it.
    pub client: Option<IpAddr>,
    /// The reason why the end can't listen; `None` if it listens.
    pub error: Option<String>,
}

/// One source of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The number, from 0, of the argument that named the source. A pattern may name several sources.
    pub argument: u32,
    /// The source's own name, a single path component. In a destination directory, the source gets this name.
    pub name: RelPath,
    /// True if the source is a directory.
    pub directory: bool,
}

/// A problem with one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The entry's path, as a user at that end would write it, as raw bytes.
    pub path: Vec<u8>,
    /// The message: the step that failed, and the reason.
    pub message: String,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// What a problem means for the result of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProblemKind {
    /// The entry isn't at the destination.
    Failed,
    /// The entry's source changed or vanished during the transfer.
    Changed,
    /// The entry was left out on purpose, for example a directory without `-r`, or a device.
    Skipped,
    /// The entry is at the destination, but one of its properties could not be kept.
    NotKept,
    /// The entry isn't at the source, but could not be deleted at the destination.
    NotDeleted,
    /// A note for the user about the options. It concerns no entry, and nothing has failed.
    Noted,
    /// A remark about what was done with the entry; nothing is wrong.
    Remark,
}

/// Counters during a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The stages' counters so far.
    pub stages: Stages,
    /// Entries that the scanner has found so far, at the sender.
    pub found: Totals,
    /// True if the scan is complete, so that `found` is final.
    pub scanned: bool,
    /// Entries that are in place so far, at the receiver.
    pub landed: Totals,
}

/// Totals over entries of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of regular files, including further hard links to them.
    pub files: u64,
    /// The number of directories.
    pub directories: u64,
    /// The number of symbolic links.
    pub symlinks: u64,
    /// The payload bytes of regular files.
    pub bytes: u64,
    /// The number of devices, named pipes and sockets.
    pub specials: u64,
}

impl Totals {
    /// The number of all entries.
    pub fn entries(&self) -> u64 {
        [self.directories, self.symlinks, self.specials].into_iter().fold(self.files, u64::saturating_add)
    }
}

/// The reason why a transfer was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AbortKind {
    /// Something failed.
    Failed,
    /// The arguments can't be used, for example because the destination doesn't exist, or several sources name a file
    /// as destination.
    Arguments,
    /// The user interrupted the transfer.
    Interrupted,
    /// A connection of the transfer broke.
    Lost,
    /// Another run holds a resource that this transfer needs.
    Busy,
}
