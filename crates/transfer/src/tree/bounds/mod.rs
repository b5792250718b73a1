//! Bounds of the paths that users write. Nothing else resolves such a path: whoever wants a source, a
//! destination or a directory asks the [`Named`] path for it, and gets a held descriptor.

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
use crate::tree::pattern::{expand_home, name_of};
use crate::tree::root::Root;
pub(crate) use destination::{Destination, DestinationState, refused};
pub use trusted::open_trusted;
pub use walk::trust_all_links;
use walk::{Follow, PathWalk};
pub(crate) use walk::{Held, Stop};

/// The directories that paths may lead to.
#[derive(Clone, Debug)]
pub struct Bounds(Extent);

#[derive(Clone, Debug)]
enum Extent {
    Here,
    Anywhere,
    Below(Arc<OwnedFd>),
}

impl Bounds {
    /// The client's end, where a shell has seen the paths: they mean themselves.
    pub fn here() -> Self {
        Self(Extent::Here)
    }

    /// The far end, where no shell has seen the paths: `~` and patterns are expanded.
    pub fn anywhere() -> Self {
        Self(Extent::Anywhere)
    }

    /// The far end, where `directory` is all that there is: `/a`, `~/a` and `a` are all `a` below it, and no link leads
    /// out. The directory is held from now on; links in its own name are followed.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn below(directory: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(directory, flags, Mode::empty())?;
        Ok(Self(Extent::Below(Arc::new(top))))
    }

    /// True where no shell has seen the paths.
    pub fn is_far(&self) -> bool {
        !matches!(self.0, Extent::Here)
    }

    /// The path that `written` means.
    ///
    /// # Errors
    /// If it goes up, and may not.
    pub fn name(&self, written: &[u8]) -> Result<Named, TransferError> {
        let path = match self.0 {
            Extent::Here => written.to_vec(),
            Extent::Anywhere => expand_home(written),
            Extent::Below(_) => below(written)?,
        };
        Ok(Named { bounds: self.clone(), written: written.to_vec(), path, far: self.is_far() })
    }

    /// The file at `path`, which is absolute and may lead through links; `None` where no regular file is there.
    ///
    /// # Errors
    /// If it can't be opened, or a link leads out.
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

/// A path below the one directory that may be reached.
fn below(written: &[u8]) -> Result<Vec<u8>, TransferError> {
    let path = match written {
        b"~" => b"",
        [b'~', b'/', rest @ ..] => rest,
        all => all,
    };
    if path.split(|&byte| byte == b'/').any(|part| part == b"..") {
        return Err(TransferError::Arguments(format!(
            "'{}' goes up by '..', which is refused here: {BY_WHOM}",
            printable(written)
        )));
    }
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    Ok(if start == path.len() && !written.is_empty() { b".".to_vec() } else { path[start..].to_vec() })
}

/// A path as it was written, and where that leads.
#[derive(Clone, Debug)]
pub struct Named {
    bounds: Bounds,
    /// The path as the user wrote it, or as a pattern found it.
    pub written: Vec<u8>,
    /// The path's meaning within the bounds.
    path: Vec<u8>,
    /// `~` means the login directory in `written`.
    far: bool,
}

impl Named {
    /// The name that it gets below a destination directory; none for the login directory.
    pub fn own_name(&self) -> Vec<u8> {
        name_of(&self.written, self.far)
    }

    /// Another path within the same bounds, which a pattern found.
    pub(crate) fn matched(&self, path: Vec<u8>) -> Self {
        Self { bounds: self.bounds.clone(), written: path.clone(), path, far: false }
    }

