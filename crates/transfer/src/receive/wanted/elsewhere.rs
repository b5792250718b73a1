//! Other trees at the receiver that may have entries that the destination lacks: `--compare-dest`,
//! `--copy-dest`, `--link-dest`.

use linerate_wire::control::{Digest, OtherUse, Sync, Want};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::decide::{Decision, is_same_kind};
use super::existing::{hold_existing, open_existing};
use super::view::{Occupant, View};
use super::{Comparer, name};
use crate::receive::admission::Admitted;
use crate::receive::reception::Reception;
use crate::receive::sink::ReceiveWorker;
use crate::tree::identity::identity;
use crate::tree::itemize::{Changes, Item, Time, Update};

/// Looks for entries in the other trees, and takes them from there.
pub struct Elsewhere<'a> {
    views: Vec<View<'a>>,
    used: OtherUse,
    worker: ReceiveWorker<'a>,
}

impl<'a> Elsewhere<'a> {
    /// The other trees that `sync` requests; `None` if there are none.
    pub fn new(shared: &'a Reception<'a>, sync: &Sync) -> Option<Self> {
        let views: Vec<_> = {
            let view = |root| View::new(root, shared.ground.writer);
            shared.ground.near.others.iter().map(view).collect()
        };
        let used = sync.others.as_ref().filter(|_| !views.is_empty())?.used;
        Some(Self { views, used, worker: ReceiveWorker::new(shared) })
    }

    /// How entries of the other trees are used.
    pub fn used(&self) -> OtherUse {
        self.used
    }

    /// The number of other trees.
    pub fn number(&self) -> usize {
        self.views.len()
    }

    /// The entry at `place` in the tree with this number.
    pub fn look(&mut self, number: usize, place: &RelPath) -> Option<Occupant> {
        self.views[number].look(place)
    }

    /// Passes the copied files to the committer.
    pub fn finish(&mut self) {
        self.worker.hand_over();
    }

    /// Creates an entry at its place: a copy of the entry `there` of another tree if `copied` is set, otherwise a hard
    /// link to `there`.
    fn bring(&mut self, admitted: &Admitted<'_>, there: &Occupant, copied: bool) -> Result<(), Errno> {
        let name = name(admitted.place());
        if copied {
            let file = open_existing(&there.parent, name, &there.stat)?;
            return self.worker.copy_from(admitted, &file);
        }
        self.worker.link_from(admitted.place(), &hold_existing(&there.parent, name, &there.stat)?)
    }

    /// Replaces the entry at its place by a hard link to the entry `there` of another tree.
    fn replace(&mut self, admitted: &Admitted<'_>, there: &Occupant) -> Result<(), Errno> {
        let held = hold_existing(&there.parent, name(admitted.place()), &there.stat)?;
        self.worker.relink_from(admitted.place(), &held)
    }
}

impl Comparer<'_, '_> {
    /// The answer for an entry that another tree has; `None` if no other tree has it, so that it is requested
    /// from the sender.
    pub(super) fn elsewhere(&mut self, admitted: &Admitted<'_>, digest: Option<Digest>) -> Option<Want> {
        let entry = admitted.entry();
        if self.first_of(entry).is_some_and(|first| first.is_elsewhere)
            && self.relinked(entry, &Decision::New, None).is_some()
        {
            self.count(entry, &Want::LeftAlone, self.rules.sync.dry_run);
            let unchanged = Item::Existing(Update::Attributes, self.shown_kind(entry), Changes::default());
            self.show(entry, unchanged);
            return Some(Want::LeftAlone);
        }
        let (there, decision) = self.found_elsewhere(admitted, digest)?;
        let used = self.elsewhere.as_ref()?.used;
        let Decision::Attributes(changes) = decision else {
            // The printed changes are those between the other tree's entry and the sender's.
            self.itemize(entry, &decision);
            return Some(self.comes_whole(entry));
        };
        let is_same = changes.is_empty();
        if entry.kind == Kind::Directory {
            self.show_as_local(entry, changes, Update::Local);
            return Some(self.comes_whole(entry));
        }
        if is_same && used == OtherUse::Compare {
            return Some(self.stays_elsewhere(entry));
        }
        let copied = !is_same || used == OtherUse::Copy;
        let is_file = matches!(entry.kind, Kind::File { .. });
        // With digests, a copied file would have to be verified with the sender's digest, which isn't known.
        let can_be_brought = !self.shared.settings.digests && (is_file || !copied);
        if can_be_brought && !self.rules.sync.dry_run {
            self.elsewhere.as_mut()?.bring(admitted, &there, copied).ok()?;
        }
        match copied {
            true => self.show_as_local(entry, self.made_anew(entry, changes), Update::Local),
            false => self.show_as_local(entry, changes, Update::HardLink),
        }
        Some(if can_be_brought { self.brought(admitted, &there, copied) } else { self.comes_whole(entry) })
    }

