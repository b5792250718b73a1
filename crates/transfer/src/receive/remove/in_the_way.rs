//! Removes an existing entry whose name is needed for an entry of another kind.

use linerate_wire::path::RelPath;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use super::{Child, OpenedDirectory, Remover, opened, top_of, unknown};
use crate::tree::filter::{FilterError, Scope, merge_file};
use crate::tree::own_files;
use crate::tree::root::Directory;

impl Remover<'_> {
    /// Empties the directory at `place` and removes it, so that another entry can take its name. If the user
    /// doesn't allow deletion, only an empty directory is removed.
    ///
    /// # Errors
    /// A message for the user if the directory can't be removed.
    pub fn make_way(&mut self, path: &RelPath, place: &RelPath, parent: &Directory) -> Result<(), String> {
        let (_, name) = place.split().ok_or("the destination itself is a directory")?;
        if self.backups().is_some_and(|backups| backups.is_directory(parent.as_fd(), name)) {
            return Err("the directory for backups is in the way at the destination".into());
        }
        self.shown_below = top_of(place, path);
        let opened = opened::open(parent.as_fd(), name, self.sync.dry_run);
        let (directory, found) =
            opened.map_err(|error| format!("reading the directory in the way failed: {error}"))?;
        let gone = self.empty_the_way(path, place, &directory, found).and_then(|()| {
            let remove = || rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
            let removed = if self.sync.dry_run { Ok(()) } else { remove() };
            if removed == Err(Errno::NOTEMPTY) {
                // Backups remain in the directory.
                self.stays(path);
            }
            removed.map_err(|error| format!("removing the directory in the way failed: {error}"))
        });
        gone.inspect_err(|_| directory.close_again())
    }

    fn empty_the_way(
        &mut self,
        path: &RelPath,
        place: &RelPath,
        directory: &OpenedDirectory,
        found: Vec<Child>,
    ) -> Result<(), String> {
        let in_the_way = "a directory that isn't empty is in the way at the destination";
        if rustix::fs::fstat(&directory.fd).is_ok_and(|stat| self.sources.have(&stat)) {
            return Err("the source itself is in the way at the destination".into());
        }
        if own_files::belong_in(&directory.fd) {
            return Err("a directory for this command's own files is in the way at the destination".into());
        }
        if found.is_empty() {
            return Ok(());
        }
        if !self.sync.delete && !self.sync.force {
            self.stays(path);
            let advice = if self.shared.settings.listed {
                "remove that directory"
            } else {
                "--delete removes the directory"
            };
            return Err(format!("{in_the_way}; {advice}"));
        }
        let scope = self.scope_in(path, place, &directory.fd).map_err(|error| unknown(&error))?;
        if self.remove_all(path, directory, found, &scope) {
            return Ok(());
        }
        self.stays(path);
        Err(in_the_way.into())
    }

    /// The filter rules for the entries in the directory at `place`, including the rules of merge files in
    /// the directories above it.
    fn scope_in(&self, path: &RelPath, place: &RelPath, fd: &OwnedFd) -> Result<Scope, FilterError> {
        let above: Vec<_> = path.ancestors().zip(place.ancestors()).collect();
        let mut scope = self.filter_of(&top_of(place, path)).scope();
        for (path, place) in above.into_iter().rev() {
            // If the directory is missing, it has no rules. A dry run creates no directories.
            let Ok(held) = self.shared.ground.landing.root.directory(&place) else { continue };
            scope = scope.enter(&path, &mut |name| merge_file(held.as_fd(), name))?;
        }
        scope.enter(path, &mut |name| merge_file(fd.as_fd(), name))
    }

    /// Removes an entry that isn't a directory, so that a directory can take its name.
    ///
    /// # Errors
    /// A message for the user if the entry can't be removed.
    pub fn make_way_for_directory(
        &self,
        place: &RelPath,
        parent: &Directory,
        name: &OsStr,
    ) -> Result<(), String> {
        if self.sync.dry_run {
            return Ok(());
        }
        self.take_away(place, parent.as_fd(), name)
            .map_err(|error| format!("removing the entry in the directory's way failed: {error}"))
    }
}
