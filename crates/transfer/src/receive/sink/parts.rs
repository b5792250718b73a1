//! Handles files that arrive in chunks: whole, or in parts on several streams.

use linerate_wire::control::{Digest, ProblemKind};
use linerate_wire::entry::{Chunk, Kind, Origin};
use linerate_wire::path::RelPath;
use rustix::fs::Stat;
use rustix::io::Errno;
use std::borrow::Cow;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::assemblies::Standing;
use super::assembly::{Assembly, least_chunk};
use super::basis::Basis;
use super::part::{Part, Target};
use super::progress::Progress;
use super::storage::in_room;
use super::{ReceiveWorker, Resumed};
use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::net::clock::Stage;
use crate::net::stream::{StreamError, total};
use crate::receive::admission::Admitted;
use crate::receive::commit::Finished;
use crate::receive::proof::Proof;
use crate::receive::wanted::open_existing;
use crate::tree::copying::write_all;
use crate::tree::digest;
use crate::tree::metadata::write::set_mode;
use crate::tree::root::Directory;
use crate::tree::temporary::Temporary;

/// A file that is changed in place (`--inplace`) keeps its old contents in whole blocks of this size in bytes, or not
/// at all. Otherwise a sender could leave a few old bytes among its own bytes, stop, and find out the old bytes from
/// the digests of the next run. Chunks for which digests are compared have at least this length.
pub const BLOCK: u64 = 1 << 20;

pub(super) const STANDS: &str = "data of a file of which only the digest was requested";

