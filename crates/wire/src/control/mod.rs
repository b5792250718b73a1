//! Control messages: what the two ends say on the agent's standard input and output.
//!
//! Each is a length (4 bytes, little endian) and a [`Message`] in postcard.

mod chained;
mod channel;
mod detached;
mod details;
mod divided;
mod job;
mod leftover;
mod memory;
mod partner;
mod placing;

use crate::bounded::at_most;
use crate::entry::{Entry, Timestamp};
use crate::filter::ListedPath;
use crate::path::RelPath;
use crate::stages::{Stages, Usage};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

pub use chained::{ChainKey, ChainLink, ChainNext};
pub use channel::{ControlError, read, write, write_from};
pub use detached::{DetachedJob, JobAttention, JobId, MAX_JOB_RECORD};
pub use details::{Charsets, Details, Fakes, IdentityFrom, IdentityRule, MAX_IDENTITY_RULES, MUNGED};
pub use divided::{DividedFile, LEAST_PIECE, MAX_DIVIDED, MAX_PIECES};
pub use job::{
    Backup, BlockSearch, Compression, CompressionLevel, Job, Keep, MAX_COMPRESSION, MAX_OTHER_TREES,
    ModeRule, Options, OtherTrees, OtherUse, Sync,
};
pub use leftover::{Leftover, LeftoverKind};
pub use partner::{AskedSources, DeliveredContents, Delivery, MAX_DELIVERED, Partner, Tally};
pub use placing::{Appending, Placing};

/// The largest message in bytes.
pub const MAX_MESSAGE: usize = 1 << 20;
/// The most bytes of a data stream that one [`Message::Tunnel`] carries.
pub const MAX_TUNNEL: usize = 256 << 10;
/// The most bytes of a recording that one [`Message::Samples`] carries.
pub const MAX_SAMPLES: usize = 256 << 10;
/// The most sources of one transfer; their one message must fit into [`MAX_MESSAGE`] too, which about 50,000 names of
/// usual lengths do.
pub const MAX_SOURCES: usize = 65_536;
/// The line that an agent prints before its first message, so that what a login shell prints can be told apart.
pub const AGENT_LINE: &str = "linerate-agent ready";

/// Bytes that a data connection shows before its handshake, so that a stranger's is dropped at no cost.
pub type Cookie = [u8; 16];

