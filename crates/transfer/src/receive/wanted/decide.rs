//! Decides about one entry from the stat of the existing entry, without reading or writing. `delta.rs`
//! decides whether only the differences of a changed file are sent.

use linerate_wire::control::{Change, Keep, Sync};
use linerate_wire::entry::{Entry, Kind};
use rustix::fs::{FileType, Mode, Stat};

use super::times::{is_newer, same_time};
use crate::tree::itemize::{self, Changes, Item, Time, Update};
use crate::tree::metadata::compare::Differences;
use crate::tree::stamp::mtime;

/// The decision about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The existing entry stays unchanged, as the user's options require.
    LeftAlone,
    /// The entry is created. It replaces no entry, or an entry of another kind.
    New,
    /// The existing entry's contents (a file's bytes or a link's text) are replaced.
    Contents(Changes),
    /// The existing entry's contents are right. Its other properties are repaired where they differ.
    Attributes(Changes),
}

/// The settings by which the receiver decides about entries.
pub struct Rules {
    /// The user's options for comparing entries.
    pub sync: Sync,
    /// The properties that are kept, and therefore compared.
    pub keep: Keep,
    /// True if access times are kept and compared too.
    pub atimes: bool,
    /// True if execute permission is kept and compared too.
    pub executability: bool,
}

impl Rules {
    /// Decides about an entry if that is possible without comparing contents; otherwise `None`.
    pub fn early(&self, entry: &Entry, there: &Stat) -> Option<Decision> {
        let kind = FileType::from_raw_mode(there.st_mode);
        let both_directories = entry.kind == Kind::Directory && kind == FileType::Directory;
        if self.sync.ignore_existing && !both_directories || self.leaves_by_size(entry) {
            return Some(Decision::LeftAlone);
        }
        if !is_same_kind(&entry.kind, kind) {
            return Some(Decision::New);
        }
        let is_file = kind == FileType::RegularFile;
        (is_file && self.sync.update && is_newer(there, entry.mtime)).then_some(Decision::LeftAlone)
    }

    /// Decides about an entry that doesn't exist.
    pub fn missing(&self, entry: &Entry) -> Decision {
        let is_left = self.sync.existing || self.leaves_by_size(entry);
        if is_left { Decision::LeftAlone } else { Decision::New }
    }

    /// The change to print for a skipped entry: it states why the entry is skipped. `size` is the size of a file in bytes,
    /// `there` the existing entry, if there is one.
    pub fn why_left(&self, size: Option<u64>, there: Option<&Stat>) -> [u8; 11] {
        let is_over = |most| size.is_some_and(|size| size > most);
        match there {
            None if self.sync.existing => Change::MISSING,
            Some(_) if self.sync.ignore_existing => Change::EXISTS,
            _ if self.sync.most.is_some_and(is_over) => Change::OVER,
            _ if size.is_some_and(|size| self.has_other_size(size)) => Change::UNDER,
            // An entry that isn't a directory has the name of a directory above the skipped entry.
            None => Change::EXISTS,
            Some(_) => Change::NEWER,
        }
    }

    /// True if the existing entry `there` has the same modification time as `entry`, with the precision that
    /// the user's options require.
    fn has_time(&self, entry: &Entry, there: &Stat) -> bool {
        let apart = entry.mtime.seconds.abs_diff(mtime(there).seconds);
        self.sync.window.is_some_and(|window| apart <= window.into()) || same_time(entry.mtime, there)
    }

    /// True for a file that is left out by its size.
    fn leaves_by_size(&self, entry: &Entry) -> bool {
        matches!(entry.kind, Kind::File { size } if self.has_other_size(size))
    }

    /// True for a file's size, in bytes, that is smaller or larger than the user's limits permit.
    pub fn has_other_size(&self, size: u64) -> bool {
        self.sync.least.is_some_and(|least| size < least) || self.sync.most.is_some_and(|most| size > most)
    }

    /// Decides about an entry after its contents, link text or device number were compared: `value_differs`
    /// is the result. `mode` is the entry's new mode, `more` are other differences.
    pub fn decide(
        &self,
        entry: &Entry,
        mode: Mode,
        there: &Stat,
        value_differs: bool,
        more: Differences,
    ) -> Decision {
        let mut changes = self.changes(entry, mode, there, value_differs, more);
        let replaced = match entry.kind {
            Kind::File { .. } if self.sync.checksum => value_differs,
            Kind::File { .. } if self.sync.size_only => changes.size,
            Kind::File { .. } if self.sync.ignore_times => true,
            Kind::File { .. } => changes.size || !self.has_time(entry, there),
            _ => value_differs,
        };
        if replaced && !self.keep.times_of(&entry.kind) {
            // If times aren't kept, the new file has the time of the transfer, regardless of the old file's
            // time.
            changes.modified = Some(if self.keep.times { Time::Kept } else { Time::OfTransfer });
        }
        if replaced { Decision::Contents(changes) } else { Decision::Attributes(changes) }
    }

    /// The changes by which the existing entry `there` becomes a further hard link to a file of `size` bytes.
    pub fn relinked(&self, entry: &Entry, mode: Mode, size: u64, there: &Stat) -> Changes {
        let is_file = FileType::from_raw_mode(there.st_mode) == FileType::RegularFile;
        let changes = self.changes(entry, mode, there, false, Differences::default());
        let without_times = !self.keep.times_of(&entry.kind);
        let modified = if without_times { Some(Time::OfTransfer) } else { changes.modified };
        Changes { size: is_file && size != there.st_size as u64, modified, ..changes }
    }

