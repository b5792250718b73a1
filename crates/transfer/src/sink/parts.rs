//! What comes in chunks: larger files, whole or in parts that several streams bring.

use linerate_wire::control::{Digest, ProblemKind};
use linerate_wire::entry::{Chunk, Entry, Kind, Origin};
use linerate_wire::path::RelPath;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::collections::HashSet;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::basis::Basis;
use super::covered::Covered;
use super::{Resumed, Worker, is_fatal, write_all};
use crate::clock::Stage;
use crate::commit::Finished;
use crate::digest;
use crate::journal::{Journal, Partial, mark};
use crate::lock::lock;
use crate::problem::problem;
use crate::root::Directory;
use crate::stream::{StreamError, total};
use crate::temporary::Temporary;
use crate::verify::Proof;
use crate::wanted::open_existing;

/// Large files that may be begun and not finished: many times what a sender's queue and workers hold.
const MAX_UNFINISHED: usize = 1024;

const STANDS: &str = "data of a file of which only the digest was asked for";

/// A large file under way.
pub struct Assembly {
    file: OwnedFd,
    temporary: Mutex<Option<Temporary>>,
    /// An older version, of which the sender may take chunks as they are.
    basis: Option<Basis>,
    /// There may be bytes in it that are not the new version's, until those have come.
    has_old_bytes: bool,
    entry: Entry,
    place: RelPath,
    left: AtomicU32,
    /// The parts that came.
    covered: Mutex<Covered>,
    /// What the sender said of them.
    digests: Mutex<Vec<digest::Part>>,
    failed: AtomicBool,
    /// Its number in the journal, once it has one.
    listed: Mutex<Listed>,
    /// Chunks that an earlier run brought.
    there: HashSet<u32>,
    origin: Origin,
}

/// What the journal knows of a large file.
#[derive(Default)]
struct Listed {
    index: Option<u32>,
    /// Bytes of a chunk, as the first part says it.
    chunk: u64,
    /// Chunks that the journal has.
    chunks: HashSet<u32>,
    /// How many of them are told to be on stable storage.
    stable: usize,
}

/// The part of a large file that the data frames are bringing.
pub(super) struct Part {
    target: Target,
    number: u64,
    at: u64,
    end: u64,
    length: u64,
    /// The file has its size.
    sized: bool,
}