/// Everything that one end says to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The first message of each end.
    Hello(Hello),
    /// Client to agent: what to do.
    Job(Job),
    /// Agent to client: where it accepts data connections.
    Listening(Listening),
    /// Client to agent: connect here, since I can't reach you.
    ConnectBack {
        /// Where the client listens, best first.
        candidates: Vec<SocketAddr>,
    },
    /// Agent to client: whether connecting back worked.
    ConnectedBack {
        /// `None` where it did, else why not.
        error: Option<String>,
    },
    /// Client to agent: no data connection is possible either way, data travels in [`Message::Tunnel`].
    UseTunnel,
    /// To the end that opens data connections: open N more.
    MoreStreams(u32),
    /// Bytes of the one data stream that travels through this channel; empty at its end.
    Tunnel(Vec<u8>),
    /// Sender to receiver: what comes, in the order of the sources' numbers.
    Sources(#[serde(deserialize_with = "at_most::<MAX_SOURCES, _, _>")] Vec<Source>),
    /// Receiver to sender: every source has a place, send.
    Ready {
        /// Some of it may be there already: [`Message::Offer`] everything first, and send what is wanted.
        offers: bool,
        /// The longest window of one compressed stream, as a power of two in bytes; the others' are up to
        /// [`crate::frame::WINDOW_LOG`].
        window: u8,
    },
    /// Receiver to sender: nothing more of this file is wanted.
    Skip {
        /// [`crate::entry::Chunk::file`].
        file: u64,
    },
    /// Agent to client: something is wrong with one entry; the rest goes on.
    Problem(Problem),
    /// Agent to client, a few times a second: its counters so far.
    Progress(Progress),
    /// Sender to receiver: every stream has ended.
    Sent {
        /// The totals of everything sent.
        totals: Totals,
        /// Data streams that were used; the receiver waits for the end of as many.
        streams: u32,
        /// The scan met no error, so that what wasn't offered isn't at the source.
        complete: bool,
    },
    /// Receiver to sender: everything received is in place and on stable storage.
    Committed(Totals),
    /// Agent to client, the last message: what it used.
    Report {
        /// The agent's stages.
        stages: Stages,
        /// The usage of the agent's process.
        usage: Usage,
    },
    /// Agent to client: an entry that would be sent.
    Listed {
        /// Its path as that end's user would write it, raw bytes.
        path: Vec<u8>,
        /// The entry there.
        entry: Entry,
        /// Its bytes, as its file system counts them; also those of a directory.
        size: u64,
    },
    /// The whole transfer failed.
    Abort {
        /// The reason, for people.
        reason: String,
        /// How the program's caller gets it: by which exit code.
        kind: AbortKind,
    },
    /// Client to agent: facts about your host, and about the file systems of these paths of it, raw bytes; without
    /// any, of those that it finds fit.
    AskFacts(Vec<Vec<u8>>),
    /// Client to agent: your host's processor times.
    AskCpu,
    /// Agent to client: the answer, a compressed snapshot of facts, or JSON of the `host` crate's `CpuTimes`.
    Answer(Vec<u8>),
    /// Client to agent: record your host's counters from now on. An [`Message::Answer`] follows: the interval in force,
    /// in milliseconds, as JSON.
    StartSampling(Sampling),
    /// Client to agent: give what was recorded and not yet taken, in [`Message::Samples`].
    TakeSamples {
        /// Take a last sample now, and end the recording.
        last: bool,
    },
    /// Agent to client: the next bytes of the recording, at most [`MAX_SAMPLES`]; none behind the last that was asked
    /// for.
    Samples(Vec<u8>),
    /// Sender to receiver: what could be sent, at most [`MAX_OFFERS`] entries; directories before what is in them.
    Offer(#[serde(deserialize_with = "at_most::<MAX_OFFERS, _, _>")] Vec<Offered>),
    /// Receiver to sender: the answer to one [`Message::Offer`], an element for each of its entries.
    Wanted(#[serde(deserialize_with = "at_most::<MAX_OFFERS, _, _>")] Vec<Want>),
    /// Receiver to sender, instead of [`Message::Committed`]: these came damaged to stable storage; send them once more.
    Again(#[serde(deserialize_with = "at_most::<MAX_AGAIN, _, _>")] Vec<(u32, RelPath)>),
    /// Agent to client, of a receiver: what it changes, or would.
    Changes(#[serde(deserialize_with = "at_most::<MAX_CHANGES, _, _>")] Vec<Change>),
    /// Client to an agent that sends, behind its [`Job`]: the next paths of a list of files; none at its end.
    Select(#[serde(deserialize_with = "at_most::<MAX_SELECTED, _, _>")] Vec<ListedPath>),
    /// Receiver to sender, before [`Message::Ready`] where [`Options::digests`] is set: whether the destination is a
    /// directory that takes each source under its own name; else it is the one source's new name.
    Within(bool),
    /// Agent to client: the next entries of a [`Job::Digests`], at most [`MAX_DIGESTED`]. Directories come before what is in
    /// them, and names in the order of their bytes.
    Digested(#[serde(deserialize_with = "at_most::<MAX_DIGESTED, _, _>")] Vec<Digested>),
    /// Agent to client: something that abandoned transfers have left; removed already where the job says so.
    Leftover(Leftover),
    /// Receiver to sender, before the [`Message::Wanted`] that counts them: the next blocks of older versions.
    Blocks(#[serde(deserialize_with = "at_most::<MAX_BLOCKS, _, _>")] Vec<BlockSum>),
    /// Client to agent, before its [`Job`]: the data goes to or comes from another agent, which [`Message::Partner`] names.
    Between,
    /// Client to an agent that got [`Message::Between`], before it listens: who has the other end of the data.
    Partner(Partner),
    /// Agent that got [`Message::Between`], and receives, to its client, where [`AskedSources::delivered`] is set: the next
    /// digests of what is in place.
    Delivered(#[serde(deserialize_with = "at_most::<MAX_DELIVERED, _, _>")] Vec<Delivery>),
    /// Agent that got [`Message::Between`] to its client, before its [`Message::Report`]: what only the two ends know.
    Tally(Tally),
    /// Client to an agent that sends: over how many links its streams may come.
    Routes(u32),
    /// Client to agent, before its [`Job::Receive`]: the data comes through other agents, or goes on to one. It listens when
    /// [`Message::Link`] comes, behind its [`Message::Ready`].
    Chained,
    /// Client to an agent that got [`Message::Chained`]: where it is in the chain, and who is before it.
    Link(ChainLink),
    /// Client to an agent that got [`Message::Chained`], behind the agent's [`Message::Listening`]: who is behind it, if
    /// anybody. Where somebody is, [`Message::ConnectedBack`] follows.
    Next(Option<ChainNext>),
    /// Agent that got [`Message::Chained`] to its client: the next agent gets nothing more from here, and why.
    NextLost(String),
    /// Client to an agent that [`Job::Background`] has started, between Hello and Job: the transfer goes on without its client.
    Detached(DetachedJob),
    /// Agent that got [`Message::Detached`], its last message to its client: from now on it needs it no more.
    UnderWay,
    /// Agent to client, of a [`Job::Jobs`] or [`Job::Attach`]: a job as JSON, at most [`MAX_JOB_RECORD`] bytes.
    JobRecord(Vec<u8>),
    /// Agent to client, of a [`Job::Attach`]: the next bytes of the job's events, lines of JSON.
    JobEvents(Vec<u8>),
}

/// The change of one entry at the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The change, as rsync's `--itemize-changes` writes it.
    pub item: [u8; 11],
    /// The entry below its source.
    pub path: RelPath,
    /// The entry is, or was, a directory.
    pub directory: bool,
    /// The text behind the name.
    pub link: Option<Link>,
    /// Properties of the sender's entry, where [`Sync::facts`] asks for them.
    pub facts: Option<EntryFacts>,
}

/// Properties of an entry that are shown beside its change if the user asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryFacts {
    /// Bytes of a file, or of a symbolic link's text; else 0.
    pub size: u64,
    /// When it was last modified, in seconds.
    pub mtime: i64,
    /// Permission bits.
    pub mode: u32,
    /// User and group number, where owners are kept.
    pub owner: Option<(u32, u32)>,
}

impl Change {
    /// The item of an entry that is deleted.
    pub const DELETED: [u8; 11] = *b"*deleting  ";
    /// The item of the destination itself, where it is made for the sources and [`Sync::into`] is set; its path is empty.
    pub const MADE: [u8; 11] = *b"*creating  ";
    /// Item of an entry that is left alone, where [`Sync::unchanged`] asks for such items: what is there is newer.
    pub const NEWER: [u8; 11] = *b"*newer     ";
    /// Item of an entry that is left alone: something is there.
    pub const EXISTS: [u8; 11] = *b"*exists    ";
    /// Item of an entry that is left alone: nothing is there.
    pub const MISSING: [u8; 11] = *b"*missing   ";
    /// Item of an entry that is left alone: it has too many bytes.
    pub const OVER: [u8; 11] = *b"*over      ";
    /// Item of an entry that is left alone: it has too few bytes.
    pub const UNDER: [u8; 11] = *b"*under     ";
}

/// The target of a changed link, beside its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// A symbolic link's text.
    Target(Vec<u8>),
    /// The entry with which it shares its contents, below its source.
    SameAs(RelPath),
}

/// An entry, and what its contents and extended attributes come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digested {
    /// The entry, without the values of extended attributes.
    pub entry: Entry,
    /// BLAKE3 of its contents, where it is a file that could be read.
    pub contents: Option<Digest>,
    /// The digest of its extended attributes, if these or ACLs were asked for; none if they could not be read.
    pub attributes: Option<Attributes>,
    /// Numbers of device and inode, where hard links were asked for and it has more names than this one.
    pub file: Option<(u64, u64)>,
}

/// The digest of extended attributes: BLAKE3 of the lengths and bytes of names and values, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The digest of the attributes in `user.`.
    pub user: Digest,
    /// The digest of the other attributes that are kept; none from an end that may not see them all.
    pub others: Option<Digest>,
}

/// The most entries of one [`Message::Digested`].
pub const MAX_DIGESTED: usize = 128;
/// The most names of one [`Message::Again`].
pub const MAX_AGAIN: usize = 1024;
/// The most entries of one [`Message::Offer`].
pub const MAX_OFFERS: usize = 1024;
/// The most elements of one [`Message::Changes`].
pub const MAX_CHANGES: usize = 1024;
/// The most paths of one [`Message::Select`].
pub const MAX_SELECTED: usize = 65_536;
/// The most elements of one [`Message::Blocks`].
pub const MAX_BLOCKS: usize = 32_768;
/// The most blocks of all files of one [`Message::Wanted`].
pub const MAX_ANSWER_BLOCKS: usize = 1 << 19;
/// The most offers that may wait for their answers.
pub const MAX_OPEN_OFFERS: usize = 16;

/// An entry that could be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The entry.
    pub entry: Entry,
    /// The file's inode number. With `ctime` it distinguishes the file from one that took its place with equal size and
    /// times.
    pub inode: u64,
    /// When the inode last changed.
    pub ctime: Timestamp,
    /// BLAKE3 of its contents, where the receiver compares by contents ([`Sync::checksum`]).
    pub digest: Option<Digest>,
    /// False for a directory that is only on the way to what is listed. Everything in any other directory is offered.
    pub whole: bool,
}

/// The receiver's answer to an offered entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// Nothing: it is there.
    Nothing,
    /// All of it.
    Whole,
    /// A large file, but for the chunks that an earlier run brought.
    Missing {
        /// Bytes of a chunk; the last one may be shorter.
        chunk: u64,
        /// A bit for each chunk, the first one in the lowest bit of the first byte: set where it is there.
        present: Vec<u8>,
    },
    /// A large file, but for the chunks whose contents are these: the receiver has an older version.
    Differing {
        /// Bytes of a chunk; the last one may be shorter.
        chunk: u64,
        /// BLAKE3 of each chunk that lies within the old file, in order.
        digests: Vec<Digest>,
    },
    /// None of the contents, since all of them are there: only their digest at the sender.
    Digest,
    /// Nothing: the user wants what is there left alone, and it is no name of this file.
    LeftAlone,
    /// A large file, but for what an older version has, wherever that is in it. Its blocks came in [`Message::Blocks`].
    Blocks {
        /// Bytes of a block.
        block: u64,
        /// How many blocks, from the beginning of the older version on.
        count: u32,
    },
    /// The rest of the file, behind its first bytes, which the receiver has.
    Rest {
        /// How many first bytes the receiver has.
        from: u64,
        /// BLAKE3 of those bytes; if they are others at the sender, it sends the whole file.
        digest: Option<Digest>,
    },
}

/// The two sums of a block of an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSum {
    /// Its rolling sum.
    pub rolling: [u8; 4],
    /// The first half of its BLAKE3.
    pub digest: [u8; 16],
}

