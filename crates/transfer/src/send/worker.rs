//! A sending worker: takes units from the queue and sends their entries on one stream.

use linerate_wire::control::ProblemKind;
use linerate_wire::entry::{Chunk, Entry};
use linerate_wire::frame::FrameKind;
use linerate_wire::path::RelPath;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::problem::problem;
use crate::net::clock::{Clock, Stage};
use crate::net::pace::StreamReport;
use crate::net::stream::{DATA_FRAME, FrameWriter, Stream, StreamError};
use crate::send::compressing::Packing;
use crate::send::delta::{Copied, DeltaPart};
use crate::send::part_reading::PartReading;
use crate::send::plan::{BATCH_BYTES, HeldChunks, LargeFile, Unit};
use crate::send::reading::{CHANGED, OpenedSource, SHORTER, file_size, open_large};
use crate::send::speed::{Others, Speed};
use crate::send::thorough::Thoroughness;
use crate::send::transmission::Transmission;
use crate::send::work::Work;
use crate::tree::blocks::MovedProof;
use crate::tree::digest::Hashing;
use crate::tree::metadata::holes::{Run, next_run};
use crate::tree::reading::{hash, read_while};
use crate::tree::root::Directory;

/// The kind of a problem with a file that is being sent, and the message.
pub(super) type FileProblem = (ProblemKind, String);

/// The worker that sends on one stream.
pub struct SendWorker<'a> {
    pub(super) shared: &'a Transmission<'a>,
    pub(super) stream: FrameWriter,
    /// This host's address on the link that the stream uses.
    link: Option<IpAddr>,
    work: &'a Work,
    pub(super) clock: Clock,
    speed: Speed,
    /// True if the other workers are so much faster that this worker leaves its remaining work to them.
    leaves: bool,
    /// The stream's last report to the pace.
    reported: StreamReport,
    pub(super) payload: Vec<u8>,
    /// Decides whether searching for blocks at every offset is worthwhile.
    pub(super) thorough: Thoroughness,
    /// The next bytes of the part that are also in an older version and that haven't been reported yet.
    pub(super) copied: Copied,
    pub(super) packing: Option<Box<Packing<'a>>>,
    /// The files in the current batch, if each file is reported after it was sent.
    pub(super) batched: Vec<Entry>,
    /// Bytes in the current batch that belong to files whose names show that their contents are already
    /// compressed.
    pub(super) skipped: u64,
    /// The directory of the last small file and the number of its source. The next file is usually in the
    /// same directory.
    pub(super) parent: Option<(u32, RelPath, Arc<Directory>)>,
}

impl<'a> SendWorker<'a> {
    /// A worker that sends the units of `work` on `stream`.
    pub fn new(shared: &'a Transmission<'a>, stream: Stream, work: &'a Work) -> Self {
        shared.working.fetch_add(1, Ordering::AcqRel);
        let link = stream.local_address();
        // Only the first worker on a link asks the kernel for the link's rate.
        if shared.links.add(link) {
            shared.counters.leaves_by(stream.link_rate());
        }
        Self {
            shared,
            link,
            stream: match shared.chain {
                Some(chain) => stream.into_sealed_writer(chain.clone()),
                None => stream.into_writer(),
            },
            work,
            clock: Clock::start(),
            speed: Speed::new(),
            leaves: false,
            reported: StreamReport::default(),
            payload: Vec::new(),
            thorough: Thoroughness::new(shared.search),
            copied: Copied::default(),
            packing: shared.compressing.as_ref().map(|wanted| Box::new(Packing::new(wanted))),
            batched: Vec::new(),
            skipped: 0,
            parent: None,
        }
    }

