//! Answers the sender's offers: what of them the destination doesn't have.

mod decide;
mod elsewhere;
mod existing;
mod names;
mod older;
mod times;
mod view;

use crossbeam_channel::Receiver;
use linerate_wire::control::{Change, Digest, Link, MAX_OFFERS, Message, Offered, ProblemKind, Sync, Want};
use linerate_wire::entry::{Entry, Kind, Origin};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::base::lock::lock;
use crate::base::problem::{TransferError, problem};
use crate::net::channel::{Channel, Room};
use crate::receive::admission::{Admitted, Judge};
use crate::receive::reception::Reception;
use crate::receive::remove::Remover;
use crate::receive::resume;
use crate::receive::sink::FIRST_NAMES;
use crate::tree::itemize::{self, Changes, Item};
use crate::tree::metadata::compare::Comparing;
use crate::tree::metadata::read::At;
use crate::tree::metadata::write::MetadataTarget;
use crate::tree::places::{Places, Recent};
use crate::tree::reading::hash;
pub use decide::is_left_alone;
use decide::{Decision, Rules};
use elsewhere::Elsewhere;
use existing::hold_existing;
pub use existing::open_existing;
pub use names::Offered as OfferedNames;
pub use times::same_time;
use view::{Occupant, View};

/// Compares offers with what is there.
pub struct Comparer<'a, 'b> {
    shared: &'b Reception<'a>,
    sync: Option<&'b Sync>,
    rules: Rules,
    channel: Arc<Channel>,
    remover: Remover<'b>,
    names: OfferedNames,
    comparing: Comparing,
    judge: Judge<'b>,
    recent: Recent,
    here: View<'b>,
    elsewhere: Option<Elsewhere<'b>>,
    buffer: Vec<u8>,
    /// Files of the offer that is being answered which may be compared chunk by chunk.
    large: u64,
    /// The kinds of first names that aren't regular files, by their places.
    linked: Places<itemize::Kind>,
}

/// Entries that the sender could send, and their memory until they are answered.
pub type Offer = (Vec<Offered>, Option<Room>);

impl<'a, 'b> Comparer<'a, 'b> {
    /// Answers on `channel`; without `sync` everything is wanted that no earlier run brought, as the journal shows.
    pub fn new(
        shared: &'b Reception<'a>,
        sync: Option<&'b Sync>,
        channel: Arc<Channel>,
        remover: Remover<'b>,
    ) -> Self {
        let rules = Rules { sync: sync.cloned().unwrap_or_default(), keep: shared.settings.keep };
        let (names, comparing) = (OfferedNames::default(), Comparing::new(shared.settings.keep));
        Self {
            shared,
            sync,
            rules,
            channel,
            remover,
            names,
            comparing,
            judge: Judge::new(shared.ground.terms),
            recent: Recent::default(),
            here: View::new(&shared.ground.landing.root),
            elsewhere: sync.and_then(|sync| Elsewhere::new(shared, sync)),
            buffer: Vec::new(),
            large: 0,
            linked: Places::new(FIRST_NAMES),
        }
    }

    /// Answers offers until there are no more, and gives what is to be removed by.
    ///
    /// # Errors
    /// If the sender is gone, or offers what it didn't announce.
    pub fn run(mut self, offers: &Receiver<Offer>) -> Result<(OfferedNames, Remover<'b>), TransferError> {
        for (offered, _room) in offers {
            if offered.len() > MAX_OFFERS {
                return Err(breach("an offer of too many entries"));
            }
            // All at once: between system calls each would find its cache line gone.
            if !offered.iter().all(|Offered { entry, .. }| self.recent.is_new(entry.source, &entry.path)) {
                return Err(breach("it offers a path twice"));
            }
            self.large = offered.iter().filter(|offered| is_large(&offered.entry)).count() as u64;
            let wants = offered.iter().map(|offered| self.want(offered)).collect::<Result<_, _>>()?;
            self.remover.news.flush();
            let sent = self.channel.send(&Message::Wanted(wants));
            sent.map_err(|error| TransferError::FarEnd(error.to_string()))?;
        }
        self.elsewhere.iter_mut().for_each(Elsewhere::finish);
        // Sources that land on each other have the directory in common.
        if !self.names.sort() && !self.sync.is_some_and(|sync| sync.into) {
            return Err(breach("it offers a path twice"));
        }
        Ok((self.names, self.remover))
    }

