//! A directory that is kept open, and everything below it.
//!
//! Every operation on a source or a destination is relative to the descriptor of such a directory. The kernel
//! resolves the path below it without following symbolic links (openat2(2)). If the kernel lacks that call,
//! each component is opened from the descriptor of the component before.

mod links;

use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::path::Arg;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::tree::bounds::Held;
use crate::tree::filter::Place;
use crate::tree::metadata::write::{default_permissions, let_in, set_mode};
use crate::tree::places::Places;
use crate::tree::ways::{ImpliedWays, Ways};

/// The most directories that a [`Root`] keeps open.
const HELD_DIRECTORIES: usize = 256;
/// The most directories in [`Early`] that are remembered: far more than can be in this state on all streams.
const MAX_EARLY: usize = 1 << 20;
/// The most directories behind links that are remembered.
const MAX_BEHIND_LINKS: usize = 1 << 20;
/// How often a resolution is retried if a concurrent rename disturbed it.
const RESOLVE_TRIES: usize = 64;
/// Numbers of file systems (statfs(2)) on which removing an open file only renames it, until the file is closed.
const FUSE: rustix::fs::FsWord = 0x6573_5546;
const NFS: rustix::fs::FsWord = 0x6969;
/// How long the name of a removed file may remain after the file is closed.
const HIDDEN_LAST: Duration = Duration::from_secs(1);

static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// A directory that is kept open.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    /// How files in the directory are opened.
    manner: Manner,
    /// The number of the device that the directory is on.
    pub device: u64,
    inherits: OnceLock<Option<Mode>>,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// How files are opened for reading.
#[derive(Clone, Copy, Debug, Default)]
struct Manner {
    /// True if links are followed, wherever they lead. This is used only to read the user's own files.
    follows: bool,
    /// True if access times stay unchanged. Only the owner of a file and root may request that.
    noatime: bool,
}

/// The top of a source or destination.
pub struct Root {
    top: Arc<Directory>,
    path: PathBuf,
    place: Place,
    /// How files below the top are opened.
    manner: Manner,
    /// True if a link to a directory below the top counts as that directory.
    pub(crate) keeps_links: bool,
    /// Other links that count as directories: links at the places of directories that have no entry of their own.
    pub(crate) implied: ImpliedWays,
    /// The mode of directories that are created for their contents. Their final mode is known when their own entries
    /// arrive.
    pub(crate) mode_above: Mode,
    /// Directories that were reached by a link: their device and inode numbers, and the path by which each
    /// was reached; `None` if there were several paths.
    behind_links: Mutex<HashMap<(u64, u64), Option<RelPath>>>,
    held: Mutex<HashMap<RelPath, Arc<Directory>>>,
    /// The links that were followed in the paths of the user's list of files.
    ways: Ways,
    /// Directories that were created because an entry below them arrived before their own.
    made_early: Early,
}

impl Root {
    /// A root for the directory `reached`, which the user named `shown`. The path isn't used again, because somebody
    /// may have changed it meanwhile.
    ///
    /// # Errors
    /// If the directory can't be opened.
    pub(crate) fn at(reached: Held, shown: &Path) -> Result<Self, Errno> {
        let Held { fd, real, bounds } = reached;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A directory that this user may enter but not list can still receive files.
        let fd = rustix::fs::openat(&fd, ".", flags, Mode::empty()).unwrap_or(fd);
        let shown = if shown.as_os_str().is_empty() { Path::new(".") } else { shown };
        Ok(Self {
            top: Arc::new(Directory::new(fd, Manner::default())?),
            path: shown.to_owned(),
            manner: Manner::default(),
            keeps_links: false,
            implied: ImpliedWays::None,
            mode_above: Mode::RWXU,
            behind_links: Mutex::default(),
            place: Place { root: real.into_os_string().into_vec(), prefix: RelPath::root(), bounds },
            held: Mutex::default(),
            ways: Ways::default(),
            made_early: Early::default(),
        })
    }

    /// Makes this root follow links below it. Such a root must not be used for writing.
    pub(crate) fn following_links(self) -> Result<Self, Errno> {
        let manner = Manner { follows: true, ..self.manner };
        self.opening(manner)
    }

