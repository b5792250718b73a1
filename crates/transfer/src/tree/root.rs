//! A directory that is held open, and everything below it.
//!
//! Every operation on a source or a destination is relative to such a descriptor. The kernel resolves the path
//! below it without following a symbolic link (openat2(2)); where it lacks that call, each component is opened
//! from the one before.

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

/// Directories that a [`Root`] keeps open at most.
const HELD_DIRECTORIES: usize = 256;
/// Directories made early that are remembered: far more than can be under way on all streams.
const MAX_EARLY: usize = 1 << 20;
/// Directories behind links that are remembered.
const MAX_BEHIND_LINKS: usize = 1 << 20;
/// How often a resolution is tried again when a rename elsewhere disturbed it.
const RESOLVE_TRIES: usize = 64;
/// File systems, by their numbers in statfs(2), that give another name to what is removed while it is open.
const FUSE: rustix::fs::FsWord = 0x6573_5546;
const NFS: rustix::fs::FsWord = 0x6969;
/// How long such a name may stay when nobody has it open any more.
const HIDDEN_LAST: Duration = Duration::from_secs(1);

static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// A held directory.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    /// How files in it are opened.
    manner: Manner,
    /// The device that it is on.
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
    /// Links are followed, wherever they lead: only where its user's own files are read.
    follows: bool,
    /// The time of last access stays, where that may be asked for.
    noatime: bool,
}

/// The top of a source or destination.
pub struct Root {
    top: Arc<Directory>,
    path: PathBuf,
    place: Place,
    /// How files below it are opened.
    manner: Manner,
    /// A link to a directory below the top counts as that directory.
    pub(crate) keeps_links: bool,
    /// Links that count as directories, too: those at directories that have no entry of their own.
    pub(crate) implied: ImpliedWays,
    /// The mode of directories that are made for what is in them. How open they may be is known when their own entries come.
    pub(crate) mode_above: Mode,
    /// Devices and inodes of directories that were reached by a link, and the path; none where there were several.
    behind_links: Mutex<HashMap<(u64, u64), Option<RelPath>>>,
    held: Mutex<HashMap<RelPath, Arc<Directory>>>,
    /// Links that the user's list of files leads through.
    ways: Ways,
    /// Directories made because something below them came before they did.
    made_early: Early,
}