    fn want(&mut self, offered: &Offered) -> Result<Want, TransferError> {
        let Offered { ref entry, inode, ctime, digest } = *offered;
        let admitted = self.judge.admit(Cow::Borrowed(entry));
        let admitted = admitted.map_err(|refused| breach(&refused.to_string()))?;
        let (entry, place) = (admitted.entry(), admitted.place());
        if self.sync.is_some_and(|sync| sync.delete) && !self.names.add(place, entry.kind == Kind::Directory)
        {
            return Err(breach("more entries than can be remembered for --delete"));
        }
        let origin = Origin { inode, ctime };
        match self.shared.ground.past.and_then(|past| resume::want(self.shared, past, &admitted, origin)) {
            Some(Want::Nothing) => return Ok(self.done(entry, place)),
            Some(want) => return Ok(want),
            None => {}
        }
        let Some(sync) = self.sync else { return Ok(Want::Whole) };
        let there = self.here.look(place);
        let decision = match &there {
            Some(_) if self.is_made_top(entry) => Decision::New,
            Some(there) => self.decide(&admitted, digest, there),
            None if sync.ignore_existing && self.is_under_something_else(place) => Decision::LeftAlone,
            None => self.rules.missing(entry),
        };
        let is_missing = decision == Decision::New && (there.is_none() || self.is_made_top(entry));
        if let Some(want) = is_missing.then(|| self.elsewhere(&admitted, digest)).flatten() {
            return Ok(want);
        }
        Ok(self.act(sync, &admitted, there.as_ref(), decision))
    }

    /// An earlier run gave the entry its name.
    fn done(&mut self, entry: &Entry, place: &RelPath) -> Want {
        let Some(there) = self.here.look(place) else { return Want::Whole };
        self.keeps_first_name(entry, place, &there);
        let want = self.proof(entry, place, &there).unwrap_or(Want::Nothing);
        match want {
            Want::Nothing => {
                self.shared.reports.counters.landed.entry(&entry.kind);
                self.shared.reports.counters.unchanged.entry(&entry.kind);
            }
            Want::Digest => self.shared.reports.counters.unchanged.file(0),
            _ => {}
        }
        want
    }

    /// If digests are sent, a file that stays as it is needs one too, and is proven like a received one. A
    /// file that can't be read comes once more. `None` for what has no digest.
    fn proof(&self, entry: &Entry, place: &RelPath, there: &Occupant) -> Option<Want> {
        match entry.kind {
            _ if !self.shared.settings.digests || self.shared.settings.dry_run => None,
            Kind::File { .. } if open_existing(&there.parent, name(place), &there.stat).is_ok() => {
                // If too many wait for theirs already, the file comes once more.
                let waits = self.shared.notes.standing.insert(place, there.stat);
                Some(if waits { Want::Digest } else { Want::Whole })
            }
            // A further hard link is reported as `SameAs` its first name.
            Kind::File { .. } | Kind::HardLink { .. } => Some(Want::Whole),
            _ => None,
        }
    }

    /// Further names may come of what stays.
    fn keeps_first_name(&self, entry: &Entry, place: &RelPath, there: &Occupant) {
        if entry.extra.as_ref().is_some_and(|extra| extra.linked) {
            let file = (there.stat.st_dev, there.stat.st_ino);
            self.shared.notes.first_names.insert(place, file);
        }
    }

    /// Something that is no directory, and stays, has the name of a directory above `place`.
    fn is_under_something_else(&self, place: &RelPath) -> bool {
        let parent = place.parent().unwrap_or_default();
        matches!(self.shared.ground.landing.root.directory(&parent), Err(Errno::NOTDIR | Errno::LOOP))
    }

