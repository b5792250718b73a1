//! Removes sources after everything is in place (`--remove-source-files`).

use linerate_wire::control::{Problem, ProblemKind};
use linerate_wire::entry::{Entry, Kind, Timestamp};
use linerate_wire::path::RelPath;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::path::Path;
use std::sync::Mutex;

use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::tree::own_files;
use crate::tree::root::Root;
use crate::tree::scan::Seen;
use crate::tree::source_root::SourceRoot;
use crate::tree::stamp::mtime;

/// The entries, except directories, that the receiver has or gets. Each takes about 100 bytes of memory.
#[derive(Default)]
pub struct Removable(Mutex<Vec<RemovableEntry>>);

/// An entry that may be removed, as the scan found it.
struct RemovableEntry {
    source: u32,
    path: RelPath,
    inode: u64,
    modified: Timestamp,
    size: Option<u64>,
    /// True if the entry was sent as a symbolic link.
    is_link: bool,
}

impl Removable {
    /// Records an entry that the receiver has or gets.
    pub fn note(&self, entry: &Entry, seen: &Seen) {
        if entry.kind == Kind::Directory {
            return;
        }
        let size = if let Kind::File { size } = entry.kind { Some(size) } else { None };
        let is_link = matches!(entry.kind, Kind::Symlink { .. });
        let (source, path, modified) = (entry.source, entry.path.clone(), entry.mtime);
        lock(&self.0).push(RemovableEntry {
            source,
            path,
            inode: seen.origin.inode,
            modified,
            size,
            is_link,
        });
    }

    /// Removes all recorded entries that are unchanged since the scan; removes none unless `all` is set, which states
    /// that all entries that were found have arrived.
    pub fn remove(&self, sources: &[SourceRoot], all: bool, report: &(dyn Fn(Problem) + Sync)) {
        let sent = std::mem::take(&mut *lock(&self.0));
        if !all {
            let message =
                "no source is removed, because not everything has arrived; run the same command again";
            return report(problem(Path::new("--remove-source-files"), ProblemKind::Failed, message));
        }
        for sent in sent {
            let source = &sources[sent.source as usize];
            let path = source.full_path(&sent.path);
            if let Some(option) = sent.own_file(&source.root, &path) {
                let stays = format!("is this command's own file ({option}), and is not removed");
                report(problem(source.shown(&sent.path), ProblemKind::Noted, stays));
                continue;
            }
            let failed = match sent.remove(&source.root, &path) {
                Ok(true) => continue,
                Ok(false) => "has changed since it was sent, and is not removed".to_owned(),
                Err(error) => format!("is at the destination, but removing it here failed: {error}"),
            };
            report(problem(source.shown(&sent.path), ProblemKind::Failed, failed));
        }
    }
}

impl RemovableEntry {
    /// The option that names the entry's file, if this command itself writes the file (for example, as its log).
    fn own_file(&self, root: &Root, path: &RelPath) -> Option<&'static str> {
        own_files::option_of(path.name()?, || root.directory(&path.parent()?).ok())
    }

    /// Removes the entry; false if the existing entry isn't the one that was sent.
    fn remove(&self, root: &Root, path: &RelPath) -> Result<bool, Errno> {
        let (parent, name) = path.split().ok_or(Errno::ISDIR)?;
        let parent = root.directory(&parent)?;
        let follows = root.follows_links() && !self.is_link;
        let flags = if follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let now = rustix::fs::statat(&parent, name, flags)?;
        let is_same = now.st_ino == self.inode
            && mtime(&now) == self.modified
            && self.size.is_none_or(|size| size == now.st_size as u64);
        if is_same {
            rustix::fs::unlinkat(&parent, name, AtFlags::empty())?;
        }
        Ok(is_same)
    }
}
