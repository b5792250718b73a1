//! What is replaced or removed, and kept under another name (`--backup`).

use linerate_wire::control::Backup;
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, OnceLock};

use crate::base::problem::TransferError;
use crate::tree::bounds::{DestinationState, Named};
use crate::tree::landing::make;
use crate::tree::root::{Directory, Root};

/// Where backups go.
pub struct Backups {
    /// Below this directory, at their own places; `None`: beside what takes their names.
    below: Option<BackupDirectory>,
    suffix: Vec<u8>,
    /// The mode of directories that are made for backups.
    mode: Mode,
}

/// It is made when it is first needed.
struct BackupDirectory {
    named: Named,
    held: OnceLock<Option<Root>>,
}

/// What holds a backup.
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
    pub fn new(destination: &Named, backup: &Backup, mode: Mode) -> Result<Self, TransferError> {
        let Backup { directory, suffix } = backup;
        if suffix.contains(&b'/') || directory.is_none() && suffix.is_empty() {
            let message = "backups need a directory of their own, or a suffix without a slash";
            return Err(TransferError::Arguments(message.into()));
        }
        let named = directory.as_ref().map(|directory| destination.beside(directory)).transpose()?;
        let below = named.map(|named| BackupDirectory { named, held: OnceLock::new() });
        Ok(Self { below, suffix: suffix.clone(), mode })
    }

    /// Gives what is called `name` in `parent`, at `place`, its second name before another takes the first. Nothing is done
    /// where nothing is there, or a directory.
    ///
    /// # Errors
    /// The errors of link(2) and rename(2): `EXDEV` where the directory for backups is on another file system.
    pub fn keep(&self, place: &RelPath, parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            stat => stat?,
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Ok(());
        }
        let (holder, kept) = self.target(place, parent, name)?;
        match rustix::fs::unlinkat(&holder, &kept, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        match rustix::fs::linkat(parent, name, &holder, &kept, AtFlags::empty()) {
            // A file system without hard links, or a file with as many as it may have.
            Err(Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP) => {
                rustix::fs::renameat(parent, name, &holder, &kept)
            }
            linked => linked,
        }
    }

    /// Takes what goes out of its directory; false for a backup, which isn't kept once more.
    ///
    /// # Errors
    /// As [`Backups::keep`].
    pub fn take(&self, place: &RelPath, parent: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Errno> {
        if self.is_backup(name) {
            return Ok(false);
        }
        let (holder, kept) = self.target(place, parent, name)?;
        rustix::fs::renameat(parent, name, &holder, &kept).map(|()| true)
    }

    /// True where backups stay in the directories of what they were.
    pub fn are_beside(&self) -> bool {
        self.below.is_none()
    }

    fn is_backup(&self, name: &OsStr) -> bool {
        self.are_beside() && name.len() > self.suffix.len() && name.as_bytes().ends_with(&self.suffix)
    }

    fn target<'a>(
        &self,
        place: &RelPath,
        parent: BorrowedFd<'a>,
        name: &OsStr,
    ) -> Result<(BackupHolder<'a>, OsString), Errno> {
        let kept = OsString::from_vec([name.as_bytes(), &self.suffix].concat());
        let Some(below) = &self.below else { return Ok((BackupHolder::Same(parent), kept)) };
        let root = below.held.get_or_init(|| below.open().ok()).as_ref().ok_or(Errno::NOENT)?;
        let above = place.parent().unwrap_or_default();
        Ok((BackupHolder::Other(root.directory_or_make(&above, self.mode)?), kept))
    }
}

impl BackupDirectory {
    fn open(&self) -> Result<Root, TransferError> {
        let at = self.named.destination()?;
        if matches!(at.there, DestinationState::Nothing) {
            make(&at)?;
        }
        self.named.directory()
    }
}