impl Root {
    /// The directory that was reached, which the user called `shown`. Its path is not used again: somebody may have turned
    /// it since.
    ///
    /// # Errors
    /// If it can't be opened.
    pub(crate) fn at(reached: Held, shown: &Path) -> Result<Self, Errno> {
        let Held { fd, real, bounds } = reached;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A directory that may be entered but not listed still takes files.
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

    /// This root, where links below it are followed. Nothing may be written below it.
    pub(crate) fn following_links(self) -> Result<Self, Errno> {
        let manner = Manner { follows: true, ..self.manner };
        self.opening(manner)
    }

    /// This root, where reading what is below it doesn't change when it was last read, if that may be asked for.
    pub(crate) fn keeping_atimes(self) -> Result<Self, Errno> {
        let manner = Manner { noatime: true, ..self.manner };
        self.opening(manner)
    }

    fn opening(mut self, manner: Manner) -> Result<Self, Errno> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&*self.top, 0)?;
        (self.top, self.manner) = (Arc::new(Directory::new(fd, manner)?), manner);
        Ok(self)
    }

    /// True where links are followed.
    pub fn follows_links(&self) -> bool {
        self.manner.follows
    }

    /// The directory at `path`, for tests.
    #[cfg(test)]
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let path = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        let named = crate::tree::bounds::Bounds::here().name(path).map_err(|_| Errno::INVAL)?;
        named.directory().map_err(|_| Errno::NOENT)
    }

    /// The root's place, for filter rules.
    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// The path as the user would write it, for messages.
    pub fn shown(&self, path: &RelPath) -> PathBuf {
        if path.is_root() { self.path.clone() } else { self.path.join(path.as_os_str()) }
    }

    /// The top itself.
    pub fn top(&self) -> &Arc<Directory> {
        &self.top
    }

    /// Opens what is at `path`. Unless links are followed, never through one; a link at its end is an error too (`ELOOP`).
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn open_at(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        // A fifo that took a file's place must not block; openat2 refuses the flag beside PATH, which never blocks.
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

    /// The directory at `path`, held open for the next call.
    ///
    /// # Errors
    /// The errors of open(2): `ENOENT`, `ENOTDIR`, `ELOOP` for a link in the way.
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

    /// The directory at `path`, made with what leads to it where it is missing.
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

    /// How many directories this transfer has made before their own entries came.
    pub fn made_early(&self) -> u64 {
        self.made_early.count.load(Ordering::Relaxed)
    }

    /// True where this transfer has made the directory at `path`, and its own entry hasn't come.
    pub fn was_made_early(&self, path: &RelPath) -> bool {
        self.made_early.places.get(path).is_some()
    }

    /// Makes the directory at `path` with `mode`; true where it wasn't there before this transfer.
    ///
    /// # Errors
    /// The errors of mkdir(2) and open(2); `ENOTDIR` where something else has that name.
    pub fn make_directory(&self, path: &RelPath, mode: Mode) -> Result<bool, Errno> {
        let Some((parent, name)) = path.split() else { return Ok(false) };
        let parent = self.directory_or_make(&parent, self.mode_above)?;
        match rustix::fs::mkdirat(&parent, name, mode) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) if parent.has_directory(name) || self.is_kept_link(path) => {
                let is_new = self.made_early.take(path);
                if is_new {
                    let held = self.directory(path)?;
                    // The directory may have a setgid bit from the one that it is in.
                    let inherited = Mode::from_raw_mode(rustix::fs::fstat(&held)?.st_mode) & Mode::SGID;
                    rustix::fs::chmodat(held.as_fd(), ".", mode | inherited, AtFlags::empty())?;
                }
                Ok(is_new)
            }
            Err(Errno::EXIST) => Err(Errno::NOTDIR),
            Err(error) => Err(error),
        }
    }

    /// The directory `name` in `parent`, which is the one at `path`, held open for the next call.
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
    /// Only a file's owner and root may ask that its time stays.
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

    /// Stat of the directory that the link `name` in it leads to; `None` where it leads to none.
    pub fn stat_of_directory(&self, name: &OsStr) -> Option<Stat> {
        let stat = rustix::fs::statat(self, name, AtFlags::empty()).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::Directory).then_some(stat)
    }

    /// True where what is made in it gets an ACL, and other permissions than it is made with. It's looked at once.
    pub fn has_default_acl(&self) -> bool {
        self.default_permissions().is_some()
    }

    /// The most that what is made in it may permit, where its default ACL says so: then that counts, and no process's mask.
    pub fn default_permissions(&self) -> Option<Mode> {
        *self.inherits.get_or_init(|| default_permissions(self.as_fd()))
    }

    /// Stat of `name` in it, a link not followed.
    ///
    /// # Errors
    /// The errors of stat(2).
    pub fn stat(&self, name: &OsStr) -> Result<Stat, Errno> {
        rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Opens `name` in it for reading, which must be no link unless these are followed; one that a fifo took is not waited for.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn open_file(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let last = if self.manner.follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | last;
        self.manner.open(flags, |flags| rustix::fs::openat(self, name, flags, Mode::empty()))
    }

    /// Removes what this program has put there under a name of its own. The directory's time of change stays as it was: it is
    /// of what others see there.
    ///
    /// # Errors
    /// The errors of unlink(2).
    pub fn take_away(&self, name: impl Arg) -> Result<(), Errno> {
        let before = self.times()?;
        rustix::fs::unlinkat(self, name, AtFlags::empty())?;
        self.set_times(&before);
        Ok(())
    }

    /// Its times, of which none is to be omitted: some file systems in user space would set that one too.
    ///
    /// # Errors
    /// The errors of stat(2).
    pub fn times(&self) -> Result<Timestamps, Errno> {
        let stat = rustix::fs::fstat(self)?;
        let last_access = Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ };
        let last_modification = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
        Ok(Timestamps { last_access, last_modification })
    }

    /// Gives it the times that it had. Somebody else's directory keeps the time of now.
    pub fn set_times(&self, before: &Timestamps) {
        let _ = rustix::fs::utimensat(self, ".", before, AtFlags::empty());
    }

    /// Waits until what was removed while it was open, and is closed by now, is gone: FUSE and NFS give it another name, and remove
    /// that later, which changes the directory once more.
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

    /// Opens it for putting it on stable storage: what is held may be a mere path, by which that can't be. If it doesn't let its
    /// owner read, it is made to for this moment.
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

    /// True where `name` in it is a directory, a link not followed.
    pub fn has_directory(&self, name: &OsStr) -> bool {
        self.stat(name).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }
}

/// Directories that were made before their own entries came: two with the same hash get the mode of a new directory, and
/// nothing else depends on it.
struct Early {
    places: Places<()>,
    /// Held while a directory is made and remembered, so that nobody finds it there and not remembered.
    making: Mutex<()>,
    /// How many directories were made early.
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

    /// True where its own entry was still to come.
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

/// Opens `path` below `top` without openat2: one component at a time, each from the descriptor of the one before.
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
