//! The job that the client gives the agent, with the user's options.

use super::{Details, JobAttention};
use crate::entry::Kind;
use crate::filter::Rules;
use serde::{Deserialize, Serialize};

/// The agent's job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Receive entries.
    Receive {
        /// Where to, as the user wrote it; empty is the login directory.
        destination: Vec<u8>,
        /// Options of both directions.
        options: Options,
    },
    /// Send entries.
    Send {
        /// The sources, as the user wrote them.
        sources: Vec<Vec<u8>>,
        /// Options of both directions.
        options: Options,
    },
    /// Report what [`Job::Send`] would send, and send nothing.
    List {
        /// The sources, as the user wrote them.
        sources: Vec<Vec<u8>>,
        /// Options of both directions, as for [`Job::Send`].
        options: Options,
    },
    /// Receive bytes and drop them: memory to memory.
    Discard {
        /// Options of both directions.
        options: Options,
    },
    /// Answer questions about the host until the channel closes.
    Observe,
    /// List what abandoned transfers have left, in [`super::Message::Leftover`].
    Clean {
        /// Below which directory, as the user wrote it.
        destination: Vec<u8>,
        /// Remove it too.
        remove: bool,
    },
    /// Report what is at a path, and BLAKE3 of the files in it; send nothing.
    Digests {
        /// A directory or a file, as the user wrote it.
        path: Vec<u8>,
        /// Properties that are compared beside kinds, contents, modes and times.
        keep: Keep,
    },
    /// Start a process that outlives this login, and hand it all that follows.
    Background,
    /// List this account's detached jobs, in [`super::Message::JobRecord`].
    Jobs {
        /// Remove the records of those that have ended.
        forget: bool,
    },
    /// Report a detached job until it ends: its events, and its record whenever that changes.
    Attach(JobAttention),
}

/// Options that both ends must know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Directories and what is in them.
    pub recursive: bool,
    /// The properties of entries that are kept.
    pub keep: Keep,
    /// The sender sends BLAKE3 of the contents that it reads of each file.
    pub digests: bool,
    /// The receiver compares these digests with what is on stable storage; needs [`Options::digests`].
    pub verify: bool,
    /// Only what differs is sent, and how.
    pub sync: Option<Sync>,
    /// The rules that leave entries out.
    pub filter: Rules,
    /// Only what is on a list of files; one for an agent that sends comes in [`super::Message::Select`].
    pub listed: bool,
    /// Symbolic links that lead out of their source are left out.
    pub safe_links: bool,
    /// Symbolic links are left out.
    pub no_links: bool,
    /// Entries on another file system than their source are left out; the directory that it is mounted on is there, and
    /// empty.
    pub one_file_system: bool,
    /// Listed directories come with all that is in them, at any depth; needs [`Options::recursive`].
    pub listed_whole: bool,
    /// Sources, and listed paths, that aren't there are passed over.
    pub ignore_missing: bool,
    /// Directories that are only on the way to what is listed aren't sent.
    pub no_implied: bool,
    /// Symbolic links are followed, as if what they lead to were in their places.
    pub copy_links: bool,
    /// Symbolic links that lead to directories are followed.
    pub copy_dirlinks: bool,
    /// Symbolic links that lead out of their source are followed.
    pub copy_unsafe_links: bool,
    /// The sender removes what isn't a directory when all that was found is in place.
    pub remove_sources: bool,
    /// Directories in which nothing else than directories would be sent are left out.
    pub prune_empty: bool,
    /// The sender changes modes by these rules, in their order; symbolic links have none.
    pub modes: Vec<ModeRule>,
    /// Only the data's encryption is off; set by the user, never by negotiation.
    pub clear: bool,
    /// How the data is compressed.
    pub compression: Compression,
    /// Streams; `None` lets the sender decide.
    pub streams: Option<u32>,
    /// Largest payload rate in bytes a second.
    pub rate_limit: Option<u64>,
    /// The sender fills the path, and doesn't hold its rate a little below; set by the user.
    pub unpaced: bool,
    /// TCP ports for data connections, first and last.
    pub ports: Option<(u16, u16)>,
    /// Names the user's command: a receiver writes down what it has, so that the same command goes on from there.
    pub resume: Option<[u8; 16]>,
    /// Seconds after which an end gives up that hears nothing of the other; `None` waits for ever.
    pub timeout: Option<u32>,
    /// Details of how entries are read and made.
    pub details: Box<Details>,
}

/// How the sender compresses the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compression {
    /// When, and how hard.
    pub level: CompressionLevel,
    /// Files whose names end in a dot and one of these aren't compressed, by lower case letters; none leaves it to the sender.
    pub skip: Option<Vec<Vec<u8>>>,
}

/// When and how hard the sender compresses. What doesn't become smaller travels as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompressionLevel {
    /// Never; a compressed frame is a breach.
    #[default]
    Off,
    /// While it makes the transfer faster, as hard as the path leaves time for.
    Auto,
    /// Always, as hard as the path leaves time for.
    Always,
    /// Always, with this level of zstd, at most [`MAX_COMPRESSION`].
    Fixed(u8),
}

impl CompressionLevel {
    /// Compression is on whatever the path.
    pub fn is_always(self) -> bool {
        matches!(self, Self::Always | Self::Fixed(_))
    }
}

/// The highest level of zstd that a sender takes.
pub const MAX_COMPRESSION: u8 = 19;

