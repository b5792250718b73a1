//! The sender's half: reads the properties of an entry that aren't in its stat.

use linerate_sys::xattr::list_at;
use linerate_wire::control::Keep;
use linerate_wire::entry::{AclEntry, Entry, Extra, Kind, MAX_XATTR_COUNT, MAX_XATTRS, Owner};
use linerate_wire::path::RelPath;
use rustix::fs::{Access, FileType, Mode, OFlags, Stat, getxattr, lgetxattr, listxattr, llistxattr};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::accounts::Accounts;
use super::acl::{self, Who};
use super::{ACCESS, DEFAULT, fake, is_kept};
use crate::tree::filter::attributes::AttributeRules;
use crate::tree::reading::append_from;

/// The most bytes that the kernel returns for all attribute names of an entry, or for one value (limits.h).
const LARGEST: usize = 64 << 10;
/// The buffer size in bytes with which attributes are read first. It is usually enough. For each call, the kernel
/// allocates memory of the buffer's size.
const USUAL: usize = 512;

/// The longest text of a symbolic link in bytes (limits.h).
const LONGEST_LINK: usize = 4095;

static NO_LISTXATTRAT: AtomicBool = AtomicBool::new(false);

/// The location of an entry.
#[derive(Clone, Copy)]
pub enum At<'a> {
    /// A name in a directory that is open.
    In(BorrowedFd<'a>, &'a [u8]),
    /// An open descriptor of the entry, perhaps opened with `O_PATH`.
    Open(BorrowedFd<'a>),
}

/// Determines which attributes are read if some attributes stand for other properties (`--fake-super`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faked {
    /// All attributes; a stored attribute is read under the name of the attribute for which it stands.
    All,
    /// Only the attributes that can be stored as attributes of ordinary files.
    Stored,
}

/// Reads the properties in `keep`, one entry after the other.
pub struct Reader {
    keep: Keep,
    /// Excludes attributes by their names.
    rules: AttributeRules,
    fakes: Option<Faked>,
    users: Accounts,
    groups: Accounts,
    seen: HashMap<(u64, u64), FirstName>,
    /// True if one name of a file may be found several times.
    may_repeat: bool,
    names: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    /// True if attributes can be read through paths in /proc.
    has_proc: bool,
}

/// The first name of a file with several names.
struct FirstName {
    source: u32,
    path: RelPath,
    /// The number of the file's names that haven't been found yet.
    left: u128,
}

impl Reader {
    /// A reader that hasn't read any entry.
    pub fn new(keep: Keep) -> Self {
        let room = if keep.xattrs || keep.acls { LARGEST } else { 0 };
        Self {
            keep,
            rules: AttributeRules::default(),
            fakes: None,
            users: Accounts::users(),
            groups: Accounts::groups(),
            seen: HashMap::new(),
            may_repeat: false,
            names: vec![0; room],
            value: vec![0; room],
            path: Vec::new(),
            has_proc: rustix::fs::access("/proc/self/fd", Access::EXISTS).is_ok(),
        }
    }

