//! A directory that is held open, and everything below it.
//!
//! Every operation on a source or a destination is relative to such a descriptor. The kernel resolves the path
//! below it without following a symbolic link (openat2(2)); where it lacks that call, each component is opened
//! from the one before.

use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use rustix::path::Arg;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::lock::lock;
use crate::metadata::write::has_default_acl;

/// Directories that a [`Root`] keeps open at most.
const HELD_DIRECTORIES: usize = 256;
/// How often a resolution is tried again when a rename elsewhere disturbed it.
const RESOLVE_TRIES: usize = 64;

static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// A held directory.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    /// The device that it is on.
    pub device: u64,
    inherits: OnceLock<bool>,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The top of a source or destination.
pub struct Root {
    top: Arc<Directory>,
    path: PathBuf,
    held: Mutex<HashMap<RelPath, Arc<Directory>>>,
    /// Directories made because something below them came before they did.
    made_early: Mutex<HashSet<RelPath>>,
}

impl Root {
    /// Holds the directory that the user named; links in that name are the user's own and are followed.
    ///
    /// # Errors
    /// Where it can't be opened or is no directory.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let open = |flags| rustix::fs::open(path, flags | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        // A directory that may be entered but not listed still takes files.
        let fd = open(OFlags::RDONLY).or_else(|_| open(OFlags::PATH))?;
        Ok(Self {
            top: Arc::new(Directory::new(fd)?),
            path: path.to_owned(),
            held: Mutex::default(),
            made_early: Mutex::default(),
        })
    }

    /// The path as the user would write it, for messages.
    pub fn shown(&self, path: &RelPath) -> PathBuf {
        if path.is_root() { self.path.clone() } else { self.path.join(path.as_os_str()) }
    }

    /// The top itself.
    pub fn top(&self) -> &Arc<Directory> {
        &self.top
    }

    /// Opens what is at `path`, never through a link; a link at its end is an error too (`ELOOP`).
    ///
    /// # Errors
    /// What open(2) returns.
    pub fn open_at(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        // A fifo that took a file's place must not block; openat2 refuses the flag beside PATH, which never blocks.
        let patience = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK };
        resolve(self.top.as_fd(), path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | patience)
    }

    /// The directory at `path`, held open for the next call.
    ///
    /// # Errors
    /// What open(2) returns: `ENOENT`, `ENOTDIR`, `ELOOP` for a link in the way.
    pub fn directory(&self, path: &RelPath) -> Result<Arc<Directory>, Errno> {
        if path.is_root() {
            return Ok(self.top.clone());
        }
        if let Some(held) = lock(&self.held).get(path) {
            return Ok(held.clone());
        }
        let open = |flags| self.open_at(path, flags | OFlags::DIRECTORY);
        let fd = open(OFlags::RDONLY).or_else(|error| match error {
            Errno::ACCESS => open(OFlags::PATH),
            error => Err(error),
        })?;
        let directory = Arc::new(Directory::new(fd)?);
        let mut held = lock(&self.held);
        if held.len() >= HELD_DIRECTORIES {
            held.clear();
        }
        held.insert(path.clone(), directory.clone());
        Ok(directory)
    }

    /// The directory at `path`, made with what leads to it where it is missing.
    ///
    /// # Errors
    /// What mkdir(2) and open(2) return.
    pub fn directory_or_make(&self, path: &RelPath, mode: Mode) -> Result<Arc<Directory>, Errno> {
        match self.directory(path) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
        let (parent, name) = path.split().ok_or(Errno::NOENT)?;
        let parent = self.directory_or_make(&parent, mode)?;
        self.make_early(&parent, name, path, mode)?;
        self.directory(path)
    }

    /// Makes the directory at `path` with `mode`; true where it wasn't there before this transfer.
    ///
    /// # Errors
    /// What mkdir(2) and open(2) return; `ENOTDIR` where something else has that name.
    pub fn make_directory(&self, path: &RelPath, mode: Mode) -> Result<bool, Errno> {
        let Some((parent, name)) = path.split() else { return Ok(false) };
        // How open that may be is known when its own entry comes.
        let parent = self.directory_or_make(&parent, Mode::RWXU)?;
        match rustix::fs::mkdirat(&parent, name, mode) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) if parent.has_directory(name) => {
                let is_new = lock(&self.made_early).remove(path);
                if is_new {
                    let held = self.directory(path)?;
                    // It may have a setgid bit from the directory that it is in.
                    let inherited = Mode::from_raw_mode(rustix::fs::fstat(&held)?.st_mode) & Mode::SGID;
                    rustix::fs::chmodat(held.as_fd(), ".", mode | inherited, AtFlags::empty())?;
                }
                Ok(is_new)
            }
            Err(Errno::EXIST) => Err(Errno::NOTDIR),
            Err(error) => Err(error),
        }
    }

    /// The lock is held while the directory is made, so that nobody finds it there and not in the list.
    fn make_early(&self, parent: &Directory, name: &OsStr, path: &RelPath, mode: Mode) -> Result<(), Errno> {
        let mut made = lock(&self.made_early);
        match rustix::fs::mkdirat(parent, name, mode) {
            Ok(()) => {
                made.insert(path.clone());
                Ok(())
            }
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Directory {
    fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let device = rustix::fs::fstat(&fd)?.st_dev;
        Ok(Self { fd, device, inherits: OnceLock::new() })
    }

    /// True where what is made in it gets an ACL, and other permissions than it is made with. It's looked at once.
    pub fn has_default_acl(&self) -> bool {
        *self.inherits.get_or_init(|| has_default_acl(self.as_fd()))
    }

    /// What `name` in it is, a link not followed.
    ///
    /// # Errors
    /// What stat(2) returns.
    pub fn stat(&self, name: &OsStr) -> Result<Stat, Errno> {
        rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Opens `name` in it for reading, which must be no link; one that a fifo took is not waited for.
    ///
    /// # Errors
    /// What open(2) returns.
    pub fn open_file(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(self, name, flags, Mode::empty())
    }

    /// Removes what this program has put there under a name of its own. The directory's time of change stays as it was: it is
    /// of what others see there.
    ///
    /// # Errors
    /// What unlink(2) returns.
    pub fn take_away(&self, name: impl Arg) -> Result<(), Errno> {
        let before = rustix::fs::fstat(self)?;
        rustix::fs::unlinkat(self, name, AtFlags::empty())?;
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification = Timespec { tv_sec: before.st_mtime, tv_nsec: before.st_mtime_nsec as _ };
        // Somebody else's directory keeps the time of now.
        let _ = rustix::fs::utimensat(
            self,
            ".",
            &Timestamps { last_access, last_modification },
            AtFlags::empty(),
        );
        Ok(())
    }

    /// True where `name` in it is a directory, a link not followed.
    pub fn has_directory(&self, name: &OsStr) -> bool {
        self.stat(name).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }
}

fn resolve(top: BorrowedFd<'_>, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.is_root() {
        return rustix::fs::openat(top, ".", flags, Mode::empty());
    }
    if NO_OPENAT2.load(Ordering::Relaxed) {
        return walk(top, path, flags);
    }
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RESOLVE_TRIES {
        match rustix::fs::openat2(top, path.as_os_str(), flags, Mode::empty(), beneath) {
            Err(Errno::AGAIN) => {}
            // A seccomp filter that is older than the call answers with EPERM.
            Err(Errno::NOSYS | Errno::PERM) => {
                let walked = walk(top, path, flags);
                NO_OPENAT2.store(walked.is_ok(), Ordering::Relaxed);
                return walked;
            }
            // Longer than the kernel takes at once.
            Err(Errno::NAMETOOLONG) => return walk(top, path, flags),
            other => return other,
        }
    }
    walk(top, path, flags)
}

/// The same without openat2: one component at a time, each from the descriptor of the one before.
fn walk(top: BorrowedFd<'_>, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut components = path.components().peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(name) = components.next() {
        let from = at.as_ref().map_or(top, AsFd::as_fd);
        let flags = if components.peek().is_some() { step } else { flags };
        at = Some(rustix::fs::openat(from, name, flags, Mode::empty())?);
    }
    at.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn path(text: &str) -> RelPath {
        RelPath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn links_are_not_followed_by_either_way() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path(), inside.path().join("link")).unwrap();
        symlink(outside.path().join("secret"), inside.path().join("file")).unwrap();
        fs::create_dir(inside.path().join("real")).unwrap();
        fs::write(inside.path().join("real/x"), "y").unwrap();
        let root = Root::open(inside.path()).unwrap();
        for refused in ["link/secret", "link", "file"] {
            assert!(root.open_at(&path(refused), OFlags::RDONLY).is_err(), "{refused}");
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
            assert!(walk(root.top().as_fd(), &path(refused), flags).is_err(), "{refused} by a walk");
        }
        assert!(root.open_at(&path("real/x"), OFlags::RDONLY).is_ok());
        assert!(walk(root.top().as_fd(), &path("real/x"), OFlags::RDONLY).is_ok());
    }

    #[test]
    fn directories_are_made_as_needed() {
        let inside = tempfile::tempdir().unwrap();
        let root = Root::open(inside.path()).unwrap();
        root.directory_or_make(&path("a/b/c"), Mode::RWXU).unwrap();
        assert!(inside.path().join("a/b/c").is_dir());
        fs::write(inside.path().join("a/f"), "").unwrap();
        assert_eq!(root.directory_or_make(&path("a/f/x"), Mode::RWXU).unwrap_err(), Errno::NOTDIR);
    }
}
