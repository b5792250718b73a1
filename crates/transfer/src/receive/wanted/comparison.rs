//! Compares an offered entry with the existing entry at its place.

use linerate_wire::control::Digest;
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{FileType, Mode};
use std::os::fd::AsFd;

use super::decide::Decision;
use super::existing::open_existing;
use super::view::Occupant;
use super::{Comparer, name};
use crate::receive::admission::Admitted;
use crate::tree::itemize::Changes;
use crate::tree::metadata::read::At;
use crate::tree::reading::hash;

impl Comparer<'_, '_> {
    pub(super) fn decide(
        &mut self,
        admitted: &Admitted<'_>,
        digest: Option<Digest>,
        there: &Occupant,
    ) -> Decision {
        let early = self.rules.early(admitted.entry(), &there.stat);
        early.unwrap_or_else(|| self.compare(admitted, digest, there))
    }

    /// Decides about an offered entry by comparing it with the existing entry, which is of the same kind.
    pub(super) fn compare(
        &mut self,
        admitted: &Admitted<'_>,
        digest: Option<Digest>,
        there: &Occupant,
    ) -> Decision {
        let (entry, place) = (admitted.entry(), admitted.place());
        if let Kind::HardLink { source, path } = &entry.kind {
            return self.another_name(entry, *source, path, there);
        }
        let fakes = self.shared.ground.writer.fakes();
        let value_differs = match &entry.kind {
            Kind::File { size } if self.rules.sync.checksum => {
                self.contents_differ(digest, *size, place, there)
            }
            Kind::File { .. } | Kind::Directory | Kind::HardLink { .. } => false,
            // The existing link must be replaced by a file that stands for a link.
            Kind::Symlink { .. } if fakes && there.real_kind() == FileType::Symlink => true,
            Kind::Symlink { target } => !there.leads_to(target, name(place)),
            Kind::Device { major, minor, .. } => there.stat.st_rdev != rustix::fs::makedev(*major, *minor),
            Kind::Fifo | Kind::Socket => false,
        };
        let at = At::In(there.parent.as_fd(), name(place).as_encoded_bytes());
        let more = self.comparing.differences(self.shared.ground.writer, entry, &there.stat, at);
        let settings = &self.shared.settings;
        let mode = match settings.executability {
            true => settings.mode_over(entry, Mode::from_raw_mode(there.stat.st_mode & 0o7777)),
            false => self.shared.ground.writer.keepable(entry, settings.mode(entry), &there.stat),
        };
        match self.rules.decide(entry, mode, &there.stat, value_differs, more) {
            Decision::Attributes(changes)
                if !changes.is_empty() && (self.is_shared(entry, there) || fakes && !there.can_store()) =>
            {
                Decision::Contents(changes)
            }
            Decision::Attributes(changes) if self.must_be_separate() && self.is_shared(entry, there) => {
                Decision::Contents(changes)
            }
            decision => decision,
        }
    }

    /// True if a file with the right contents must not share its inode with other names. If the files on a list are
    /// compared by checksum, a file may be on the list because it has lost its other names. If the sources land under
    /// their own names, as with rsync, such names stay linked, because rsync leaves them linked.
    fn must_be_separate(&self) -> bool {
        self.shared.settings.listed && self.rules.sync.checksum && !self.rules.sync.into
    }

    /// True if the existing file has further hard links that the sender's file doesn't have. If the existing file's
    /// metadata were changed, these links would get the new metadata too.
    fn is_shared(&self, entry: &Entry, there: &Occupant) -> bool {
        let is_linked = entry.extra.as_ref().is_some_and(|extra| extra.linked);
        let is_file = matches!(entry.kind, Kind::File { .. });
        is_file && self.shared.settings.keep.hard_links && !is_linked && there.stat.st_nlink > 1
    }

    /// Decides about a further hard link. The existing entry is right only if the first name stays and both names
    /// already belong to the same file.
    fn another_name(&self, entry: &Entry, source: u32, path: &RelPath, there: &Occupant) -> Decision {
        let first = self.judge.first_place(entry, source, path).ok();
        let kept = first.and_then(|first| self.shared.notes.first_names.get(&first));
        match kept == Some((there.stat.st_dev, there.stat.st_ino)) {
            true => Decision::Attributes(Changes::default()),
            false => Decision::New,
        }
    }

    fn contents_differ(
        &mut self,
        digest: Option<Digest>,
        size: u64,
        place: &RelPath,
        there: &Occupant,
    ) -> bool {
        if there.stat.st_size as u64 != size {
            return true;
        }
        let Some(theirs) = digest else { return true };
        let Ok(file) = open_existing(&there.parent, name(place), &there.stat) else { return true };
        !matches!(hash(file.as_fd(), 0, size, &mut self.buffer), Ok(Some(ours)) if ours == theirs)
    }
}