    /// Excludes the attributes that `rules` leave out.
    pub fn with_rules(mut self, rules: AttributeRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets whether one name of a file may be found several times: through links that are followed, or in several sources.
    /// Then files whose names have all been found are remembered too.
    pub fn with_repeated_names(mut self, may_repeat: bool) -> Self {
        self.may_repeat = may_repeat;
        self
    }

    /// Sets how attributes that stand for other properties are read.
    pub fn with_fakes(mut self, fakes: Option<Faked>) -> Self {
        self.fakes = fakes;
        self
    }

    /// Adds the kept properties to `entry`. `bare` is true if the entry is known to have no attributes. If the file was
    /// found before under another name, the entry becomes a hard link to that name.
    ///
    /// # Errors
    /// The reason why a property can't be read. The entry is then sent without this property.
    pub fn complete(&mut self, entry: &mut Entry, stat: &Stat, at: At<'_>, bare: bool) -> Result<(), String> {
        let linked = self.keep.hard_links && stat.st_nlink > 1 && entry.kind != Kind::Directory;
        if linked && let Some(first) = self.first_name(entry, stat) {
            entry.kind = first;
            return Ok(());
        }
        let owner = (self.keep.owner || self.keep.group).then(|| self.owner(stat));
        let mut extra = Extra { owner, linked, ..Extra::default() };
        let read = if bare { Ok(()) } else { self.attributes(&mut extra, stat, at) };
        if extra != Extra::default() {
            entry.extra = Some(Box::new(extra));
        }
        read
    }

    /// If `entry` is a further hard link: the kind of entry that refers to the file's first name. `None` if `entry` is
    /// the first name.
    fn first_name(&mut self, entry: &Entry, stat: &Stat) -> Option<Kind> {
        let file = (stat.st_dev, stat.st_ino);
        let left = u128::from(stat.st_nlink);
        let seen = self.seen.entry(file).or_insert_with(|| FirstName {
            source: entry.source,
            path: entry.path.clone(),
            left,
        });
        seen.left = seen.left.saturating_sub(1);
        let is_first = (seen.source, &seen.path) == (entry.source, &entry.path);
        let first = (!is_first).then(|| Kind::HardLink { source: seen.source, path: seen.path.clone() });
        if seen.left == 0 && !self.may_repeat {
            self.seen.remove(&file);
        }
        first
    }

    fn owner(&mut self, stat: &Stat) -> Owner {
        let (uid, gid) = (stat.st_uid, stat.st_gid);
        if self.keep.numeric_ids {
            return Owner { uid, gid, ..Owner::default() };
        }
        Owner { uid, gid, user: self.users.name(uid), group: self.groups.name(gid) }
    }

    /// Adds the requested extended attributes and ACLs of an entry whose stat is `stat`.
    ///
    /// # Errors
    /// The reason why some of these attributes can't be read.
    pub(super) fn attributes(&mut self, extra: &mut Extra, stat: &Stat, at: At<'_>) -> Result<(), String> {
        if self.names.is_empty() {
            return Ok(());
        }
        if !self.has_proc {
            return Err(
                "its extended attributes can't be read, because /proc isn't mounted on this host".into()
            );
        }
        let mut names = std::mem::take(&mut self.names);
        let read = self.list(&mut names, at).and_then(|length| {
            let listed = names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
            // All attributes are read; the first error is returned.
            listed.map(|name| self.attribute(extra, name, stat, at)).fold(Ok(()), Result::and)
        });
        self.names = names;
        read.map_err(|error| format!("its extended attributes can't be read: {error}"))?;
        let size: usize = extra.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        let count = extra.xattrs.len();
        if size > MAX_XATTRS || count > MAX_XATTR_COUNT {
            extra.xattrs.clear();
            return Err(format!("its {count} extended attributes have {size} bytes, more than can be sent"));
        }
        Ok(())
    }

    fn attribute(&mut self, extra: &mut Extra, name: &[u8], stat: &Stat, at: At<'_>) -> Result<(), Errno> {
        if let Some(faked) = self.fakes {
            return self.faked_attribute(extra, (name, faked), stat, at);
        }
        let is_acl = name == ACCESS.as_bytes() || name == DEFAULT.as_bytes();
        if is_acl && self.keep.acls {
            return self.acl(extra, name, at);
        }
        let is_kept = self.keep.xattrs && is_kept(name, true) && !self.rules.leave_out(name);
        if is_kept && self.get(name, at)? {
            extra.xattrs.push((name.to_vec(), self.value.clone()));
            self.value.resize(LARGEST, 0);
        }
        Ok(())
    }

    /// Reads an attribute as [`Self::attribute`] does, if some attributes are stored in rsync's format.
    fn faked_attribute(
        &mut self,
        extra: &mut Extra,
        (stored, faked): (&[u8], Faked),
        stat: &Stat,
        at: At<'_>,
    ) -> Result<(), Errno> {
        let is_acl = stored == fake::ACCESS.as_bytes() || stored == fake::DEFAULT.as_bytes();
        if is_acl && self.keep.acls {
            return self.acl_by(extra, (stored, fake::DEFAULT), at, |value, name| {
                fake::decode_acl(value, stat.st_mode, name)
            });
        }
        let name = fake::meant(stored);
        let is_foreign = faked == Faked::Stored && !stored.starts_with(b"user.");
        if !self.keep.xattrs
            || fake::is_own(stored)
            || is_foreign
            || !is_kept(name, true)
            || self.rules.leave_out(name)
        {
            return Ok(());
        }
        let other = extra.xattrs.iter().position(|(there, _)| there == name);
        // If the file has both a stored attribute and a real one of the same name, the stored one is used.
        if other.is_some() && stored == name || !self.get(stored, at)? {
            return Ok(());
        }
        other.into_iter().for_each(|at| drop(extra.xattrs.swap_remove(at)));
        extra.xattrs.push((name.to_vec(), self.value.clone()));
        self.value.resize(LARGEST, 0);
        Ok(())
    }

    fn acl(&mut self, extra: &mut Extra, name: &[u8], at: At<'_>) -> Result<(), Errno> {
        self.acl_by(extra, (name, DEFAULT), at, |value, name| acl::decode(value, name))
    }

    /// Adds the ACL in the attribute `name`, as the default ACL if the name is that of default ACLs.
    fn acl_by(
        &mut self,
        extra: &mut Extra,
        (name, default): (&[u8], &str),
        at: At<'_>,
        decode: impl FnOnce(&[u8], &mut dyn FnMut(Who, u32) -> String) -> Option<Vec<AclEntry>>,
    ) -> Result<(), Errno> {
        if !self.get(name, at)? {
            return Ok(());
        }
        let (users, groups, numeric) = (&mut self.users, &mut self.groups, self.keep.numeric_ids);
        let acl = decode(&self.value, &mut |who, number| match who {
            _ if numeric => String::new(),
            Who::User => users.name(number),
            Who::Group => groups.name(number),
        });
        self.value.resize(LARGEST, 0);
        let acl = acl.ok_or(Errno::INVAL)?;
        if name == default.as_bytes() {
            extra.default_acl = acl;
        } else if !acl::is_mode(&acl) {
            extra.acl = acl;
        }
        Ok(())
    }

    /// A function that checks whether an entry has no attributes; `None` if attributes aren't requested, or can't be
    /// read because /proc isn't mounted.
    pub fn baring(&self) -> Option<impl Fn(At<'_>) -> bool + Sync + use<>> {
        let asks = !self.names.is_empty() && self.has_proc;
        asks.then_some(|at: At<'_>| {
            let mut path = Vec::new();
            write_path(&mut path, at);
            // No attribute name fits into one byte, so the call succeeds only if there are none. With an
            // empty buffer, rustix would return 0 in any case.
            matches!(llistxattr(path.as_slice(), &mut [0; 1]), Ok(0) | Err(Errno::OPNOTSUPP))
        })
    }

