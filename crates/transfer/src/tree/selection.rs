//! Decides which entries of the sources are sent, and how they are changed.

use linerate_wire::control::{ModeRule, Options};
use linerate_wire::path::RelPath;

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

use crate::tree::charsets::NameConversion;
use crate::tree::filter::files_from::Selected;
use crate::tree::filter::{FilesFrom, ListedSource, Rules, Scope};
use crate::tree::safe_link::leads_out;

/// The settings that decide which entries of the sources are sent.
#[derive(Default)]
pub struct Selection {
    /// The filter rules, which leave entries out.
    pub filter: Rules,
    /// The list of files; if there is one, only its paths are sent.
    pub listed: Option<FilesFrom>,
    /// True if listed directories are sent with all their contents.
    pub listed_whole: bool,
    /// How a listed path that doesn't exist is handled.
    pub missing: MissingPath,
    /// True if the parent directories of listed paths aren't sent, unless they are listed too.
    pub no_implied: bool,
    /// True if directories that contain no other entries than directories are left out.
    pub prune_empty: bool,
    /// True if all symbolic links are followed.
    pub copy_links: bool,
    /// True if symbolic links to directories are followed.
    pub copy_dirlinks: bool,
    /// True if symbolic links that point outside their source are followed.
    pub copy_unsafe_links: bool,
    /// The rules by which modes are changed.
    pub modes: Vec<ModeRule>,
    /// True if symbolic links that point outside their source are left out.
    pub safe_links: bool,
    /// True if all symbolic links are left out.
    pub no_links: bool,
    /// True if the prefix [`MUNGED`](linerate_wire::control::MUNGED) is removed from links' texts.
    pub unmunge: bool,
    /// The conversion of names. Entries are left out if their name or link text contains a character that the
    /// receiver's character set lacks.
    pub conversion: Option<NameConversion>,
    /// True if files are sent as the entries that they stand for by rsync's attributes (`--fake-super`).
    pub fakes: bool,
    /// True if entries on another file system than their source are left out.
    pub one_file_system: bool,
    /// True if the selection works as rsync's does: if entries of several sources have the same place, only the first
    /// source's entry is sent, and names are sorted in rsync's order.
    pub like_rsync: bool,
    /// True if the names of entries that aren't sent because of their kind are offered nevertheless, so that the
    /// receiver doesn't delete entries with these names.
    pub names_skipped: bool,
}

/// How a listed path that doesn't exist is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingPath {
    /// The missing path is reported as an error.
    #[default]
    Failed,
    /// The missing path counts as vanished: it existed when the list was made, so the source has changed since then.
    Vanished,
    /// The missing path is ignored.
    Ignored,
}

impl Selection {
    /// The selection that `options` request, limited to the paths that are `listed`.
    pub fn new(options: &Options, listed: Option<FilesFrom>) -> Self {
        Self {
            filter: options.filter.clone(),
            listed,
            listed_whole: options.listed_whole,
            missing: if options.ignore_missing { MissingPath::Ignored } else { MissingPath::Failed },
            no_implied: options.no_implied,
            prune_empty: options.prune_empty,
            copy_links: options.copy_links,
            copy_dirlinks: options.copy_dirlinks,
            copy_unsafe_links: options.copy_unsafe_links,
            unmunge: options.details.unmunge,
            // Unknown character sets aren't an error here, because the receiver reports them.
            conversion: options
                .details
                .charsets
                .as_ref()
                .and_then(|sets| NameConversion::between(sets).ok()?),
            fakes: options.details.fakes.sender(),
            modes: options.modes.clone(),
            safe_links: options.safe_links,
            no_links: options.no_links,
            one_file_system: options.one_file_system,
            names_skipped: options.sync.is_some(),
            like_rsync: options.sync.as_ref().is_some_and(|sync| sync.into),
        }
    }

    /// The list of files for the source with that number on the command line; `None` if there is no list.
    pub fn list(&self, argument: u32) -> Option<&ListedSource> {
        self.listed.as_ref().map(|listed| listed.of(argument))
    }

    /// Whether `path` is sent, and whether a walk has to enter it. `scope` has the rules for the path's directory,
    /// `list` is the list of files for the path's source, and `whole` is true if the path's directory is sent with all
    /// contents.
    pub fn wanted(
        &self,
        (list, whole): (Option<&ListedSource>, bool),
        path: &RelPath,
        is_directory: bool,
        scope: &Scope,
    ) -> Selected {
        let wanted = self.listed_as(list, whole, path);
        // As with rsync, the rules see the paths that the user named, and not the directories above them.
        let is_seen = (wanted.sent || wanted.entered) && !wanted.as_directory;
        let excluded = is_seen && scope.excludes(path, is_directory);
        let is_implied = wanted.as_directory && self.no_implied;
        Selected {
            sent: wanted.admits(is_directory) && !excluded && !is_implied,
            entered: wanted.entered && !excluded,
            ..wanted
        }
    }

    /// True if links to directories are followed.
    pub fn follows_directories(&self) -> bool {
        self.copy_links || self.copy_dirlinks
    }

    /// The stat of the target of the link `name` in `directory`, at `path`, if the link is followed.
    ///
    /// # Errors
    /// The errors of stat(2): `ENOENT` if the target doesn't exist.
    pub fn followed(
        &self,
        directory: BorrowedFd<'_>,
        path: &RelPath,
        name: &[u8],
    ) -> Result<Option<Stat>, Errno> {
        let leads = || rustix::fs::statat(directory, name, AtFlags::empty());
        if self.copy_links {
            return leads().map(Some);
        }
        let is_directory = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if self.copy_dirlinks
            && let Some(stat) = leads().ok().filter(is_directory)
        {
            return Ok(Some(stat));
        }
        if !self.copy_unsafe_links {
            return Ok(None);
        }
        let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
        if leads_out(path, target.as_bytes()) { leads().map(Some) } else { Ok(None) }
    }

    /// False if the list has no path at or below `name` in `directory`, so that the name needn't even be
    /// looked up.
    pub fn may_want(
        &self,
        (list, whole): (Option<&ListedSource>, bool),
        directory: &RelPath,
        name: &[u8],
    ) -> bool {
        let Some(path) = list.and_then(|_| directory.join(name).ok()) else { return true };
        let wanted = self.listed_as(list, whole, &path);
        wanted.sent || wanted.entered
    }

    /// True if a link at `path` is followed as a directory, because an entry behind the link is listed.
    pub fn leads_through(&self, list: Option<&ListedSource>, path: &RelPath) -> bool {
        self.like_rsync && list.is_some_and(|list| list.leads_through(path))
    }

    /// Whether the contents of the directory at `path` are sent, all of them or only the entries directly in it.
    /// `is_in_whole` is the answer for the parent directory. For a directory behind a link (`by_link`), its name must
    /// have a slash at its end in the list.
    pub fn is_whole(
        &self,
        list: Option<&ListedSource>,
        path: &RelPath,
        by_link: bool,
        is_in_whole: bool,
    ) -> bool {
        let Some(list) = list else { return true };
        let is_listed_whole = || self.listed_whole && (is_in_whole || list.is_whole(path));
        list.has_contents(path) || !by_link && is_listed_whole()
    }

    fn listed_as(&self, list: Option<&ListedSource>, whole: bool, path: &RelPath) -> Selected {
        match list {
            Some(listed) => listed.wants_in(path, whole && self.listed_whole, self.listed_whole),
            None => Selected { sent: true, entered: true, as_directory: false },
        }
    }
}