impl ReceiveWorker<'_> {
    pub(super) fn chunk(&mut self) -> Result<(), StreamError> {
        let damaged = StreamError::Protocol("a damaged chunk");
        let Ok(chunk) = postcard::from_bytes::<Chunk>(&self.payload) else { return Err(damaged) };
        if !chunk.is_consistent() || self.part.is_some() {
            return Err(damaged);
        }
        let under_way = Some(self.begins()?);
        let (number, at, length) = (chunk.file, chunk.offset, chunk.length);
        let (end, sized) = (at + length, chunk.parts > 1);
        let target = if sized { self.shared_target(chunk)? } else { self.whole_target(chunk)? };
        let progress = Progress::at(at);
        let (brought, has_edges) = (None, false);
        self.part =
            Some(Part { target, number, at, end, length, sized, brought, has_edges, progress, under_way });
        self.clock.lap(Stage::Write);
        if length == 0 && !self.shared.settings.digests { self.finish_part(None) } else { Ok(()) }
    }

    fn whole_target(&mut self, chunk: Chunk) -> Result<Target, StreamError> {
        let admitted = self.judge.admit(Cow::Owned(chunk.entry))?;
        let shorter = self.shared.notes.shorter.take(admitted.place());
        if chunk.offset > 0 {
            let Some(shorter) = shorter.filter(|shorter| shorter.st_size as u64 == chunk.offset) else {
                return Err(StreamError::Protocol(
                    "the rest of a file although this end didn't offer its beginning",
                ));
            };
            return self.rest_target((chunk.file, chunk.origin), admitted, shorter);
        }
        let stands = self.shared.notes.standing.get(admitted.place()).is_some();
        if !stands && self.leaves_alone(&admitted) {
            (self.shared.reports.skip)(chunk.file);
            return Ok(Target::Dropped);
        }
        match self.whole_file(&admitted) {
            Ok((file, true)) => Ok(Target::Standing(file, admitted)),
            Ok((file, false)) => Ok(Target::Whole(file, admitted, chunk.origin)),
            Err(error) => {
                self.failed(&admitted, error)?;
                (self.shared.reports.skip)(chunk.file);
                Ok(Target::Dropped)
            }
        }
    }

    /// The existing file, to which the missing bytes are appended.
    fn rest_target(
        &mut self,
        (file, origin): (u64, Origin),
        admitted: Admitted<'static>,
        shorter: Stat,
    ) -> Result<Target, StreamError> {
        match self.shorter_file(&admitted, &shorter) {
            Ok(shorter) => Ok(Target::Whole(shorter, admitted, origin)),
            Err(error) => {
                self.failed(&admitted, error)?;
                (self.shared.reports.skip)(file);
                Ok(Target::Dropped)
            }
        }
    }

    fn shorter_file(&mut self, admitted: &Admitted<'_>, seen: &Stat) -> Result<Temporary, Errno> {
        let place = admitted.place();
        let parent = self.parent_of(place)?;
        let (_, name) = place.split().ok_or(Errno::ISDIR)?;
        let mode = self.mode_in_place(place, admitted.entry(), &parent);
        self.shared.copy_backup(place, &parent, name)?;
        let file = Temporary::existing(parent, self.shared.ground.names, name, mode)?;
        let now = rustix::fs::fstat(file.fd()?)?;
        let is_same = (now.st_dev, now.st_ino, now.st_size) == (seen.st_dev, seen.st_ino, seen.st_size);
        if is_same { Ok(file) } else { Err(Errno::STALE) }
    }

    /// Opens or creates the file of a part that is the whole file; true if the file already exists and stays
    /// unchanged.
    fn whole_file(&mut self, admitted: &Admitted<'_>) -> Result<(Temporary, bool), Errno> {
        let place = admitted.place();
        let parent = self.parent_of(place)?;
        if let Some(seen) = self.shared.notes.standing.take(place) {
            let (_, name) = place.split().ok_or(Errno::ISDIR)?;
            let file = open_existing(&parent, name, &seen)?;
            return Ok((Temporary::standing(parent, file), true));
        }
        Ok((self.new_file(place, parent, admitted.entry())?, false))
    }

    pub(super) fn shared_target(&mut self, chunk: Chunk) -> Result<Target, StreamError> {
        let admitted = self.judge.admit(Cow::Owned(chunk.entry.clone()))?;
        let shared = self.shared;
        if shared.settings.inplace && !keeps_whole_blocks(&chunk) {
            return Err(StreamError::Protocol(
                "a part that isn't aligned with the blocks of the file, which is updated in place",
            ));
        }
        let mut assemblies = lock(&shared.notes.assemblies);
        match assemblies.standing(chunk.file) {
            Standing::Open(assembly) => {
                lock(&assembly.parts).expect(chunk.parts);
                return Ok(Target::Shared(assembly));
            }
            Standing::GivenUp => return Ok(Target::Dropped),
            Standing::New if assemblies.is_full() => {
                return Err(StreamError::Protocol("more unfinished files than allowed"));
            }
            Standing::New if self.leaves_alone(&admitted) => {
                assemblies.give_up(chunk.file);
                (shared.reports.skip)(chunk.file);
                return Ok(Target::Dropped);
            }
            Standing::New => {}
        }
        match self.begin(&chunk, &admitted) {
            Ok(assembly) => {
                let assembly = Arc::new(assembly);
                assemblies.begin(chunk.file, assembly.clone());
                Ok(Target::Shared(assembly))
            }
            Err(error) => {
                assemblies.give_up(chunk.file);
                drop(assemblies);
                self.failed(&admitted, error)?;
                (shared.reports.skip)(chunk.file);
                Ok(Target::Dropped)
            }
        }
    }

    fn begin(&mut self, chunk: &Chunk, admitted: &Admitted<'static>) -> Result<Assembly, Errno> {
        let place = admitted.place();
        let parent = self.parent_of(place)?;
        if let Some(awaited) = lock(&self.shared.notes.awaited).remove(place) {
            return self.begin_divided(awaited, chunk, admitted, parent);
        }
        if let Some(resumed) = self.resumed(chunk, place) {
            // If the earlier run ended just before it renamed the file, the file may already have its final
            // mode.
            set_mode(resumed.temporary.fd()?, self.first_mode(admitted.entry(), &parent))?;
            return Assembly::resumed(resumed, chunk, admitted);
        }
        let mut basis = self.shared.notes.older.take(place, &parent);
        let temporary = self.sized(self.new_parts(place, &parent, chunk, basis.as_mut())?, chunk)?;
        let has_old_bytes = basis.is_some() || self.shared.settings.inplace;
        Ok(Assembly::new(temporary, chunk, admitted)?.over(basis, has_old_bytes))
    }

    /// The state of this file from an earlier run, if the sender continues with the same chunks.
    fn resumed(&self, chunk: &Chunk, place: &RelPath) -> Option<Resumed> {
        let resumed = lock(&self.shared.notes.resumed).remove(place)?;
        resumed.fits(chunk).then_some(resumed)
    }

    /// Creates the file for the parts. If the file system can share the blocks of the older version, the file contains
    /// the older version's bytes from the start.
    fn new_parts(
        &self,
        place: &RelPath,
        parent: &Arc<Directory>,
        chunk: &Chunk,
        basis: Option<&mut Basis>,
    ) -> Result<Temporary, Errno> {
        let mode = self.first_mode(&chunk.entry, parent);
        if let Some(existing) = self.existing_file(place, parent, &chunk.entry)? {
            basis.into_iter().for_each(Basis::is_written_into);
            return Ok(existing);
        }
        let temporary = self.make_file(place, parent, mode, true)?;
        if let Some(basis) = basis {
            basis.share_with(temporary.fd()?);
        }
        Ok(temporary)
    }

    /// Sets the file's size, because its parts may arrive in any order. A file that is changed in place keeps only
    /// whole blocks of old contents.
    fn sized(&self, temporary: Temporary, chunk: &Chunk) -> Result<Temporary, Errno> {
        let Kind::File { size } = chunk.entry.kind else { return Ok(temporary) };
        let file = temporary.fd()?;
        if temporary.is_in_place() {
            let kept = size.min(rustix::fs::fstat(file)?.st_size as u64);
            rustix::fs::ftruncate(file, kept - kept % BLOCK)?;
        }
        rustix::fs::ftruncate(file, size)?;
        self.shared.settings.take_room(file, &chunk.entry);
        Ok(temporary)
    }

    pub(super) fn data(&mut self, pieces: &[IoSlice<'_>]) -> Result<(), StreamError> {
        let length = total(pieces);
        let part = self.part.as_mut().ok_or(StreamError::Protocol("data outside a chunk"))?;
        let start = part.at;
        part.at += length;
        if matches!(part.target, Target::Standing(..)) {
            return Err(StreamError::Protocol(STANDS));
        }
        if part.at > part.end {
            return Err(StreamError::Protocol("more data than the chunk has"));
        }
        let write = || part.fd().map_or(Ok(()), |fd| write_all(fd, &mut pieces.to_vec(), start));
        let written = part.forget(start).and_then(|()| in_room(part.under_way.as_ref(), write));
        self.clock.bytes(length);
        let result = match written {
            Ok(()) => self.keep_progress(),
            Err(error) => self.part_failed(error),
        };
        self.clock.lap(Stage::Write);
        result
    }

    /// Handles a frame that states that the rest of the part is already here, from an earlier run or from the
    /// older version.
    pub(super) fn same(&mut self) -> Result<(), StreamError> {
        let unasked = StreamError::Protocol("a reference to a chunk that this end doesn't have");
        let Some(part) = &mut self.part else { return Err(unasked) };
        let (start, end) = (part.at, part.end);
        part.at = end;
        let copied = match &part.target {
            Target::Shared(assembly) => match &assembly.basis {
                _ if start + part.length != end => return Err(unasked),
                Some(basis) if basis.has(start, end) => basis.copy(assembly.file.as_fd(), start, end),
                None if assembly.is_there(start, part.length) => Ok(()),
                _ => return Err(unasked),
            },
            Target::Whole(..) => return Err(unasked),
            Target::Standing(..) | Target::Dropped => Ok(()),
        };
        copied.or_else(|error| self.part_failed(error))?;
        self.shared.reports.counters.matches(end - start);
        self.clock.lap(Stage::Write);
        self.came()
    }

    /// Handles a frame for bytes that are a hole at the sender: no bytes are written here either.
    pub(super) fn hole(&mut self) -> Result<(), StreamError> {
        let length = <[u8; 8]>::try_from(self.payload.as_slice()).map(u64::from_le_bytes);
        let length = length.map_err(|_| StreamError::Protocol("a damaged hole"))?;
        if !self.shared.settings.keep.sparse {
            return Err(StreamError::Protocol("a hole although holes weren't requested"));
        }
        let part = self.part.as_mut().ok_or(StreamError::Protocol("a hole outside a chunk"))?;
        if matches!(part.target, Target::Standing(..)) {
            return Err(StreamError::Protocol(STANDS));
        }
        if length == 0 || length > part.left() {
            return Err(StreamError::Protocol("a hole that extends beyond its chunk"));
        }
        let start = part.at;
        part.at += length;
        let result = part.size().and_then(|()| part.forget(start)).and_then(|()| part.empty(start, length));
        let result = result.or_else(|error| self.part_failed(error));
        self.clock.bytes(length);
        self.clock.lap(Stage::Write);
        result?;
        self.came()
    }

    /// Called when bytes of a part have arrived. If the part is complete, finishes it, unless its digest
    /// still follows.
    pub(super) fn came(&mut self) -> Result<(), StreamError> {
        if !self.awaits_digest() && self.part.as_ref().is_some_and(Part::is_whole) {
            return self.finish_part(None);
        }
        self.clock.flush_with(self.shared.reports.counters, || None);
        Ok(())
    }

    /// True if the part's digest follows its last bytes.
    pub(super) fn awaits_digest(&self) -> bool {
        self.shared.settings.digests || self.part.as_ref().is_some_and(|part| part.brought.is_some())
    }

    /// Handles an error of a file: reports the first error, and drops further parts of the file.
    pub(super) fn part_failed(&mut self, error: Errno) -> Result<(), StreamError> {
        let Some(part) = &mut self.part else { return Ok(()) };
        let number = part.number;
        let (admitted, first) = match std::mem::replace(&mut part.target, Target::Dropped) {
            Target::Whole(_, admitted, _) | Target::Standing(_, admitted) => (admitted, true),
            Target::Shared(assembly) => {
                let was_failed = assembly.stop();
                // If the disk is full, the arrived parts are kept, so that the next run can resume from them.
                if !self.shared.ends_everything(assembly.admitted.place(), error) {
                    lock(&self.shared.notes.assemblies).give_up(number);
                }
                (assembly.admitted.clone(), !was_failed)
            }
            Target::Dropped => return Ok(()),
        };
        part.under_way = None;
        (self.shared.reports.skip)(number);
        if first { self.failed(&admitted, error) } else { Ok(()) }
    }

    /// Handles a digest from the sender. A part is finished only after its own digest and, if it has pieces
    /// of an older version, after their digest.
    pub(super) fn digest(&mut self) -> Result<(), StreamError> {
        let misplaced = StreamError::Protocol("an unexpected digest");
        let Some(part) = self.part.as_ref().filter(|part| part.is_whole()) else { return Err(misplaced) };
        let (due, moved_due) = (self.shared.settings.digests, part.brought.is_some());
        let (digests, []) = self.payload.as_chunks::<32>() else { return Err(misplaced) };
        let (digest, moved) = match (digests, due, moved_due) {
            ([digest], true, false) => (Some(*digest), None),
            ([moved], false, true) => (None, Some(*moved)),
            ([digest, moved], true, true) => (Some(*digest), Some(*moved)),
            _ => return Err(misplaced),
        };
        if let Some(moved) = moved {
            self.check_brought(moved);
        }
        self.finish_part(digest)
    }

    pub(super) fn finish_part(&mut self, digest: Option<Digest>) -> Result<(), StreamError> {
        let Some(part) = self.part.take() else { return Ok(()) };
        match part.target {
            Target::Whole(temporary, admitted, origin) => {
                self.complete(temporary, &admitted, origin, digest)?;
            }
            Target::Standing(file, admitted) => self.stands(file, &admitted, digest),
            // If the file has failed in another part, bytes of this part may have been dropped, so its digest
            // isn't checked.
            Target::Shared(assembly) if assembly.has_failed() => {}
            Target::Shared(assembly) => {
                let offset = part.end - part.length;
                let is_last = lock(&assembly.parts).add(offset, part.length);
                let is_last = is_last.ok_or(StreamError::Protocol(
                    "overlapping parts of a file, or parts in too many places",
                ))?;
                let length = part.length;
                if let Err(error) = assembly.piece_came(offset, length) {
                    self.part = Some(Part { target: Target::Shared(assembly), ..part });
                    self.part_failed(error)?;
                    self.part = None;
                    return Ok(());
                }
                lock(&assembly.digests).extend(digest.map(|digest| digest::DigestPart {
                    offset,
                    length,
                    digest,
                }));
                let inplace = self.shared.settings.inplace;
                let least = assembly.size().filter(|_| part.progress.is_slow());
                let least = least.map(|size| least_chunk(size, inplace));
                assembly.write_down(offset, part.length, least, self.shared.ground.journal);
                if is_last {
                    self.assembled(part.number, &assembly)?;
                }
            }
            Target::Dropped => {}
        }
        self.clock.flush_with(self.shared.reports.counters, || None);
        Ok(())
    }

    /// Checks the digest of a part's pieces of an older version. If the digest differs, another process may have
    /// written to the older version meanwhile, and another run must send the file again. The sender learns the result
    /// only after it is clear that all pieces are whole blocks.
    fn check_brought(&mut self, theirs: Digest) {
        let Some(part) = &self.part else { return };
        let (Target::Shared(assembly), Some(brought)) = (&part.target, &part.brought) else { return };
        let is_right = brought.finish() == theirs;
        if part.has_edges || !is_right {
            assembly.unproven.fetch_min(part.end - part.length, Ordering::AcqRel);
        }
        if !is_right {
            assembly.is_wrong.store(true, Ordering::Release);
        }
        self.clock.lap(Stage::Cipher);
    }

    fn assembled(&mut self, number: u64, assembly: &Assembly) -> Result<(), StreamError> {
        lock(&self.shared.notes.assemblies).finish(number);
        let temporary = lock(&assembly.temporary).take();
        let Some(temporary) = temporary else { return Ok(()) };
        if !assembly.is_covered() {
            temporary.discard();
            return Err(StreamError::Protocol("parts that don't cover the file"));
        }
        if !lock(&assembly.edges).fit() {
            temporary.discard();
            return Err(StreamError::Protocol(
                "partial blocks of an older version that don't fit each other",
            ));
        }
        let is_wrong = assembly.is_wrong.load(Ordering::Acquire);
        if is_wrong
            || assembly.basis.as_ref().is_some_and(|basis| basis.has_changed(self.shared.settings.inplace))
        {
            let shown = self.shown(assembly.admitted.place());
            let message = "was changed at the destination by another program while it was compared; run the command again";
            (self.shared.reports.problem)(problem(shown, ProblemKind::Failed, message));
            return Ok(());
        }
        if let Some(divided) = &assembly.divided {
            return self.divided_came(temporary, assembly, divided);
        }
        match self.shared.settings.digests.then(|| assembly.digest()).transpose() {
            Ok(digest) => self.complete(temporary, &assembly.admitted, assembly.origin, digest),
            Err(breach) => {
                temporary.discard();
                Err(breach)
            }
        }
    }

    pub(super) fn complete(
        &mut self,
        temporary: Temporary,
        admitted: &Admitted<'_>,
        origin: Origin,
        digest: Option<Digest>,
    ) -> Result<(), StreamError> {
        self.clock.entries(1);
        self.hand_on(temporary, admitted, Some(origin), digest)
            .or_else(|error| self.failed(admitted, error))?;
        self.hand_over();
        Ok(())
    }

    /// Verifies and counts an existing file as if it had been received.
    fn stands(&mut self, temporary: Temporary, admitted: &Admitted<'_>, digest: Option<Digest>) {
        let (entry, place) = (admitted.entry(), admitted.place());
        self.clock.entries(1);
        let name = place.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
        let (kind, shown) = (entry.kind.clone(), self.shown(place));
        let proof = digest.map(|digest| Proof::of(entry, digest));
        let place = place.clone();
        let (reported, journalled) = (None, None);
        self.whole.push(Finished { temporary, place, name, kind, shown, proof, reported, journalled });
        self.hand_over();
    }

    /// Handles a frame by which the sender gives up the file; the sender has reported the reason.
    pub(super) fn give_up(&mut self) -> Result<(), StreamError> {
        match self.part.take() {
            Some(Part { target: Target::Shared(_), number, .. }) => {
                lock(&self.shared.notes.assemblies).give_up(number);
            }
            Some(_) => {}
            None => return Err(StreamError::Protocol("the cancellation of a chunk that wasn't begun")),
        }
        Ok(())
    }
}

/// True if the part begins at a boundary of blocks, and ends at such a boundary or at the end of the file. The parts of
/// a file that is changed in place must do so.
fn keeps_whole_blocks(chunk: &Chunk) -> bool {
    let end = chunk.offset + chunk.length;
    let is_last = matches!(chunk.entry.kind, Kind::File { size } if size == end);
    chunk.offset.is_multiple_of(BLOCK) && (is_last || end.is_multiple_of(BLOCK))
}
