//! Determines where files are stored until they get their names, and which of their bytes are kept if the transfer ends
//! early.

use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{Access, AtFlags, Mode};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ReceiveWorker;
use super::assembly::Assembly;
use super::hard_links::copy_data;
use super::part::Target;
use crate::base::lock::lock;
use crate::receive::partial_directory::PartialDirectory;
use crate::receive::reception::Reception;
use crate::tree::root::Directory;
use crate::tree::temporary::Temporary;

impl ReceiveWorker<'_> {
    /// Creates an empty file that will get its name in `parent`. Until then, the file has a temporary name if `named`
    /// is set or if there is a directory of temporary files, and otherwise no name.
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
        // The file will be renamed into this directory later, so access is checked now.
        let access = Access::WRITE_OK | Access::EXEC_OK;
        self.with_access(place, || rustix::fs::accessat(parent, ".", access, AtFlags::EACCESS))?;
        Temporary::named_in(holder.clone(), parent.clone(), names, mode)
    }

    /// If a file was received on another file system than that of its place, copies it to the right file
    /// system, before its metadata is set.
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

    /// Called if the stream ends in the middle of a part: records or keeps the bytes that have arrived.
    pub fn keep_partial(&mut self) {
        let Some(partial) = &self.shared.ground.near.partial else { return };
        let Some(part) = self.part.take() else { return };
        let came = part.at - (part.end - part.length);
        match part.target {
            Target::Whole(file, admitted, _) if came > 0 => keep(partial, file, admitted.place(), part.at),
            // The digest of the pieces of an older version hasn't arrived, so the sender may not know the contents of
            // the pieces. The arrived bytes of this part aren't kept.
            Target::Shared(assembly) if came > 0 && part.brought.is_none() && !assembly.has_failed() => {
                lock(&assembly.parts).add_beginning(part.at - came, came);
            }
            _ => {}
        }
    }
}

impl Reception<'_> {
    /// Keeps, of each unfinished large file, the bytes that have arrived without a gap from the beginning.
    pub fn keep_partials(&self) {
        let Some(partial) = &self.ground.near.partial else { return };
        for assembly in lock(&self.notes.assemblies).open() {
            // If files are sent whole, the next run uses no partial files. A file that the journal lists then stays
            // where the next run can resume it.
            if !self.settings.whole || !assembly.is_listed() {
                assembly.keep_in(partial);
            }
        }
    }
}

impl Assembly {
    fn keep_in(&self, partial: &PartialDirectory) {
        // If pieces of blocks were kept, a sender could find out their contents by trial.
        let beginning = self.beginning().min(self.unproven.load(Ordering::Acquire));
        if self.in_place || self.failed.load(Ordering::Acquire) || beginning == 0 {
            return;
        }
        if let Some(file) = lock(&self.temporary).take() {
            keep(partial, file, self.admitted.place(), beginning);
        }
    }
}

/// Keeps the first `length` bytes of a file as a partial file. If that fails, the next run receives the whole
/// file again.
fn keep(partial: &PartialDirectory, file: Temporary, place: &RelPath, length: u64) {
    let Some((_, name)) = place.split() else { return };
    let cut = file.fd().and_then(|fd| rustix::fs::ftruncate(fd, length));
    let parent = file.parent().clone();
    let _ = cut.and_then(|()| partial.put(file, parent.as_fd(), name));
}
