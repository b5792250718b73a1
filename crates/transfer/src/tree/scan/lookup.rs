//! Looks up the names of a directory, one by one or several at a time.

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use std::os::fd::AsFd;

use super::faked::look;
use super::{ScanLevel, ScanWalk, Taker};
use crate::tree::metadata::read::At;

/// The number of names that are looked up together.
const TOGETHER: usize = 64;

/// A name in a directory, with its stat.
pub(super) struct Looked {
    pub(super) name: Vec<u8>,
    pub(super) stat: Result<Stat, Errno>,
    /// True if the entry is a file that stands for another kind of entry.
    pub(super) faked: bool,
    /// True if the entry is known to have no extended attributes.
    pub(super) bare: bool,
}

impl<T: Taker> ScanWalk<'_, '_, T> {
    /// The next name in a directory, with its stat; `None` at the directory's end.
    pub(super) fn next(&mut self, source: usize, level: &mut ScanLevel) -> Option<Looked> {
        while level.ahead.is_empty() {
            let (selection, list) = (self.scanner.selection, (self.list(source), level.whole));
            let next = std::iter::from_fn(|| self.next_name(source, level));
            let names: Vec<_> = next.take(TOGETHER).collect();
            if names.is_empty() {
                return None;
            }
            let names: Vec<_> =
                names.into_iter().filter(|name| selection.may_want(list, &level.path, name)).collect();
            // If names are looked up one by one, attributes are read only later, for the entries that are
            // sent.
            let is_bare = if self.several.wait() { self.reader.baring() } else { None };
            let fakes = selection.fakes;
            let look = |name: Vec<u8>| {
                let real = rustix::fs::statat(&level.fd, &name, AtFlags::SYMLINK_NOFOLLOW);
                let at = At::In(level.fd.as_fd(), &name);
                let bare = is_bare.as_ref().is_some_and(|is_bare| is_bare(at));
                let (stat, faked) = look(at, real, fakes && !bare);
                Looked { stat, faked, bare, name }
            };
            level.ahead = self.several.map(names, look).into();
        }
        level.ahead.pop_front()
    }

    /// The next name in a directory; `None` at the directory's end. If the directory can't be listed, reports
    /// that and returns `None`.
    fn next_name(&self, source: usize, level: &mut ScanLevel) -> Option<Vec<u8>> {
        match level.listing.next()? {
            Ok(name) => Some(name),
            Err(error) => {
                self.fail(source, &level.path, "listing the directory", error);
                None
            }
        }
    }
}
