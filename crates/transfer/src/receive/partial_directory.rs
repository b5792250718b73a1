//! The directory that keeps partial files when a transfer ends early, and in which complete files wait for their names
//! (`--partial-dir`, `--delay-updates`).

use linerate_wire::control::Placing;
use linerate_wire::path::{RelPath, printable};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::tree::bounds::{DestinationState, Named};
use crate::tree::copying::{CopyError, copy_range};
use crate::tree::identity::identity_of;
use crate::tree::root::{Directory, Root};
use crate::tree::temporary::Temporary;

/// The mode of such a directory: only its owner has access, because its files aren't complete.
const MODE: Mode = Mode::RWXU;

/// A directory for files that aren't in place yet. In this directory, the files already have their final names.
pub struct PartialDirectory {
    place: PartialPlace,
    /// True if complete files wait in this directory for their names (`--delay-updates`).
    pub delays: bool,
    /// Locked while a file is put into the directory: an empty directory is removed only if no thread is about to fill
    /// it.
    filling: RwLock<()>,
}

enum PartialPlace {
    /// For each file, the directory with this relative path (its components) below the file's own directory.
    Beside(Vec<OsString>),
    /// One directory for all files, which is opened when it is first needed.
    Fixed(Box<FixedDirectory>),
}

struct FixedDirectory {
    named: Named,
    held: Mutex<Option<Root>>,
    /// True if files of this transfer have their final place in this directory, so that files in it may be final files
    /// and not partial ones.
    is_place: Mutex<bool>,
    /// True if the directory is below the destination, so that files may get their final place in it later.
    is_below: OnceLock<bool>,
}

impl PartialDirectory {
    /// The directory that `placing` requests, relative to `destination`; `None` if no partial files are kept.
    ///
    /// # Errors
    /// If the path isn't allowed, for example because it contains `..`, or if files are delayed but there is no
    /// directory for partial files.
    pub fn find(destination: &Named, placing: &Placing) -> Result<Option<Self>, TransferError> {
        let Some(written) = placing.partial.as_deref().filter(|written| !written.is_empty()) else {
            return match placing.delayed {
                true => {
                    Err(TransferError::Arguments("delayed files need a directory for partial files".into()))
                }
                false => Ok(None),
            };
        };
        let place = match written.starts_with(b"/") {
            true => {
                let named = destination.beside(written)?;
                let (held, is_place, is_below) = (Mutex::default(), Mutex::default(), OnceLock::new());
                PartialPlace::Fixed(Box::new(FixedDirectory { named, held, is_place, is_below }))
            }
            false => PartialPlace::Beside(components(written)?),
        };
        Ok(Some(Self::at(place, placing.delayed)))
    }

    fn at(place: PartialPlace, delays: bool) -> Self {
        Self { place, delays, filling: RwLock::default() }
    }

    /// Records the location of the destination.
    pub fn note_destination(&self, top: &Directory) {
        self.note_place(top);
        if let PartialPlace::Fixed(fixed) = &self.place {
            let is_below = self.open(top.as_fd()).is_ok_and(|holder| is_below(holder, top.as_fd()));
            fixed.is_below.get_or_init(|| is_below);
        }
    }

    /// Records that a file has or will get its final place in `parent`. If `parent` is the common directory
    /// of all partial files, from now on no partial file is kept or removed there.
    pub fn note_place(&self, parent: impl AsFd) {
        if let PartialPlace::Fixed(fixed) = &self.place {
            let mut is_place = lock(&fixed.is_place);
            *is_place = *is_place || self.is_the_same(parent.as_fd());
        }
    }

    fn is_the_same(&self, parent: BorrowedFd<'_>) -> bool {
        let both = self.open(parent).and_then(|ours| Ok((identity_of(ours)?, identity_of(parent)?)));
        both.is_ok_and(|(ours, theirs)| ours == theirs)
    }

    fn is_below(&self) -> bool {
        matches!(&self.place, PartialPlace::Fixed(fixed) if fixed.is_below.get() == Some(&true))
    }

    fn is_place(&self) -> bool {
        self.hold_place().is_some_and(|is_place| *is_place)
    }

