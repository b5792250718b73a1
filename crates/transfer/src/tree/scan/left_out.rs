//! Entries that aren't sent because of their kind, and how that is reported.

use linerate_wire::entry::Kind;
use linerate_wire::path::{RelPath, printable};
use rustix::fs::FileType;

/// The kind's name in a message.
pub fn named(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a fifo",
        FileType::Symlink => "a symbolic link",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "of an unknown kind",
    }
}

/// In rsync's words, which its users look for.
pub fn ignored_link(path: &RelPath, target: &[u8]) -> String {
    let (path, target) = (printable(path.as_bytes()), printable(target));
    format!("ignoring unsafe symlink \"{path}\" -> \"{target}\"")
}

/// The kind of an entry that isn't kept: a receiver knows by it that the entry is a mere name.
pub fn left_out(kind: FileType) -> Kind {
    match kind {
        FileType::BlockDevice | FileType::CharacterDevice => {
            Kind::Device { block: kind == FileType::BlockDevice, major: 0, minor: 0 }
        }
        _ => Kind::Fifo,
    }
}
