//! Resolves paths one component at a time, each from the descriptor of the component before. So the directory
//! that was checked is the directory that is used.

use linerate_wire::path::{RelPath, printable};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Bounds, Extent};
use crate::base::problem::BY_WHOM;
use crate::tree::metadata::accounts::Accounts;

/// The most links in one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// The longest path in bytes, as in the kernel.
const MAX_PATH: usize = 4096;
/// The deepest nesting of directories in one path. If moving up with `..` is guarded, a descriptor of each
/// directory is kept open.
const MAX_DEPTH: usize = 1024;

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Which links a walk follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    /// All links: the data that is read there is sent to the user who named the path, who could read it
    /// anyway.
    All,
    /// Only links of root and of this process's user. With a link, another user could choose which file is
    /// overwritten.
    Trusted,
}

/// An open directory that a walk has reached, and its path.
#[derive(Debug)]
pub(crate) struct Held {
    pub fd: OwnedFd,
    /// The directory's absolute path within the bounds, without links.
    pub real: PathBuf,
    pub bounds: Bounds,
}

/// The reason why a path can't be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// An error of a system call.
    #[error("{0}")]
    System(#[from] Errno),
    /// The path contains a link that another user may change.
    #[error(
        "the symbolic link {} belongs to {owner}, who can change its target at any time: name the directory by a path without this link, or make the link your own or root's (chown -h)",
        shown(link)
    )]
    Strange { link: PathBuf, owner: String },
    /// The path contains a link that leads out of the bounds.
    #[error("the symbolic link {} leads out of the allowed directory: {BY_WHOM}", shown(link))]
    Outside { link: PathBuf },
}

impl From<Stop> for io::Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::System(error) => error.into(),
            stop => Self::other(stop.to_string()),
        }
    }
}

/// The state of resolving one path.
pub(super) struct PathWalk {
    held: Held,
    /// Descriptors of the open parent directories, if `..` is guarded, so that nobody can make the walk leave
    /// the bounds by moving a directory.
    above: Vec<OwnedFd>,
    follow: Follow,
    links: usize,
    /// The path of the last link that was followed.
    link: PathBuf,
}

/// The entry at the end of a path.
pub(super) enum PathEnd {
    /// The directory that the walk has reached.
    Directory,
    /// The last component is an entry that is neither a directory nor a link.
    Other(OsString),
    /// The last component doesn't exist.
    Missing(OsString),
}

enum PathStep {
    Directory,
    Link(Vec<u8>),
    Other,
}

impl PathWalk {
    /// A walk that starts in the directory in which `path` begins.
    pub fn begin(bounds: &Bounds, path: &[u8], follow: Follow) -> Result<Self, Stop> {
        let (fd, real) = match &bounds.0 {
            Extent::Below(top) => (top.try_clone().map_err(system)?, PathBuf::from("/")),
            _ if path.starts_with(b"/") => (open("/")?, PathBuf::from("/")),
            // Only filter rules use the path of the current directory. The current directory may have no path.
            _ => (open(".")?, std::env::current_dir().unwrap_or_default()),
        };
        let held = Held { fd, real, bounds: bounds.clone() };
        Ok(Self { held, above: Vec::new(), follow, links: 0, link: PathBuf::new() })
    }

    /// Continues along `path` from the directory that was reached. Returns the last component if that isn't a
    /// directory. A slash at the beginning of `path` is ignored.
    pub fn along(&mut self, path: &[u8]) -> Result<Option<OsString>, Stop> {
        match self.end_of(path)? {
            PathEnd::Directory => Ok(None),
            PathEnd::Other(name) => Ok(Some(name)),
            PathEnd::Missing(_) => Err(Errno::NOENT.into()),
        }
    }

    /// Continues along `path` as [`Self::along`] does, but the last component may be missing.
    pub fn end_of(&mut self, path: &[u8]) -> Result<PathEnd, Stop> {
        if path.len() > MAX_PATH {
            return Err(Errno::NAMETOOLONG.into());
        }
        let mut left = components(path);
        while let Some(name) = left.pop() {
            match &name[..] {
                b"." => {}
                b".." => self.up()?,
                _ => match self.step(OsStr::from_bytes(&name)) {
                    Ok(PathStep::Directory) => {}
                    Ok(PathStep::Link(target)) => left.extend(components(&target)),
                    Ok(PathStep::Other) if left.is_empty() => {
                        return Ok(PathEnd::Other(OsString::from_vec(name)));
                    }
                    Ok(PathStep::Other) => return Err(Errno::NOTDIR.into()),
                    Err(Stop::System(Errno::NOENT)) if left.is_empty() => {
                        return Ok(PathEnd::Missing(OsString::from_vec(name)));
                    }
                    Err(stop) => return Err(stop),
                },
            }
        }
        Ok(PathEnd::Directory)
    }

    /// The stat of `name` in the reached directory; a link isn't followed.
    pub fn stat(&self, name: &OsStr) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.held.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The directory that the walk has reached.
    pub fn held(self) -> Held {
        self.held
    }

