//! Merge files in directories: how such files are found and read, and which rules they add.

use linerate_wire::filter::{BadRules, DirMerge, MAX_MERGES, MAX_RULES, MergeStyle, PatternRule, Rule};
use linerate_wire::path::printable;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::builder::limited;
use super::error::FilterError;
use super::parse::{BadRule, Said, Syntax};
use super::rule::{Base, joined};
use super::scope::{List, MergeFile, Scope, ScopeItem};
use super::{MAX_FILE, MAX_NESTED, MAX_READ, cvs};
use crate::tree::bounds::Bounds;

/// A function that returns the contents of the directory's merge file with this name; `None` if the directory
/// has no such file.
pub type ReadsMergeFile<'a> = dyn FnMut(&OsStr) -> io::Result<Option<Vec<u8>>> + 'a;

/// Reads the merge file `name` in the open directory `fd`, for [`Scope::enter`]. A link isn't followed.
///
/// # Errors
/// If the file is a link, can't be read or is larger than [`MAX_FILE`]. An entry that is neither a link nor a regular
/// file isn't an error: it counts as a missing merge file.
pub fn merge_file(fd: impl AsFd, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(fd, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        // ENXIO and ENODEV are the errors for a socket and for a device without a driver.
        Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => return Ok(None),
        // If a link were ignored, entries that the user wants to protect could be sent or deleted.
        Err(Errno::LOOP) => {
            return Err(io::Error::other(
                "it is a symbolic link; replace the link by a file, or name another file",
            ));
        }
        Err(error) => return Err(error.into()),
    };
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let too_long = || io::Error::other(format!("it has more than {} KiB", MAX_FILE >> 10));
    limited(File::from(file))?.ok_or_else(too_long).map(Some)
}

/// Reads one merge file of one directory, and the files that it includes.
pub(super) struct MergeReader<'a, 'b> {
    pub scope: &'a mut Scope,
    pub base: &'a Base,
    pub directory: &'a [u8],
    pub read: &'a mut ReadsMergeFile<'b>,
    pub items: Vec<ScopeItem>,
    pub inherited: Option<Arc<List>>,
    pub files: usize,
}

impl MergeReader<'_, '_> {
    /// Reads the rules of the file `name`, whose lines have this `style`.
    pub fn file(
        &mut self,
        name: &[u8],
        style: MergeStyle,
        depth: usize,
        must_be: bool,
    ) -> Result<(), FilterError> {
        let shown = || printable(&joined(self.directory, name));
        self.files += 1;
        if depth == MAX_NESTED || self.files > MAX_READ {
            return Err(FilterError::Nested { file: shown() });
        }
        let text = (self.read)(OsStr::from_bytes(name)).and_then(|text| match text {
            None if must_be => Err(io::ErrorKind::NotFound.into()),
            text => Ok(text.unwrap_or_default()),
        });
        let text = text.map_err(|error| FilterError::Read { file: shown(), error })?;
        if text.len() > MAX_FILE {
            return Err(FilterError::LongFile { file: shown() });
        }
        let syntax = Syntax::merge(style, self.scope.filter.reading);
        let said = syntax.file(&text).map_err(|at| FilterError::line(&shown(), at))?;
        said.into_iter().try_for_each(|said| self.take(said, &shown(), depth))
    }

    fn take(&mut self, said: Said, file: &str, depth: usize) -> Result<(), FilterError> {
        match said {
            Said::Rule(Rule::Pattern(rule)) if rule.attributes => {
                return Err(FilterError::Rule { at: format!("in {file}"), error: BadRule::Xattr });
            }
            Said::Rule(Rule::Pattern(rule)) => self.add(&rule),
            Said::Rule(Rule::Merge(merge)) => self.add_merge(merge)?,
            Said::CvsPatterns(rule) => cvs::patterns()
                .for_each(|word| self.add(&PatternRule { pattern: word.to_vec(), ..rule.clone() })),
            Said::Clear => self.clear(),
            Said::MergeFile(path, _) if path.contains(&b'/') => {
                return Err(FilterError::Rule { at: format!("in {file}"), error: BadRule::Elsewhere });
            }
            Said::MergeFile(name, style) => self.file(&name, style, depth + 1, true)?,
        }
        if self.items.len() > MAX_RULES { Err(BadRules::TooMany.into()) } else { Ok(()) }
    }

    fn add(&mut self, rule: &PatternRule) {
        let item = self.scope.filter.compiled(rule, self.base);
        self.items.extend(item);
    }

    fn add_merge(&mut self, merge: DirMerge) -> Result<(), FilterError> {
        let specs = || self.scope.merges.iter().filter_map(|merge| merge.spec.as_ref());
        if specs().any(|known| known.name == merge.name) {
            return Ok(());
        }
        if self.scope.merges.len() == MAX_MERGES {
            return Err(BadRules::TooManyMerges.into());
        }
        let rule = Rule::Merge(merge);
        rule.check()?;
        let Rule::Merge(merge) = rule else { return Ok(()) };
        self.items.push(ScopeItem::Merge(self.scope.merges.len()));
        self.scope.merges.push(MergeFile { spec: Some(Arc::new(merge)), list: None });
        Ok(())
    }

    fn clear(&mut self) {
        let inherited = self.inherited.take();
        let above = std::iter::successors(inherited.as_ref(), |list| list.inherited.as_ref());
        let items = above.flat_map(|list| &list.items).chain(&self.items);
        let numbers: Vec<usize> = items.filter_map(ScopeItem::merge).collect();
        for number in numbers {
            self.scope.merges[number] = MergeFile { spec: None, list: None };
        }
        self.items.clear();
    }
}

/// The components of a path.
pub(super) fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".").collect()
}

/// The components of the absolute path of `above`, which may be relative to `root`.
pub(super) fn resolved<'a>(root: &[&'a [u8]], above: &'a [u8]) -> Vec<&'a [u8]> {
    let mut way = if above.starts_with(b"/") { Vec::new() } else { root.to_vec() };
    for part in components(above) {
        if part == b".." {
            way.pop();
        } else {
            way.push(part);
        }
    }
    way
}

/// Reads a merge file above the transfer's root. Its path is the user's own, so links in it are followed,
/// within the bounds.
pub(super) fn merge_file_above(
    bounds: &Bounds,
    directory: &[u8],
    name: &OsStr,
) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = bounds.open_file(&joined(directory, name.as_bytes()))? else { return Ok(None) };
    let too_long = || io::Error::other(format!("it has more than {} KiB", MAX_FILE >> 10));
    limited(file)?.ok_or_else(too_long).map(Some)
}
