//! A file beside its target without a name, or under a temporary one: it gets its real name only when it is whole.

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::root::Directory;
use linerate_wire::entry::{Entry, Timestamp};

/// What temporary names begin with.
pub const PREFIX: &str = ".linerate.";

/// Makes temporary names that no other transfer makes.
pub struct Names {
    transfer: Arc<str>,
    next: AtomicU64,
    /// Set where the destination's file system doesn't know files without a name.
    named_only: AtomicBool,
    /// How files are opened.
    access: OFlags,
}

impl Names {
    /// Names of the transfer that `nonce` distinguishes from others; its files are for writing, and for reading too
    /// where they are `read_back`.
    pub fn new(nonce: &[u8], read_back: bool) -> Self {
        let transfer: String = nonce.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let access = if read_back { OFlags::RDWR } else { OFlags::WRONLY };
        let (next, named_only) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { transfer: transfer.into(), next, named_only, access }
    }

    fn next(&self) -> Name {
        Name { transfer: Arc::clone(&self.transfer), number: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

/// A temporary name that is written only when it is needed: most files never have one.
#[derive(Debug)]
struct Name {
    transfer: Arc<str>,
    number: u64,
}

impl Name {
    fn write(&self) -> OsString {
        format!("{PREFIX}{}.{:x}", self.transfer, self.number).into()
    }
}

/// Something that was made under a temporary name, or none; gone when it is dropped before it got its real name.
#[derive(Debug)]
pub struct Temporary {
    parent: Arc<Directory>,
    /// The name that it has now; empty for none.
    name: OsString,
    /// A name that it may have for a moment.
    spare: Option<Name>,
    file: Option<OwnedFd>,
}

impl Temporary {
    /// Makes an empty file with `mode` and a temporary name, for writing.
    ///
    /// # Errors
    /// What open(2) returns.
    pub fn named(parent: Arc<Directory>, names: &Names, mode: Mode) -> Result<Self, Errno> {
        let name = names.next().write();
        let flags = names.access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, &name, flags, mode)?;
        Ok(Self { parent, name, spare: None, file: Some(file) })
    }

    /// Makes an empty file with `mode` and no name, where the file system knows that (`O_TMPFILE`): nothing is left
    /// of it whatever ends this process. Elsewhere as [`Temporary::named`]. It stays open until it gets its name.
    ///
    /// # Errors
    /// What open(2) returns.
    pub fn unnamed(parent: Arc<Directory>, names: &Names, mode: Mode) -> Result<Self, Errno> {
        if names.named_only.load(Ordering::Relaxed) {
            return Self::named(parent, names, mode);
        }
        let flags = names.access | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::openat(&parent, ".", flags, mode) {
            Ok(file) => {
                Ok(Self { parent, name: OsString::new(), spare: Some(names.next()), file: Some(file) })
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                names.named_only.store(true, Ordering::Relaxed);
                Self::named(parent, names, mode)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a symbolic link that says `target`.
    ///
    /// # Errors
    /// What symlink(2) returns.
    pub fn symlink(parent: Arc<Directory>, names: &Names, target: &[u8]) -> Result<Self, Errno> {
        let name = names.next().write();
        rustix::fs::symlinkat(target, &parent, &name)?;
        Ok(Self { parent, name, spare: None, file: None })
    }

    /// Where to write.
    ///
    /// # Errors
    /// `EBADF` for a link or a closed file.
    pub fn fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.file.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// Closes the file, so that many can wait for their names; one that its owner can't open again stays open.
    pub fn close(&mut self, mode: Mode) {
        if mode.contains(Mode::RUSR) && !self.name.is_empty() {
            self.file = None;
        }
    }

    /// The directory that it is in.
    pub fn parent(&self) -> &Arc<Directory> {
        &self.parent
    }

    /// Sets the entry's times.
    ///
    /// # Errors
    /// What utimensat(2) returns.
    pub fn set_times(&self, entry: &Entry) -> Result<(), Errno> {
        let times = timestamps(entry);
        match &self.file {
            Some(file) => rustix::fs::futimens(file, &times),
            None => rustix::fs::utimensat(&self.parent, &self.name, &times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Puts what was written on stable storage.
    ///
    /// # Errors
    /// What open(2) and fsync(2) return.
    pub fn sync(&self) -> Result<(), Errno> {
        match &self.file {
            Some(file) => rustix::fs::fsync(file),
            None => match self.reopen() {
                Ok(file) => rustix::fs::fsync(file),
                // A link has no contents but its own, which go with the directory.
                Err(Errno::LOOP) => Ok(()),
                Err(error) => Err(error),
            },
        }
    }

    /// Opens a closed file again, for reading.
    ///
    /// # Errors
    /// What open(2) returns: `ELOOP` for a link.
    pub fn reopen(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty())
    }

    /// Gives it its real name, over whatever had it before.
    ///
    /// # Errors
    /// What link(2) and rename(2) return: `EISDIR` where a directory has that name.
    pub fn rename(mut self, name: &OsStr) -> Result<(), Errno> {
        if self.name.is_empty() {
            match self.link(name) {
                // A link never replaces what has the name already, a rename does.
                Err(Errno::EXIST) => {
                    let spare = self.spare.as_ref().ok_or(Errno::EXIST)?.write();
                    self.link(&spare)?;
                    self.name = spare;
                }
                other => return other,
            }
        }
        rustix::fs::renameat(&self.parent, &self.name, &self.parent, name)?;
        self.name.clear();
        Ok(())
    }

    /// Names a file that has no name. The way through /proc needs no privilege (open(2), at `O_TMPFILE`).
    fn link(&self, name: &OsStr) -> Result<(), Errno> {
        let file = self.fd()?;
        match rustix::fs::linkat(file, "", &self.parent, name, AtFlags::EMPTY_PATH) {
            Err(Errno::NOENT | Errno::PERM) => {
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                rustix::fs::linkat(rustix::fs::CWD, path, &self.parent, name, AtFlags::SYMLINK_FOLLOW)
            }
            other => other,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // Nothing can be done about a name that can't be removed; it says whose it is.
            let _ = rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::empty());
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
