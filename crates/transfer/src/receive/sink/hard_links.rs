//! Further hard links. They are created after everything else is in place. They can only lead to files that
//! this transfer has received, so a far end can't get a link to any other file.

use linerate_wire::control::{Digest, Keep, ProblemKind};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{Advice, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::ReceiveWorker;
use super::entries::special;
use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::net::stream::StreamError;
use crate::receive::across::copy_attributes;
use crate::receive::admission::Admitted;
use crate::receive::commit::Touched;
use crate::receive::spool::Spool;
use crate::tree::copying::{CopyError, copy_range};
use crate::tree::digest::ledger::{Known, Reported};
use crate::tree::identity::identity;
use crate::tree::metadata::holes::{Run, next_run};
use crate::tree::metadata::read::{At, Reader, faked_link};
use crate::tree::metadata::write::{MetadataTarget, MetadataWriter, set_mode, through_proc};
use crate::tree::reading::hash;
use crate::tree::root::Directory;
use crate::tree::safe_link::leads_out;
use crate::tree::scan;
use crate::tree::temporary::{Temporary, timestamps};

/// The most files with several names whose first name is remembered. This many first names take 70 to 140 MB of memory.
pub const FIRST_NAMES: usize = 3_000_000;

/// A further hard link to a file that arrived before.
#[derive(Debug, Serialize, Deserialize)]
pub struct FurtherName {
    /// The place of the first name.
    first: RelPath,
    /// The sender's name for this entry: the number of its source, and the path below that source.
    name: (u32, RelPath),
    /// The sender's name for the first entry, in the same form.
    of: (u32, RelPath),
}

impl ReceiveWorker<'_> {
    /// Records a further hard link, which is created at the end.
    pub(super) fn further_name(
        &mut self,
        admitted: &Admitted<'_>,
        source: u32,
        path: &RelPath,
    ) -> Result<(), StreamError> {
        let entry = admitted.entry();
        let first = self.judge.first_place(entry, source, path)?;
        let (name, of) = ((entry.source, entry.path.clone()), (source, path.clone()));
        let noted = lock(&self.shared.notes.further_names).update(
            admitted.place(),
            self.shared.ground.names,
            |before| {
                before.iter().for_each(|_| self.is_replaced());
                FurtherName { first, name, of }
            },
        );
        noted.or_else(|error| self.failed(admitted, error))
    }

    /// Creates all further hard links, and reports each one to `known`.
    ///
    /// # Errors
    /// A message if the notes about the links can't be read.
    pub fn make_further_names(&mut self, touched: &mut Touched, known: Known<'_>) -> Result<(), String> {
        let empty = Spool::new(self.shared.ground.landing.root.top());
        let noted = std::mem::replace(&mut *lock(&self.shared.notes.further_names), empty);
        let unread = |error| format!("reading the list of hard links failed: {error}");
        let mut noted = noted.read().map_err(unread)?;
        while let Some((place, mut names)) = noted.next().map_err(unread)? {
            let Some(name) = names.pop() else { continue };
            names.iter().for_each(|_| self.is_replaced());
            match self.make_further_name(&place, &name, touched) {
                Ok(()) => {
                    self.shared.reports.counters.landed.file(0);
                    if self.shared.settings.digests {
                        known(name.name.0, &name.name.1, Reported::SameAs(name.of.0, name.of.1));
                    }
                }
                Err(message) => {
                    (self.shared.reports.problem)(problem(self.shown(&place), ProblemKind::Failed, message));
                }
            }
        }
        Ok(())
    }

    /// Counts a file of another source that lands at the same place, as if that file had been created and then
    /// replaced.
    fn is_replaced(&self) {
        self.shared.reports.counters.landed.file(0);
    }

    /// True if the entry `held` is, or stands for, a symbolic link that points outside its source when it has the name
    /// `path`.
    fn leads_out_by(&self, path: &RelPath, held: &OwnedFd) -> bool {
        let seen = self.shared.ground.writer.seen(held.as_fd());
        let is_link = seen.is_ok_and(|seen| FileType::from_raw_mode(seen.st_mode) == FileType::Symlink);
        let target = match rustix::fs::readlinkat(held, "", Vec::new()) {
            Err(_) if is_link => faked_link(At::Open(held.as_fd())),
            target => target.map(CString::into_bytes),
        };
        // Reading the target fails for entries that aren't links.
        target.is_ok_and(|target| leads_out(path, &target))
    }

    fn make_further_name(
        &mut self,
        place: &RelPath,
        name: &FurtherName,
        touched: &mut Touched,
    ) -> Result<(), String> {
        let first = self.first_name(&name.first).ok_or_else(|| {
            let shown = self.shown(&name.first);
            format!("is a hard link to {}, which this transfer did not copy", shown.display())
        })?;
        if self.shared.ground.terms.refuses_links_out()
            && self.leads_out_by(self.shared.ground.terms.seen(place, &name.name.1), &first)
        {
            return Err(
                "is a further name of a symbolic link that leads out of the tree from here (--safe-links)"
                    .into(),
            );
        }
        let made = match self.link(place, &first, touched) {
            Err(Errno::XDEV) => self.copy(place, &first, touched),
            other => other,
        };
        made.map_err(|error| match error {
            Errno::ISDIR => "a directory of that name is in the way at the destination".to_owned(),
            error => format!("making the hard link failed: {error}"),
        })
    }

    /// Opens the file under its first name; `None` if this transfer didn't create it.
    fn first_name(&self, place: &RelPath) -> Option<OwnedFd> {
        let landed = self.shared.notes.first_names.get(place)?;
        let held = self.shared.ground.landing.root.open_at(place, OFlags::PATH).ok()?;
        let stat = rustix::fs::fstat(&held).ok()?;
        ((stat.st_dev, stat.st_ino) == landed).then_some(held)
    }

    pub(super) fn link(
        &mut self,
        place: &RelPath,
        first: &OwnedFd,
        touched: &mut Touched,
    ) -> Result<(), Errno> {
        let parent = self.parent_of(place)?;
        let (_, name) = place.split().ok_or(Errno::ISDIR)?;
        let wanted = rustix::fs::fstat(first)?;
        // If the name is already a link to the file, nothing remains to do: renaming one name of a file to
        // another does nothing, and would leave the temporary name.
        if let Ok(there) = parent.stat(name)
            && identity(&there) == identity(&wanted)
        {
            return Ok(());
        }
        let make = || Temporary::another_name(parent.clone(), self.shared.ground.names, first.as_fd());
        let temporary = self.with_access(place, make)?;
        touched.add(&parent);
        self.shared.keep_backup(place, &parent, name)?;
        temporary.rename(name)
    }

    /// Copies the file `first` to `place`, which is on another file system, to which no hard link is possible.
    fn copy(&mut self, place: &RelPath, first: &OwnedFd, touched: &mut Touched) -> Result<(), Errno> {
        let parent = self.parent_of(place)?;
        let (_, name) = place.split().ok_or(Errno::ISDIR)?;
        let entry = self.entry_of(first)?;
        let temporary = self.with_access(place, || self.copied(&entry, &parent, first))?;
        let kind = MetadataTarget::Existing;
        let held = temporary.fd().is_err().then(|| temporary.hold()).transpose()?;
        let fd = held.as_ref().map_or_else(|| temporary.fd(), |held| Ok(held.as_fd()))?;
        let what = if matches!(entry.kind, Kind::Symlink { .. }) { MetadataTarget::Link } else { kind };
        let mode = Mode::from_raw_mode(entry.mode);
        // With `--fake-super`, the copy already has the right owner.
        match self.shared.ground.writer.fakes() {
            // The copied attributes state which entry the file stands for.
            true => {
                copy_attributes(reopened(first.as_fd())?.as_fd(), fd);
                set_mode(fd, mode & Mode::from_raw_mode(0o777))?;
            }
            false => {
                let writer = MetadataWriter::new(self.shared.settings.keep);
                self.report_losses(place, writer.give(fd, &entry, Some(mode), what));
            }
        }
        temporary.set_times(&timestamps(&entry))?;
        temporary.sync()?;
        if self.shared.settings.digests
            && let Kind::File { size } = entry.kind
            && read_back(first.as_fd(), size)? != read_back(fd, size)?
        {
            return Err(Errno::IO);
        }
        touched.add(&parent);
        self.shared.keep_backup(place, &parent, name)?;
        temporary.rename(name)
    }

    /// The entry for `first`, with the properties that a sender would send.
    fn entry_of(&self, first: &OwnedFd) -> Result<Entry, Errno> {
        let stat = rustix::fs::fstat(first)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File { size: stat.st_size as u64 },
            FileType::Symlink => {
                Kind::Symlink { target: rustix::fs::readlinkat(first, "", Vec::new())?.into_bytes() }
            }
            kind @ (FileType::BlockDevice | FileType::CharacterDevice) => Kind::Device {
                block: kind == FileType::BlockDevice,
                major: rustix::fs::major(stat.st_rdev),
                minor: rustix::fs::minor(stat.st_rdev),
            },
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            _ => return Err(Errno::XDEV),
        };
        let mut entry = scan::entry(0, RelPath::root(), kind, &stat);
        let keep = Keep { hard_links: false, numeric_ids: true, ..self.shared.settings.keep };
        // If a property can't be read here, it couldn't be set for the first name either.
        let _ = Reader::new(keep).complete(&mut entry, &stat, At::Open(first.as_fd()), false);
        Ok(entry)
    }

    /// A copy of `first` under a temporary name, to which only this user has access.
    fn copied(&self, entry: &Entry, parent: &Arc<Directory>, first: &OwnedFd) -> Result<Temporary, Errno> {
        let (names, private) = (self.shared.ground.names, Mode::RUSR | Mode::WUSR);
        match &entry.kind {
            Kind::File { size } => {
                let from = reopened(first.as_fd())?;
                let new = Temporary::unnamed(parent.clone(), names, private)?;
                copy_data(from.as_fd(), new.fd()?, *size)?;
                Ok(new)
            }
            Kind::Symlink { target } => Temporary::symlink(parent.clone(), names, target),
            kind => {
                let (kind, device) = special(kind);
                Temporary::special(parent.clone(), names, kind, private, device)
            }
        }
    }
}

/// The digest of a held file, read from storage.
fn read_back(held: BorrowedFd<'_>, size: u64) -> Result<Option<Digest>, Errno> {
    let file = reopened(held)?;
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    hash(file.as_fd(), 0, size, &mut Vec::new())
}

/// Reopens a held file for reading.
fn reopened(held: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::fs::open(through_proc(held), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Copies a file's data, and keeps its holes.
pub(super) fn copy_data(from: BorrowedFd<'_>, to: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
    rustix::fs::ftruncate(to, size)?;
    let mut at = 0;
    while at < size {
        let run = next_run(from, at, size);
        if let Run::Data(length) = run {
            copy_range(from, to, at, at + length).map_err(CopyError::errno)?;
        }
        let (Run::Hole(length) | Run::Data(length)) = run;
        at += length;
    }
    Ok(())
}
