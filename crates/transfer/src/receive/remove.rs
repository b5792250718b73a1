//! Deletes the entries at the destination that the sender doesn't have: the deepest first, never through a
//! link, and never more than the user allows.

mod in_the_way;
mod opened;

use linerate_wire::control::{ProblemKind, Sync};
use linerate_wire::filter::Rules;
use linerate_wire::path::{RelPath, printable};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use self::opened::{Child, OpenedDirectory, list};
use crate::base::problem::problem;
use crate::receive::backup::{BACKUP_ADVICE, Backups};
use crate::receive::changes::ChangeReports;
use crate::receive::commit::Touched;
use crate::receive::reception::Reception;
use crate::receive::sources::Sources;
use crate::receive::wanted::{OfferedNames, change};
use crate::tree::filter::{Filter, FilterError, Scope, Side, merge_file};
use crate::tree::itemize::Item;
use crate::tree::own_files;
use crate::tree::reported::below;
use crate::tree::root::Directory;
use crate::tree::temporary::is_reserved;

/// The greatest depth of nested directories that are examined.
const MAX_DEPTH: usize = 1024;

/// The end of the message that entries aren't deleted because some sources could not be read.
pub const NOT_ALL_READ: &str = ", because the source could not be read completely";

const IS_SOURCE: &str = "it is the source itself";

/// Deletes entries, and counts them.
pub struct Remover<'a> {
    shared: &'a Reception<'a>,
    sync: Sync,
    filter: Filter,
    /// Reports deletions and other changes.
    pub changes: ChangeReports,
    removed: u64,
    /// The number of entries that stayed because the user's limit was reached.
    left: u64,
    /// The place of the source directory whose extra entries are being deleted.
    shown_below: RelPath,
    /// The device of the directory at `shown_below`, if nothing on other file systems is deleted.
    device: Option<u64>,
    /// The directories in which nothing is deleted, because they are sources.
    pub sources: Sources,
}

impl<'a> Remover<'a> {
    /// A remover that deletes what `sync` allows, except entries that `rules` protect.
    pub fn new(
        shared: &'a Reception<'a>,
        sync: Option<&Sync>,
        rules: &Rules,
        changes: ChangeReports,
    ) -> Self {
        let filter = Filter::new(rules, Side::Receiver, shared.ground.landing.root.place());
        Self {
            shared,
            sync: sync.cloned().unwrap_or_default(),
            filter,
            changes,
            removed: 0,
            left: 0,
            shown_below: RelPath::root(),
            device: shared.settings.one_file_system.then(|| shared.ground.landing.root.top().device),
            sources: Sources::now(),
        }
    }

    /// Below the place of each source, deletes all entries that `offered` doesn't contain.
    pub fn run(mut self, places: &[(RelPath, bool)], offered: &OfferedNames, touched: &mut Touched) {
        let is_whole = |place| offered.has(place, true) && !offered.is_on_the_way(place);
        for (place, _) in places.iter().filter(|(place, directory)| *directory && is_whole(place)) {
            let scope = self.filter_of(place).scope();
            self.shown_below = place.clone();
            if let (Some(device), Ok(held)) =
                (&mut self.device, self.shared.ground.landing.root.directory(place))
            {
                *device = held.device;
            }
            self.clean(&RelPath::root(), place, &scope, offered, touched);
        }
        // With a list of files, everything lands in the destination itself.
        let is_listed = places.iter().all(|(place, _)| place.is_root()) && !is_whole(&RelPath::root());
        for top in offered.tops().iter().filter(|_| is_listed) {
            self.clean_listed(top, offered, touched);
        }
        self.changes.flush();
        if self.left > 0 {
            let left =
                if self.left == 1 { "1 entry is".into() } else { format!("{} entries are", self.left) };
            let message =
                format!("{left} not at the source, and not deleted, because --max-delete allows no more");
            self.report(&RelPath::root(), message);
        }
    }

    /// The filter for the source that lands at `top`. If the sources land under their own names, as with rsync, the
    /// rules see paths that begin with the source's name.
    fn filter_of(&self, top: &RelPath) -> Filter {
        if self.sync.into { self.filter.below(top) } else { self.filter.clone() }
    }