    /// Sends units until none are left or this worker should leave, and then ends the stream.
    ///
    /// # Errors
    /// If the stream breaks. Problems with single files are reported, and these files are skipped.
    pub fn run(mut self) -> Result<(), StreamError> {
        let work = self.work;
        while !self.leaves
            && (self.is_alone() || !self.shared.is_dropped(self.link))
            && let Some(mut taken) = self.next(work)?
        {
            self.clock.lap(Stage::Queue);
            self.speed.begin();
            taken.unit().map_or(Ok(()), |unit| self.unit(unit))?;
            self.speed.end();
            self.flush();
        }
        self.stop_packing()?;
        self.clock.lap(Stage::Queue);
        let tcp = self.stream.end(&mut self.clock)?;
        self.clock.finish(self.shared.counters, tcp);
        Ok(())
    }

    fn unit(&mut self, unit: Unit) -> Result<(), StreamError> {
        let length = if let Unit::Chunk { length, .. } = &unit { *length } else { BATCH_BYTES };
        if self.yields(length) {
            self.work.give_back([unit]);
            return Ok(());
        }
        match unit {
            Unit::Batch(entries) => self.batch(entries),
            Unit::Chunk { file, offset, length } => self.chunk(&file, offset, length),
        }
    }

    /// True if this worker should leave `rest` bytes to the other workers, which will send them much sooner.
    /// This worker then ends.
    fn yields(&mut self, rest: u64) -> bool {
        let (shared, counters) = (self.shared, self.shared.counters);
        let workers = shared.working.load(Ordering::Acquire).saturating_sub(1);
        if workers == 0 || self.leaves || !counters.scanned.load(Ordering::Acquire) {
            return false;
        }
        let (bytes, busy) = counters.worked();
        let to_do = counters.found.get().bytes.saturating_sub(counters.unchanged.get().bytes);
        let left = if self.work.is_empty() { 0 } else { to_do.saturating_sub(bytes) };
        self.leaves = self.speed.is_outrun(rest, Others { bytes, busy, workers, left }) && shared.lets_go();
        self.leaves
    }

    pub(super) fn count(&mut self, bytes: u64) {
        self.clock.bytes(bytes);
        self.speed.count(bytes);
        if self.shared.member.is_some_and(|member| member.advance(bytes, self.shared.stop)) {
            self.clock.lap(Stage::Queue);
        }
    }

    pub(super) fn flush(&mut self) {
        self.clock.flush_with(self.shared.counters, || self.stream.tcp_info());
    }

    pub(super) fn chunk(
        &mut self,
        file: &Arc<LargeFile>,
        offset: u64,
        length: u64,
    ) -> Result<(), StreamError> {
        if self.shared.stop.load(Ordering::Relaxed) || file.given_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.ends_early(file) {
            self.append(&mut file.entry.clone())?;
            return self.send_batch();
        }
        let (offset, length) = self.behind_beginning(file, offset, length);
        self.shared.under_way.begin(file);
        let (entry, parts, origin) = (file.entry.clone(), file.parts.load(Ordering::Acquire), file.origin);
        let mut chunk = Chunk { entry, file: file.number, offset, length, parts, origin };
        let header = postcard::to_stdvec(&chunk).expect("a chunk is always encodable");
        self.frame(FrameKind::Chunk, &header)?;
        let (mut hashing, mut moved) = (self.hashing(&chunk)?, None);
        self.copied = Copied::default();
        let is_skipped = self.skips(&file.entry);
        self.packing.iter_mut().for_each(|packing| packing.begin((offset, length), is_skipped));
        let sent = match self.is_there(file, offset, length) {
            _ if let HeldChunks::Blocks(table) = &file.there => {
                let (hashing, moved) = (&mut hashing, &mut moved);
                let part = DeltaPart { file, table, offset, length, hashing, moved };
                self.delta(part)?.map(|()| length)
            }
            Ok(true) => self.same(file, offset, length, &mut hashing)?.map(|()| length),
            Ok(false) => self.contents(file, offset, length, &mut hashing)?,
            Err(problem) => Err(problem),
        };
        match sent {
            Ok(sent) => {
                if sent < length {
                    self.split(file, &chunk, sent)?;
                    (chunk.length, hashing) = (sent, hashing.map(Hashing::as_part));
                }
                self.send_digest(file, &chunk, hashing, moved)?;
                self.finish_part(file);
            }
            Err((kind, why)) => self.give_up(file, kind, &why)?,
        }
        Ok(())
    }

