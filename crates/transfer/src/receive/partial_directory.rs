//! The directory that keeps parts of files when a transfer ends early, and in which whole files wait for their names
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
use crate::tree::root::{Directory, Root};
use crate::tree::temporary::Temporary;

/// The mode of such a directory: what is in it isn't ready to be seen.
const MODE: Mode = Mode::RWXU;

/// Holds files that don't have their names yet, under those names.
pub struct PartialDirectory {
    place: PartialPlace,
    /// Whole files wait there.
    pub delays: bool,
    /// Held while something is put there: an empty directory is removed only when nobody is about to fill it.
    filling: RwLock<()>,
}

enum PartialPlace {
    /// By these names below each file's own directory.
    Beside(Vec<OsString>),
    /// In one directory for all files, held from when it is first needed.
    Fixed(Box<FixedDirectory>),
}

struct FixedDirectory {
    named: Named,
    held: Mutex<Option<Root>>,
    /// Files of this transfer have their places in the directory: what is there may be one of them, and no part.
    is_place: Mutex<bool>,
    /// The directory is below the destination: files may get their places in it later.
    is_below: OnceLock<bool>,
}

impl PartialDirectory {
    /// As `placing` asks for it, near `destination`; `None` where nothing is kept.
    ///
    /// # Errors
    /// If the path goes up, or may not be reached.
    pub fn find(destination: &Named, placing: &Placing) -> Result<Option<Self>, TransferError> {
        let Some(written) = placing.partial.as_deref().filter(|written| !written.is_empty()) else {
            return match placing.delayed {
                true => Err(TransferError::Arguments("files can wait only in a directory".into())),
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

    /// Notes where the destination is.
    pub fn note_destination(&self, top: &Directory) {
        self.note_place(top);
        if let PartialPlace::Fixed(fixed) = &self.place {
            let is_below = self.open(top.as_fd()).is_ok_and(|holder| is_below(holder, top.as_fd()));
            fixed.is_below.get_or_init(|| is_below);
        }
    }

    /// Notes that a file has its place in `parent`, or is to get it. Where that is the one directory of all parts, nothing is kept
    /// or removed there from here on.
    pub fn note_place(&self, parent: impl AsFd) {
        if let PartialPlace::Fixed(fixed) = &self.place {
            let mut is_place = lock(&fixed.is_place);
            *is_place = *is_place || self.is_the_same(parent.as_fd());
        }
    }

    fn is_the_same(&self, parent: BorrowedFd<'_>) -> bool {
        let stats = self
            .open(parent)
            .and_then(rustix::fs::fstat)
            .and_then(|ours| Ok((ours, rustix::fs::fstat(parent)?)));
        stats.is_ok_and(|(ours, theirs)| (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino))
    }

    fn is_below(&self) -> bool {
        matches!(&self.place, PartialPlace::Fixed(fixed) if fixed.is_below.get() == Some(&true))
    }

    fn is_place(&self) -> bool {
        self.hold_place().is_some_and(|is_place| *is_place)
    }

    /// Whether files have their places in the partial directory. While it is held, no further one gets its place there.
    fn hold_place(&self) -> Option<MutexGuard<'_, bool>> {
        match &self.place {
            PartialPlace::Fixed(fixed) => Some(lock(&fixed.is_place)),
            PartialPlace::Beside(..) => None,
        }
    }

    /// The kept part of the file `name` in `parent`, a regular file, and the directory that holds it.
    pub fn look(&self, parent: BorrowedFd<'_>, name: &OsStr) -> Option<(OwnedFd, Stat)> {
        self.note_place(parent);
        if self.is_place() { None } else { self.find_part(parent, name) }
    }

    fn find_part(&self, parent: BorrowedFd<'_>, name: &OsStr) -> Option<(OwnedFd, Stat)> {
        let holder = self.open(parent).ok()?;
        let stat = rustix::fs::statat(&holder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some((holder, stat))
    }

    /// True where a whole file may wait in it for its name in `parent`. Not where it is on another file system, or files may have
    /// their places there, or others than this user may write to it.
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

    /// Puts there what is to be the file `name` in `parent`.
    ///
    /// # Errors
    /// The errors of mkdir(2), link(2) and rename(2); `EEXIST` where files have their places there.
    pub fn put(&self, file: Temporary, parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        let _filling = self.filling.read().unwrap_or_else(PoisonError::into_inner);
        let holder = self.make(parent)?;
        self.note_place(parent);
        let is_place = self.hold_place();
        if is_place.as_deref().is_some_and(|is_place| *is_place) {
            return Err(Errno::EXIST);
        }
        let device = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| stat.st_dev);
        // A file under way may lie on a third file system.
        if device(file.fd()?)? != device(holder.as_fd())? {
            return bring(file.fd()?, holder.as_fd(), name);
        }
        file.rename_into(holder.as_fd(), name)
    }

    /// Gives a whole file that waits there, with the number `inode`, its name in `parent`.
    ///
    /// # Errors
    /// The errors of open(2) and rename(2): `EISDIR` where a directory has that name; `ESTALE` where another file lies there.
    pub fn release(&self, parent: BorrowedFd<'_>, name: &OsStr, inode: u64) -> Result<(), Errno> {
        let holder = self.open(parent)?;
        if !is_own(holder.as_fd()) {
            return Err(Errno::STALE);
        }
        rename_it(holder.as_fd(), name, inode, (parent, name))?;
        self.remove_empty(parent);
        Ok(())
    }

    /// Removes what is there of the file `name` in `parent`, which is whole and has its name.
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

    /// The directory, which may have gone since it was last there.
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

    /// The directory, made where it is missing; the directories above it have to be there.
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
                    // Another thread has made it.
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

    /// Removes a directory that is beside the file, when nothing is in it any more.
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

/// True where only this user may write to it.
fn is_own(holder: BorrowedFd<'_>) -> bool {
    let others = Mode::WGRP | Mode::WOTH;
    rustix::fs::fstat(holder).is_ok_and(|stat| {
        stat.st_uid == rustix::process::geteuid().as_raw()
            && !Mode::from_raw_mode(stat.st_mode).intersects(others)
    })
}

/// Renames what has the name in `holder`, if that is the file with the number `inode`.
///
/// # Errors
/// The errors of rename(2); `ESTALE` where it is another one.
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

/// True where `top` is on the way up from `holder`.
fn is_below(mut holder: OwnedFd, top: BorrowedFd<'_>) -> bool {
    let identity = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino)).ok();
    let top = identity(top);
    loop {
        let here = identity(holder.as_fd());
        if here == top {
            return top.is_some();
        }
        match enter(holder.as_fd(), OsStr::new("..")) {
            Ok(above) if identity(above.as_fd()) != here => holder = above,
            _ => return false,
        }
    }
}

fn enter(holder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(holder, name, flags, Mode::empty())
}

/// Copies a part of a file to another file system, over what has the name there.
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

/// The names of a path that leads down.
fn components(written: &[u8]) -> Result<Vec<OsString>, TransferError> {
    let parts = written.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let names: Vec<_> = parts.map(|part| OsStr::from_bytes(part).to_owned()).collect();
    let path = RelPath::new(names.join(OsStr::new("/")).as_bytes().to_vec());
    match path {
        Ok(path) if !path.is_root() => Ok(names),
        _ => Err(TransferError::Arguments(format!(
            "'{}' can't hold parts of files: name a directory below each file's own, or an absolute path",
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