enum Target {
    /// The part is the whole file.
    Whole(Temporary, Entry, RelPath),
    /// It is there already and stays: only its digest comes.
    Standing(Temporary, Entry, RelPath),
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
        let (number, at, length) = (chunk.file, chunk.offset, chunk.length);
        self.part = Some(Part { target, number, at, end, length, sized: chunk.parts > 1 });
        self.clock.lap(Stage::Write);
        if chunk.length == 0 && !self.shared.digests { self.finish_part(None) } else { Ok(()) }
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
            if let Some(seen) = lock(&self.shared.standing).remove(place) {
                let (_, name) = place.split().ok_or(Errno::ISDIR)?;
                let file = open_existing(&parent, name, &seen)?;
                let standing = Temporary::standing(parent, file);
                return Ok(Target::Standing(standing, chunk.entry.clone(), place.clone()));
            }
            let temporary = self.new_file(place, parent, self.first_mode(&chunk.entry))?;
            return Ok(Target::Whole(temporary, chunk.entry.clone(), place.clone()));
        }
        let mut assemblies = lock(&self.shared.assemblies);
        if let Some(assembly) = assemblies.get(&chunk.file) {
            return Ok(Target::Shared(assembly.clone()));
        }
        let assembly = match self.resumed(chunk, place) {
            Some(resumed) => Assembly::resumed(resumed, chunk, place)?,
            None => self.begun(chunk, place, parent)?,
        };
        let assembly = Arc::new(assembly);
        assemblies.insert(chunk.file, assembly.clone());
        Ok(Target::Shared(assembly))
    }

    fn begun(&self, chunk: &Chunk, place: &RelPath, parent: Arc<Directory>) -> Result<Assembly, Errno> {
        let mut basis = self.shared.older.take(place, &parent);
        let temporary = self.sized(self.new_parts(place, &parent, chunk, basis.as_mut())?, chunk)?;
        let has_old_bytes = basis.is_some() || self.shared.inplace;
        Ok(Assembly { has_old_bytes, basis, ..Assembly::new(temporary, chunk, place)? })
    }

    /// What an earlier run brought of this file, where the sender goes on with the same chunks.
    fn resumed(&self, chunk: &Chunk, place: &RelPath) -> Option<Resumed> {
        let resumed = lock(&self.shared.resumed).remove(place)?;
        resumed.fits(chunk).then_some(resumed)
    }

    /// Where the parts go; what an older version has is there already where that costs nothing.
    fn new_parts(
        &self,
        place: &RelPath,
        parent: &Arc<Directory>,
        chunk: &Chunk,
        basis: Option<&mut Basis>,
    ) -> Result<Temporary, Errno> {
        let mode = self.first_mode(&chunk.entry);
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
        if matches!(part.target, Target::Standing(..)) {
            return Err(StreamError::Protocol(STANDS));
        }
        if part.at > part.end {
            return Err(StreamError::Protocol("more data than the chunk has"));
        }
        let written = part.fd().map_or(Ok(()), |fd| write_all(fd, pieces, start));
        self.clock.bytes(length);
        let result = written.or_else(|error| self.part_failed(error));
        self.clock.lap(Stage::Write);
        result
    }

    /// The rest of the part is as an earlier run brought it, or as the older version has it.
    pub(super) fn same(&mut self) -> Result<(), StreamError> {
        let unasked = StreamError::Protocol("a chunk as it is said to be here, which it isn't");
        let Some(part) = &mut self.part else { return Err(unasked) };
        let (start, end) = (part.at, part.end);
        part.at = end;
        let copied = match &part.target {
            Target::Shared(assembly) => match &assembly.basis {
                Some(basis) if basis.has(start, end) => basis.copy(assembly.file.as_fd(), start, end),
                None if assembly.is_there(end - part.length, part.length) => Ok(()),
                _ => return Err(unasked),
            },
            Target::Whole(..) => return Err(unasked),
            Target::Standing(..) | Target::Dropped => Ok(()),
        };
        copied.or_else(|error| self.part_failed(error))?;
        self.shared.counters.unchanged.bytes(end - start);
        self.clock.lap(Stage::Write);
        self.came()
    }

    /// The next bytes take no space at the sender, so they take none here: nothing is written where they are.
    pub(super) fn hole(&mut self) -> Result<(), StreamError> {
        let length = <[u8; 8]>::try_from(self.payload.as_slice()).map(u64::from_le_bytes);
        let length = length.map_err(|_| StreamError::Protocol("a damaged hole"))?;
        if !self.shared.keep.sparse {
            return Err(StreamError::Protocol("a hole that wasn't asked for"));
        }
        let part = self.part.as_mut().ok_or(StreamError::Protocol("a hole without a chunk"))?;
        if matches!(part.target, Target::Standing(..)) {
            return Err(StreamError::Protocol(STANDS));
        }
        if length == 0 || length > part.left() {
            return Err(StreamError::Protocol("a hole that isn't in its chunk"));
        }
        let start = part.at;
        part.at += length;
        let result = part.size().and_then(|()| part.empty(start, length));
        let result = result.or_else(|error| self.part_failed(error));
        self.clock.bytes(length);
        self.clock.lap(Stage::Write);
        result?;
        self.came()
    }

    /// Bytes of a part came. Where digests are told, its own is still to come when it is whole.
    pub(super) fn came(&mut self) -> Result<(), StreamError> {
        let is_finished = !self.shared.digests && self.part.as_ref().is_some_and(Part::is_whole);
        if is_finished {
            return self.finish_part(None);
        }
        self.clock.flush_with(self.shared.counters, || None);
        Ok(())
    }

    /// The first failure of a file is told; what still comes of it is dropped.
    fn part_failed(&mut self, error: Errno) -> Result<(), StreamError> {
        let Some(part) = &mut self.part else { return Ok(()) };
        let number = part.number;
        let (entry, place, first) = match std::mem::replace(&mut part.target, Target::Dropped) {
            Target::Whole(_, entry, place) | Target::Standing(_, entry, place) => (entry, place, true),
            Target::Shared(assembly) => {
                // What a full disk has of it is what the next run goes on from.
                let first = if is_fatal(error) { !assembly.stop() } else { !assembly.give_up() };
                (assembly.entry.clone(), assembly.place.clone(), first)
            }
            Target::Dropped => return Ok(()),
        };
        (self.shared.skip)(number);
        if first { self.failed(&place, &entry, error) } else { Ok(()) }
    }

    /// The part is finished only when its digest has come.
    pub(super) fn digest(&mut self) -> Result<(), StreamError> {
        let whole = self.part.as_ref().is_some_and(Part::is_whole);
        match Digest::try_from(self.payload.as_slice()) {
            Ok(digest) if whole => self.finish_part(Some(digest)),
            _ => Err(StreamError::Protocol("a digest that has no place")),
        }
    }

    pub(super) fn finish_part(&mut self, digest: Option<Digest>) -> Result<(), StreamError> {
        let Some(part) = self.part.take() else { return Ok(()) };
        match part.target {
            Target::Whole(temporary, entry, place) => self.complete(temporary, &entry, &place, digest)?,
            Target::Standing(file, entry, place) => self.stands(file, &entry, &place, digest),
            // Of a file that failed elsewhere this part's bytes may have been dropped.
            Target::Shared(assembly) if assembly.has_failed() => {}
            Target::Shared(assembly) => {
                let offset = part.end - part.length;
                if !lock(&assembly.covered).add(offset, part.length) {
                    return Err(StreamError::Protocol(
                        "parts of a file that lie on each other, or far from each other",
                    ));
                }
                let length = part.length;
                lock(&assembly.digests).extend(digest.map(|digest| digest::Part { offset, length, digest }));
                assembly.write_down(offset, part.length, self.shared.journal);
                if assembly.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.assembled(part.number, &assembly)?;
                }
            }
            Target::Dropped => {}
        }
        self.clock.flush_with(self.shared.counters, || None);
        Ok(())
    }

    fn assembled(&mut self, number: u64, assembly: &Assembly) -> Result<(), StreamError> {
        lock(&self.shared.assemblies).remove(&number);
        let temporary = lock(&assembly.temporary).take();
        let Some(temporary) = temporary else { return Ok(()) };
        if !assembly.is_covered() {
            temporary.discard();
            return Err(StreamError::Protocol("the parts of a file don't add up to it"));
        }
        if assembly.basis.as_ref().is_some_and(|basis| basis.has_changed(self.shared.inplace)) {
            let shown = self.shown(&assembly.place);
            let message = "was written to by somebody else while it was compared; run it again";
            (self.shared.problem)(problem(shown, ProblemKind::Failed, message));
            return Ok(());
        }
        match self.shared.digests.then(|| assembly.digest()).transpose() {
            Ok(digest) => self.complete(temporary, &assembly.entry, &assembly.place, digest),
            Err(breach) => {
                temporary.discard();
                Err(breach)
            }
        }
    }

    fn complete(
        &mut self,
        temporary: Temporary,
        entry: &Entry,
        place: &RelPath,
        digest: Option<Digest>,
    ) -> Result<(), StreamError> {
        self.clock.entries(1);
        self.hand_on(temporary, place, entry, digest).or_else(|error| self.failed(place, entry, error))?;
        self.hand_over();
        Ok(())
    }

    /// What was there already is compared and counted like what came.
    fn stands(&mut self, temporary: Temporary, entry: &Entry, place: &RelPath, digest: Option<Digest>) {
        self.clock.entries(1);
        let name = place.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
        let (kind, shown) = (entry.kind.clone(), self.shown(place));
        let proof = digest.map(|digest| Proof::of(entry, digest));
        self.whole.push(Finished { temporary, name, kind, shown, proof, journalled: None });
        self.hand_over();
    }

    /// The sender can't finish the file and has told why.
    pub(super) fn give_up(&mut self) -> Result<(), StreamError> {
        match self.part.take().map(|part| part.target) {
            Some(Target::Shared(assembly)) => drop(assembly.give_up()),
            Some(Target::Whole(..) | Target::Standing(..) | Target::Dropped) => {}
            None => return Err(StreamError::Protocol("a chunk is given up that was not begun")),
        }
        Ok(())
    }
}

