//! Finishes directories after everything below them is in place: sets owner, attributes, mode and times.

use linerate_wire::control::ProblemKind;
use linerate_wire::entry::Entry;
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, Mode, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::iter;
use std::os::fd::AsFd;

use super::ReceiveWorker;
use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::receive::commit::Touched;
use crate::receive::journal::Past;
use crate::receive::reception::Reception;
use crate::receive::spool::Spool;
use crate::receive::wanted::same_time;
use crate::tree::metadata::write::{MetadataTarget, set_mode, through_proc};
use crate::tree::root::Directory;
use crate::tree::temporary::timestamps;

/// The changes that a directory gets at the end of the transfer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    /// The directory's original mode, if it existed and its owner was given write access.
    opened: Option<u32>,
    /// The metadata that the directory gets at the end.
    planned: Option<Planned>,
}

/// The metadata that a directory gets at the end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Planned {
    /// The directory's entry as the sender sent it, without its path.
    entry: Entry,
    /// The directory's final mode; `None` for an existing directory that keeps its own mode.
    mode: Option<u32>,
    /// True if the directory's owner and attributes are already right.
    is_right: bool,
}

impl Planned {
    pub fn new(entry: &Entry, mode: Option<Mode>, is_right: bool) -> Self {
        let entry = Entry { path: RelPath::root(), ..entry.clone() };
        Self { entry, mode: mode.map(Mode::as_raw_mode), is_right }
    }
}

impl Kept {
    /// Records the mode that the directory had before its owner was given access; a mode that was recorded
    /// before is kept.
    pub fn opened(self, mode: Mode) -> Self {
        Self { opened: self.opened.or(Some(mode.as_raw_mode())), ..self }
    }

    fn and(self, later: Self) -> Self {
        Self { opened: self.opened.or(later.opened), planned: later.planned.or(self.planned) }
    }
}

impl ReceiveWorker<'_> {
    /// Finishes all directories, deepest first, because the final mode of a parent may deny its owner access to the
    /// directories below.
    ///
    /// # Errors
    /// A message if the notes about the directories can't be read.
    pub fn finish_directories(&mut self, touched: &mut Touched) -> Result<(), String> {
        let empty = Spool::new(self.shared.ground.landing.root.top());
        let noted = std::mem::replace(&mut *lock(&self.shared.notes.directories), empty);
        let unread = |error| format!("reading the list of directories failed: {error}");
        let mut noted = noted.read().map_err(unread)?;
        while let Some((path, notes)) = noted.next().map_err(unread)? {
            let Kept { opened, planned } = notes.into_iter().fold(Kept::default(), Kept::and);
            let mode = planned.as_ref().and_then(|planned| planned.mode).or(opened).map(Mode::from_raw_mode);
            let finished = self.finish_directory(&path, mode, planned.as_ref(), touched);
            // A directory whose owner was only given access may have been deleted since then.
            let is_gone = planned.is_none() && finished == Err(Errno::NOENT);
            if let Some(error) = finished.err().filter(|_| !is_gone) {
                self.report_unfinished(&path, error);
            }
        }
        Ok(())
    }

    /// Sets the modes of directories that this command has created but whose own entries aren't on the list
    /// of files. Until now, only this user had access to them.
    pub fn open_unlisted(&self, touched: &mut Touched) {
        let ground = &self.shared.ground;
        for place in ground.terms.unlisted() {
            let is_made =
                ground.landing.root.was_made_early(place) || ground.past.is_some_and(|past| past.made(place));
            let Ok(held) = ground.landing.root.directory(place) else { continue };
            let mode = rustix::fs::fstat(&held).map_or(0, |stat| stat.st_mode);
            if is_made && mode & 0o777 == Mode::RWXU.as_raw_mode() {
                let inherited = Mode::from_raw_mode(mode) & Mode::SGID;
                let given = set_mode(held.as_fd(), self.shared.settings.created_as(&held) | inherited);
                given.unwrap_or_else(|error| self.report_unfinished(place, error));
                touched.add_metadata(&held);
            }
        }
    }

    fn report_unfinished(&self, path: &RelPath, error: Errno) {
        let message = format!("setting the directory's mode or times failed: {error}");
        (self.shared.reports.problem)(problem(self.shown(path), ProblemKind::Failed, message));
    }

    fn finish_directory(
        &self,
        path: &RelPath,
        mode: Option<Mode>,
        planned: Option<&Planned>,
        touched: &mut Touched,
    ) -> Result<(), Errno> {
        let held = self.shared.ground.landing.root.directory(path)?;
        let mode = mode.map(|mode| mode | self.inherited(&held));
        // If the metadata of a directory is right except for mode bits that can't be set, these bits were
        // reported before.
        let keepable = |planned: &Planned| {
            let there = self.shared.ground.writer.seen(held.as_fd()).ok().filter(|_| planned.is_right)?;
            Some(self.shared.ground.writer.keepable(&planned.entry, mode?, &there))
        };
        let mode = planned.and_then(keepable).or(mode);
        if planned.is_some_and(|planned| planned.is_right && self.is_as_sent(&held, mode, &planned.entry)) {
            return Ok(());
        }
        touched.add(&held);
        let Some(Planned { entry, .. }) = planned else {
            return mode.map_or(Ok(()), |mode| set_mode(held.as_fd(), mode));
        };
        // The times are set while the owner still has access.
        if self.shared.settings.keep.times_of(&entry.kind) {
            set_times(&held, entry)?;
        }
        self.report_losses(
            path,
            self.shared.ground.writer.give(held.as_fd(), entry, mode, MetadataTarget::Directory),
        );
        Ok(())
    }

    /// The setgid bit, if a new directory has inherited it from its parent and modes aren't kept.
    fn inherited(&self, held: &Directory) -> Mode {
        match rustix::fs::fstat(held) {
            Ok(there) if !self.shared.settings.keep.perms => Mode::from_raw_mode(there.st_mode) & Mode::SGID,
            _ => Mode::empty(),
        }
    }

    fn is_as_sent(&self, held: &Directory, mode: Option<Mode>, entry: &Entry) -> bool {
        let Ok(there) = self.shared.ground.writer.seen(held.as_fd()) else { return false };
        let has_times = !self.shared.settings.keep.times_of(&entry.kind) || same_time(entry.mtime, &there);
        has_times && mode.is_none_or(|mode| mode.as_raw_mode() == there.st_mode & 0o7777)
    }
}

