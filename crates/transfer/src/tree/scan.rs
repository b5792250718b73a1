//! The scan: walks the sources while the workers are already sending.

mod faked;
mod kinds;
mod left_out;
mod listing;
mod lookup;
mod reports;

use linerate_wire::control::{Keep, MUNGED, Problem, ProblemKind};
use linerate_wire::entry::{Entry, Kind, Origin};
use linerate_wire::path::RelPath;
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::several::Several;
use crate::base::totals::SharedTotals;
use crate::tree::filter::attributes::AttributeRules;
use crate::tree::filter::{Filter, ListedSource, Scope, Side, merge_file};
use crate::tree::identity::identity;
use crate::tree::metadata::holes::has_holes;
use crate::tree::metadata::read::{At, Faked, Reader};
use crate::tree::modes::changed;
use crate::tree::prune::WaitingDirectories;
use crate::tree::root::Directory;
use crate::tree::selection::Selection;
use crate::tree::source_root::SourceRoot;
use crate::tree::stamp::{atime, ctime, mtime};
use crate::tree::temporary::{RESERVED, is_reserved};
use faked::{look, stands_for_nothing};
use listing::Listing;
use lookup::Looked;

/// The reason why an entry isn't sent, if its name can't be converted to the receiver's character set.
const NO_FORM: &str = "cannot be converted: its name isn't valid in the source's character set, or can't be written in the destination's; not copied";
/// The reason why a symbolic link isn't sent, if its target can't be converted to the receiver's character set.
const LINK_NO_FORM: &str =
    "cannot be converted: the link's target can't be written in the destination's character set; not copied";

/// Takes the scanner's entries.
pub trait Taker {
    /// Takes the next entry, with its further properties.
    ///
    /// # Errors
    /// If no more entries are taken.
    fn take(&mut self, entry: Entry, seen: Seen) -> Result<(), Stopped>;

    /// Called after all entries were found.
    ///
    /// # Errors
    /// If no more entries are taken.
    fn finish(&mut self) -> Result<(), Stopped>;
}

/// The scanner's sources and settings.
pub struct Scanner<'a> {
    /// The sources, in the order of the command line.
    pub sources: &'a [SourceRoot],
    /// The totals for the progress line.
    pub found: &'a SharedTotals,
    /// Receives problems.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// The properties of entries that are kept.
    pub keep: Keep,
    /// Set to end the scan early.
    pub stop: &'a AtomicBool,
    /// Decides which entries are sent.
    pub selection: &'a Selection,
}

/// Properties of a scanned entry that the entry itself doesn't hold.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// True if the entry is a file with holes.
    pub sparse: bool,
    /// True if the entry has several names.
    pub linked: bool,
    /// The identity of the entry.
    pub origin: Origin,
    /// The entry's size in bytes as its file system reports it, also for a directory.
    pub size: u64,
    /// False for a directory that is only a parent of listed paths.
    pub whole: bool,
}

impl Seen {
    /// The properties of an entry of this kind, from its `stat`.
    pub fn of(kind: &Kind, stat: &Stat) -> Self {
        let sparse = matches!(kind, Kind::File { .. }) && has_holes(stat);
        let origin = Origin { inode: stat.st_ino, ctime: ctime(stat) };
        Self { sparse, linked: stat.st_nlink > 1, origin, size: stat.st_size.cast_unsigned(), whole: true }
    }
}

/// The error that the scan can't continue, because no more entries are taken or because the scan was stopped.
pub struct Stopped;

/// A directory that is being walked.
struct ScanLevel {
    path: RelPath,
    listing: Listing,
    /// Names that were listed and haven't been visited yet.
    ahead: VecDeque<Looked>,
    fd: OwnedFd,
    scope: Scope,
    /// True if everything in the directory is sent.
    whole: bool,
}

