//! Copies entries for backups. A backup on another file system than the original must be a copy, because links and
//! renames don't cross file systems. The backup of a file that is changed in place must also be a copy.

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RawMode, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::tree::copying::copy_range;

/// Copies the entry `name` of the directory `parent` to the name `kept` in the directory `holder`. The entry must not
/// be a directory, and the name `kept` must not exist yet.
///
/// # Errors
/// The error of the system call that failed. No incomplete copy remains.
pub fn copy(
    (parent, name): (BorrowedFd<'_>, &OsStr),
    (holder, kept): (BorrowedFd<'_>, &OsStr),
    stat: &Stat,
) -> Result<(), Errno> {
    let made = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => copy_file((parent, name), (holder, kept)),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(parent, name, Vec::new())?;
            rustix::fs::symlinkat(target, holder, kept).and_then(|()| give(holder, kept, stat))
        }
        kind => {
            let mode = Mode::from_raw_mode(stat.st_mode as RawMode & 0o7777);
            let mknod = rustix::fs::mknodat(holder, kept, kind, mode, stat.st_rdev);
            mknod.and_then(|()| give(holder, kept, stat))
        }
    };
    made.inspect_err(|error| {
        // A file that already existed must not be removed.
        if *error != Errno::EXIST {
            let _ = rustix::fs::unlinkat(holder, kept, AtFlags::empty());
        }
    })
}

fn copy_file(
    (parent, name): (BorrowedFd<'_>, &OsStr),
    (holder, kept): (BorrowedFd<'_>, &OsStr),
) -> Result<(), Errno> {
    let from = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let old = rustix::fs::openat(parent, name, from, Mode::empty())?;
    let to = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = rustix::fs::openat(holder, kept, to, Mode::RUSR | Mode::WUSR)?;
    let stat = rustix::fs::fstat(&old)?;
    copy_range(old.as_fd(), new.as_fd(), 0, u64::try_from(stat.st_size).unwrap_or(0))
        .map_err(|error| error.errno())?;
    copy_attributes(old.as_fd(), new.as_fd());
    // If the original belongs to another user, an ordinary user can't set the owner of the copy. The copy is kept
    // nevertheless, because the contents are more important.
    let owner = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
    let given = rustix::fs::fchown(&new, owner.0, owner.1).is_ok();
    let bits = if given { 0o7777 } else { 0o777 };
    rustix::fs::fchmod(&new, Mode::from_raw_mode(stat.st_mode as RawMode & bits))?;
    rustix::fs::futimens(&new, &times(&stat))?;
    rustix::fs::fsync(&new)
}

/// Copies extended attributes including ACLs, as far as the other file system accepts them.
pub fn copy_attributes(old: BorrowedFd<'_>, new: BorrowedFd<'_>) {
    let mut names = vec![0; 64 << 10];
    let Ok(length) = rustix::fs::flistxattr(old, names.as_mut_slice()) else { return };
    let mut value = vec![0; 64 << 10];
    for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        if let Ok(size) = rustix::fs::fgetxattr(old, name, value.as_mut_slice()) {
            let _ = rustix::fs::fsetxattr(new, name, &value[..size], XattrFlags::empty());
        }
    }
}

/// Sets the times of a copied entry that isn't a regular file, and also its owner and group if this user may set them.
fn give(holder: BorrowedFd<'_>, kept: &OsStr, stat: &Stat) -> Result<(), Errno> {
    let owner = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
    let _ = rustix::fs::chownat(holder, kept, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW);
    rustix::fs::utimensat(holder, kept, &times(stat), AtFlags::SYMLINK_NOFOLLOW)
}

fn times(stat: &Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}