    fn decide(&mut self, admitted: &Admitted<'_>, digest: Option<Digest>, there: &Occupant) -> Decision {
        let early = self.rules.early(admitted.entry(), &there.stat);
        early.unwrap_or_else(|| self.compare(admitted, digest, there))
    }

    /// Decides by what is there, which is of the entry's kind.
    fn compare(&mut self, admitted: &Admitted<'_>, digest: Option<Digest>, there: &Occupant) -> Decision {
        let (entry, place) = (admitted.entry(), admitted.place());
        if let Kind::HardLink { source, path } = &entry.kind {
            return self.another_name(entry, *source, path, there);
        }
        let value_differs = match &entry.kind {
            Kind::File { size } => {
                self.rules.sync.checksum && self.contents_differ(digest, *size, place, there)
            }
            Kind::Symlink { target } => !says(target, place, there),
            Kind::Device { major, minor, .. } => there.stat.st_rdev != rustix::fs::makedev(*major, *minor),
            _ => false,
        };
        let at = At::In(there.parent.as_fd(), name(place).as_encoded_bytes());
        let more = self.comparing.differences(self.shared.ground.writer, entry, &there.stat, at);
        let mode = self.shared.settings.mode(entry);
        let mode = self.shared.ground.writer.keepable(entry, mode, &there.stat);
        match self.rules.decide(entry, mode, &there.stat, value_differs, more) {
            Decision::Attributes(changes) if !changes.is_empty() && self.is_shared(entry, there) => {
                Decision::Contents(changes)
            }
            decision => decision,
        }
    }

    /// The existing file has other names, which the sender's hasn't: they would get its metadata too.
    fn is_shared(&self, entry: &Entry, there: &Occupant) -> bool {
        let is_linked = entry.extra.as_ref().is_some_and(|extra| extra.linked);
        let is_file = matches!(entry.kind, Kind::File { .. });
        is_file && self.shared.settings.keep.hard_links && !is_linked && there.stat.st_nlink > 1
    }

    /// One more name of a file is as it should be only where the first one stays, and both are the same file already.
    fn another_name(&self, entry: &Entry, source: u32, path: &RelPath, there: &Occupant) -> Decision {
        let first = self.judge.first_place(entry, source, path).ok();
        let kept = first.and_then(|first| self.shared.notes.first_names.get(&first));
        match kept == Some((there.stat.st_dev, there.stat.st_ino)) {
            true => Decision::Attributes(Changes::default()),
            false => Decision::New,
        }
    }

    fn contents_differ(
        &mut self,
        digest: Option<Digest>,
        size: u64,
        place: &RelPath,
        there: &Occupant,
    ) -> bool {
        if there.stat.st_size as u64 != size {
            return true;
        }
        let Some(theirs) = digest else { return true };
        let Ok(file) = open_existing(&there.parent, name(place), &there.stat) else { return true };
        !matches!(hash(file.as_fd(), 0, size, &mut self.buffer), Ok(Some(ours)) if ours == theirs)
    }

    fn act(
        &mut self,
        sync: &Sync,
        admitted: &Admitted<'_>,
        there: Option<&Occupant>,
        decision: Decision,
    ) -> Want {
        let (entry, place) = (admitted.entry(), admitted.place());
        let want = match (&decision, there) {
            (Decision::LeftAlone, _) => Want::LeftAlone,
            (Decision::New, None) => Want::Whole,
            (Decision::New, Some(there)) => {
                if let Err(why) = self.make_way(entry, place, there) {
                    self.tell(place, why);
                    return Want::Nothing;
                }
                Want::Whole
            }
            (Decision::Attributes(changes), Some(there)) => {
                if !sync.dry_run {
                    self.repaired(admitted, there, changes);
                }
                self.keeps_first_name(entry, place, there);
                self.proof(entry, place, there).unwrap_or(Want::Nothing)
            }
            (Decision::Contents(_), there) if !sync.dry_run => there
                .filter(|_| !sync.whole)
                .and_then(|there| self.differing(entry, place, there))
                .unwrap_or(Want::Whole),
            (Decision::Contents(_) | Decision::Attributes(_), _) => Want::Whole,
        };
        self.itemize(entry, &decision);
        self.count(entry, &want, sync.dry_run);
        want
    }

