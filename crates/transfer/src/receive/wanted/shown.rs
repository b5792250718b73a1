//! Counts offered entries, and prints a line for each change.

use linerate_wire::control::{Change, EntryFacts, Link, Want};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;

use super::decide::{self, Decision};
use super::view::Occupant;
use super::{Comparer, LinkedFirst};
use crate::receive::land::{made_top, reports_made};
use crate::tree::itemize::{self, Item};
use crate::tree::reported::{below, reported_path};

impl Comparer<'_, '_> {
    pub(super) fn count(&self, entry: &Entry, want: &Want, dry_run: bool) {
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

    pub(super) fn itemize(&mut self, entry: &Entry, decision: &Decision) {
        let received = !self.remover.changes.is_reported_far_away();
        let shown = self.shown_kind(entry);
        let decision = if self.is_made_top(entry) { &Decision::New } else { decision };
        if let Some(item) = decision.item(&entry.kind, shown, received) {
            self.show(entry, item);
        }
    }

    pub(super) fn show(&mut self, entry: &Entry, item: Item) {
        if self.rules.sync.unchanged || !item.is_unchanged() {
            self.state(entry, item, false);
        }
    }

    /// Reports the change `item` of an entry; `relinked` is true if the entry becomes a further hard link.
    pub(super) fn state(&mut self, entry: &Entry, item: Item, relinked: bool) {
        let link = match &entry.kind {
            Kind::Symlink { target } => Some(Link::Target(self.as_sent(target))),
            Kind::HardLink { source, path } => Some(Link::SameAs(self.named(*source, path))),
            _ => None,
        };
        if self.rules.sync.itemize && !self.shared.ground.landing.has_earlier(entry) {
            let directory = entry.kind == Kind::Directory;
            // A further hard link that is already right is printed without its target.
            let stays = item.is_unchanged() && matches!(entry.kind, Kind::HardLink { .. }) && !relinked;
            let link = link.filter(|_| !stays);
            let change = change(item, self.shown_path(entry), directory, link);
            self.remover.changes.report(Change { facts: self.facts(entry), ..change });
        }
    }

    /// A link's text as the sender has it.
    pub(super) fn as_sent(&self, target: &[u8]) -> Vec<u8> {
        let conversion = self.shared.ground.landing.conversion;
        conversion.and_then(|conversion| conversion.back(target)).unwrap_or_else(|| target.to_vec())
    }

    /// Reports that an entry is skipped, and why. Entries inside a directory that isn't created aren't
    /// reported.
    pub(super) fn show_left(&mut self, entry: &Entry, place: &RelPath, there: Option<&Occupant>) {
        let is_asked = self.rules.sync.itemize && self.rules.sync.unchanged;
        let size = match entry.kind {
            Kind::File { size } => Some(size),
            _ => self.first_of(entry).map(|first| first.size),
        };
        let item = self.rules.why_left(size, there.map(|there| &there.stat));
        if !is_asked || item == Change::MISSING && !self.here.has_directory_of(place) {
            return;
        }
        let (path, directory) = (self.shown_path(entry), entry.kind == Kind::Directory);
        self.remover.changes.report(Change { item, path, directory, link: None, facts: self.facts(entry) });
    }

    /// The entry's properties for the printed line, if the user wants to see them.
    pub(super) fn facts(&self, entry: &Entry) -> Option<EntryFacts> {
        let size = match &entry.kind {
            Kind::File { size } => *size,
            Kind::HardLink { .. } => self.first_of(entry).map_or(0, |first| first.size),
            Kind::Symlink { target } => target.len() as u64,
            _ => 0,
        };
        let owner = entry.extra.as_ref().and_then(|extra| extra.owner.as_ref());
        let owner = owner.map(|owner| (owner.uid, owner.gid));
        let (mtime, mode) = (entry.mtime.seconds, entry.mode);
        self.rules.sync.facts.then_some(EntryFacts { size, mtime, mode, owner })
    }

    /// True for the destination's own entry, if the destination was created for it. rsync prints this entry
    /// before all others.
    pub(super) fn is_made_top(&self, entry: &Entry) -> bool {
        self.makes_top() && entry.path.is_root() && entry.kind == Kind::Directory
    }

    /// True if the destination was created, and its creation is reported together with the entries. If the command may
    /// create missing parents too, the creation is reported before the entries, together with that of the parents.
    pub(super) fn makes_top(&self) -> bool {
        self.shared.ground.landing.is_made && (!self.rules.sync.make_path || self.rules.sync.dry_run)
    }

    /// Reports that the destination is created, before the first of its entries, if the destination was written
    /// without a slash at its end. As with rsync, a destination for a single entry isn't reported.
    pub(super) fn report_made_top(&mut self, more: usize) {
        let before = self.offered;
        self.offered = (before + more).min(2);
        let landing = self.shared.ground.landing;
        let is_reported = before < 2 && self.offered == 2 && !landing.has_slash;
        if is_reported && reports_made(landing, &self.rules.sync) {
            self.remover.changes.report(made_top());
        }
    }

    /// The kind that is printed for an entry; for a further hard link, the kind of the first name.
    pub(super) fn shown_kind(&self, entry: &Entry) -> itemize::Kind {
        let kind = decide::shown(&entry.kind);
        if matches!(entry.kind, Kind::HardLink { .. }) {
            return self.first_of(entry).map_or(kind, |first| first.kind);
        }
        self.note_first(entry, kind, false);
        kind
    }

    /// Records an entry to which later entries may be hard links.
    pub(super) fn note_first(&self, entry: &Entry, kind: itemize::Kind, is_elsewhere: bool) {
        if entry.extra.as_ref().is_some_and(|extra| extra.linked)
            && let Ok(place) = self.judge.first_place(entry, entry.source, &entry.path)
        {
            let size = match &entry.kind {
                Kind::File { size } => *size,
                Kind::Symlink { target } => target.len() as u64,
                _ => 0,
            };
            self.linked.insert(&place, LinkedFirst { kind, size, is_elsewhere });
        }
    }

    /// The first name of the file to which `entry` is a further hard link, if it is known.
    pub(super) fn first_of(&self, entry: &Entry) -> Option<LinkedFirst> {
        let Kind::HardLink { source, path } = &entry.kind else { return None };
        self.linked.get(&self.judge.first_place(entry, *source, path).ok()?)
    }

    /// The path to print. A source that is a file is printed with its own name.
    pub(super) fn shown_path(&self, entry: &Entry) -> RelPath {
        reported_path(self.shared.ground.sources, entry, self.rules.sync.into)
    }

    /// The path with its source's name before it, if sources keep their names as with rsync; otherwise the
    /// path itself.
    pub(super) fn named(&self, source: u32, path: &RelPath) -> RelPath {
        let into = self.rules.sync.into;
        let source = self.shared.ground.sources.get(source as usize).filter(|_| into);
        source.map_or_else(|| path.clone(), |source| below(&source.name, path))
    }
}

/// A change for the report.
pub fn change(item: Item, path: RelPath, directory: bool, link: Option<Link>) -> Change {
    let mut letters = [b' '; 11];
    letters.iter_mut().zip(item.to_string().bytes()).for_each(|(letter, byte)| *letter = byte);
    Change { item: letters, path, directory, link, facts: None }
}
