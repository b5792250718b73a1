//! The receiver's side of the files: a worker that turns one stream's frames into files.

mod basis;
mod covered;
mod entries;
mod parts;

use crossbeam_channel::Sender;
use linerate_wire::control::{Keep, Problem, ProblemKind};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::frame::{FrameKind, Header};
use linerate_wire::path::RelPath;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::clock::{Clock, Counters, Stage};
use crate::commit::{Finished, ToCommit};
use crate::landing::Landing;
use crate::problem::problem;
use crate::root::Directory;
use crate::source::lock;
use crate::stream::{FrameHandler, StreamError};
use crate::temporary::{Names, Temporary};
use parts::Part;

pub use basis::Older;
pub use parts::Assembly;

/// What all workers of the receiver share.
pub struct Shared<'a> {
    /// Where things land.
    pub landing: &'a Landing,
    /// For each source whether its own entry has come.
    pub arrived: Vec<AtomicBool>,
    /// Temporary names.
    pub names: &'a Names,
    /// Large files that several streams bring.
    pub assemblies: Mutex<HashMap<u64, Arc<Assembly>>>,
    /// Older versions of large files, of which chunks may be taken.
    pub older: Older,
    /// What is there is written into, instead of being replaced.
    pub inplace: bool,
    /// Directories whose mode or times are set when everything below them is there.
    pub directories: Mutex<Vec<(RelPath, Entry)>>,
    /// Modes of directories that were there and didn't let their owner write, until everything is there.
    pub opened: Mutex<HashMap<RelPath, Mode>>,
    /// Whole files go to the committer.
    pub finished: Sender<ToCommit>,
    /// This end's counters.
    pub counters: &'a Counters,
    /// Where problems are told.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// Tells the sender that nothing more of a file is wanted.
    pub skip: &'a (dyn Fn(u64) + Sync),
    /// What is kept of each entry.
    pub keep: Keep,
    /// The process's mask for new files.
    pub umask: Mode,
}

impl Shared<'_> {
    /// Setuid, setgid and sticky bits stay behind: what they mean belongs to another host's users.
    pub fn mode(&self, entry: &Entry) -> Mode {
        let mode = Mode::from_raw_mode(entry.mode & 0o777);
        if self.keep.perms { mode } else { mode & !self.umask }
    }

    /// How a directory is made: open to this program, whatever mode it gets in the end.
    fn created(&self) -> Mode {
        Mode::RWXU | (Mode::from_raw_mode(0o777) & !self.umask)
    }

    /// Notes a directory whose mode and times are set when everything below it is there.
    pub fn keep_directory(&self, place: &RelPath, entry: &Entry, is_new: bool) {
        let mode = self.mode(entry);
        if self.keep.perms || is_new && mode != self.created() {
            lock(&self.directories)
                .push((place.clone(), Entry { mode: mode.as_raw_mode(), ..entry.clone() }));
        }
    }
}

/// How many small files are handed to the committer at once.
const TOGETHER: usize = 64;

/// One stream's worker.
pub struct Worker<'a> {
    shared: &'a Shared<'a>,
    clock: Clock,
    kind: FrameKind,
    payload: Vec<u8>,
    part: Option<Part>,
    parent: Option<(RelPath, Arc<Directory>)>,
    /// What is whole and not yet handed to the committer.
    whole: Vec<Finished>,
    /// Frames that came.
    pub frames: u64,
}

/// Errors after which nothing further can be written.
fn is_fatal(error: Errno) -> bool {
    matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::ROFS)
}

impl<'a> Worker<'a> {
    /// A worker of the receiver.
    pub fn new(shared: &'a Shared<'a>) -> Self {
        Self {
            shared,
            clock: Clock::start(),
            kind: FrameKind::End,
            payload: Vec::new(),
            part: None,
            parent: None,
            whole: Vec::new(),
            frames: 0,
        }
    }

    /// Counts what is left to count.
    pub fn finish(self) {
        self.clock.finish(self.shared.counters, None);
    }

    fn place(&self, entry: &Entry) -> Result<RelPath, StreamError> {
        let place = self.shared.landing.place(entry);
        let place = place.ok_or(StreamError::Protocol("an entry that doesn't fit what was announced"))?;
        if entry.path.is_root() {
            self.shared.arrived[entry.source as usize].store(true, Ordering::Relaxed);
        }
        Ok(place)
    }

    /// Does `work` on something in the directory that holds `place`; where that directory doesn't let its owner
    /// write, it is made to, until everything is there.
    fn with_access<T>(&self, place: &RelPath, work: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match (work(), place.split()) {
            (Err(Errno::ACCESS), Some((parent, _))) if self.open_up(&parent).is_ok() => work(),
            (result, _) => result,
        }
    }

    fn open_up(&self, path: &RelPath) -> Result<(), Errno> {
        let held = self.shared.landing.root.directory(path)?;
        let mut opened = lock(&self.shared.opened);
        let now = Mode::from_raw_mode(rustix::fs::fstat(held.as_fd())?.st_mode & 0o7777);
        if !now.contains(Mode::RWXU) {
            chmod(&held, now | Mode::RWXU)?;
            opened.insert(path.clone(), now);
        }
        Ok(())
    }

