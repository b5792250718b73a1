//! Entries that aren't sent because of their kind, and the reports about them.

use linerate_wire::entry::Kind;
use linerate_wire::path::{RelPath, printable};
use rustix::fs::FileType;

use super::{ScanWalk, Taker};
use crate::tree::safe_link::leads_out;

/// The name of a kind in a message.
pub fn named(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a fifo",
        FileType::Symlink => "a symbolic link",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "of an unknown kind",
    }
}

/// The message that a link is ignored, in rsync's words, because scripts search for these words.
pub fn ignored_link(path: &RelPath, target: &[u8]) -> String {
    let (path, target) = (printable(path.as_bytes()), printable(target));
    format!("ignoring unsafe symlink \"{path}\" -> \"{target}\"")
}

/// The kind that is sent for an entry whose kind isn't kept: it shows the receiver that only the name is sent.
pub fn left_out(kind: FileType) -> Kind {
    match kind {
        FileType::BlockDevice | FileType::CharacterDevice => {
            Kind::Device { block: kind == FileType::BlockDevice, major: 0, minor: 0 }
        }
        _ => Kind::Fifo,
    }
}

impl<T: Taker> ScanWalk<'_, '_, T> {
    /// The path by which rules and checks of links see an entry. If the selection works as rsync's does, the path
    /// begins with the source's own name.
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