/// The entry that is sent under a name: the entry of that name itself, or the target of a link that is
/// followed.
struct Led {
    /// The directory to which a link leads, if listed entries are behind the link.
    way: Option<Arc<Directory>>,
    stat: Stat,
    is_followed: bool,
    /// The reason why the link couldn't be followed.
    error: Option<Errno>,
}

/// True for a directory that is one of `levels`, so that a followed link has led back to it.
fn is_above(levels: &[ScanLevel], stat: &Stat) -> bool {
    let is_it = |level: &ScanLevel| {
        rustix::fs::fstat(&level.fd).is_ok_and(|above| identity(&above) == identity(stat))
    };
    levels.iter().any(is_it)
}

struct ScanWalk<'a, 'b, T> {
    scanner: &'b Scanner<'a>,
    reader: Reader,
    taker: T,
    /// Whether names are looked up one by one or several at a time.
    several: Several,
    /// The places that entries of earlier sources have, if sources may land at the same places.
    landed: Option<HashSet<Vec<u8>>>,
    /// Directories that wait for the first entry in them; `None` if empty directories are sent too.
    held: Option<WaitingDirectories>,
}

impl Scanner<'_> {
    /// Walks all sources, and passes their entries to `taker`. Ends early if `taker` accepts no more entries.
    pub fn run(&self, taker: impl Taker) {
        let follows = self.sources.iter().any(|source| source.root.follows_links());
        let mut walk = ScanWalk {
            scanner: self,
            reader: Reader::new(self.keep)
                .with_repeated_names(follows || self.sources.len() > 1)
                .with_rules(AttributeRules::new(&self.selection.filter, Side::Sender))
                .with_fakes(self.selection.fakes.then_some(Faked::All)),
            taker,
            several: Several::default(),
            landed: self.landed(),
            held: self.selection.prune_empty.then(WaitingDirectories::default),
        };
        for number in 0..self.sources.len() {
            if walk.source(number).is_err() {
                return;
            }
        }
        let _ = walk.taker.finish();
    }
}

impl Scanner<'_> {
    /// A link's text without the prefix [`MUNGED`], with which the receiver of an earlier transfer has
    /// disabled the link.
    fn unmunged(&self, target: Vec<u8>) -> Vec<u8> {
        let original = target.strip_prefix(MUNGED).filter(|text| self.selection.unmunge && !text.is_empty());
        original.map(<[u8]>::to_vec).unwrap_or(target)
    }

    /// An empty set of places if several sources may have the same entry; `None` otherwise.
    fn landed(&self) -> Option<HashSet<Vec<u8>>> {
        let mut names: Vec<_> = self.sources.iter().map(|source| &source.source.name).collect();
        names.sort();
        let meet = names.windows(2).any(|pair| pair[0] == pair[1] || pair[0].is_root());
        (self.selection.like_rsync && meet).then(HashSet::new)
    }
}

