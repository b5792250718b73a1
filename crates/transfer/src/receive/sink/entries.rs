//! Entries that arrive complete, in batches: directories, links, special files and small files.

use linerate_wire::batch;
use linerate_wire::control::Digest;
use linerate_wire::entry::Kind;
use rustix::fs::{Dev, FileType};
use rustix::io::Errno;
use std::borrow::Cow;
use std::io::IoSlice;

use super::ReceiveWorker;
use super::storage::in_room;
use crate::base::lock::lock;
use crate::net::clock::Stage;
use crate::net::stream::StreamError;
use crate::receive::admission::Admitted;
use crate::tree::copying::write_all;
use crate::tree::temporary::Temporary;

/// The most directories that may be created during one batch before the directories' own entries arrive. A walk names
/// each directory before its contents, so only a few are missing at a time, on all streams together.
const MAX_MADE: u64 = 16_384;

impl ReceiveWorker<'_> {
    pub(super) fn batch(&mut self) -> Result<(), StreamError> {
        self.under_way = Some(self.begins()?);
        let payload = std::mem::take(&mut self.payload);
        let records = match self.shared.settings.digests {
            true => batch::Reader::with_digests(&payload),
            false => batch::Reader::new(&payload),
        };
        let ground = &self.shared.ground;
        let made = ground.landing.root.made_early();
        // The limit is meant for a far end that sends too much. If other trees are used, this end itself may create
        // many directories.
        let is_peers = ground.near.others.is_empty();
        for record in records {
            self.land(record.map_err(|_| StreamError::Protocol("a damaged batch"))?)?;
            if is_peers && ground.landing.root.made_early() - made > MAX_MADE {
                return Err(StreamError::Protocol("too many directories that follow their own contents"));
            }
        }
        self.payload = payload;
        self.hand_over();
        self.under_way = None;
        self.clock.lap(Stage::Write);
        self.clock.flush_with(self.shared.reports.counters, || None);
        Ok(())
    }

    fn land(&mut self, record: batch::Record<'_>) -> Result<(), StreamError> {
        let batch::Record { entry, contents, digest } = record;
        let admitted = self.judge.admit(Cow::Owned(entry))?;
        self.clock.entries(1);
        if self.leaves_alone(&admitted) {
            return Ok(());
        }
        let landed = match &admitted.entry().kind {
            Kind::Directory => match self.directory(&admitted) {
                Ok(true) => Ok(()),
                Ok(false) => return Err(StreamError::Protocol("the same directory twice")),
                Err(error) => Err(error),
            },
            Kind::File { .. } => self.small_file(&admitted, contents, digest),
            Kind::Symlink { target } => self.symlink(&admitted, target),
            Kind::HardLink { source, path } => return self.further_name(&admitted, *source, path),
            Kind::Device { .. } | Kind::Fifo | Kind::Socket => self.special(&admitted),
        };
        landed.or_else(|error| self.failed(&admitted, error))
    }

    /// Creates a directory; false if its entry arrived before.
    fn directory(&self, admitted: &Admitted<'_>) -> Result<bool, Errno> {
        let (shared, place, entry) = (self.shared, admitted.place(), admitted.entry());
        let created = shared.first_directory_mode(entry);
        match place.split() {
            Some(_) if self.mode(entry) != created || shared.ground.landing.root.top().has_default_acl() => {
                shared.note_made(place);
            }
            Some((parent, _)) => shared.note_made(&parent),
            None => {}
        }
        let is_new = self.with_access(place, || shared.ground.landing.root.make_directory(place, created))?;
        if is_new && let Some(parent) = place.parent() {
            lock(&shared.notes.changed).add(&shared.ground.landing.root.directory(&parent)?);
        }
        // The destination itself may have been created by this command.
        let is_new = is_new || place.is_root() && shared.ground.landing.is_made;
        let is_first = shared.keep_directory(admitted, is_new, false)?;
        shared.reports.counters.landed.directory();
        Ok(is_first)
    }

    fn small_file(
        &mut self,
        admitted: &Admitted<'_>,
        contents: &[u8],
        digest: Option<Digest>,
    ) -> Result<(), Errno> {
        let place = admitted.place();
        let parent = self.parent_of(place)?;
        let temporary = self.new_file(place, parent, admitted.entry())?;
        let file = temporary.fd()?;
        in_room(self.under_way.as_ref(), || write_all(file, &mut [IoSlice::new(contents)], 0))?;
        self.clock.bytes(contents.len() as u64);
        self.hand_on(temporary, admitted, None, digest)
    }

    fn symlink(&mut self, admitted: &Admitted<'_>, target: &[u8]) -> Result<(), Errno> {
        let place = admitted.place();
        let parent = self.parent_of(place)?;
        if self.shared.ground.writer.fakes() {
            return self.faked(admitted, target);
        }
        let make = || Temporary::symlink(parent.clone(), self.shared.ground.names, target);
        let temporary = self.with_access(place, make)?;
        self.hand_on(temporary, admitted, None, None)
    }

    fn special(&mut self, admitted: &Admitted<'_>) -> Result<(), Errno> {
        let place = admitted.place();
        let (kind, device) = special(&admitted.entry().kind);
        let parent = self.parent_of(place)?;
        if self.shared.ground.writer.fakes() {
            return self.faked(admitted, b"");
        }
        let mode = self.first_mode(admitted.entry(), &parent);
        let make = || Temporary::special(parent.clone(), self.shared.ground.names, kind, mode, device);
        let temporary = self.with_access(place, make)?;
        self.hand_on(temporary, admitted, None, None)
    }
}

impl ReceiveWorker<'_> {
    /// Creates a file with these `contents` that stands for an entry that can't be created here
    /// (`--fake-super`).
    fn faked(&mut self, admitted: &Admitted<'_>, contents: &[u8]) -> Result<(), Errno> {
        let parent = self.parent_of(admitted.place())?;
        let mode = self.first_mode(admitted.entry(), &parent);
        let temporary = self.make_file(admitted.place(), &parent, mode, false)?;
        write_all(temporary.fd()?, &mut [IoSlice::new(contents)], 0)?;
        self.hand_on(temporary, admitted, None, None)
    }
}

/// The type and number of a device, fifo or socket, as mknod(2) takes them.
pub(super) fn special(kind: &Kind) -> (FileType, Dev) {
    match kind {
        Kind::Device { block: true, major, minor } => {
            (FileType::BlockDevice, rustix::fs::makedev(*major, *minor))
        }
        Kind::Device { major, minor, .. } => (FileType::CharacterDevice, rustix::fs::makedev(*major, *minor)),
        Kind::Socket => (FileType::Socket, 0),
        _ => (FileType::Fifo, 0),
    }
}
