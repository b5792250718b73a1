//! Directories that are being deleted, and their entries.

use rustix::fs::{Access, AtFlags, Dir, FileType, Mode, OFlags, accessat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use crate::tree::metadata::write::{let_in, set_mode};

/// A directory that is being emptied.
pub(super) struct OpenedDirectory {
    pub(super) fd: OwnedFd,
    /// The mode that the directory had before its owner was given write access.
    had: Option<Mode>,
}

impl OpenedDirectory {
    /// Restores the mode of a directory that isn't deleted.
    pub(super) fn close_again(&self) {
        if let Some(had) = self.had {
            // This process was able to change the mode, so restoring the mode succeeds too.
            let _ = rustix::fs::fchmod(&self.fd, had);
        }
    }
}

/// An entry in a directory of the destination.
pub(super) struct Child {
    pub(super) name: OsString,
    pub(super) directory: bool,
}

/// Opens a directory that is being deleted, gives its owner write access unless it is a dry run, and lists it.
pub(super) fn open(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    dry_run: bool,
) -> Result<(OpenedDirectory, Vec<Child>), Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |access| rustix::fs::openat(parent, name, flags | access, Mode::empty());
    let held = open(OFlags::PATH)?;
    let fd = match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) if !dry_run => return open_if_empty(held.as_fd(), open),
        opened => opened?,
    };
    // Root may write without changing the mode. If this user may neither write nor change the mode, removing the entries
    // reports the error.
    let may_write = || accessat(&held, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    let had = if dry_run || may_write() { None } else { let_in(held.as_fd(), Mode::WUSR).unwrap_or(None) };
    let opened = OpenedDirectory { fd, had };
    let found = list(opened.fd.as_fd())?;
    Ok((opened, found))
}

/// Opens a directory that its owner may not read; it is deleted only if it is empty.
fn open_if_empty(
    held: BorrowedFd<'_>,
    open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
) -> Result<(OpenedDirectory, Vec<Child>), Errno> {
    let had = let_in(held, Mode::RWXU).map_err(|_| Errno::ACCESS)?;
    let opened = open(OFlags::RDONLY).map(|fd| OpenedDirectory { fd, had });
    let found = opened.as_ref().map_err(|error| *error).and_then(|opened| list(opened.fd.as_fd()));
    match (opened, found) {
        (Ok(opened), Ok(found)) if found.is_empty() => Ok((opened, found)),
        _ => {
            had.map_or(Ok(()), |had| set_mode(held, had))?;
            Err(Errno::ACCESS)
        }
    }
}

/// The names in a directory, sorted.
pub(super) fn list(fd: BorrowedFd<'_>) -> Result<Vec<Child>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(fd, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        found.push(Child { name, directory: kind == FileType::Directory });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}
