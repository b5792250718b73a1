//! Which names the sender offered, so that what has none of them can be removed: eight bytes an entry.

use linerate_wire::path::RelPath;
use std::hash::{BuildHasher, RandomState};

/// Entries at most: half a gigabyte.
const MOST: usize = 1 << 26;

/// Offered names by their hashes, whose key nobody knows. Two names with the same hash only keep each other from being
/// removed.
#[derive(Default)]
pub struct Offered {
    hasher: RandomState,
    hashes: Vec<u64>,
}

impl Offered {
    /// Notes a name; false where there are too many.
    pub fn add(&mut self, place: &RelPath, directory: bool) -> bool {
        self.hashes.push(self.hash(place, directory));
        self.hashes.len() <= MOST
    }

    /// All are noted; false where one was twice, or two have the same hash: nobody can tell what isn't there then.
    #[must_use]
    pub fn sort(&mut self) -> bool {
        self.hashes.sort_unstable();
        self.hashes.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// True where the name was offered as what is, or is not, a directory.
    pub fn has(&self, place: &RelPath, directory: bool) -> bool {
        self.hashes.binary_search(&self.hash(place, directory)).is_ok()
    }

    fn hash(&self, place: &RelPath, directory: bool) -> u64 {
        self.hasher.hash_one((place.as_bytes(), directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_what_they_were_offered_as() {
        let path = |text: &str| RelPath::new(text.as_bytes()).unwrap();
        let mut names = Offered::default();
        assert!(
            names.add(&path("b/c"), false)
                && names.add(&path("b"), true)
                && names.add(&RelPath::root(), true)
        );
        assert!(names.sort());
        assert!(
            names.has(&path("b"), true)
                && names.has(&path("b/c"), false)
                && names.has(&RelPath::root(), true)
        );
        assert!(!names.has(&path("b"), false) && !names.has(&path("c"), false));
    }
}
