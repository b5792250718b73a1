//! The receiver's side of the files: a worker that turns one stream's frames into files.

mod entries;
mod parts;

use crossbeam_channel::Sender;
use linerate_wire::control::{Digest, Keep, Problem, ProblemKind};
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
use crate::verify::Proof;
use parts::Part;

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
    /// The sender tells digests.
    pub digests: bool,
    /// The process's mask for new files.
    pub umask: Mode,
}

/// One stream's worker.
pub struct Worker<'a> {
    shared: &'a Shared<'a>,
    clock: Clock,
    kind: FrameKind,
    payload: Vec<u8>,
    part: Option<Part>,
    parent: Option<(RelPath, Arc<Directory>)>,
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
        let created = self.created();
        let held =
            self.with_access(&parent, || self.shared.landing.root.directory_or_make(&parent, created))?;
        self.parent = Some((parent, held.clone()));
        Ok(held)
    }

    /// Setuid, setgid and sticky bits stay behind: what they mean belongs to another host's users.
    fn mode(&self, entry: &Entry) -> Mode {
        let mode = Mode::from_raw_mode(entry.mode & 0o777);
        if self.shared.keep.perms { mode } else { mode & !self.shared.umask }
    }

    /// How a directory is made: open to this program, whatever mode it gets in the end.
    fn created(&self) -> Mode {
        Mode::RWXU | (Mode::from_raw_mode(0o777) & !self.shared.umask)
    }

    /// Hands what is whole to the committer, with its times set where they are kept.
    fn hand_on(
        &self,
        mut temporary: Temporary,
        place: &RelPath,
        entry: &Entry,
        digest: Option<Digest>,
    ) -> Result<(), Errno> {
        if self.shared.keep.times {
            temporary.set_times(entry)?;
        }
        temporary.close(self.mode(entry));
        let name = place.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
        let shown = self.shown(place);
        let kind = entry.kind.clone();
        // Without a committer the transfer has failed, and dropping the file removes it.
        let proof = digest.map(|digest| Proof { digest, source: entry.source, path: entry.path.clone() });
        let _ = self.shared.finished.send(ToCommit::Whole(Finished { temporary, name, kind, shown, proof }));
        Ok(())
    }

    /// A file that this worker alone makes whole.
    fn new_file(&self, place: &RelPath, parent: Arc<Directory>, mode: Mode) -> Result<Temporary, Errno> {
        self.with_access(place, || Temporary::unnamed(parent.clone(), self.shared.names, mode))
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
        if matches!(header.kind, FrameKind::Batch | FrameKind::Chunk | FrameKind::Digest) {
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
            FrameKind::Data if !self.shared.digests && self.part.as_ref().is_some_and(Part::is_whole) => {
                self.finish_part(None)
            }
            FrameKind::Digest if self.shared.digests => self.digest(),
            FrameKind::Data => {
                self.clock.flush(self.shared.counters);
                Ok(())
            }
            FrameKind::GiveUp => self.give_up(),
            FrameKind::End if self.part.is_some() => {
                Err(StreamError::Protocol("the end in the middle of a chunk"))
            }
            FrameKind::End => Ok(()),
            FrameKind::Hole | FrameKind::Same | FrameKind::Digest => {
                Err(StreamError::Protocol("a frame that wasn't asked for"))
            }
        }
    }

    fn expects(&self) -> u64 {
        self.part.as_ref().map_or(0, Part::left)
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
