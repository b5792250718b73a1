//! Backups: entries that are replaced or deleted are kept under another name (`--backup`).

use linerate_wire::control::{Backup, Keep, Options, Problem, ProblemKind};
use linerate_wire::path::{RelPath, printable};
use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, Uid};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex, OnceLock};

use crate::base::lock::lock;
use crate::base::problem::{TransferError, problem};
use crate::receive::across::copy;
use crate::tree::bounds::{DestinationState, Named};
use crate::tree::identity::{Identity, identity, identity_of};
use crate::tree::root::{Directory, Root};
use crate::tree::safe_link::leads_out;

/// The beginning of the error message that the backup directory can't be used.
pub const NO_BACKUP_DIR: &str = "The backup-dir";
/// The end of the error message that a backup could not be kept.
pub const BACKUP_ADVICE: &str = "check that the directory for backups can be created";

/// The settings for backups.
pub struct Backups {
    /// A directory below which backups have the same paths as the originals; `None`: each backup is in the directory of
    /// its original.
    below: Option<BackupDirectory>,
    suffix: Vec<u8>,
    /// The mode of directories that are created for backups.
    mode: Mode,
    /// True if no backups are made of links that point outside the tree.
    safe_links: bool,
    /// True if directories that are created for backups get the owner of the originals' directories.
    owner: bool,
    /// True if directories that are created for backups get the group of the originals' directories.
    group: bool,
    /// With `--delete`, the paths of the backups that were made beside their originals: they aren't deleted in the same
    /// run.
    made: Option<Mutex<HashSet<RelPath>>>,
}

/// The directory for backups. It is created when the first backup needs it.
struct BackupDirectory {
    /// The directory's path as the user wrote it.
    written: Vec<u8>,
    named: Named,
    held: OnceLock<Option<Root>>,
}

/// The directory that holds a backup.
enum BackupHolder<'a> {
    Same(BorrowedFd<'a>),
    Other(Arc<Directory>),
}

impl AsFd for BackupHolder<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Same(fd) => *fd,
            Self::Other(directory) => directory.as_fd(),
        }
    }
}

impl Backups {
    /// The settings for the backups that `backup` requests. If the directory for backups has a relative path, the path
    /// starts at `destination`.
    ///
    /// # Errors
    /// If the suffix contains a slash, if there is neither a directory for backups nor a suffix, or if the directory
    /// isn't allowed, isn't a directory, or is the destination itself although there is no suffix.
    pub fn new(
        destination: &Named,
        backup: &Backup,
        mode: Mode,
        options: &Options,
    ) -> Result<Self, TransferError> {
        let Backup { directory, suffix } = backup;
        if suffix.contains(&b'/') || directory.is_none() && suffix.is_empty() {
            let message = "backups need a directory of their own, or a suffix without a slash";
            return Err(TransferError::Arguments(message.into()));
        }
        let below = directory.as_ref().map(|written| {
            let named = destination.beside(written)?;
            check_directory(&named, written)?;
            Ok(BackupDirectory { written: written.clone(), named, held: OnceLock::new() })
        });
        let below: Option<BackupDirectory> = below.transpose()?;
        let own = suffix.is_empty().then(|| below.as_ref()?.identity()).flatten();
        if own.is_some() && own == identity_there(destination) {
            let message =
                "the directory for backups is the destination itself: name another one, or give a suffix";
            return Err(TransferError::Arguments(message.into()));
        }
        let (safe_links, Keep { owner, group, .. }) = (options.safe_links, options.keep);
        let deletes = options.sync.as_ref().is_some_and(|sync| sync.delete);
        let made = (deletes && below.is_none()).then(Mutex::default);
        Ok(Self { below, suffix: suffix.clone(), mode, safe_links, owner, group, made })
    }

    /// Links, renames or copies the entry `name` of the directory `parent` to its backup name, before another entry
    /// takes its name. The entry's place is `place`. Does nothing if the entry doesn't exist, is a directory, or is a
    /// link of which no backups are made. The backup is reported to `report`.
    ///
    /// # Errors
    /// The errors of link(2), rename(2) and of copying to another file system.
    pub fn keep(
        &self,
        place: &RelPath,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        report: impl Fn(Problem),
    ) -> Result<(), Errno> {
        let Some(stat) = there(parent, name)? else { return Ok(()) };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            || self.drops(place, parent, name, &stat)?
        {
            return Ok(());
        }
        let (holder, kept) = self.room(place, parent, name)?;
        match rustix::fs::linkat(parent, name, &holder, &kept, AtFlags::empty()) {
            // The file system has no hard links, or the file already has the largest allowed number of links.
            Err(Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP) => {
                rustix::fs::renameat(parent, name, &holder, &kept)?;
            }
            Err(Errno::XDEV) => copy((parent, name), (holder.as_fd(), &kept), &stat)?,
            linked => linked?,
        }
        self.note(place);
        report(self.remark(place));
        Ok(())
    }

