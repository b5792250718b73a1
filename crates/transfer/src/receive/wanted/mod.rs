//! Answers the sender's offers: states which entries, or which of their bytes, the destination lacks.

mod appended;
mod blocks;
mod comparison;
mod decide;
mod delta;
mod divided_offer;
mod elsewhere;
mod existing;
mod linked_names;
mod offered_names;
mod older_version;
mod repair;
mod shown;
mod similar;
mod times;
mod view;

use crossbeam_channel::Receiver;
use linerate_wire::control::{BlockSearch, Digest, MAX_OFFERS, Message, Offered, ProblemKind, Sync, Want};
use linerate_wire::entry::{Entry, Kind, Origin};
use linerate_wire::path::RelPath;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::sync::Arc;

use crate::base::problem::{TransferError, problem};
use crate::net::channel::{Channel, Room};
use crate::receive::admission::{Admitted, Judge};
use crate::receive::reception::{Reception, Settings};
use crate::receive::remove::Remover;
use crate::receive::resume;
use crate::receive::sink::{FIRST_NAMES, ReceiveWorker};
use crate::tree::itemize::{self, Item};
use crate::tree::metadata::compare::Comparing;
use crate::tree::own_files;
use crate::tree::places::{Places, Recent};
use crate::tree::safe_link::leads_out;
use crate::tree::stamp::ctime;
pub use decide::is_left_alone;
use decide::{Decision, Rules};
use delta::DeltaBounds;
use elsewhere::Elsewhere;
pub use existing::open_existing;
use linked_names::{FurtherNames, further_names};
use offered_names::NameOf;
pub use offered_names::Offered as OfferedNames;
pub use shown::change;
use similar::Similar;
pub use times::same_time;
use view::{Occupant, View};

const OBSTRUCTED: &str = "the contents of this directory are left out, because an existing entry that isn't a directory has its name or that of a directory above it";

/// Compares offered entries with existing entries.
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
    similar: Similar,
    buffer: Vec<u8>,
    /// The number of files in the current offer that may be compared in chunks.
    large: u64,
    /// The number of entries offered so far, but at most 2.
    offered: usize,
    /// The size limits for comparing files in chunks.
    bounds: DeltaBounds,
    /// First names of files, by their places.
    linked: Places<LinkedFirst>,
    /// The further names in the current offer.
    further: FurtherNames,
    /// Links first names to further ones.
    linker: Option<ReceiveWorker<'b>>,
    /// The last directory whose contents were reported as left out, because another entry has its name.
    obstructed: Option<RelPath>,
}

/// The first name of a file; later entries may be further hard links to it.
#[derive(Clone, Copy)]
struct LinkedFirst {
    kind: itemize::Kind,
    /// The file's size in bytes.
    size: u64,
    /// True if the file isn't created at the destination, because another tree has it.
    is_elsewhere: bool,
}

/// Entries that the sender offers, and the reservation of memory for their message, which lasts until the entries are
/// answered.
pub type Offer = (Vec<Offered>, Option<Room>);

