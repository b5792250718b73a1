//! Directories and files that only this account may access, below its state directory.

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The directory for this program's state: `$XDG_STATE_HOME/linerate`, by default `~/.local/state/linerate`; `None` if
/// the account has neither. A relative path is ignored (XDG base directories).
pub fn state_directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let in_home = || absolute("HOME").filter(|home| home.is_dir()).map(|home| home.join(".local/state"));
    let state = absolute("XDG_STATE_HOME").or_else(in_home);
    state.map(|state| state.join("linerate"))
}

/// Opens a directory that nobody else may enter. The last component of the path may not be a link.
///
/// # Errors
/// The errors of open(2); `EPERM` if the directory belongs to somebody else, or others may enter it.
pub fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    let is_own = is_private(&rustix::fs::fstat(&directory)?, FileType::Directory);
    if is_own { Ok(directory) } else { Err(Errno::PERM) }
}

/// Opens a directory as [`open_directory`] does, and creates it if it doesn't exist.
///
/// # Errors
/// The errors of [`open_directory`]; an error if the directory can't be created.
pub fn open_or_make_directory(path: &Path) -> Result<OwnedFd, Errno> {
    match open_directory(path) {
        Err(Errno::NOENT) => make(path)?,
        other => return other,
    }
    open_directory(path)
}

/// Creates the directory and its missing parents, but never inside a directory of somebody else, whose programs might
/// not expect it.
fn make(path: &Path) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
    let open = || rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let held = match open() {
        Err(Errno::NOENT) => make(parent).and_then(|()| open()),
        other => other,
    }?;
    if rustix::fs::fstat(&held)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    match rustix::fs::mkdirat(&held, name, Mode::RWXU) {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

/// True if the file has this kind, belongs to this account, and grants no access to anybody else.
pub fn is_private(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_mode & 0o077 == 0
}