    /// Lists the attributes into `names`; returns the total length of the names in bytes.
    fn list(&mut self, names: &mut [u8], at: At<'_>) -> Result<usize, Errno> {
        let listed = match self.list_into(&mut names[..USUAL], at) {
            Err(Errno::RANGE) => self.list_into(names, at),
            listed => listed,
        };
        match listed {
            // The file system has no attributes, or the entry has vanished, which is reported later.
            Err(Errno::OPNOTSUPP | Errno::NOENT) => Ok(0),
            listed => listed,
        }
    }

    fn list_into(&mut self, names: &mut [u8], at: At<'_>) -> Result<usize, Errno> {
        let At::In(directory, name) = at else { return self.list_by_path(names, at) };
        if NO_LISTXATTRAT.load(Ordering::Relaxed) {
            return self.list_by_path(names, at);
        }
        match list_at(directory, name, names) {
            // A seccomp filter that is older than the call returns EPERM.
            Err(Errno::NOSYS | Errno::PERM) => {
                let listed = self.list_by_path(names, at);
                NO_LISTXATTRAT.store(listed.is_ok(), Ordering::Relaxed);
                listed
            }
            listed => listed,
        }
    }

    fn list_by_path(&mut self, names: &mut [u8], at: At<'_>) -> Result<usize, Errno> {
        write_path(&mut self.path, at);
        match at {
            At::In(..) => llistxattr(self.path.as_slice(), names),
            At::Open(_) => listxattr(self.path.as_slice(), names),
        }
    }

