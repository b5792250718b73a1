//! The job that the client gives to an agent, with the user's options.

use super::{Details, JobAttention};
use crate::entry::Kind;
use crate::filter::Rules;
use serde::{Deserialize, Serialize};

/// The job of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Receive entries.
    Receive {
        /// The destination, as the user wrote it; empty means the directory in which a login begins.
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
        /// Options for both ends.
        options: Options,
    },
    /// Receive bytes and discard them, for a measurement from memory to memory.
    Discard {
        /// Options for both ends.
        options: Options,
    },
    /// Answer questions about the agent's host until the channel closes.
    Observe,
    /// List the leftovers of abandoned transfers, in [`super::Message::Leftover`].
    Clean {
        /// The directory to search, as the user wrote it.
        destination: Vec<u8>,
        /// True if the agent must remove the leftovers, too.
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
        /// True if the agent must first remove the records of jobs that have ended.
        forget: bool,
    },
    /// Report about a detached job until the job ends: its events, and its record each time that the record changes.
    Attach(JobAttention),
}

/// The options of a transfer that both ends must know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// True if directories are sent with their contents.
    pub recursive: bool,
    /// The properties of entries that are kept.
    pub keep: Keep,
    /// True if the sender computes and sends the BLAKE3 hash of each file that it reads.
    pub digests: bool,
    /// True if the receiver compares the digests with the data on stable storage; needs [`Options::digests`].
    pub verify: bool,
    /// If set, only differences between source and destination are sent, by these rules.
    pub sync: Option<Sync>,
    /// The filter rules, which exclude entries.
    pub filter: Rules,
    /// True if only paths on a list of files are sent. The client sends this list to an agent in
    /// [`super::Message::Select`].
    pub listed: bool,
    /// True if symbolic links that point outside their source are left out.
    pub safe_links: bool,
    /// True if all symbolic links are left out.
    pub no_links: bool,
    /// True if entries on another file system than their source are left out. A mount point itself is sent as an empty
    /// directory.
    pub one_file_system: bool,
    /// True if listed directories are sent with all their contents, at any depth; needs [`Options::recursive`].
    pub listed_whole: bool,
    /// True if sources and listed paths that don't exist are ignored.
    pub ignore_missing: bool,
    /// True if the parent directories of listed paths aren't sent, unless these directories are listed too.
    pub no_implied: bool,
    /// True if all symbolic links are followed: the targets are sent in place of the links.
    pub copy_links: bool,
    /// True if symbolic links to directories are followed: the directories are sent in place of the links.
    pub copy_dirlinks: bool,
    /// True if symbolic links that point outside their source are followed: the targets are sent in place of these
    /// links.
    pub copy_unsafe_links: bool,
    /// True if the sender removes the source entries that aren't directories, when all found entries are in place.
    pub remove_sources: bool,
    /// True if directories that contain only directories, at any depth, are left out.
    pub prune_empty: bool,
    /// The rules by which the sender changes modes, in the order in which they apply. The rules don't apply to symbolic
    /// links.
    pub modes: Vec<ModeRule>,
    /// True if the data isn't encrypted. Only the user can request this; it is never negotiated.
    pub clear: bool,
    /// How the data is compressed.
    pub compression: Compression,
    /// The number of data streams; `None` means that the sender chooses it.
    pub streams: Option<u32>,
    /// The highest payload rate in bytes per second; `None` means no limit.
    pub rate_limit: Option<u64>,
    /// True if the sender fills the path, instead of holding its rate slightly below the path's rate. Only the user can
    /// request this.
    pub unpaced: bool,
    /// The range of TCP ports for data connections: the first and the last port.
    pub ports: Option<(u16, u16)>,
    /// Bytes that identify the user's command. If set, the receiver keeps a journal under a name that depends on these
    /// bytes, so that the same command can resume.
    pub resume: Option<[u8; 16]>,
    /// An end gives up if neither a message nor a payload byte of the other end arrives for this number of seconds;
    /// `None` means that it never gives up.
    pub timeout: Option<u32>,
    /// More rules for reading and creating entries.
    pub details: Box<Details>,
}

/// How the sender compresses the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compression {
    /// When the sender compresses the data, and with which level.
    pub level: CompressionLevel,
    /// The name extensions of files that aren't compressed; each is in lower case, without its dot. `None` means that
    /// the sender uses its own list.
    pub skip: Option<Vec<Vec<u8>>>,
}

/// When the sender compresses the data, and with which level. Data that doesn't become smaller is sent uncompressed.
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

/// Which metadata of entries are kept. The fields have the names of rsync's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// True if permission bits are kept.
    pub perms: bool,
    /// True if modification times are kept, to the nanosecond.
    pub times: bool,
    /// True if owners are kept.
    pub owner: bool,
    /// True if groups are kept.
    pub group: bool,
    /// True if owners and groups are kept by number. False if they are kept by name; a name that an end doesn't have is
    /// replaced by the number.
    pub numeric_ids: bool,
    /// True if hard links between entries of the transfer are kept.
    pub hard_links: bool,
    /// True if device nodes are sent.
    pub devices: bool,
    /// True if named pipes and sockets are sent.
    pub specials: bool,
    /// True if extended attributes are kept.
    pub xattrs: bool,
    /// True if POSIX ACLs are kept.
    pub acls: bool,
    /// True if setuid, setgid and sticky bits are kept.
    pub special_bits: bool,
    /// True if the holes of files are kept.
    pub sparse: bool,
    /// True if directories don't keep their times, even if `times` is set.
    pub omit_dir_times: bool,
    /// True if symbolic links don't keep their times, even if `times` is set.
    pub omit_link_times: bool,
}

