//! Finds the older version with which a large file is compared: the existing file of the same name, a partial
//! file that an earlier run has kept, or a file of a similar name.

use linerate_wire::control::{BlockSearch, MAX_BLOCKS, Message, ProblemKind, Sync, Want};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::{RelPath, printable};
use rustix::fs::{FileType, Stat};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use super::existing::open_existing;
use super::view::Occupant;
use super::{Comparer, blocks, delta, name};
use crate::base::problem::problem;

/// An older version of a file, opened for reading.
struct OlderVersion {
    file: OwnedFd,
    stat: Stat,
    /// True if the older version isn't at the place of the new version.
    elsewhere: bool,
}

impl Comparer<'_, '_> {
    /// The answer for a file that is compared with an older version: a kept partial file, the existing file `there` or,
    /// if neither exists, a file of a similar name. `None` if requesting the whole file is better.
    pub(super) fn pieces(
        &mut self,
        sync: &Sync,
        entry: &Entry,
        place: &RelPath,
        there: Option<&Occupant>,
    ) -> Option<Want> {
        let Kind::File { size } = entry.kind else { return None };
        let older = match (self.kept_part(place), there) {
            (Some(part), _) => part,
            (None, Some(there)) => standing(place, there)?,
            (None, None) => self.similar_file(entry, place)?,
        };
        self.blocks(sync, size, place, &older).or_else(|| self.differing(size, place, &older))
    }

    /// A file of a similar name, if the user requests that (`--fuzzy`). If the new file is sent whole anyway, no such
    /// file is searched for, because the search compares many names.
    fn similar_file(&mut self, entry: &Entry, place: &RelPath) -> Option<OlderVersion> {
        let Kind::File { size } = entry.kind else { return None };
        let pays = self.bounds.pays(size, u64::MAX);
        if self.shared.settings.fuzzy == 0 || self.shared.settings.inplace || !pays {
            return None;
        }
        let (near, root) = (&self.shared.ground.near, &self.shared.ground.landing.root);
        let others = if self.shared.settings.fuzzy > 1 { &near.others[..] } else { &[] };
        let roots: Vec<_> = [root].into_iter().chain(others).collect();
        let (above, parent, found) = self.similar.find(&roots, entry, place)?;
        let basis = above.join(&found);
        let words =
            [b"fuzzy basis selected for ", place.as_bytes(), b": ", basis.as_os_str().as_bytes()].concat();
        let shown = OsStr::from_bytes(place.as_bytes());
        (self.shared.reports.problem)(problem(shown, ProblemKind::Remark, printable(&words)));
        let stat = parent
            .stat(&found)
            .ok()
            .filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)?;
        Some(OlderVersion { file: open_existing(&parent, &found, &stat).ok()?, stat, elsewhere: true })
    }

    fn kept_part(&self, place: &RelPath) -> Option<OlderVersion> {
        let partial = self.shared.ground.near.partial.as_ref()?;
        let (above, name) = place.split()?;
        let parent = self.shared.ground.landing.root.directory(&above).ok()?;
        let (holder, stat) = partial.look(parent.as_fd(), name)?;
        Some(OlderVersion { file: open_existing(holder, name, &stat).ok()?, stat, elsewhere: true })
    }

    /// Removes a kept partial file, if the existing file is already complete.
    pub(super) fn clear_partial(&self, entry: &Entry, place: &RelPath, there: &Occupant) {
        if let (Some(partial), Kind::File { .. }) = (&self.shared.ground.near.partial, &entry.kind) {
            partial.clear(there.parent.as_fd(), name(place));
        }
    }

    /// The answer for a large changed file if pieces may be at other offsets: it contains the sums of the older
    /// version's blocks. `None` for a file that is changed in place, because moved blocks may be overwritten before
    /// they are copied.
    fn blocks(&self, sync: &Sync, size: u64, place: &RelPath, version: &OlderVersion) -> Option<Want> {
        if sync.search == BlockSearch::SamePlaces || sync.inplace {
            return None;
        }
        let older = u64::try_from(version.stat.st_size).ok()?;
        let (block, count) = blocks::blocks_of(self.bounds, size, older, self.large)?;
        let sums = blocks::sums(&version.file, block, count).ok()?;
        let count = u32::try_from(sums.len()).ok().filter(|count| *count > 0)?;
        if !self.holds(place, version)
            || !self.shared.notes.older.note_blocks(place, version.stat, block, sums.len())
        {
            return None;
        }
        let mut sent = sums.chunks(MAX_BLOCKS).map(|some| self.channel.send(&Message::Blocks(some.to_vec())));
        sent.all(|sent| sent.is_ok()).then_some(Want::Blocks { block, count })
    }

    /// The answer for a large changed file if pieces are only searched for at the same offsets: it contains the digests
    /// of the older version's chunks. `None` if requesting the whole file is better, or the older version can't be
    /// read.
    fn differing(&self, size: u64, place: &RelPath, version: &OlderVersion) -> Option<Want> {
        let older = u64::try_from(version.stat.st_size).ok()?;
        let chunk = delta::chunk_of(self.bounds, size, older, self.large)?;
        let digests = delta::digests(&version.file, chunk, size.min(older)).ok()?;
        let is_noted = self.holds(place, version)
            && self.shared.notes.older.note(place, version.stat, chunk, digests.len());
        is_noted.then_some(Want::Differing { chunk, digests })
    }

    /// Keeps an older version open if it isn't at the place of the new version; false if too many are open.
    fn holds(&self, place: &RelPath, version: &OlderVersion) -> bool {
        !version.elsewhere
            || version.file.try_clone().is_ok_and(|file| self.shared.notes.older.hold(place, file))
    }
}

fn standing(place: &RelPath, there: &Occupant) -> Option<OlderVersion> {
    let file = open_existing(&there.parent, name(place), &there.stat).ok()?;
    Some(OlderVersion { file, stat: there.stat, elsewhere: false })
}