/// Sets the directory's times.
fn set_times(directory: &Directory, entry: &Entry) -> Result<(), Errno> {
    let times = timestamps(entry);
    match rustix::fs::utimensat(directory.as_fd(), ".", &times, AtFlags::empty()) {
        // The directory doesn't give its owner access, because an earlier run has already set its final mode.
        Err(Errno::ACCESS) => {
            rustix::fs::utimensat(rustix::fs::CWD, through_proc(directory.as_fd()), &times, AtFlags::empty())
        }
        other => other,
    }
}

impl Reception<'_> {
    /// Records the metadata that a directory gets at the end; false if it was recorded before for the same
    /// source. If several sources land at one place, the last of the recorded sources counts.
    pub(super) fn plan(&self, place: &RelPath, planned: Planned) -> Result<bool, Errno> {
        let mut is_first = true;
        lock(&self.notes.directories).update(place, self.ground.names, |kept| {
            let kept = kept.unwrap_or_default();
            is_first = kept.planned.is_none_or(|before| before.entry.source != planned.entry.source);
            Kept { planned: Some(planned), ..kept }
        })?;
        Ok(is_first)
    }

    /// The mode with which a directory is created if its entry is known. It never gives other users more rights than
    /// the final mode, because they may not see the entries that land in the directory meanwhile. If the directory will
    /// get an owner or an ACL, only this user has access until then.
    pub(super) fn first_directory_mode(&self, entry: &Entry) -> Mode {
        match self.ground.writer.is_private(entry, self.settings.keep.acls) {
            true => Mode::RWXU,
            false => self.settings.created() & (self.settings.mode(entry) | Mode::RWXU),
        }
    }

    /// Restricts access to an existing directory during the transfer: users keep only the rights that they had before
    /// and will also have at the end, so that nobody else sees the entries that land there.
    pub(super) fn close_directory(&self, place: &RelPath, entry: &Entry, is_right: bool) {
        if self.settings.keep.perms
            && let Ok(held) = self.ground.landing.root.directory(place)
        {
            // If changing the mode isn't permitted, setting the final mode isn't either. The error of setting the final
            // mode is reported at the end.
            let _ =
                self.ground.writer.close_directory(held.as_fd(), entry, self.settings.mode(entry), is_right);
        }
    }

    /// True if an earlier run created the directory at `place` but ended before it set the directory's final
    /// mode.
    pub(super) fn was_begun(&self, place: &RelPath, entry: &Entry) -> bool {
        if self.settings.keep.perms || !self.ground.past.is_some_and(|past| past.made(place)) {
            return false;
        }
        let Ok(there) = self.ground.landing.root.directory(place).and_then(rustix::fs::fstat) else {
            return false;
        };
        let mode = Mode::from_raw_mode(there.st_mode & 0o777);
        // The earlier run may have set the owner already, but not the mode.
        let closed = self.settings.mode(entry) & Mode::RWXU;
        let is_first = [Mode::RWXU, closed, self.first_directory_mode(entry)].contains(&mode);
        let fakes = self.ground.writer.fakes();
        is_first
            && (fakes || there.st_uid == rustix::process::geteuid().as_raw() || self.has_owner(entry, &there))
    }

    fn has_owner(&self, entry: &Entry, there: &Stat) -> bool {
        let owner = entry.extra.as_ref().and_then(|extra| extra.owner.as_ref());
        self.settings.keep.owner
            && owner.is_some_and(|owner| self.ground.writer.differs(owner, there) == (false, false))
    }

    /// Records in the journal the directories that will be created on the way to `path`, unless they are
    /// created with their final mode.
    pub(super) fn note_made(&self, path: &RelPath) {
        let is_unlisted = |path: &RelPath| self.ground.terms.unlisted().any(|place| place == path);
        if self.settings.keep.perms && self.ground.terms.unlisted().next().is_none() {
            return;
        }
        let is_missing =
            |path: &RelPath| matches!(self.ground.landing.root.directory(path), Err(Errno::NOENT));
        let way = iter::once(path.clone()).chain(path.ancestors());
        let noted = |path: &RelPath| !self.settings.keep.perms || is_unlisted(path);
        way.take_while(is_missing).filter(noted).for_each(|path| self.ground.journal.made(&path));
    }
}

/// Records the original modes of directories whose owner was given access by an earlier run and still has it, so that
/// this run restores the modes.
pub fn note_still_opened(past: &Past, shared: &Reception<'_>) {
    for (place, mode) in past.opened() {
        let had = Mode::from_raw_mode(mode & 0o7777);
        let there = shared.ground.landing.root.directory(place).and_then(rustix::fs::fstat);
        if there.is_ok_and(|there| there.st_mode & 0o7777 == (had | Mode::RWXU).as_raw_mode()) {
            let note = |kept: Option<Kept>| kept.unwrap_or_default().opened(had);
            // If there is no room for the note, the directory keeps the added access.
            let _ = lock(&shared.notes.directories).update(place, shared.ground.names, note);
        }
    }
}