    /// Ends a part of a file that can't be read any more, and gives up the file.
    fn give_up(&mut self, file: &LargeFile, kind: ProblemKind, why: &str) -> Result<(), StreamError> {
        file.given_up.store(true, Ordering::Relaxed);
        self.shared.digests.iter().for_each(|known| known.forget(file.number));
        self.frame(FrameKind::GiveUp, &[])?;
        if !self.shared.stop.load(Ordering::Relaxed) {
            self.report(&file.entry, kind, why);
        }
        Ok(())
    }

    /// Ends a part after `sent` bytes, and leaves the rest to the other workers.
    fn split(&mut self, file: &Arc<LargeFile>, chunk: &Chunk, sent: u64) -> Result<(), StreamError> {
        let rest = file.split(chunk.offset, chunk.offset + sent, chunk.offset + chunk.length);
        let parts = file.parts.load(Ordering::Acquire);
        self.work.give_back(rest);
        self.frame(FrameKind::Split, &parts.to_le_bytes())
    }

    /// Tells the receiver that it already has the bytes of a part. If a digest is sent, it is computed from
    /// this end's bytes.
    fn same(
        &mut self,
        file: &LargeFile,
        offset: u64,
        length: u64,
        hashing: &mut Option<Hashing>,
    ) -> Result<Result<(), FileProblem>, StreamError> {
        if let Some(hashing) = hashing
            && let Err(problem) = self.hash_part(file, offset, length, hashing)
        {
            return Ok(Err(problem));
        }
        self.frame(FrameKind::Same, &[])?;
        self.shared.counters.matches(length);
        Ok(Ok(()))
    }

    pub(super) fn hash_part(
        &mut self,
        file: &LargeFile,
        offset: u64,
        length: u64,
        hashing: &mut Hashing,
    ) -> Result<(), FileProblem> {
        let opened = self.opened(file)?;
        let stop = self.shared.stop;
        let go_on = || !stop.load(Ordering::Relaxed) && !file.given_up.load(Ordering::Relaxed);
        let each = |read: &[u8]| hashing.update(read);
        let read = read_while(opened.as_fd(), offset, length, &mut self.payload, go_on, each);
        self.clock.lap(Stage::Read);
        match read {
            Ok(true) => Ok(()),
            Ok(false) => Err((ProblemKind::Changed, SHORTER.into())),
            Err(error) => Err(read_problem(error)),
        }
    }

