//! Backups: entries that are replaced or removed, and kept under another name (`--backup`).

use linerate_wire::control::{Backup, Keep, Options, Problem, ProblemKind};
use linerate_wire::path::{RelPath, printable};
use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, Uid};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, OnceLock};

use crate::base::problem::{TransferError, problem};
use crate::receive::across::copy;
use crate::tree::bounds::{DestinationState, Named};
use crate::tree::root::{Directory, Root};
use crate::tree::safe_link::leads_out;

/// Where backups go.
pub struct Backups {
    /// Below this directory, at their own places; `None`: beside what takes their names.
    below: Option<BackupDirectory>,
    suffix: Vec<u8>,
    /// The mode of directories that are made for backups.
    mode: Mode,
    /// Links that lead out of the tree aren't kept.
    safe_links: bool,
    /// Directories for backups get the owner and group of those that they are for.
    owner: bool,
    group: bool,
}

/// The directory for backups. It is made when it is first needed.
struct BackupDirectory {
    /// As the user wrote it.
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
    /// As `backup` asks for them, near `destination`.
    ///
    /// # Errors
    /// If the directory for them can't be named.
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
            Ok(BackupDirectory { written: written.clone(), named, held: OnceLock::new() })
        });
        let below = below.transpose()?;
        let (safe_links, Keep { owner, group, .. }) = (options.safe_links, options.keep);
        Ok(Self { below, suffix: suffix.clone(), mode, safe_links, owner, group })
    }

    /// Gives what is called `name` in `parent`, at `place`, its second name before another takes the first. Nothing is done
    /// where nothing is there, or a directory. `tell` hears of it.
    ///
    /// # Errors
    /// The errors of link(2), rename(2) and of a copy to another file system.
    pub fn keep(
        &self,
        place: &RelPath,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        tell: impl Fn(Problem),
    ) -> Result<(), Errno> {
        let Some(stat) = there(parent, name)? else { return Ok(()) };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            || self.drops(place, parent, name, &stat)?
        {
            return Ok(());
        }
        let (holder, kept) = self.room(place, parent, name)?;
        match rustix::fs::linkat(parent, name, &holder, &kept, AtFlags::empty()) {
            // A file system without hard links, or a file with as many as it may have.
            Err(Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP) => {
                rustix::fs::renameat(parent, name, &holder, &kept)?;
            }
            Err(Errno::XDEV) => copy((parent, name), (holder.as_fd(), &kept), &stat)?,
            linked => linked?,
        }
        tell(self.remark(place));
        Ok(())
    }

    /// Makes a copy of a file before it is written into. Nothing is done where no file is there.
    ///
    /// # Errors
    /// The errors of the copy; the file is as it was.
    pub fn copy(
        &self,
        place: &RelPath,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        tell: impl Fn(Problem),
    ) -> Result<(), Errno> {
        let stat = there(parent, name)?;
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let Some(stat) = stat.filter(is_file) else { return Ok(()) };
        let (holder, kept) = self.room(place, parent, name)?;
        copy((parent, name), (holder.as_fd(), &kept), &stat)?;
        tell(self.remark(place));
        Ok(())
    }

    /// Takes what goes out of its directory; false for a backup, which isn't kept once more.
    ///
    /// # Errors
    /// As [`Backups::keep`].
    pub fn take(
        &self,
        place: &RelPath,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        tell: impl Fn(Problem),
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
        tell(self.remark(place));
        Ok(true)
    }

    /// A link that leads out isn't kept where such links aren't copied.
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

    /// In rsync's words.
    fn remark(&self, place: &RelPath) -> Problem {
        let below = self.below.as_ref().map(|below| [&below.written[..], b"/"].concat());
        let kept = [below.as_deref().unwrap_or_default(), place.as_bytes(), &self.suffix].concat();
        let message = format!("backed up {} to {}", printable(place.as_bytes()), printable(&kept));
        problem(OsStr::from_bytes(place.as_bytes()), ProblemKind::Remark, message)
    }

    /// True where backups stay in the directories of what they were.
    pub fn are_beside(&self) -> bool {
        self.below.is_none()
    }

    fn is_backup(&self, name: &OsStr) -> bool {
        self.are_beside() && name.len() > self.suffix.len() && name.as_bytes().ends_with(&self.suffix)
    }

    /// The place of the backup, in which nothing is left of an older one.
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
        let root = below.held.get_or_init(|| below.open(self.mode).ok()).as_ref().ok_or(Errno::NOENT)?;
        let above = place.parent().unwrap_or_default();
        let holder = match root.directory(&above) {
            Err(Errno::NOENT) => self.make_like(root, &above, parent)?,
            holder => holder?,
        };
        make_room(holder.as_fd(), &kept)?;
        Ok((BackupHolder::Other(holder), kept))
    }

    /// Makes the directory `above` and those that it is in, each like the one that it is for, from `parent` upwards.
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
    /// A property that can't be given is left out: the backup itself counts.
    fn make_alike(&self, made: BorrowedFd<'_>, model: &Stat) {
        let user = self.owner.then(|| Uid::from_raw(model.st_uid));
        let group = self.group.then(|| Gid::from_raw(model.st_gid));
        let _ = rustix::fs::fchown(made, user, group);
        // Whoever isn't root must be able to put something into it.
        let own = if rustix::process::geteuid().is_root() { Mode::empty() } else { Mode::RWXU };
        let _ = rustix::fs::fchmod(made, Mode::from_raw_mode(model.st_mode & 0o7777) | own);
    }
}

/// The properties of `name` in `parent`; none where nothing is there.
fn there(parent: BorrowedFd<'_>, name: &OsStr) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        stat => stat.map(Some),
    }
}

/// Removes an older backup, or an empty directory, of that name.
fn make_room(holder: BorrowedFd<'_>, kept: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(holder, kept, AtFlags::empty()) {
        Err(Errno::ISDIR) => rustix::fs::unlinkat(holder, kept, AtFlags::REMOVEDIR),
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

impl BackupDirectory {
    /// By now the process has no mask for new files: `mode` has it in it.
    fn open(&self, mode: Mode) -> Result<Root, TransferError> {
        let at = self.named.destination()?;
        if matches!(at.there, DestinationState::Nothing) {
            at.make(mode)?;
        }
        self.named.directory()
    }
}
