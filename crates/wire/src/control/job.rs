//! The job that the client gives an agent, with the user's options.

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
        /// Options for both ends.
        options: Options,
    },
    /// Send entries.
    Send {
        /// The sources, as the user wrote them.
        sources: Vec<Vec<u8>>,
        /// Options for both ends.
        options: Options,
    },
    /// Report the entries that [`Job::Send`] would send, and send nothing.
    List {
        /// The sources, as the user wrote them.
        sources: Vec<Vec<u8>>,
        /// Receive bytes and discard them, for a measurement from memory to memory.
        options: Options,
    },
    /// Receive bytes and drop them, for a measurement from memory to memory.
    Discard {
        /// Options for both ends.
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
        /// The properties that are compared in addition to kinds, contents, modes and times.
        keep: Keep,
    },
    /// Start a process that outlives this login, and forward all following messages to it.
    Background,
    /// List this account's detached jobs, in [`super::Message::JobRecord`].
    Jobs {
        /// Remove the records of jobs that have ended.
        forget: bool,
    },
    /// Report about a detached job until it ends: its events, and its record each time that the record
    /// changes.
    Attach(JobAttention),
}

/// The options of a transfer that both ends must know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Include directories with their contents.
    pub recursive: bool,
    /// The properties of entries that are kept.
    pub keep: Keep,
    /// The sender computes and sends the BLAKE3 hash of each file that it reads.
    pub digests: bool,
    /// The receiver compares these digests with the data on stable storage; needs [`Options::digests`].
    pub verify: bool,
    /// If set, only differences are sent, by these rules.
    pub sync: Option<Sync>,
    /// The filter rules, which exclude entries.
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
    /// All symbolic links are followed: their targets are sent in their place.
    pub copy_links: bool,
    /// Symbolic links to directories are followed: the directories are sent in their place.
    pub copy_dirlinks: bool,
    /// Symbolic links that point outside their source are followed: their targets are sent in their place.
    pub copy_unsafe_links: bool,
    /// When all found entries are in place, the sender removes the source entries that aren't directories.
    pub remove_sources: bool,
    /// Directories that contain no other entries than directories are left out.
    pub prune_empty: bool,
    /// The rules by which the sender changes modes, in their order. They don't apply to symbolic links.
    pub modes: Vec<ModeRule>,
    /// The data isn't encrypted. Only the user can request this; it is never negotiated.
    pub clear: bool,
    /// How the data is compressed.
    pub compression: Compression,
    /// The number of streams; `None` lets the sender decide.
    pub streams: Option<u32>,
    /// The highest payload rate in bytes per second.
    pub rate_limit: Option<u64>,
    /// The sender fills the path, instead of holding its rate slightly below the path's rate. Only the user
    /// can request this.
    pub unpaced: bool,
    /// The range of TCP ports for data connections: the first and the last port.
    pub ports: Option<(u16, u16)>,
    /// A number that identifies the user's command. The receiver keeps a journal under this number, so that
    /// the same command can resume.
    pub resume: Option<[u8; 16]>,
    /// If no message of the other end arrives for this number of seconds, an end gives up; `None` means that
    /// it never gives up.
    pub timeout: Option<u32>,
    /// Details of how entries are read and created.
    pub details: Box<Details>,
}

/// How the sender compresses the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compression {
    /// When the data is compressed, and with which level.
    pub level: CompressionLevel,
    /// Files with these name extensions aren't compressed; an extension is in lower case, without its dot. `None`
    /// leaves the choice to the sender.
    pub skip: Option<Vec<Vec<u8>>>,
}

/// When the sender compresses, and with which level. Data that doesn't become smaller is sent uncompressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompressionLevel {
    /// Data is never compressed; a compressed frame violates the protocol.
    #[default]
    Off,
    /// Data is compressed as long as that makes the transfer faster, with the highest level for which the
    /// path leaves time.
    Auto,
    /// Data is always compressed, with the highest level for which the path leaves time.
    Always,
    /// Data is always compressed with this zstd level, at most [`MAX_COMPRESSION`].
    Fixed(u8),
}

impl CompressionLevel {
    /// True if data is compressed regardless of the path's rate.
    pub fn is_always(self) -> bool {
        matches!(self, Self::Always | Self::Fixed(_))
    }
}

/// The highest zstd level that a sender accepts.
pub const MAX_COMPRESSION: u8 = 19;

/// Which metadata of entries are kept, by rsync's names. Symbolic links are always kept as links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// Permission bits are kept.
    pub perms: bool,
    /// Modification times are kept, to the nanosecond.
    pub times: bool,
    /// Owners are kept.
    pub owner: bool,
    /// Groups are kept.
    pub group: bool,
    /// Owners and groups are kept by number. Otherwise they are kept by name if both ends know the name, else
    /// by number.
    pub numeric_ids: bool,
    /// Hard links between entries of the transfer are kept.
    pub hard_links: bool,
    /// Device nodes are kept.
    pub devices: bool,
    /// Named pipes and sockets are kept.
    pub specials: bool,
    /// Extended attributes are kept.
    pub xattrs: bool,
    /// POSIX ACLs are kept.
    pub acls: bool,
    /// Setuid, setgid and sticky bits are kept.
    pub special_bits: bool,
    /// Holes are kept.
    pub sparse: bool,
    /// Directories don't keep their times.
    pub omit_dir_times: bool,
    /// Symbolic links don't keep their times.
    pub omit_link_times: bool,
}