    /// Whether the receiver has the bytes of a part.
    fn is_there(&mut self, file: &LargeFile, offset: u64, length: u64) -> Result<bool, FileProblem> {
        let number = (offset / (file.cut.max(1))) as usize;
        match &file.there {
            HeldChunks::Nothing | HeldChunks::Blocks(_) | HeldChunks::Beginning(..) => Ok(false),
            HeldChunks::Present(present) => {
                Ok(present.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1))
            }
            HeldChunks::Older(digests) => {
                let Some(theirs) = digests.get(number) else { return Ok(false) };
                let opened = self.opened(file)?;
                let ours = hash(opened.as_fd(), offset, length, &mut self.payload);
                self.clock.lap(Stage::Read);
                Ok(ours.map_err(read_problem)? == Some(*theirs))
            }
        }
    }

    /// The part without its beginning, if the receiver has the same beginning. If the file can't be read, the
    /// error is reported later, when its bytes are sent.
    fn behind_beginning(&mut self, file: &LargeFile, offset: u64, length: u64) -> (u64, u64) {
        let HeldChunks::Beginning(from, digest) = file.there else { return (offset, length) };
        if let Some(theirs) = digest {
            let Ok(opened) = self.opened(file) else { return (offset, length) };
            let ours = hash(opened.as_fd(), 0, from, &mut self.payload);
            self.clock.lap(Stage::Read);
            if !matches!(ours, Ok(Some(ours)) if ours == theirs) {
                return (offset, length);
            }
        }
        self.shared.counters.matches(from);
        (from, length - from)
    }

    /// The file, opened by the first worker that needs it.
    pub(super) fn opened<'f>(&self, file: &'f LargeFile) -> Result<&'f OpenedSource, FileProblem> {
        let source = &self.shared.sources[file.entry.source as usize];
        let opened = file.descriptor.get_or_init(|| open_large(source, &file.entry));
        opened.as_ref().map_err(|error| read_problem(*error))
    }

    /// Sends the bytes of a part, or only the first of them if other workers should send the rest; returns
    /// the number of bytes. The outer error is an error of the stream, the inner one a problem with the file.
    fn contents(
        &mut self,
        file: &LargeFile,
        offset: u64,
        length: u64,
        hashing: &mut Option<Hashing>,
    ) -> Result<Result<u64, FileProblem>, StreamError> {
        let opened = match self.opened(file) {
            Ok(opened) => opened,
            Err(problem) => return Ok(Err(problem)),
        };
        let descriptor = opened.as_fd();
        let mut reading = PartReading::new(file, opened, (offset, length), self.shared.member);
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let run = if file.sparse { next_run(descriptor, at, end) } else { Run::Data(end - at) };
            let run = if self.shared.splits { run.up_to(next_split(at - offset)) } else { run };
            match run {
                Run::Hole(length) => {
                    hashing.iter_mut().for_each(|hashing| hashing.update_zeros(length));
                    self.hole(length)?;
                }
                Run::Data(length) => {
                    if let Err(problem) = self.data(&mut reading, at, length, hashing)? {
                        return Ok(Err(problem));
                    }
                }
            }
            let (Run::Hole(length) | Run::Data(length)) = run;
            at += length;
            if at < end && self.splits(file, at - offset, end - at) {
                break;
            }
        }
        Ok(Ok(at - offset))
    }

    /// True if a part should end after `sent` bytes, so that other workers send the remaining `rest` bytes.
    /// The bytes that were sent must be a subtree of the file's hash tree. Files with chunks of an earlier
    /// run or of an older version aren't split.
    fn splits(&mut self, file: &LargeFile, sent: u64, rest: u64) -> bool {
        let may = self.shared.splits && matches!(file.there, HeldChunks::Nothing);
        may && sent.is_power_of_two() && sent >= DATA_FRAME as u64 && (self.yields(rest) || self.shares(rest))
    }

    /// True if workers are idle and `rest` more bytes would take this worker long, so that the workers should
    /// share them.
    fn shares(&mut self, rest: u64) -> bool {
        self.work.is_wanted() && self.speed.takes_long(rest)
    }

    pub(super) fn hole(&mut self, length: u64) -> Result<(), StreamError> {
        self.frame(FrameKind::Hole, &length.to_le_bytes())?;
        self.count(length);
        self.flush();
        Ok(())
    }

    fn data(
        &mut self,
        reading: &mut PartReading<'_>,
        offset: u64,
        length: u64,
        hashing: &mut Option<Hashing>,
    ) -> Result<Result<(), FileProblem>, StreamError> {
        if hashing.is_none() && self.stream.within().is_some() {
            return self.ranges(reading.descriptor(), offset, length);
        }
        let (mut at, end) = (offset, offset + length);
        while at < end {
            if let Some(want) = self.next_packed(at, end)? {
                if let Err(problem) = self.packed_data(reading, at, want, hashing)? {
                    return Ok(Err(problem));
                }
                at += want as u64;
                continue;
            }
            let want = usize::try_from(end - at).unwrap_or(DATA_FRAME).min(DATA_FRAME);
            let behind = at + want as u64;
            let packing = self.packing.as_mut();
            let sure = packing.map_or(0, |packing| packing.promise(behind, end, &self.clock));
            self.limit(want);
            let read = |places: &mut [IoSliceMut<'_>]| match reading.fill(places, at, hashing.as_mut()) {
                Ok(got) if got < want => Err((ProblemKind::Changed, SHORTER.into())),
                Ok(_) => Ok(()),
                Err(error) => Err(read_problem(error)),
            };
            if let Err(problem) = self.stream.send_data(want, sure, &mut self.clock, read)? {
                return Ok(Err(problem));
            }
            self.count(want as u64);
            self.flush();
            at = behind;
        }
        Ok(Ok(()))
    }

    /// Sends bytes of a chunk that may be compressible.
    fn packed_data(
        &mut self,
        reading: &mut PartReading<'_>,
        at: u64,
        want: usize,
        hashing: &mut Option<Hashing>,
    ) -> Result<Result<(), FileProblem>, StreamError> {
        self.payload.resize(want, 0);
        let read = reading.fill(&mut [IoSliceMut::new(&mut self.payload)], at, hashing.as_mut());
        self.clock.lap(Stage::Read);
        match read {
            Ok(got) if got < want => return Ok(Err((ProblemKind::Changed, SHORTER.into()))),
            Ok(_) => {}
            Err(error) => return Ok(Err(read_problem(error))),
        }
        self.send_payload(FrameKind::Data)?;
        self.count(want as u64);
        self.flush();
        Ok(Ok(()))
    }

    /// The hasher for the digest of a part, if digests are requested.
    fn hashing(&self, chunk: &Chunk) -> Result<Option<Hashing>, StreamError> {
        if self.shared.digests.is_none() {
            return Ok(None);
        }
        let hashing = Hashing::of(chunk.offset, chunk.length, file_size(&chunk.entry));
        hashing.map(Some).ok_or(StreamError::Protocol("a part of a file that has no digest"))
    }

    fn send_digest(
        &mut self,
        file: &LargeFile,
        chunk: &Chunk,
        hashing: Option<Hashing>,
        moved: Option<MovedProof>,
    ) -> Result<(), StreamError> {
        let digest = hashing.map(Hashing::finish);
        if let (Some(known), Some(digest)) = (&self.shared.digests, digest) {
            known.part(chunk, file.parts.load(Ordering::Acquire), digest);
        }
        let due: Vec<_> = digest.into_iter().chain(moved.map(|moved| moved.finish())).collect();
        if due.is_empty() {
            return Ok(());
        }
        self.frame(FrameKind::Digest, due.as_flattened())
    }

    /// Ends a part. If it was the last part of the file, checks whether the file is still the one that was
    /// scanned.
    fn finish_part(&mut self, file: &LargeFile) {
        if file.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        self.clock.entries(1);
        let Some(Ok(opened)) = file.descriptor.get() else { return };
        if opened.has_changed(&file.entry).unwrap_or(true) {
            self.report(&file.entry, ProblemKind::Changed, CHANGED);
        }
        self.shared.moved.iter().for_each(|moved| moved(&file.entry));
    }

    pub(super) fn limit(&mut self, bytes: usize) {
        let stop = || self.shared.stop.load(Ordering::Relaxed);
        if let Some(rate) = self.shared.rate {
            rate.take(bytes, stop);
            self.clock.lap(Stage::Limit);
        }
        if let Some(pace) = &self.shared.pace {
            let is_held = pace.take(&mut self.reported, bytes, || self.stream.tcp_info(), stop);
            self.clock.lap(Stage::Socket);
            self.clock.hold(is_held);
        }
    }

    pub(super) fn report(&self, entry: &Entry, kind: ProblemKind, message: &str) {
        let shown = self.shared.sources[entry.source as usize].shown(&entry.path);
        (self.shared.problem)(problem(shown, kind, message));
    }
}

/// The next number of bytes, after the first `sent` bytes of a part, at which the part may end early.
fn next_split(sent: u64) -> u64 {
    (sent + 1).next_power_of_two().max(DATA_FRAME as u64) - sent
}

pub(super) fn read_problem(error: Errno) -> FileProblem {
    match error {
        Errno::NOENT => (ProblemKind::Changed, "vanished before it was read".into()),
        error => (ProblemKind::Failed, format!("reading failed: {error}")),
    }
}
