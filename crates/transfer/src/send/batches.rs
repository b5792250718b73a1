//! Sends small files in batches, many files in one frame.

use linerate_wire::batch::Writer;
use linerate_wire::control::ProblemKind;
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::frame::FrameKind;
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::worker::{SendWorker, read_problem};
use crate::net::clock::Stage;
use crate::net::stream::StreamError;
use crate::send::fan::FanPiece;
use crate::send::reading::{CHANGED, NotRead, file_size, read_small, share_small};
use crate::tree::digest;

/// A batch is sent when its payload has this many bytes, even if its unit has more entries.
const BATCH_PAYLOAD: usize = 512 << 10;

impl SendWorker<'_> {
    pub(super) fn batch(&mut self, entries: Vec<Entry>) -> Result<(), StreamError> {
        self.payload.clear();
        for mut entry in entries {
            self.append(&mut entry)?;
            if self.payload.len() >= BATCH_PAYLOAD {
                self.send_batch()?;
            }
        }
        self.send_batch()
    }

    pub(super) fn send_batch(&mut self) -> Result<(), StreamError> {
        self.clock.lap(Stage::Read);
        if self.payload.is_empty() {
            return Ok(());
        }
        let is_skipped = std::mem::take(&mut self.skipped) > self.payload.len() as u64 / 2;
        self.packing.iter_mut().for_each(|packing| packing.begin((0, 0), is_skipped));
        self.send_payload(FrameKind::Batch)?;
        let batched = std::mem::take(&mut self.batched);
        self.shared.moved.iter().for_each(|moved| batched.iter().for_each(moved));
        Ok(())
    }

    /// Sends the payload, compressed if that is worthwhile.
    pub(super) fn send_payload(&mut self, kind: FrameKind) -> Result<(), StreamError> {
        let mut payload = std::mem::take(&mut self.payload);
        if self.packs(&payload)? {
            self.clock.packed(payload.len());
            self.frame(kind, &payload)?;
        } else {
            self.limit(payload.len());
            self.stream.send_all(kind, &mut payload, &mut self.clock)?;
        }
        payload.clear();
        self.payload = payload;
        Ok(())
    }

    /// True if the file's name shows that its contents are already compressed.
    pub(super) fn skips(&self, entry: &Entry) -> bool {
        let name = || self.shared.sources[entry.source as usize].full_path(&entry.path);
        self.packing.as_ref().is_some_and(|packing| packing.skips(name().as_bytes()))
    }

    pub(super) fn append(&mut self, entry: &mut Entry) -> Result<(), StreamError> {
        let shared = self.shared;
        let scanned = entry.clone();
        let opened = self.open_small(&scanned);
        let mut changed = false;
        let piece = RefCell::new(None);
        let read = |out: &mut Vec<u8>| match (opened?, shared.member) {
            (Some(fd), Some(member)) if file_size(&scanned) > 0 => share_small(fd, &scanned, member, out)
                .map(|(so, read)| (changed, *piece.borrow_mut()) = (so, read)),
            (opened, _) => read_small(opened, &scanned, out).map(|so| changed = so),
        };
        let known = || piece.borrow().as_ref().and_then(|piece: &Arc<FanPiece>| piece.digest());
        let digest =
            |read: &[u8]| shared.digests.as_ref().map(|_| known().unwrap_or_else(|| digest::of_bytes(read)));
        match Writer::new(&mut self.payload).push_with(entry, read, digest) {
            Ok(digest) => shared.digests.iter().for_each(|known| known.entry(entry, digest)),
            Err(NotRead::Large(opened)) => return self.unstated(scanned, opened),
            Err(NotRead::Error(error)) => {
                let (kind, message) = read_problem(error);
                self.report(&scanned, kind, &message);
                return Ok(());
            }
        }
        self.clock.entries(1);
        if shared.moved.is_some() && matches!(scanned.kind, Kind::File { .. }) {
            self.batched.push(Entry { extra: None, ..scanned.clone() });
        }
        self.skipped += if self.skips(entry) { file_size(entry) } else { 0 };
        self.count(file_size(entry));
        shared.counters.found.corrected(file_size(&scanned), file_size(entry));
        if changed {
            self.report(&scanned, ProblemKind::Changed, CHANGED);
        }
        Ok(())
    }

    /// Opens a small file by its name in its directory, which is held open; `None` for an entry without
    /// contents.
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
}
