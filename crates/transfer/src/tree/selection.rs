//! Which entries of the sources are sent, and how they are changed.

use linerate_wire::control::{ModeRule, Options};
use linerate_wire::path::RelPath;

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

use crate::tree::filter::files_from::Selected;
use crate::tree::filter::{FilesFrom, Rules, Scope};
use crate::tree::safe_link::leads_out;

/// Which source entries are sent.
#[derive(Default)]
pub struct Selection {
    /// Left out.
    pub filter: Rules,
    /// Sent, and nothing else.
    pub listed: Option<FilesFrom>,
    /// With all that is in them.
    pub listed_whole: bool,
    /// Without the directories that are only on the way to them.
    pub no_implied: bool,
    /// Directories in which nothing else than directories would be sent are left out.
    pub prune_empty: bool,
    /// Symbolic links are followed: all,
    pub copy_links: bool,
    /// those that lead to directories,
    pub copy_dirlinks: bool,
    /// those that lead out of their source.
    pub copy_unsafe_links: bool,
    /// Modes are changed by these.
    pub modes: Vec<ModeRule>,
    /// Symbolic links that lead out of their source are left out, too.
    pub safe_links: bool,
    /// All symbolic links are.
    pub no_links: bool,
    /// So is what is on another file system than its source.
    pub one_file_system: bool,
    /// As with rsync: of sources that land on each other the first has what several have, and names come in its order.
    pub like_rsync: bool,
}

impl Selection {
    /// What `options` send, and of that only what is `listed`.
    pub fn new(options: &Options, listed: Option<FilesFrom>) -> Self {
        Self {
            filter: options.filter.clone(),
            listed,
            listed_whole: options.listed_whole,
            no_implied: options.no_implied,
            prune_empty: options.prune_empty,
            copy_links: options.copy_links,
            copy_dirlinks: options.copy_dirlinks,
            copy_unsafe_links: options.copy_unsafe_links,
            modes: options.modes.clone(),
            safe_links: options.safe_links,
            no_links: options.no_links,
            one_file_system: options.one_file_system,
            like_rsync: options.sync.as_ref().is_some_and(|sync| sync.into),
        }
    }

    /// Whether `path` is sent, and whether a walk has to look into it, where the rules on the way to it are `scope`.
    pub fn wanted(&self, path: &RelPath, is_directory: bool, scope: &Scope) -> Selected {
        let wanted = self.listed_as(path);
        let excluded = (wanted.sent || wanted.entered) && scope.excludes(path, is_directory);
        let is_implied = wanted.as_directory && self.no_implied;
        Selected {
            sent: wanted.admits(is_directory) && !excluded && !is_implied,
            entered: wanted.entered && !excluded,
            ..wanted
        }
    }

    /// Links to directories are followed.
    pub fn follows_directories(&self) -> bool {
        self.copy_links || self.copy_dirlinks
    }

    /// The stat of what the link `name` in `directory`, at `path`, leads to, where it is followed.
    ///
    /// # Errors
    /// The errors of stat(2): `ENOENT` where it leads nowhere.
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

    /// False where the list has nothing at or below `name` in `directory`: it isn't even looked at.
    pub fn may_want(&self, directory: &RelPath, name: &[u8]) -> bool {
        let Some(path) = self.listed.as_ref().and_then(|_| directory.join(name).ok()) else { return true };
        let wanted = self.listed_as(&path);
        wanted.sent || wanted.entered
    }

    fn listed_as(&self, path: &RelPath) -> Selected {
        match &self.listed {
            Some(listed) => listed.wants(path, self.listed_whole),
            None => Selected { sent: true, entered: true, as_directory: false },
        }
    }
}