    /// A copy of the reached directory, so that the walk can continue.
    pub fn copy(&self) -> Result<Held, Stop> {
        let Held { fd, real, bounds } = &self.held;
        Ok(Held { fd: fd.try_clone().map_err(system)?, real: real.clone(), bounds: bounds.clone() })
    }

    /// The directory that the walk has reached, reopened so that it can be listed.
    pub fn readable(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.held.fd, ".", flags, Mode::empty())
    }

    /// Opens the regular file `name` in the reached directory; `None` if another kind of entry has that name
    /// by now.
    pub fn open_file(&self, name: &OsStr) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.held.fd, name, flags, Mode::empty())?;
        let is_file = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::RegularFile;
        Ok(is_file.then(|| File::from(file)))
    }

    fn step(&mut self, name: &OsStr) -> Result<PathStep, Stop> {
        // The name is first opened as a directory, because that triggers an automount.
        match rustix::fs::openat(&self.held.fd, name, DIRECTORY, Mode::empty()) {
            Ok(fd) => return self.down(name, fd),
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.held.fd, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.down(name, fd),
            FileType::Symlink => self.follow(name, &fd, &stat),
            _ => Ok(PathStep::Other),
        }
    }

    fn down(&mut self, name: &OsStr, fd: OwnedFd) -> Result<PathStep, Stop> {
        let from = std::mem::replace(&mut self.held.fd, fd);
        if matches!(self.held.bounds.0, Extent::Below(_)) {
            if self.above.len() == MAX_DEPTH {
                return Err(Errno::NAMETOOLONG.into());
            }
            self.above.push(from);
        }
        self.held.real.push(name);
        Ok(PathStep::Directory)
    }

    fn up(&mut self) -> Result<(), Stop> {
        self.held.fd = match self.held.bounds.0 {
            Extent::Below(_) => self.above.pop().ok_or_else(|| self.outside())?,
            _ => rustix::fs::openat(&self.held.fd, "..", DIRECTORY, Mode::empty())?,
        };
        self.held.real.pop();
        Ok(())
    }

    /// Follows the link that is held open as `fd`, and not an entry that has the link's name by now.
    fn follow(&mut self, name: &OsStr, fd: &OwnedFd, stat: &Stat) -> Result<PathStep, Stop> {
        self.links += 1;
        self.link = self.held.real.join(name);
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if self.follow == Follow::Trusted && !is_trusted(stat.st_uid) {
            return Err(Stop::Strange { link: self.link.clone(), owner: user(stat.st_uid) });
        }
        let target = rustix::fs::readlinkat(fd, "", Vec::new())?.into_bytes();
        if target.starts_with(b"/") {
            if matches!(self.held.bounds.0, Extent::Below(_)) {
                return Err(self.outside());
            }
            (self.held.fd, self.held.real) = (open("/")?, PathBuf::from("/"));
        }
        Ok(PathStep::Link(target))
    }

    fn outside(&self) -> Stop {
        Stop::Outside { link: self.link.clone() }
    }
}

impl Held {
    /// The directory at `path` below this one. Links in the path may lead anywhere, unless the bounds are a directory:
    /// then they may lead only below the directory from which this function starts.
    pub fn follow(self, path: &RelPath) -> Result<OwnedFd, Errno> {
        let mut walk =
            PathWalk { held: self, above: Vec::new(), follow: Follow::All, links: 0, link: PathBuf::new() };
        match walk.along(path.as_bytes()) {
            Ok(None) => Ok(walk.held.fd),
            Ok(Some(_)) => Err(Errno::NOTDIR),
            Err(Stop::System(error)) => Err(error),
            Err(_) => Err(Errno::LOOP),
        }
    }

    /// The directory `name` in this directory; a link isn't followed.
    pub fn open_directory(&self, name: &OsStr) -> Result<Self, Errno> {
        let fd = rustix::fs::openat(&self.fd, name, DIRECTORY, Mode::empty())?;
        Ok(Self { fd, real: self.real.join(name), bounds: self.bounds.clone() })
    }
}

fn open(path: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The components of a path in reverse order. If the path ends in a slash, the last component of the path is
/// the directory itself (`.`).
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let end = path.ends_with(b"/").then(|| b".".to_vec());
    let parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec);
    end.into_iter().chain(parts.collect::<Vec<_>>().into_iter().rev()).collect()
}

/// True if links of all users are trusted. Set only at the request of this process's user.
static TRUSTS_ALL: AtomicBool = AtomicBool::new(false);

/// From now on, this process follows links of all users in paths that its own user names. So any user who may
/// write to a directory in such a path can redirect the path.
pub fn trust_all_links() {
    TRUSTS_ALL.store(true, Ordering::Relaxed);
}

fn is_trusted(owner: u32) -> bool {
    TRUSTS_ALL.load(Ordering::Relaxed) || owner == 0 || owner == rustix::process::geteuid().as_raw()
}

fn user(number: u32) -> String {
    match Accounts::users().name(number) {
        name if name.is_empty() => format!("user {number}"),
        name => format!("user {name} ({number})"),
    }
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// Converts an error of the standard library.
fn system(error: io::Error) -> Stop {
    Stop::System(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
