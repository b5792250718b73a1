//! Determines the sources that a command line names, and the paths below them that are sent.

use linerate_transfer::filter::FilesFrom;
use linerate_transfer::pattern::name_of;
use linerate_wire::control::MAX_SOURCES;
use linerate_wire::filter::ListedPath;
use linerate_wire::path::RelPath;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::codes::{FILE_SELECTION, USAGE};
use super::line::Line;
use super::relative::{self, Below, ListForm};
use super::{is_far, printer};
use crate::common::failure::Failure;
use crate::common::spec::Spec;
use crate::exit::Code;

/// The sources of a transfer, and the paths below them.
pub struct Choice {
    pub sources: Vec<OsString>,
    /// The paths that are sent; `None` for everything.
    pub listed: Option<FilesFrom>,
    /// True if the sources are the directories that contain the named entries, and aren't named themselves.
    pub are_tops: bool,
}

impl Line {
    /// The sources of the transfer. There are none if a list of files is empty.
    ///
    /// # Errors
    /// If the list of files can't be read, the far end can't be reached, or a path is wrong.
    pub fn choice(&self, sources: &[OsString]) -> Result<Choice, Failure> {
        let wrong = |message| Failure(message, USAGE);
        let below = match &self.files_from {
            Some(file) => {
                let [source] = sources else {
                    return Err(wrong("--files-from takes exactly one source".into()));
                };
                let below = self.listed_below(source, file).map_err(wrong)?;
                check_top(source)?;
                if below.is_empty() {
                    return Ok(Choice { sources: Vec::new(), listed: None, are_tops: true });
                }
                if let Some(one) = below.only_name().filter(|_| !self.list) {
                    return Ok(direct(vec![one], !self.lists_whole()));
                }
                below
            }
            None if self.relative == Some(true) => {
                let plain = if let [one] = sources { relative::without_path(one) } else { None };
                if let Some(plain) = plain.filter(|_| !self.list) {
                    return Ok(direct(vec![plain], self.shallow));
                }
                relative::of_sources(&self.matched_sources(sources)?).map_err(wrong)?
            }
            None => return Ok(direct(sorted(sources), self.shallow)),
        };
        let below = below.implying(!self.no_implied);
        Ok(Choice { sources: below.tops, listed: Some(below.listed), are_tops: true })
    }

    /// Whether directories on a list of files are sent with all their contents: with such a list, -a doesn't
    /// imply -r.
    pub fn lists_whole(&self) -> bool {
        self.recursive && (self.recursion_named || self.files_from.is_none())
    }

    /// The paths of the list in `file`. Paths of this host that don't exist are left out if the user wants this.
    fn listed_below(&self, source: &OsString, file: &OsString) -> Result<Below, String> {
        let text = self.details.listed(self.list_of_files(file)?, is_far(file), self.pulls())?;
        let form = ListForm {
            nul: self.from0,
            // rsync's sender leaves out comments only if it reads the list itself.
            comments: !self.from0 && is_far(file) == self.pulls(),
            relative: self.relative != Some(false),
        };
        let below = relative::of_list(source, &text, form)?;
        Ok(if self.ignore_missing && !self.pulls() { below.without_missing() } else { below })
    }
}

/// Fails, as rsync does, if the source of a list of files isn't a directory: rsync changes into this directory.
fn check_top(source: &OsString) -> Result<(), Failure> {
    let Spec::Local(path) = Spec::parse(source) else { return Ok(()) };
    let path = Path::new(&path);
    let error = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => rustix::io::Errno::NOTDIR.into(),
        Err(error) => error,
    };
    let shown = linerate_wire::path::printable(source.as_bytes());
    Err(Failure(format!("{shown} can't be opened: {error}"), Code::Command(FILE_SELECTION)))
}

/// A choice of whole sources. With `shallow`, a directory is sent without its contents, unless its name ends in
/// a slash: then it is sent with the entries directly in it.
fn direct(sources: Vec<OsString>, shallow: bool) -> Choice {
    let mut listed = FilesFrom::default();
    for (argument, source) in (0..).zip(sources.iter().take(MAX_SOURCES)) {
        let (path, far) = match Spec::parse(source) {
            Spec::Local(path) => (path.into_vec(), false),
            Spec::Remote(_, path) => (path, true),
        };
        let contents = path.ends_with(b"/") || name_of(&path, far).is_empty();
        // The number of sources is below the limit of the list.
        let _ = listed.add(ListedPath { path: RelPath::root(), contents, argument });
    }
    Choice { sources, listed: shallow.then_some(listed), are_tops: false }
}

/// Sorts sources of this host as rsync does: files first, then directories, each group by the bytes of their
/// names. Sources with the same name keep their order.
fn sorted(sources: &[OsString]) -> Vec<OsString> {
    let mut sources = sources.to_vec();
    let name = |source: &OsString| match Spec::parse(source) {
        Spec::Local(path) => Path::new(&path).file_name().map(|name| name.as_bytes().to_vec()),
        Spec::Remote(..) => None,
    };
    let has_name =
        |source: &OsString| !source.as_bytes().ends_with(b"/") && !source.as_bytes().ends_with(b"/.");
    if !sources.iter().all(|source| has_name(source) && name(source).is_some()) {
        return sources;
    }
    sources.sort_by_cached_key(|source| {
        let is_directory = printer::is_directory(source);
        let slash: &[u8] = if is_directory { b"/" } else { b"" };
        (is_directory, [name(source).unwrap_or_default().as_slice(), slash].concat())
    });
    sources
}