/// One change of modes by `--chmod`: which bits keep their value, and which bits are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeRule {
    /// True if the rule applies to directories.
    pub directories: bool,
    /// True if the rule applies to all entries that aren't directories, except symbolic links.
    pub others: bool,
    /// The bits that keep their value; all other bits are cleared.
    pub keep: u32,
    /// The bits that are set after that.
    pub set: u32,
    /// True if execute bits are set only for directories, and for files that already have an execute bit.
    pub conditional: bool,
}

impl Options {
    /// True if all or some symbolic links are followed.
    pub fn follows_links(&self) -> bool {
        self.copy_links || self.copy_dirlinks || self.copy_unsafe_links
    }
}

impl Keep {
    /// Keeps the properties that scp's `-p` keeps: modes and times.
    pub const SCP: Self = Self { perms: true, times: true, ..Self::NOTHING };
    /// Keeps no properties: new files get their modes by the umask.
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

    /// True if the times of an entry of this kind are kept.
    pub fn times_of(&self, kind: &Kind) -> bool {
        let omitted = match kind {
            Kind::Directory => self.omit_dir_times,
            Kind::Symlink { .. } => self.omit_link_times,
            _ => false,
        };
        self.times && !omitted
    }
}

/// The rules by which a receiver decides which entries it requests. The fields have names like rsync's options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// True if the sources land in the destination under their own names; false if the only source becomes
    /// the destination itself.
    pub into: bool,
    /// True if files are compared by their contents, and not by size and modification time.
    pub checksum: bool,
    /// True if files are compared only by their sizes.
    pub size_only: bool,
    /// True if files are sent even if size and modification time are equal at the destination.
    pub ignore_times: bool,
    /// True if files that are newer at the receiver are skipped.
    pub update: bool,
    /// True if entries that exist at the receiver are skipped, unless both are directories.
    pub ignore_existing: bool,
    /// True if entries that don't exist at the receiver are skipped.
    pub existing: bool,
    /// Files with fewer bytes than this are skipped.
    pub least: Option<u64>,
    /// Files with more bytes than this are skipped.
    pub most: Option<u64>,
    /// True if changed files are sent whole, and not only the chunks that differ.
    pub whole: bool,
    /// The offsets of a changed file at which the sender looks for blocks that the receiver has.
    pub search: BlockSearch,
    /// True if the receiver writes into existing files, and doesn't replace them by new files.
    pub inplace: bool,
    /// True if the receiver deletes entries that the sender doesn't have.
    pub delete: bool,
    /// True if a directory that isn't empty is deleted, even without `delete`, when an entry of another kind takes its
    /// name.
    pub force: bool,
    /// True if `delete` deletes entries even if the source could not be read completely.
    pub ignore_errors: bool,
    /// Times that differ by at most this number of whole seconds count as equal. `None` means that times are compared
    /// as precisely as the destination stores them.
    pub window: Option<u32>,
    /// If set, entries that are replaced or deleted are kept as backups, at this place.
    pub backup: Option<Backup>,
    /// Other trees at the receiver, which may have entries that the destination lacks.
    pub others: Option<OtherTrees>,
    /// The largest number of entries that `delete` may delete; `None` means no limit.
    pub max_delete: Option<u64>,
    /// True if missing parent directories of the destination are created.
    pub make_path: bool,
    /// True in a dry run: changes are reported, but nothing is changed.
    pub dry_run: bool,
    /// True if each change is reported.
    pub itemize: bool,
    /// True if unchanged entries are reported too, and also skipped entries, with the reason.
    pub unchanged: bool,
    /// True if the entry's properties are reported with each change.
    pub facts: bool,
}

/// The offsets of the new version of a file at which the sender looks for contents of the older version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockSearch {
    /// The contents are looked for only at their offsets in the older version.
    #[default]
    SamePlaces,
    /// The contents are looked for at any offset, as long as this search isn't much slower than sending.
    Measured,
    /// The contents are looked for at any offset.
    Everywhere,
}

/// Where a receiver keeps backups of entries that are replaced or deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// The directory of the backups, relative to the destination. `None` means that a backup stays in the directory of
    /// its entry.
    pub directory: Option<Vec<u8>>,
    /// The bytes that are appended to the entry's name to form the name of its backup.
    pub suffix: Vec<u8>,
}

/// Other trees at the receiver, and what the receiver does if one of these trees has an entry unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherTrees {
    /// The directories of the trees, relative to the destination, at most [`MAX_OTHER_TREES`]. The first directory that
    /// has the entry is used.
    pub directories: Vec<Vec<u8>>,
    /// The receiver's action for an entry that one of the trees has unchanged.
    pub used: OtherUse,
}

/// The receiver's action for an entry that one of the [`OtherTrees`] has unchanged.
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