    /// Deletes nothing, and reports why: it isn't known which entries the sender has.
    pub fn refuse(&self) {
        // Entries that were in the way of another kind of entry may already have been deleted.
        let nothing = if self.removed == 0 { "nothing" } else { "nothing more" };
        let message = format!("{nothing} is deleted{NOT_ALL_READ}");
        self.report(&RelPath::root(), message);
    }

    /// Deletes extra entries in a directory whose contents are on the list of files. The rules of the
    /// directories above it apply.
    fn clean_listed(&mut self, top: &RelPath, offered: &OfferedNames, touched: &mut Touched) {
        let mut scope = self.filter_of(&RelPath::root()).scope();
        let mut above: Vec<_> = top.ancestors().collect();
        above.reverse();
        for above in above {
            let Ok(held) = self.shared.ground.landing.root.directory(&above) else { return };
            scope = match scope.enter(&above, &mut |name| merge_file(held.as_fd(), name)) {
                Ok(scope) => scope,
                Err(error) => return self.report(&above, unknown(&error)),
            };
        }
        self.shown_below = RelPath::root();
        self.clean(top, top, &scope, offered, touched);
    }

    /// Deletes extra entries in one directory that the sender has too.
    fn clean(
        &mut self,
        path: &RelPath,
        place: &RelPath,
        scope: &Scope,
        offered: &OfferedNames,
        touched: &mut Touched,
    ) {
        if self.is_too_deep(path) {
            return;
        }
        // A missing directory needs no cleaning. It may be missing because a dry run creates no directories.
        let Ok(held) = self.shared.ground.landing.root.directory(place) else { return };
        if self.leaves(place, &held) {
            return;
        }
        let listed = self.list_staying(place, &held);
        let inside = scope.enter(path, &mut |name| merge_file(held.as_fd(), name));
        let (found, inside) = match (listed, inside) {
            (Ok(found), Ok(inside)) => (found, inside),
            (Err(error), _) => {
                return self.report(place, format!("listing the directory for --delete failed: {error}"));
            }
            (_, Err(error)) => return self.report(place, unknown(&error)),
        };
        let stays = self.stands_for_several(place, &held, offered) || offered.is_on_the_way(place);
        let before = self.removed;
        let mut is_writable = self.sync.dry_run || rustix::process::geteuid().is_root();
        for found in found {
            let (Ok(path), Ok(inner)) = (path.join(found.name.as_bytes()), place.join(found.name.as_bytes()))
            else {
                continue;
            };
            if offered.has(&inner, true) {
                if found.directory || self.shared.ground.landing.root.keeps_links {
                    self.clean(&path, &inner, &inside, offered, touched);
                }
            } else if !stays && !offered.has(&inner, false) && !inside.excludes(&path, found.directory) {
                if !is_writable {
                    // If the mode can't be changed, the deletion reports why it fails.
                    let _ = self.shared.open_up(place);
                    is_writable = true;
                }
                self.remove_at(&path, held.as_fd(), found, &inside);
            }
        }
        if self.removed > before && !self.sync.dry_run {
            touched.add(&held);
        }
    }

    /// True, and reported, if nothing in the directory is deleted because it stands for several directories of the source.
    fn stands_for_several(&self, place: &RelPath, held: &Directory, offered: &OfferedNames) -> bool {
        let root = &self.shared.ground.landing.root;
        let stays = root.has_other_paths(place, held, |other| offered.has(other, true));
        if stays {
            let why = "nothing in this directory is deleted: through links (--keep-dirlinks) it stands for several directories of the source";
            self.report(place, why.into());
        }
        stays
    }

