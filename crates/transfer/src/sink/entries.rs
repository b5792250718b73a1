//! What comes in batches: directories, links and small files, each whole.

use linerate_wire::batch;
use linerate_wire::control::Digest;
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{Dev, FileType};
use rustix::io::Errno;
use std::io::IoSlice;

use super::{Worker, write_all};
use crate::clock::Stage;
use crate::lock::lock;
use crate::stream::StreamError;
use crate::temporary::Temporary;

impl Worker<'_> {
    pub(super) fn batch(&mut self) -> Result<(), StreamError> {
        let payload = std::mem::take(&mut self.payload);
        let records = match self.shared.digests {
            true => batch::Reader::with_digests(&payload),
            false => batch::Reader::new(&payload),
        };
        for record in records {
            self.land(record.map_err(|_| StreamError::Protocol("a damaged batch"))?)?;
        }
        self.payload = payload;
        self.hand_over();
        self.clock.lap(Stage::Write);
        self.clock.flush_with(self.shared.counters, || None);
        Ok(())
    }

    fn land(&mut self, record: batch::Record<'_>) -> Result<(), StreamError> {
        let batch::Record { entry, contents, digest } = record;
        let place = self.place(&entry)?;
        self.clock.entries(1);
        let landed = match &entry.kind {
            Kind::Directory => self.directory(&place, &entry),
            Kind::File { .. } => self.small_file(&place, &entry, contents, digest),
            Kind::Symlink { target } => self.symlink(&place, &entry, target),
            Kind::Device { block, major, minor } => {
                let kind = if *block { FileType::BlockDevice } else { FileType::CharacterDevice };
                self.special(&place, &entry, kind, rustix::fs::makedev(*major, *minor))
            }
            Kind::Fifo => self.special(&place, &entry, FileType::Fifo, 0),
            Kind::Socket => self.special(&place, &entry, FileType::Socket, 0),
            Kind::HardLink { source, path } => return self.further_name(place, &entry, *source, path),
        };
        landed.or_else(|error| self.failed(&place, &entry, error))
    }

    fn directory(&self, place: &RelPath, entry: &Entry) -> Result<(), Errno> {
        let shared = self.shared;
        let created = shared.first_directory_mode(entry);
        match place.split() {
            Some(_) if self.mode(entry) != created => shared.note_made(place),
            Some((parent, _)) => shared.note_made(&parent),
            None => {}
        }
        let is_new = self.with_access(place, || shared.landing.root.make_directory(place, created))?;
        if is_new && let Some((parent, _)) = place.split() {
            lock(&shared.changed).add(&shared.landing.root.directory(&parent)?);
        }
        shared.keep_directory(place, entry, is_new, false);
        shared.counters.landed.directory();
        Ok(())
    }

    fn small_file(
        &mut self,
        place: &RelPath,
        entry: &Entry,
        contents: &[u8],
        digest: Option<Digest>,
    ) -> Result<(), Errno> {
        let parent = self.parent_of(place)?;
        let temporary = self.new_file(place, parent, self.first_mode(entry))?;
        write_all(temporary.fd()?, &mut [IoSlice::new(contents)], 0)?;
        self.clock.bytes(contents.len() as u64);
        self.hand_on(temporary, place, entry, digest)
    }

    fn symlink(&mut self, place: &RelPath, entry: &Entry, target: &[u8]) -> Result<(), Errno> {
        let parent = self.parent_of(place)?;
        let make = || Temporary::symlink(parent.clone(), self.shared.names, target);
        let temporary = self.with_access(place, make)?;
        self.hand_on(temporary, place, entry, None)
    }

    fn special(&mut self, place: &RelPath, entry: &Entry, kind: FileType, device: Dev) -> Result<(), Errno> {
        let (parent, mode) = (self.parent_of(place)?, self.first_mode(entry));
        let make = || Temporary::special(parent.clone(), self.shared.names, kind, mode, device);
        let temporary = self.with_access(place, make)?;
        self.hand_on(temporary, place, entry, None)
    }
}
