//! Determines the kinds of entries, and how entries of each kind are sent.

use linerate_wire::control::ProblemKind;
use linerate_wire::entry::Kind;
use linerate_wire::path::RelPath;
use rustix::fs::{FileType, Stat};

use super::faked::link_target;
use super::left_out::{ignored_link, left_out};
use super::{LINK_NO_FORM, ScanWalk, Taker};
use crate::tree::metadata::read::At;

impl<T: Taker> ScanWalk<'_, '_, T> {
    /// The kind of an entry, and whether only its name is sent. `None` if the entry isn't sent at all; the
    /// reason has then been reported.
    pub(super) fn kind_of(
        &self,
        source: usize,
        path: &RelPath,
        stat: &Stat,
        at: At<'_>,
    ) -> Option<(Kind, bool)> {
        let (keep, selection) = (&self.scanner.keep, self.scanner.selection);
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File { size: u64::try_from(stat.st_size).unwrap_or(0) },
            FileType::Directory => Kind::Directory,
            FileType::Fifo if keep.specials => Kind::Fifo,
            FileType::Socket if keep.specials => Kind::Socket,
            device @ (FileType::BlockDevice | FileType::CharacterDevice) if keep.devices => Kind::Device {
                block: device == FileType::BlockDevice,
                major: rustix::fs::major(stat.st_rdev),
                minor: rustix::fs::minor(stat.st_rdev),
            },
            FileType::Symlink if selection.no_links => {
                self.skip(source, path, FileType::Symlink);
                let target = link_target(at, selection.fakes).ok().filter(|_| selection.names_skipped)?;
                return Some((Kind::Symlink { target }, true));
            }
            FileType::Symlink => return self.link(source, path, at),
            other => {
                self.skip(source, path, other);
                return selection.names_skipped.then(|| (left_out(other), true));
            }
        };
        Some((kind, false))
    }

    /// Determines the kind as [`Self::kind_of`] does, for a symbolic link.
    fn link(&self, source: usize, path: &RelPath, at: At<'_>) -> Option<(Kind, bool)> {
        let target = match link_target(at, self.scanner.selection.fakes) {
            Ok(target) => self.scanner.unmunged(target),
            Err(error) => {
                self.fail(source, path, "reading the link", error);
                return None;
            }
        };
        if self.ignores(source, path, &target) {
            let seen = self.seen(source, path);
            self.report(source, path, ProblemKind::Remark, ignored_link(&seen, &target));
            return self.scanner.selection.names_skipped.then_some((Kind::Symlink { target }, true));
        }
        if !self.has_form(&target) {
            self.report(source, path, ProblemKind::Failed, LINK_NO_FORM.into());
            return None;
        }
        Some((Kind::Symlink { target }, false))
    }
}
