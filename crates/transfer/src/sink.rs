//! The receiver's side of the files: a worker that turns one stream's frames into files.

use crossbeam_channel::Sender;
use linerate_wire::batch;
use linerate_wire::control::{Problem, ProblemKind};
use linerate_wire::entry::{Chunk, Entry, Kind};
use linerate_wire::frame::{FrameKind, Header};
use linerate_wire::path::RelPath;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::clock::{Clock, Counters, Stage};
use crate::commit::{Finished, ToCommit};
use crate::landing::Landing;
use crate::problem::problem;
use crate::root::Directory;
use crate::source::lock;
use crate::stream::{FrameHandler, StreamError};
use crate::temporary::{Names, Temporary};

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
    /// Keep modes and times exactly.
    pub preserve: bool,
    /// The process's mask for new files.
    pub umask: Mode,
}

/// A large file under way.
pub struct Assembly {
    file: OwnedFd,
    temporary: Mutex<Option<Temporary>>,
    entry: Entry,
    place: RelPath,
    left: AtomicU32,
    /// Offset and length of the parts that came.
    parts: Mutex<Vec<(u64, u64)>>,
    failed: AtomicBool,
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

/// The part of a large file that the data frames are bringing.
struct Part {
    target: Target,
    number: u64,
    at: u64,
    end: u64,
    length: u64,
}

enum Target {
    /// The part is the whole file.
    Whole(Temporary, Entry, RelPath),
    /// One of many.
    Shared(Arc<Assembly>),
    /// The file failed; its bytes are dropped.
    Dropped,
}

/// Large files that may be begun and not finished: many times what a sender's queue and workers hold.
const MAX_UNFINISHED: usize = 1024;

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

    fn batch(&mut self) -> Result<(), StreamError> {
        let payload = std::mem::take(&mut self.payload);
        for record in batch::Reader::new(&payload) {
            let (entry, contents) = record.map_err(|_| StreamError::Protocol("a damaged batch"))?;
            self.land(entry, contents)?;
        }
        self.payload = payload;
        self.clock.lap(Stage::Write);
        self.clock.flush(self.shared.counters);
        Ok(())
    }

    fn land(&mut self, entry: Entry, contents: &[u8]) -> Result<(), StreamError> {
        let place = self.place(&entry)?;
        self.clock.entries(1);
        let landed = match &entry.kind {
            Kind::Directory => self.directory(&place, &entry),
            Kind::File { .. } => self.small_file(&place, &entry, contents),
            Kind::Symlink { target } => self.symlink(&place, &entry, target),
        };
        landed.or_else(|error| self.failed(&place, &entry, error))
    }

    fn place(&self, entry: &Entry) -> Result<RelPath, StreamError> {
        let place = self.shared.landing.place(entry);
        let place = place.ok_or(StreamError::Protocol("an entry that doesn't fit what was announced"))?;
        if entry.path.is_root() {
            self.shared.arrived[entry.source as usize].store(true, Ordering::Relaxed);
        }
        Ok(place)
    }