    /// Copies a file to its backup name before the file is changed in place. Does nothing if no regular file has this
    /// name.
    ///
    /// # Errors
    /// The errors of the copy; the original stays unchanged.
    pub fn copy(
        &self,
        place: &RelPath,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        report: impl Fn(Problem),
    ) -> Result<(), Errno> {
        let stat = there(parent, name)?;
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let Some(stat) = stat.filter(is_file) else { return Ok(()) };
        let (holder, kept) = self.room(place, parent, name)?;
        copy((parent, name), (holder.as_fd(), &kept), &stat)?;
        self.note(place);
        report(self.remark(place));
        Ok(())
    }

    /// Moves an entry to the backups instead of deleting it. Returns false, and moves nothing, if the entry is itself a
    /// backup, because no backups of backups are kept, or if the entry is a link of which no backups are made.
    ///
    /// # Errors
    /// The errors of [`Backups::keep`] and of unlink(2).
    pub fn take(
        &self,
        place: &RelPath,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        report: impl Fn(Problem),
    ) -> Result<bool, Errno> {
        let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if self.is_backup(name) || self.drops(place, parent, name, &stat)? {
            return Ok(false);
        }
        let (holder, kept) = self.room(place, parent, name)?;
        match rustix::fs::renameat(parent, name, &holder, &kept) {
            Err(Errno::XDEV) => {
                copy((parent, name), (holder.as_fd(), &kept), &stat)?;
                rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
            }
            taken => taken?,
        }
        self.note(place);
        report(self.remark(place));
        Ok(true)
    }

    /// Remembers the path of the backup of the entry at `place`.
    fn note(&self, place: &RelPath) {
        let Some(made) = &self.made else { return };
        if let Ok(kept) = RelPath::new([place.as_bytes(), &self.suffix].concat()) {
            lock(made).insert(kept);
        }
    }

    /// True if a backup was made at this path in this run.
    pub fn made(&self, path: &RelPath) -> bool {
        self.made.as_ref().is_some_and(|made| lock(made).contains(path))
    }

    /// True for a link that points outside the tree, if such links aren't copied.
    fn drops(
        &self,
        place: &RelPath,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        stat: &Stat,
    ) -> Result<bool, Errno> {
        if !self.safe_links || FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(false);
        }
        let target = rustix::fs::readlinkat(parent, name, Vec::new())?;
        Ok(leads_out(place, target.as_bytes()))
    }

    /// The remark about a backup, in rsync's words.
    fn remark(&self, place: &RelPath) -> Problem {
        let below = self.below.as_ref().map(|below| [&below.written[..], b"/"].concat());
        let kept = [below.as_deref().unwrap_or_default(), place.as_bytes(), &self.suffix].concat();
        let message = format!("backed up {} to {}", printable(place.as_bytes()), printable(&kept));
        problem(OsStr::from_bytes(place.as_bytes()), ProblemKind::Remark, message)
    }

    /// True if backups stay in the directories of their originals.
    pub fn are_beside(&self) -> bool {
        self.below.is_none()
    }

    /// True if an entry is the directory for backups, which is never deleted.
    pub fn is_directory(&self, parent: BorrowedFd<'_>, name: &OsStr) -> bool {
        let is_own =
            |own| there(parent, name).is_ok_and(|stat| stat.is_some_and(|stat| identity(&stat) == own));
        self.own().is_some_and(is_own)
    }

    /// True if `directory` is the directory for backups, in which nothing is deleted.
    pub fn are_in(&self, directory: BorrowedFd<'_>) -> bool {
        self.own().is_some_and(|own| identity_of(directory).is_ok_and(|identity| identity == own))
    }

    fn own(&self) -> Option<Identity> {
        self.below.as_ref().and_then(BackupDirectory::identity)
    }

    fn is_backup(&self, name: &OsStr) -> bool {
        self.are_beside() && name.len() > self.suffix.len() && name.as_bytes().ends_with(&self.suffix)
    }

    /// The directory and the name for a backup. An older backup of that name is removed first.
    fn room<'a>(
        &self,
        place: &RelPath,
        parent: BorrowedFd<'a>,
        name: &OsStr,
    ) -> Result<(BackupHolder<'a>, OsString), Errno> {
        let kept = OsString::from_vec([name.as_bytes(), &self.suffix].concat());
        let Some(below) = &self.below else {
            make_room(parent, &kept)?;
            return Ok((BackupHolder::Same(parent), kept));
        };
        // The error must not be ENOENT, which would mean that the entry itself is missing.
        let root = below.held.get_or_init(|| below.open(self.mode).ok()).as_ref().ok_or(Errno::NOTDIR)?;
        let above = place.parent().unwrap_or_default();
        let holder = match root.directory(&above) {
            Err(Errno::NOENT) => self.make_like(root, &above, parent)?,
            holder => holder?,
        };
        // If the backup would have the place of the original entry itself, making room for the backup would delete the
        // entry.
        if kept == name && identity_of(&holder)? == identity_of(parent)? {
            return Err(Errno::INVAL);
        }
        make_room(holder.as_fd(), &kept)?;
        Ok((BackupHolder::Other(holder), kept))
    }

    /// Creates the directory `above` in the backup directory, with its missing parents. Each new directory gets the
    /// properties of the corresponding directory of the originals, which is `parent` or a directory above `parent`.
    fn make_like(
        &self,
        root: &Root,
        above: &RelPath,
        parent: BorrowedFd<'_>,
    ) -> Result<Arc<Directory>, Errno> {
        let ways: Vec<_> = std::iter::once(above.clone()).chain(above.ancestors()).collect();
        for (up, path) in ways.iter().enumerate().rev().filter(|(_, path)| !path.is_root()) {
            if !matches!(root.directory(path), Err(Errno::NOENT)) {
                continue;
            }
            let made = root.directory_or_make(path, self.mode)?;
            let model = [&["."][..], &vec![".."; up]].concat().join("/");
            if let Ok(model) = rustix::fs::statat(parent, model, AtFlags::SYMLINK_NOFOLLOW) {
                self.make_alike(made.as_fd(), &model);
            }
        }
        root.directory(above)
    }
}

