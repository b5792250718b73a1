//! The secret by which an account knows the journals that it made itself.
//!
//! The secret lies outside of all trees that are moved, since what lies in them may be a far end's: a journal there is only
//! as good as what signs it.

use linerate_sys::private::{is_private, open_directory, open_or_make_directory, state_directory};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::tree::root::Directory;

/// The file's name in the state directory, and the one that it has until it is whole.
const NAME: &str = "journal.key";
const NEW: &str = "journal.key.new";
/// Directories above one another at most, as far as it is looked.
const MAX_DEPTH: usize = 4096;

/// 32 random bytes that nobody but the account knows.
pub struct Key([u8; 32]);

/// The place of an account's key.
#[derive(Clone)]
pub struct KeyStore {
    /// Absolute; `None` where the account has no such place.
    directory: Option<PathBuf>,
}

/// The places that a transfer writes to: a far end decides what lies there.
pub struct Written<'a> {
    /// The directory that they are in.
    pub top: &'a Directory,
    /// The places below it.
    pub places: &'a [RelPath],
}

/// Device and inode: what is the same by whichever name it was reached.
type Identity = (u64, u64);

impl Key {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A key that a test or the fuzzer knows.
    pub fn known(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl KeyStore {
    /// The place for the key of the account that runs this process: its state directory.
    pub fn of_account() -> Self {
        Self { directory: state_directory() }
    }

    /// A store without a place: the account has no key.
    pub fn none() -> Self {
        Self { directory: None }
    }

    /// The place `directory`.
    #[cfg(test)]
    pub fn of(directory: &Path) -> Self {
        Self { directory: Some(directory.to_owned()) }
    }

    /// The key; `None` where there is none, where others may read or write it, or where `written` may be what put it
    /// there.
    pub fn find(&self, written: Option<&Written<'_>>) -> Option<Key> {
        let directory = open_directory(self.directory.as_ref()?).ok()?;
        // A process that makes one has the other kind of lock. Where locks aren't known, the file is whole all the same.
        let _ = rustix::fs::flock(&directory, FlockOperation::LockShared);
        read(&directory, written).ok()
    }

    /// As [`Self::find`], but a key that is missing is made; `None` also where it can't be made.
    pub fn find_or_make(&self, written: &Written<'_>) -> Option<Key> {
        let path = self.directory.as_ref()?;
        // Looked at before, too, so that nothing is made in a tree that is to be like another.
        if written.may_hold(&above(nearest(path)?).ok()?) {
            return None;
        }
        let directory = open_or_make_directory(path).ok()?;
        let _ = rustix::fs::flock(&directory, FlockOperation::LockExclusive);
        match read(&directory, Some(written)) {
            Err(Errno::NOENT) => write_new(&directory).ok()?,
            found => return found.ok(),
        }
        read(&directory, Some(written)).ok()
    }
}

impl Written<'_> {
    /// True where one of `found` is, or may be, what lies at one of the places.
    fn may_hold(&self, found: &[Identity]) -> bool {
        self.places.iter().any(|place| match self.identity(place) {
            Ok(identity) => found.contains(&identity),
            Err(Errno::NOENT | Errno::NOTDIR) => false,
            Err(_) => true,
        })
    }

    fn identity(&self, place: &RelPath) -> Result<Identity, Errno> {
        if place.is_root() {
            return identity_of(self.top);
        }
        rustix::fs::statat(self.top, place.as_os_str(), AtFlags::SYMLINK_NOFOLLOW).map(|stat| identity(&stat))
    }
}

/// `ENOENT` where there is none, `EPERM` for one that isn't believed.
fn read(directory: &OwnedFd, written: Option<&Written<'_>>) -> Result<Key, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(directory, NAME, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    let is_own = is_private(&stat, FileType::RegularFile) && stat.st_nlink == 1 && stat.st_size == 32;
    if !is_own || written.is_some_and(|written| is_reached(directory, &stat, written)) {
        return Err(Errno::PERM);
    }
    let mut key = [0; 32];
    File::from(file).read_exact(&mut key).map_err(|_| Errno::IO)?;
    Ok(Key(key))
}

/// True where what is `written` may be the key itself, or hold it; and if that can't be known.
fn is_reached(directory: &OwnedFd, key: &Stat, written: &Written<'_>) -> bool {
    let (Ok(mut found), Ok(top)) = (above(directory), identity_of(written.top)) else { return true };
    let lands_beside = found.first() == Some(&top);
    found.push(identity(key));
    lands_beside || written.may_hold(&found)
}

/// The directory and all that hold it, up to the root.
fn above(directory: impl AsFd) -> Result<Vec<Identity>, Errno> {
    let step = |from: &dyn AsFd, to: &str| {
        rustix::fs::openat(
            from.as_fd(),
            to,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
    };
    let root = identity_of(step(&rustix::fs::CWD, "/")?)?;
    let (mut found, mut at) = (Vec::new(), step(&directory, ".")?);
    while found.len() < MAX_DEPTH {
        found.push(identity_of(&at)?);
        if found.last() == Some(&root) {
            return Ok(found);
        }
        at = step(&at, "..")?;
    }
    Err(Errno::LOOP)
}

/// The nearest directory above `path` that exists.
fn nearest(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    path.ancestors().find_map(|path| rustix::fs::open(path, flags, Mode::empty()).ok())
}

/// Writes a new one. The directory is locked, so that nobody else does; nobody ever reads half of it.
fn write_new(directory: &OwnedFd) -> Result<(), Errno> {
    let mut key = [0; 32];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| Errno::IO)?;
    // The leftovers of a run that was killed here.
    let _ = rustix::fs::unlinkat(directory, NEW, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(directory, NEW, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(&key).and_then(|()| file.sync_all()).map_err(|_| Errno::IO)?;
    rustix::fs::renameat(directory, NEW, directory, NAME)?;
    rustix::fs::fsync(directory)
}

fn identity_of(file: impl AsFd) -> Result<Identity, Errno> {
    rustix::fs::fstat(file).map(|stat| identity(&stat))
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}
