//! The receiver's half: sets the owner, attributes, ACLs and mode of received entries, through an open descriptor.

use linerate_wire::control::{Details, Keep};
use linerate_wire::entry::{AclEntry, Entry, Extra, Owner};
use rustix::fs::{AtFlags, Mode, Stat, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Mutex;

use super::accounts::Accounts;
use super::acl::{self, Who};
use super::identities::Identities;
use super::{ACCESS, DEFAULT, fake, is_kept};
use crate::base::lock::lock;
use crate::tree::filter::attributes::AttributeRules;

/// A property of an entry that could not be kept.
#[derive(Debug, PartialEq, Eq)]
pub struct Loss(pub(super) &'static str, pub(super) Errno);

impl Loss {
    /// The error that a property of a link or special file can't be set without a risk.
    pub fn of_held(error: Errno) -> Self {
        Self("owner, mode and attributes", error)
    }

    /// The message for the user. It is the same for all entries that lost the same property for the same
    /// reason.
    pub fn message(&self) -> String {
        format!("its {} could not be kept: {}", self.0, self.1)
    }
}

/// The kind of entry that gets metadata.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MetadataTarget {
    /// An entry that this transfer has created with the mode `made`. If `inherits` is set, a default ACL has
    /// changed that mode.
    New {
        /// The mode with which the entry was created.
        made: Mode,
        /// True if the directory that contains the entry has a default ACL.
        inherits: bool,
    },
    /// A link, which has no mode and no ACL.
    Link,
    /// A directory, which may have existed before.
    Directory,
    /// An entry of another kind that existed before.
    Existing,
}

/// Sets the properties in `keep` on entries.
pub struct MetadataWriter {
    pub(super) keep: Keep,
    /// Attributes whose names match these rules stay unchanged.
    rules: AttributeRules,
    pub(super) is_root: bool,
    /// True if properties that only root could set are stored in attributes.
    pub(super) fakes: bool,
    /// The groups to which this process's user belongs, if the user isn't root.
    member_of: Vec<u32>,
    /// The rules that map users and groups.
    identities: Identities,
    accounts: Mutex<(Accounts, Accounts)>,
}

impl MetadataWriter {
    /// A writer for this process's user.
    pub fn new(keep: Keep) -> Self {
        let mut member_of: Vec<u32> =
            rustix::process::getgroups().unwrap_or_default().into_iter().map(Gid::as_raw).collect();
        member_of.push(rustix::process::getegid().as_raw());
        let is_root = rustix::process::geteuid().is_root();
        let (accounts, identities) =
            (Mutex::new((Accounts::users(), Accounts::groups())), Identities::default());
        let rules = AttributeRules::default();
        Self { keep, rules, is_root, fakes: false, member_of, identities, accounts }
    }

    /// Applies the settings in `details`; `unknown` receives the names of users and groups that this host
    /// doesn't know.
    pub fn with(mut self, details: &Details, unknown: impl FnMut(&'static str, &str)) -> Self {
        self.identities = Identities::find(details, unknown);
        self.fakes = details.fakes.receiver();
        self.is_root = self.fakes || details.superuser.unwrap_or(self.is_root);
        self
    }

    /// Sets the rules for attributes that stay unchanged.
    pub fn with_rules(mut self, rules: AttributeRules) -> Self {
        self.rules = rules;
        self
    }

    /// The rules for attributes that stay unchanged.
    pub fn rules(&self) -> &AttributeRules {
        &self.rules
    }

    /// True for an attribute that is set, removed and compared.
    pub(super) fn keeps(&self, name: &[u8]) -> bool {
        is_kept(name, self.is_root)
            && !self.rules.leave_out(name)
            // The attributes of `--fake-super` itself are never sent or changed as ordinary attributes.
            && !(self.fakes && fake::is_own(name))
    }

    /// True if properties that only root could set are stored in attributes (`--fake-super`).
    pub fn fakes(&self) -> bool {
        self.fakes
    }

    /// Sets all metadata except times: the owner, the attributes, the ACLs, and last the mode, if it is known. The
    /// order matters, because a step may undo an earlier one: for example, a new owner removes setuid bits and
    /// capabilities. [`super::meantime`] describes who has access between the steps.
    pub fn give(
        &self,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        mode: Option<Mode>,
        what: MetadataTarget,
    ) -> Vec<Loss> {
        if self.fakes {
            return self.store(fd, entry, mode, what);
        }
        let (mut losses, nothing) = (Vec::new(), Extra::default());
        let extra = entry.extra.as_deref().unwrap_or(&nothing);
        let mut note = |what: &'static str, result: Result<(), Errno>| {
            losses.extend(result.err().map(|error| Loss(what, error)));
        };
        let had = match self.close(fd, extra, mode, what) {
            Ok(had) => had,
            Err(error) => {
                note("owner, ACL and mode", Err(error));
                note("extended attributes", self.give_xattrs(fd, extra, what));
                return losses;
            }
        };
        let mut mode = mode.or(had);
        if let Some(owner) = &extra.owner {
            mode = self.give_owner(fd, owner, mode, &mut note);
        }
        let opened = self.open_up(fd, what);
        note("extended attributes", self.give_xattrs(fd, extra, what));
        if self.keep.acls && what != MetadataTarget::Link {
            if what == MetadataTarget::Directory {
                note("default ACL", self.give_acl(fd, DEFAULT, &extra.default_acl, what));
            }
            let given = self.give_acl(fd, ACCESS, &acl::within(&extra.acl, mode), what);
            mode = mode.map(|mode| if given.is_ok() { mode } else { acl::without(&extra.acl, mode) });
            note("ACL", given);
        }
        if let Some(mode) = mode.or(opened).filter(|mode| needs_mode(what, *mode)) {
            note("mode", set_mode(fd, mode));
        }
        losses
    }

    /// Sets the owner and group as far as this process may. Returns the mode without the setuid or setgid bit if that
    /// bit would grant the rights of another user or group than intended.
    fn give_owner(
        &self,
        fd: BorrowedFd<'_>,
        owner: &Owner,
        mode: Option<Mode>,
        note: &mut impl FnMut(&'static str, Result<(), Errno>),
    ) -> Option<Mode> {
        let Ok(now) = rustix::fs::fstat(fd) else {
            return mode.map(|mode| mode & !(Mode::SUID | Mode::SGID));
        };
        let (mut uid, mut gid) = (now.st_uid, now.st_gid);
        let (wanted_uid, wanted_gid) = self.numbers(owner);
        if self.keep.group && gid != wanted_gid && (self.is_root || self.member_of.contains(&wanted_gid)) {
            let given = chown(fd, None, Some(wanted_gid));
            gid = if given.is_ok() { wanted_gid } else { gid };
            note("group", given);
        }
        if self.keep.owner && uid != wanted_uid && self.is_root {
            let given = chown(fd, Some(wanted_uid), None);
            uid = if given.is_ok() { wanted_uid } else { uid };
            note("owner", given);
        }
        let mut lost = Mode::empty();
        lost.set(Mode::SUID, self.keep.owner && uid != wanted_uid);
        lost.set(Mode::SGID, self.keep.group && gid != wanted_gid);
        if !self.is_root && mode.is_some_and(|mode| mode.intersects(lost)) {
            note("setuid or setgid bit, which would apply to another owner,", Err(Errno::PERM));
        }
        mode.map(|mode| mode & !lost)
    }

    /// `mode` without the bits that an ordinary user can't set on the entry with the stat `there`: setuid and
    /// setgid bits are removed if the entry won't have the right owner or group.
    pub fn keepable(&self, entry: &Entry, mode: Mode, there: &Stat) -> Mode {
        let owner = entry.extra.as_ref().and_then(|extra| extra.owner.as_ref());
        let Some(owner) = owner.filter(|_| !self.is_root) else { return mode };
        let (uid, gid) = self.numbers(owner);
        let mut lost = Mode::empty();
        lost.set(Mode::SUID, self.keep.owner && uid != there.st_uid);
        lost.set(Mode::SGID, self.keep.group && gid != there.st_gid && !self.member_of.contains(&gid));
        mode & !lost
    }

    /// The user and group number of an owner at this host, by rsync's rules: first `--usermap` and `--groupmap` count;
    /// then root stays root; then a name that exists on this host gets its number here; otherwise the sender's number
    /// is used.
    pub(super) fn numbers(&self, owner: &Owner) -> (u32, u32) {
        (self.number(Who::User, owner.uid, &owner.user), self.number(Who::Group, owner.gid, &owner.group))
    }

    /// Whether the entry's owner and group differ from the intended ones. Differences that this process may
    /// not change don't count.
    pub fn differs(&self, owner: &Owner, there: &Stat) -> (bool, bool) {
        let (uid, gid) = self.numbers(owner);
        let may_give_group = self.is_root || self.member_of.contains(&gid);
        (
            self.keep.owner && self.is_root && uid != there.st_uid,
            self.keep.group && may_give_group && gid != there.st_gid,
        )
    }

    /// The number of a user or group at this host.
    pub(super) fn number(&self, who: Who, number: u32, name: &str) -> u32 {
        if let Some(other) = self.identities.of(who, number, name) {
            return other;
        }
        if self.keep.numeric_ids || number == 0 || name.is_empty() {
            return number;
        }
        let mut accounts = lock(&self.accounts);
        let found = match who {
            Who::User => accounts.0.number(name),
            Who::Group => accounts.1.number(name),
        };
        found.unwrap_or(number)
    }

    fn give_xattrs(&self, fd: BorrowedFd<'_>, extra: &Extra, what: MetadataTarget) -> Result<(), Errno> {
        if !self.keep.xattrs {
            return Ok(());
        }
        if matches!(what, MetadataTarget::Directory | MetadataTarget::Existing) {
            self.remove_others(fd, extra)?;
        }
        let kept = extra.xattrs.iter().filter(|(name, _)| self.keeps(name));
        // All attributes are set; the first error is returned.
        kept.map(|(name, value)| set_xattr(fd, name, value)).fold(Ok(()), Result::and)
    }

    /// Gives an ordinary user the permission to write attributes of an existing entry. Returns the entry's
    /// former mode, if the mode had to be changed.
    fn open_up(&self, fd: BorrowedFd<'_>, what: MetadataTarget) -> Option<Mode> {
        let needed = match what {
            MetadataTarget::Directory => Mode::RWXU,
            MetadataTarget::Existing => Mode::RUSR | Mode::WUSR,
            MetadataTarget::New { .. } | MetadataTarget::Link => return None,
        };
        if self.is_root || !self.keep.xattrs {
            return None;
        }
        let_in(fd, needed).unwrap_or(None)
    }

    /// Removes the attributes of an existing entry that the sender's entry doesn't have.
    fn remove_others(&self, fd: BorrowedFd<'_>, extra: &Extra) -> Result<(), Errno> {
        let names = xattr_names(fd)?;
        let wanted = |name: &[u8]| extra.xattrs.iter().any(|(wanted, _)| wanted == name);
        let listed = names.split(|&byte| byte == 0);
        let surplus = listed.filter(|name| !name.is_empty() && self.keeps(name) && !wanted(name));
        surplus.map(|name| remove_xattr(fd, name)).fold(Ok(()), Result::and)
    }

    fn give_acl(
        &self,
        fd: BorrowedFd<'_>,
        name: &str,
        acl: &[AclEntry],
        what: MetadataTarget,
    ) -> Result<(), Errno> {
        if acl.is_empty() {
            let may_have_one = !matches!(what, MetadataTarget::New { inherits: false, .. });
            return if may_have_one { remove_xattr(fd, name.as_bytes()) } else { Ok(()) };
        }
        set_xattr(fd, name.as_bytes(), &self.encoded(acl))
    }

    fn encoded(&self, acl: &[AclEntry]) -> Vec<u8> {
        acl::encode(acl, |who, number, name| self.number(who, number, name))
    }

    /// True if an existing entry has a different ACL than it should have.
    pub(super) fn acl_changes(&self, fd: BorrowedFd<'_>, extra: &Extra) -> bool {
        if !self.keep.acls {
            return false;
        }
        // Most entries have no ACL, so no memory is allocated before that is known.
        let Ok(length) = rustix::fs::getxattr_query(through_proc(fd), ACCESS) else {
            return !extra.acl.is_empty();
        };
        let mut value = vec![0; length];
        let read = rustix::fs::getxattr(through_proc(fd), ACCESS, value.as_mut_slice());
        extra.acl.is_empty() || read != Ok(length) || value != self.encoded(&extra.acl)
    }
}

/// False for a link, and for a new entry that was already created with the mode.
fn needs_mode(what: MetadataTarget, mode: Mode) -> bool {
    match what {
        MetadataTarget::New { made, inherits } => inherits || made != mode,
        MetadataTarget::Link => false,
        MetadataTarget::Directory | MetadataTarget::Existing => true,
    }
}

/// The names of the attributes, each followed by a zero byte; empty if there are no attributes.
pub fn xattr_names(fd: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut names = vec![0; 64 << 10];
    let length = match rustix::fs::listxattr(through_proc(fd), names.as_mut_slice()) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    names.truncate(length);
    Ok(names)
}

/// A path for a descriptor. Unlike the system calls that take a descriptor, the path also works for descriptors opened
/// with `O_PATH`.
pub fn through_proc(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn chown(fd: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
    // For the kernel, the largest number means that the owner or group isn't changed.
    if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
        return Err(Errno::INVAL);
    }
    rustix::fs::chownat(fd, "", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)
}

/// Sets the mode of a file. `fd` may have been opened with `O_PATH`.
///
/// # Errors
/// The errors of chmod(2).
pub fn set_mode(fd: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    match rustix::fs::fchmod(fd, mode) {
        Err(Errno::BADF) => rustix::fs::chmod(through_proc(fd), mode),
        other => other,
    }
}

/// Adds the bits `needed` to the mode of a file. Returns the former mode; `None` if it already had these
/// bits.
///
/// # Errors
/// The errors of chmod(2).
pub fn let_in(fd: BorrowedFd<'_>, needed: Mode) -> Result<Option<Mode>, Errno> {
    let had = Mode::from_raw_mode(rustix::fs::fstat(fd)?.st_mode & 0o7777);
    if had.contains(needed) {
        return Ok(None);
    }
    set_mode(fd, had | needed)?;
    Ok(Some(had))
}

pub(super) fn set_xattr(fd: BorrowedFd<'_>, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    match rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()) {
        Err(Errno::BADF) => rustix::fs::setxattr(through_proc(fd), name, value, XattrFlags::empty()),
        other => other,
    }
}

pub(super) fn remove_xattr(fd: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let removed = match rustix::fs::fremovexattr(fd, name) {
        Err(Errno::BADF) => rustix::fs::removexattr(through_proc(fd), name),
        other => other,
    };
    match removed {
        // The attribute doesn't exist, or the file system has no attributes.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}

/// The permissions in a directory's default ACL, from which new entries get an ACL; `None` if there is no default ACL.
pub fn default_permissions(directory: BorrowedFd<'_>) -> Option<Mode> {
    // Most directories have no default ACL, so no memory is allocated before that is known.
    let length =
        rustix::fs::getxattr_query(through_proc(directory), DEFAULT).ok().filter(|length| *length > 0)?;
    let mut value = vec![0; length];
    let length = rustix::fs::getxattr(through_proc(directory), DEFAULT, value.as_mut_slice()).ok()?;
    acl::decode(&value[..length], |_, _| String::new()).map(|acl| acl::permissions(&acl))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::entry::{AclTag, Kind, Timestamp};
    use linerate_wire::path::RelPath;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    const ALL: Keep = Keep { owner: true, group: true, xattrs: true, ..Keep::SCP };

    fn writer(keep: Keep, is_root: bool) -> MetadataWriter {
        MetadataWriter { is_root, ..MetadataWriter::new(keep) }
    }

    fn entry(extra: Extra) -> Entry {
        let (mtime, atime) = (Timestamp::default(), Timestamp::default());
        let (path, kind) = (RelPath::root(), Kind::File { size: 0 });
        Entry { source: 0, path, kind, mode: 0o400, mtime, atime, extra: Some(Box::new(extra)) }
    }

    fn commented() -> Entry {
        entry(Extra { xattrs: vec![(b"user.comment".to_vec(), b"x".to_vec())], ..Extra::default() })
    }

    #[test]
    fn root_is_never_mapped_and_numbers_are_where_they_are_asked_for() {
        let named = |uid, user: &str| Owner { uid, gid: 77, user: user.into(), group: String::new() };
        let by_name = writer(ALL, true);
        assert_eq!(by_name.numbers(&named(4_000_000, "root")), (0, 77));
        assert_eq!(by_name.numbers(&named(4_000_000, "nobody here has this name")), (4_000_000, 77));
        assert_eq!(by_name.numbers(&named(0, "daemon")), (0, 77));
        let by_number = writer(Keep { numeric_ids: true, ..ALL }, true);
        assert_eq!(by_number.numbers(&named(4_000_000, "root")), (4_000_000, 77));
    }

    #[test]
    fn a_file_is_made_without_rights_and_so_that_its_attributes_can_be_set() {
        let first = |is_root, entry: &Entry, may_have_acl| {
            let mode = Mode::from_raw_mode(0o6455);
            writer(ALL, is_root).first_mode(entry, mode, may_have_acl).as_raw_mode()
        };
        assert_eq!(first(true, &commented(), false), 0o455);
        assert_eq!(first(false, &commented(), false), 0o655);
        assert_eq!(first(false, &entry(Extra::default()), false), 0o455);
        assert_eq!(first(true, &entry(Extra::default()), true), 0o400);
        let owned = Extra { owner: Some(Owner::default()), ..Extra::default() };
        let named = AclEntry { tag: AclTag::User(1, String::new()), permissions: 7 };
        let listed = Extra { acl: vec![named], ..Extra::default() };
        assert_eq!([owned, listed].map(|extra| first(true, &entry(extra), false)), [0o400; 2]);
    }

    #[test]
    fn a_directory_that_keeps_its_mode_has_it_at_the_end() {
        let made = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(made.path(), PermissionsExt::from_mode(0o555)).unwrap();
        let held = File::open(made.path()).unwrap();
        // A file system without attributes reports errors, but the resulting mode is the same.
        let losses = writer(ALL, false).give(held.as_fd(), &commented(), None, MetadataTarget::Directory);
        assert!(losses.iter().all(|loss| loss.1 == Errno::OPNOTSUPP), "{losses:?}");
        assert_eq!(made.path().metadata().unwrap().mode() & 0o7777, 0o555);
    }

    #[test]
    fn setuid_goes_where_the_owner_does_not_come() {
        let made = tempfile::NamedTempFile::new().unwrap();
        let owner = Owner { uid: u32::MAX, gid: u32::MAX, ..Owner::default() };
        let entry = entry(Extra { owner: Some(owner), ..Extra::default() });
        let (mode, new) =
            (Mode::from_raw_mode(0o6755), MetadataTarget::New { made: Mode::RWXU, inherits: false });
        let losses = writer(ALL, true).give(made.as_file().as_fd(), &entry, Some(mode), new);
        assert_eq!(losses, [Loss("group", Errno::INVAL), Loss("owner", Errno::INVAL)]);
        assert_eq!(made.path().metadata().unwrap().mode() & 0o7777, 0o755);
    }
}
