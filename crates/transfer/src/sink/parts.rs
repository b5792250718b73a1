//! What comes in chunks: larger files, whole or in parts that several streams bring.

use linerate_wire::control::ProblemKind;
use linerate_wire::entry::{Chunk, Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::basis::Basis;
use super::covered::Covered;
use super::{Worker, write_all};
use crate::clock::Stage;
use crate::problem::problem;
use crate::root::Directory;
use crate::source::lock;
use crate::stream::{StreamError, total};
use crate::temporary::Temporary;

/// Large files that may be begun and not finished: many times what a sender's queue and workers hold.
const MAX_UNFINISHED: usize = 1024;

/// A large file under way.
pub struct Assembly {
    file: OwnedFd,
    temporary: Mutex<Option<Temporary>>,
    /// An older version, of which the sender may take chunks as they are.
    basis: Option<Basis>,
    entry: Entry,
    place: RelPath,
    left: AtomicU32,
    /// The parts that came.
    covered: Mutex<Covered>,
    failed: AtomicBool,
}

/// The part of a large file that the data frames are bringing.
pub(super) struct Part {
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

impl Worker<'_> {
    pub(super) fn chunk(&mut self) -> Result<(), StreamError> {
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
        let parent = self.parent_of(place)?;
        if chunk.parts == 1 {
            let temporary = self.new_file(place, parent, self.mode(&chunk.entry))?;
            return Ok(Target::Whole(temporary, chunk.entry.clone(), place.clone()));
        }
        let mut assemblies = lock(&self.shared.assemblies);
        if let Some(assembly) = assemblies.get(&chunk.file) {
            return Ok(Target::Shared(assembly.clone()));
        }
        let mut basis = self.shared.older.take(place, &parent);
        let temporary = self.sized(self.new_parts(place, &parent, chunk, basis.as_mut())?, chunk)?;
        let assembly = Arc::new(Assembly {
            file: temporary.fd()?.try_clone_to_owned().map_err(|_| Errno::MFILE)?,
            temporary: Mutex::new(Some(temporary)),
            basis,
            entry: chunk.entry.clone(),
            place: place.clone(),
            left: AtomicU32::new(chunk.parts),
            covered: Mutex::default(),
            failed: AtomicBool::new(false),
        });
        assemblies.insert(chunk.file, assembly.clone());
        Ok(Target::Shared(assembly))
    }

    /// Where the parts go; what an older version has is there already where that costs nothing.
    fn new_parts(
        &self,
        place: &RelPath,
        parent: &Arc<Directory>,
        chunk: &Chunk,
        basis: Option<&mut Basis>,
    ) -> Result<Temporary, Errno> {
        let mode = self.mode(&chunk.entry);
        if let Some(existing) = self.existing_file(place, parent, mode) {
            basis.into_iter().for_each(Basis::is_written_into);
            return Ok(existing);
        }
        let make = || Temporary::named(parent.clone(), self.shared.names, mode);
        let temporary = self.with_access(place, make)?;
        if let Some(basis) = basis {
            basis.share_with(temporary.fd()?);
        }
        Ok(temporary)
    }

    /// Parts may come in any order, so the file gets its size first.
    fn sized(&self, temporary: Temporary, chunk: &Chunk) -> Result<Temporary, Errno> {
        if let Kind::File { size } = chunk.entry.kind {
            rustix::fs::ftruncate(temporary.fd()?, size)?;
        }
        Ok(temporary)
    }

    pub(super) fn data(&mut self, pieces: &mut [IoSlice<'_>]) -> Result<(), StreamError> {
        let length = total(pieces);
        let part = self.part.as_mut().ok_or(StreamError::Protocol("data without a chunk"))?;
        let start = part.at;
        part.at += length;
        if part.at > part.end {
            return Err(StreamError::Protocol("more data than the chunk has"));
        }
        let written = part.fd().map_or(Ok(()), |fd| write_all(fd, pieces, start));
        self.clock.bytes(length);
        let result = written.or_else(|error| self.part_failed(error));
        self.clock.lap(Stage::Write);
        result
    }

    /// The rest of the part is as the older version has it.
    pub(super) fn same(&mut self) -> Result<(), StreamError> {
        let unasked = StreamError::Protocol("a chunk as it is said to be here, which it isn't");
        let Some(part) = &mut self.part else { return Err(unasked) };
        let (start, end) = (part.at, part.end);
        part.at = end;
        let copied = match &part.target {
            Target::Shared(assembly) => match &assembly.basis {
                Some(basis) if basis.has(start, end) => basis.copy(assembly.file.as_fd(), start, end),
                _ => return Err(unasked),
            },
            Target::Whole(..) => return Err(unasked),
            Target::Dropped => Ok(()),
        };
        copied.or_else(|error| self.part_failed(error))?;
        self.shared.counters.unchanged.bytes(end - start);
        self.clock.lap(Stage::Write);
        self.finish_part()
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

    pub(super) fn finish_part(&mut self) -> Result<(), StreamError> {
        let Some(part) = self.part.take() else { return Ok(()) };
        match part.target {
            Target::Whole(temporary, entry, place) => self.complete(temporary, &entry, &place)?,
            Target::Shared(assembly) => {
                if !lock(&assembly.covered).add(part.end - part.length, part.length) {
                    return Err(StreamError::Protocol(
                        "parts of a file that lie on each other, or far from each other",
                    ));
                }
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
        if assembly.basis.as_ref().is_some_and(|basis| basis.has_changed(self.shared.inplace)) {
            let shown = self.shown(&assembly.place);
            let message = "was written to by somebody else while it was compared; run it again";
            (self.shared.problem)(problem(shown, ProblemKind::Failed, message));
            return Ok(());
        }
        self.complete(temporary, &assembly.entry, &assembly.place)
    }

    fn complete(&mut self, temporary: Temporary, entry: &Entry, place: &RelPath) -> Result<(), StreamError> {
        self.clock.entries(1);
        self.hand_on(temporary, place, entry).or_else(|error| self.failed(place, entry, error))?;
        self.hand_over();
        Ok(())
    }

    /// The sender can't finish the file and has told why.
    pub(super) fn give_up(&mut self) -> Result<(), StreamError> {
        match self.part.take().map(|part| part.target) {
            Some(Target::Shared(assembly)) => drop(assembly.give_up()),
            Some(Target::Whole(..) | Target::Dropped) => {}
            None => return Err(StreamError::Protocol("a chunk is given up that was not begun")),
        }
        Ok(())
    }
}

impl Part {
    /// All its bytes came.
    pub(super) fn is_whole(&self) -> bool {
        self.left() == 0
    }

    /// Bytes that still come, unless the sender gives the file up.
    pub(super) fn left(&self) -> u64 {
        self.end - self.at
    }

    /// Bytes that are sure to follow: none where a frame may say that they are here.
    pub(super) fn expects(&self) -> u64 {
        match &self.target {
            Target::Shared(assembly) if assembly.basis.is_some() && self.is_untouched() => 0,
            _ => self.left(),
        }
    }

    fn is_untouched(&self) -> bool {
        self.left() == self.length
    }

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

    /// The parts are the file.
    fn is_covered(&self) -> bool {
        matches!(self.entry.kind, Kind::File { size } if lock(&self.covered).is_all_of(size))
    }

    /// Removes what is there of the file; true where somebody did so before.
    fn give_up(&self) -> bool {
        drop(lock(&self.temporary).take());
        self.failed.swap(true, Ordering::AcqRel)
    }
}
