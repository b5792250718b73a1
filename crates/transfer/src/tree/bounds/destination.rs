//! The state of a path that will be written to: which entry exists there.

use linerate_wire::path::printable;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::walk::{Follow, Held, PathWalk, Stop};
use super::{Named, split};
use crate::base::problem::TransferError;
use crate::tree::root::Root;

/// A path that will be written to. The directory that holds it is kept open.
pub(crate) struct Destination {
    /// The kind of entry that exists at the path.
    pub there: DestinationState,
    /// The path as the user wrote it.
    pub shown: PathBuf,
    /// The directory that holds the last component, and that component; `None` for `/`, `.` and the like.
    place: Option<(Held, OsString)>,
}

/// The state of a destination.
pub(crate) enum DestinationState {
    Nothing,
    /// A directory exists. `by_link` is true if the path's last component is a link to the directory.
    Directory {
        held: Held,
        by_link: bool,
    },
    File,
    /// A link exists that doesn't lead to a directory.
    Link,
    /// A device, a fifo or a socket exists.
    Special,
}

impl Named {
    /// Looks up the destination at the path, for writing. Links that other users can change aren't followed.
    ///
    /// # Errors
    /// If the destination's parent directory can't be reached, or if another user's link at the path leads to a
    /// directory.
    pub(crate) fn destination(&self) -> Result<Destination, TransferError> {
        self.look().map_err(|(path, stop)| {
            let destination = printable(self.shown().as_os_str().as_bytes());
            let about = match printable(path.as_os_str().as_bytes()) {
                path if path == destination => String::new(),
                path if path.is_empty() => ".: ".into(),
                path => format!("{path}: "),
            };
            TransferError::Arguments(format!("the destination {destination} can't be reached: {about}{stop}"))
        })
    }

    /// The reason why the path isn't followed, if it contains another user's link; otherwise `None`.
    pub(crate) fn strangers_link(&self) -> Option<String> {
        match self.look() {
            Err((_, stop @ Stop::Strange { .. })) => Some(stop.to_string()),
            _ => None,
        }
    }

    /// The state of the destination. An error is returned together with the path that it concerns.
    fn look(&self) -> Result<Destination, (PathBuf, Stop)> {
        let shown = self.shown();
        let path = shown.as_os_str().as_bytes();
        let about = |stop| (shown.clone(), stop);
        let mut walk = PathWalk::begin(&self.bounds, path, Follow::Trusted).map_err(about)?;
        let Some((parent, name)) = split(path) else {
            walk.along(path).map_err(about)?;
            let there = DestinationState::Directory { held: walk.held(), by_link: false };
            return Ok(Destination { there, shown, place: None });
        };
        let parent_alone = |stop| (Path::new(OsStr::from_bytes(parent)).to_owned(), stop);
        match walk.along(parent) {
            Ok(None) => {}
            Ok(Some(_)) => return Err(parent_alone(Errno::NOTDIR.into())),
            Err(stop) => return Err(parent_alone(stop)),
        }
        let holder = walk.copy().map_err(about)?;
        let there = what_is(walk, name).map_err(about)?;
        let name = name.to_owned();
        Ok(Destination { there, shown, place: Some((holder, name)) })
    }
}

/// The state of the entry `name` in the directory that the walk has reached.
fn what_is(mut walk: PathWalk, name: &OsStr) -> Result<DestinationState, Stop> {
    let stat = match walk.stat(name) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(DestinationState::Nothing),
        Err(error) => return Err(error.into()),
    };
    let by_link = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => false,
        FileType::Symlink => true,
        FileType::RegularFile => return Ok(DestinationState::File),
        _ => return Ok(DestinationState::Special),
    };
    let from = walk.copy()?;
    match walk.along(name.as_bytes()) {
        Ok(None) => Ok(DestinationState::Directory { held: walk.held(), by_link }),
        Ok(Some(_)) | Err(Stop::System(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) if by_link => {
            Ok(DestinationState::Link)
        }
        // A file that is copied to the path replaces the link itself; the link's target isn't touched.
        Err(Stop::Strange { .. }) if !leads_to_directory(&from, name) => Ok(DestinationState::Link),
        Ok(Some(_)) => Err(Errno::NOTDIR.into()),
        Err(stop) => Err(stop),
    }
}

fn leads_to_directory(from: &Held, name: &OsStr) -> bool {
    let stat = rustix::fs::statat(&from.fd, name, AtFlags::empty());
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

impl Destination {
    /// The directory that holds the last component, and that component.
    ///
    /// # Errors
    /// If the path has no last component, or the directory can't be opened.
    pub fn into_place(self) -> Result<(Root, OsString), TransferError> {
        let Self { shown, place, .. } = self;
        let Some((holder, name)) = place else {
            let shown = printable(shown.as_os_str().as_bytes());
            return Err(TransferError::Arguments(format!("the destination {shown} has no name of its own")));
        };
        let parent = shown.parent().unwrap_or(Path::new(""));
        let root = Root::at(holder, parent).map_err(|error| refused("opened", parent, error))?;
        Ok((root, name))
    }

    /// Creates the missing destination directory.
    ///
    /// # Errors
    /// If the directory can't be created, or another entry has got its name meanwhile.
    pub fn make(&self, mode: Mode) -> Result<Held, TransferError> {
        let (holder, name) = self.place.as_ref().ok_or_else(|| refused("made", &self.shown, Errno::EXIST))?;
        let made = rustix::fs::mkdirat(&holder.fd, name, mode).and_then(|()| holder.open_directory(name));
        made.map_err(|error| refused("made", &self.shown, error))
    }
}

/// The error that a destination directory can't be used.
pub(crate) fn refused(what: &str, path: &Path, error: Errno) -> TransferError {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let shown = printable(path.as_os_str().as_bytes());
    TransferError::Arguments(format!("the destination directory can't be {what}: {shown}: {error}"))
}
