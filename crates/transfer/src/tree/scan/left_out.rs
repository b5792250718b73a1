//! Entries that aren't sent because of their kind, and how that is reported.

use linerate_wire::entry::Kind;
use linerate_wire::path::{RelPath, printable};
use rustix::fs::FileType;

use super::{ScanWalk, Taker};
use crate::tree::safe_link::leads_out;

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

impl<T: Taker> ScanWalk<'_, '_, T> {
    /// The path as rules and links see it: with rsync's names, the source's own name is a directory above it.
    pub(super) fn seen(&self, source: usize, path: &RelPath) -> RelPath {
        let name = &self.scanner.sources[source].source.name;
        let own = if self.scanner.selection.like_rsync { name.as_bytes() } else { b"" };
        match own.is_empty() || path.is_root() {
            true if path.is_root() => RelPath::new(own).unwrap_or_default(),
            true => path.clone(),
            false => name.join(path.as_bytes()).unwrap_or_else(|_| path.clone()),
        }
    }

    pub(super) fn ignores(&self, source: usize, path: &RelPath, target: &[u8]) -> bool {
        self.scanner.selection.safe_links && leads_out(&self.seen(source, path), target)
    }
}