/// The metadata that each entry keeps, by rsync's names. Symbolic links always are links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// Permission bits.
    pub perms: bool,
    /// Times, to the nanosecond.
    pub times: bool,
    /// Owners.
    pub owner: bool,
    /// Groups.
    pub group: bool,
    /// Owners and groups by number, else by name where both ends know it.
    pub numeric_ids: bool,
    /// Hard links between entries of the transfer.
    pub hard_links: bool,
    /// Device nodes.
    pub devices: bool,
    /// Named pipes and sockets.
    pub specials: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// POSIX ACLs.
    pub acls: bool,
    /// Setuid, setgid and sticky bits.
    pub special_bits: bool,
    /// Holes.
    pub sparse: bool,
    /// Directories don't keep their times.
    pub omit_dir_times: bool,
    /// Symbolic links don't keep their times.
    pub omit_link_times: bool,
}

/// One change of modes, as `--chmod` asks for it: bits that stay, and bits that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeRule {
    /// The rule is for directories.
    pub directories: bool,
    /// The rule is for everything else.
    pub others: bool,
    /// Bits that stay.
    pub keep: u32,
    /// Bits that are set.
    pub set: u32,
    /// Execute bits are set only for directories, and where one is set already.
    pub conditional: bool,
}

impl Options {
    /// Whether some symbolic links are followed.
    pub fn follows_links(&self) -> bool {
        self.copy_links || self.copy_dirlinks || self.copy_unsafe_links
    }
}

impl Keep {
    /// scp's `-p`: modes and times.
    pub const SCP: Self = Self { perms: true, times: true, ..Self::NOTHING };
    /// New files, with modes as the umask leaves them.
    pub const NOTHING: Self = Self {
        perms: false,
        times: false,
        owner: false,
        group: false,
        numeric_ids: false,
        hard_links: false,
        devices: false,
        specials: false,
        xattrs: false,
        acls: false,
        special_bits: false,
        sparse: false,
        omit_dir_times: false,
        omit_link_times: false,
    };

    /// Whether an entry of this kind keeps its times.
    pub fn times_of(&self, kind: &Kind) -> bool {
        let omitted = match kind {
            Kind::Directory => self.omit_dir_times,
            Kind::Symlink { .. } => self.omit_link_times,
            _ => false,
        };
        self.times && !omitted
    }
}

/// How a receiver decides what it wants, by rsync's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// The sources land in the destination, under their own names; else the one source becomes the destination.
    pub into: bool,
    /// Compare contents, not size and modification time.
    pub checksum: bool,
    /// Compare sizes alone.
    pub size_only: bool,
    /// Send each file, whatever is there.
    pub ignore_times: bool,
    /// Leave alone what is newer at the receiver.
    pub update: bool,
    /// Leave alone what exists at the receiver.
    pub ignore_existing: bool,
    /// Make nothing new at the receiver.
    pub existing: bool,
    /// Leave files of fewer bytes alone.
    pub least: Option<u64>,
    /// Leave files of more bytes alone.
    pub most: Option<u64>,
    /// Changed files come whole, not as their chunks that differ.
    pub whole: bool,
    /// Where else in a changed file the sender looks for what the receiver has.
    pub search: BlockSearch,
    /// Write into the file that is there, instead of into a copy that takes its name.
    pub inplace: bool,
    /// Remove what the sender doesn't have.
    pub delete: bool,
    /// A full directory makes way for what is none, also without `delete`.
    pub force: bool,
    /// Remove also where the source could not be read whole.
    pub ignore_errors: bool,
    /// Whole seconds by which times may differ and count as the same; none compares as finely as the destination keeps them.
    pub window: Option<u32>,
    /// Whether entries that are replaced or removed are kept, and where.
    pub backup: Option<Backup>,
    /// Trees at the receiver that may have what the destination lacks.
    pub others: Option<OtherTrees>,
    /// How many entries may be removed at most.
    pub max_delete: Option<u64>,
    /// Directories above the destination are made.
    pub make_path: bool,
    /// Report each change, change nothing.
    pub dry_run: bool,
    /// Report each change.
    pub itemize: bool,
    /// Report also what stays as it is, and what is left alone, with the reason.
    pub unchanged: bool,
    /// Report the entry's properties with each change.
    pub facts: bool,
}

/// Where a sender looks for the contents of an older version in the new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockSearch {
    /// At the places that they had.
    #[default]
    SamePlaces,
    /// Anywhere, as long as that is faster than the path.
    Measured,
    /// Anywhere.
    Everywhere,
}

/// Where a receiver keeps what is replaced or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// A directory, relative to the destination; none: a backup lies beside what takes its name.
    pub directory: Option<Vec<u8>>,
    /// The bytes that are put behind the name of a backup.
    pub suffix: Vec<u8>,
}

/// Other trees at the receiver, and what becomes of an entry that is the same in one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherTrees {
    /// Directories, relative to the destination, at most [`MAX_OTHER_TREES`]; the first that has the entry counts.
    pub directories: Vec<Vec<u8>>,
    /// What becomes of an entry that one of the trees has.
    pub used: OtherUse,
}

/// What becomes of an entry that one of [`OtherTrees`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtherUse {
    /// The entry isn't made.
    Compare,
    /// The entry is copied from the other tree.
    Copy,
    /// The other tree's entry gets one more name here.
    Link,
}

/// The most [`OtherTrees::directories`].
pub const MAX_OTHER_TREES: usize = 20;
