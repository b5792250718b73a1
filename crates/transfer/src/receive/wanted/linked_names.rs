//! A file with several names (`--hard-links`) that is new under its first name but exists under a further one: it isn't
//! requested, but becomes a hard link to the existing file.

use linerate_wire::control::{Digest, Offered, OtherUse, Want};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use std::borrow::Cow;
use std::collections::HashMap;

use super::decide;
use super::existing::hold_existing;
use super::view::Occupant;
use super::{Comparer, name};
use crate::receive::admission::Admitted;
use crate::receive::sink::ReceiveWorker;
use crate::tree::itemize::{Item, Update};

/// The further names in an offer, by the first names of their files. A name is the number of a source and a path.
pub type FurtherNames = HashMap<(u32, RelPath), Vec<(u32, RelPath)>>;

/// The further names of files whose first names are in the same offer.
pub fn further_names(offered: &[Offered]) -> FurtherNames {
    let mut found = FurtherNames::new();
    for Offered { entry, .. } in offered {
        if let Kind::HardLink { source, path } = &entry.kind {
            let names = found.entry((*source, path.clone())).or_default();
            names.push((entry.source, entry.path.clone()));
        }
    }
    found
}

impl Comparer<'_, '_> {
    /// The answer for a file that doesn't exist under its first name, if it exists unchanged under a further name, at the
    /// destination or in a tree of `--link-dest`; otherwise `None`.
    pub(super) fn linked_to_further(
        &mut self,
        admitted: &Admitted<'_>,
        digest: Option<Digest>,
    ) -> Option<Want> {
        let entry = admitted.entry();
        if !matches!(entry.kind, Kind::File { .. }) || self.shared.settings.digests {
            return None;
        }
        let names = self.further.get(&(entry.source, entry.path.clone()))?.clone();
        if self.found_elsewhere(admitted, digest).is_some_and(|(_, decision)| decision.is_unchanged()) {
            return None;
        }
        let (named, there) = names.into_iter().find_map(|named| {
            let there = self.unchanged_as(entry, &named, digest)?;
            Some((named, there))
        })?;
        if !self.rules.sync.dry_run {
            let kept = self.judge.first_place(entry, named.0, &named.1).ok()?;
            let held = hold_existing(&there.parent, name(&kept), &there.stat).ok()?;
            let linker = self.linker.get_or_insert_with(|| ReceiveWorker::new(self.shared));
            linker.link_from(admitted.place(), &held).ok()?;
        }
        self.keeps_first_name(entry, admitted.place(), &there);
        self.note_first(entry, decide::shown(&entry.kind), false);
        let kind = Kind::HardLink { source: named.0, path: named.1 };
        let further = Entry { kind, extra: None, ..entry.clone() };
        self.state(&further, Item::New(Update::HardLink, decide::shown(&entry.kind)), true);
        self.count(entry, &Want::LeftAlone, true);
        Some(Want::Nothing)
    }

    /// The existing file under the further name `named`, if it has the contents and properties of `entry`.
    fn unchanged_as(
        &mut self,
        entry: &Entry,
        named: &(u32, RelPath),
        digest: Option<Digest>,
    ) -> Option<Occupant> {
        let stand_in = Entry { source: named.0, path: named.1.clone(), ..entry.clone() };
        let admitted = self.judge.admit(Cow::Owned(stand_in)).ok()?;
        let others = self.elsewhere.as_ref().filter(|elsewhere| elsewhere.used() == OtherUse::Link);
        let trees = others.map_or(0, |elsewhere| elsewhere.number());
        if let Some(there) = self.here.look(admitted.place())
            && self.decide(&admitted, digest, &there).is_unchanged()
        {
            return Some(there);
        }
        (0..trees).find_map(|number| {
            let place = self.named(named.0, &named.1);
            let there = self.elsewhere.as_mut()?.look(number, &place)?;
            let is_file = decide::is_same_kind(&entry.kind, there.kind());
            (is_file && self.compare(&admitted, digest, &there).is_unchanged()).then_some(there)
        })
    }
}
