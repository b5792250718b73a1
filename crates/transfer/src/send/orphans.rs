//! If the receiver skips a file's first name, the first further name that it requests is sent as the file itself.

use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use std::collections::HashMap;

use crate::tree::scan::Seen;

/// Files whose first name the receiver skips, by that name as the scan found it.
#[derive(Default)]
pub struct Orphans(HashMap<(u32, RelPath), First>);

enum First {
    /// The receiver skips the first name.
    Left(Entry, Seen),
    /// Another name replaces the first name.
    Instead(u32, RelPath),
}

impl Orphans {
    /// Records an entry that the receiver skips.
    pub fn first_is_left(&mut self, entry: Entry, seen: Seen) {
        if matches!(entry.kind, Kind::File { .. }) && entry.extra.as_ref().is_some_and(|extra| extra.linked) {
            self.0.insert((entry.source, entry.path.clone()), First::Left(entry, seen));
        }
    }

    /// The entry to send in place of one that the receiver requests.
    pub fn adopt(&mut self, mut entry: Entry, seen: Seen) -> (Entry, Seen) {
        let Kind::HardLink { source, path } = &entry.kind else { return (entry, seen) };
        let Some(first) = self.0.get_mut(&(*source, path.clone())) else { return (entry, seen) };
        let instead = First::Instead(entry.source, entry.path.clone());
        match std::mem::replace(first, instead) {
            First::Left(file, seen) => (Entry { source: entry.source, path: entry.path, ..file }, seen),
            First::Instead(source, path) => {
                *first = First::Instead(source, path.clone());
                entry.kind = Kind::HardLink { source, path };
                (entry, seen)
            }
        }
    }
}
