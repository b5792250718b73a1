//! The bounds within which users' paths may lead. All such paths are resolved here: code that needs a source,
//! a destination or a directory calls a method of [`Named`], which returns an open descriptor.

mod destination;
#[cfg(test)]
pub(crate) mod tests;
mod trusted;
mod walk;

use linerate_wire::path::printable;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::problem::{BY_WHOM, TransferError};
use crate::tree::pattern::{expand_home, name_of, name_of_home};
use crate::tree::root::Root;
pub(crate) use destination::{Destination, DestinationState, refused};
pub use trusted::{append_trusted, open_trusted};
pub use walk::trust_all_links;
use walk::{Follow, PathWalk};
pub(crate) use walk::{Held, Stop};

/// The bounds of paths: the directories to which paths may lead.
#[derive(Clone, Debug)]
pub struct Bounds(Extent);

#[derive(Clone, Debug)]
enum Extent {
    Here,
    Anywhere,
    Below(Arc<OwnedFd>),
}

impl Bounds {
    /// No bounds, for the client's end. A shell has already expanded the paths, so they are taken literally.
    pub fn here() -> Self {
        Self(Extent::Here)
    }

    /// No bounds, for the far end. No shell has expanded the paths, so `~` and patterns are expanded here.
    pub fn anywhere() -> Self {
        Self(Extent::Anywhere)
    }

    /// The bounds at a far end that is restricted to `directory`: the paths `/a`, `~/a` and `a` all mean `a`
    /// below that directory, and links that lead out of it aren't followed. The directory is opened now and
    /// kept open; links in its own path are followed.
    ///
    /// # Errors
    /// If the directory can't be opened.
    pub fn below(directory: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(directory, flags, Mode::empty())?;
        Ok(Self(Extent::Below(Arc::new(top))))
    }

    /// True at the far end, where no shell has expanded the paths.
    pub fn is_far(&self) -> bool {
        !matches!(self.0, Extent::Here)
    }

    /// The path that `written` means within the bounds.
    ///
    /// # Errors
    /// If the path contains `..` and that isn't allowed.
    pub fn name(&self, written: &[u8]) -> Result<Named, TransferError> {
        let path = match self.0 {
            Extent::Here => written.to_vec(),
            Extent::Anywhere => expand_home(written),
            Extent::Below(_) => below(written)?,
        };
        Ok(Named { bounds: self.clone(), written: written.to_vec(), path, far: self.is_far() })
    }

    /// Opens the file at `path`, which is absolute and may contain links; `None` if no regular file exists
    /// there.
    ///
    /// # Errors
    /// If the file can't be opened, or a link leads out of the bounds.
    pub(crate) fn open_file(&self, path: &[u8]) -> io::Result<Option<File>> {
        if !matches!(self.0, Extent::Below(_)) {
            let path = Path::new(OsStr::from_bytes(path));
            let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
            return if is_file { File::open(path).map(Some) } else { Ok(None) };
        }
        let mut walk = PathWalk::begin(self, path, Follow::All)?;
        match walk.along(path) {
            Ok(Some(name)) => Ok(walk.open_file(&name)?),
            Ok(None) | Err(Stop::System(Errno::NOENT | Errno::NOTDIR)) => Ok(None),
            Err(stop) => Err(stop.into()),
        }
    }
}

/// The path `written`, relative to the one directory that may be reached.
fn below(written: &[u8]) -> Result<Vec<u8>, TransferError> {
    let path = match written {
        b"~" => b"",
        [b'~', b'/', rest @ ..] => rest,
        all => all,
    };
    if path.split(|&byte| byte == b'/').any(|part| part == b"..") {
        return Err(TransferError::Arguments(format!(
            "'{}' goes up by '..', which isn't allowed: {BY_WHOM}",
            printable(written)
        )));
    }
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    Ok(if start == path.len() && !written.is_empty() { b".".to_vec() } else { path[start..].to_vec() })
}