    /// Another path within the same bounds, relative to this one unless it is absolute.
    ///
    /// # Errors
    /// If it goes up, and may not.
    pub fn beside(&self, written: &[u8]) -> Result<Self, TransferError> {
        if written.starts_with(b"/") {
            return self.bounds.name(written);
        }
        let (mut above, mut below) = (&self.written[..], written);
        // A directory that isn't there yet has no way up, but a name that leads nowhere else.
        while let (Some((parent, _)), Some(rest)) = (split(above), below.strip_prefix(b"../"))
            && !self.exists(above)
        {
            (above, below) = (parent, rest);
        }
        let slash: &[u8] = if above.is_empty() || above.ends_with(b"/") { b"" } else { b"/" };
        self.bounds.name(&[above, slash, below].concat())
    }

    /// The pattern.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// True where something is at `path` within the same bounds, a link at its end not followed.
    pub(crate) fn exists(&self, path: &[u8]) -> bool {
        let Some((parent, name)) = split(path) else { return self.is_directory(path) };
        self.walk_to(parent).is_ok_and(|walk| walk.stat(name).is_ok())
    }

    /// True where a symbolic link is at `path` within the same bounds.
    pub(crate) fn is_link(&self, path: &[u8]) -> bool {
        let Some((parent, name)) = split(path) else { return false };
        let stat = self.walk_to(parent).and_then(|walk| Ok(walk.stat(name)?));
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    /// True where a directory is at `path` within the same bounds.
    pub(crate) fn is_directory(&self, path: &[u8]) -> bool {
        self.walk_to(path).is_ok()
    }

    /// The names in the directory at `path` within the same bounds; none where it can't be listed.
    pub(crate) fn list(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let listed = self.walk_to(path).and_then(|walk| Ok(Dir::new(walk.readable()?)?));
        let names = listed.into_iter().flatten().flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        names.filter(|name| name != b"." && name != b"..").collect()
    }

    /// The source at the path, for reading: the directory itself, or the one that holds the file, and the file's
    /// name in it. The user's links are followed.
    ///
    /// # Errors
    /// If nothing is there that may be reached.
    pub(crate) fn find(&self) -> Result<(Held, Option<OsString>), Stop> {
        if self.path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        let mut walk = PathWalk::begin(&self.bounds, &self.path, Follow::All)?;
        let file = walk.along(&self.path)?;
        Ok((walk.held(), file))
    }

    /// The link that is at the path, by the directory that holds it and its name; `None` where the path doesn't end in the name of
    /// one.
    pub(crate) fn find_link(&self) -> Option<(Held, OsString)> {
        let ends_in_name = !self.path.ends_with(b"/") && !self.path.ends_with(b"/.");
        let (parent, name) = split(&self.path).filter(|_| ends_in_name)?;
        let walk = self.walk_to(parent).ok()?;
        let stat = walk.stat(name).ok()?;
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        is_link.then(|| (walk.held(), name.to_owned()))
    }

    /// True where nothing has that name.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.find(), Err(Stop::System(Errno::NOENT))) && self.find_link().is_none()
    }

    /// Makes the directories above the last name that aren't there, and says how many.
    ///
    /// # Errors
    /// If one can't be made, or what is there is none.
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

    /// The last directory above the path that is there, and the path below it.
    pub(crate) fn above(&self) -> (Self, Vec<u8>) {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        let slashes = (1..path.len()).rev().filter(|at| path[*at] == b'/');
        let there =
            slashes.map(|at| (&path[..at], &path[at + 1..])).find(|(above, _)| self.is_directory(above));
        let root: &[u8] = if path.starts_with(b"/") { b"/" } else { b"." };
        let (above, below) = there.unwrap_or((root, path.strip_prefix(b"/").unwrap_or(path)));
        (Self { path: above.to_vec(), ..self.clone() }, below.to_vec())
    }

    /// The directory that is there, to change what is in it.
    ///
    /// # Errors
    /// If there is none, or a stranger's link leads to it.
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

    /// The path for messages.
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

/// The path of the directory that holds the last name, and that name: `None` where the path has none of its own, as `/`,
/// `.` and `a/..`. Slashes at the end don't count.
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
