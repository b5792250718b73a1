//! Makes the temporary names of a transfer.

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Name;
use crate::tree::root::Directory;

/// A function that records that temporary names may remain after this process. If it fails, no temporary name
/// is used.
type Announce<'a> = &'a (dyn Fn() -> Result<(), Errno> + Sync);

/// Makes temporary names that no other transfer makes.
pub struct Names<'a> {
    nonce: [u8; 8],
    next: AtomicU64,
    /// True if the destination's file system doesn't support files without a name.
    pub(super) named_only: AtomicBool,
    /// The access mode with which existing files are opened.
    pub(super) access: OFlags,
    /// Called before the first temporary name exists in a directory.
    announce: Announce<'a>,
    announced: AtomicBool,
}

impl<'a> Names<'a> {
    /// Names that contain the first eight bytes of `nonce`, which identify the transfer. New files are opened for
    /// reading and writing. If `read_back` is set, existing files are also opened for reading.
    pub fn new(nonce: &[u8], read_back: bool) -> Self {
        let mut of_transfer = [0; 8];
        of_transfer.iter_mut().zip(nonce).for_each(|(to, from)| *to = *from);
        let access = if read_back { OFlags::RDWR } else { OFlags::WRONLY };
        let (next, named_only) = (AtomicU64::new(0), AtomicBool::new(false));
        Self {
            nonce: of_transfer,
            next,
            named_only,
            access,
            announce: &|| Ok(()),
            announced: AtomicBool::new(false),
        }
    }

    /// Sets a function that is called before the first of these names exists in a directory. So even if this
    /// process is killed, the next run of the command knows that such names may exist.
    pub fn announced_by(self, announce: Announce<'a>) -> Self {
        Self { announce, ..self }
    }

    /// Creates an empty file in `directory` for reading and writing. The file has no name, or its name is
    /// removed immediately.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn scratch(&self, directory: &Directory) -> Result<OwnedFd, Errno> {
        let (access, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        match rustix::fs::openat(directory, ".", access | OFlags::TMPFILE, mode) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let name = self.given()?.write();
                let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let file = rustix::fs::openat(directory, &name, flags, mode)?;
                rustix::fs::unlinkat(directory, &name, AtFlags::empty())?;
                Ok(file)
            }
            other => other,
        }
    }

    /// A new name for an entry that is about to be created.
    pub(super) fn given(&self) -> Result<Name, Errno> {
        if !self.announced.load(Ordering::Acquire) {
            (self.announce)()?;
            self.announced.store(true, Ordering::Release);
        }
        Ok(self.next())
    }

    pub(super) fn next(&self) -> Name {
        Name::new(self.nonce, self.next.fetch_add(1, Ordering::Relaxed))
    }
}