impl Backups {
    /// Gives the directory `made` the mode of `model`, and the owner and group of `model` if these are kept. A property
    /// that can't be set is ignored, because the backup itself is what matters.
    fn make_alike(&self, made: BorrowedFd<'_>, model: &Stat) {
        let user = self.owner.then(|| Uid::from_raw(model.st_uid));
        let group = self.group.then(|| Gid::from_raw(model.st_gid));
        let _ = rustix::fs::fchown(made, user, group);
        // An ordinary user must be able to create entries in the directory.
        let own = if rustix::process::geteuid().is_root() { Mode::empty() } else { Mode::RWXU };
        let _ = rustix::fs::fchmod(made, Mode::from_raw_mode(model.st_mode & 0o7777) | own);
    }
}

/// The stat of `name` in `parent`; `None` if it doesn't exist.
fn there(parent: BorrowedFd<'_>, name: &OsStr) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        stat => stat.map(Some),
    }
}

/// Removes an older backup or an empty directory of that name.
fn make_room(holder: BorrowedFd<'_>, kept: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(holder, kept, AtFlags::empty()) {
        Err(Errno::ISDIR) => rustix::fs::unlinkat(holder, kept, AtFlags::REMOVEDIR),
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

/// Fails, with rsync's message, if the path of the backup directory names an entry that isn't a directory.
fn check_directory(named: &Named, written: &[u8]) -> Result<(), TransferError> {
    let there = named.destination().map(|at| at.there);
    if matches!(there, Ok(DestinationState::Directory { .. } | DestinationState::Nothing) | Err(_)) {
        return Ok(());
    }
    Err(TransferError::Arguments(format!("{NO_BACKUP_DIR} is not a directory: {}", printable(written))))
}

/// The identity of the directory; `None` if the directory doesn't exist.
fn identity_there(directory: &Named) -> Option<Identity> {
    identity_of(directory.directory().ok()?.top()).ok()
}

impl BackupDirectory {
    /// The identity of the backup directory; `None` if the directory doesn't exist.
    fn identity(&self) -> Option<Identity> {
        match self.held.get() {
            Some(root) => identity_of(root.as_ref()?.top()).ok(),
            None => identity_there(&self.named),
        }
    }

    /// Opens the directory for backups; creates it and its parents if they are missing. Before this call, the process
    /// has cleared its umask; `mode` already takes the umask into account.
    fn open(&self, mode: Mode) -> Result<Root, TransferError> {
        self.named.make_above(mode)?;
        let at = self.named.destination()?;
        if matches!(at.there, DestinationState::Nothing) {
            at.make(mode)?;
        }
        self.named.directory()
    }
}