    /// Lists a directory that isn't deleted. If its mode doesn't give its owner access, the mode is changed
    /// until everything is in place.
    fn list_staying(&self, place: &RelPath, held: &Directory) -> Result<Vec<Child>, Errno> {
        let listed = list(held.as_fd());
        // A directory that was opened with `O_PATH` can't be listed.
        if !matches!(listed, Err(Errno::BADF)) {
            return listed;
        }
        if !self.sync.dry_run {
            self.shared.open_up(place)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        list(rustix::fs::openat(held, ".", flags, Mode::empty())?.as_fd())
    }

    /// Deletes the entries `found` in the directory at `above`, which is being deleted too; true if none
    /// remains.
    fn remove_all(
        &mut self,
        above: &RelPath,
        directory: &OpenedDirectory,
        found: Vec<Child>,
        scope: &Scope,
    ) -> bool {
        let gone = found.into_iter().map(|found| self.remove(above, &directory.fd, found, scope));
        gone.fold(true, |all, gone| all & gone)
    }

    /// Deletes an entry of the directory at `above`, which is being deleted too; true if the entry is gone.
    fn remove(&mut self, above: &RelPath, parent: &OwnedFd, found: Child, scope: &Scope) -> bool {
        let Ok(path) = above.join(found.name.as_bytes()) else { return false };
        if scope.protects_in_deleted(&path, found.directory) {
            return false;
        }
        self.remove_at(&path, parent.as_fd(), found, scope)
    }

    fn remove_at(&mut self, path: &RelPath, parent: BorrowedFd<'_>, found: Child, scope: &Scope) -> bool {
        // Temporary files aren't deleted, because another transfer may be writing them; 'linerate clean' removes those
        // that no transfer will finish. This command's own files, such as its log, aren't deleted either.
        if is_reserved(&found.name) || own_files::option_of(&found.name, || Some(parent)).is_some() {
            return false;
        }
        let is_backup = |backups: &Backups| match found.directory {
            true => backups.is_directory(parent, &found.name),
            false => backups.made(&below(&self.shown_below, path)),
        };
        if self.backups().is_some_and(is_backup) {
            return false;
        }
        let emptied = if found.directory { self.empty(path, parent, &found.name, scope) } else { None };
        if found.directory && emptied.is_none() {
            return false;
        }
        if self.sync.max_delete.is_some_and(|most| self.removed >= most) {
            self.left += 1;
            emptied.iter().for_each(OpenedDirectory::close_again);
            return false;
        }
        if !self.sync.dry_run && !self.delete(path, parent, &found) {
            emptied.iter().for_each(OpenedDirectory::close_again);
            return false;
        }
        self.removed += 1;
        let shown = if self.sync.into { below(&self.shown_below, path) } else { path.clone() };
        self.changes.report(change(Item::Deleted, shown, found.directory, None));
        true
    }

    /// Deletes an entry; a directory must be empty. If the entry still exists after that, reports the error
    /// and returns false.
    fn delete(&mut self, path: &RelPath, parent: BorrowedFd<'_>, found: &Child) -> bool {
        let gone = match found.directory {
            true => rustix::fs::unlinkat(parent, &found.name, AtFlags::REMOVEDIR),
            false => self.take_away(&below(&self.shown_below, path), parent, &found.name),
        };
        let backups = self.backups();
        match gone {
            Ok(()) => true,
            // If the entry still exists, ENOENT means that a directory of the backups is missing.
            Err(Errno::NOENT) if is_gone(parent, &found.name) => true,
            // Backups remain in the directory.
            Err(Errno::NOTEMPTY) if backups.is_some() => {
                self.stays(path);
                false
            }
            Err(error) => {
                let advice = backups.filter(|backups| !found.directory && !backups.are_beside());
                let advice = advice.map_or_else(String::new, |_| format!("; {BACKUP_ADVICE}"));
                self.report(path, format!("deleting failed: {error}{advice}"));
                false
            }
        }
    }

    /// Removes an entry that isn't a directory, or moves it to the backups.
    fn take_away(&self, place: &RelPath, parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        let report = self.shared.reports.problem;
        let taken = self.backups().map(|backups| backups.take(place, parent, name, report));
        match taken.transpose()? {
            Some(true) => Ok(()),
            _ => rustix::fs::unlinkat(parent, name, AtFlags::empty()),
        }
    }

    fn backups(&self) -> Option<&Backups> {
        self.shared.ground.near.backups.as_ref()
    }

    /// Deletes the contents of a directory that is being deleted; returns the open directory if it is empty afterwards.
    fn empty(
        &mut self,
        path: &RelPath,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        scope: &Scope,
    ) -> Option<OpenedDirectory> {
        if self.is_too_deep(path) {
            return None;
        }
        let (directory, found) = match opened::open(parent, name, self.sync.dry_run) {
            Ok(opened) => opened,
            Err(error) => {
                let message = format!("opening the directory for --delete failed: {error}");
                self.report_as(ProblemKind::Failed, path, message);
                self.stays(path);
                return None;
            }
        };
        let stat = rustix::fs::fstat(&directory.fd).ok();
        if stat.is_some_and(|stat| self.spares(stat.st_dev)) {
            directory.close_again();
            return None;
        }
        let is_behind = self.shared.ground.landing.root.is_behind_a_link(directory.fd.as_fd());
        let is_source = stat.is_some_and(|stat| self.sources.have(&stat));
        if is_behind || is_source {
            directory.close_again();
            let why = if is_behind { "a link that --keep-dirlinks keeps leads to it" } else { IS_SOURCE };
            self.report(path, format!("not deleted: {why}"));
            return None;
        }
        let inside = scope.enter(path, &mut |name| merge_file(directory.fd.as_fd(), name));
        let inside = inside.inspect_err(|error| self.report(path, unknown(error)));
        let gone = inside.is_ok_and(|inside| self.remove_all(path, &directory, found, &inside));
        // This command may still write its metrics file into the directory at the end.
        let gone = gone && !own_files::belong_in(&directory.fd);
        if !gone {
            directory.close_again();
            self.stays(path);
        }
        gone.then_some(directory)
    }

    /// Reports, in rsync's words, that a directory isn't deleted because entries in it stay.
    fn stays(&mut self, path: &RelPath) {
        if self.sync.into {
            self.changes.flush();
            let path = below(&self.shown_below, path);
            let message = format!("cannot delete non-empty directory: {}", printable(path.as_bytes()));
            (self.shared.reports.problem)(problem(path.as_os_str(), ProblemKind::Remark, message));
        }
    }

    /// Opens and lists a directory that will be emptied. If its owner may not write in it, its mode is changed
    /// first. As with rsync, a directory that its owner may not read stays closed.
    /// True for a directory in which nothing is deleted: a source (which is also reported), a directory on another file
    /// system, or the directory for backups. The source may contain a directory for backups too, but with other
    /// contents. If entries in the directory for backups were deleted, they would become backups in an ever deeper
    /// directory for backups.
    fn leaves(&self, place: &RelPath, held: &Directory) -> bool {
        let is_source = rustix::fs::fstat(held).is_ok_and(|stat| self.sources.are_found(&stat));
        let is_source = is_source && !place.is_root();
        if is_source {
            self.report(place, format!("nothing in this directory is deleted: {IS_SOURCE}"));
        }
        is_source
            || self.spares(held.device)
            || self.backups().is_some_and(|backups| backups.are_in(held.as_fd()))
    }

    /// True if nothing is deleted on this device's file system.
    fn spares(&self, device: u64) -> bool {
        self.device.is_some_and(|own| own != device)
    }

    fn is_too_deep(&self, path: &RelPath) -> bool {
        let is = path.components().count() > MAX_DEPTH;
        if is {
            self.report(
                path,
                format!(
                    "nothing in this directory is deleted: its path has more than {MAX_DEPTH} components"
                ),
            );
        }
        is
    }

    fn report(&self, place: &RelPath, message: String) {
        self.report_as(ProblemKind::NotDeleted, place, message);
    }

    fn report_as(&self, kind: ProblemKind, place: &RelPath, message: String) {
        let shown = self.shared.ground.landing.root.shown(place);
        (self.shared.reports.problem)(problem(shown, kind, message));
    }
}

/// The place at which a source lands, if the source's entry `path` is at `place`.
fn top_of(place: &RelPath, path: &RelPath) -> RelPath {
    let depth = path.components().count();
    (0..depth).try_fold(place.clone(), |place, _| place.parent()).unwrap_or_default()
}

fn unknown(error: &FilterError) -> String {
    format!("nothing in this directory is deleted: {error}")
}

/// True if no entry has this name.
fn is_gone(parent: BorrowedFd<'_>, name: &OsStr) -> bool {
    matches!(rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}
