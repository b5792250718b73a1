//! Where sources land: scp's rules for the destination, and one more for a slash at its end.

use linerate_wire::control::Source;
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::problem::TransferError;
use crate::root::Root;

/// The destination, held open, and where each source begins below it.
pub struct Landing {
    /// The directory that everything lands below.
    pub root: Root,
    /// For each source the path that its own entry gets, and whether it was announced as a directory.
    pub places: Vec<(RelPath, bool)>,
}

impl Landing {
    /// Decides where `sources` land for a destination as the user wrote it.
    ///
    /// - An existing directory takes every source under its own name.
    /// - A name that ends in a slash is a directory too, and is made where it is missing.
    /// - Else a single source gets the destination's name; its parent must exist.
    ///
    /// # Errors
    /// Where the destination can't take the sources.
    pub fn find(written: &[u8], sources: &[Source]) -> Result<Self, TransferError> {
        let written = if written.is_empty() { b"." } else { written };
        let path = PathBuf::from(OsString::from_vec(written.to_vec()));
        if path.is_dir() {
            return Self::into_directory(&path, sources);
        }
        if path.as_os_str().as_bytes().ends_with(b"/") {
            make(&path)?;
            return Self::into_directory(&path, sources);
        }
        Self::under_new_name(&path, sources)
    }

    /// The one source becomes what is at `written`: a directory's contents lie in it. It is made where it is missing;
    /// its parent must exist.
    ///
    /// # Errors
    /// Where the destination can't take the source.
    pub fn mirror(written: &[u8], sources: &[Source]) -> Result<Self, TransferError> {
        let [source] = sources else {
            let message = "a tree is kept like one other: name one source, not a pattern for several";
            return Err(TransferError::Arguments(message.into()));
        };
        let written = if written.is_empty() { b"." } else { written };
        let path = PathBuf::from(OsString::from_vec(written.to_vec()));
        if !source.directory && path.is_dir() {
            return Err(TransferError::Arguments(format!(
                "the destination {} is a directory and the source a file: name the file's place in it",
                path.display()
            )));
        }
        if path.is_dir() {
            return Ok(Self { root: open(&path)?, places: vec![(RelPath::root(), true)] });
        }
        Self::under_new_name(&path.components().collect::<PathBuf>(), sources)
    }

    /// As it was when a directory that is there now was not yet: the one source gets its name. `None` where that can't
    /// have been.
    pub fn as_new(written: &[u8], sources: &[Source]) -> Option<Self> {
        let path = PathBuf::from(OsString::from_vec(written.to_vec()));
        let ([source], true) = (sources, path.is_dir() && !written.ends_with(b"/")) else { return None };
        let place = RelPath::new(path.file_name()?.as_bytes()).ok().filter(|_| source.directory)?;
        Some(Self { root: open(path.parent()?).ok()?, places: vec![(place, true)] })
    }

    /// True where a directory gets a new name, which a second run would find taken.
    pub fn is_new(&self) -> bool {
        matches!(&self.places[..], [(place, true)] if !place.is_root())
    }

    /// The path of an entry below [`Landing::root`]; `None` for an entry of a source that was not announced, or
    /// not as a directory.
    pub fn place(&self, entry: &Entry) -> Option<RelPath> {
        let (place, directory) = self.places.get(entry.source as usize)?;
        let path = &entry.path;
        if !directory && (!path.is_root() || entry.kind == Kind::Directory) {
            return None;
        }
        if path.is_root() {
            return Some(place.clone());
        }
        if place.is_root() {
            return Some(path.clone());
        }
        RelPath::new([place.as_bytes(), b"/", path.as_bytes()].concat()).ok()
    }

    /// Where each source begins below [`Landing::root`].
    pub fn places(&self) -> Vec<RelPath> {
        self.places.iter().map(|(place, _)| place.clone()).collect()
    }

    fn into_directory(path: &Path, sources: &[Source]) -> Result<Self, TransferError> {
        let root = open(path)?;
        let mut places: Vec<RelPath> = sources.iter().map(|source| source.name.clone()).collect();
        places.sort();
        if let Some(twice) = places.windows(2).find(|pair| pair[0] == pair[1] && !pair[0].is_root()) {
            return Err(TransferError::Arguments(format!(
                "two sources are both named {:?} and would land on each other in {}: copy them one by one",
                twice[0],
                path.display()
            )));
        }
        Ok(Self {
            root,
            places: sources.iter().map(|source| (source.name.clone(), source.directory)).collect(),
        })
    }

