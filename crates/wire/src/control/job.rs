//! The job that the client gives the agent, with the user's options.

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
    /// Tell what [`Job::Send`] would send, and send nothing.
    List {
        /// The sources, as the user wrote them.
        sources: Vec<Vec<u8>>,
        /// Directories and what is in them.
        recursive: bool,
        /// The metadata that [`Job::Send`] would keep.
        keep: Keep,
        /// As [`Options::safe_links`].
        safe_links: bool,
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
    /// Tell what is at a path, and BLAKE3 of the files in it; send nothing.
    Digests {
        /// A directory or a file, as the user wrote it.
        path: Vec<u8>,
        /// Properties that are compared beside kinds, contents, modes and times.
        keep: Keep,
    },
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
    /// What symbolic links lead to is sent in their place.
    pub copy_links: bool,
    /// What is on another file system than its source is left out; the directory that it is mounted on is there, and empty.
    pub one_file_system: bool,
    /// Only the data's encryption is off; set by the user, never by negotiation.
    pub clear: bool,
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
}

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
    };
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
    /// Write into the file that is there, instead of into a copy that takes its name.
    pub inplace: bool,
    /// Remove what the sender doesn't have.
    pub delete: bool,
    /// How many entries may be removed at most.
    pub max_delete: Option<u64>,
    /// Tell each change, change nothing.
    pub dry_run: bool,
    /// Tell each change.
    pub itemize: bool,
}