    /// Reads an attribute into `self.value`; false if the attribute no longer exists.
    fn get(&mut self, name: &[u8], at: At<'_>) -> Result<bool, Errno> {
        write_path(&mut self.path, at);
        let (path, value) = (self.path.as_slice(), self.value.as_mut_slice());
        let read = |value: &mut [u8]| match at {
            At::In(..) => lgetxattr(path, name, value),
            At::Open(_) => getxattr(path, name, value),
        };
        let length = match read(&mut value[..USUAL]) {
            Err(Errno::RANGE) => read(value),
            length => length,
        };
        match length {
            Ok(length) => {
                self.value.truncate(length);
                Ok(true)
            }
            Err(Errno::NODATA | Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The stat of the entry for which a file with the stat `real` stands, according to the file's attribute in the format
/// of rsync's `--fake-super`.
///
/// # Errors
/// The errors of getxattr(2); `EINVAL` if the attribute isn't valid for such a file.
pub fn seen(at: At<'_>, real: &Stat) -> Result<Stat, Errno> {
    let kind = FileType::from_raw_mode(real.st_mode);
    // Entries of other types can't have attributes in the namespace `user.`.
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Ok(*real);
    }
    let (mut path, mut value) = (Vec::new(), [0; fake::MOST_STAT_BYTES]);
    write_path(&mut path, at);
    let read = match at {
        At::In(..) => lgetxattr(path.as_slice(), fake::STAT, &mut value),
        At::Open(_) => getxattr(path.as_slice(), fake::STAT, &mut value),
    };
    match read {
        Ok(length) => {
            let said = fake::FakeStat::parse(&value[..length], kind).ok_or(Errno::INVAL)?;
            Ok(said.apply(real))
        }
        Err(Errno::RANGE) => Err(Errno::INVAL),
        // The entry has no such attribute, or it has vanished, which is reported later.
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT) => Ok(*real),
        Err(error) => Err(error),
    }
}

/// The text of the link for which a file stands, which is stored as the file's contents.
///
/// # Errors
/// The errors of open(2) and read(2); `ENAMETOOLONG` if the file is longer than any link's text, `EINVAL` if
/// it is empty or not a file.
pub fn faked_link(at: At<'_>) -> Result<Vec<u8>, Errno> {
    let mut path = Vec::new();
    write_path(&mut path, at);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = if matches!(at, At::In(..)) { flags | OFlags::NOFOLLOW } else { flags };
    let file = rustix::fs::open(path.as_slice(), flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let mut text = Vec::new();
    append_from(file.as_fd(), 0, LONGEST_LINK + 1, &mut text)?;
    match text.len() {
        0 => Err(Errno::INVAL),
        1..=LONGEST_LINK => Ok(text),
        _ => Err(Errno::NAMETOOLONG),
    }
}

/// Sets `path` to the entry's path below /proc. This path leads through the descriptor, so no link is followed on the
/// way to the entry.
fn write_path(path: &mut Vec<u8>, at: At<'_>) {
    path.clear();
    let (fd, name) = match at {
        At::In(fd, name) => (fd, Some(name)),
        At::Open(fd) => (fd, None),
    };
    path.extend_from_slice(format!("/proc/self/fd/{}", fd.as_raw_fd()).as_bytes());
    if let Some(name) = name {
        path.push(b'/');
        path.extend_from_slice(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::skip;
    use linerate_wire::entry::Timestamp;
    use rustix::fs::{AtFlags, XattrFlags, setxattr, statat};
    use std::fs::{self, File};

    fn read(reader: &mut Reader, top: &File, name: &str) -> Entry {
        let stat = statat(top, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        let path = RelPath::new(name.as_bytes()).unwrap();
        let (mtime, atime) = (Timestamp::default(), Timestamp::default());
        let kind = Kind::File { size: 0 };
        let mut entry = Entry { source: 0, path, kind, mode: 0, mtime, atime, extra: None };
        reader.complete(&mut entry, &stat, At::In(top.as_fd(), name.as_bytes()), false).unwrap();
        entry
    }

    #[test]
    fn names_of_one_file_refer_to_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let top = File::open(directory.path()).unwrap();
        fs::write(directory.path().join("a"), "").unwrap();
        fs::hard_link(directory.path().join("a"), directory.path().join("b")).unwrap();
        let mut reader = Reader::new(Keep { hard_links: true, ..Keep::NOTHING });
        assert!(read(&mut reader, &top, "a").extra.unwrap().linked);
        let path = RelPath::new(&b"a"[..]).unwrap();
        assert_eq!(read(&mut reader, &top, "b").kind, Kind::HardLink { source: 0, path });
        assert!(reader.seen.is_empty(), "all its names came");
        let mut unasked = Reader::new(Keep::NOTHING);
        assert_eq!(read(&mut unasked, &top, "a").extra, None);
    }

    #[test]
    fn attributes_are_read_whole() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let top = File::open(directory.path()).unwrap();
        fs::write(directory.path().join("a"), "").unwrap();
        let set =
            |name: &str, value: &[u8]| setxattr(directory.path().join("a"), name, value, XattrFlags::empty());
        if let Err(error) = set("user.large", &[7; 3000]).and_then(|()| set("user.empty", b"")) {
            return skip("xattrs", format_args!("/var/tmp takes no extended attributes: {error}"));
        }
        let mut reader = Reader::new(Keep { xattrs: true, ..Keep::NOTHING });
        let mut xattrs = read(&mut reader, &top, "a").extra.unwrap().xattrs;
        xattrs.retain(|(name, _)| name.starts_with(b"user."));
        xattrs.sort();
        assert_eq!(xattrs, [(b"user.empty".to_vec(), vec![]), (b"user.large".to_vec(), vec![7; 3000])]);
    }

    #[test]
    fn bare_is_what_has_no_attributes() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let top = File::open(directory.path()).unwrap();
        for name in ["with", "without"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let set = setxattr(directory.path().join("with"), "user.a", b"", XattrFlags::empty());
        if let Err(error) = set {
            return skip("xattrs", format_args!("/var/tmp takes no extended attributes: {error}"));
        }
        let is_bare = Reader::new(Keep { xattrs: true, ..Keep::NOTHING }).baring().unwrap();
        let is_bare = |name: &str| is_bare(At::In(top.as_fd(), name.as_bytes()));
        assert!(is_bare("without") && !is_bare("with") && !is_bare("gone"));
        assert!(Reader::new(Keep::NOTHING).baring().is_none());
    }

    #[test]
    fn many_attributes_are_listed_by_either_way() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let top = File::open(directory.path()).unwrap();
        fs::write(directory.path().join("a"), "").unwrap();
        let name = |number: usize| format!("user.an attribute with a number {number:02}");
        let set = |number| setxattr(directory.path().join("a"), name(number), b"", XattrFlags::empty());
        if let Err(error) = (0..2 * USUAL / name(0).len()).try_for_each(set) {
            return skip("xattrs", format_args!("/var/tmp takes no extended attributes, or few: {error}"));
        }
        let mut reader = Reader::new(Keep { xattrs: true, ..Keep::NOTHING });
        let (mut names, at) = (vec![0; LARGEST], At::In(top.as_fd(), b"a"));
        let listed = reader.list(&mut names, at).unwrap();
        assert!(listed > USUAL);
        let mut by_path = vec![0; LARGEST];
        let length = reader.list_by_path(&mut by_path, at).unwrap();
        assert_eq!(names[..listed], by_path[..length]);
    }
}