/// A path as it was written, and its meaning within the bounds.
#[derive(Clone, Debug)]
pub struct Named {
    bounds: Bounds,
    /// The path as the user wrote it, or as it was found by a pattern.
    pub written: Vec<u8>,
    /// The path's meaning within the bounds.
    path: Vec<u8>,
    /// True if `~` in `written` means the login directory.
    far: bool,
}

impl Named {
    /// The name that the path's entry gets below a destination directory; empty for the login directory.
    pub fn own_name(&self) -> Vec<u8> {
        let is_home = self.far && self.path != self.written;
        match name_of_home(&self.written).filter(|_| is_home) {
            Some(user) => user.to_vec(),
            None => name_of(&self.written, self.far),
        }
    }

    /// Another path within the same bounds, which was found by a pattern.
    pub(crate) fn matched(&self, path: Vec<u8>) -> Self {
        Self { bounds: self.bounds.clone(), written: path.clone(), path, far: false }
    }

    /// Another path within the same bounds. `written` is relative to this path unless it is absolute.
    ///
    /// # Errors
    /// If `written` contains `..` and that isn't allowed.
    pub fn beside(&self, written: &[u8]) -> Result<Self, TransferError> {
        if written.starts_with(b"/") {
            return self.bounds.name(written);
        }
        let (mut above, mut below) = (&self.written[..], written);
        // A directory that doesn't exist yet has no entry `..`, but its parent is known from its path.
        while let (Some((parent, _)), Some(rest)) = (split(above), below.strip_prefix(b"../"))
            && !self.exists(above)
        {
            (above, below) = (parent, rest);
        }
        let slash: &[u8] = if above.is_empty() || above.ends_with(b"/") { b"" } else { b"/" };
        self.bounds.name(&[above, slash, below].concat())
    }

    /// The path within the bounds, which may be a pattern.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// True if an entry exists at `path` within the same bounds. If the last component is a link, it isn't
    /// followed.
    pub(crate) fn exists(&self, path: &[u8]) -> bool {
        let Some((parent, name)) = split(path) else { return self.is_directory(path) };
        self.walk_to(parent).is_ok_and(|walk| walk.stat(name).is_ok())
    }

    /// True if a symbolic link exists at `path` within the same bounds.
    pub(crate) fn is_link(&self, path: &[u8]) -> bool {
        let Some((parent, name)) = split(path) else { return false };
        let stat = self.walk_to(parent).and_then(|walk| Ok(walk.stat(name)?));
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    /// True if a directory exists at `path` within the same bounds.
    pub(crate) fn is_directory(&self, path: &[u8]) -> bool {
        self.walk_to(path).is_ok()
    }

    /// The names in the directory at `path` within the same bounds; empty if it can't be listed.
    pub(crate) fn list(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let listed = self.walk_to(path).and_then(|walk| Ok(Dir::new(walk.readable()?)?));
        let names = listed.into_iter().flatten().flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        names.filter(|name| name != b"." && name != b"..").collect()
    }

    /// The source at the path, for reading: the directory itself, or the directory that holds the file and the file's
    /// name in it. All links in the path are followed.
    ///
    /// # Errors
    /// If no entry exists at the path, or the entry can't or may not be reached.
    pub(crate) fn find(&self) -> Result<(Held, Option<OsString>), Stop> {
        if self.path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        let mut walk = PathWalk::begin(&self.bounds, &self.path, Follow::All)?;
        let file = walk.along(&self.path)?;
        Ok((walk.held(), file))
    }

    /// The link at the path: the directory that holds the link, and the link's name; `None` if the path's last
    /// component isn't a link.
    pub(crate) fn find_link(&self) -> Option<(Held, OsString)> {
        let (parent, name) = split(&self.path).filter(|_| self.ends_in_name())?;
        let walk = self.walk_to(parent).ok()?;
        let stat = walk.stat(name).ok()?;
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        is_link.then(|| (walk.held(), name.to_owned()))
    }

    /// True if no entry exists at the path.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.find(), Err(Stop::System(Errno::NOENT))) && self.find_link().is_none()
    }

