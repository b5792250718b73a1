//! Complete files that wait for their names until all files have arrived (`--delay-updates`).

use linerate_wire::control::ProblemKind;
use linerate_wire::entry::Kind;
use linerate_wire::path::RelPath;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

use crate::base::lock::lock;
use crate::base::problem::problem;
use crate::receive::commit::{Committer, Finished, Touched};
use crate::receive::journal::Done;
use crate::receive::partial_directory::{PartialDirectory, rename_it};
use crate::receive::spool::Spool;
use crate::tree::root::Directory;

/// The complete files that wait for their names.
pub struct Delayed<'a> {
    committer: &'a Committer<'a>,
    partial: Option<&'a PartialDirectory>,
    /// `None` as soon as the files are renamed to their final names.
    waiting: Mutex<Option<Spool<WaitingFile>>>,
}

/// A complete file that waits for its name.
#[derive(Serialize, Deserialize)]
struct WaitingFile {
    size: u64,
    inode: u64,
    lies: Lies,
}

/// The location of a waiting file.
#[derive(Serialize, Deserialize)]
enum Lies {
    /// In the partial directory, under the file's final name.
    InPartial,
    /// In the file's own directory, under this temporary name, because the partial directory can't be used.
    Beside(Vec<u8>),
    /// In the directory of temporary files (`--temp-dir`), under this temporary name.
    UnderWay(Vec<u8>),
}

impl<'a> Delayed<'a> {
    /// An empty list of waiting files. Without `--delay-updates`, no file is ever added.
    pub fn new(committer: &'a Committer<'a>) -> Self {
        Self {
            committer,
            partial: committer.near.partial.as_ref().filter(|partial| partial.delays),
            waiting: Mutex::new(Some(Spool::new(committer.landing.root.top()))),
        }
    }

    /// True if the entry must wait for its name.
    pub fn takes(&self, entry: &Finished) -> bool {
        self.partial.is_some() && matches!(entry.kind, Kind::File { .. }) && !entry.temporary.is_in_place()
    }

    /// Moves a complete file to the place where it waits. Always returns `None`, because the journal doesn't record the
    /// file before it has its name.
    pub fn add(&self, entry: Finished) -> Option<Done> {
        let partial = self.partial?;
        let (shown, place, reported) = (entry.shown.clone(), entry.place.clone(), entry.reported.clone());
        let noted = self.let_wait(partial, entry).and_then(|file| match &mut *lock(&self.waiting) {
            Some(waiting) => waiting.update(&place, self.committer.names, |_| file),
            None => Err(Errno::STALE),
        });
        if noted.is_ok() {
            self.committer.report_moved(reported.as_ref());
        }
        if let Err(error) = noted {
            let message = format!(
                "keeping the file until all other files have arrived failed: {error}; a delayed file needs a directory in which it waits"
            );
            (self.committer.problem)(problem(shown, ProblemKind::Failed, message));
        }
        None
    }

    fn let_wait(&self, partial: &PartialDirectory, entry: Finished) -> Result<WaitingFile, Errno> {
        let Finished { mut temporary, name, kind, .. } = entry;
        let size = if let Kind::File { size } = kind { size } else { 0 };
        let (inode, parent) = (temporary.inode()?, temporary.parent().clone());
        if partial.lets_wait(&parent) {
            partial.put(temporary, parent.as_fd(), &name)?;
            return Ok(WaitingFile { size, inode, lies: Lies::InPartial });
        }
        // The journal must exist, so that the next run knows about the temporary name.
        self.committer.journal.make();
        temporary.close()?;
        temporary.keep();
        let waits_as = temporary.name().as_bytes().to_vec();
        let lies = if temporary.is_elsewhere() { Lies::UnderWay(waits_as) } else { Lies::Beside(waits_as) };
        Ok(WaitingFile { size, inode, lies })
    }

    /// Renames all waiting files to their final names.
    ///
    /// # Errors
    /// A message if the list of the waiting files can't be read.
    pub fn release(self, touched: &mut Touched) -> Result<(), String> {
        let (Some(partial), Some(waiting)) = (self.partial, lock(&self.waiting).take()) else {
            return Ok(());
        };
        let unread = |error| format!("reading the list of delayed files failed: {error}");
        let mut waiting = waiting.read().map_err(unread)?;
        while let Some((place, mut files)) = waiting.next().map_err(unread)? {
            if let Some(last) = files.pop() {
                self.name(partial, (&place, &last), touched);
            }
            files.iter().for_each(|earlier| self.discard(&place, earlier));
        }
        Ok(())
    }

    fn name(
        &self,
        partial: &PartialDirectory,
        (place, file): (&RelPath, &WaitingFile),
        touched: &mut Touched,
    ) {
        let committer = self.committer;
        let Some((above, name)) = place.split() else { return };
        let (root, shown) = (&committer.landing.root, committer.landing.root.shown(place));
        let parent = match root.directory(&above) {
            Ok(parent) => parent,
            Err(error) => {
                let message = format!("renaming the temporary file to the final name failed: {error}");
                return (committer.problem)(problem(shown, ProblemKind::Failed, message));
            }
        };
        touched.add(&parent);
        if committer.keep_backup(place, &parent, name, &shown) {
            partial.note_place(&parent);
            let renamed = match self.place_of(&parent, &file.lies) {
                None => partial.release(parent.as_fd(), name, file.inode),
                Some((holder, waits_as)) => {
                    rename_it(holder.as_fd(), waits_as, file.inode, (parent.as_fd(), name))
                }
            };
            if committer.named(renamed, &Kind::File { size: file.size }, (&parent, name), shown) {
                partial.clear(parent.as_fd(), name);
            }
        }
    }

    /// The directory that contains a waiting file with a temporary name, and that name; `None` for a file in
    /// the partial directory.
    fn place_of<'b>(
        &'b self,
        parent: &'b Arc<Directory>,
        lies: &'b Lies,
    ) -> Option<(&'b Directory, &'b OsStr)> {
        match lies {
            Lies::InPartial => None,
            Lies::Beside(waits_as) => Some((parent, OsStr::from_bytes(waits_as))),
            Lies::UnderWay(waits_as) => {
                let holder = self.committer.near.temporary.as_deref();
                holder.map(|holder| (holder, OsStr::from_bytes(waits_as)))
            }
        }
    }

    /// Removes a waiting file that has a temporary name.
    fn discard(&self, place: &RelPath, file: &WaitingFile) {
        let parent = place.split().and_then(|(above, _)| self.committer.landing.root.directory(&above).ok());
        if let Some(parent) = parent
            && let Some((holder, waits_as)) = self.place_of(&parent, &file.lies)
            && holder.stat(waits_as).is_ok_and(|stat| stat.st_ino == file.inode)
        {
            let _ = rustix::fs::unlinkat(holder, waits_as, AtFlags::empty());
        }
    }
}

impl Drop for Delayed<'_> {
    /// If the transfer ends early, removes the files that have temporary names.
    fn drop(&mut self) {
        let Some(Ok(mut waiting)) = lock(&self.waiting).take().map(Spool::read) else { return };
        while let Ok(Some((place, files))) = waiting.next() {
            files.iter().for_each(|file| self.discard(&place, file));
        }
    }
}