/// A BLAKE3 hash.
pub type Digest = [u8; 32];

/// The settings of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Milliseconds between two samples; one that makes no sense is replaced by the nearest that does.
    pub interval_ms: u32,
    /// Processes that are followed with their descendants, by their numbers at the agent's host.
    pub processes: Vec<u32>,
    /// Names of programs whose processes are followed likewise.
    pub names: Vec<String>,
}

/// The identity of an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::PROTOCOL`].
    pub protocol: u32,
    /// The program's version, for messages.
    pub version: String,
    /// DER of the SubjectPublicKeyInfo of the key pair that this end made for this transfer.
    pub public_key: Vec<u8>,
    /// The bytes that connections to this end's data port show first.
    pub cookie: Cookie,
}

/// The addresses at which an end accepts data connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Addresses, best first; empty where it can't listen.
    pub candidates: Vec<SocketAddr>,
    /// Further addresses of its host, where it accepts them at the same port.
    pub further: Vec<IpAddr>,
    /// The client's address as ssh's server saw it.
    pub client: Option<IpAddr>,
    /// Why it can't listen.
    pub error: Option<String>,
}

/// One source of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Which of the arguments named it, from 0; a pattern names several.
    pub argument: u32,
    /// Its own name, one component, which it gets below a destination directory.
    pub name: RelPath,
    /// Whether it is a directory.
    pub directory: bool,
}

