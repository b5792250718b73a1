//! Sends a part of a large file as references to blocks of the receiver's older version, and as bytes that
//! the receiver doesn't have.

use linerate_wire::control::ProblemKind;
use linerate_wire::frame::FrameKind;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::net::clock::Stage;
use crate::net::stream::{DATA_FRAME, StreamError};
use crate::send::plan::LargeFile;
use crate::send::reading::{SHORTER, file_size};
use crate::send::search::{BlockTable, Piece, Search, Straddling};
use crate::send::worker::{FileProblem, SendWorker, read_problem};
use crate::tree::blocks::MovedProof;
use crate::tree::digest::Hashing;
use crate::tree::metadata::holes::{Run, next_run};
use crate::tree::reading::append_from;

/// Bytes per read. They stay in a processor's second-level cache while they are searched and hashed.
const READ: usize = 128 << 10;

/// The result of sending a part. The outer error is an error of the stream, the inner one a problem with the
/// file.
type DeltaResult<T> = Result<Result<T, FileProblem>, StreamError>;

/// Unwraps the result of a file operation. For a problem with the file, returns early from the function.
macro_rules! of_file {
    ($result:expr) => {
        match $result {
            Ok(done) => done,
            Err(problem) => return Ok(Err(problem)),
        }
    };
}

/// A part of a file for which blocks of an older version are known.
pub(super) struct DeltaPart<'p> {
    pub(super) file: &'p LargeFile,
    pub(super) table: &'p BlockTable,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The digest of the bytes so far, if the user requests digests.
    pub(super) hashing: &'p mut Option<Hashing>,
    /// The digest of the bytes that come from the older version, if any do.
    pub(super) moved: &'p mut Option<MovedProof>,
}

impl DeltaPart<'_> {
    fn hash(&mut self, bytes: &[u8]) {
        self.hashing.iter_mut().for_each(|hashing| hashing.update(bytes));
    }

    fn proof(&mut self) -> &mut MovedProof {
        self.moved.get_or_insert_default()
    }
}

/// A range of the older version that comes next in the part and wasn't reported to the receiver yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Copied {
    from: u64,
    length: u64,
}