/// One change of modes by `--chmod`: which bits are kept, and which are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeRule {
    /// The rule applies to directories.
    pub directories: bool,
    /// The rule applies to all other entries.
    pub others: bool,
    /// Bits that keep their value; all others are cleared.
    pub keep: u32,
    /// The bits that are set.
    pub set: u32,
    /// Execute bits are set only for directories, and for files that already have an execute bit.
    pub conditional: bool,
}

impl Options {
    /// Whether some symbolic links are followed.
    pub fn follows_links(&self) -> bool {
        self.copy_links || self.copy_dirlinks || self.copy_unsafe_links
    }
}

impl Keep {
    /// The properties that scp's `-p` keeps: modes and times.
    pub const SCP: Self = Self { perms: true, times: true, ..Self::NOTHING };
    /// No properties are kept: new files get their modes by the umask.
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

    /// Whether the times of an entry of this kind are kept.
    pub fn times_of(&self, kind: &Kind) -> bool {
        let omitted = match kind {
            Kind::Directory => self.omit_dir_times,
            Kind::Symlink { .. } => self.omit_link_times,
            _ => false,
        };
        self.times && !omitted
    }
}

/// By which rules a receiver decides which entries it requests, by rsync's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// True if the sources land in the destination under their own names; false if the only source becomes
    /// the destination itself.
    pub into: bool,
    /// Files are compared by their contents, and not by size and modification time.
    pub checksum: bool,
    /// Files are compared only by their sizes.
    pub size_only: bool,
    /// All files are sent, even if the destination has the same.
    pub ignore_times: bool,
    /// Entries that are newer at the receiver are skipped.
    pub update: bool,
    /// Entries that exist at the receiver are skipped.
    pub ignore_existing: bool,
    /// Entries that don't exist at the receiver are skipped.
    pub existing: bool,
    /// Files with fewer bytes than this are skipped.
    pub least: Option<u64>,
    /// Files with more bytes than this are skipped.
    pub most: Option<u64>,
    /// Changed files are sent whole, and not only the chunks that differ.
    pub whole: bool,
    /// At which offsets of a changed file the sender looks for blocks that the receiver has.
    pub search: BlockSearch,
    /// Existing files are written into, and not replaced by a new file.
    pub inplace: bool,
    /// Entries that the sender doesn't have are deleted.
    pub delete: bool,
    /// A directory that isn't empty is deleted if an entry of another kind takes its name, even without
    /// `delete`.
    pub force: bool,
    /// Entries are deleted even if the source could not be read completely.
    pub ignore_errors: bool,
    /// Times that differ by at most this number of whole seconds count as equal. `None`: times are compared
    /// as precisely as the destination stores them.
    pub window: Option<u32>,
    /// Set if entries that are replaced or deleted are kept as backups; states where.
    pub backup: Option<Backup>,
    /// Other trees at the receiver, which may have entries that the destination lacks.
    pub others: Option<OtherTrees>,
    /// The most entries that may be deleted.
    pub max_delete: Option<u64>,
    /// Missing parent directories of the destination are created.
    pub make_path: bool,
    /// Each change is reported, but nothing is changed (dry run).
    pub dry_run: bool,
    /// Each change is reported.
    pub itemize: bool,
    /// Unchanged entries are reported too, as are skipped entries, with the reason.
    pub unchanged: bool,
    /// With each change, the entry's properties are reported.
    pub facts: bool,
}

/// At which offsets of the new version the sender looks for contents of the older version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockSearch {
    /// Only at their offsets in the older version.
    #[default]
    SamePlaces,
    /// At any offset, as long as the search is faster than the path.
    Measured,
    /// At any offset.
    Everywhere,
}

/// Where a receiver keeps entries that are replaced or deleted, as backups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// A directory, relative to the destination. `None`: a backup stays in the directory of the entry that replaces it.
    pub directory: Option<Vec<u8>>,
    /// The bytes that are appended to the entry's name to form the name of its backup.
    pub suffix: Vec<u8>,
}

/// Other trees at the receiver, and what happens to an entry that one of them has unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherTrees {
    /// Directories, relative to the destination, at most [`MAX_OTHER_TREES`]; the first that has the entry is used.
    pub directories: Vec<Vec<u8>>,
    /// What happens to an entry that one of the trees has.
    pub used: OtherUse,
}

/// What happens to an entry that one of the [`OtherTrees`] has unchanged.
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
