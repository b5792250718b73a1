//! The receiver's file operations: a worker turns the frames of one stream into files.

mod assemblies;
mod assembly;
mod basis;
mod covered;
mod directories;
mod divided_pieces;
mod entries;
mod from_elsewhere;
mod hard_links;
mod moved;
mod part;
mod parts;
mod placing;
mod progress;
mod range;
mod resumed;
mod room;
mod split;
mod storage;

use linerate_wire::control::{Digest, ProblemKind};
use linerate_wire::entry::{Entry, Kind, Origin};
use linerate_wire::frame::{FrameKind, Header};
use linerate_wire::path::RelPath;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::net::clock::{Clock, Stage};
use crate::net::stream::{FileRange, FrameHandler, StreamError};
use crate::receive::admission::{Admitted, Judge};
use crate::receive::commit::{Finished, ToCommit};
use crate::receive::journal::{mark, mark_of};
use crate::receive::proof::Proof;
use crate::receive::reception::Reception;
use crate::receive::wanted::is_left_alone;
use crate::tree::metadata::read::At;
use crate::tree::metadata::write::{Loss, MetadataTarget, set_mode};
use crate::tree::own_files;
use crate::tree::reported::reported_path;
use crate::tree::root::Directory;
use crate::tree::temporary::Temporary;
use directories::Planned;
use part::Part;
use room::RoomUser;
use storage::{destination_failed, is_of_storage};

pub use assemblies::Assemblies;
pub use basis::Older;
pub use directories::{Kept, note_still_opened};
pub use hard_links::{FIRST_NAMES, FurtherName};
pub use parts::BLOCK;
pub use resumed::Resumed;
pub use room::SharedRoom;
pub use storage::OF_A_MOUNT;

impl Reception<'_> {
    /// Records a directory whose metadata is set after everything below it is in place. `is_right` is true if the
    /// metadata is already right, perhaps except for mode and times. Returns false if the directory was recorded
    /// before.
    ///
    /// # Errors
    /// If there is no room to record the directory.
    pub fn keep_directory(
        &self,
        admitted: &Admitted<'_>,
        is_new: bool,
        is_right: bool,
    ) -> Result<bool, Errno> {
        let (place, entry) = (admitted.place(), admitted.entry());
        // As with rsync, the first source gives the directory its metadata. With a list of files, each source that
        // sends the directory's own entry counts, because most sources send only entries below the directory.
        if self.settings.into && !self.settings.listed && self.ground.landing.has_earlier(entry) {
            return Ok(true);
        }
        let was_begun = !is_new && self.was_begun(place, entry);
        let mode = (self.settings.keep.perms || is_new || was_begun).then(|| self.new_mode(place, entry));
        let keeps_more = self.settings.keep.times_of(&entry.kind)
            || self.settings.keep.acls
            || self.settings.keep.xattrs
            || self.ground.writer.fakes()
            || entry.extra.is_some();
        if self.settings.keep.perms
            || keeps_more
            || was_begun
            || mode.is_some_and(|mode| mode != self.settings.created())
        {
            if !is_new {
                self.close_directory(place, entry, is_right);
            }
            return self.plan(place, Planned::new(entry, mode, is_right));
        }
        Ok(true)
    }

    /// The mode of a directory that this command has created.
    fn new_mode(&self, place: &RelPath, entry: &Entry) -> Mode {
        let held =
            (!self.settings.keep.perms).then(|| self.ground.landing.root.directory(place).ok()).flatten();
        held.map_or_else(|| self.settings.mode(entry), |held| self.settings.mode_in(entry, &held))
    }

    /// Gives the owner of the directory at `path` full access until everything is in place.
    ///
    /// # Errors
    /// The errors of open(2) and chmod(2); an error if there is no room to record the original mode.
    pub fn open_up(&self, path: &RelPath) -> Result<(), Errno> {
        let held = self.ground.landing.root.directory(path)?;
        // The lock makes sure that no other thread records the changed mode as the original one.
        let mut directories = lock(&self.notes.directories);
        let now = Mode::from_raw_mode(rustix::fs::fstat(held.as_fd())?.st_mode & 0o7777);
        if !now.contains(Mode::RWXU) {
            let note = || self.ground.journal.opened(path, now.as_raw_mode());
            if !path.is_root() {
                note();
            }
            set_mode(held.as_fd(), now | Mode::RWXU)?;
            // For the top directory, nothing can be recorded before the mode is changed.
            if path.is_root() {
                note();
            }
            directories.update(path, self.ground.names, |kept| kept.unwrap_or_default().opened(now))?;
        }
        Ok(())
    }
}

/// The number of small files that are passed to the committer with one message.
const TOGETHER: usize = 64;