    fn directory(&self, place: &RelPath, entry: &Entry) -> Result<(), Errno> {
        let shared = self.shared;
        let created = Mode::RWXU | (Mode::from_raw_mode(0o777) & !shared.umask);
        let is_new = self.with_access(place, || shared.landing.root.make_directory(place, created))?;
        let mode = self.mode(entry);
        if shared.preserve || is_new && mode != created {
            lock(&shared.directories)
                .push((place.clone(), Entry { mode: mode.as_raw_mode(), ..entry.clone() }));
        }
        shared.counters.landed.directory();
        Ok(())
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

    fn small_file(&mut self, place: &RelPath, entry: &Entry, contents: &[u8]) -> Result<(), Errno> {
        let parent = self.parent_of(place)?;
        let mode = self.mode(entry);
        let mut temporary = self.new_file(place, parent, mode)?;
        write_all(temporary.fd()?, contents, 0)?;
        self.clock.bytes(contents.len() as u64);
        if self.shared.preserve {
            temporary.set_times(entry)?;
        }
        temporary.close(mode);
        self.hand_on(temporary, place, entry.kind.clone());
        Ok(())
    }

    fn symlink(&mut self, place: &RelPath, entry: &Entry, target: &[u8]) -> Result<(), Errno> {
        let parent = self.parent_of(place)?;
        let make = || Temporary::symlink(parent.clone(), self.shared.names, target);
        let temporary = self.with_access(place, make)?;
        if self.shared.preserve {
            temporary.set_times(entry)?;
        }
        self.hand_on(temporary, place, entry.kind.clone());
        Ok(())
    }

    fn parent_of(&mut self, place: &RelPath) -> Result<Arc<Directory>, Errno> {
        let (parent, _) = place.split().ok_or(Errno::ISDIR)?;
        if let Some((path, held)) = &self.parent
            && *path == parent
        {
            return Ok(held.clone());
        }
        let created = Mode::RWXU | (Mode::from_raw_mode(0o777) & !self.shared.umask);
        let held =
            self.with_access(&parent, || self.shared.landing.root.directory_or_make(&parent, created))?;
        self.parent = Some((parent, held.clone()));
        Ok(held)
    }

    /// Setuid, setgid and sticky bits stay behind: what they mean belongs to another host's users.
    fn mode(&self, entry: &Entry) -> Mode {
        let mode = Mode::from_raw_mode(entry.mode & 0o777);
        if self.shared.preserve { mode } else { mode & !self.shared.umask }
    }

    fn hand_on(&self, temporary: Temporary, place: &RelPath, kind: Kind) {
        let name = place.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
        let shown = self.shown(place);
        // Without a committer the transfer has failed, and dropping the file removes it.
        let _ = self.shared.finished.send(ToCommit::Whole(Finished { temporary, name, kind, shown }));
    }

    fn chunk(&mut self) -> Result<(), StreamError> {
        let damaged = StreamError::Protocol("a damaged chunk");
        let Ok(chunk) = postcard::from_bytes::<Chunk>(&self.payload) else { return Err(damaged) };
        if !chunk.is_consistent() || self.part.is_some() {
            return Err(damaged);
        }
        if chunk.parts > 1 && self.has_too_many(chunk.file) {
            return Err(StreamError::Protocol("too many files are begun and not finished"));
        }
        let place = self.place(&chunk.entry)?;
        let target = self.target(&chunk, &place).or_else(|error| {
            self.failed(&place, &chunk.entry, error)?;
            (self.shared.skip)(chunk.file);
            Ok::<_, StreamError>(Target::Dropped)
        })?;
        let end = chunk.offset + chunk.length;
        self.part = Some(Part { target, number: chunk.file, at: chunk.offset, end, length: chunk.length });
        self.clock.lap(Stage::Write);
        if chunk.length == 0 { self.finish_part() } else { Ok(()) }
    }

    fn has_too_many(&self, file: u64) -> bool {
        let assemblies = lock(&self.shared.assemblies);
        let unfinished = || assemblies.values().filter(|assembly| !assembly.has_failed()).count();
        assemblies.len() >= MAX_UNFINISHED
            && !assemblies.contains_key(&file)
            && unfinished() >= MAX_UNFINISHED
    }

    fn target(&mut self, chunk: &Chunk, place: &RelPath) -> Result<Target, Errno> {
        if chunk.parts == 1 {
            let parent = self.parent_of(place)?;
            let temporary = self.new_file(place, parent, self.mode(&chunk.entry))?;
            return Ok(Target::Whole(temporary, chunk.entry.clone(), place.clone()));
        }
        let parent = self.parent_of(place)?;
        let mut assemblies = lock(&self.shared.assemblies);
        if let Some(assembly) = assemblies.get(&chunk.file) {
            return Ok(Target::Shared(assembly.clone()));
        }
        let mode = self.mode(&chunk.entry);
        let make = || Temporary::named(parent.clone(), self.shared.names, mode);
        let temporary = self.sized(self.with_access(place, make)?, chunk)?;
        let assembly = Arc::new(Assembly {
            file: temporary.fd()?.try_clone_to_owned().map_err(|_| Errno::MFILE)?,
            temporary: Mutex::new(Some(temporary)),
            entry: chunk.entry.clone(),
            place: place.clone(),
            left: AtomicU32::new(chunk.parts),
            parts: Mutex::default(),
            failed: AtomicBool::new(false),
        });
        assemblies.insert(chunk.file, assembly.clone());
        Ok(Target::Shared(assembly))
    }

    /// A file that this worker alone makes whole.
    fn new_file(&self, place: &RelPath, parent: Arc<Directory>, mode: Mode) -> Result<Temporary, Errno> {
        self.with_access(place, || Temporary::unnamed(parent.clone(), self.shared.names, mode))
    }

    /// Parts may come in any order, so the file gets its size first.
    fn sized(&self, temporary: Temporary, chunk: &Chunk) -> Result<Temporary, Errno> {
        if let Kind::File { size } = chunk.entry.kind {
            rustix::fs::ftruncate(temporary.fd()?, size)?;
        }
        Ok(temporary)
    }

    fn data(&mut self, piece: &[u8]) -> Result<(), StreamError> {
        self.clock.lap(Stage::Cipher);
        let part = self.part.as_mut().ok_or(StreamError::Protocol("data without a chunk"))?;
        let start = part.at;
        part.at += piece.len() as u64;
        if part.at > part.end {
            return Err(StreamError::Protocol("more data than the chunk has"));
        }
        let written = part.fd().map(|fd| write_all(fd, piece, start));
        self.clock.bytes(piece.len() as u64);
        let result = match written {
            Some(Err(error)) => self.part_failed(error),
            Some(Ok(())) | None => Ok(()),
        };
        self.clock.lap(Stage::Write);
        result
    }

    /// The first failure of a file is told; what still comes of it is dropped.
    fn part_failed(&mut self, error: Errno) -> Result<(), StreamError> {
        let Some(part) = &mut self.part else { return Ok(()) };
        let number = part.number;
        let (entry, place, first) = match std::mem::replace(&mut part.target, Target::Dropped) {
            Target::Whole(_, entry, place) => (entry, place, true),
            Target::Shared(assembly) => {
                let first = !assembly.give_up();
                (assembly.entry.clone(), assembly.place.clone(), first)
            }
            Target::Dropped => return Ok(()),
        };
        (self.shared.skip)(number);
        if first { self.failed(&place, &entry, error) } else { Ok(()) }
    }

    fn finish_part(&mut self) -> Result<(), StreamError> {
        let Some(part) = self.part.take() else { return Ok(()) };
        match part.target {
            Target::Whole(temporary, entry, place) => self.complete(temporary, &entry, &place)?,
            Target::Shared(assembly) => {
                lock(&assembly.parts).push((part.end - part.length, part.length));
                if assembly.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.assembled(part.number, &assembly)?;
                }
            }
            Target::Dropped => {}
        }
        self.clock.flush(self.shared.counters);
        Ok(())
    }

