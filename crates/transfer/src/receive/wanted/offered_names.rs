//! The names that the sender has offered, stored in eight bytes each. All other entries can be deleted.

use linerate_wire::path::RelPath;
use std::hash::{BuildHasher, RandomState};

/// The most names. They take half a gigabyte of memory.
const MOST_NAMES: usize = 1 << 26;
/// The most directories in `tops`: a list of files may name many directories that don't contain each other.
const MOST_TOPS: usize = 1 << 20;
/// The most bytes of the paths in `tops`.
const MOST_TOP_BYTES: usize = 64 << 20;
/// Marks a directory that was offered only as a parent of other entries; it is hashed together with the
/// directory's name.
const ON_THE_WAY: u8 = 2;

/// A set of offered names, of which only hashes with a secret key are stored. If an entry that the sender lacks has the
/// same hash as an offered name, the only effect is that the entry isn't deleted.
#[derive(Default)]
pub struct Offered {
    hasher: RandomState,
    hashes: Vec<u64>,
    /// Directories whose contents were all offered. None of them is inside the directory before it.
    tops: Vec<RelPath>,
    top_bytes: usize,
}

/// The form in which a name was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOf {
    Other,
    /// A directory whose contents are all offered.
    WholeDirectory,
    /// A directory that is only a parent of offered entries.
    Directory,
}

impl Offered {
    /// Adds a name; false if there are too many.
    pub fn add(&mut self, place: &RelPath, name: NameOf) -> bool {
        self.hashes.push(self.hash(place, u8::from(name != NameOf::Other)));
        match name {
            NameOf::Other => {}
            NameOf::Directory => self.hashes.push(self.hash(place, ON_THE_WAY)),
            NameOf::WholeDirectory => self.note_top(place),
        }
        self.hashes.len() <= MOST_NAMES && self.tops.len() <= MOST_TOPS && self.top_bytes <= MOST_TOP_BYTES
    }

    fn note_top(&mut self, place: &RelPath) {
        let is_in_last = self.tops.last().is_some_and(|top| *top == *place || is_below(place, top));
        if !is_in_last {
            self.top_bytes += place.as_bytes().len();
            self.tops.push(place.clone());
        }
    }

    /// The directories whose contents were all offered, without those that are inside another such directory.
    pub fn tops(&self) -> &[RelPath] {
        &self.tops
    }

    /// True for a directory that was offered only as a parent of other entries.
    pub fn is_on_the_way(&self, place: &RelPath) -> bool {
        self.hashes.binary_search(&self.hash(place, ON_THE_WAY)).is_ok()
    }

    /// Sorts the names after all were added. False if a name was added twice or two names have the same hash, because
    /// then it can't be determined which entries the sender lacks.
    #[must_use]
    pub fn sort(&mut self) -> bool {
        self.hashes.sort_unstable();
        self.hashes.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// True if the name was offered with this kind (a directory or not).
    pub fn has(&self, place: &RelPath, directory: bool) -> bool {
        self.hashes.binary_search(&self.hash(place, u8::from(directory))).is_ok()
    }

    fn hash(&self, place: &RelPath, what: u8) -> u64 {
        self.hasher.hash_one((place.as_bytes(), what))
    }
}

fn is_below(place: &RelPath, top: &RelPath) -> bool {
    let rest = place.as_bytes().strip_prefix(top.as_bytes());
    rest.is_some_and(|rest| top.is_root() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_what_they_were_offered_as() {
        let path = |text: &str| RelPath::new(text.as_bytes()).unwrap();
        let mut names = Offered::default();
        assert!(
            names.add(&path("b/c"), NameOf::Other)
                && names.add(&path("b"), NameOf::WholeDirectory)
                && names.add(&path("b/d"), NameOf::WholeDirectory)
                && names.add(&path("bb"), NameOf::WholeDirectory)
                && names.add(&RelPath::root(), NameOf::Directory)
        );
        assert!(names.sort());
        assert_eq!(names.tops(), [path("b"), path("bb")]);
        assert!(names.is_on_the_way(&RelPath::root()) && !names.is_on_the_way(&path("b")));
        assert!(
            names.has(&path("b"), true)
                && names.has(&path("b/c"), false)
                && names.has(&RelPath::root(), true)
        );
        assert!(!names.has(&path("b"), false) && !names.has(&path("c"), false));
    }

    #[test]
    fn directories_of_long_paths_take_little_memory() {
        let long = |number: usize| RelPath::new(format!("{number}{}", "/x".repeat(500)).as_bytes()).unwrap();
        let mut names = Offered::default();
        let is_full = |number| !names.add(&long(number), NameOf::WholeDirectory);
        let full = (0..100_000).position(is_full);
        assert!(full.is_some_and(|count| (60_000..70_000).contains(&count)), "{full:?}");
    }
}
