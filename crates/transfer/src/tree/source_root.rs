//! A path that the user named as a source or for a comparison, as an open directory: a [`SourceRoot`].

use linerate_wire::control::{Options, Problem, ProblemKind, Source};
use linerate_wire::path::RelPath;
use rustix::fs::{Access, AtFlags, accessat};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::base::problem::problem;
use crate::tree::bounds::Named;
use crate::tree::filter::Place;
use crate::tree::root::Root;
use crate::tree::temporary::{RESERVED, is_reserved};

/// One source that was found.
pub struct SourceRoot {
    /// The directory that is the source, or that holds the file that is the source.
    pub root: Root,
    /// The name of the file in that directory; empty if the source is a directory.
    file: RelPath,
    /// True if the source itself is a symbolic link.
    is_link: bool,
    /// The path as the user wrote it, for messages.
    shown: PathBuf,
    /// The source as it is announced to the other end.
    pub source: Source,
}

/// How sources are found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finding {
    /// True if directories are allowed as sources.
    pub recursive: bool,
    /// True if links below sources are followed.
    pub follows: bool,
    /// How a source is handled if its name is a link.
    pub named: NamedLink,
    /// True if reading doesn't change access times.
    pub noatime: bool,
    /// True if names that don't exist are ignored instead of being reported.
    pub ignores_missing: bool,
    /// True if `--delete` also runs if a name doesn't exist in an existing directory, as with rsync.
    pub deletes_despite_missing: bool,
}

/// How a source is handled if its name is a symbolic link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamedLink {
    /// The source is the link's target, as with scp.
    #[default]
    Followed,
    /// The source is the link itself, as with rsync, unless the name ends in a slash.
    Kept,
    /// The source is the link itself, unless its target is a directory.
    KeptUnlessDirectory,
}

impl Finding {
    /// The settings that `options` request.
    pub fn of(options: &Options) -> Self {
        let is_like_rsync = options.sync.as_ref().is_some_and(|sync| sync.into);
        let named = match is_like_rsync && !options.copy_links && !options.copy_unsafe_links {
            false => NamedLink::Followed,
            true if options.copy_dirlinks => NamedLink::KeptUnlessDirectory,
            true => NamedLink::Kept,
        };
        Self {
            recursive: options.recursive,
            follows: options.follows_links(),
            named,
            noatime: options.details.open_noatime,
            ignores_missing: options.ignore_missing,
            deletes_despite_missing: is_like_rsync,
        }
    }
}

impl SourceRoot {
    /// Finds the source that the user named. Links in the path are followed; a link as the last component is
    /// handled as `finding` states.
    ///
    /// # Errors
    /// A message for the user.
    pub fn find(named: &Named, argument: u32, finding: Finding) -> Result<Self, Problem> {
        let shown = PathBuf::from(OsString::from_vec(named.written.clone()));
        let failed = |kind, message: String| problem(&shown, kind, message);
        let found =
            || named.find().map_err(|stop| failed(ProblemKind::Failed, format!("can't be opened: {stop}")));
        let is_kept = match finding.named {
            NamedLink::Followed => false,
            NamedLink::Kept => true,
            NamedLink::KeptUnlessDirectory => !found().is_ok_and(|(_, file)| file.is_none()),
        };
        let link = is_kept.then(|| named.find_link()).flatten();
        let is_link = link.is_some();
        let (top, file) = match link {
            Some((top, name)) => (top, Some(name)),
            None => found()?,
        };
        let directory = file.is_none();
        if directory && !finding.recursive {
            return Err(failed(ProblemKind::Skipped, "is a directory; not copied without -r".into()));
        }
        let is_entered = directory && named.own_name().is_empty();
        if is_entered && let Err(error) = accessat(&top.fd, ".", Access::EXEC_OK, AtFlags::EACCESS) {
            return Err(failed(ProblemKind::Failed, format!("can't be entered: {error}")));
        }
        let name = RelPath::new(named.own_name()).map_err(|error| {
            failed(ProblemKind::Failed, format!("can't be named at the destination: {error}"))
        })?;
        if name.components().any(is_reserved) {
            return Err(failed(ProblemKind::Skipped, RESERVED.into()));
        }
        // The name of an existing file is a single component.
        let file = file.and_then(|name| RelPath::new(name.as_bytes()).ok()).unwrap_or_default();
        let real = top.real.clone();
        let root = Root::at(top, &real)
            .map_err(|error| failed(ProblemKind::Failed, format!("can't be opened: {error}")))?;
        Ok(Self { root, file, is_link, shown, source: Source { argument, name, directory } })
    }

    /// This source, changed so that links below it are followed and access times stay unchanged, if `finding`
    /// states so.
    ///
    /// # Errors
    /// A message for the user.
    pub fn opened_as(self, finding: Finding) -> Result<Self, Problem> {
        let Self { root, file, is_link, shown, source } = self;
        let root = if finding.follows { root.following_links() } else { Ok(root) };
        let root = root.and_then(|root| if finding.noatime { root.keeping_atimes() } else { Ok(root) });
        let root = root.map_err(|error| {
            problem(&shown, ProblemKind::Failed, format!("can't be opened again: {error}"))
        })?;
        Ok(Self { root, file, is_link, shown, source })
    }

    /// The source's location, for filter rules. If `named` is set, the rules see paths that begin with the source's own
    /// name.
    pub fn place(&self, named: bool) -> Place {
        let place = self.root.place();
        let prefix = self.source.name.clone();
        if !named || prefix.is_root() {
            return place;
        }
        let above = place.root.iter().rposition(|&byte| byte == b'/').filter(|_| self.source.directory);
        let root = above.map_or(&place.root[..], |slash| &place.root[..slash.max(1)]).to_vec();
        Place { root, prefix, ..place }
    }

    /// The name of the source, if the source itself is a symbolic link.
    pub fn link(&self) -> Option<&OsStr> {
        self.file.name().filter(|_| self.is_link)
    }

    /// The path of the source itself below its root.
    pub fn top_path(&self) -> RelPath {
        self.file.clone()
    }

    /// The path of an entry below the root, from its path below the source.
    pub fn full_path(&self, path: &RelPath) -> RelPath {
        if path.is_root() { self.file.clone() } else { path.clone() }
    }

    /// An entry's path as the user would write it.
    pub fn shown(&self, path: &RelPath) -> PathBuf {
        if path.is_root() { self.shown.clone() } else { self.shown.join(path.as_os_str()) }
    }
}

/// The name that a source gets below a destination directory. It is empty for a source that ends in `.` or
/// `..`, and for the root of the file system: the contents of such a source land in the destination itself.
pub fn own_name(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    let start = bytes[..end].iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
    match &bytes[start..end] {
        b"." | b".." => Vec::new(),
        name => name.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::bounds::Bounds;

    #[test]
    fn a_trailing_slash_changes_nothing_and_dots_have_no_name() {
        for (path, name) in [("a/b", "b"), ("a/b//", "b"), ("b", "b"), (".", ""), ("a/..", ""), ("/", "")] {
            assert_eq!(own_name(Path::new(path)), name.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_directory_needs_recursion() {
        let directory = tempfile::tempdir().unwrap();
        let named = Bounds::here().name(directory.path().as_os_str().as_bytes()).unwrap();
        assert_eq!(SourceRoot::find(&named, 0, Finding::default()).err().unwrap().kind, ProblemKind::Skipped);
        assert!(
            SourceRoot::find(&named, 0, Finding { recursive: true, ..Finding::default() })
                .unwrap()
                .source
                .directory
        );
    }
}
