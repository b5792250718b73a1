//! The sender's side of the files: which sources there are, and a worker that reads them into a stream.

use crossbeam_channel::Receiver;
use linerate_wire::batch;
use linerate_wire::control::{Digest, Problem, ProblemKind, Source};
use linerate_wire::entry::{Chunk, Entry, Kind, Timestamp};
use linerate_wire::frame::FrameKind;
use linerate_wire::path::RelPath;
use rustix::fs::{Advice, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::clock::{Clock, Counters, Stage};
use crate::metadata::holes::{Run, next_run};
use crate::pattern::Named;
use crate::plan::{LargeFile, There, Unit};
use crate::problem::problem;
use crate::rate::RateLimit;
use crate::root::{Directory, Root};
use crate::stream::{DATA_FRAME, FrameWriter, Stream, StreamError};
use crate::under_way::UnderWay;

/// A batch is sent when its payload has so many bytes, however many entries are left of its unit.
const BATCH_PAYLOAD: usize = 1 << 20;
/// Bytes that are read and hashed at once.
const HASHED: usize = 1 << 20;
const SHORTER: &str = "became shorter while it was read; not copied";
const CHANGED: &str = "changed while it was read; the copy may mix old and new";

/// One source as it was found.
pub struct SourceRoot {
    /// The directory itself, or the directory that holds the file.
    pub root: Root,
    /// The file's name in it; the root for a directory.
    file: RelPath,
    /// As the user wrote it, for messages.
    shown: PathBuf,
    /// As the other end is told.
    pub source: Source,
}

impl SourceRoot {
    /// Finds what the user named. A link in that name is followed, also at its end.
    ///
    /// # Errors
    /// A message for the user.
    pub fn find(named: &Named, argument: u32, recursive: bool) -> Result<Self, Problem> {
        let shown = PathBuf::from(OsString::from_vec(named.written.clone()));
        let failed = |kind, message: String| problem(&shown, kind, message);
        let real = Path::new(OsStr::from_bytes(&named.path))
            .canonicalize()
            .map_err(|error| failed(ProblemKind::Failed, format!("can't be opened: {error}")))?;
        let directory = real.is_dir();
        if directory && !recursive {
            return Err(failed(ProblemKind::Skipped, "is a directory; not copied without -r".into()));
        }
        let name = RelPath::new(named.own_name()).map_err(|error| {
            failed(ProblemKind::Failed, format!("can't be named at the destination: {error}"))
        })?;
        let (top, file) = if directory { (real.as_path(), RelPath::root()) } else { split(&real) };
        let root = Root::open(top)
            .map_err(|error| failed(ProblemKind::Failed, format!("can't be opened: {error}")))?;
        Ok(Self { root, file, shown, source: Source { argument, name, directory } })
    }

    /// Where the source itself is below its root.
    pub fn top_path(&self) -> RelPath {
        self.file.clone()
    }

    /// Where an entry's path is below the root.
    pub fn full_path(&self, path: &RelPath) -> RelPath {
        if path.is_root() { self.file.clone() } else { path.clone() }
    }

    /// An entry's path as the user would write it.
    pub fn shown(&self, path: &RelPath) -> PathBuf {
        if path.is_root() { self.shown.clone() } else { self.shown.join(path.as_os_str()) }
    }
}

/// The name that a source gets below a destination directory. A source that ends in `.` or `..`, and the root of
/// the file system, have none: what is in them lands in the destination itself.
pub fn own_name(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    let start = bytes[..end].iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
    match &bytes[start..end] {
        b"." | b".." => Vec::new(),
        name => name.to_vec(),
    }
}

fn split(real: &Path) -> (&Path, RelPath) {
    let name = real.file_name().unwrap_or(OsStr::new("")).as_bytes();
    let name = RelPath::new(name).unwrap_or_default();
    (real.parent().unwrap_or(Path::new("/")), name)
}

/// What all workers of the sender share.
pub struct Shared<'a> {
    /// The sources, in their order.
    pub sources: &'a [SourceRoot],
    /// This end's counters.
    pub counters: &'a Counters,
    /// Where problems are told.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// The user's rate limit.
    pub rate: Option<&'a RateLimit>,
    /// Large files that are begun, of which the receiver may want nothing more.
    pub under_way: UnderWay,
    /// Ends the transfer early.
    pub stop: AtomicBool,
    /// Workers that are to end their streams, since fewer are better.
    pub leave: AtomicU32,
    /// Workers that have not left.
    pub working: AtomicU32,
}

