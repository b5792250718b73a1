//! Looks up existing entries in a tree.

use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{FileType, RawMode, Stat};
use rustix::io::Errno;
use std::ffi::{CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::tree::metadata::read::{At, faked_link};
use crate::tree::metadata::write::MetadataWriter;
use crate::tree::root::{Directory, Root};

/// A tree in which entries are looked up. The last directory is kept open, because offers arrive directory by
/// directory.
pub struct View<'a> {
    root: &'a Root,
    writer: &'a MetadataWriter,
    parent: Option<(RelPath, Option<Arc<Directory>>)>,
}

/// The file or directory that is at an entry's place.
pub struct Occupant {
    pub parent: Arc<Directory>,
    /// The stat of the entry as the user means it: a file may stand for an entry of another kind
    /// (`--fake-super`).
    pub stat: Stat,
    /// The type and mode of the file itself, which may stand for another kind of entry.
    pub real: RawMode,
    /// True if the file has the attribute of `--fake-super`, but the attribute's value is invalid.
    pub says_nothing: bool,
}

impl Occupant {
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// True if the entry, with its attributes, can stand for another kind of entry.
    pub fn can_store(&self) -> bool {
        matches!(self.real_kind(), FileType::RegularFile | FileType::Directory)
    }

    /// True if the entry is (or stands for) a link with the name `name` and the target `target`.
    pub fn leads_to(&self, target: &[u8], name: &OsStr) -> bool {
        let text = match self.real_kind() {
            FileType::RegularFile => faked_link(At::In(self.parent.as_fd(), name.as_bytes())),
            _ => rustix::fs::readlinkat(&self.parent, name, Vec::new()).map(CString::into_bytes),
        };
        text.is_ok_and(|text| text == target)
    }

    /// The type of the file itself, not of the entry for which it may stand.
    pub fn real_kind(&self) -> FileType {
        FileType::from_raw_mode(self.real)
    }
}

impl<'a> View<'a> {
    /// A view of the tree at `root`, as `writer` interprets it.
    pub fn new(root: &'a Root, writer: &'a MetadataWriter) -> Self {
        Self { root, writer, parent: None }
    }

    /// Looks up an entry as [`Self::look`] does. If links to directories are kept, such a link counts as the
    /// existing directory.
    pub fn look_for(&mut self, entry: &Entry, place: &RelPath) -> Option<Occupant> {
        let mut there = self.look(place)?;
        let is_link = self.root.keeps_links && there.kind() == FileType::Symlink;
        if let (true, Kind::Directory, Some(name)) = (is_link, &entry.kind, place.name())
            && let Some(stat) = there.parent.stat_of_directory(name)
        {
            (there.stat, there.real) =
                (self.writer.seen_at(At::In(there.parent.as_fd(), name.as_bytes()), stat), stat.st_mode);
        }
        Some(there)
    }

    /// Whether the parent directory of `place` exists.
    pub fn has_directory_of(&self, place: &RelPath) -> bool {
        place.parent().is_none_or(|parent| self.root.directory(&parent).is_ok())
    }

    /// The entry at `place`; `None` if no entry exists there or it can't be examined. If the entry can't be examined,
    /// writing it reports the error.
    pub fn look(&mut self, place: &RelPath) -> Option<Occupant> {
        let Some(name) = place.name() else {
            let top = self.root.top().clone();
            let real = rustix::fs::fstat(&top).ok()?;
            let stat = self.writer.seen_at(At::Open(top.as_fd()), real);
            return Some(Occupant { parent: top, stat, real: real.st_mode, says_nothing: false });
        };
        if self.parent.as_ref().is_none_or(|(held, _)| !place.is_in(held)) {
            let parent = place.parent()?;
            let held = self.root.directory(&parent).ok();
            self.parent = Some((parent, held));
        }
        let parent = self.parent.as_ref().and_then(|(_, held)| held.clone())?;
        let real = parent.stat(name).ok()?;
        let seen = self.writer.seen_as(At::In(parent.as_fd(), name.as_bytes()), &real);
        let (stat, says_nothing) = (seen.unwrap_or(real), matches!(seen, Err(Errno::INVAL)));
        Some(Occupant { parent, stat, real: real.st_mode, says_nothing })
    }
}