    /// Returns a guard whose value is true if files have their final place in the common directory of all partial
    /// files. While the guard exists, its value doesn't change. `None` if there is no common directory.
    fn hold_place(&self) -> Option<MutexGuard<'_, bool>> {
        match &self.place {
            PartialPlace::Fixed(fixed) => Some(lock(&fixed.is_place)),
            PartialPlace::Beside(..) => None,
        }
    }

    /// Looks for the partial file of the file `name` in `parent`. Returns the directory that holds the partial file,
    /// and the partial file's stat; `None` if there is no such regular file.
    pub fn look(&self, parent: BorrowedFd<'_>, name: &OsStr) -> Option<(OwnedFd, Stat)> {
        self.note_place(parent);
        if self.is_place() { None } else { self.find_part(parent, name) }
    }

    fn find_part(&self, parent: BorrowedFd<'_>, name: &OsStr) -> Option<(OwnedFd, Stat)> {
        let holder = self.open(parent).ok()?;
        let stat = rustix::fs::statat(&holder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some((holder, stat))
    }

    /// True if a complete file may wait in the partial directory for its name in `parent`. False if the
    /// partial directory is on another file system, if files may have their final place in it, or if other
    /// users may write to it.
    pub fn lets_wait(&self, parent: &Directory) -> bool {
        self.note_place(parent);
        let is_own = || self.make(parent.as_fd()).map_or(true, |holder| is_own(holder.as_fd()));
        !self.is_place() && !self.is_below() && is_own() && !self.is_on_another(parent)
    }

    fn is_on_another(&self, parent: &Directory) -> bool {
        let device = |holder: OwnedFd| rustix::fs::fstat(holder).map(|stat| stat.st_dev);
        matches!(self.place, PartialPlace::Fixed(..))
            && self.make(parent.as_fd()).and_then(device).is_ok_and(|device| device != parent.device)
    }

    /// Moves `file`, which will become the file `name` in `parent`, into the partial directory.
    ///
    /// # Errors
    /// The errors of mkdir(2), link(2) and rename(2); `EEXIST` if files have their final place in the
    /// directory.
    pub fn put(&self, file: Temporary, parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        let _filling = self.filling.read().unwrap_or_else(PoisonError::into_inner);
        let holder = self.make(parent)?;
        self.note_place(parent);
        let is_place = self.hold_place();
        if is_place.as_deref().is_some_and(|is_place| *is_place) {
            return Err(Errno::EXIST);
        }
        let device = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| stat.st_dev);
        // The temporary file may be on another file system than the partial directory.
        if device(file.fd()?)? != device(holder.as_fd())? {
            return bring(file.fd()?, holder.as_fd(), name);
        }
        file.rename_into(holder.as_fd(), name)
    }

    /// Renames the complete file with the inode number `inode`, which waits in the partial directory, to
    /// `name` in `parent`.
    ///
    /// # Errors
    /// The errors of open(2) and rename(2): `EISDIR` if a directory has that name; `ESTALE` if another file waits
    /// there, or if other users may write to the partial directory.
    pub fn release(&self, parent: BorrowedFd<'_>, name: &OsStr, inode: u64) -> Result<(), Errno> {
        let holder = self.open(parent)?;
        if !is_own(holder.as_fd()) {
            return Err(Errno::STALE);
        }
        rename_it(holder.as_fd(), name, inode, (parent, name))?;
        self.remove_empty(parent);
        Ok(())
    }

    /// Removes the partial file of the file `name` in `parent`, because the file `name` is now complete and has its
    /// name.
    pub fn clear(&self, parent: BorrowedFd<'_>, name: &OsStr) {
        self.note_place(parent);
        let is_place = self.hold_place();
        if !is_place.as_deref().is_some_and(|is_place| *is_place)
            && let Some((holder, _)) = self.find_part(parent, name)
            && rustix::fs::unlinkat(holder, name, AtFlags::empty()).is_ok()
        {
            self.remove_empty(parent);
        }
    }

    /// Opens the partial directory, which may have been removed since the last call.
    fn open(&self, parent: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        match &self.place {
            PartialPlace::Beside(names) => {
                let first = rustix::io::fcntl_dupfd_cloexec(parent, 0)?;
                names.iter().try_fold(first, |holder, name| enter(holder.as_fd(), name))
            }
            PartialPlace::Fixed(fixed) => {
                let mut held = lock(&fixed.held);
                if held.is_none() {
                    *held = Some(fixed.named.directory().map_err(|_| Errno::NOENT)?);
                }
                let root = held.as_ref().ok_or(Errno::NOENT)?;
                rustix::io::fcntl_dupfd_cloexec(root.top().as_fd(), 0)
            }
        }
    }

    /// Opens the partial directory for files in `parent`. Creates the directory if it is missing; its parents
    /// must exist.
    fn make(&self, parent: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        match self.open(parent) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        match &self.place {
            PartialPlace::Beside(names) => {
                let (last, above) = names.split_last().ok_or(Errno::NOENT)?;
                let first = rustix::io::fcntl_dupfd_cloexec(parent, 0)?;
                let above = above.iter().try_fold(first, |holder, name| enter(holder.as_fd(), name))?;
                match rustix::fs::mkdirat(&above, last, MODE) {
                    // If the directory exists, another thread has created it.
                    Ok(()) | Err(Errno::EXIST) => enter(above.as_fd(), last),
                    Err(error) => Err(error),
                }
            }
            PartialPlace::Fixed(fixed) => {
                let at = fixed.named.destination().map_err(|_| Errno::NOENT)?;
                if matches!(at.there, DestinationState::Nothing) {
                    at.make(MODE).map_err(|_| Errno::NOENT)?;
                }
                self.open(parent)
            }
        }
    }

    /// Removes the partial directory below `parent` if it is empty. A common directory for all files is never
    /// removed.
    fn remove_empty(&self, parent: BorrowedFd<'_>) {
        let PartialPlace::Beside(names) = &self.place else { return };
        let Some((last, above)) = names.split_last() else { return };
        let first = rustix::io::fcntl_dupfd_cloexec(parent, 0);
        let above =
            first.and_then(|first| above.iter().try_fold(first, |holder, name| enter(holder.as_fd(), name)));
        if let Ok(above) = above {
            let _nobody_fills = self.filling.write().unwrap_or_else(PoisonError::into_inner);
            let _ = rustix::fs::unlinkat(above, last, AtFlags::REMOVEDIR);
        }
    }
}