impl Shared<'_> {
    /// True once for each worker that is to leave; never for the last one.
    fn is_dropped(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        if self.leave.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_err() {
            return false;
        }
        let but_the_last = |working: u32| working.checked_sub(1).filter(|left| *left > 0);
        self.working.fetch_update(Ordering::AcqRel, Ordering::Acquire, but_the_last).is_ok()
    }
}

/// One stream's worker.
pub struct Worker<'a> {
    shared: &'a Shared<'a>,
    stream: FrameWriter,
    clock: Clock,
    payload: Vec<u8>,
    /// The directory that the last small file was read from, and whose it is: the next one most often is its neighbour.
    parent: Option<(u32, RelPath, Arc<Directory>)>,
}

impl<'a> Worker<'a> {
    /// A worker that sends on `stream`.
    pub fn new(shared: &'a Shared<'a>, stream: Stream) -> Self {
        shared.working.fetch_add(1, Ordering::AcqRel);
        Self {
            shared,
            stream: stream.into_writer(),
            clock: Clock::start(),
            payload: Vec::new(),
            parent: None,
        }
    }

    /// Sends the units of the queue until it is closed and empty, or this worker is to leave; then ends the stream.
    ///
    /// # Errors
    /// Where the stream breaks; problems with single files are told and passed over.
    pub fn run(mut self, units: &Receiver<Unit>) -> Result<(), StreamError> {
        while !self.shared.is_dropped()
            && let Ok(unit) = units.recv()
        {
            self.clock.lap(Stage::Queue);
            match unit {
                Unit::Batch(entries) => self.batch(entries)?,
                Unit::Chunk { file, offset, length } => self.chunk(&file, offset, length)?,
            }
            self.clock.flush(self.shared.counters);
        }
        self.clock.lap(Stage::Queue);
        let transport = self.stream.end(&mut self.clock)?;
        self.clock.finish(self.shared.counters, transport.tcp_info());
        Ok(())
    }

    fn batch(&mut self, entries: Vec<Entry>) -> Result<(), StreamError> {
        self.payload.clear();
        for mut entry in entries {
            self.append(&mut entry);
            if self.payload.len() >= BATCH_PAYLOAD {
                self.send_batch()?;
            }
        }
        self.send_batch()
    }

    fn send_batch(&mut self) -> Result<(), StreamError> {
        self.clock.lap(Stage::Read);
        if self.payload.is_empty() {
            return Ok(());
        }
        self.limit(self.payload.len());
        self.stream.send(FrameKind::Batch, &self.payload, &mut self.clock)?;
        self.payload.clear();
        Ok(())
    }

    fn append(&mut self, entry: &mut Entry) {
        let scanned = entry.clone();
        let opened = self.open_small(&scanned);
        let mut changed = false;
        let read = |out: &mut Vec<u8>| read_small(opened?, &scanned, out).map(|so| changed = so);
        if let Err(error) = batch::Writer::new(&mut self.payload).push(entry, read) {
            let (kind, message) = read_problem(error);
            return self.tell(&scanned, kind, &message);
        }
        self.clock.entries(1);
        self.clock.bytes(file_size(entry));
        if changed {
            self.tell(&scanned, ProblemKind::Changed, CHANGED);
        }
    }

    /// Opens a small file by its name in the directory that is held; `None` for what has no contents.
    fn open_small(&mut self, entry: &Entry) -> Result<Option<OwnedFd>, Errno> {
        if !matches!(entry.kind, Kind::File { .. }) {
            return Ok(None);
        }
        let source = &self.shared.sources[entry.source as usize];
        let path = source.full_path(&entry.path);
        let (parent, name) = path.split().ok_or(Errno::ISDIR)?;
        let held = match self.parent.take() {
            Some((number, path, held)) if number == entry.source && path == parent => held,
            _ => source.root.directory(&parent)?,
        };
        let opened = held.open_file(name);
        self.parent = Some((entry.source, parent, held));
        opened.map(Some)
    }

    fn chunk(&mut self, file: &Arc<LargeFile>, offset: u64, length: u64) -> Result<(), StreamError> {
        if self.shared.stop.load(Ordering::Relaxed) || file.given_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.shared.under_way.begin(file);
        let (entry, parts, origin) = (file.entry.clone(), file.parts, file.origin);
        let chunk = Chunk { entry, file: file.number, offset, length, parts, origin };
        let header = postcard::to_stdvec(&chunk).expect("a chunk is always encodable");
        self.stream.send(FrameKind::Chunk, &header, &mut self.clock)?;
        let sent = match self.is_there(file, offset, length) {
            Ok(true) => {
                self.stream.send(FrameKind::Same, &[], &mut self.clock)?;
                self.shared.counters.unchanged.bytes(length);
                Ok(())
            }
            Ok(false) => self.contents(file, offset, length)?,
            Err(problem) => Err(problem),
        };
        match sent {
            Ok(()) => self.finish_part(file),
            Err(message) => {
                file.given_up.store(true, Ordering::Relaxed);
                self.stream.send(FrameKind::GiveUp, &[], &mut self.clock)?;
                self.tell(&file.entry, message.0, &message.1);
            }
        }
        Ok(())
    }