impl<T: Taker> ScanWalk<'_, '_, T> {
    /// False if an entry of an earlier source has the same place.
    fn is_first(&mut self, source: usize, path: &RelPath) -> bool {
        let name = self.scanner.sources[source].source.name.as_bytes();
        let Some(landed) = &mut self.landed else { return true };
        if path.is_root() && self.scanner.sources[source].source.directory {
            // Each source directory's own entry is sent. If several of these entries have the same place, the receiver
            // handles that.
            return true;
        }
        let place = [name, path.as_bytes()];
        landed.insert(place.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b'/'))
    }

    fn source(&mut self, number: usize) -> Result<(), Stopped> {
        let source = &self.scanner.sources[number];
        if let Some(name) = source.link() {
            return self.named_link(number, name);
        }
        let at = source.top_path();
        let fakes = self.scanner.selection.fakes;
        // A directory that this user may not enter has no `.` that could be opened.
        let opened = match at.is_root() {
            true => rustix::io::fcntl_dupfd_cloexec(source.root.top(), 0),
            false => source.root.open_at(&at, OFlags::PATH),
        };
        let opened = opened.and_then(|fd| {
            let (stat, _) = look(At::Open(fd.as_fd()), rustix::fs::fstat(&fd), fakes);
            Ok((stat?, fd))
        });
        let (stat, held) = match opened {
            Ok(opened) => opened,
            Err(Errno::INVAL) if fakes => {
                self.report(number, &RelPath::root(), ProblemKind::Failed, stands_for_nothing());
                return Ok(());
            }
            Err(error) => {
                self.fail(number, &RelPath::root(), "reading", error);
                return Ok(());
            }
        };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let list = self.list(number);
        if !is_directory || list.is_none_or(|list| list.names(&RelPath::root())) {
            let whole = self.is_whole(number, &RelPath::root(), false, false);
            self.found(number, RelPath::root(), &stat, At::Open(held.as_fd()), (false, whole))?;
        }
        if !is_directory {
            return Ok(());
        }
        self.descend(number, RelPath::root())?;
        self.report_missing(number);
        Ok(())
    }

    /// Sends a source that is itself a link.
    fn named_link(&mut self, number: usize, name: &OsStr) -> Result<(), Stopped> {
        let top = self.scanner.sources[number].root.top().clone();
        match top.stat(name) {
            Ok(stat) => {
                let at = At::In(top.as_fd(), name.as_bytes());
                self.found(number, RelPath::root(), &stat, at, (false, true))
            }
            Err(error) => {
                self.fail(number, &RelPath::root(), "reading", error);
                Ok(())
            }
        }
    }

    /// The list of files for a source; `None` if there is no list, so that everything in the source is sent.
    fn list(&self, source: usize) -> Option<&ListedSource> {
        self.scanner.selection.list(self.scanner.sources[source].source.argument)
    }

    /// False if an entry with the stat `stat` is on another file system and is therefore left out. Parents of
    /// listed paths are never left out for this reason.
    fn is_here(&self, level: &ScanLevel, stat: &Stat) -> bool {
        let is_same = || rustix::fs::fstat(&level.fd).is_ok_and(|above| above.st_dev == stat.st_dev);
        !self.scanner.selection.one_file_system || !level.whole || is_same()
    }

    fn is_whole(&self, source: usize, path: &RelPath, by_link: bool, is_in_whole: bool) -> bool {
        self.scanner.selection.is_whole(self.list(source), path, by_link, is_in_whole)
    }

    /// The directory to which the link at `path` leads, if listed entries are behind the link.
    fn way(&self, source: usize, path: &RelPath) -> Option<(Arc<Directory>, Stat)> {
        let leads = self.scanner.selection.leads_through(self.list(source), path);
        let way = leads.then(|| self.scanner.sources[source].root.follow_way(path))?.ok()?;
        let stat = rustix::fs::fstat(&*way).ok()?;
        Some((way, stat))
    }

    fn descend(&mut self, source: usize, top: RelPath) -> Result<(), Stopped> {
        let place = self.scanner.sources[source].place(self.scanner.selection.like_rsync);
        let scope = Filter::new(&self.scanner.selection.filter, Side::Sender, place).scope();
        let mut levels = Vec::new();
        let whole = self.is_whole(source, &top, false, false);
        levels.extend(self.enter(source, top, &scope, whole));
        while let Some(level) = levels.last_mut() {
            if self.scanner.stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            match self.next(source, level) {
                Some(looked) => self.visit(source, &mut levels, looked)?,
                None => _ = levels.pop(),
            }
        }
        Ok(())
    }

    /// Sends an entry of the deepest of `levels`. If the entry is a directory to be walked, adds it to
    /// `levels`.
    fn visit(&mut self, source: usize, levels: &mut Vec<ScanLevel>, looked: Looked) -> Result<(), Stopped> {
        let Some(level) = levels.last() else { return Ok(()) };
        let Looked { name, stat, faked, bare } = looked;
        let Some((path, stat)) = self.path_of(source, level, &name, stat) else { return Ok(()) };
        let led = self.led(source, level, (&path, &name), stat, faked);
        let is_directory = FileType::from_raw_mode(led.stat.st_mode) == FileType::Directory;
        let list = self.list(source);
        let wanted = self.scanner.selection.wanted((list, level.whole), &path, is_directory, &level.scope);
        // Entries below a mount point aren't offered, so the receiver deletes nothing there.
        let is_here = !is_directory || self.is_here(level, &led.stat);
        let whole = self.is_whole(source, &path, led.way.is_some(), level.whole) && is_here;
        if let Some((kind, why)) = self.unfit(&name) {
            if wanted.sent {
                self.report(source, &path, kind, why.into());
            }
            return Ok(());
        }
        if let Some(error) = led.error.filter(|_| wanted.sent) {
            self.leads_nowhere(source, &path, error);
            return Ok(());
        }
        if wanted.sent {
            let held = led.is_followed.then(|| open_followed(&level.fd, &name)).flatten();
            let opened = led.way.as_deref().map(AsFd::as_fd).or_else(|| held.as_ref().map(AsFd::as_fd));
            let at = opened.map_or(At::In(level.fd.as_fd(), &name), At::Open);
            self.found(source, path.clone(), &led.stat, at, (bare, whole || !is_directory))?;
        }
        if is_directory && led.is_followed && is_above(levels, &led.stat) {
            let why = "is a symbolic link to a directory above it; its contents are not sent";
            self.report(source, &path, ProblemKind::Failed, why.into());
        } else if is_directory && wanted.entered && is_here {
            let scope = level.scope.clone();
            levels.extend(self.enter(source, path, &scope, whole));
        }
        Ok(())
    }

    /// Follows the link with this path and name, if links like this one are followed.
    fn led(
        &self,
        source: usize,
        level: &ScanLevel,
        (path, name): (&RelPath, &[u8]),
        stat: Stat,
        faked: bool,
    ) -> Led {
        let itself = Led { way: None, stat, is_followed: false, error: None };
        // A file that stands for a link (`--fake-super`) isn't followed.
        if faked || FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return itself;
        }
        if let Some((way, stat)) = self.way(source, path) {
            return Led { way: Some(way), stat, ..itself };
        }
        match self.scanner.selection.followed(level.fd.as_fd(), &self.seen(source, path), name) {
            Ok(Some(stat)) => Led { stat, is_followed: true, ..itself },
            Ok(None) => itself,
            Err(error) => Led { error: Some(error), ..itself },
        }
    }

    /// The reason why an entry of this name can't be sent, whatever its kind is.
    fn unfit(&self, name: &[u8]) -> Option<(ProblemKind, &'static str)> {
        if is_reserved(OsStr::from_bytes(name)) {
            return Some((ProblemKind::Skipped, RESERVED));
        }
        (!self.has_form(name)).then_some((ProblemKind::Failed, NO_FORM))
    }

    /// The path and stat of `name`. If the entry can't be sent or no longer exists, reports that and returns `None`.
    fn path_of(
        &self,
        source: usize,
        level: &ScanLevel,
        name: &[u8],
        stat: Result<Stat, Errno>,
    ) -> Option<(RelPath, Stat)> {
        let Some(path) = level.path.join(name).ok().filter(RelPath::fits_below_a_name) else {
            let doing = "sending an entry whose path is too long";
            self.fail(source, &level.path, doing, Errno::NAMETOOLONG);
            return None;
        };
        match stat {
            Ok(stat) => return Some((path, stat)),
            Err(Errno::NOENT) => self.vanished(source, &path),
            Err(Errno::INVAL) if self.scanner.selection.fakes => {
                self.report(source, &path, ProblemKind::Failed, stands_for_nothing());
            }
            Err(error) => self.fail(source, &path, "reading", error),
        }
        None
    }

    fn enter(&mut self, source: usize, path: RelPath, scope: &Scope, whole: bool) -> Option<ScanLevel> {
        let root = &self.scanner.sources[source].root;
        let opened = root
            .open_at(&self.scanner.sources[source].full_path(&path), OFlags::RDONLY | OFlags::DIRECTORY)
            .and_then(|fd| Ok((Dir::read_from(&fd)?, fd)));
        let (listing, fd) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.fail(source, &path, "opening the directory", error);
                return None;
            }
        };
        match scope.enter(&path, &mut |name| merge_file(&fd, name)) {
            Ok(scope) => {
                let sorts = self.scanner.selection.like_rsync;
                let listing = if sorts {
                    let (selection, list) = (self.scanner.selection, self.list(source));
                    let leads =
                        |name: &[u8]| path.join(name).is_ok_and(|path| selection.leads_through(list, &path));
                    let follows = |name: &[u8]| selection.follows_directories() || leads(name);
                    Listing::sorted(listing, &fd, follows)
                } else {
                    Listing::Read(listing)
                };
                Some(ScanLevel { path, listing, ahead: VecDeque::new(), fd, scope, whole })
            }
            Err(error) => {
                self.report(
                    source,
                    &path,
                    ProblemKind::Failed,
                    format!("its contents are not sent: {error}"),
                );
                None
            }
        }
    }

    fn found(
        &mut self,
        source: usize,
        path: RelPath,
        stat: &Stat,
        at: At<'_>,
        (bare, whole): (bool, bool),
    ) -> Result<(), Stopped> {
        if !self.is_first(source, &path) {
            return Ok(());
        }
        let Some((kind, is_mere_name)) = self.kind_of(source, &path, stat, at) else { return Ok(()) };
        let mut entry = entry(source, path, kind, stat);
        entry.mode = changed(&self.scanner.selection.modes, &entry);
        // For an entry that isn't sent because of its kind, only the name is sent, without attributes.
        if !is_mere_name && let Err(message) = self.reader.complete(&mut entry, stat, at, bare) {
            self.report(source, &entry.path, ProblemKind::NotKept, message);
        }
        let seen = Seen { whole, ..Seen::of(&entry.kind, stat) };
        // Such an entry is counted only if the selection works as rsync's does.
        let is_counted = !is_mere_name || self.scanner.selection.like_rsync;
        let Some(held) = &mut self.held else { return self.take(entry, seen, is_counted) };
        let is_kept = entry.path.is_root() && self.scanner.sources[source].source.name.is_root();
        let ready = if is_kept { vec![(entry, seen)] } else { held.ready(entry, seen) };
        ready.into_iter().try_for_each(|(entry, seen)| {
            let is_counted = is_counted || entry.kind == Kind::Directory;
            self.take(entry, seen, is_counted)
        })
    }

    fn take(&mut self, entry: Entry, seen: Seen, is_counted: bool) -> Result<(), Stopped> {
        if is_counted {
            self.scanner.found.entry(&entry.kind);
            self.scanner.found.further(&entry.kind, seen.size);
        }
        self.taker.take(entry, seen)
    }

    /// True if the receiver's character set has all characters of the name.
    fn has_form(&self, name: &[u8]) -> bool {
        self.scanner.selection.conversion.is_none_or(|conversion| conversion.forth(name).is_some())
    }
}

/// Opens the target of a link with `O_PATH`; `None` if the target no longer exists.
fn open_followed(directory: &OwnedFd, name: &[u8]) -> Option<OwnedFd> {
    rustix::fs::openat(directory, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// An entry with the mode and times of `stat`.
pub fn entry(source: usize, path: RelPath, kind: Kind, stat: &Stat) -> Entry {
    Entry {
        source: u32::try_from(source).expect("the number of sources is checked"),
        path,
        kind,
        mode: stat.st_mode & 0o7777,
        mtime: mtime(stat),
        atime: atime(stat),
        extra: None,
    }
}
