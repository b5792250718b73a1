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
        /// The destination, as the user wrote it; empty means the login directory.
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
    /// Receive bytes and drop them, for a measurement from memory to memory.
    Discard {
        /// Options of both directions.
        options: Options,
    },
    /// Answer questions about the host until the channel closes.
    Observe,
    /// List the leftovers of abandoned transfers, in [`super::Message::Leftover`].
    Clean {
        /// The directory to search, as the user wrote it.
        destination: Vec<u8>,
        /// Remove the leftovers too.
        remove: bool,
    },
    /// Report the entries at a path, and the BLAKE3 hashes of the files; send no contents.
    Digests {
        /// A directory or a file, as the user wrote it.
        path: Vec<u8>,
        /// Properties that are compared in addition to kinds, contents, modes and times.
        keep: Keep,
    },
    /// Start a process that outlives this login, and forward all messages that follow to it.
    Background,
    /// List this account's detached jobs, in [`super::Message::JobRecord`].
    Jobs {
        /// Remove the records of jobs that have ended.
        forget: bool,
    },
    /// Report a detached job until it ends: its events, and its record each time it changes.
    Attach(JobAttention),
}

/// Options that both ends must know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Include directories with their contents.
    pub recursive: bool,
    /// The properties of entries that are kept.
    pub keep: Keep,
    /// The sender sends the BLAKE3 hash of the contents that it reads from each file.
    pub digests: bool,
    /// The receiver compares these digests with the data on stable storage; needs [`Options::digests`].
    pub verify: bool,
    /// If set, only differences are sent, by these rules.
    pub sync: Option<Sync>,
    /// The filter rules that exclude entries.
    pub filter: Rules,
    /// Only paths on a list of files are sent. An agent that sends gets the list in [`super::Message::Select`].
    pub listed: bool,
    /// Symbolic links that point outside their source are left out.
    pub safe_links: bool,
    /// Symbolic links are left out.
    pub no_links: bool,
    /// Entries on another file system than their source are left out. The mount point itself is sent as an empty
    /// directory.
    pub one_file_system: bool,
    /// Listed directories are sent with all their contents, at any depth; needs [`Options::recursive`].
    pub listed_whole: bool,
    /// Sources and listed paths that don't exist are ignored.
    pub ignore_missing: bool,
    /// The parent directories of listed paths aren't sent, unless they are listed too.
    pub no_implied: bool,
    /// Symbolic links are followed: their targets are sent in their place.
    pub copy_links: bool,
    /// Symbolic links to directories are followed.
    pub copy_dirlinks: bool,
    /// Symbolic links that point outside their source are followed.
    pub copy_unsafe_links: bool,
    /// When everything that was found is in place, the sender removes the source entries that aren't directories.
    pub remove_sources: bool,
    /// Directories that would contain nothing but directories are left out.
    pub prune_empty: bool,
    /// The sender changes modes by these rules, in their order. Symbolic links have no mode to change.
    pub modes: Vec<ModeRule>,
    /// Encryption is off, for the data only; set by the user, never by negotiation.
    pub clear: bool,
    /// How the data is compressed.
    pub compression: Compression,
    /// The number of streams; `None` lets the sender decide.
    pub streams: Option<u32>,
    /// The highest payload rate in bytes a second.
    pub rate_limit: Option<u64>,
    /// The sender fills the path, instead of holding its rate slightly below the path's; set by the user.
    pub unpaced: bool,
    /// The TCP ports for data connections: the first and the last.
    pub ports: Option<(u16, u16)>,
    /// Identifies the user's command. The receiver records what it has, so that the same command can resume from there.
    pub resume: Option<[u8; 16]>,
    /// Seconds without a message from the other end after which an end gives up; `None`: wait for ever.
    pub timeout: Option<u32>,
    /// Details of how entries are read and created.
    pub details: Box<Details>,
}

/// How the sender compresses the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compression {
    /// When, and how hard.
    pub level: CompressionLevel,
    /// Files with these name extensions aren't compressed; an extension is in lower case, without its dot. `None`
    /// leaves the choice to the sender.
    pub skip: Option<Vec<Vec<u8>>>,
}

/// When and how hard the sender compresses. Data that doesn't become smaller is sent uncompressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompressionLevel {
    /// Never; a compressed frame breaks the protocol.
    #[default]
    Off,
    /// As long as compression makes the transfer faster, as hard as the path leaves time for.
    Auto,
    /// Always, as hard as the path leaves time for.
    Always,
    /// Always, with this zstd level, at most [`MAX_COMPRESSION`].
    Fixed(u8),
}

