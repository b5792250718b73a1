//! Further names of files that have several. They are made when everything else is in place, from what this transfer put
//! there and from nothing else: a peer can't name another file.

use linerate_wire::control::ProblemKind;
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

use super::Worker;
use crate::commit::Touched;
use crate::digest::ledger::{Known, Told};
use crate::lock::lock;
use crate::problem::problem;
use crate::stream::StreamError;
use crate::temporary::Temporary;

/// One more name of something that came before.
pub struct FurtherName {
    place: RelPath,
    /// Where the first name is.
    first: RelPath,
    /// The sender's name for it: its source, and the path there;
    name: (u32, RelPath),
    /// and for the first.
    of: (u32, RelPath),
}

impl Worker<'_> {
    /// Keeps a further name for the end.
    pub(super) fn further_name(
        &mut self,
        place: RelPath,
        entry: &Entry,
        source: u32,
        path: &RelPath,
    ) -> Result<(), StreamError> {
        let first = Entry { source, path: path.clone(), kind: Kind::Fifo, extra: None, ..*entry };
        let first = self.shared.landing.place(&first);
        let first = first.ok_or(StreamError::Protocol("a hard link to what was not announced"))?;
        let (name, of) = ((entry.source, entry.path.clone()), (source, path.clone()));
        lock(&self.shared.further_names).push(FurtherName { place, first, name, of });
        Ok(())
    }

    /// Makes all further names, and tells of each that it is one.
    pub fn make_further_names(&mut self, touched: &mut Touched, known: Known<'_>) {
        let names = std::mem::take(&mut *lock(&self.shared.further_names));
        for name in names {
            match self.make_further_name(&name, touched) {
                Ok(()) => {
                    self.shared.counters.landed.file(0);
                    if self.shared.digests {
                        known(name.name.0, &name.name.1, Told::SameAs(name.of.0, name.of.1));
                    }
                }
                Err(message) => {
                    (self.shared.problem)(problem(self.shown(&name.place), ProblemKind::Failed, message));
                }
            }
        }
    }

    fn make_further_name(&mut self, name: &FurtherName, touched: &mut Touched) -> Result<(), String> {
        let first = self.first_name(&name.first).ok_or_else(|| {
            let shown = self.shown(&name.first);
            format!("is a hard link to {}, which this transfer didn't bring", shown.display())
        })?;
        self.link(&name.place, &first, touched).map_err(|error| match error {
            Errno::ISDIR => "a directory of that name is in the way at the destination".to_owned(),
            error => format!("making the hard link failed: {error}"),
        })
    }

    /// What has the first name, where it is what this transfer gave it to.
    fn first_name(&self, place: &RelPath) -> Option<OwnedFd> {
        let landed = *lock(&self.shared.first_names).get(place)?;
        let held = self.shared.landing.root.open_at(place, OFlags::PATH).ok()?;
        let stat = rustix::fs::fstat(&held).ok()?;
        ((stat.st_dev, stat.st_ino) == landed).then_some(held)
    }

    fn link(&mut self, place: &RelPath, first: &OwnedFd, touched: &mut Touched) -> Result<(), Errno> {
        let parent = self.parent_of(place)?;
        let (_, name) = place.split().ok_or(Errno::ISDIR)?;
        let wanted = rustix::fs::fstat(first)?;
        // A rename between two names of one file does nothing, and would leave the temporary one.
        if let Ok(there) = parent.stat(name)
            && (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino)
        {
            return Ok(());
        }
        let make = || Temporary::another_name(parent.clone(), self.shared.names, first.as_fd());
        let temporary = self.with_access(place, make)?;
        touched.add(&parent);
        temporary.rename(name)
    }
}