    fn assembled(&mut self, number: u64, assembly: &Assembly) -> Result<(), StreamError> {
        lock(&self.shared.assemblies).remove(&number);
        let temporary = lock(&assembly.temporary).take();
        let Some(temporary) = temporary else { return Ok(()) };
        if !assembly.is_covered() {
            return Err(StreamError::Protocol("the parts of a file don't add up to it"));
        }
        self.complete(temporary, &assembly.entry, &assembly.place)
    }

    fn complete(
        &mut self,
        mut temporary: Temporary,
        entry: &Entry,
        place: &RelPath,
    ) -> Result<(), StreamError> {
        self.clock.entries(1);
        if self.shared.preserve
            && let Err(error) = temporary.set_times(entry)
        {
            return self.failed(place, entry, error);
        }
        temporary.close(self.mode(entry));
        self.hand_on(temporary, place, entry.kind.clone());
        Ok(())
    }

    /// The sender can't finish the file and has told why.
    fn give_up(&mut self) -> Result<(), StreamError> {
        match self.part.take().map(|part| part.target) {
            Some(Target::Shared(assembly)) => drop(assembly.give_up()),
            Some(Target::Whole(..) | Target::Dropped) => {}
            None => return Err(StreamError::Protocol("a chunk is given up that was not begun")),
        }
        Ok(())
    }

    fn failed(&self, place: &RelPath, entry: &Entry, error: Errno) -> Result<(), StreamError> {
        let shown = self.shown(place);
        if is_fatal(error) {
            return Err(StreamError::Destination(format!("writing {} failed: {error}", shown.display())));
        }
        let doing = match entry.kind {
            Kind::Directory => "making the directory",
            Kind::File { .. } => "writing the file",
            Kind::Symlink { .. } => "making the link",
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

    fn payload(&mut self, piece: &[u8]) -> Result<(), StreamError> {
        if self.kind == FrameKind::Data {
            return self.data(piece);
        }
        self.payload.extend_from_slice(piece);
        Ok(())
    }

    fn done(&mut self, kind: FrameKind) -> Result<(), StreamError> {
        self.clock.lap(Stage::Cipher);
        match kind {
            FrameKind::Batch => self.batch(),
            FrameKind::Chunk => self.chunk(),
            FrameKind::Data if self.part.as_ref().is_some_and(|part| part.at == part.end) => {
                self.finish_part()
            }
            FrameKind::Data => {
                self.clock.flush(self.shared.counters);
                Ok(())
            }
            FrameKind::GiveUp => self.give_up(),
            FrameKind::End if self.part.is_some() => {
                Err(StreamError::Protocol("the end in the middle of a chunk"))
            }
            FrameKind::End => Ok(()),
        }
    }

    fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }
}

impl Part {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.target {
            Target::Whole(temporary, ..) => temporary.fd().ok(),
            Target::Shared(assembly) if assembly.failed.load(Ordering::Relaxed) => None,
            Target::Shared(assembly) => Some(assembly.file.as_fd()),
            Target::Dropped => None,
        }
    }
}

impl Assembly {
    /// True where the file was given up.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The parts follow each other from the beginning of the file to its end.
    fn is_covered(&self) -> bool {
        let mut parts = lock(&self.parts);
        parts.sort_unstable();
        let end = parts.iter().try_fold(0, |at, (offset, length)| (at == *offset).then_some(at + length));
        end.is_some_and(|size| self.entry.kind == Kind::File { size })
    }

    /// Removes what is there of the file; true where somebody did so before.
    fn give_up(&self) -> bool {
        drop(lock(&self.temporary).take());
        self.failed.swap(true, Ordering::AcqRel)
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

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(fd, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