    /// Makes reads below this root leave access times unchanged, if this process may request that.
    pub(crate) fn keeping_atimes(self) -> Result<Self, Errno> {
        let manner = Manner { noatime: true, ..self.manner };
        self.opening(manner)
    }

    fn opening(mut self, manner: Manner) -> Result<Self, Errno> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&*self.top, 0)?;
        (self.top, self.manner) = (Arc::new(Directory::new(fd, manner)?), manner);
        Ok(self)
    }

    /// True if links are followed.
    pub fn follows_links(&self) -> bool {
        self.manner.follows
    }

    /// Opens the directory at `path`; used by tests.
    #[cfg(test)]
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let path = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        let named = crate::tree::bounds::Bounds::here().name(path).map_err(|_| Errno::INVAL)?;
        named.directory().map_err(|_| Errno::NOENT)
    }

    /// The root's location, for filter rules.
    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// The path `path` as the user would write it, for messages.
    pub fn shown(&self, path: &RelPath) -> PathBuf {
        if path.is_root() { self.path.clone() } else { self.path.join(path.as_os_str()) }
    }

    /// The top directory.
    pub fn top(&self) -> &Arc<Directory> {
        &self.top
    }

    /// Opens the entry at `path`. Unless links are followed, a link in the path or at its end is an error (`ELOOP`).
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn open_at(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        // If a fifo has replaced a file, opening it must not block. With `O_PATH`, opening never blocks, and openat2
        // refuses `O_NONBLOCK`.
        let patience = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK };
        let flags = flags | OFlags::CLOEXEC | patience;
        self.manner.open(flags, |flags| match self.manner.follows {
            true => {
                let path = if path.is_root() { OsStr::new(".") } else { path.as_os_str() };
                rustix::fs::openat(&self.top, path, flags, Mode::empty())
            }
            false => match resolve(self.top.as_fd(), path, flags | OFlags::NOFOLLOW) {
                Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                    self.by_way(path, flags | OFlags::NOFOLLOW).unwrap_or(Err(error))
                }
                other => other,
            },
        })
    }

    /// The directory at `path`. The directory stays open for later calls.
    ///
    /// # Errors
    /// The errors of open(2): `ENOENT`, `ENOTDIR`, `ELOOP` for a link in the path.
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
            Errno::LOOP | Errno::NOTDIR if self.keeps_links => self.behind_links(path),
            error @ (Errno::LOOP | Errno::NOTDIR) => self.behind_implied(path).unwrap_or(Err(error)),
            error => Err(error),
        })?;
        self.hold(path.clone(), fd)
    }

    /// The directory at `path`, which is created with its parents if it is missing.
    ///
    /// # Errors
    /// The errors of mkdir(2) and open(2).
    pub fn directory_or_make(&self, path: &RelPath, mode: Mode) -> Result<Arc<Directory>, Errno> {
        let (mut held, mut missing, mut at) = (self.directory(path), Vec::new(), path.clone());
        while let Err(Errno::NOENT) = held {
            let parent = at.parent().ok_or(Errno::NOENT)?;
            missing.push(std::mem::replace(&mut at, parent));
            held = self.directory(&at);
        }
        let mut held = held?;
        for path in missing.into_iter().rev() {
            let (_, name) = path.split().ok_or(Errno::NOENT)?;
            self.made_early.make(&held, name, &path, mode)?;
            held = self.directory_in(&held, name, path.clone())?;
        }
        Ok(held)
    }

    /// The number of directories that this transfer has created before their own entries arrived.
    pub fn made_early(&self) -> u64 {
        self.made_early.count.load(Ordering::Relaxed)
    }

    /// True if this transfer has created the directory at `path` but the directory's own entry hasn't arrived.
    pub fn was_made_early(&self, path: &RelPath) -> bool {
        self.made_early.places.get(path).is_some()
    }

    /// Creates the directory at `path` with `mode`; true if it didn't exist before this transfer.
    ///
    /// # Errors
    /// The errors of mkdir(2) and open(2); `ENOTDIR` if another kind of entry has that name.
    pub fn make_directory(&self, path: &RelPath, mode: Mode) -> Result<bool, Errno> {
        let Some((parent, name)) = path.split() else { return Ok(false) };
        let parent = self.directory_or_make(&parent, self.mode_above)?;
        match rustix::fs::mkdirat(&parent, name, mode) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) if parent.has_directory(name) || self.is_kept_link(path) => {
                let is_new = self.made_early.take(path);
                if is_new {
                    let held = self.directory(path)?;
                    // The directory may have inherited the setgid bit from its parent.
                    let inherited = Mode::from_raw_mode(rustix::fs::fstat(&held)?.st_mode) & Mode::SGID;
                    rustix::fs::chmodat(held.as_fd(), ".", mode | inherited, AtFlags::empty())?;
                }
                Ok(is_new)
            }
            Err(Errno::EXIST) => Err(Errno::NOTDIR),
            Err(error) => Err(error),
        }
    }

    /// The directory `name` in `parent`, whose path is `path`. The directory stays open for later calls.
    fn directory_in(&self, parent: &Directory, name: &OsStr, path: RelPath) -> Result<Arc<Directory>, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(parent, name, flags | OFlags::RDONLY, Mode::empty())?;
        self.hold(path, fd)
    }

    fn hold(&self, path: RelPath, fd: OwnedFd) -> Result<Arc<Directory>, Errno> {
        let directory = Arc::new(Directory::new(fd, self.manner)?);
        let mut held = lock(&self.held);
        if held.len() >= HELD_DIRECTORIES {
            held.clear();
        }
        held.insert(path, directory.clone());
        Ok(directory)
    }
}

