//! A file beside its target without a name, or under a temporary one: it gets its real name only when it is whole.

mod name;
mod names;

use rustix::fs::{AtFlags, Dev, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::tree::root::Directory;
use linerate_wire::entry::{Entry, Timestamp};
pub use name::{JOURNAL, JOURNAL_DIGITS, Name, is_journal, is_reserved, nonce_of};
pub use names::Names;

/// Why something with such a name isn't sent.
pub const RESERVED: &str = "has a name that is for this program's temporary files; not copied. \
                            'linerate clean' removes what a transfer has left";

/// Something that was made under a temporary name, or none; gone when it is dropped before it got its real name, unless
/// a journal lists it.
#[derive(Debug)]
pub struct Temporary {
    /// The directory in which it gets its real name.
    parent: Arc<Directory>,
    /// The directory where it is until then, if that is another one.
    made_in: Option<Arc<Directory>>,
    /// The name that it has now; empty for none.
    name: OsString,
    /// A name that it may have for a moment: written only when it is needed, most files never have one.
    spare: Option<Name>,
    file: Option<OwnedFd>,
    /// The file stays when this is dropped: a journal lists it.
    kept: bool,
    /// Its kind, if it is no regular file.
    special: Option<FileType>,
    /// The file has its real name, whatever happens.
    in_place: bool,
    /// Others write into the file, too: it stays whatever becomes of this transfer.
    joint: bool,
}

impl Temporary {
    /// Makes an empty file with `mode` and a temporary name, for writing.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn named(parent: Arc<Directory>, names: &Names<'_>, mode: Mode) -> Result<Self, Errno> {
        let (name, file) = make(&parent, names, mode)?;
        Ok(Self::of_file(parent, name, file))
    }

    /// Makes an empty file as [`Temporary::named`] does, but it lies in `holder` until it gets its real name in `parent`.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn named_in(
        holder: Arc<Directory>,
        parent: Arc<Directory>,
        names: &Names<'_>,
        mode: Mode,
    ) -> Result<Self, Errno> {
        let (name, file) = make(&holder, names, mode)?;
        let mut made = Self::of_file(parent, name, file);
        made.made_in = Some(holder);
        Ok(made)
    }

    /// Makes an empty file with `mode` and no name, where the file system knows that (`O_TMPFILE`): nothing is left
    /// of it whatever ends this process. Elsewhere as [`Temporary::named`]. It stays open until it gets its name.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn unnamed(parent: Arc<Directory>, names: &Names<'_>, mode: Mode) -> Result<Self, Errno> {
        if names.named_only.load(Ordering::Relaxed) {
            return Self::named(parent, names, mode);
        }
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::openat(&parent, ".", flags, mode) {
            Ok(file) => {
                let mut unnamed = Self::of_file(parent, OsString::new(), file);
                unnamed.spare = Some(names.next());
                Ok(unnamed)
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                names.named_only.store(true, Ordering::Relaxed);
                Self::named(parent, names, mode)
            }
            Err(error) => Err(error),
        }
    }

    /// The regular file that has the name already, with `mode`, for writing into it, and for reading it back where that is what
    /// `names` are for: it never is temporary.
    ///
    /// # Errors
    /// The errors of open(2) and chmod(2); `EINVAL` where it is no regular file.
    pub fn existing(
        parent: Arc<Directory>,
        names: &Names<'_>,
        name: &OsStr,
        mode: Mode,
    ) -> Result<Self, Errno> {
        let flags = names.access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        rustix::fs::fchmod(&file, mode)?;
        let mut existing = Self::of_file(parent, OsString::new(), file);
        existing.in_place = true;
        Ok(existing)
    }

    /// The file that has the name already, opened for reading: nothing is to become of it.
    pub fn standing(parent: Arc<Directory>, file: OwnedFd) -> Self {
        let mut standing = Self::of_file(parent, OsString::new(), file);
        standing.in_place = true;
        standing
    }

    /// Makes a symbolic link that says `target`.
    ///
    /// # Errors
    /// The errors of symlink(2).
    pub fn symlink(parent: Arc<Directory>, names: &Names<'_>, target: &[u8]) -> Result<Self, Errno> {
        let name = names.given()?.write();
        rustix::fs::symlinkat(target, &parent, &name)?;
        Ok(Self::of_special(parent, name, FileType::Symlink))
    }

    fn of_file(parent: Arc<Directory>, name: OsString, file: OwnedFd) -> Self {
        Self {
            parent,
            made_in: None,
            name,
            spare: None,
            file: Some(file),
            kept: false,
            special: None,
            in_place: false,
            joint: false,
        }
    }

    fn of_special(parent: Arc<Directory>, name: OsString, kind: FileType) -> Self {
        Self {
            parent,
            made_in: None,
            name,
            spare: None,
            file: None,
            kept: false,
            special: Some(kind),
            in_place: false,
            joint: false,
        }
    }

    /// The file that an earlier run made as `name`. It stays when it is dropped.
    pub fn adopt(parent: Arc<Directory>, name: Name, file: OwnedFd) -> Self {
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut adopted = Self::of_file(parent, name.write(), file);
        adopted.keep();
        adopted
    }

    /// The file `name` into which several transfers write. It stays when it is dropped, until one of them gives it its real name.
    pub fn joint(parent: Arc<Directory>, name: Name, file: OwnedFd) -> Self {
        let mut joint = Self::of_file(parent, name.write(), file);
        (joint.kept, joint.joint) = (true, true);
        joint
    }

    /// True where the file has its real name, and had it before.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Gives a file that has no name a temporary one, so that a journal can list it.
    ///
    /// # Errors
    /// The errors of link(2).
    pub fn give_name(&mut self, names: &Names<'_>) -> Result<(), Errno> {
        if self.name.is_empty() && !self.in_place {
            let name = names.given()?.write();
            self.link(&name)?;
            self.name = name;
            let _ = rustix::fs::flock(self.fd()?, FlockOperation::NonBlockingLockExclusive);
        }
        Ok(())
    }

    /// Lets it stay when it is dropped, for the next run.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Removes it, whoever wanted it to stay, unless others write into it.
    pub fn discard(mut self) {
        self.kept = self.joint;
    }

    /// Its temporary name; empty where it has none.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The number of its inode.
    ///
    /// # Errors
    /// The errors of stat(2).
    pub fn inode(&self) -> Result<u64, Errno> {
        let stat = match &self.file {
            Some(file) => rustix::fs::fstat(file)?,
            None => self.holder().stat(&self.name)?,
        };
        Ok(stat.st_ino)
    }

    /// Makes a device node, a named pipe or a socket.
    ///
    /// # Errors
    /// The errors of mknod(2): `EPERM` for a device where this process isn't root.
    pub fn special(
        parent: Arc<Directory>,
        names: &Names<'_>,
        kind: FileType,
        mode: Mode,
        device: Dev,
    ) -> Result<Self, Errno> {
        let name = names.given()?.write();
        rustix::fs::mknodat(&parent, &name, kind, mode, device)?;
        Ok(Self::of_special(parent, name, kind))
    }

    /// Makes one more name of what `of` holds open.
    ///
    /// # Errors
    /// The errors of link(2).
    pub fn another_name(
        parent: Arc<Directory>,
        names: &Names<'_>,
        of: BorrowedFd<'_>,
    ) -> Result<Self, Errno> {
        let name = names.given()?.write();
        link(of, &parent, &name)?;
        let special = FileType::from_raw_mode(rustix::fs::fstat(of)?.st_mode);
        Ok(Self::of_special(parent, name, special))
    }

    /// Holds what was made as a link or a special file, as a mere path. The name isn't believed: somebody else who may
    /// write here could have put another thing there.
    ///
    /// # Errors
    /// The errors of open(2); `ESTALE` where it isn't what was made.
    pub fn hold(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(self.holder(), &self.name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&held)?;
        let is_ours = stat.st_nlink == 1
            && stat.st_uid == rustix::process::geteuid().as_raw()
            && self.special == Some(FileType::from_raw_mode(stat.st_mode));
        if is_ours { Ok(held) } else { Err(Errno::STALE) }
    }

    /// Where to write.
    ///
    /// # Errors
    /// `EBADF` for a link or a closed file.
    pub fn fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.file.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// The directory in which it gets its real name.
    pub fn parent(&self) -> &Arc<Directory> {
        &self.parent
    }

    /// Sets its times.
    ///
    /// # Errors
    /// The errors of utimensat(2).
    pub fn set_times(&self, times: &Timestamps) -> Result<(), Errno> {
        match &self.file {
            Some(file) => rustix::fs::futimens(file, times),
            None => rustix::fs::utimensat(self.holder(), &self.name, times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Puts what was written on stable storage.
    ///
    /// # Errors
    /// The errors of open(2) and fsync(2).
    pub fn sync(&self) -> Result<(), Errno> {
        match &self.file {
            Some(file) => rustix::fs::fsync(file),
            // A special file has no contents but its own, which go with the directory; and to open a device may do things.
            None if self.special.is_some() => Ok(()),
            None => self.reopen().and_then(rustix::fs::fsync),
        }
    }

    /// Opens a closed file again, for reading.
    ///
    /// # Errors
    /// The errors of open(2): `ELOOP` for a link.
    pub fn reopen(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::openat(self.holder(), &self.name, flags, Mode::empty())
    }

    /// Gives it its real name, over whatever had it before.
    ///
    /// # Errors
    /// The errors of link(2) and rename(2): `EISDIR` where a directory has that name.
    pub fn rename(self, name: &OsStr) -> Result<(), Errno> {
        let parent = self.parent.clone();
        self.rename_into(parent.as_fd(), name)
    }

    /// Renames as [`Temporary::rename`] does, into another directory of its file system.
    ///
    /// # Errors
    /// As [`Temporary::rename`].
    pub fn rename_into(mut self, holder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        if self.in_place {
            return Ok(());
        }
        self.kept = self.joint;
        if self.name.is_empty() {
            match link(self.fd()?, holder, name) {
                // A link never replaces what has the name already, a rename does.
                Err(Errno::EXIST) => {
                    let spare = self.spare.as_ref().ok_or(Errno::EXIST)?.write();
                    self.link(&spare)?;
                    self.name = spare;
                }
                other => return other,
            }
        }
        match rustix::fs::renameat(self.holder(), &self.name, holder, name) {
            // Another transfer that found it whole was faster.
            Err(Errno::NOENT) if self.joint && self.has_name(holder, name) => {}
            other => other?,
        }
        self.name.clear();
        Ok(())
    }

    fn has_name(&self, holder: BorrowedFd<'_>, name: &OsStr) -> bool {
        let there = rustix::fs::statat(holder, name, AtFlags::SYMLINK_NOFOLLOW);
        let own = self.fd().and_then(rustix::fs::fstat);
        matches!((there, own), (Ok(there), Ok(own)) if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino))
    }

    /// Names a file that has no name.
    fn link(&self, name: &OsStr) -> Result<(), Errno> {
        link(self.fd()?, self.holder().as_fd(), name)
    }

    /// The directory that it is in now.
    fn holder(&self) -> &Arc<Directory> {
        self.made_in.as_ref().unwrap_or(&self.parent)
    }

    /// Closes a file that waits long for its name, under a temporary one.
    ///
    /// # Errors
    /// The errors of link(2).
    pub fn close(&mut self) -> Result<(), Errno> {
        if self.name.is_empty() && !self.in_place {
            let spare = self.spare.as_ref().ok_or(Errno::EXIST)?.write();
            self.link(&spare)?;
            self.name = spare;
        }
        self.file = None;
        Ok(())
    }

    /// True where it doesn't lie in the directory in which it gets its name.
    pub fn is_elsewhere(&self) -> bool {
        self.made_in.is_some()
    }

    /// True where it lies on another file system than the directory in which it gets its name.
    pub fn is_across(&self) -> bool {
        self.made_in.as_ref().is_some_and(|made_in| made_in.device != self.parent.device)
    }
}

/// An empty file with a temporary name.
fn make(holder: &Directory, names: &Names<'_>, mode: Mode) -> Result<(OsString, OwnedFd), Errno> {
    let name = names.given()?.write();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(holder, &name, flags, mode)?;
    // The remover of left-overs sees by the lock that somebody is at work; without locks, by the age.
    let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok((name, file))
}

/// Names what is held open. The way through /proc needs no privilege (open(2), at `O_TMPFILE`).
///
/// # Errors
/// The errors of link(2).
pub fn link(file: BorrowedFd<'_>, parent: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    let parent = parent.as_fd();
    match rustix::fs::linkat(file, "", parent, name, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT | Errno::PERM) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(rustix::fs::CWD, path, parent, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.name.is_empty() && !self.kept {
            // Nothing can be done about a name that can't be removed; it says whose it is.
            let _ = rustix::fs::unlinkat(self.holder(), &self.name, AtFlags::empty());
        }
    }
}

/// An entry's times as the kernel takes them.
pub fn timestamps(entry: &Entry) -> Timestamps {
    let time = |stamp: Timestamp| Timespec {
        tv_sec: stamp.seconds,
        tv_nsec: i64::from(stamp.nanoseconds.min(999_999_999)) as _,
    };
    Timestamps { last_access: time(entry.atime), last_modification: time(entry.mtime) }
}

#[cfg(test)]
mod tests;
