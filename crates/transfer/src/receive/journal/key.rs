//! The secret by which an account recognizes the journals that it has written itself.
//!
//! The secret is stored outside all trees that are copied, because a far end may decide what these trees contain. A
//! journal in such a tree is trusted only if its records were signed with this secret.

use linerate_sys::private::{open_directory, open_file, open_or_make_directory, state_directory, write_file};
use linerate_wire::control::{JournalKey, Options};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::tree::identity::{Identity, identity, identity_of};
use crate::tree::root::Directory;

/// The file's name in the state directory.
const NAME: &str = "journal.key";
/// The most parent directories that are examined.
const MAX_DEPTH: usize = 4096;

/// 32 random bytes that only the account knows.
pub struct Key([u8; 32]);

/// The source of the journal key.
#[derive(Clone)]
pub enum KeyStore {
    /// The client has sent the key.
    Sent(JournalKey),
    /// The account keeps the key in this directory. The path is absolute.
    Directory(PathBuf),
    /// No key is available.
    Nowhere,
}

/// The places that a transfer writes to. The far end decides what these places contain.
pub struct Written<'a> {
    /// The directory that contains the places.
    pub top: &'a Directory,
    /// The places below `top`.
    pub places: &'a [RelPath],
}

impl Key {
    /// The key's bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A key with known bytes, for tests and the fuzzer.
    pub fn known(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl KeyStore {
    /// The key store of the account that runs this process: the account's state directory.
    pub fn of_account() -> Self {
        state_directory().map_or(Self::Nowhere, Self::Directory)
    }

    /// The key store for a transfer with `options`: the key that the client has sent, else the account's
    /// state directory.
    pub fn of_transfer(options: &Options) -> Self {
        options.details.journal_key.map_or_else(Self::of_account, Self::Sent)
    }

    /// The key; `None` if there is no key, if other users may read or write the key, or if the key may be in one of the
    /// places in `written`.
    pub fn find(&self, written: Option<&Written<'_>>) -> Option<Key> {
        let directory = match self {
            Self::Sent(key) => return Some(Key(key.0)),
            Self::Directory(path) => open_directory(path).ok()?,
            Self::Nowhere => return None,
        };
        // A process that creates a key holds an exclusive lock. If the file system has no locks, the key file is
        // complete nevertheless, because a rename gives it its name.
        let _ = rustix::fs::flock(&directory, FlockOperation::LockShared);
        read(&directory, written).ok()
    }

    /// The key as [`Self::find`] returns it, but a missing key is created; `None` if that fails.
    pub fn find_or_make(&self, written: &Written<'_>) -> Option<Key> {
        let Self::Directory(path) = self else { return self.find(Some(written)) };
        // The places are checked before a key is created too, so that no file is added to a tree that must equal
        // another tree.
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
    /// True if one of `found` is at one of the places, or if that can't be excluded.
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

/// Reads the key; `ENOENT` if there is no key, `EPERM` if the key isn't trusted.
fn read(directory: &OwnedFd, written: Option<&Written<'_>>) -> Result<Key, Errno> {
    let (mut file, stat) = open_file(directory, NAME, OFlags::RDONLY)?;
    if stat.st_size != 32 || written.is_some_and(|written| is_reached(directory, &stat, written)) {
        return Err(Errno::PERM);
    }
    let mut key = [0; 32];
    file.read_exact(&mut key).map_err(|_| Errno::IO)?;
    Ok(Key(key))
}

/// True if one of the places in `written` may contain the key file or may be the key file itself, or if that can't be
/// determined.
fn is_reached(directory: &OwnedFd, key: &Stat, written: &Written<'_>) -> bool {
    let (Ok(mut found), Ok(top)) = (above(directory), identity_of(written.top)) else { return true };
    let lands_beside = found.first() == Some(&top);
    found.push(identity(key));
    lands_beside || written.may_hold(&found)
}

/// The identities of the directory and of all its parents up to the root.
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

/// The nearest existing directory at or above `path`.
fn nearest(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    path.ancestors().find_map(|path| rustix::fs::open(path, flags, Mode::empty()).ok())
}

/// Writes a new key. The caller has locked the directory, so that no other process writes a key at the same
/// time.
fn write_new(directory: &OwnedFd) -> Result<(), Errno> {
    let mut key = [0; 32];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| Errno::IO)?;
    write_file(directory, NAME, &key)
}
