//! Where files lie until they have their names, and what stays of them when a transfer ends early.

use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{Access, AtFlags, Mode};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ReceiveWorker;
use super::assembly::Assembly;
use super::links::copy_data;
use super::part::Target;
use crate::base::lock::lock;
use crate::receive::partial_directory::PartialDirectory;
use crate::receive::reception::Reception;
use crate::tree::root::Directory;
use crate::tree::temporary::Temporary;

impl ReceiveWorker<'_> {
    /// An empty file that is to be in `parent`, with a temporary name if it is to be `named`.
    pub(super) fn make_file(
        &self,
        place: &RelPath,
        parent: &Arc<Directory>,
        mode: Mode,
        named: bool,
    ) -> Result<Temporary, Errno> {
        let names = self.shared.ground.names;
        let Some(holder) = &self.shared.ground.near.temporary else {
            let make = if named { Temporary::named } else { Temporary::unnamed };
            return self.with_access(place, || make(parent.clone(), names, mode));
        };
        // The file is given its name there later.
        let access = Access::WRITE_OK | Access::EXEC_OK;
        self.with_access(place, || rustix::fs::accessat(parent, ".", access, AtFlags::EACCESS))?;
        Temporary::named_in(holder.clone(), parent.clone(), names, mode)
    }

    /// A file that came to another file system is copied to that of its place before it gets its metadata.
    pub(super) fn near_its_place(&self, file: Temporary, entry: &Entry) -> Result<Temporary, Errno> {
        let size = match &entry.kind {
            _ if !file.is_across() => return Ok(file),
            Kind::File { size } => *size,
            Kind::Symlink { target } => target.len() as u64,
            _ => 0,
        };
        let (parent, mode) = (file.parent().clone(), self.first_mode(entry, file.parent()));
        let near = Temporary::unnamed(parent, self.shared.ground.names, mode)?;
        copy_data(file.fd()?, near.fd()?, size)?;
        Ok(near)
    }

    /// The stream has ended in the middle of something: what has come of it is noted, or kept.
    pub fn keep_partial(&mut self) {
        let Some(partial) = &self.shared.ground.near.partial else { return };
        let Some(part) = self.part.take() else { return };
        let came = part.at - (part.end - part.length);
        match part.target {
            Target::Whole(file, admitted, _) if came > 0 => keep(partial, file, admitted.place(), part.at),
            // The digest of pieces of an older version hasn't come: the sender may not know what they are.
            Target::Shared(assembly) if came > 0 && part.brought.is_none() && !assembly.has_failed() => {
                lock(&assembly.parts).add_beginning(part.at - came, came);
            }
            _ => {}
        }
    }
}

impl Reception<'_> {
    /// Keeps what has come of large files, as far as it is a beginning of them.
    pub fn keep_partials(&self) {
        let Some(partial) = &self.ground.near.partial else { return };
        for assembly in lock(&self.notes.assemblies).open() {
            // A file that comes whole goes on by the journal alone.
            if !self.settings.whole || !assembly.is_listed() {
                assembly.keep_in(partial);
            }
        }
    }
}

impl Assembly {
    fn keep_in(&self, partial: &PartialDirectory) {
        // Were pieces of blocks kept, the sender could find out by trial what they are.
        let beginning = self.beginning().min(self.unproven.load(Ordering::Acquire));
        if self.in_place || self.failed.load(Ordering::Acquire) || beginning == 0 {
            return;
        }
        if let Some(file) = lock(&self.temporary).take() {
            keep(partial, file, self.admitted.place(), beginning);
        }
    }
}

/// Keeps the first `length` bytes of a file. Where that can't be, nothing stays: the next run has to bring it.
fn keep(partial: &PartialDirectory, file: Temporary, place: &RelPath, length: u64) {
    let Some((_, name)) = place.split() else { return };
    let cut = file.fd().and_then(|fd| rustix::fs::ftruncate(fd, length));
    let parent = file.parent().clone();
    let _ = cut.and_then(|()| partial.put(file, parent.as_fd(), name));
}