    fn parent_of(&mut self, place: &RelPath) -> Result<Arc<Directory>, Errno> {
        let (parent, _) = place.split().ok_or(Errno::ISDIR)?;
        if let Some((path, held)) = &self.parent
            && *path == parent
        {
            return Ok(held.clone());
        }
        // How open it may be is known when its own entry comes.
        let private = Mode::RWXU;
        let held =
            self.with_access(&parent, || self.shared.landing.root.directory_or_make(&parent, private))?;
        self.parent = Some((parent, held.clone()));
        Ok(held)
    }

    fn mode(&self, entry: &Entry) -> Mode {
        self.shared.mode(entry)
    }

    fn created(&self) -> Mode {
        self.shared.created()
    }

    /// Notes what is whole for the committer, with its times set where they are kept.
    fn hand_on(&mut self, mut temporary: Temporary, place: &RelPath, entry: &Entry) -> Result<(), Errno> {
        if self.shared.keep.times {
            temporary.set_times(entry)?;
        }
        temporary.close(self.mode(entry));
        let name = place.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
        let shown = self.shown(place);
        self.whole.push(Finished { temporary, name, kind: entry.kind.clone(), shown });
        if self.whole.len() >= TOGETHER {
            self.hand_over();
        }
        Ok(())
    }

    /// Hands what is whole to the committer.
    fn hand_over(&mut self) {
        let whole = std::mem::take(&mut self.whole);
        if !whole.is_empty() {
            // Without a committer the transfer has failed, and dropping the files removes them.
            let _ = self.shared.finished.send(ToCommit::Whole(whole));
        }
    }

    /// A file that this worker alone makes whole.
    fn new_file(&self, place: &RelPath, parent: Arc<Directory>, mode: Mode) -> Result<Temporary, Errno> {
        if let Some(existing) = self.existing_file(place, &parent, mode) {
            rustix::fs::ftruncate(existing.fd()?, 0)?;
            return Ok(existing);
        }
        self.with_access(place, || Temporary::unnamed(parent.clone(), self.shared.names, mode))
    }

    /// The file that is there, where it is to be written into and can be.
    fn existing_file(&self, place: &RelPath, parent: &Arc<Directory>, mode: Mode) -> Option<Temporary> {
        let (_, name) = place.split().filter(|_| self.shared.inplace)?;
        Temporary::existing(parent.clone(), name, mode).ok()
    }

    fn failed(&self, place: &RelPath, entry: &Entry, error: Errno) -> Result<(), StreamError> {
        let shown = self.shown(place);
        if is_fatal(error) {
            return Err(StreamError::Destination(format!("writing {} failed: {error}", shown.display())));
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
            Errno::NOTDIR => "something that is no directory is in the way at the destination".to_owned(),
            error => error.to_string(),
        };
        (self.shared.problem)(problem(shown, ProblemKind::Failed, format!("{doing} failed: {why}")));
        Ok(())
    }

    fn shown(&self, place: &RelPath) -> PathBuf {
        self.shared.landing.root.shown(place)
    }
}

impl FrameHandler for Worker<'_> {
    fn start(&mut self, header: Header) -> Result<(), StreamError> {
        self.kind = header.kind;
        self.frames += 1;
        if matches!(header.kind, FrameKind::Batch | FrameKind::Chunk) {
            self.payload.clear();
            self.payload.reserve(header.length as usize);
        }
        Ok(())
    }

    fn payload(&mut self, pieces: &mut [IoSlice<'_>]) -> Result<(), StreamError> {
        if self.kind == FrameKind::Data {
            return self.data(pieces);
        }
        pieces.iter().for_each(|piece| self.payload.extend_from_slice(piece));
        Ok(())
    }

    fn done(&mut self, kind: FrameKind) -> Result<(), StreamError> {
        self.clock.lap(Stage::Cipher);
        match kind {
            FrameKind::Batch => self.batch(),
            FrameKind::Chunk => self.chunk(),
            FrameKind::Data if self.part.as_ref().is_some_and(Part::is_whole) => self.finish_part(),
            FrameKind::Data => {
                self.clock.flush(self.shared.counters);
                Ok(())
            }
            FrameKind::GiveUp => self.give_up(),
            FrameKind::End if self.part.is_some() => {
                Err(StreamError::Protocol("the end in the middle of a chunk"))
            }
            FrameKind::End => Ok(()),
            FrameKind::Same => self.same(),
            FrameKind::Hole | FrameKind::Digest => {
                Err(StreamError::Protocol("a frame that wasn't asked for"))
            }
        }
    }

    fn expects(&self) -> u64 {
        self.part.as_ref().map_or(0, Part::expects)
    }

    fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }
}

/// Sets a directory's mode through a descriptor that may be a mere path.
///
/// # Errors
/// What chmod(2) returns.
pub fn chmod(directory: &Directory, mode: Mode) -> Result<(), Errno> {
    match rustix::fs::fchmod(directory.as_fd(), mode) {
        Err(Errno::BADF) => rustix::fs::chmodat(directory.as_fd(), ".", mode, rustix::fs::AtFlags::empty()),
        other => other,
    }
}

/// Writes all of `pieces`, one behind the other, from `offset` on.
fn write_all(fd: BorrowedFd<'_>, mut pieces: &mut [IoSlice<'_>], mut offset: u64) -> Result<(), Errno> {
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        match rustix::io::pwritev(fd, pieces, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                IoSlice::advance_slices(&mut pieces, written);
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