/// The worker that receives one stream.
pub struct ReceiveWorker<'a> {
    shared: &'a Reception<'a>,
    clock: Clock,
    judge: Judge<'a>,
    kind: FrameKind,
    payload: Vec<u8>,
    part: Option<Part>,
    /// The current batch, as a user of the free space at the destination.
    under_way: Option<RoomUser>,
    parent: Option<(RelPath, Arc<Directory>)>,
    /// Complete files that haven't been passed to the committer yet.
    whole: Vec<Finished>,
}

impl<'a> ReceiveWorker<'a> {
    /// A worker of the receiver.
    pub fn new(shared: &'a Reception<'a>) -> Self {
        Self {
            shared,
            clock: Clock::start(),
            judge: Judge::new(shared.ground.terms),
            kind: FrameKind::End,
            payload: Vec::new(),
            part: None,
            under_way: None,
            parent: None,
            whole: Vec::new(),
        }
    }

    /// Adds the worker's remaining counts to the shared counters.
    pub fn finish(self) {
        self.clock.finish(self.shared.reports.counters, None);
    }

    /// Runs `work` in the directory that holds `place`. If the directory's mode doesn't let its owner write,
    /// the mode is changed until everything is in place.
    fn with_access<T>(&self, place: &RelPath, work: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match (work(), place.split()) {
            (Err(Errno::ACCESS), Some((parent, _))) if self.shared.open_up(&parent).is_ok() => work(),
            (result, _) => result,
        }
    }

    fn parent_of(&mut self, place: &RelPath) -> Result<Arc<Directory>, Errno> {
        let parent = place.parent().ok_or(Errno::ISDIR)?;
        if let Some((path, held)) = &self.parent
            && *path == parent
        {
            return Ok(held.clone());
        }
        self.shared.note_made(&parent);
        let root = &self.shared.ground.landing.root;
        let held = self.with_access(&parent, || root.directory_or_make(&parent, root.mode_above))?;
        self.parent = Some((parent, held.clone()));
        Ok(held)
    }

    fn mode(&self, entry: &Entry) -> Mode {
        self.shared.settings.mode(entry)
    }

    /// True if the existing file stays unchanged, because the user's options require that, or because this
    /// command itself writes the file. The reason is reported.
    fn leaves_alone(&self, admitted: &Admitted<'_>) -> bool {
        if let Some(option) = self.shared.own_file(admitted.place()) {
            let (shown, message) = (self.shown(admitted.place()), own_files::refusal(option));
            (self.shared.reports.problem)(problem(shown, ProblemKind::Failed, message));
            return true;
        }
        let (Some(sync), Some((parent, name))) = (&self.shared.settings.leaves, admitted.place().split())
        else {
            return false;
        };
        let there = self.shared.ground.landing.root.directory(&parent).and_then(|parent| parent.stat(name));
        let is_left = there.is_ok_and(|there| is_left_alone(sync, admitted.entry(), &there));
        if is_left {
            let message =
                "is skipped, because it exists at the destination; the far end sent it nevertheless";
            (self.shared.reports.problem)(problem(
                self.shown(admitted.place()),
                ProblemKind::Skipped,
                message,
            ));
        }
        is_left
    }

    /// The mode with which a file is created in `parent`. [`ReceiveWorker::hand_on`] sets the final mode.
    fn first_mode(&self, entry: &Entry, parent: &Directory) -> Mode {
        let (mode, keep) = (self.shared.settings.mode_in(entry, parent), &self.shared.settings.keep);
        // The file may have an ACL, which it inherits from its directory or, if it is an existing file, had before.
        let may_have_acl =
            keep.perms && parent.has_default_acl() || keep.acls && self.shared.settings.inplace;
        self.shared.ground.writer.first_mode(entry, mode, may_have_acl)
    }

    /// Sets the metadata of a complete file, and queues the file for the committer. `origin` is the identity of the
    /// source file, if the sender has stated it.
    fn hand_on(
        &mut self,
        temporary: Temporary,
        admitted: &Admitted<'_>,
        origin: Option<Origin>,
        digest: Option<Digest>,
    ) -> Result<(), Errno> {
        let (place, entry) = (admitted.place(), admitted.entry());
        let temporary = self.near_its_place(temporary, entry)?;
        temporary.fd().iter().for_each(|file| self.shared.settings.dig(*file, entry));
        let is_kept = self.give(&temporary, admitted)?;
        if let Some(times) = self.shared.settings.times(entry) {
            temporary.set_times(&times)?;
        }
        let name = place.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
        let shown = self.shown(place);
        let kind = entry.kind.clone();
        // If some metadata of an entry was lost, the entry isn't recorded, so the next run sends it and
        // reports the loss again.
        let is_done = is_kept && self.shared.ground.journal.takes_done();
        let mark = || origin.map_or_else(|| mark(entry), |origin| mark_of(entry, origin));
        let journalled = is_done.then(|| (place.clone(), mark()));
        let proof = digest.map(|digest| Proof::of(entry, digest));
        let place = place.clone();
        let is_reported = self.shared.reports.moved.is_some() && matches!(kind, Kind::File { .. });
        let into = self.shared.settings.into;
        let reported = is_reported.then(|| reported_path(self.shared.ground.sources, entry, into));
        self.whole.push(Finished { temporary, place, name, kind, shown, proof, reported, journalled });
        if self.whole.len() >= TOGETHER {
            self.hand_over();
        }
        Ok(())
    }