    /// Whether the receiver has the bytes of a part.
    fn is_there(
        &mut self,
        file: &LargeFile,
        offset: u64,
        length: u64,
    ) -> Result<bool, (ProblemKind, String)> {
        let number = (offset / (file.cut.max(1))) as usize;
        match &file.there {
            There::Nothing => Ok(false),
            There::Present(present) => {
                Ok(present.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1))
            }
            There::Older(digests) => {
                let Some(theirs) = digests.get(number) else { return Ok(false) };
                let source = &self.shared.sources[file.entry.source as usize];
                let descriptor = file.descriptor.get_or_init(|| open_large(source, &file.entry));
                let descriptor = descriptor.as_ref().map_err(|error| read_problem(*error))?;
                let mut buffer = std::mem::take(&mut self.payload);
                let ours = hash(descriptor.as_fd(), offset, length, &mut buffer);
                self.payload = buffer;
                self.clock.lap(Stage::Read);
                Ok(ours.map_err(read_problem)? == Some(*theirs))
            }
        }
    }

    /// Sends the bytes of a part; the inner result is a problem of the file, the outer one of the stream.
    fn contents(
        &mut self,
        file: &LargeFile,
        offset: u64,
        length: u64,
    ) -> Result<Result<(), (ProblemKind, String)>, StreamError> {
        let source = &self.shared.sources[file.entry.source as usize];
        let descriptor = match file.descriptor.get_or_init(|| open_large(source, &file.entry)) {
            Ok(descriptor) => descriptor.as_fd(),
            Err(error) => return Ok(Err(read_problem(*error))),
        };
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let run = if file.sparse { next_run(descriptor, at, end) } else { Run::Data(end - at) };
            match run {
                Run::Hole(length) => self.hole(length)?,
                Run::Data(length) => {
                    if let Err(problem) = self.data(descriptor, at, length)? {
                        return Ok(Err(problem));
                    }
                }
            }
            let (Run::Hole(length) | Run::Data(length)) = run;
            at += length;
        }
        Ok(Ok(()))
    }

    fn hole(&mut self, length: u64) -> Result<(), StreamError> {
        self.stream.send(FrameKind::Hole, &length.to_le_bytes(), &mut self.clock)?;
        self.clock.bytes(length);
        self.clock.flush(self.shared.counters);
        Ok(())
    }

    fn data(
        &mut self,
        descriptor: BorrowedFd<'_>,
        offset: u64,
        length: u64,
    ) -> Result<Result<(), (ProblemKind, String)>, StreamError> {
        let mut at = offset;
        while at < offset + length {
            let want = usize::try_from(offset + length - at).unwrap_or(DATA_FRAME).min(DATA_FRAME);
            self.limit(want);
            let read = |places: &mut [IoSliceMut<'_>]| match read_full(descriptor, places, at) {
                Ok(got) if got < want => Err((ProblemKind::Changed, SHORTER.into())),
                Ok(_) => Ok(()),
                Err(error) => Err(read_problem(error)),
            };
            if let Err(problem) = self.stream.send_data(want, &mut self.clock, read)? {
                return Ok(Err(problem));
            }
            self.clock.bytes(want as u64);
            self.clock.flush(self.shared.counters);
            at += want as u64;
        }
        Ok(Ok(()))
    }

    /// Whoever finishes the last part looks whether the file is still the one that was scanned.
    fn finish_part(&mut self, file: &LargeFile) {
        if file.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        self.clock.entries(1);
        let Some(Ok(descriptor)) = file.descriptor.get() else { return };
        if rustix::fs::fstat(descriptor).is_ok_and(|stat| has_changed(&file.entry, &stat)) {
            self.tell(&file.entry, ProblemKind::Changed, CHANGED);
        }
    }

    fn limit(&mut self, bytes: usize) {
        if let Some(rate) = self.shared.rate {
            rate.take(bytes, || self.shared.stop.load(Ordering::Relaxed));
            self.clock.lap(Stage::Limit);
        }
    }

    fn tell(&self, entry: &Entry, kind: ProblemKind, message: &str) {
        let shown = self.shared.sources[entry.source as usize].shown(&entry.path);
        (self.shared.problem)(problem(shown, kind, message));
    }
}