    fn under_new_name(path: &Path, sources: &[Source]) -> Result<Self, TransferError> {
        let [source] = sources else {
            let (why, what) = match path.exists() {
                true => ("is a file", "name another"),
                false => ("doesn't exist", "end it in '/' to have it made"),
            };
            return Err(TransferError::Arguments(format!(
                "the destination {} {why}, and {} sources need a directory: {what}",
                path.display(),
                sources.len()
            )));
        };
        if source.directory && path.symlink_metadata().is_ok() {
            return Err(TransferError::Arguments(format!(
                "the destination {} is a file, a directory can't be copied onto it",
                path.display()
            )));
        }
        let path = &behind_link(path)?;
        let parent = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        let name = path.file_name().map_or(&b""[..], OsStr::as_bytes);
        let place = RelPath::new(name).map_err(|error| {
            TransferError::Arguments(format!("the destination {}: {error}", path.display()))
        })?;
        Ok(Self { root: open(&parent)?, places: vec![(place, source.directory)] })
    }
}

const SPECIAL: &str = "is a device, a pipe or a socket";

/// Where a file goes that is to be at `path`. A link in the user's own name is followed; what is there and is no file
/// stays, since it would be replaced.
fn behind_link(path: &Path) -> Result<PathBuf, TransferError> {
    let refused = |why: &str| {
        Err(TransferError::Arguments(format!(
            "the destination {} {why}: name a file or a directory",
            path.display()
        )))
    };
    let Ok(found) = path.symlink_metadata() else { return Ok(path.to_owned()) };
    if !found.is_symlink() {
        return if found.is_file() { Ok(path.to_owned()) } else { refused(SPECIAL) };
    }
    match path.canonicalize() {
        Ok(real) if real.is_file() => Ok(real),
        Ok(_) => refused(SPECIAL),
        Err(_) => refused("is a symbolic link that leads nowhere"),
    }
}

fn make(path: &Path) -> Result<(), TransferError> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o777 & !umask().as_raw_mode())) {
        Ok(()) => Ok(()),
        Err(error) => Err(refused("the destination directory can't be made", path, error)),
    }
}

fn open(path: &Path) -> Result<Root, TransferError> {
    Root::open(path).map_err(|error| refused("the destination directory can't be opened", path, error))
}

fn refused(what: &str, path: &Path, error: Errno) -> TransferError {
    let shown = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    TransferError::Arguments(format!("{what}: {}: {error}", shown.display()))
}

/// The process's mask for new files, read without leaving it changed.
pub fn umask() -> Mode {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::entry::Timestamp;
    use std::fs;

    fn source(name: &str, directory: bool) -> Source {
        Source { argument: 0, name: RelPath::new(name.as_bytes()).unwrap(), directory }
    }

    fn find(directory: &Path, written: &str, sources: &[Source]) -> Result<Landing, TransferError> {
        let written = format!("{}/{written}", directory.display());
        Landing::find(written.as_bytes(), sources)
    }

    fn entry(source: u32, path: &str) -> Entry {
        let (path, time) = (RelPath::new(path.as_bytes()).unwrap(), Timestamp::default());
        Entry {
            source,
            path,
            kind: Kind::File { size: 0 },
            mode: 0o644,
            mtime: time,
            atime: time,
            extra: None,
        }
    }

    fn place(landing: &Landing, path: &str) -> PathBuf {
        landing.root.shown(&landing.place(&entry(0, path)).unwrap())
    }

    #[test]
    fn an_existing_directory_takes_sources_by_name() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "", &[source("tree", true)]).unwrap();
        assert!(place(&landing, "x/y").ends_with("tree/x/y"));
    }

    #[test]
    fn a_missing_name_becomes_the_source() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "new", &[source("tree", true)]).unwrap();
        assert_eq!(place(&landing, "x"), top.path().join("new/x"));
        assert!(find(top.path(), "no/new", &[source("tree", true)]).is_err(), "the parent must exist");
    }

    #[test]
    fn a_slash_makes_the_directory() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "new/", &[source("a", false), source("b", false)]).unwrap();
        assert_eq!(place(&landing, ""), top.path().join("new/").join("a"));
        assert!(top.path().join("new").is_dir());
    }

    #[test]
    fn what_cannot_land_is_refused() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("file"), "").unwrap();
        assert!(find(top.path(), "file", &[source("tree", true)]).is_err());
        assert!(find(top.path(), "file", &[source("a", false), source("b", false)]).is_err());
        assert!(find(top.path(), "missing", &[source("a", false), source("b", false)]).is_err());
        assert!(find(top.path(), "", &[source("a", false), source("a", false)]).is_err(), "same names");
        assert!(find(top.path(), "file/", &[source("a", false)]).is_err());
    }

    #[test]
    fn a_file_brings_nothing_below_it() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "", &[source("x", false)]).unwrap();
        assert!(landing.place(&entry(0, "")).is_some());
        assert!(landing.place(&entry(0, "y")).is_none());
        assert!(landing.place(&Entry { kind: Kind::Directory, ..entry(0, "") }).is_none());
    }

    #[test]
    fn dots_merge_into_the_destination() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "", &[source("", true)]).unwrap();
        assert_eq!(place(&landing, "x"), top.path().join("").join("x"));
        assert!(landing.place(&entry(7, "")).is_none());
    }
}