    /// Passes the complete files to the committer.
    pub fn hand_over(&mut self) {
        let whole = std::mem::take(&mut self.whole);
        if !whole.is_empty() {
            // If the committer has ended, the transfer has failed. The dropped message then removes the files.
            let _ = self.shared.reports.finished.send(ToCommit::Whole(whole));
        }
    }

    /// Sets the owner, attributes and mode of a complete file, unless they are set already. If some of these can't be
    /// kept, reports them and returns false.
    fn give(&self, temporary: &Temporary, admitted: &Admitted<'_>) -> Result<bool, Errno> {
        let (place, entry) = (admitted.place(), admitted.entry());
        let made = self.first_mode(entry, temporary.parent());
        let mode = self
            .replaced_mode(place, entry, temporary.parent())
            .unwrap_or_else(|| self.shared.settings.mode_in(entry, temporary.parent()));
        let inherits = self.shared.settings.keep.perms && temporary.parent().has_default_acl();
        // A file that is changed in place may have attributes and an ACL that the sender's file doesn't have.
        let in_place = temporary.is_in_place();
        let may_have_more = in_place && (self.shared.settings.keep.xattrs || self.shared.settings.keep.acls);
        let fakes = self.shared.ground.writer.fakes();
        if entry.extra.is_none() && mode == made && !inherits && !may_have_more && !fakes {
            return Ok(true);
        }
        let is_file = matches!(entry.kind, Kind::File { .. }) || fakes;
        let held = match (!is_file).then(|| temporary.hold()).transpose() {
            Ok(held) => held,
            Err(error) => {
                self.report_losses(place, vec![Loss::of_held(error)]);
                return Ok(false);
            }
        };
        let fd = held.as_ref().map_or_else(|| temporary.fd(), |held| Ok(held.as_fd()))?;
        if entry.extra.as_ref().is_some_and(|extra| extra.linked) {
            let stat = rustix::fs::fstat(fd)?;
            self.shared.notes.first_names.insert(place, (stat.st_dev, stat.st_ino));
        }
        let what = match entry.kind {
            Kind::Symlink { .. } if !fakes => MetadataTarget::Link,
            _ if in_place => MetadataTarget::Existing,
            _ => MetadataTarget::New { made, inherits },
        };
        let losses = self.shared.ground.writer.give(fd, entry, Some(mode), what);
        let is_kept = losses.is_empty();
        self.report_losses(place, losses);
        Ok(is_kept)
    }

    /// The mode for a new file that takes its mode from the file that it replaces, as with rsync; otherwise `None`.
    fn replaced_mode(&self, place: &RelPath, entry: &Entry, parent: &Directory) -> Option<Mode> {
        let is_file = matches!(entry.kind, Kind::File { .. });
        let (_, name) = place.split().filter(|_| is_file && self.shared.settings.leaves_modes)?;
        let at = At::In(parent.as_fd(), name.as_encoded_bytes());
        let there = self.shared.ground.writer.seen_at(at, parent.stat(name).ok()?);
        let is_there = FileType::from_raw_mode(there.st_mode) == FileType::RegularFile;
        let mode = Mode::from_raw_mode(there.st_mode & 0o7777);
        is_there.then(|| self.shared.settings.mode_over(entry, mode))
    }

    /// The mode of a file while it is changed in place: its own mode, if the file should keep it.
    fn mode_in_place(&self, place: &RelPath, entry: &Entry, parent: &Directory) -> Mode {
        if self.shared.ground.writer.fakes() {
            let there = place.name().and_then(|name| parent.stat(name).ok());
            let mode = Mode::from_raw_mode(there.map_or(0, |there| there.st_mode & 0o777));
            return mode | self.first_mode(entry, parent);
        }
        let kept = self.replaced_mode(place, entry, parent);
        kept.unwrap_or_else(|| self.first_mode(entry, parent))
    }

    fn report_losses(&self, place: &RelPath, losses: Vec<Loss>) {
        for loss in losses {
            (self.shared.reports.problem)(problem(self.shown(place), ProblemKind::NotKept, loss.message()));
        }
    }