    /// The answer for a file that exists at the destination, and that another tree has with the right contents and
    /// properties: it becomes a hard link to the other tree's file, or is removed with `--compare-dest`. Otherwise `None`.
    pub(super) fn exact_elsewhere(
        &mut self,
        admitted: &Admitted<'_>,
        digest: Option<Digest>,
        existing: &Occupant,
    ) -> Option<Want> {
        let (entry, used) = (admitted.entry(), self.elsewhere.as_ref()?.used);
        let are_files = matches!(entry.kind, Kind::File { .. }) && existing.kind() == FileType::RegularFile;
        if !are_files || used == OtherUse::Copy || self.shared.settings.digests {
            return None;
        }
        let (there, decision) = self.found_elsewhere(admitted, digest)?;
        if !decision.is_unchanged() || identity(&there.stat) == identity(&existing.stat) {
            return None;
        }
        let acts = !self.rules.sync.dry_run;
        if used == OtherUse::Compare {
            let gone = || rustix::fs::unlinkat(&existing.parent, name(admitted.place()), AtFlags::empty());
            if acts && gone().is_err() {
                return None;
            }
            return Some(self.stays_elsewhere(entry));
        }
        if acts {
            self.elsewhere.as_mut()?.replace(admitted, &there).ok()?;
        }
        self.show_as_local(entry, Changes::default(), Update::HardLink);
        Some(self.brought(admitted, &there, false))
    }

    /// The answer for an entry that isn't created, because a tree of `--compare-dest` has it.
    fn stays_elsewhere(&mut self, entry: &Entry) -> Want {
        self.show_as_local(entry, Changes::default(), Update::Attributes);
        self.note_first(entry, self.shown_kind(entry), true);
        self.count(entry, &Want::LeftAlone, self.rules.sync.dry_run);
        Want::LeftAlone
    }

    /// The changes to print for an entry that is made with the contents of another tree's entry: as with rsync, the
    /// value of a link or special file counts as changed, and a time that isn't kept counts as changed too.
    fn made_anew(&self, entry: &Entry, changes: Changes) -> Changes {
        let (is_file, keep) = (matches!(entry.kind, Kind::File { .. }), self.rules.keep);
        if matches!(entry.kind, Kind::HardLink { .. }) || changes.is_empty() && !is_file {
            return changes;
        }
        let anew = if keep.times { Time::Kept } else { Time::OfTransfer };
        let modified = if keep.times_of(&entry.kind) { changes.modified } else { Some(anew) };
        Changes { value: !is_file, modified, ..changes }
    }

    /// Counts an entry that is taken from another tree, as a copy or as a hard link.
    fn brought(&mut self, admitted: &Admitted<'_>, there: &Occupant, copied: bool) -> Want {
        let entry = admitted.entry();
        if !copied {
            self.keeps_first_name(entry, admitted.place(), there);
        }
        let counters = self.shared.reports.counters;
        counters.unchanged.entry(&entry.kind);
        // A copied file is counted later, when it gets its name.
        if !copied || self.rules.sync.dry_run {
            counters.landed.entry(&entry.kind);
        }
        Want::Nothing
    }

    /// The entry of this name in the first other tree that has one, with `--compare-dest` or `--copy-dest`; otherwise
    /// `None`.
    pub(super) fn another_tree_s(&mut self, entry: &Entry) -> Option<Occupant> {
        let place = self.named(entry.source, &entry.path);
        let elsewhere = self.elsewhere.as_mut().filter(|elsewhere| elsewhere.used != OtherUse::Link)?;
        elsewhere.views.iter_mut().find_map(|view| view.look(&place))
    }

    /// The best entry in other trees: from the first tree that has the entry unchanged, else from the first
    /// that has its contents, else from the first that has a file of that name.
    pub(super) fn found_elsewhere(
        &mut self,
        admitted: &Admitted<'_>,
        digest: Option<Digest>,
    ) -> Option<(Occupant, Decision)> {
        let entry = admitted.entry();
        // With `--link-dest`, a further hard link may be in the other tree too.
        if matches!(entry.kind, Kind::HardLink { .. }) && self.elsewhere.as_ref()?.used != OtherUse::Link {
            return None;
        }
        // The path is relative to the destination even if the destination isn't created.
        let place = self.named(entry.source, &entry.path);
        let mut best: Option<(u8, Occupant, Decision)> = None;
        for number in 0..self.elsewhere.as_ref()?.views.len() {
            let there = self.elsewhere.as_mut()?.views[number].look(&place);
            let Some(there) = there.filter(|there| is_same_kind(&entry.kind, there.kind())) else { continue };
            let decision = self.compare(admitted, digest, &there);
            let rank = match decision {
                decision if decision.is_unchanged() => return Some((there, decision)),
                Decision::Attributes(_) => 2,
                Decision::Contents(_) => 1,
                _ => continue,
            };
            if best.as_ref().is_none_or(|(before, ..)| *before < rank) {
                best = Some((rank, there, decision));
            }
        }
        best.map(|(_, there, decision)| (there, decision))
    }

    fn comes_whole(&self, entry: &Entry) -> Want {
        self.count(entry, &Want::Whole, self.rules.sync.dry_run);
        Want::Whole
    }

    /// Prints an entry that is taken from another tree. An entry that is unchanged there is printed only if
    /// the user wants to see unchanged entries too.
    fn show_as_local(&mut self, entry: &Entry, changes: Changes, update: Update) {
        let shown = self.shown_kind(entry);
        if !changes.is_empty() || self.rules.sync.unchanged {
            let relinked = matches!(entry.kind, Kind::HardLink { .. });
            self.state(entry, Item::Existing(update, shown, changes), relinked);
        }
    }
}