/// Bytes of a chunk, by one of them; the last one says it by where it begins.
fn cut(chunk: &Chunk) -> u64 {
    match chunk.entry.kind {
        Kind::File { size } if chunk.offset + chunk.length == size && chunk.parts > 1 => {
            chunk.offset / u64::from(chunk.parts - 1)
        }
        _ => chunk.length,
    }
}

/// True where a part is one of the chunks of this many bytes that a file is cut into.
fn is_chunk(offset: u64, length: u64, size: u64, chunk: u64) -> bool {
    chunk > 0 && offset.is_multiple_of(chunk) && length == chunk.min(size.saturating_sub(offset))
}

fn write_zeros(fd: BorrowedFd<'_>, mut at: u64, length: u64) -> Result<(), Errno> {
    let (zeros, end) = ([0; 64 << 10], at + length);
    while at < end {
        let piece = usize::try_from(end - at).unwrap_or(zeros.len()).min(zeros.len());
        write_all(fd, &mut [IoSlice::new(&zeros[..piece])], at)?;
        at += piece as u64;
    }
    Ok(())
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
            Target::Shared(assembly) if assembly.may_be_here() && self.is_untouched() => 0,
            Target::Standing(..) => 0,
            _ => self.left(),
        }
    }

    fn is_untouched(&self) -> bool {
        self.left() == self.length
    }

    /// Gives the file its size, which a hole at its end wouldn't.
    fn size(&mut self) -> Result<(), Errno> {
        if let (Target::Whole(temporary, ..), false) = (&self.target, self.sized) {
            rustix::fs::ftruncate(temporary.fd()?, self.end)?;
            self.sized = true;
        }
        Ok(())
    }

    /// What an older version has where the new one has a hole, goes.
    fn empty(&self, start: u64, length: u64) -> Result<(), Errno> {
        let Target::Shared(assembly) = &self.target else { return Ok(()) };
        if !assembly.has_old_bytes {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&assembly.file, flags, start, length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(assembly.file.as_fd(), start, length),
            other => other,
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.target {
            Target::Whole(temporary, ..) => temporary.fd().ok(),
            Target::Shared(assembly) if assembly.failed.load(Ordering::Relaxed) => None,
            Target::Shared(assembly) => Some(assembly.file.as_fd()),
            Target::Standing(..) | Target::Dropped => None,
        }
    }
}