/// True if only this user may write to the directory.
fn is_own(holder: BorrowedFd<'_>) -> bool {
    let others = Mode::WGRP | Mode::WOTH;
    rustix::fs::fstat(holder).is_ok_and(|stat| {
        stat.st_uid == rustix::process::geteuid().as_raw()
            && !Mode::from_raw_mode(stat.st_mode).intersects(others)
    })
}

/// Renames the entry `waits_as` in `holder` to `name` in `parent`, if the entry is the file with the inode number
/// `inode`.
///
/// # Errors
/// The errors of rename(2); `ESTALE` if the entry is another file.
pub fn rename_it(
    holder: BorrowedFd<'_>,
    waits_as: &OsStr,
    inode: u64,
    (parent, name): (BorrowedFd<'_>, &OsStr),
) -> Result<(), Errno> {
    let stat = rustix::fs::statat(holder, waits_as, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_ino != inode {
        return Err(Errno::STALE);
    }
    rustix::fs::renameat(holder, waits_as, parent, name)
}

/// True if `holder` is `top` or a directory below `top`.
fn is_below(mut holder: OwnedFd, top: BorrowedFd<'_>) -> bool {
    let top = identity_of(top).ok();
    loop {
        let here = identity_of(&holder).ok();
        if here == top {
            return top.is_some();
        }
        match enter(holder.as_fd(), OsStr::new("..")) {
            Ok(above) if identity_of(&above).ok() != here => holder = above,
            _ => return false,
        }
    }
}

fn enter(holder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(holder, name, flags, Mode::empty())
}

/// Copies a partial file to another file system, and replaces any file of that name there.
fn bring(part: BorrowedFd<'_>, holder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(holder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let kept = rustix::fs::openat(holder, name, flags, Mode::RUSR | Mode::WUSR)?;
    let length = u64::try_from(rustix::fs::fstat(part)?.st_size).unwrap_or(0);
    copy_range(part, kept.as_fd(), 0, length).map_err(CopyError::errno)
}

/// The components of a path that doesn't contain `..`.
fn components(written: &[u8]) -> Result<Vec<OsString>, TransferError> {
    let parts = written.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let names: Vec<_> = parts.map(|part| OsStr::from_bytes(part).to_owned()).collect();
    let path = RelPath::new(names.join(OsStr::new("/")).as_bytes().to_vec());
    match path {
        Ok(path) if !path.is_root() => Ok(names),
        _ => Err(TransferError::Arguments(format!(
            "'{}' can't be used for partial files: give a path below each file's directory, or an absolute path",
            printable(written)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::temporary::Names;
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn beside(written: &[u8]) -> PartialDirectory {
        PartialDirectory::at(PartialPlace::Beside(components(written).unwrap()), true)
    }

    #[test]
    fn a_path_leads_down() {
        assert_eq!(components(b"a//./b/").unwrap(), ["a", "b"]);
        for bad in [&b".."[..], b"a/../b", b".", b"./", b"a\0b"] {
            assert!(components(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn it_is_found_through_no_link_and_goes_when_it_is_empty() {
        let top = tempfile::tempdir().unwrap();
        let parent = File::open(top.path()).unwrap();
        let (parent, name) = (parent.as_fd(), OsStr::new("f"));
        let partial = beside(b".part");
        assert!(partial.look(parent, name).is_none());
        drop(partial.make(parent).unwrap());
        fs::write(top.path().join(".part/f"), "x").unwrap();
        fs::write(top.path().join(".part/g"), "x").unwrap();
        assert_eq!(partial.look(parent, name).unwrap().1.st_size, 1);
        partial.clear(parent, name);
        assert!(top.path().join(".part/g").exists() && !top.path().join(".part/f").exists());
        let inode = fs::metadata(top.path().join(".part/g")).unwrap().ino();
        assert_eq!(partial.release(parent, OsStr::new("g"), inode + 1), Err(Errno::STALE));
        partial.release(parent, OsStr::new("g"), inode).unwrap();
        assert!(top.path().join("g").exists() && !top.path().join(".part").exists());
        std::os::unix::fs::symlink("elsewhere", top.path().join(".part")).unwrap();
        fs::create_dir(top.path().join("elsewhere")).unwrap();
        fs::write(top.path().join("elsewhere/f"), "x").unwrap();
        assert!(partial.look(parent, name).is_none() && partial.make(parent).is_err());
    }

    #[test]
    fn nothing_waits_where_others_may_write() {
        let top = tempfile::tempdir().unwrap();
        let (root, partial) = (Root::open(top.path()).unwrap(), beside(b".part"));
        let (name, held) = (OsStr::new("f"), top.path().join(".part"));
        for (mode, is_own) in [(0o700, true), (0o755, true), (0o775, false), (0o702, false)] {
            fs::create_dir(&held).unwrap();
            fs::set_permissions(&held, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(partial.lets_wait(root.top()), is_own, "{mode:o}");
            fs::write(held.join("f"), "x").unwrap();
            let inode = fs::metadata(held.join("f")).unwrap().ino();
            assert_eq!(partial.release(root.top().as_fd(), name, inode).is_ok(), is_own, "{mode:o}");
            let _ = fs::remove_dir_all(&held);
        }
    }

    #[test]
    fn a_directory_that_becomes_empty_is_there_for_the_next_one() {
        let top = tempfile::tempdir().unwrap();
        let (root, partial) = (Root::open(top.path()).unwrap(), beside(b".part"));
        let (names, parent) = (Names::new(&[1], false), root.top().as_fd());
        let work = &|name: &str| {
            for _ in 0..3000 {
                let file = Temporary::unnamed(root.top().clone(), &names, Mode::RUSR).unwrap();
                partial.put(file, parent, OsStr::new(name)).unwrap();
                partial.clear(parent, OsStr::new(name));
            }
        };
        std::thread::scope(|scope| {
            ["a", "b"].iter().for_each(|name| drop(scope.spawn(move || work(name))));
        });
    }
}
