//! Entries: files, directories, links and special files, as the scanner finds and the sink makes them.

use crate::bounded::at_most;
use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// One thing in a tree, without its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Which of the sources it belongs to, in the order of [`crate::control::Message::Sources`].
    pub source: u32,
    /// Where it is below that source; empty for the source itself.
    pub path: RelPath,
    /// Its kind.
    pub kind: Kind,
    /// Permission bits (`st_mode & 0o7777`).
    pub mode: u32,
    /// When it was last modified.
    pub mtime: Timestamp,
    /// When it was last read.
    pub atime: Timestamp,
    /// Properties that [`crate::control::Keep`] asks for beyond that; most transfers carry none.
    pub extra: Option<Box<Extra>>,
}

/// Properties that an archive keeps beside mode and times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    /// Whose it is.
    pub owner: Option<Owner>,
    /// Extended attributes but ACLs: names, which are unique, and values; raw bytes, [`MAX_XATTRS`] in all.
    #[serde(deserialize_with = "at_most::<MAX_XATTR_COUNT, _, _>")]
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The access ACL, where it says more than the mode.
    #[serde(deserialize_with = "at_most::<MAX_ACL, _, _>")]
    pub acl: Vec<AclEntry>,
    /// A directory's default ACL.
    #[serde(deserialize_with = "at_most::<MAX_ACL, _, _>")]
    pub default_acl: Vec<AclEntry>,
    /// The entry has more names than this one, and later ones may come as [`Kind::HardLink`].
    pub linked: bool,
}

/// The most bytes of one entry's extended attributes, names and values together.
pub const MAX_XATTRS: usize = 512 << 10;
/// The most extended attributes of one entry; the kernel lists 64 KiB of names.
pub const MAX_XATTR_COUNT: usize = 8192;
/// The most entries of an ACL that fit into an extended attribute (64 KiB).
pub const MAX_ACL: usize = 8191;

/// The owner of an entry: numbers, and their names at the sender, empty if they have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
    /// The user's name.
    pub user: String,
    /// The group's name.
    pub group: String,
}

/// One line of a POSIX ACL (acl(5)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclEntry {
    /// To whom it applies.
    pub tag: AclTag,
    /// Read 4, write 2, execute 1.
    pub permissions: u8,
}

/// To whom a line of an ACL applies; named ones by number and by name, which is empty where the number has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AclTag {
    /// The owner.
    UserObj,
    /// A user.
    User(u32, String),
    /// The owning group.
    GroupObj,
    /// A group.
    Group(u32, String),
    /// The most that all but owner and others get.
    Mask,
    /// Everybody else.
    Other,
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file, with its size in bytes.
    File {
        /// Its size when it was scanned.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link and what it says.
    Symlink {
        /// The link's text, any bytes but zero.
        target: Vec<u8>,
    },
    /// A device node.
    Device {
        /// A block device, else a character device.
        block: bool,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// A Unix socket's name.
    Socket,
    /// One more name of a file that was sent before, with [`Extra::linked`].
    HardLink {
        /// The source that the first name belongs to.
        source: u32,
        /// The first name below that source.
        path: RelPath,
    },
}

/// A point in time as the file system keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// A part of a large file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The file; its kind is [`Kind::File`].
    pub entry: Entry,
    /// Distinguishes the file from all others of the transfer.
    pub file: u64,
    /// Where the part begins in the file, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub length: u64,
    /// Parts of the whole file; at least one.
    pub parts: u32,
    /// Which file at the sender it is.
    pub origin: Origin,
}

/// Distinguishes a file from one that took its place with equal size and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its inode's number.
    pub inode: u64,
    /// When the inode last changed.
    pub ctime: Timestamp,
}

impl Chunk {
    /// True where the part lies inside the size that the entry states.
    pub fn is_consistent(&self) -> bool {
        let Kind::File { size } = self.entry.kind else { return false };
        let inside = self.offset.checked_add(self.length).is_some_and(|end| end <= size);
        inside && self.parts > 0 && (self.parts > 1 || self.offset + self.length == size)
    }
}