impl Assembly {
    fn new(temporary: Temporary, chunk: &Chunk, place: &RelPath) -> Result<Self, Errno> {
        Ok(Self {
            file: temporary.fd()?.try_clone_to_owned().map_err(|_| Errno::MFILE)?,
            temporary: Mutex::new(Some(temporary)),
            has_old_bytes: false,
            basis: None,
            entry: chunk.entry.clone(),
            place: place.clone(),
            left: AtomicU32::new(chunk.parts),
            covered: Mutex::default(),
            digests: Mutex::default(),
            failed: AtomicBool::new(false),
            listed: Mutex::new(Listed { chunk: cut(chunk), ..Listed::default() }),
            there: HashSet::new(),
            origin: chunk.origin,
        })
    }

    fn resumed(resumed: Resumed, chunk: &Chunk, place: &RelPath) -> Result<Self, Errno> {
        let Resumed { temporary, partial, there } = resumed;
        let index = Some(partial.index);
        // All of it is on stable storage since it was opened again.
        let listed = Listed { index, chunk: partial.chunk, chunks: there.clone(), stable: there.len() };
        let new = Self::new(temporary, chunk, place)?;
        Ok(Self { listed: Mutex::new(listed), there, has_old_bytes: true, ..new })
    }

    /// Tells the journal that a part is written, where the parts are such that it can.
    fn write_down(&self, offset: u64, length: u64, journal: &Journal) {
        let Kind::File { size } = self.entry.kind else { return };
        if !journal.is_wanted() {
            return;
        }
        let mut listed = lock(&self.listed);
        if !is_chunk(offset, length, size, listed.chunk) {
            return;
        }
        if listed.index.is_none() {
            listed.index = self.list(size, listed.chunk, journal);
        }
        let number = (offset / listed.chunk) as u32;
        if let Some(index) = listed.index
            && !listed.chunks.contains(&number)
            && journal.chunk(index, number)
        {
            // So no more of them are remembered than a journal can hold, whatever a peer calls a chunk.
            listed.chunks.insert(number);
        }
    }