impl SendWorker<'_> {
    /// Sends the bytes of `part`.
    pub(super) fn delta(&mut self, mut part: DeltaPart<'_>) -> DeltaResult<()> {
        let (mut start, mut end) = (part.offset, part.offset + part.length);
        let block = part.table.block() as u64;
        let head = of_file!(self.straddling(&part, start));
        let tail = of_file!(self.straddling(&part, end));
        if let Some(Straddling { at, from }) = head {
            of_file!(self.edge(&mut part, (start, at + block), from + (start - at))?);
            start = at + block;
        }
        end = tail.map_or(end, |tail| tail.at);
        of_file!(self.runs(&mut part, (start, end))?);
        if let Some(Straddling { at, from }) = tail {
            let end = part.offset + part.length;
            of_file!(self.edge(&mut part, (at, end), from)?);
        }
        self.name_copied()?;
        Ok(Ok(()))
    }

    /// Sends the bytes from `start` to `end`, which may contain holes.
    fn runs(&mut self, part: &mut DeltaPart<'_>, (start, end): (u64, u64)) -> DeltaResult<()> {
        let descriptor = of_file!(self.opened(part.file)).as_fd();
        let mut at = start;
        while at < end {
            let run = if part.file.sparse { next_run(descriptor, at, end) } else { Run::Data(end - at) };
            match run {
                Run::Hole(length) => {
                    part.hashing.iter_mut().for_each(|hashing| hashing.update_zeros(length));
                    self.name_copied()?;
                    self.hole(length)?;
                }
                Run::Data(length) => of_file!(self.search(part, (at, at + length))?),
            }
            let (Run::Hole(length) | Run::Data(length)) = run;
            at += length;
        }
        Ok(Ok(()))
    }

    /// The block that crosses `middle`, a boundary between two parts.
    fn straddling(&mut self, part: &DeltaPart<'_>, middle: u64) -> Result<Option<Straddling>, FileProblem> {
        let (block, size) = (part.table.block() as u64, file_size(&part.file.entry));
        if middle < block || middle >= size || size - middle < block {
            return Ok(None);
        }
        let descriptor = self.opened(part.file)?.as_fd();
        self.read(descriptor, middle - block, 2 * part.table.block())?;
        Ok(part.table.straddling(&self.payload, middle))
    }

    /// Sends the bytes from `start` to `end`, which are a piece of a block; in the older version, the piece
    /// is at `from`.
    fn edge(&mut self, part: &mut DeltaPart<'_>, (start, end): (u64, u64), from: u64) -> DeltaResult<()> {
        let descriptor = of_file!(self.opened(part.file)).as_fd();
        of_file!(self.read(descriptor, start, (end - start) as usize));
        part.hash(&self.payload);
        part.proof().piece(end - start);
        part.proof().bytes(&self.payload);
        self.copy(from, end - start)?;
        Ok(Ok(()))
    }

    /// Searches the bytes from `start` to `end` for blocks of the older version, and sends the references and
    /// new bytes.
    fn search(&mut self, part: &mut DeltaPart<'_>, (start, end): (u64, u64)) -> DeltaResult<()> {
        let (table, descriptor) = (part.table, of_file!(self.opened(part.file)).as_fd());
        let mut bytes = std::mem::take(&mut self.payload);
        let (mut search, mut read, mut looking) = (Search::new(table, start), start, Instant::now());
        bytes.clear();
        let sent = loop {
            let piece = search.next(&bytes, read == end, self.thorough.is_everywhere());
            match piece {
                Piece::New(range) => {
                    self.clock.lap(Stage::Read);
                    self.thorough.searched(range.len() as u64, looking.elapsed());
                    let new = &bytes[range];
                    part.hash(new);
                    self.new_bytes(new)?;
                }
                Piece::Old(range, from, hash) => {
                    let old = &bytes[range];
                    part.hash(old);
                    part.proof().block(hash);
                    self.copy(from, old.len() as u64)?;
                }
                Piece::More(gone) => {
                    self.clock.lap(Stage::Read);
                    self.flush();
                    if self.shared.stop.load(Ordering::Relaxed) {
                        break Err((ProblemKind::Changed, "was interrupted".into()));
                    }
                    bytes.drain(..gone);
                    search.forget(gone);
                    let want = (end - read).min(READ.max(2 * table.block()) as u64);
                    if let Err(problem) = append_all(descriptor, read, want as usize, &mut bytes) {
                        break Err(problem);
                    }
                    read += want;
                }
                Piece::End => break Ok(()),
            }
            looking = Instant::now();
        };
        self.payload = bytes;
        Ok(sent)
    }

    /// Reads exactly `length` bytes.
    fn read(&mut self, descriptor: BorrowedFd<'_>, from: u64, length: usize) -> Result<(), FileProblem> {
        self.payload.clear();
        let read = append_all(descriptor, from, length, &mut self.payload);
        self.clock.lap(Stage::Read);
        read
    }

    /// Sends bytes that the receiver doesn't have.
    fn new_bytes(&mut self, new: &[u8]) -> Result<(), StreamError> {
        self.name_copied()?;
        let begun = Instant::now();
        for mut some in new.chunks(DATA_FRAME) {
            let length = some.len();
            if self.packs(some)? {
                self.clock.packed(length);
                self.frame(FrameKind::Data, some)?;
                self.count(length as u64);
                continue;
            }
            self.limit(length);
            let put = |places: &mut [IoSliceMut<'_>]| {
                for place in places {
                    let (now, later) = some.split_at(place.len().min(some.len()));
                    place[..now.len()].copy_from_slice(now);
                    some = later;
                }
                Ok::<(), FileProblem>(())
            };
            // Reading from memory can't fail.
            let _ = self.stream.send_data(length, 0, &mut self.clock, put)?;
            self.count(length as u64);
        }
        self.flush();
        self.thorough.sent(new.len() as u64, begun.elapsed());
        Ok(())
    }

    /// Sends a reference to the next `length` bytes, which are at `from` in the older version. Adjacent
    /// ranges are joined into one reference.
    fn copy(&mut self, from: u64, length: u64) -> Result<(), StreamError> {
        if self.copied.length == 0 || self.copied.from + self.copied.length != from {
            self.name_copied()?;
            self.copied = Copied { from, length: 0 };
        }
        self.copied.length += length;
        Ok(())
    }

    fn name_copied(&mut self) -> Result<(), StreamError> {
        let Copied { from, length } = std::mem::take(&mut self.copied);
        if length == 0 {
            return Ok(());
        }
        let named = [from.to_le_bytes(), length.to_le_bytes()].concat();
        self.frame(FrameKind::Copy, &named)?;
        self.shared.counters.matches(length);
        self.flush();
        Ok(())
    }
}

/// Appends exactly `length` bytes of a file, from offset `from` on.
fn append_all(
    descriptor: BorrowedFd<'_>,
    from: u64,
    length: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), FileProblem> {
    let before = bytes.len();
    append_from(descriptor, from, length, bytes).map_err(read_problem)?;
    if bytes.len() - before < length { Err((ProblemKind::Changed, SHORTER.into())) } else { Ok(()) }
}
