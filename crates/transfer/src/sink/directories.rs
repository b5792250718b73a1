//! What directories get when everything below them is there: owner, attributes, mode and times.

use linerate_wire::control::ProblemKind;
use linerate_wire::entry::Entry;
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;

use super::{Shared, Worker};
use crate::commit::Touched;
use crate::journal::Past;
use crate::landing::Landing;
use crate::lock::lock;
use crate::metadata::write::{What, set_mode};
use crate::problem::problem;
use crate::root::Directory;
use crate::temporary::timestamps;
use crate::wanted::same_time;

/// What a directory gets at the end.
pub struct Planned {
    /// As it was sent.
    pub entry: Entry,
    /// Its mode; `None` for one that was there and keeps its own.
    pub mode: Option<Mode>,
    /// Its owner, attributes and mode were compared and are right: what lands in it changes its times alone.
    pub is_right: bool,
}

impl Worker<'_> {
    /// Finishes all directories, deepest first: a parent may no longer let its owner in.
    pub fn finish_directories(&mut self, touched: &mut Touched) {
        let opened = lock(&self.shared.opened).drain().collect::<Vec<_>>();
        let planned = lock(&self.shared.directories).drain(..).collect::<Vec<_>>();
        let mut last: BTreeMap<RelPath, (Option<Mode>, Option<Planned>)> = BTreeMap::new();
        for (path, mode) in opened {
            last.insert(path, (Some(mode), None));
        }
        for (path, planned) in planned {
            let place = last.entry(path).or_default();
            *place = (planned.mode.or(place.0), Some(planned));
        }
        for (path, (mode, planned)) in last.into_iter().rev() {
            let finished = self.finish_directory(&path, mode, planned.as_ref(), touched);
            // One that was only opened may have been deleted since.
            let is_gone = planned.is_none() && finished == Err(Errno::NOENT);
            if let Some(error) = finished.err().filter(|_| !is_gone) {
                let message = format!("setting the directory's mode or times failed: {error}");
                (self.shared.problem)(problem(self.shown(&path), ProblemKind::Failed, message));
            }
        }
    }

    fn finish_directory(
        &self,
        path: &RelPath,
        mode: Option<Mode>,
        planned: Option<&Planned>,
        touched: &mut Touched,
    ) -> Result<(), Errno> {
        let held = self.shared.landing.root.directory(path)?;
        let mode = mode.map(|mode| mode | self.inherited(&held));
        if planned.is_some_and(|planned| planned.is_right && self.is_as_sent(&held, mode, &planned.entry)) {
            return Ok(());
        }
        touched.add(&held);
        let Some(Planned { entry, .. }) = planned else {
            return mode.map_or(Ok(()), |mode| set_mode(held.as_fd(), mode));
        };
        // While its owner may still enter it.
        if self.shared.keep.times {
            set_times(&held, entry)?;
        }
        self.tell_losses(path, self.shared.writer.give(held.as_fd(), entry, mode, What::Directory));
        Ok(())
    }

    /// The setgid bit that a new directory has from the one that it is in, where modes aren't kept.
    fn inherited(&self, held: &Directory) -> Mode {
        match rustix::fs::fstat(held) {
            Ok(there) if !self.shared.keep.perms => Mode::from_raw_mode(there.st_mode) & Mode::SGID,
            _ => Mode::empty(),
        }
    }

    fn is_as_sent(&self, held: &Directory, mode: Option<Mode>, entry: &Entry) -> bool {
        let Ok(there) = rustix::fs::fstat(held) else { return false };
        let has_times = !self.shared.keep.times || same_time(entry.mtime, &there);
        has_times && mode.is_none_or(|mode| mode.as_raw_mode() == there.st_mode & 0o7777)
    }
}

/// No later change of its metadata changes these.
fn set_times(directory: &Directory, entry: &Entry) -> Result<(), Errno> {
    rustix::fs::utimensat(directory.as_fd(), ".", &timestamps(entry), AtFlags::empty())
}

impl Shared<'_> {
    /// How a directory is made whose entry is known: never more open than it will be, since what lands in it is for nobody
    /// else's eyes before.
    pub(super) fn first_directory_mode(&self, entry: &Entry) -> Mode {
        self.created() & (self.mode(entry) | Mode::RWXU)
    }

    /// An earlier run has made the directory at `place`, and was ended before it gave it its mode.
    pub(super) fn was_begun(&self, place: &RelPath, entry: &Entry) -> bool {
        if self.keep.perms || !self.past.is_some_and(|past| past.made(place)) {
            return false;
        }
        let Ok(there) = self.landing.root.directory(place).and_then(rustix::fs::fstat) else { return false };
        let mode = Mode::from_raw_mode(there.st_mode & 0o777);
        there.st_uid == rustix::process::geteuid().as_raw()
            && (mode == Mode::RWXU || mode == self.first_directory_mode(entry))
    }

    /// Writes down which directories are made on the way to `path`, where that doesn't give them their last mode.
    pub(super) fn note_made(&self, path: &RelPath) {
        let mut path = path.clone();
        while !self.keep.perms && matches!(self.landing.root.directory(&path), Err(Errno::NOENT)) {
            self.journal.made(&path);
            let Some((parent, _)) = path.split() else { return };
            path = parent;
        }
    }
}

/// The modes of directories that an earlier run opened to their owner, and that still are.
pub fn still_opened(past: Option<&Past>, landing: &Landing) -> HashMap<RelPath, Mode> {
    let opened = past.into_iter().flat_map(Past::opened);
    let is_still = |(place, mode): (&RelPath, u32)| {
        let had = Mode::from_raw_mode(mode & 0o7777);
        let there = landing.root.directory(place).and_then(rustix::fs::fstat).ok()?;
        (there.st_mode & 0o7777 == (had | Mode::RWXU).as_raw_mode()).then(|| (place.clone(), had))
    };
    opened.filter_map(is_still).collect()
}