    /// Creates a file that only this worker writes.
    fn new_file(&self, place: &RelPath, parent: Arc<Directory>, entry: &Entry) -> Result<Temporary, Errno> {
        let mode = self.first_mode(entry, &parent);
        if let Some(existing) = self.existing_file(place, &parent, entry)? {
            rustix::fs::ftruncate(existing.fd()?, 0)?;
            return Ok(existing);
        }
        let new = self.make_file(place, &parent, mode, false)?;
        self.shared.settings.take_room(new.fd()?, entry);
        Ok(new)
    }

    /// The existing file, if it should and can be changed in place; otherwise `None`. If backups are requested, this
    /// function makes the backup first.
    fn existing_file(
        &self,
        place: &RelPath,
        parent: &Arc<Directory>,
        entry: &Entry,
    ) -> Result<Option<Temporary>, Errno> {
        let Some((_, name)) = place.split().filter(|_| self.shared.settings.inplace) else { return Ok(None) };
        self.shared.copy_backup(place, parent, name)?;
        let mode = self.mode_in_place(place, entry, parent);
        Ok(Temporary::existing(parent.clone(), self.shared.ground.names, name, mode).ok())
    }

    fn failed(&self, admitted: &Admitted<'_>, error: Errno) -> Result<(), StreamError> {
        let (shown, entry) = (self.shown(admitted.place()), admitted.entry());
        if self.shared.ends_everything(admitted.place(), error) {
            return Err(destination_failed(&shown, error));
        }
        let doing = match entry.kind {
            Kind::Directory => "making the directory",
            Kind::File { .. } => "writing the file",
            Kind::Symlink { .. } | Kind::HardLink { .. } => "making the link",
            Kind::Device { .. } => "making the device node",
            Kind::Fifo | Kind::Socket => "making the special file",
        };
        let why = match error {
            Errno::LOOP => "a symbolic link is in the way at the destination".to_owned(),
            Errno::NOTDIR => "an entry that isn't a directory is in the way at the destination".to_owned(),
            error if is_of_storage(error) => format!("{error}; {OF_A_MOUNT}"),
            error => error.to_string(),
        };
        (self.shared.reports.problem)(problem(shown, ProblemKind::Failed, format!("{doing} failed: {why}")));
        Ok(())
    }

    fn shown(&self, place: &RelPath) -> PathBuf {
        self.shared.ground.landing.root.shown(place)
    }
}

impl FrameHandler for ReceiveWorker<'_> {
    fn start(&mut self, header: Header) -> Result<(), StreamError> {
        self.kind = header.kind;
        if matches!(
            header.kind,
            FrameKind::Batch
                | FrameKind::Chunk
                | FrameKind::Hole
                | FrameKind::Digest
                | FrameKind::Split
                | FrameKind::Copy
        ) {
            self.payload.clear();
            self.payload.reserve(header.length as usize);
        }
        Ok(())
    }

    fn payload(&mut self, pieces: &mut [IoSlice<'_>]) -> Result<(), StreamError> {
        if self.kind == FrameKind::Data {
            let written = self.data(pieces);
            return self.or_full(written);
        }
        pieces.iter().for_each(|piece| self.payload.extend_from_slice(piece));
        Ok(())
    }

    fn done(&mut self, kind: FrameKind) -> Result<(), StreamError> {
        self.clock.lap(Stage::Cipher);
        if self.shared.settings.dry_run && kind != FrameKind::End {
            return Err(StreamError::Protocol("data in a dry run"));
        }
        let handled = match kind {
            FrameKind::Batch => self.batch(),
            FrameKind::Chunk => self.chunk(),
            FrameKind::Data => self.came(),
            FrameKind::Digest if self.awaits_digest() => self.digest(),
            FrameKind::GiveUp => self.give_up(),
            FrameKind::End if self.part.is_some() => {
                Err(StreamError::Protocol("the end of the stream inside a chunk"))
            }
            FrameKind::End => Ok(()),
            FrameKind::Same => self.same(),
            FrameKind::Hole => self.hole(),
            FrameKind::Split => self.split(),
            FrameKind::Copy => self.moved(),
            FrameKind::Digest | FrameKind::Packed | FrameKind::Sealed => {
                Err(StreamError::Protocol("an unexpected frame"))
            }
        };
        self.or_full(handled)
    }

    fn whole(&mut self, kind: FrameKind, mut payload: Vec<u8>) -> Result<(), StreamError> {
        self.kind = kind;
        match kind {
            FrameKind::Data => self.payload(&mut [IoSlice::new(&payload)])?,
            _ => std::mem::swap(&mut self.payload, &mut payload),
        }
        self.done(kind)
    }

    fn range(&mut self, range: &FileRange) -> Result<Result<u64, Errno>, StreamError> {
        let brought = self.bring_range(range);
        self.or_full(brought)
    }

    fn expects(&self) -> u64 {
        self.part.as_ref().map_or(0, Part::expects)
    }

    fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }
}