    /// True if the path ends in a name, or in a pattern, that no entry has in an existing directory.
    pub(crate) fn lacks_only_name(&self) -> bool {
        let Some((parent, name)) = split(&self.path).filter(|_| self.ends_in_name()) else { return false };
        self.walk_to(parent).is_ok_and(|walk| matches!(walk.stat(name), Err(Errno::NOENT)))
    }

    fn ends_in_name(&self) -> bool {
        !self.path.ends_with(b"/") && !self.path.ends_with(b"/.")
    }

    /// Creates the missing parent directories of the last component, and returns their number.
    ///
    /// # Errors
    /// If a directory can't be created, or an existing entry isn't a directory.
    pub(crate) fn make_above(&self, mode: Mode) -> Result<u64, TransferError> {
        let mut made = 0;
        let end = self.path.iter().rposition(|byte| *byte != b'/').unwrap_or(0);
        let slashes = (1..end).filter(|at| self.path[*at] == b'/' && self.path[at - 1] != b'/');
        for at in slashes {
            let above = Self { path: self.path[..at].to_vec(), ..self.clone() };
            let found = above.destination()?;
            if matches!(found.there, DestinationState::Nothing) {
                found.make(mode)?;
                made += 1;
            }
        }
        Ok(made)
    }

    /// The path of the last existing directory above this path, and the rest of this path below that
    /// directory.
    pub(crate) fn above(&self) -> (Self, Vec<u8>) {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        let slashes = (1..path.len()).rev().filter(|at| path[*at] == b'/');
        let there =
            slashes.map(|at| (&path[..at], &path[at + 1..])).find(|(above, _)| self.is_directory(above));
        let root: &[u8] = if path.starts_with(b"/") { b"/" } else { b"." };
        let (above, below) = there.unwrap_or((root, path.strip_prefix(b"/").unwrap_or(path)));
        (Self { path: above.to_vec(), ..self.clone() }, below.to_vec())
    }

    /// Opens the existing directory at the path, whose contents will be changed.
    ///
    /// # Errors
    /// If the directory doesn't exist, or another user's link leads to it.
    pub fn directory(&self) -> Result<Root, TransferError> {
        let opened = match self.destination()?.there {
            DestinationState::Directory { held, .. } => Root::at(held, &self.shown()),
            DestinationState::Nothing => Err(Errno::NOENT),
            _ => Err(Errno::NOTDIR),
        };
        opened.map_err(|error| {
            let shown = printable(self.shown().as_os_str().as_bytes());
            TransferError::Arguments(format!("{shown} can't be opened: {error}"))
        })
    }

    /// The path as it is printed in messages.
    pub(crate) fn shown(&self) -> PathBuf {
        let path = if self.path.is_empty() { b"." } else { &self.path[..] };
        OsString::from_vec(path.to_vec()).into()
    }

    fn walk_to(&self, directory: &[u8]) -> Result<PathWalk, Stop> {
        let mut walk = PathWalk::begin(&self.bounds, directory, Follow::All)?;
        match walk.along(directory)? {
            None => Ok(walk),
            Some(_) => Err(Errno::NOTDIR.into()),
        }
    }
}

/// Splits a path into its parent directory and its last component. `None` if it has no last component, such
/// as `/`, `.` or `a/..`. Slashes at the end are ignored.
fn split(path: &[u8]) -> Option<(&[u8], &OsStr)> {
    let mut path = path;
    while let Some(rest) = path.strip_suffix(b"/").or_else(|| path.strip_suffix(b"/.")) {
        path = rest;
    }
    let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    match &path[start..] {
        b"" | b"." | b".." => None,
        name => Some((&path[..start], OsStr::from_bytes(name))),
    }
}