    fn count(&self, entry: &Entry, want: &Want, dry_run: bool) {
        let counters = self.shared.reports.counters;
        match want {
            Want::Nothing | Want::LeftAlone => counters.unchanged.entry(&entry.kind),
            Want::Digest => counters.unchanged.file(0),
            _ => {}
        }
        if matches!(want, Want::Nothing | Want::LeftAlone) || dry_run {
            counters.landed.entry(&entry.kind);
        }
    }

    fn itemize(&mut self, entry: &Entry, decision: &Decision) {
        let received = !self.remover.news.is_told_far_away();
        let shown = self.shown_kind(entry);
        let decision = if self.is_made_top(entry) { &Decision::New } else { decision };
        if let Some(item) = decision.item(&entry.kind, shown, received) {
            self.show(entry, item);
        }
    }

    fn show(&mut self, entry: &Entry, item: Item) {
        if item.is_unchanged() {
            return;
        }
        let link = match &entry.kind {
            Kind::Symlink { target } => Some(Link::Target(target.clone())),
            Kind::HardLink { source, path } => Some(Link::SameAs(self.named(*source, path))),
            _ => None,
        };
        if self.rules.sync.itemize && !self.is_top_again(entry) {
            let directory = entry.kind == Kind::Directory;
            self.remover.news.tell(change(item, self.shown_path(entry), directory, link));
        }
    }

    /// The destination, which was made for its entry: to its user, rsync makes it as the first of all.
    fn is_made_top(&self, entry: &Entry) -> bool {
        self.shared.ground.landing.is_made && entry.path.is_root() && entry.kind == Kind::Directory
    }

    /// A directory that several sources become was told of by the first of them.
    fn is_top_again(&self, entry: &Entry) -> bool {
        let places = &self.shared.ground.landing.places;
        let place = places.get(entry.source as usize).filter(|_| entry.path.is_root());
        place.is_some_and(|place| places[..entry.source as usize].contains(place))
    }

    /// One more name has the kind of the first one.
    fn shown_kind(&self, entry: &Entry) -> itemize::Kind {
        let kind = decide::shown(&entry.kind);
        if let Kind::HardLink { source, path } = &entry.kind {
            let first = self.judge.first_place(entry, *source, path).ok();
            return first.and_then(|first| self.linked.get(&first)).unwrap_or(kind);
        }
        if entry.extra.as_ref().is_some_and(|extra| extra.linked)
            && kind != itemize::Kind::File
            && let Ok(place) = self.judge.first_place(entry, entry.source, &entry.path)
        {
            self.linked.insert(&place, kind);
        }
        kind
    }

    /// A source that is a file is called by its own name.
    fn shown_path(&self, entry: &Entry) -> RelPath {
        let is_source = entry.path.is_root() && entry.kind != Kind::Directory;
        let source = self.shared.ground.sources.get(entry.source as usize).filter(|_| is_source);
        source.map_or_else(|| self.named(entry.source, &entry.path), |source| source.name.clone())
    }

    /// A path with its source's name, where sources keep theirs as with rsync.
    fn named(&self, source: u32, path: &RelPath) -> RelPath {
        let into = self.rules.sync.into;
        let source = self.shared.ground.sources.get(source as usize).filter(|_| into);
        source.map_or_else(|| path.clone(), |source| below(&source.name, path))
    }

    /// A large file that has changed; `None` where asking for all of it is better, or what is there can't be read.
    fn differing(&self, entry: &Entry, place: &RelPath, there: &Occupant) -> Option<Want> {
        let Kind::File { size } = entry.kind else { return None };
        let older = u64::try_from(there.stat.st_size).ok()?;
        let chunk = older::chunk_of(size, older, self.large)?;
        let file = open_existing(&there.parent, name(place), &there.stat).ok()?;
        let digests = older::digests(&file, chunk, size.min(older)).ok()?;
        let is_noted = self.shared.notes.older.note(place, there.stat, chunk, digests.len());
        is_noted.then_some(Want::Differing { chunk, digests })
    }

