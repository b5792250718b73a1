//! Files with several hard links, if the receiver skips the first name of a file. The first other name that the
//! receiver requests is then sent as the file itself.

use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use std::collections::HashMap;

use crate::tree::scan::Seen;

/// Files whose first name the receiver skips, by this first name.
#[derive(Default)]
pub struct Orphans(HashMap<(u32, RelPath), First>);

enum First {
    /// The receiver skips the first name.
    Left(Entry, Seen),
    /// This other name replaces the first name.
    Instead(u32, RelPath),
}

impl Orphans {
    /// Records an entry that the receiver skips, if it is the first name of a file.
    pub fn first_is_left(&mut self, entry: Entry, seen: Seen) {
        if matches!(entry.kind, Kind::File { .. }) && entry.extra.as_ref().is_some_and(|extra| extra.linked) {
            self.0.insert((entry.source, entry.path.clone()), First::Left(entry, seen));
        }
    }

    /// The entry to send for a name that the receiver requests. If it is a hard link to a skipped first name,
    /// it becomes the file itself, or a link to the name that replaces the first one.
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
