//! Large files that earlier runs began to receive.

use linerate_wire::path::RelPath;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use super::chunks::Chunks;
use super::record::Partial;

/// The most large files that are remembered. Files that have got their names are forgotten to make room for others.
const MAX_PARTIALS: usize = 65_536;
/// The most bytes of the remembered files' paths.
const MAX_PLACES: usize = 12 << 20;
/// The most bytes of the remembered files' chunk sets.
const MAX_BITS: usize = 8 << 20;

/// Large files that earlier runs began to receive, by their numbers in the journal.
pub struct Partials {
    files: HashMap<u32, Box<Earlier>>,
    hashes: RandomState,
    /// The latest file of each place, by the place's hash.
    places: HashMap<u64, u32>,
    /// Files that have got their names. If there is no room for another file, these files are removed in the order in
    /// which they got their names.
    named: VecDeque<u32>,
    room_for_places: usize,
    room_for_bits: usize,
    next: u32,
}

/// A large file of which an earlier run has received chunks.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// The file's record in the journal.
    pub partial: Partial,
    /// The chunks that are on stable storage.
    stable: Chunks,
    /// The chunks that were passed to the kernel since the last boot and the last mount of the file system.
    written: Chunks,
    /// True if the file has got its name.
    is_named: bool,
}

impl Default for Partials {
    fn default() -> Self {
        Self {
            files: HashMap::new(),
            hashes: RandomState::new(),
            places: HashMap::new(),
            named: VecDeque::new(),
            room_for_places: MAX_PLACES,
            room_for_bits: MAX_BITS,
            next: 0,
        }
    }
}

impl Partials {
    /// Adds a file if there is room.
    pub fn add(&mut self, partial: Partial) {
        let size = partial.place.as_bytes().len();
        if partial.chunks().is_none() || !self.make_room(size) {
            return;
        }
        self.remove(partial.index);
        self.room_for_places -= size;
        self.places.insert(self.hash(&partial.place), partial.index);
        let (stable, written) = (Chunks::default(), Chunks::default());
        self.files.insert(partial.index, Box::new(Earlier { partial, stable, written, is_named: false }));
    }

    /// Makes sure that no later file gets the number `index`.
    pub fn count(&mut self, index: u32) {
        self.next = self.next.max(index.saturating_add(1));
    }

    /// Records that the file with this inode number has got its name at `place`.
    pub fn has_its_name(&mut self, place: &RelPath, inode: u64) {
        let Some(index) = self.at(place).map(|earlier| earlier.partial.index) else { return };
        if let Some(earlier) = self.files.get_mut(&index)
            && earlier.partial.inode == inode
            && !earlier.is_named
        {
            earlier.is_named = true;
            self.named.push_back(index);
        }
    }

    /// Records that a chunk was passed to the kernel.
    pub fn written(&mut self, index: u32, number: u32) {
        if let Some(earlier) = self.files.get_mut(&index)
            && earlier.partial.chunks().is_some_and(|chunks| number < chunks)
        {
            earlier.written.insert(number, &mut self.room_for_bits);
        }
    }

    /// Records that these chunks are on stable storage.
    pub fn stable(&mut self, index: u32, bits: &[u8]) {
        if let Some(earlier) = self.files.get_mut(&index) {
            let chunks = earlier.partial.chunks().unwrap_or(0);
            earlier.stable.merge(bits, chunks, &mut self.room_for_bits);
        }
    }

    /// Removes the chunks that were only passed to the kernel, because they may be lost.
    pub fn distrust(&mut self) {
        for earlier in self.files.values_mut() {
            self.room_for_bits += earlier.written.size();
            earlier.written.clear();
        }
    }

    /// The latest file that was begun at `place`.
    pub fn at(&self, place: &RelPath) -> Option<&Earlier> {
        let earlier = self.files.get(self.places.get(&self.hash(place))?)?;
        (earlier.partial.place == *place).then_some(&**earlier)
    }

    /// All remembered files.
    pub fn all(&self) -> impl Iterator<Item = &Earlier> {
        self.files.values().map(|earlier| &**earlier)
    }

    /// A number that none of the files has.
    pub fn next_index(&self) -> u32 {
        self.next
    }

    fn make_room(&mut self, size: usize) -> bool {
        while self.files.len() >= MAX_PARTIALS || size > self.room_for_places {
            let Some(named) = self.named.pop_front() else { return false };
            self.remove(named);
        }
        true
    }

    fn remove(&mut self, index: u32) {
        let Some(gone) = self.files.remove(&index) else { return };
        self.room_for_places += gone.partial.place.as_bytes().len();
        self.room_for_bits += gone.stable.size() + gone.written.size();
        let hash = self.hash(&gone.partial.place);
        if self.places.get(&hash) == Some(&index) {
            self.places.remove(&hash);
        }
    }

    fn hash(&self, place: &RelPath) -> u64 {
        self.hashes.hash_one(place.as_bytes())
    }

    /// Checks that the fields agree with each other; used by the fuzzer.
    pub fn check(&self) {
        for (index, earlier) in &self.files {
            let chunks = earlier.partial.chunks().expect("others are not taken");
            assert!(earlier.present().iter().all(|number| *number < chunks));
            assert!(*index == earlier.partial.index && *index <= self.next);
        }
        assert!(self.places.values().all(|index| self.files.contains_key(index)));
        let bits: usize = self.all().map(|earlier| earlier.stable.size() + earlier.written.size()).sum();
        let places: usize = self.all().map(|earlier| earlier.partial.place.as_bytes().len()).sum();
        assert_eq!((bits + self.room_for_bits, places + self.room_for_places), (MAX_BITS, MAX_PLACES));
    }
}

impl Earlier {
    /// The chunks that have arrived.
    pub fn present(&self) -> HashSet<u32> {
        self.stable.numbers().chain(self.written.numbers()).collect()
    }
}