impl Manner {
    /// Opens a file without changing its access time, if that is requested and this process may do so.
    fn open(self, flags: OFlags, open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
        let is_file = !flags.intersects(OFlags::PATH | OFlags::DIRECTORY);
        match if self.noatime && is_file { open(flags | OFlags::NOATIME) } else { open(flags) } {
            Err(Errno::PERM) if self.noatime && is_file => open(flags),
            other => other,
        }
    }
}

impl Directory {
    fn new(fd: OwnedFd, manner: Manner) -> Result<Self, Errno> {
        let device = rustix::fs::fstat(&fd)?.st_dev;
        Ok(Self { fd, manner, device, inherits: OnceLock::new() })
    }

    /// The stat of the directory to which the link `name` leads; `None` if the link doesn't lead to a directory.
    pub fn stat_of_directory(&self, name: &OsStr) -> Option<Stat> {
        let stat = rustix::fs::statat(self, name, AtFlags::empty()).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::Directory).then_some(stat)
    }

    /// True if this directory has a default ACL, which changes the permissions of new entries. Checked only once.
    pub fn has_default_acl(&self) -> bool {
        self.default_permissions().is_some()
    }

    /// The most permissions that this directory's default ACL, if it has one, gives new entries in place of the
    /// umask.
    pub fn default_permissions(&self) -> Option<Mode> {
        *self.inherits.get_or_init(|| default_permissions(self.as_fd()))
    }

    /// The stat of the entry `name` in this directory; a link isn't followed.
    ///
    /// # Errors
    /// The errors of stat(2).
    pub fn stat(&self, name: &OsStr) -> Result<Stat, Errno> {
        rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Opens the file `name` in this directory for reading. A link is an error unless links are followed. If
    /// a fifo has replaced the file, the call doesn't block.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn open_file(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let last = if self.manner.follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | last;
        self.manner.open(flags, |flags| rustix::fs::openat(self, name, flags, Mode::empty()))
    }

    /// Opens the file `name` in this directory to lock it; a link isn't followed. The file is opened for writing if
    /// this process may do so, because NFS requires that for an exclusive lock (flock(2)).
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn open_to_lock(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let open = |access| {
            let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
            rustix::fs::openat(self, name, flags, Mode::empty())
        };
        open(OFlags::RDWR).or_else(|error| match error {
            Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY => open(OFlags::RDONLY),
            error => Err(error),
        })
    }

    /// Removes an entry that this program has created under a temporary name. Then restores the directory's
    /// modification time, which should show only changes by others.
    ///
    /// # Errors
    /// The errors of unlink(2).
    pub fn take_away(&self, name: impl Arg) -> Result<(), Errno> {
        let before = self.times()?;
        rustix::fs::unlinkat(self, name, AtFlags::empty())?;
        self.set_times(&before);
        Ok(())
    }

    /// The access and modification times of this directory. Both times must be given when times are restored, because
    /// some file systems in user space would change an omitted time too.
    ///
    /// # Errors
    /// The errors of stat(2).
    pub fn times(&self) -> Result<Timestamps, Errno> {
        let stat = rustix::fs::fstat(self)?;
        let last_access = Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ };
        let last_modification = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
        Ok(Timestamps { last_access, last_modification })
    }

    /// Restores the directory's former times, if it belongs to this user; otherwise its times stay as they are.
    pub fn set_times(&self, before: &Timestamps) {
        let _ = rustix::fs::utimensat(self, ".", before, AtFlags::empty());
    }

    /// Waits until files that were removed while they were open, and then closed, have disappeared. FUSE and NFS rename
    /// such a file and remove it later, which changes the directory once more.
    pub fn wait_for_hidden(&self) {
        let hides = rustix::fs::fstatfs(self).is_ok_and(|stat| [FUSE, NFS].contains(&stat.f_type));
        let begun = Instant::now();
        while hides && begun.elapsed() < HIDDEN_LAST && self.has_hidden() {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn has_hidden(&self) -> bool {
        let names = rustix::fs::Dir::read_from(self).into_iter().flatten().flatten();
        let is_hidden = |name: &[u8]| name.starts_with(b".fuse_hidden") || name.starts_with(b".nfs");
        names.into_iter().any(|entry| is_hidden(entry.file_name().to_bytes()))
    }

    /// Opens the directory again to sync it to stable storage, because a descriptor with `O_PATH` can't be synced. If
    /// the directory's mode doesn't let its owner read, the mode is changed for a moment.
    ///
    /// # Errors
    /// The errors of open(2) and chmod(2).
    pub fn for_sync(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.fd, ".", flags, Mode::empty());
        match open() {
            Err(Errno::ACCESS) => {
                let had = let_in(self.as_fd(), Mode::RWXU)?;
                let opened = open();
                had.map_or(Ok(()), |had| set_mode(self.as_fd(), had))?;
                opened
            }
            other => other,
        }
    }

    /// True if the entry `name` in this directory is a directory; a link isn't followed.
    pub fn has_directory(&self, name: &OsStr) -> bool {
        self.stat(name).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }
}

