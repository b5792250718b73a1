//! The receiver's half of `--fake-super`: properties that only root could set are stored in attributes of the received
//! entries, in rsync's format.

use linerate_wire::entry::{AclEntry, Entry, Extra, Kind};
use rustix::fs::{Mode, Stat};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

use super::fake::{self, FakeStat};
use super::read::{At, seen};
use super::write::{Loss, MetadataTarget, MetadataWriter, remove_xattr, set_mode, set_xattr, xattr_names};

impl MetadataWriter {
    /// The stat of an open entry as the user means it: with `--fake-super`, the stat of the entry for which the file
    /// stands.
    ///
    /// # Errors
    /// The errors of stat(2).
    pub fn seen(&self, fd: BorrowedFd<'_>) -> Result<Stat, Errno> {
        Ok(self.seen_at(At::Open(fd), rustix::fs::fstat(fd)?))
    }

    /// The stat of the entry for which a file with the stat `real` stands. An invalid attribute is ignored, because it
    /// will be replaced.
    pub fn seen_at(&self, at: At<'_>, real: Stat) -> Stat {
        self.seen_as(at, &real).unwrap_or(real)
    }

    /// The same as [`Self::seen_at`], but an invalid attribute is an error.
    ///
    /// # Errors
    /// The errors of [`seen`]: `EINVAL` if the attribute is invalid.
    pub fn seen_as(&self, at: At<'_>, real: &Stat) -> Result<Stat, Errno> {
        if self.fakes { seen(at, real) } else { Ok(*real) }
    }

    /// Stores the owner, mode, attributes and ACLs of an entry in attributes of the file. The file's own mode
    /// lets its owner read and write it, and has no set-id bits.
    pub(super) fn store(
        &self,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        mode: Option<Mode>,
        what: MetadataTarget,
    ) -> Vec<Loss> {
        let (mut losses, nothing) = (Vec::new(), Extra::default());
        let extra = entry.extra.as_deref().unwrap_or(&nothing);
        let mut note = |what: &'static str, result: Result<(), Errno>| {
            losses.extend(result.err().map(|error| Loss(what, error)));
        };
        note("owner and mode", self.store_stat(fd, entry, mode));
        let is_new = matches!(what, MetadataTarget::New { .. } | MetadataTarget::Link);
        note("extended attributes", self.store_xattrs(fd, extra, is_new));
        if self.keep.acls && !matches!(entry.kind, Kind::Symlink { .. }) {
            note("ACL", self.store_acl(fd, fake::ACCESS, &extra.acl));
            if entry.kind == Kind::Directory {
                note("default ACL", self.store_acl(fd, fake::DEFAULT, &extra.default_acl));
            }
        }
        losses
    }

    fn store_stat(&self, fd: BorrowedFd<'_>, entry: &Entry, mode: Option<Mode>) -> Result<(), Errno> {
        let real = rustix::fs::fstat(fd)?;
        let said = self.said(entry, mode, &self.seen_at(At::Open(fd), real));
        if real.st_mode & 0o7777 != said.real_mode().as_raw_mode() {
            set_mode(fd, said.real_mode())?;
        }
        match said.is_real(&real) {
            true => remove_xattr(fd, fake::STAT.as_bytes()),
            false => set_xattr(fd, fake::STAT.as_bytes(), said.text().as_bytes()),
        }
    }

    /// The stat to store for an entry. Properties that aren't kept are taken from `there`, the existing stat.
    fn said(&self, entry: &Entry, mode: Option<Mode>, there: &Stat) -> FakeStat {
        let owner = entry.extra.as_ref().and_then(|extra| extra.owner.as_ref());
        let given = owner.map(|owner| self.numbers(owner));
        let uid = given.filter(|_| self.keep.owner).map_or(there.st_uid, |(uid, _)| uid);
        let gid = given.filter(|_| self.keep.group).map_or(there.st_gid, |(_, gid)| gid);
        let (kind, device) = fake::kind_of(&entry.kind);
        let mode = mode.map_or(there.st_mode & 0o7777, Mode::as_raw_mode);
        FakeStat { mode: kind | mode, device, uid, gid }
    }

    fn store_xattrs(&self, fd: BorrowedFd<'_>, extra: &Extra, is_new: bool) -> Result<(), Errno> {
        if !self.keep.xattrs {
            return Ok(());
        }
        if !is_new {
            self.remove_stored(fd, extra)?;
        }
        let kept = extra.xattrs.iter().filter(|(name, _)| self.keeps(name));
        // All attributes are set; the first error is returned.
        kept.map(|(name, value)| set_xattr(fd, &fake::stored(name), value)).fold(Ok(()), Result::and)
    }

    /// Removes stored attributes that the sender's entry doesn't have.
    fn remove_stored(&self, fd: BorrowedFd<'_>, extra: &Extra) -> Result<(), Errno> {
        let names = xattr_names(fd)?;
        let wanted = |name: &[u8]| extra.xattrs.iter().any(|(wanted, _)| wanted == name);
        let is_surplus = |stored: &&[u8]| {
            let name = fake::meant(stored);
            stored.starts_with(b"user.") && self.keeps(name) && !wanted(name)
        };
        let surplus = names.split(|&byte| byte == 0).filter(is_surplus);
        surplus.map(|stored| remove_xattr(fd, stored)).fold(Ok(()), Result::and)
    }

    fn store_acl(&self, fd: BorrowedFd<'_>, name: &str, acl: &[AclEntry]) -> Result<(), Errno> {
        if acl.is_empty() {
            return remove_xattr(fd, name.as_bytes());
        }
        let is_access = name == fake::ACCESS;
        let value = fake::encode_acl(acl, is_access, |who, number, name| self.number(who, number, name));
        set_xattr(fd, name.as_bytes(), &value)
    }
}