    /// Contents are equal, and the rest is made so; a directory's when everything below it is there.
    fn repaired(&self, admitted: &Admitted<'_>, there: &Occupant, changes: &Changes) {
        let (entry, place) = (admitted.entry(), admitted.place());
        if entry.kind == Kind::Directory {
            let more = changes.owner || changes.group || changes.acl || changes.xattrs;
            // An offer of it comes once.
            if let Err(error) = self.shared.keep_directory(admitted, false, !more) {
                self.tell(place, format!("noting what the directory gets failed: {error}"));
            }
            return;
        }
        if changes.is_empty() || matches!(entry.kind, Kind::HardLink { .. }) {
            return;
        }
        if let Err(error) = self.repair(entry, place, there, changes) {
            self.tell(place, format!("setting the mode or times of what is there failed: {error}"));
        }
    }

    fn repair(
        &self,
        entry: &Entry,
        place: &RelPath,
        there: &Occupant,
        changes: &Changes,
    ) -> Result<(), Errno> {
        lock(&self.shared.notes.changed).add_metadata(&there.parent);
        if changes.permissions || changes.owner || changes.group || changes.acl || changes.xattrs {
            let held = hold_existing(&there.parent, name(place), &there.stat)?;
            let is_link = matches!(entry.kind, Kind::Symlink { .. });
            let what = if is_link { MetadataTarget::Link } else { MetadataTarget::Existing };
            let mode = self.shared.settings.keep.perms.then(|| self.shared.settings.mode(entry));
            // A file that gets a new owner may lose bits of its mode.
            let mode = mode.or(Some(Mode::from_raw_mode(there.stat.st_mode & 0o7777)));
            for loss in self.shared.ground.writer.give(held.as_fd(), entry, mode, what) {
                let shown = self.shared.ground.landing.root.shown(place);
                (self.shared.reports.problem)(problem(shown, ProblemKind::NotKept, loss.message()));
            }
        }
        if changes.modified.is_some() {
            let times = crate::tree::temporary::timestamps(entry);
            rustix::fs::utimensat(&there.parent, name(place), &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Something of another kind has the entry's name. A rename replaces it, unless one of the two is a directory.
    fn make_way(&mut self, entry: &Entry, place: &RelPath, there: &Occupant) -> Result<(), String> {
        match (&entry.kind, there.kind()) {
            (Kind::Directory, FileType::Directory) => Ok(()),
            (_, FileType::Directory) => self.remover.make_way(&entry.path, place, &there.parent),
            (Kind::Directory, _) => self.remover.make_way_for_directory(place, &there.parent, name(place)),
            _ => Ok(()),
        }
    }

    fn tell(&self, place: &RelPath, message: String) {
        let shown = self.shared.ground.landing.root.shown(place);
        (self.shared.reports.problem)(problem(shown, ProblemKind::Failed, message));
    }
}

/// The path of what is at `path` below `top`.
pub fn below(top: &RelPath, path: &RelPath) -> RelPath {
    let parts = [top.as_bytes(), path.as_bytes()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    RelPath::new(parts.join(&b'/')).unwrap_or_else(|_| path.clone())
}

/// A change as it is reported.
pub fn change(item: Item, path: RelPath, directory: bool, link: Option<Link>) -> Change {
    let mut letters = [b' '; 11];
    letters.iter_mut().zip(item.to_string().bytes()).for_each(|(letter, byte)| *letter = byte);
    Change { item: letters, path, directory, link }
}

fn is_large(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::File { size } if older::chunk_of(size, size, 1).is_some())
}

/// True where the link that is there leads to `target`.
fn says(target: &[u8], place: &RelPath, there: &Occupant) -> bool {
    rustix::fs::readlinkat(&there.parent, name(place), Vec::new()).is_ok_and(|says| says.as_bytes() == target)
}

/// The top itself has no name, and is opened as `.`.
fn name(place: &RelPath) -> &OsStr {
    place.name().unwrap_or(OsStr::new("."))
}

fn breach(what: &str) -> TransferError {
    TransferError::Breach(format!("the far end breaks the protocol: {what}"))
}
