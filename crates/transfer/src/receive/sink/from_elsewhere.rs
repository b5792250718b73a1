//! Takes entries from another tree of this host (`--copy-dest`, `--link-dest`) instead of receiving them.

use linerate_wire::entry::Kind;
use linerate_wire::path::RelPath;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

use super::ReceiveWorker;
use super::hard_links::copy_data;
use crate::base::lock::lock;
use crate::receive::admission::Admitted;
use crate::receive::commit::Touched;
use crate::tree::temporary::link;

impl ReceiveWorker<'_> {
    /// Creates a hard link at `place` to the open entry `held`. No entry may exist at `place`.
    ///
    /// # Errors
    /// The errors of link(2): `EXDEV` if the entry is on another file system.
    pub fn link_from(&mut self, place: &RelPath, held: &OwnedFd) -> Result<(), Errno> {
        let parent = self.parent_of(place)?;
        let (_, name) = place.split().ok_or(Errno::ISDIR)?;
        self.with_access(place, || link(held.as_fd(), &parent, name))?;
        lock(&self.shared.notes.changed).add(&parent);
        Ok(())
    }

    /// Replaces the entry at `place` by a hard link to the open entry `held`.
    ///
    /// # Errors
    /// The errors of [`ReceiveWorker::link_from`], of rename(2), and of keeping a backup.
    pub fn relink_from(&mut self, place: &RelPath, held: &OwnedFd) -> Result<(), Errno> {
        let mut touched = Touched::default();
        self.link(place, held, &mut touched)?;
        lock(&self.shared.notes.changed).add(&self.parent_of(place)?);
        Ok(())
    }

    /// Creates the file `admitted` with the contents of `file`.
    ///
    /// # Errors
    /// The errors of reading and writing.
    pub fn copy_from(&mut self, admitted: &Admitted<'_>, file: &OwnedFd) -> Result<(), Errno> {
        let Kind::File { size } = admitted.entry().kind else { return Err(Errno::INVAL) };
        let parent = self.parent_of(admitted.place())?;
        let temporary = self.new_file(admitted.place(), parent, admitted.entry())?;
        copy_data(file.as_fd(), temporary.fd()?, size)?;
        self.hand_on(temporary, admitted, None, None)
    }
}
