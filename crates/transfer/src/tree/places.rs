//! Stores values for places while a transfer runs, by the places' hashes and with limits, because a far end may name
//! any number of places of any length. The hash has a random key for each process, so nobody can choose two places with
//! the same hash.

use linerate_wire::path::RelPath;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::Mutex;

use crate::base::lock::lock;

/// The most places in each of the two halves of a [`Recent`]: two tables of 19 MB.
const HALF: usize = 1_800_000;

/// A value for each of a limited number of places. If two places have the same hash, they share a value, so
/// the caller must check that the value belongs to the existing entry.
pub struct Places<V> {
    hasher: RandomState,
    most: usize,
    map: Mutex<HashMap<u64, V, AsItIs>>,
}

impl<V: Copy> Places<V> {
    /// An empty map with room for `most` values.
    pub fn new(most: usize) -> Self {
        Self { hasher: RandomState::new(), most, map: Mutex::default() }
    }

    /// Stores `value` for `place`; false if there is no room.
    pub fn insert(&self, place: &RelPath, value: V) -> bool {
        let (hash, mut map) = (self.hasher.hash_one(place), lock(&self.map));
        let has_room = map.len() < self.most || map.contains_key(&hash);
        if has_room {
            map.insert(hash, value);
        }
        has_room
    }

    /// The value of `place`.
    pub fn get(&self, place: &RelPath) -> Option<V> {
        lock(&self.map).get(&self.hasher.hash_one(place)).copied()
    }

    /// Removes the value of `place` and returns it.
    pub fn take(&self, place: &RelPath) -> Option<V> {
        lock(&self.map).remove(&self.hasher.hash_one(place))
    }
}

/// Remembers the latest paths of sources: at least the last [`HALF`].
#[derive(Default)]
pub struct Recent {
    hasher: RandomState,
    young: HashSet<u64, AsItIs>,
    old: HashSet<u64, AsItIs>,
}

impl Recent {
    /// Adds `path` of `source`; false if it is already one of the latest paths.
    pub fn is_new(&mut self, source: u32, path: &RelPath) -> bool {
        let hash = self.hasher.hash_one((source, path));
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        !self.old.contains(&hash) && self.young.insert(hash)
    }
}

/// A hasher that returns keys unchanged, because the keys are already hashes.
type AsItIs = BuildHasherDefault<Given>;

#[derive(Default)]
struct Given(u64);

impl Hasher for Given {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: usize) -> RelPath {
        RelPath::new(number.to_string()).unwrap()
    }

    #[test]
    fn there_is_room_for_so_many_places() {
        let places = Places::new(2);
        assert!(
            places.insert(&place(1), 'a') && places.insert(&place(2), 'b') && !places.insert(&place(3), 'c')
        );
        assert!(places.insert(&place(2), 'd'), "one that is there is changed");
        assert_eq!((places.get(&place(2)), places.get(&place(3))), (Some('d'), None));
        assert_eq!((places.take(&place(2)), places.take(&place(2))), (Some('d'), None));
        assert!(places.insert(&place(3), 'c'));
    }

    #[test]
    fn recent_places_are_known_again_across_the_halves() {
        let mut recent = Recent::default();
        assert!((0..HALF + 10).all(|number| recent.is_new(0, &place(number))));
        assert!((0..HALF + 10).all(|number| !recent.is_new(0, &place(number))));
        assert!(recent.is_new(0, &place(HALF + 10)) && recent.is_new(1, &place(0)));
    }
}
