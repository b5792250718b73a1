//! Entries: files, directories, links and special files, as the sender's scan finds them and the receiver
//! creates them.

use crate::bounded::at_most;
use crate::path::RelPath;
use serde::{Deserialize, Serialize};

/// A file, directory, link or special file of a tree, without its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the source to which the entry belongs, in the order of
    /// [`crate::control::Message::Sources`].
    pub source: u32,
    /// The entry's path below its source; empty for the source itself.
    pub path: RelPath,
    /// The entry's kind, with the properties that depend on the kind.
    pub kind: Kind,
    /// The permission bits (`st_mode & 0o7777`).
    pub mode: u32,
    /// The modification time.
    pub mtime: Timestamp,
    /// The access time.
    pub atime: Timestamp,
    /// Further properties that [`crate::control::Keep`] requests; in most transfers `None`.
    pub extra: Option<Box<Extra>>,
}

/// Properties of an entry in addition to mode and times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    /// The entry's owner and group.
    pub owner: Option<Owner>,
    /// The extended attributes except ACLs: unique names and their values, as raw bytes, at most [`MAX_XATTRS`] bytes
    /// in total.
    #[serde(deserialize_with = "at_most::<MAX_XATTR_COUNT, _, _>")]
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The access ACL, if it contains more than the mode.
    #[serde(deserialize_with = "at_most::<MAX_ACL, _, _>")]
    pub acl: Vec<AclEntry>,
    /// A directory's default ACL.
    #[serde(deserialize_with = "at_most::<MAX_ACL, _, _>")]
    pub default_acl: Vec<AclEntry>,
    /// True if the entry has several names, and later names may be sent as [`Kind::HardLink`].
    pub linked: bool,
}

/// The most bytes of one entry's extended attributes, including names and values.
pub const MAX_XATTRS: usize = 512 << 10;
/// The most extended attributes of one entry. More than enough, because the kernel lists at most 64 KiB of names.
pub const MAX_XATTR_COUNT: usize = 8192;
/// The most entries of an ACL. More entries don't fit into an extended attribute, which has at most 64 KiB.
pub const MAX_ACL: usize = 8191;

/// The owner and group of an entry: their numbers, and the names of these numbers at the sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The user number.
    pub uid: u32,
    /// The group number.
    pub gid: u32,
    /// The user's name; empty if the number has none.
    pub user: String,
    /// The group's name; empty if the number has none.
    pub group: String,
}

/// One line of a POSIX ACL (acl(5)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclEntry {
    /// The users to whom the permissions apply.
    pub tag: AclTag,
    /// The permissions: the sum of 4 (read), 2 (write) and 1 (execute).
    pub permissions: u8,
}

/// The users to whom a line of an ACL applies. The name of a user or group is empty if the number has no name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AclTag {
    /// The owner.
    UserObj,
    /// The user with this number and this name.
    User(u32, String),
    /// The members of the owning group.
    GroupObj,
    /// The members of the group with this number and this name.
    Group(u32, String),
    /// The mask: the most permissions that named users and all groups can have.
    Mask,
    /// Everybody else.
    Other,
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File {
        /// The file's size in bytes when it was scanned.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// The link's text: any bytes except zero.
        target: Vec<u8>,
    },
    /// A device node.
    Device {
        /// True for a block device, false for a character device.
        block: bool,
        /// The device's major number.
        major: u32,
        /// The device's minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// A Unix socket. A copy of a socket only has its name; nobody listens there.
    Socket,
    /// A further name of a file that was sent before with [`Extra::linked`].
    HardLink {
        /// The number of the source to which the first name belongs.
        source: u32,
        /// The path of the first name below that source.
        path: RelPath,
    },
}

/// A point in time, as the file system stores it.
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
    /// The entry of the file; its kind is [`Kind::File`].
    pub entry: Entry,
    /// A number that distinguishes the file from all others of the transfer.
    pub file: u64,
    /// The offset of the part in the file, in bytes.
    pub offset: u64,
    /// The length of the part, in bytes.
    pub length: u64,
    /// The number of parts of the whole file; at least one.
    pub parts: u32,
    /// Identifies the source file at the sender.
    pub origin: Origin,
}

/// Distinguishes a file from another file with the same size and times that has replaced it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The file's inode number.
    pub inode: u64,
    /// The time of the inode's last change.
    pub ctime: Timestamp,
}

impl Chunk {
    /// True if the part lies within the size that the entry states, and the number of parts is possible: a part that is
    /// the only one ends at the end of the file.
    pub fn is_consistent(&self) -> bool {
        let Kind::File { size } = self.entry.kind else { return false };
        let inside = self.offset.checked_add(self.length).is_some_and(|end| end <= size);
        inside && self.parts > 0 && (self.parts > 1 || self.offset + self.length == size)
    }
}