impl<'a, 'b> Comparer<'a, 'b> {
    /// A comparer that sends its answers on `channel`. Without `sync`, it requests everything except entries
    /// that an earlier run has received according to the journal.
    pub fn new(
        shared: &'b Reception<'a>,
        sync: Option<&'b Sync>,
        channel: Arc<Channel>,
        remover: Remover<'b>,
    ) -> Self {
        let settings = &shared.settings;
        let (sync_rules, keep, atimes) = (sync.cloned().unwrap_or_default(), settings.keep, settings.atimes);
        let rules = Rules { sync: sync_rules, keep, atimes, executability: settings.executability };
        let (names, comparing) = (OfferedNames::default(), Comparing::new(keep, shared.ground.writer));
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
            here: View::new(&shared.ground.landing.root, shared.ground.writer),
            elsewhere: sync.and_then(|sync| Elsewhere::new(shared, sync)),
            similar: Similar::default(),
            buffer: Vec::new(),
            large: 0,
            offered: 0,
            bounds: delta_bounds(sync, settings),
            linked: Places::new(FIRST_NAMES),
            further: FurtherNames::default(),
            obstructed: None,
            linker: None,
        }
    }

    /// Answers offers until all were answered; returns the offered names and the remover.
    ///
    /// # Errors
    /// If the sender is gone, or offers an entry that it may not offer.
    pub fn run(mut self, offers: &Receiver<Offer>) -> Result<(OfferedNames, Remover<'b>), TransferError> {
        for (offered, _room) in offers {
            self.report_made_top(offered.len());
            if offered.len() > MAX_OFFERS {
                return Err(breach("it offers too many entries at once"));
            }
            // All names are checked together before any system call, because system calls would push the data that the
            // check needs out of the processor's cache.
            if !offered.iter().all(|Offered { entry, .. }| self.recent.is_new(entry.source, &entry.path)) {
                return Err(breach("it offers a path twice"));
            }
            self.large =
                offered.iter().filter(|offered| is_large(self.bounds, &offered.entry)).count() as u64;
            self.further = self.sync.map_or_else(FurtherNames::new, |_| further_names(&offered));
            let wants = offered.iter().map(|offered| self.want(offered)).collect::<Result<_, _>>()?;
            self.remover.changes.flush();
            let sent = self.channel.send(&Message::Wanted(wants));
            sent.map_err(|error| TransferError::FarEnd(error.to_string()))?;
        }
        self.elsewhere.iter_mut().for_each(Elsewhere::finish);
        // If several sources land in one directory, the same name may be offered several times.
        if !self.names.sort() && !self.sync.is_some_and(|sync| sync.into) {
            return Err(breach("it offers a path twice"));
        }
        Ok((self.names, self.remover))
    }

    fn want(&mut self, offered: &Offered) -> Result<Want, TransferError> {
        let Offered { ref entry, inode, ctime, digest, whole } = *offered;
        let first = self.first_of(entry).map_or(0, |first| first.size);
        self.shared.reports.counters.found.further(&entry.kind, first);
        if self.is_mere_name(entry) {
            return self.keep_name(entry);
        }
        let admitted = self.judge.admit(Cow::Borrowed(entry));
        let admitted = admitted.map_err(|refused| breach(&refused.to_string()))?;
        let (entry, place) = (admitted.entry(), admitted.place());
        self.remember_whole(entry, place, whole)?;
        if entry.kind == Kind::Directory && entry.path.is_root() {
            self.remover.sources.offer(Origin { inode, ctime });
        }
        if let Some(want) = self.uncompared(&admitted, digest, Origin { inode, ctime }) {
            return Ok(want);
        }
        let Some(sync) = self.sync else { return Ok(Want::Whole) };
        let there = self.look_for(entry, place);
        let decision = self.decision(&admitted, digest, Origin { inode, ctime }, there.as_ref());
        if let Some(want) = self.appended(&admitted, there.as_ref(), &decision) {
            return Ok(want);
        }
        let is_missing = decision == Decision::New && (there.is_none() || self.is_made_top(entry));
        let elsewhere = match &there {
            _ if is_missing => {
                self.linked_to_further(&admitted, digest).or_else(|| self.elsewhere(&admitted, digest))
            }
            Some(there) if decision != Decision::LeftAlone => self.exact_elsewhere(&admitted, digest, there),
            _ => None,
        };
        if let Some(want) = elsewhere {
            return Ok(want);
        }
        Ok(self.act(sync, &admitted, there.as_ref(), decision))
    }

    /// The decision about an entry, at whose place the entry `there` exists.
    fn decision(
        &mut self,
        admitted: &Admitted<'_>,
        digest: Option<Digest>,
        origin: Origin,
        there: Option<&Occupant>,
    ) -> Decision {
        let (entry, place) = (admitted.entry(), admitted.place());
        let ignores = self.rules.sync.ignore_existing;
        match there {
            _ if self.first_of(entry).is_some_and(|first| self.rules.has_other_size(first.size)) => {
                Decision::LeftAlone
            }
            Some(there) if self.is_the_only_one(admitted, origin, there) => Decision::LeftAlone,
            Some(_) if self.is_made_top(entry) => Decision::New,
            Some(there) => self.decide(admitted, digest, there),
            None if ignores && self.is_under_something_else(place) => {
                self.report_obstruction(place);
                Decision::LeftAlone
            }
            None => self.rules.missing(entry),
        }
    }

    /// The answer for an entry that needs no comparison with an existing one: this command itself writes a
    /// file at its place, the file is divided, or an earlier run has received the file or a part of it.
    fn uncompared(
        &mut self,
        admitted: &Admitted<'_>,
        digest: Option<Digest>,
        origin: Origin,
    ) -> Option<Want> {
        if let Some(option) = self.shared.own_file(admitted.place()) {
            self.report(admitted.place(), own_files::refusal(option));
            return Some(Want::Nothing);
        }
        if let Some(want) = self.divided(admitted, digest, origin) {
            return Some(want);
        }
        let past = self.shared.ground.past?;
        Some(match resume::want(self.shared, past, admitted, origin)? {
            Want::Nothing => self.done(admitted.entry(), admitted.place()),
            want => want,
        })
    }

    /// True if only the name of the entry was offered, because the command doesn't keep entries of this kind. A sender
    /// offers such names so that nothing with these names is deleted. If the sources land under their own names, as
    /// with rsync, these entries are also counted.
    fn is_mere_name(&self, entry: &Entry) -> bool {
        let Settings { keep, no_links, safe_links, .. } = self.shared.settings;
        let is_kept = match &entry.kind {
            Kind::Symlink { target } if safe_links && self.leads_out(entry, target) => false,
            Kind::Symlink { .. } => !no_links,
            Kind::Fifo | Kind::Socket => keep.specials,
            // A device with the numbers 0 and 0 stands for a device of which only the name is offered.
            Kind::Device { major, minor, .. } => keep.devices || (*major, *minor) != (0, 0),
            Kind::File { .. } | Kind::Directory | Kind::HardLink { .. } => true,
        };
        !is_kept && self.sync.is_some()
    }

    fn leads_out(&self, entry: &Entry, target: &[u8]) -> bool {
        let place = self.shared.ground.landing.place(entry);
        place.is_some_and(|place| leads_out(self.shared.ground.terms.seen(&place, &entry.path), target))
    }

    fn keep_name(&mut self, entry: &Entry) -> Result<Want, TransferError> {
        let place = self.shared.ground.landing.place(entry);
        let place =
            place.ok_or_else(|| breach("it names an entry that doesn't belong to an announced source"))?;
        self.remember(&place, NameOf::Other)?;
        if self.rules.sync.into {
            self.count(entry, &Want::LeftAlone, self.rules.sync.dry_run);
        }
        Ok(Want::LeftAlone)
    }

    /// Looks up the existing entry at an entry's place, before anything lands there.
    fn look_for(&mut self, entry: &Entry, place: &RelPath) -> Option<Occupant> {
        let there = self.here.look_for(entry, place)?;
        if entry.kind == Kind::Directory {
            self.remover.sources.notice(&there.stat);
        }
        Some(there)
    }

    /// Remembers the offered name of an entry; `whole` is true if everything in a directory is offered.
    fn remember_whole(&mut self, entry: &Entry, place: &RelPath, whole: bool) -> Result<(), TransferError> {
        let name = match entry.kind {
            Kind::Directory if whole && self.judge.may_clear(entry) => NameOf::WholeDirectory,
            Kind::Directory => NameOf::Directory,
            _ => NameOf::Other,
        };
        self.remember(place, name)
    }

    /// Remembers an offered name, so that the entry isn't deleted.
    fn remember(&mut self, place: &RelPath, name: NameOf) -> Result<(), TransferError> {
        if self.sync.is_some_and(|sync| sync.delete) && !self.names.add(place, name) {
            return Err(breach("it offers more entries than --delete can remember"));
        }
        Ok(())
    }

    /// The answer for an entry that an earlier run completed.
    fn done(&mut self, entry: &Entry, place: &RelPath) -> Want {
        let Some(there) = self.here.look_for(entry, place) else { return Want::Whole };
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

    /// With digests, the answer for a file that stays unchanged: its digest is requested from the sender, so that the
    /// file can be verified like a received one. A file that can't be read is requested again. `None` without digests,
    /// in a dry run, and for an entry that has no digest.
    fn proof(&self, entry: &Entry, place: &RelPath, there: &Occupant) -> Option<Want> {
        match entry.kind {
            _ if !self.shared.settings.digests || self.shared.settings.dry_run => None,
            Kind::File { .. } if open_existing(&there.parent, name(place), &there.stat).is_ok() => {
                // If too many files are already waiting for their digests, the whole file is requested.
                let waits = self.shared.notes.standing.insert(place, there.stat);
                Some(if waits { Want::Digest } else { Want::Whole })
            }
            // The whole entry is requested again; a further hard link is then reported as `SameAs` its first
            // name.
            Kind::File { .. } | Kind::HardLink { .. } => Some(Want::Whole),
            _ => None,
        }
    }

    /// Remembers an unchanged file to which further hard links may follow.
    fn keeps_first_name(&self, entry: &Entry, place: &RelPath, there: &Occupant) {
        if entry.extra.as_ref().is_some_and(|extra| extra.linked) {
            let file = (there.stat.st_dev, there.stat.st_ino);
            self.shared.notes.first_names.insert(place, file);
        }
    }

    /// True if the existing entry is the sender's own entry, reached by another mount or path: its inode
    /// number and change time are the same. Such an entry is answered so that the sender doesn't remove it as
    /// a source.
    fn is_the_only_one(&self, admitted: &Admitted<'_>, origin: Origin, there: &Occupant) -> bool {
        if !self.shared.settings.removes_sources || admitted.entry().kind == Kind::Directory {
            return false;
        }
        let is_it = origin == Origin { inode: there.stat.st_ino, ctime: ctime(&there.stat) };
        if is_it {
            let names =
                if there.stat.st_nlink > 1 { "perhaps under two names" } else { "which has only one name" };
            let why =
                format!("source and destination are the same file, {names}, so the source isn't removed");
            self.report(admitted.place(), why);
        }
        is_it
    }

    /// True if an entry that isn't a directory, and that stays, has the name of a directory above `place`.
    fn is_under_something_else(&self, place: &RelPath) -> bool {
        let parent = place.parent().unwrap_or_default();
        matches!(self.shared.ground.landing.root.directory(&parent), Err(Errno::NOTDIR | Errno::LOOP))
    }

    /// Reports, once for each directory, that its contents are left out.
    fn report_obstruction(&mut self, place: &RelPath) {
        let parent = place.parent().unwrap_or_default();
        if self.obstructed.as_ref() != Some(&parent) {
            self.report(&parent, OBSTRUCTED.into());
            self.obstructed = Some(parent);
        }
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
            (Decision::LeftAlone, _) => {
                self.note_first(entry, decide::shown(&entry.kind), false);
                self.show_left(entry, place, there);
                Want::LeftAlone
            }
            (Decision::New, None) if !sync.dry_run && !sync.whole => {
                self.pieces(sync, entry, place, None).unwrap_or(Want::Whole)
            }
            (Decision::New, None) => Want::Whole,
            (Decision::New, Some(there)) => {
                if let Err(why) = self.make_way(entry, place, there) {
                    self.report(place, why);
                    return Want::Nothing;
                }
                Want::Whole
            }
            (Decision::Attributes(changes), Some(there)) => {
                if !sync.dry_run {
                    self.repaired(admitted, there, changes);
                    self.clear_partial(entry, place, there);
                }
                self.keeps_first_name(entry, place, there);
                self.proof(entry, place, there).unwrap_or(Want::Nothing)
            }
            (Decision::Contents(_), there) if !sync.dry_run && !sync.whole => {
                self.pieces(sync, entry, place, there).unwrap_or(Want::Whole)
            }
            (Decision::Contents(_) | Decision::Attributes(_), _) => Want::Whole,
        };
        match self.relinked(entry, &decision, there) {
            Some(item) => self.state(entry, item, true),
            None => self.itemize(entry, &decision),
        }
        self.count(entry, &want, sync.dry_run);
        want
    }

    /// The change to print if an entry becomes a further hard link. This requires that the existing entry,
    /// here or in another tree, has the kind of the first name.
    fn relinked(&mut self, entry: &Entry, decision: &Decision, there: Option<&Occupant>) -> Option<Item> {
        let LinkedFirst { kind, size, .. } = self.first_of(entry).filter(|_| *decision == Decision::New)?;
        let mode = self.shared.settings.mode(entry);
        let changes = |rules: &Rules, there: &Occupant| {
            let is_same = itemize::Kind::of(there.kind()) == Some(kind);
            is_same.then(|| rules.relinked(entry, mode, size, &there.stat))
        };
        let changes = match there {
            Some(there) => changes(&self.rules, there)?,
            None => {
                let there = self.another_tree_s(entry)?;
                let changes = changes(&self.rules, &there)?;
                Some(changes).filter(|changes| !changes.size && changes.modified.is_none())?
            }
        };
        Some(Item::Existing(itemize::Update::HardLink, kind, changes))
    }

    /// Removes an existing entry of another kind that has the name of `entry`. This isn't necessary if a rename can
    /// replace the existing entry, that is, if neither of the two entries is a directory.
    fn make_way(&mut self, entry: &Entry, place: &RelPath, there: &Occupant) -> Result<(), String> {
        match (&entry.kind, there.kind()) {
            (Kind::Directory, FileType::Directory) => Ok(()),
            (_, FileType::Directory) => self.remover.make_way(&entry.path, place, &there.parent),
            (Kind::Directory, _) => self.remover.make_way_for_directory(place, &there.parent, name(place)),
            _ => Ok(()),
        }
    }

    fn report(&self, place: &RelPath, message: String) {
        let shown = self.shared.ground.landing.root.shown(place);
        (self.shared.reports.problem)(problem(shown, ProblemKind::Failed, message));
    }
}

/// The size limits for comparisons. If the user requests the search for pieces, or for files of similar names, small
/// files are compared too. Files that are changed in place are compared only at the same offsets, with the usual
/// limits.
fn delta_bounds(sync: Option<&Sync>, settings: &Settings) -> DeltaBounds {
    let is_named = sync.is_some_and(|sync| sync.search == BlockSearch::Everywhere) || settings.fuzzy > 0;
    if is_named && !settings.inplace { DeltaBounds::SMALL } else { DeltaBounds::USUAL }
}

fn is_large(bounds: DeltaBounds, entry: &Entry) -> bool {
    matches!(entry.kind, Kind::File { size } if delta::chunk_of(bounds, size, size, 1).is_some())
}

/// The name by which a place is opened in its directory. The top has no name there, and is opened as `.`.
fn name(place: &RelPath) -> &OsStr {
    place.name().unwrap_or(OsStr::new("."))
}

fn breach(what: &str) -> TransferError {
    TransferError::Breach(format!("the far end breaks the protocol: {what}"))
}