impl CompressionLevel {
    /// True if compression is on, whatever the path.
    pub fn is_always(self) -> bool {
        matches!(self, Self::Always | Self::Fixed(_))
    }
}

/// The highest zstd level that a sender accepts.
pub const MAX_COMPRESSION: u8 = 19;

/// The metadata that each entry keeps, by rsync's names. Symbolic links are always sent as links.
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
    /// Owners and groups are kept by number; else by name if both ends know the name.
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

/// One change of modes, as `--chmod` asks for it: bits to keep, and bits to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeRule {
    /// The rule applies to directories.
    pub directories: bool,
    /// The rule applies to all other entries.
    pub others: bool,
    /// Bits that keep their value; all others are cleared.
    pub keep: u32,
    /// Bits to set.
    pub set: u32,
    /// Execute bits are set only for directories, and for files of which an execute bit is already set.
    pub conditional: bool,
}

impl Options {
    /// Whether any symbolic links are followed.
    pub fn follows_links(&self) -> bool {
        self.copy_links || self.copy_dirlinks || self.copy_unsafe_links
    }
}

impl Keep {
    /// scp's `-p`: modes and times.
    pub const SCP: Self = Self { perms: true, times: true, ..Self::NOTHING };
    /// Nothing: new files get their modes by the umask.
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

/// How a receiver decides what it requests, by rsync's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// The sources are put into the destination under their own names; else the only source becomes the destination.
    pub into: bool,
    /// Compare contents, not size and modification time.
    pub checksum: bool,
    /// Compare only sizes.
    pub size_only: bool,
    /// Send each file, whatever the destination has.
    pub ignore_times: bool,
    /// Skip entries that are newer at the receiver.
    pub update: bool,
    /// Skip entries that exist at the receiver.
    pub ignore_existing: bool,
    /// Create nothing new at the receiver.
    pub existing: bool,
    /// Skip files with fewer bytes.
    pub least: Option<u64>,
    /// Skip files with more bytes.
    pub most: Option<u64>,
    /// Changed files are sent whole, instead of only the chunks that differ.
    pub whole: bool,
    /// Where in a changed file the sender looks for blocks that the receiver has.
    pub search: BlockSearch,
    /// Write into the existing file, instead of into a copy that then takes its name.
    pub inplace: bool,
    /// Delete entries that the sender doesn't have.
    pub delete: bool,
    /// A directory that isn't empty is deleted if an entry of another kind takes its name, even without `delete`.
    pub force: bool,
    /// Delete even if the source could not be read completely.
    pub ignore_errors: bool,
    /// Whole seconds by which times may differ and still count as equal; `None`: compare as precisely as the
    /// destination stores them.
    pub window: Option<u32>,
    /// Whether entries that are replaced or deleted are kept, and where.
    pub backup: Option<Backup>,
    /// Trees at the receiver that may have entries that the destination lacks.
    pub others: Option<OtherTrees>,
    /// The most entries that may be deleted.
    pub max_delete: Option<u64>,
    /// Missing parent directories of the destination are created.
    pub make_path: bool,
    /// Report each change, but change nothing.
    pub dry_run: bool,
    /// Report each change.
    pub itemize: bool,
    /// Also report entries that stay unchanged, and entries that are skipped, with the reason.
    pub unchanged: bool,
    /// Report the entry's properties with each change.
    pub facts: bool,
}

/// Where the sender looks in the new version for contents of the older version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockSearch {
    /// At the offsets that they had in the older version.
    #[default]
    SamePlaces,
    /// Anywhere, as long as the search is faster than the path.
    Measured,
    /// Anywhere.
    Everywhere,
}

/// Where a receiver keeps entries that are replaced or deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// A directory, relative to the destination. `None`: a backup stays in the directory of the entry that replaces it.
    pub directory: Option<Vec<u8>>,
    /// The bytes that are appended to the name of a backup.
    pub suffix: Vec<u8>,
}

/// Other trees at the receiver, and what happens to an entry that is equal in one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherTrees {
    /// Directories, relative to the destination, at most [`MAX_OTHER_TREES`]; the first that has the entry is used.
    pub directories: Vec<Vec<u8>>,
    /// What happens to an entry that one of the trees has.
    pub used: OtherUse,
}

/// What happens to an entry that one of the [`OtherTrees`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtherUse {
    /// The entry isn't created.
    Compare,
    /// The entry is copied from the other tree.
    Copy,
    /// The entry becomes a hard link to the entry in the other tree.
    Link,
}

/// The most elements of [`OtherTrees::directories`].
pub const MAX_OTHER_TREES: usize = 20;
