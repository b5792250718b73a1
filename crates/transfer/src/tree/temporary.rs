//! A file without a name or with a temporary name, usually in the directory in which it will get its real name. It gets
//! its real name only when it is complete.

mod name;
mod names;

use rustix::fs::{AtFlags, Dev, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::tree::identity::identity;
use crate::tree::root::Directory;
use linerate_wire::entry::{Entry, Timestamp};
pub use name::{JOURNAL, JOURNAL_DIGITS, Name, is_journal, is_reserved, nonce_of};
pub use names::Names;

/// The message that an entry isn't sent because this program reserves its name for temporary files.
pub const RESERVED: &str = "has a name reserved for linerate's temporary files; not copied. 'linerate clean' removes the remains of a transfer";

/// An entry without a name or with a temporary name. It is removed if this value is dropped before the entry
/// gets its real name, unless a journal lists it.
#[derive(Debug)]
pub struct Temporary {
    /// The directory in which the file gets its real name.
    parent: Arc<Directory>,
    /// The directory in which the file is until it gets its real name, if that isn't `parent`.
    made_in: Option<Arc<Directory>>,
    /// The file's current name; empty if it has none.
    name: OsString,
    /// The temporary name that a file without a name gets if another entry has its real name, or if the file is closed
    /// before it gets its real name.
    spare: Option<Name>,
    file: Option<OwnedFd>,
    /// True if the file stays when this value is dropped, for example because a journal lists it.
    kept: bool,
    /// The entry's type, if it isn't a regular file.
    special: Option<FileType>,
    /// True if the file has had its real name from the start, and keeps it.
    in_place: bool,
    /// True if other transfers write into the file too, so that it isn't removed if this transfer fails.
    joint: bool,
}

impl Temporary {
    /// Creates an empty file for writing, with `mode` and a temporary name.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn named(parent: Arc<Directory>, names: &Names<'_>, mode: Mode) -> Result<Self, Errno> {
        let (name, file) = make(&parent, names, mode)?;
        Ok(Self::of_file(parent, name, file))
    }

    /// Creates an empty file as [`Temporary::named`] does, but in the directory `holder`. The file gets its
    /// real name in `parent`.
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

    /// Creates an empty file with `mode` and without a name, if the file system supports that (`O_TMPFILE`):
    /// nothing of such a file remains, however this process ends. On other file systems, the file is created
    /// as by [`Temporary::named`]. The file stays open until it gets its name.
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

    /// Opens the existing regular file `name` to change it in place, and sets its mode to `mode`. If `names` are for
    /// reading files back, the file is opened for reading too. The file never has a temporary name.
    ///
    /// # Errors
    /// The errors of open(2) and chmod(2); `EINVAL` if the entry isn't a regular file.
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

    /// An existing file that is open for reading and isn't changed.
    pub fn standing(parent: Arc<Directory>, file: OwnedFd) -> Self {
        let mut standing = Self::of_file(parent, OsString::new(), file);
        standing.in_place = true;
        standing
    }

    /// Creates a symbolic link with the text `target` under a temporary name.
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

    /// The temporary file `name` that an earlier run created. It isn't removed when this value is dropped.
    pub fn adopt(parent: Arc<Directory>, name: Name, file: OwnedFd) -> Self {
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut adopted = Self::of_file(parent, name.write(), file);
        adopted.keep();
        adopted
    }

    /// The temporary file `name`, into which several transfers write. It isn't removed when this value is
    /// dropped; one of the transfers gives it its real name.
    pub fn joint(parent: Arc<Directory>, name: Name, file: OwnedFd) -> Self {
        let mut joint = Self::of_file(parent, name.write(), file);
        (joint.kept, joint.joint) = (true, true);
        joint
    }

    /// True if the file has had its real name from the start.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Gives a temporary name to a file without a name, so that a journal can list it.
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

    /// Marks the file as kept: it isn't removed when this value is dropped, so that the next run can use it.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Removes the file even if it was marked as kept, unless other transfers write into it.
    pub fn discard(mut self) {
        self.kept = self.joint;
    }

    /// The file's temporary name; empty if it has none.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The file's inode number.
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

    /// Creates a device node, a named pipe or a socket.
    ///
    /// # Errors
    /// The errors of mknod(2): `EPERM` for a device if this process isn't root.
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

    /// Creates a hard link, under a temporary name, to the file that `of` holds open.
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

    /// Opens, with `O_PATH`, the link or special file that was created. The name isn't trusted: another user
    /// who may write to the directory could have replaced the entry.
    ///
    /// # Errors
    /// The errors of open(2); `ESTALE` if the name belongs to another entry now.
    pub fn hold(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(self.holder(), &self.name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&held)?;
        let is_ours = stat.st_nlink == 1
            && stat.st_uid == rustix::process::geteuid().as_raw()
            && self.special == Some(FileType::from_raw_mode(stat.st_mode));
        if is_ours { Ok(held) } else { Err(Errno::STALE) }
    }

    /// The descriptor for writing.
    ///
    /// # Errors
    /// `EBADF` for a link or a closed file.
    pub fn fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.file.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// The directory in which the file gets its real name.
    pub fn parent(&self) -> &Arc<Directory> {
        &self.parent
    }

    /// Sets the entry's access and modification times.
    ///
    /// # Errors
    /// The errors of utimensat(2).
    pub fn set_times(&self, times: &Timestamps) -> Result<(), Errno> {
        match &self.file {
            Some(file) => rustix::fs::futimens(file, times),
            None => rustix::fs::utimensat(self.holder(), &self.name, times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Syncs the file's written data to stable storage.
    ///
    /// # Errors
    /// The errors of open(2) and fsync(2).
    pub fn sync(&self) -> Result<(), Errno> {
        match &self.file {
            Some(file) => rustix::fs::fsync(file),
            // A special file has no contents to sync apart from its directory entry, and opening a device may have side
            // effects.
            None if self.special.is_some() => Ok(()),
            None => self.reopen().and_then(rustix::fs::fsync),
        }
    }

    /// Reopens a closed file for reading.
    ///
    /// # Errors
    /// The errors of open(2): `ELOOP` for a link.
    pub fn reopen(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::openat(self.holder(), &self.name, flags, Mode::empty())
    }

    /// Gives the file its real name, and replaces an existing entry of that name.
    ///
    /// # Errors
    /// The errors of link(2) and rename(2): `EISDIR` if a directory has that name.
    pub fn rename(self, name: &OsStr) -> Result<(), Errno> {
        let parent = self.parent.clone();
        self.rename_into(parent.as_fd(), name)
    }

    /// Renames the file as [`Temporary::rename`] does, but into the directory `holder` on the same file
    /// system.
    ///
    /// # Errors
    /// The errors of [`Temporary::rename`].
    pub fn rename_into(mut self, holder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        if self.in_place {
            return Ok(());
        }
        self.kept = self.joint;
        if self.name.is_empty() {
            match link(self.fd()?, holder, name) {
                // link(2) never replaces an existing entry; rename(2) does.
                Err(Errno::EXIST) => {
                    let spare = self.spare.as_ref().ok_or(Errno::EXIST)?.write();
                    self.link(&spare)?;
                    self.name = spare;
                }
                other => return other,
            }
        }
        match rustix::fs::renameat(self.holder(), &self.name, holder, name) {
            // Another transfer has noticed first that the file is complete, and has renamed it.
            Err(Errno::NOENT) if self.joint && self.has_name(holder, name) => {}
            other => other?,
        }
        self.name.clear();
        Ok(())
    }

    fn has_name(&self, holder: BorrowedFd<'_>, name: &OsStr) -> bool {
        let there = rustix::fs::statat(holder, name, AtFlags::SYMLINK_NOFOLLOW);
        let own = self.fd().and_then(rustix::fs::fstat);
        matches!((there, own), (Ok(there), Ok(own)) if identity(&there) == identity(&own))
    }

    /// Gives a name to a file without a name.
    fn link(&self, name: &OsStr) -> Result<(), Errno> {
        link(self.fd()?, self.holder().as_fd(), name)
    }

    /// The directory in which the file is now.
    fn holder(&self) -> &Arc<Directory> {
        self.made_in.as_ref().unwrap_or(&self.parent)
    }

    /// Closes a file that has to wait long for its real name. The file gets a temporary name.
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

    /// True if the file isn't in the directory in which it gets its real name.
    pub fn is_elsewhere(&self) -> bool {
        self.made_in.is_some()
    }

    /// True if the file is on another file system than the directory in which it gets its real name.
    pub fn is_across(&self) -> bool {
        self.made_in.as_ref().is_some_and(|made_in| made_in.device != self.parent.device)
    }
}

/// Creates an empty file with a temporary name.
fn make(holder: &Directory, names: &Names<'_>, mode: Mode) -> Result<(OsString, OwnedFd), Errno> {
    let name = names.given()?.write();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(holder, &name, flags, mode)?;
    // The lock shows that the file is in use. The code that removes leftovers removes no file that it can't lock.
    let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok((name, file))
}

/// Gives a name to an open file. If this process lacks the privilege for that, the file is linked by its path in /proc,
/// which needs no privilege (open(2), at `O_TMPFILE`).
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
            // A failure can't be handled here; the temporary name shows which transfer it belongs to.
            let _ = rustix::fs::unlinkat(self.holder(), &self.name, AtFlags::empty());
        }
    }
}

/// An entry's times in the form that the kernel takes.
pub fn timestamps(entry: &Entry) -> Timestamps {
    let time = |stamp: Timestamp| Timespec {
        tv_sec: stamp.seconds,
        tv_nsec: i64::from(stamp.nanoseconds.min(999_999_999)) as _,
    };
    Timestamps { last_access: time(entry.atime), last_modification: time(entry.mtime) }
}

#[cfg(test)]
mod tests;
