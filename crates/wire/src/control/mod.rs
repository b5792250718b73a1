//! Control messages, which the two ends exchange on the agent's standard input and output.
//!
//! A message is sent as its length (4 bytes, little endian), followed by a [`Message`] in postcard.

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

/// The most bytes of a message, without its length field.
pub const MAX_MESSAGE: usize = 1 << 20;
/// The most bytes of a data stream that one [`Message::Tunnel`] carries.
pub const MAX_TUNNEL: usize = 256 << 10;
/// The most bytes of a recording that one [`Message::Samples`] carries.
pub const MAX_SAMPLES: usize = 256 << 10;
/// The most sources of one transfer. The message that names all sources must also fit into [`MAX_MESSAGE`]; about
/// 50,000 names of usual length fit.
pub const MAX_SOURCES: usize = 65_536;
/// The line that an agent prints before its first message. The line separates the messages from the output of a login
/// shell's start-up files.
pub const AGENT_LINE: &str = "linerate-agent ready";

/// Bytes that a data connection sends in its preface, before the handshake. By these bytes, a listener closes
/// connections from strangers at little cost.
pub type Cookie = [u8; 16];

/// A control message. In a variant's comment, the words before the colon name the ends that send and get the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The first message of each end.
    Hello(Hello),
    /// Client to agent: the job to do.
    Job(Job),
    /// Agent to client: the addresses at which the agent accepts data connections.
    Listening(Listening),
    /// Client to agent: connect to one of these addresses, because the end that listens there can't reach the agent.
    /// These are the client's addresses or, if the data goes between two agents, the other agent's.
    ConnectBack {
        /// The addresses to which the agent connects, best first.
        candidates: Vec<SocketAddr>,
    },
    /// Agent to client: whether the connection for a [`Message::ConnectBack`], or to a host in [`Message::Next`], has
    /// worked.
    ConnectedBack {
        /// `None` if the connection has worked, else the reason why it hasn't.
        error: Option<String>,
    },
    /// Client to agent: no data connection is possible in either direction, so the data is sent in [`Message::Tunnel`].
    UseTunnel,
    /// Sender to a receiver that opens the data connections: open this number of further connections.
    MoreStreams(u32),
    /// The next bytes of the only data stream, if the stream goes through the control channel; empty at the stream's
    /// end.
    Tunnel(Vec<u8>),
    /// Sender to receiver: the sources that will be sent, in the order of their numbers.
    Sources(#[serde(deserialize_with = "at_most::<MAX_SOURCES, _, _>")] Vec<Source>),
    /// Receiver to sender: each source has a place at the destination, so start to send.
    Ready {
        /// True if the receiver may already have some of the entries. Then the sender must offer each entry in
        /// [`Message::Offer`] before it sends the entry, and send only what the receiver wants.
        offers: bool,
        /// The largest window that one compressed stream may use, as a power of two in bytes. The windows of all other
        /// streams are limited to [`crate::frame::WINDOW_LOG`].
        window: u8,
    },
    /// Receiver to sender: send no more of this file.
    Skip {
        /// The file's number, [`crate::entry::Chunk::file`].
        file: u64,
    },
    /// Agent to client: a problem with one entry. The session continues with the other entries. Between two agents, the
    /// client passes the sender's problems on to the receiver.
    Problem(Problem),
    /// Either end, several times a second: the counters of the end that sends this message.
    Progress(Progress),
    /// Sender to receiver: every stream has ended.
    Sent {
        /// The totals of everything that the sender has found.
        totals: Totals,
        /// The number of data streams that were used. The receiver waits until as many streams have ended.
        streams: u32,
        /// True if the scan had no error. Then each entry that wasn't offered doesn't exist at the source.
        complete: bool,
    },
    /// Receiver to sender: everything that was received is in place and on stable storage.
    Committed(Totals),
    /// Agent to client, the last message: the resources that the agent has used.
    Report {
        /// The counters of the agent's stages.
        stages: Stages,
        /// The processor time and memory of the agent's process.
        usage: Usage,
    },
    /// Agent to client: an entry that would be sent.
    Listed {
        /// The entry's path, as a user on the agent's host would write it, as raw bytes.
        path: Vec<u8>,
        /// The entry at this path.
        entry: Entry,
        /// The entry's size in bytes as the file system reports it, also for a directory.
        size: u64,
    },
    /// Either end: the whole transfer has failed, for this reason.
    Abort {
        /// The reason, as text for the user.
        reason: String,
        /// The kind of failure, which determines the exit code of the client's program.
        kind: AbortKind,
    },
    /// Client to agent: report facts about the agent's host, and about the file systems of these paths (raw bytes).
    /// Without paths, the agent reports about the file systems of `/` and of the current directory.
    AskFacts(Vec<Vec<u8>>),
    /// Client to agent: report the processor times of the agent's host.
    AskCpu,
    /// Agent to client: the answer to [`Message::AskFacts`], a compressed snapshot of facts; or to [`Message::AskCpu`],
    /// JSON of the `host` crate's `CpuTimes`; or to [`Message::StartSampling`].
    Answer(Vec<u8>),
    /// Client to agent: start to record the counters of the agent's host. The agent replies with [`Message::Answer`],
    /// which contains the interval between two samples that it uses, in milliseconds, as JSON.
    StartSampling(Sampling),
    /// Client to agent: send the samples that weren't sent yet, in [`Message::Samples`].
    TakeSamples {
        /// True if the agent must record one more sample now, and then end the recording.
        last: bool,
    },
    /// Agent to client, in answer to [`Message::TakeSamples`]: the next bytes of the recording, at most
    /// [`MAX_SAMPLES`]. The answer ends with an empty message.
    Samples(Vec<u8>),
    /// Sender to receiver: entries that could be sent, at most [`MAX_OFFERS`]. A directory comes before its contents.
    Offer(#[serde(deserialize_with = "at_most::<MAX_OFFERS, _, _>")] Vec<Offered>),
    /// Receiver to sender: the answer to one [`Message::Offer`], with one element for each of its entries.
    Wanted(#[serde(deserialize_with = "at_most::<MAX_OFFERS, _, _>")] Vec<Want>),
    /// Receiver to sender, in place of [`Message::Committed`]: these files are damaged on stable storage, so send them
    /// again. A file is named by the number of its source and its path.
    Again(#[serde(deserialize_with = "at_most::<MAX_AGAIN, _, _>")] Vec<(u32, RelPath)>),
    /// Agent that receives, to client: the changes that it makes, or would make in a dry run.
    Changes(#[serde(deserialize_with = "at_most::<MAX_CHANGES, _, _>")] Vec<Change>),
    /// Client to an agent, after the agent's [`Job`]: the next paths of the list of files; empty at the list's end. An
    /// agent that sends gets the list, and so do both agents if two agents exchange the data.
    Select(#[serde(deserialize_with = "at_most::<MAX_SELECTED, _, _>")] Vec<ListedPath>),
    /// Receiver to sender, before [`Message::Ready`], if [`Options::digests`] is set: true if the destination
    /// is a directory in which each source gets its own name; false if the only source gets the destination's
    /// name.
    Within(bool),
    /// Agent to client: the next entries for a [`Job::Digests`], at most [`MAX_DIGESTED`]. A directory comes before its
    /// contents, and names are sorted by their bytes.
    Digested(#[serde(deserialize_with = "at_most::<MAX_DIGESTED, _, _>")] Vec<Digested>),
    /// Agent to client: a leftover of an abandoned transfer. If the job requests removal, the agent has already removed
    /// it.
    Leftover(Leftover),
    /// Receiver to sender: the sums of the next blocks of older versions. A later [`Message::Wanted`] states the number
    /// of blocks of each file.
    Blocks(#[serde(deserialize_with = "at_most::<MAX_BLOCKS, _, _>")] Vec<BlockSum>),
    /// Client to agent, before the agent's [`Job`]: the data goes to another agent or comes from it. A
    /// [`Message::Partner`] will name that agent.
    Between,
    /// Client to an agent that got [`Message::Between`], before this agent listens: the identity of the other agent.
    Partner(Partner),
    /// Receiving agent that got [`Message::Between`], to its client, if [`AskedSources::delivered`] is set: the next
    /// digests of files that are in place.
    Delivered(#[serde(deserialize_with = "at_most::<MAX_DELIVERED, _, _>")] Vec<Delivery>),
    /// Agent that got [`Message::Between`], to its client, before its [`Message::Report`]: values that only this agent
    /// knows.
    Tally(Tally),
    /// Client to an agent that sends: the number of links over which the client opens data streams.
    Routes(u32),
    /// Client to agent, before the agent's [`Job::Receive`]: the agent belongs to a chain or tree, so it gets the data
    /// from another agent or forwards it to other agents. After its [`Message::Ready`], the agent gets
    /// [`Message::Link`], and then listens.
    Chained,
    /// Client to an agent that got [`Message::Chained`]: the agent's position, and the end from which it gets the data.
    Link(ChainLink),
    /// Client to an agent that got [`Message::Chained`], after the agent's [`Message::Listening`]: the hosts
    /// to which the agent has to forward. The agent replies with one [`Message::ConnectedBack`] for each
    /// host, in the same order.
    Next(#[serde(deserialize_with = "at_most::<MAX_NEXT, _, _>")] Vec<ChainNext>),
    /// Agent that got [`Message::Chained`], to its client: the agent has stopped forwarding to one of the
    /// hosts that [`Message::Next`] named.
    NextLost(LostNext),
    /// Client to an agent that a [`Job::Background`] has started, between [`Message::Hello`] and the job: the transfer
    /// will continue without its client.
    Detached(DetachedJob),
    /// Agent that got [`Message::Detached`], to its client, as the last message: the agent no longer needs the client.
    UnderWay,
    /// Agent to client, for a [`Job::Jobs`] or [`Job::Attach`]: the record of a job as JSON, at most [`MAX_JOB_RECORD`]
    /// bytes.
    JobRecord(Vec<u8>),
    /// Agent to client, for a [`Job::Attach`]: the next bytes of the job's events, lines of JSON.
    JobEvents(Vec<u8>),
}

/// An entry, with the digests of its contents and extended attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digested {
    /// The entry, without the values of extended attributes.
    pub entry: Entry,
    /// The BLAKE3 hash of the entry's contents, if the entry is a file that could be read.
    pub contents: Option<Digest>,
    /// The digests of the entry's extended attributes. `None` if the job requests neither extended attributes nor ACLs,
    /// or if the attributes could not be read.
    pub attributes: Option<Attributes>,
    /// The entry's device and inode numbers, if the job requests hard links, and the entry isn't a directory and has
    /// several names.
    pub file: Option<(u64, u64)>,
}

/// Digests of extended attributes. A digest is the BLAKE3 hash of the lengths and bytes of the names and values, sorted
/// by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The digest of the attributes in the namespace `user.`.
    pub user: Digest,
    /// The digest of all other attributes that are kept; `None` from an end that may not see all of these attributes.
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
    /// Milliseconds between two samples; the agent replaces a value out of range by the nearest valid value.
    pub interval_ms: u32,
    /// The process IDs, on the agent's host, of processes that are recorded together with their descendants.
    pub processes: Vec<u32>,
    /// Names of programs. All processes that run these programs are recorded, also together with their descendants.
    pub names: Vec<String>,
}

/// The contents of an end's first message: the end's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The end's protocol number, [`crate::PROTOCOL`].
    pub protocol: u32,
    /// The version of the end's program, for messages to the user.
    pub version: String,
    /// DER of the SubjectPublicKeyInfo of the key pair that this end has made for this session; empty from a client
    /// that needs no data stream.
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
    /// The number, from 0, of the argument that named the source. One pattern may name several sources.
    pub argument: u32,
    /// The source's own name: a single path component, or empty if the source has no name of its own. In a destination
    /// directory, the source gets this name.
    pub name: RelPath,
    /// True if the source is a directory.
    pub directory: bool,
}

/// A problem with one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The entry's path, as a user on the host of the reporting end would write it, as raw bytes.
    pub path: Vec<u8>,
    /// The message: the step that failed, and the reason.
    pub message: String,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// The kind of a problem: what the problem means for the result of the transfer.
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
    /// A note for the user about the options. The note concerns no entry, and nothing has failed.
    Noted,
    /// A remark about what was done with the entry. Nothing has failed.
    Remark,
}

/// An end's counters during a transfer. An end sets only the fields that it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The stages' counters so far.
    pub stages: Stages,
    /// The totals of the entries that the sender's scan has found so far.
    pub found: Totals,
    /// True if the scan is complete, so that `found` is final.
    pub scanned: bool,
    /// The totals of the entries that the receiver has put in place so far.
    pub landed: Totals,
}

/// Numbers of entries of each kind, and of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of regular files, including further hard links to them.
    pub files: u64,
    /// The number of directories.
    pub directories: u64,
    /// The number of symbolic links.
    pub symlinks: u64,
    /// The bytes of the contents of regular files; a file with several names counts once.
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

/// The kind of reason why a transfer was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AbortKind {
    /// An operation failed.
    Failed,
    /// The arguments can't be used, for example because the destination doesn't exist, or because several sources have
    /// a file as their destination; or the job isn't permitted.
    Arguments,
    /// The user interrupted the transfer.
    Interrupted,
    /// A connection of the transfer broke.
    Lost,
    /// Another run of the same command is working at the same destination.
    Busy,
}
