//! Directories and files that only this account may access, below its state directory.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The directory for this program's state: `$XDG_STATE_HOME/linerate`, by default `~/.local/state/linerate`; `None` if
/// `XDG_STATE_HOME` isn't set and the account has no home directory. Relative paths in these variables are ignored (XDG
/// Base Directory Specification).
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

/// Creates the directory and its missing parents, but creates nothing in a directory of another user, because that
/// user's programs might not expect a new directory.
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

/// Opens the file `name` in a directory, for the access in `access`. The file must be a regular file of this account
/// that has only one name and to which nobody else has access.
///
/// # Errors
/// The errors of open(2); `EPERM` if the file doesn't meet these conditions.
pub fn open_file(directory: impl AsFd, name: &str, access: OFlags) -> Result<(File, Stat), Errno> {
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    let is_own = is_private(&stat, FileType::RegularFile) && stat.st_nlink == 1;
    if is_own { Ok((File::from(file), stat)) } else { Err(Errno::PERM) }
}

/// Creates the file `name` in a directory. Nobody else has access to the new file. An existing file of that name, which
/// a killed process may have left, is removed first.
///
/// # Errors
/// The errors of open(2).
pub fn create_file(directory: impl AsFd, name: &str) -> Result<File, Errno> {
    // Usually no such file exists, so a failure is ignored.
    let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
}

/// Writes the file `name` in a directory, and puts it on stable storage. Nobody else has access to the file, and no
/// reader sees an incomplete file. The file is named `NAME.new` until it is complete, so only one process may write the
/// file at a time.
///
/// # Errors
/// If the file can't be created, written or renamed.
pub fn write_file(directory: impl AsFd, name: &str, bytes: &[u8]) -> Result<(), Errno> {
    let (directory, new) = (directory.as_fd(), format!("{name}.new"));
    let mut file = create_file(directory, &new)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|_| Errno::IO)?;
    rustix::fs::renameat(directory, &new, directory, name)?;
    rustix::fs::fsync(directory)
}

/// True if the file has this kind, belongs to this account, and grants no access to anybody else.
pub fn is_private(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_mode & 0o077 == 0
}
