//! What comes in batches: directories, links and small files, each whole.

use linerate_wire::batch;
use linerate_wire::control::Digest;
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::io::Errno;
use std::io::IoSlice;

use super::{Worker, write_all};
use crate::clock::Stage;
use crate::source::lock;
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
        self.clock.lap(Stage::Write);
        self.clock.flush(self.shared.counters);
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
            Kind::Device { .. } | Kind::Fifo | Kind::Socket | Kind::HardLink { .. } => {
                return Err(StreamError::Protocol("an entry of a kind that wasn't asked for"));
            }
        };
        landed.or_else(|error| self.failed(&place, &entry, error))
    }

    fn directory(&self, place: &RelPath, entry: &Entry) -> Result<(), Errno> {
        let shared = self.shared;
        let created = self.created();
        let is_new = self.with_access(place, || shared.landing.root.make_directory(place, created))?;
        let mode = self.mode(entry);
        if shared.keep.perms || is_new && mode != created {
            lock(&shared.directories)
                .push((place.clone(), Entry { mode: mode.as_raw_mode(), ..entry.clone() }));
        }
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
        let temporary = self.new_file(place, parent, self.mode(entry))?;
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
}
