//! The users who have access to an entry while its owner, its ACL and its mode are set one after the other: only those
//! who may use it both before and at the end.
//!
//! The steps of [`MetadataWriter::give`] in order, and the rights after each step:
//!
//! | after | who may do what |
//! | --- | --- |
//! | creation, or [`MetadataWriter::close`] | new entry: its owner, who is this user. Existing entry: users who had the right before and will have it at the end |
//! | group, owner | the same bits. New entry: only the owner's. Existing entry: the rights that the old group, the new group and others all have, both before and at the end |
//! | attributes | the same |
//! | default ACL | the same: it doesn't affect the directory itself |
//! | ACL, limited to the mode | as at the end |
//! | mode | the final state |

use linerate_wire::entry::{Entry, Extra};
use rustix::fs::{Mode, Stat};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

use super::write::{MetadataTarget, MetadataWriter, set_mode};

const ALL: Mode = Mode::from_raw_mode(0o777);

/// The properties of an existing file or directory that change, in addition to its mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataChanges {
    /// The owner or the group changes.
    pub owner: bool,
    /// The ACL changes: the entry has an ACL or will have one, and the two differ.
    pub acl: bool,
}

impl MetadataWriter {
    /// The mode with which a file is created that will get the mode `mode` at the end. It grants no rights that could
    /// be misused before the file is complete. If the group's rights will apply to other users later, only the owner
    /// has access. Attributes must be settable, which requires write permission for the owner unless this user is root.
    /// `may_have_acl` is true if the file may have an ACL that it won't keep.
    pub fn first_mode(&self, entry: &Entry, mode: Mode, may_have_acl: bool) -> Mode {
        if self.fakes {
            // With `--fake-super`, the file may stand for an entry that its owner can't write, or that
            // belongs to another user.
            return Mode::RUSR | Mode::WUSR;
        }
        let open = if self.is_private(entry, may_have_acl) { Mode::RWXU } else { ALL };
        let has_xattrs = entry.extra.as_ref().is_some_and(|extra| !extra.xattrs.is_empty());
        let needed = if has_xattrs && !self.is_root { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
        mode & open | needed
    }

    /// True if nobody except its owner may access `entry` until its owner, group and ACL are set. Until then,
    /// the mode's group bits refer to another group, or are the mask of another ACL.
    pub fn is_private(&self, entry: &Entry, may_have_acl: bool) -> bool {
        let is_given =
            |extra: &Extra| extra.owner.is_some() || !extra.acl.is_empty() || !extra.default_acl.is_empty();
        may_have_acl || entry.extra.as_deref().is_some_and(is_given)
    }

    /// Restricts access to an existing directory that will get the mode `last`: only users who have access both now and
    /// at the end keep it. This user's own rights stay. `is_right` is true if the directory's owner, group and ACL
    /// already equal those of `entry`.
    ///
    /// # Errors
    /// The errors of stat(2) and chmod(2).
    pub fn close_directory(
        &self,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        last: Mode,
        is_right: bool,
    ) -> Result<(), Errno> {
        let there = rustix::fs::fstat(fd)?;
        let (had, others) = (mode_of(&there), Mode::RWXG | Mode::RWXO);
        let changes = match is_right {
            true => MetadataChanges::default(),
            false => self.changes(fd, entry.extra.as_deref(), &there),
        };
        let closed = had & !others | between(had, last, changes) & others;
        if closed == had { Ok(()) } else { set_mode(fd, closed) }
    }

    /// Called before several of the owner, ACL and mode of an existing entry change. Reduces the mode to the rights
    /// that apply both before and after the changes, and returns the former mode. `None` if that isn't necessary,
    /// because a single change has no intermediate state.
    pub(super) fn close(
        &self,
        fd: BorrowedFd<'_>,
        extra: &Extra,
        last: Option<Mode>,
        what: MetadataTarget,
    ) -> Result<Option<Mode>, Errno> {
        if !matches!(what, MetadataTarget::Directory | MetadataTarget::Existing) {
            return Ok(None);
        }
        let there = rustix::fs::fstat(fd)?;
        let had = mode_of(&there);
        let last = last.unwrap_or(had);
        let changes = self.changes(fd, Some(extra), &there);
        if [changes.owner, changes.acl, had != last].iter().filter(|changes| **changes).count() < 2 {
            return Ok(None);
        }
        let closed = between(had, last, changes) | had & last & Mode::SVTX;
        if closed != had {
            set_mode(fd, closed)?;
        }
        Ok(Some(had))
    }

    fn changes(&self, fd: BorrowedFd<'_>, extra: Option<&Extra>, there: &Stat) -> MetadataChanges {
        if self.fakes {
            return MetadataChanges::default();
        }
        let nothing = Extra::default();
        let extra = extra.unwrap_or(&nothing);
        let (owner, group) = extra.owner.as_ref().map_or((false, false), |owner| self.differs(owner, there));
        MetadataChanges { owner: owner || group, acl: self.acl_changes(fd, extra) }
    }
}

/// The largest set of rights that grants nobody a right that the mode `had` or the mode `last` denies. If the group
/// changes, members of the old group become others, and members of the new group are still others. If an ACL changes,
/// the group bits are a mask, and the mode doesn't show the rights of named users.
fn between(had: Mode, last: Mode, changes: MetadataChanges) -> Mode {
    let both = had & last & ALL;
    if changes.acl {
        return both & Mode::RWXU;
    }
    if !changes.owner {
        return both;
    }
    let class = |mode: Mode, shift: u32| mode.as_raw_mode() >> shift & 7;
    let group = class(both, 3) & class(last, 0);
    let others = class(both, 0) & class(last, 3);
    both & Mode::RWXU | Mode::from_raw_mode(group << 3 | others)
}

fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between_raw(had: u32, last: u32, owner: bool, acl: bool) -> u32 {
        between(Mode::from_raw_mode(had), Mode::from_raw_mode(last), MetadataChanges { owner, acl })
            .as_raw_mode()
    }

    #[test]
    fn what_everybody_may_before_and_at_the_end_stays() {
        assert_eq!(between_raw(0o755, 0o755, true, false), 0o755, "a new owner of what all may read");
        assert_eq!(between_raw(0o755, 0o750, false, false), 0o750, "the same group");
        assert_eq!(between_raw(0o770, 0o770, true, false), 0o700, "another group");
        assert_eq!(between_raw(0o775, 0o750, true, false), 0o700, "the old group are others then");
        assert_eq!(between_raw(0o755, 0o705, true, false), 0o700, "the new group may least");
        assert_eq!(between_raw(0o777, 0o775, false, true), 0o700, "an ACL says who");
        assert_eq!(between_raw(0o6755, 0o6755, true, false), 0o755, "rights of a user that changes");
    }
}