/// Something wrong with one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Its path as that end's user would write it, raw bytes.
    pub path: Vec<u8>,
    /// The step that was tried and why it failed.
    pub message: String,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// How a problem counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProblemKind {
    /// The entry isn't at the destination.
    Failed,
    /// The entry's source changed or vanished under way.
    Changed,
    /// The entry was left out on purpose and isn't at the destination: a directory without `-r`, a device.
    Skipped,
    /// The entry is at the destination, and something of it could not be kept.
    NotKept,
    /// The entry isn't at the source and was not removed from the destination.
    NotDeleted,
    /// No entry is concerned, and nothing failed: what the user should know of the options.
    Noted,
    /// Nothing is wrong: the message says what was done with the entry.
    Remark,
}

/// Counters under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Stages so far.
    pub stages: Stages,
    /// Found so far by the scanner, at the sender.
    pub found: Totals,
    /// The scanner is done, so `found` is all.
    pub scanned: bool,
    /// In place so far, at the receiver.
    pub landed: Totals,
}

/// Sums over entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Regular files, and further names of them.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Payload bytes of regular files.
    pub bytes: u64,
    /// Devices, named pipes and sockets.
    pub specials: u64,
}

impl Totals {
    /// All entries.
    pub fn entries(&self) -> u64 {
        [self.directories, self.symlinks, self.specials].into_iter().fold(self.files, u64::saturating_add)
    }
}

/// Why a transfer was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AbortKind {
    /// Something failed.
    Failed,
    /// The arguments can't be served: no such destination, several sources into a file.
    Arguments,
    /// The user interrupted it.
    Interrupted,
    /// A connection broke.
    Lost,
    /// Another run has what this one needs.
    Busy,
}