    /// True where the sender may say of a part that it is here.
    fn may_be_here(&self) -> bool {
        self.basis.is_some() || !self.there.is_empty()
    }

    /// True where an earlier run brought this part.
    fn is_there(&self, offset: u64, length: u64) -> bool {
        let (Kind::File { size }, chunk) = (&self.entry.kind, lock(&self.listed).chunk) else { return false };
        is_chunk(offset, length, *size, chunk) && self.there.contains(&((offset / chunk) as u32))
    }

    /// Its number in the journal, which it gets now.
    fn list(&self, size: u64, chunk: u64, journal: &Journal) -> Option<u32> {
        let mut temporary = lock(&self.temporary);
        let temporary = temporary.as_mut()?;
        // What is copied from an older version may turn out to have changed meanwhile; what is written in place has no
        // name of its own.
        if self.basis.is_some() || temporary.name().is_empty() || !journal.covers(temporary.parent()) {
            return None;
        }
        let index = journal.partial(Partial {
            index: 0,
            place: self.place.clone(),
            name: temporary.name().as_bytes().to_vec(),
            mark: mark(&self.entry),
            origin: self.origin,
            inode: temporary.inode().ok()?,
            size,
            chunk,
        })?;
        temporary.keep();
        Some(index)
    }

    /// Puts what is written on stable storage, and tells the journal.
    pub fn settle(&self, journal: &Journal) {
        let (index, chunks) = {
            let listed = lock(&self.listed);
            let Some(index) = listed.index.filter(|_| listed.chunks.len() > listed.stable) else { return };
            (index, listed.chunks.clone())
        };
        // Failed or not, this is the last to be told: the others can't know.
        match rustix::fs::fdatasync(&self.file) {
            Ok(()) => {
                lock(&self.listed).stable = chunks.len();
                journal.stable(index, &chunks);
            }
            Err(_) => journal.distrust(),
        }
    }

    /// True where the file was given up.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The parts are the file.
    fn is_covered(&self) -> bool {
        matches!(self.entry.kind, Kind::File { size } if lock(&self.covered).is_all_of(size))
    }

    /// The root of what the sender read.
    fn digest(&self) -> Result<Digest, StreamError> {
        let Kind::File { size } = self.entry.kind else {
            return Err(StreamError::Protocol("parts of what is no file"));
        };
        let parts = std::mem::take(&mut *lock(&self.digests));
        digest::join(parts, size)
            .ok_or(StreamError::Protocol("parts of a file whose digests can't be joined"))
    }

    /// Takes no more of the file, and leaves what the journal lists; true where it had failed before.
    fn stop(&self) -> bool {
        self.failed.swap(true, Ordering::AcqRel)
    }

    /// Removes what is there of the file; true where somebody did so before.
    pub(super) fn give_up(&self) -> bool {
        if let Some(temporary) = lock(&self.temporary).take() {
            temporary.discard();
        }
        self.failed.swap(true, Ordering::AcqRel)
    }
}
