//! Sets the mode, owner, attributes and times of existing entries if they differ from the sender's.

use linerate_wire::control::ProblemKind;
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use std::os::fd::AsFd;

use super::existing::hold_existing;
use super::view::Occupant;
use super::{Comparer, name};
use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::receive::admission::Admitted;
use crate::tree::itemize::Changes;
use crate::tree::metadata::fake::real_mode;
use crate::tree::metadata::write::MetadataTarget;

impl Comparer<'_, '_> {
    /// Repairs the metadata of an entry whose contents are right. A directory is repaired only after
    /// everything below it is in place.
    pub(super) fn repaired(&self, admitted: &Admitted<'_>, there: &Occupant, changes: &Changes) {
        let (entry, place) = (admitted.entry(), admitted.place());
        if entry.kind == Kind::Directory {
            let more = changes.owner || changes.group || changes.acl || changes.xattrs;
            let more = more || self.is_to_be_stored(there);
            // The directory can't have been recorded before, because it is offered only once.
            if let Err(error) = self.shared.keep_directory(admitted, false, !more) {
                self.report(place, format!("recording the directory's metadata failed: {error}"));
            }
            return;
        }
        let is_right = changes.is_empty() && !self.is_to_be_stored(there);
        if is_right || matches!(entry.kind, Kind::HardLink { .. }) {
            return;
        }
        if let Err(error) = self.repair(entry, place, there, changes) {
            self.report(place, format!("setting the mode or times of the existing entry failed: {error}"));
        }
    }

    /// True if the entry's properties must be stored in attributes (`--fake-super`), even if they don't differ.
    fn is_to_be_stored(&self, there: &Occupant) -> bool {
        self.shared.ground.writer.fakes()
            && there.can_store()
            && (there.says_nothing || real_mode(there.stat.st_mode).as_raw_mode() != there.real & 0o7777)
    }

    fn repair(
        &self,
        entry: &Entry,
        place: &RelPath,
        there: &Occupant,
        changes: &Changes,
    ) -> Result<(), Errno> {
        lock(&self.shared.notes.changed).add_metadata(&there.parent);
        let more = changes.owner || changes.group || changes.acl || changes.xattrs;
        if changes.permissions || more || self.is_to_be_stored(there) {
            let held = hold_existing(&there.parent, name(place), &there.stat)?;
            let is_link = matches!(entry.kind, Kind::Symlink { .. });
            let what = if is_link { MetadataTarget::Link } else { MetadataTarget::Existing };
            let mode = self.shared.settings.keep.perms.then(|| self.shared.settings.mode(entry));
            // A file that gets a new owner may lose set-id bits of its mode.
            let had = Mode::from_raw_mode(there.stat.st_mode & 0o7777);
            let mode = mode.or(Some(self.shared.settings.mode_over(entry, had)));
            for loss in self.shared.ground.writer.give(held.as_fd(), entry, mode, what) {
                let shown = self.shared.ground.landing.root.shown(place);
                (self.shared.reports.problem)(problem(shown, ProblemKind::NotKept, loss.message()));
            }
        }
        if (changes.modified.is_some() || changes.accessed)
            && let Some(times) = self.shared.settings.times(entry)
        {
            rustix::fs::utimensat(&there.parent, name(place), &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }
}