/// Directories that were created before their own entries arrived. If two paths have the same hash, both
/// directories get the mode of a new directory; nothing else depends on the hash.
struct Early {
    places: Places<()>,
    /// Locked while a directory is created and remembered, so that no thread finds it created but not remembered.
    making: Mutex<()>,
    /// The number of directories that were created early.
    count: AtomicU64,
}

impl Default for Early {
    fn default() -> Self {
        Self { places: Places::new(MAX_EARLY), making: Mutex::default(), count: AtomicU64::new(0) }
    }
}

impl Early {
    fn make(&self, parent: &Directory, name: &OsStr, path: &RelPath, mode: Mode) -> Result<(), Errno> {
        let _making = lock(&self.making);
        match rustix::fs::mkdirat(parent, name, mode) {
            Ok(()) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                self.places.insert(path, ());
                Ok(())
            }
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a directory from the list when its own entry arrives; true if it was on the list.
    fn take(&self, path: &RelPath) -> bool {
        let _making = lock(&self.making);
        self.places.take(path).is_some()
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
            // A seccomp filter that is older than openat2 returns EPERM.
            Err(Errno::NOSYS | Errno::PERM) => {
                let walked = walk(top, path, flags);
                NO_OPENAT2.store(walked.is_ok(), Ordering::Relaxed);
                return walked;
            }
            // The path is longer than the kernel accepts at once.
            Err(Errno::NAMETOOLONG) => return walk(top, path, flags),
            other => return other,
        }
    }
    walk(top, path, flags)
}

/// Opens `path` below `top` without openat2: one component at a time, each from the descriptor of the component before.
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
mod tests;