    fn changes(
        &self,
        entry: &Entry,
        mode: Mode,
        there: &Stat,
        value_differs: bool,
        more: Differences,
    ) -> Changes {
        let is_link = matches!(entry.kind, Kind::Symlink { .. });
        let size = matches!(entry.kind, Kind::File { size } if size != there.st_size as u64);
        let may_be_read = self.atimes && !is_link && entry.kind != Kind::Directory;
        Changes {
            value: value_differs,
            size,
            modified: (self.keep.times_of(&entry.kind) && !self.has_time(entry, there)).then_some(Time::Kept),
            permissions: (self.keep.perms || self.executability)
                && !is_link
                && mode.as_raw_mode() != there.st_mode & 0o7777,
            owner: more.owner,
            group: more.group,
            accessed: may_be_read && entry.atime.seconds != there.st_atime,
            acl: more.acl,
            xattrs: more.xattrs,
            ..Changes::default()
        }
    }
}

/// Whether the user's options require that the existing entry `there` stays unchanged. This is also checked when an
/// entry arrives, because a sender may send an entry that wasn't requested.
pub fn is_left_alone(sync: &Sync, entry: &Entry, there: &Stat) -> bool {
    let rules = Rules { sync: sync.clone(), keep: Keep::NOTHING, atimes: false, executability: false };
    rules.early(entry, there) == Some(Decision::LeftAlone)
}

impl Decision {
    /// True if the existing entry has the right contents and properties.
    pub fn is_unchanged(&self) -> bool {
        matches!(self, Self::Attributes(changes) if changes.is_empty())
    }

    /// The change to print for an entry, with the kind `shown`; `None` if the entry is skipped. `received` is true if
    /// the user's command receives contents, and false if it sends them.
    pub fn item(&self, kind: &Kind, shown: itemize::Kind, received: bool) -> Option<Item> {
        let is_file = matches!(kind, Kind::File { .. });
        let update = match kind {
            Kind::File { .. } if received => Update::Received,
            Kind::File { .. } => Update::Sent,
            Kind::HardLink { .. } => Update::HardLink,
            _ => Update::Local,
        };
        match self {
            Self::LeftAlone => None,
            Self::New => Some(Item::New(update, shown)),
            Self::Contents(changes) => Some(Item::Existing(update, shown, *changes)),
            Self::Attributes(changes) if update == Update::HardLink => {
                Some(Item::Existing(update, shown, *changes))
            }
            Self::Attributes(changes) => {
                let changes = Changes { value: changes.value && !is_file, ..*changes };
                Some(Item::Existing(Update::Attributes, shown, changes))
            }
        }
    }
}

/// The kind that is printed for an entry. A further hard link is printed with the kind of the first name, which isn't
/// known here.
pub fn shown(kind: &Kind) -> itemize::Kind {
    match kind {
        Kind::File { .. } | Kind::HardLink { .. } => itemize::Kind::File,
        Kind::Directory => itemize::Kind::Directory,
        Kind::Symlink { .. } => itemize::Kind::Symlink,
        Kind::Device { .. } => itemize::Kind::Device,
        Kind::Fifo | Kind::Socket => itemize::Kind::Special,
    }
}

/// True if an existing entry of the type `there` is of the kind `kind`.
pub fn is_same_kind(kind: &Kind, there: FileType) -> bool {
    match kind {
        Kind::File { .. } => there == FileType::RegularFile,
        Kind::HardLink { .. } => there != FileType::Directory,
        Kind::Directory => there == FileType::Directory,
        Kind::Symlink { .. } => there == FileType::Symlink,
        Kind::Device { block: true, .. } => there == FileType::BlockDevice,
        Kind::Device { .. } => there == FileType::CharacterDevice,
        Kind::Fifo => there == FileType::Fifo,
        Kind::Socket => there == FileType::Socket,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::entry::Timestamp;
    use linerate_wire::path::RelPath;

    #[test]
    fn without_times_only_what_is_replaced_has_another() {
        let there = rustix::fs::stat("/proc/self/exe").unwrap();
        let now = crate::tree::stamp::mtime(&there);
        let (kind, earlier) = (Kind::File { size: there.st_size as u64 }, Timestamp { seconds: 5, ..now });
        let decided = |checksum, value_differs, mtime| {
            let sync = Sync { checksum, ..Sync::default() };
            let rules = Rules { sync, keep: Keep::NOTHING, atimes: false, executability: false };
            let (path, atime) = (RelPath::root(), mtime);
            let entry = Entry { source: 0, path, kind: kind.clone(), mode: 0, mtime, atime, extra: None };
            let decision = rules.decide(&entry, Mode::empty(), &there, value_differs, Differences::default());
            decision.item(&entry.kind, shown(&entry.kind), false).unwrap().to_string()
        };
        assert_eq!(decided(true, false, earlier), ".f         ");
        assert_eq!(decided(true, true, now), "<fc.T......");
        assert_eq!(decided(false, false, earlier), "<f..T......");
    }
}