fn read_problem(error: Errno) -> (ProblemKind, String) {
    match error {
        Errno::NOENT => (ProblemKind::Changed, "vanished before it was read".into()),
        error => (ProblemKind::Failed, format!("reading failed: {error}")),
    }
}

fn file_size(entry: &Entry) -> u64 {
    if let Kind::File { size } = entry.kind { size } else { 0 }
}

/// Appends the contents of a small file, at most as many bytes as were scanned; true where it has changed since.
fn read_small(opened: Option<OwnedFd>, entry: &Entry, out: &mut Vec<u8>) -> Result<bool, Errno> {
    let Some(fd) = opened else { return Ok(false) };
    append(fd.as_fd(), file_size(entry) as usize, out)?;
    Ok(has_changed(entry, &rustix::fs::fstat(&fd)?))
}

fn has_changed(entry: &Entry, stat: &Stat) -> bool {
    let mtime = Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 };
    mtime != entry.mtime || stat.st_size as u64 != file_size(entry)
}

/// BLAKE3 of a file's contents; `None` where they can't be read, which whoever sends them tells.
pub fn digest(sources: &[SourceRoot], entry: &Entry, stop: &AtomicBool) -> Option<Digest> {
    let Kind::File { size } = entry.kind else { return None };
    let file = open_large(&sources[entry.source as usize], entry).ok()?;
    hash_while(file.as_fd(), 0, size, &mut Vec::new(), || !stop.load(Ordering::Relaxed)).ok()?
}

/// BLAKE3 of `length` bytes from `offset` on; `None` where the file ends before. `buffer` is overwritten.
pub fn hash(
    fd: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<Digest>, Errno> {
    hash_while(fd, offset, length, buffer, || true)
}

fn hash_while(
    fd: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    buffer: &mut Vec<u8>,
    go_on: impl Fn() -> bool,
) -> Result<Option<Digest>, Errno> {
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < length && go_on() {
        buffer.clear();
        let want = usize::try_from(length - at).unwrap_or(HASHED).min(HASHED);
        append_from(fd, offset + at, want, buffer)?;
        if buffer.len() < want {
            return Ok(None);
        }
        hasher.update(buffer);
        at += want as u64;
    }
    Ok((at == length).then(|| hasher.finalize().into()))
}

fn open_large(source: &SourceRoot, entry: &Entry) -> Result<OwnedFd, Errno> {
    let fd = source.root.open_at(&source.full_path(&entry.path), OFlags::RDONLY)?;
    // Advice that isn't taken does no harm.
    let _ = rustix::fs::fadvise(&fd, 0, None, Advice::Sequential);
    Ok(fd)
}

/// Appends at most `size` bytes of a file.
fn append(fd: BorrowedFd<'_>, size: usize, out: &mut Vec<u8>) -> Result<(), Errno> {
    append_from(fd, 0, size, out)
}

fn append_from(fd: BorrowedFd<'_>, from: u64, size: usize, out: &mut Vec<u8>) -> Result<(), Errno> {
    let (start, end) = (out.len(), out.len() + size);
    out.reserve(size);
    while out.len() < end {
        let offset = from + (out.len() - start) as u64;
        match rustix::io::pread(fd, rustix::buffer::spare_capacity(out), offset) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    out.truncate(end);
    Ok(())
}

/// Reads until all `places` are full, one behind the other, or the file ends.
fn read_full(fd: BorrowedFd<'_>, mut places: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, Errno> {
    let mut have = 0;
    IoSliceMut::advance_slices(&mut places, 0);
    while !places.is_empty() {
        match rustix::io::preadv(fd, places, offset + have as u64) {
            Ok(0) => break,
            Ok(got) => {
                IoSliceMut::advance_slices(&mut places, got);
                have += got;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_changes_nothing_and_dots_have_no_name() {
        for (path, name) in [("a/b", "b"), ("a/b//", "b"), ("b", "b"), (".", ""), ("a/..", ""), ("/", "")] {
            assert_eq!(own_name(Path::new(path)), name.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_directory_needs_recursion() {
        let directory = tempfile::tempdir().unwrap();
        let named = Named::plain(directory.path().as_os_str().as_bytes());
        assert_eq!(SourceRoot::find(&named, 0, false).err().unwrap().kind, ProblemKind::Skipped);
        assert!(SourceRoot::find(&named, 0, true).unwrap().source.directory);
    }
}
