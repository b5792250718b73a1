//! What earlier runs of a command have left, and which of it may be trusted.

use linerate_wire::entry::{Origin, Timestamp};
use linerate_wire::path::RelPath;
use std::collections::{HashMap, HashSet};

use super::record::{Done, Epoch, Mark, Partial, Record};

/// What a journal tells of the runs before this one.
#[derive(Default)]
pub struct Past {
    done: HashMap<RelPath, Finished>,
    /// Files that count as done when the time of it is known.
    unstamped: Vec<Done>,
    partials: HashMap<u32, Earlier>,
    /// The latest partial file of each place.
    places: HashMap<RelPath, u32>,
    epoch: Option<Epoch>,
    made: HashSet<RelPath>,
    opened: HashMap<RelPath, u32>,
    /// What the temporary names of these runs hold.
    pub nonces: HashSet<[u8; 8]>,
}

/// A file that got its real name.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    mark: Mark,
    /// Its inode's number.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The file system's time behind it: a file whose inode changed later isn't the one that was made.
    pub at: Timestamp,
}

/// A large file of which chunks are there.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// The file.
    pub partial: Partial,
    /// The chunks that are on stable storage.
    stable: HashSet<u32>,
    /// The chunks that the kernel has, as long as it lives.
    written: HashSet<u32>,
}

impl Past {
    /// Takes the next record; `now` is this run's epoch.
    pub fn take(&mut self, record: Record, now: Epoch) {
        match record {
            Record::Begin(begin) => {
                // What was done and not stamped can't be told from what changed since.
                self.unstamped.clear();
                self.epoch = Some(begin.epoch);
                self.nonces.insert(begin.nonce);
            }
            Record::Done(done) => self.unstamped.push(done),
            Record::Stamp(at) => {
                let stamped = self.unstamped.drain(..);
                self.done
                    .extend(stamped.map(|Done { place, mark, inode, size }| {
                        (place, Finished { mark, inode, size, at })
                    }));
            }
            Record::Partial(partial) => self.begin(partial),
            Record::Chunk { partial, number } => self.chunk(partial, number, now),
            Record::Stable { partial, chunks } => self.stable(partial, &chunks),
            Record::Distrust => self.partials.values_mut().for_each(|earlier| earlier.written.clear()),
            Record::Made { place } => drop(self.made.insert(place)),
            // The first run saw the mode that it had.
            Record::Opened { place, mode } => drop(self.opened.entry(place).or_insert(mode)),
        }
    }

    fn begin(&mut self, partial: Partial) {
        if partial.chunks().is_none() {
            return;
        }
        self.places.insert(partial.place.clone(), partial.index);
        let earlier = Earlier { stable: HashSet::new(), written: HashSet::new(), partial };
        self.partials.insert(earlier.partial.index, earlier);
    }

    /// A chunk that the kernel had counts only while that kernel and that mount live.
    fn chunk(&mut self, index: u32, number: u32, now: Epoch) {
        if !now.is_known() || self.epoch != Some(now) {
            return;
        }
        if let Some(earlier) = self.partials.get_mut(&index)
            && earlier.partial.chunks().is_some_and(|chunks| number < chunks)
        {
            earlier.written.insert(number);
        }
    }

    fn stable(&mut self, index: u32, bits: &[u8]) {
        let Some(earlier) = self.partials.get_mut(&index) else { return };
        let chunks = earlier.partial.chunks().unwrap_or(0);
        let is_set =
            |number: &u32| bits.get(*number as usize / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1);
        earlier.stable.extend((0..chunks.min(bits.len() as u32 * 8)).filter(is_set));
    }

    /// What was made at `place` of an entry with this mark.
    pub fn done(&self, place: &RelPath, mark: Mark) -> Option<&Finished> {
        self.done.get(place).filter(|finished| finished.mark == mark)
    }

    /// The large file that was begun at `place` of an entry with this mark, and of this very file.
    pub fn partial(&self, place: &RelPath, mark: Mark, origin: Origin) -> Option<&Earlier> {
        let earlier = self.partials.get(self.places.get(place)?)?;
        (earlier.partial.mark == mark && earlier.partial.origin == origin).then_some(earlier)
    }

    /// All large files that were begun.
    pub fn partials(&self) -> impl Iterator<Item = &Partial> {
        self.partials.values().map(|earlier| &earlier.partial)
    }

    /// Whether one of these runs made the directory at `place`, which may still have a mode for the time being.
    pub fn made(&self, place: &RelPath) -> bool {
        self.made.contains(place)
    }

    /// Directories that were there and were opened to their owner, with the modes that they had.
    pub fn opened(&self) -> impl Iterator<Item = (&RelPath, u32)> {
        self.opened.iter().map(|(place, mode)| (place, *mode))
    }

    /// For the fuzzer: what is told of a file is about it.
    pub(super) fn check(&self) {
        for (index, earlier) in &self.partials {
            let chunks = earlier.partial.chunks().expect("others are not taken");
            assert!(
                earlier.present().iter().all(|number| *number < chunks) && *index == earlier.partial.index
            );
        }
        assert!(self.places.values().all(|index| self.partials.contains_key(index)));
    }

    /// A number that no partial file of these runs has.
    pub fn next_index(&self) -> u32 {
        self.partials.keys().max().map_or(0, |last| last.saturating_add(1))
    }
}

impl Earlier {
    /// The chunks that are there.
    pub fn present(&self) -> HashSet<u32> {
        self.stable.union(&self.written).copied().collect()
    }
}

impl Epoch {
    fn is_known(&self) -> bool {
        self.boot != [0; 16]
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Begin;
    use super::super::record::tests::{done, partial, path};
    use super::*;

    const HERE: Epoch = Epoch { boot: [1; 16], mount: 2 };

    fn past(records: Vec<Record>, now: Epoch) -> Past {
        let mut past = Past::default();
        records.into_iter().for_each(|record| past.take(record, now));
        past
    }

    fn begin(epoch: Epoch) -> Record {
        Record::Begin(Begin { epoch, nonce: [3; 8] })
    }

    fn chunk(number: u32) -> Record {
        Record::Chunk { partial: 0, number }
    }

    fn present(past: &Past) -> Vec<u32> {
        let sample = partial(0);
        let earlier = past.partial(&sample.place, sample.mark, sample.origin);
        let mut present: Vec<_> = earlier.map(Earlier::present).unwrap_or_default().into_iter().collect();
        present.sort_unstable();
        present
    }

    fn two_runs() -> Vec<Record> {
        let stable = Record::Stable { partial: 0, chunks: vec![0b10] };
        vec![begin(HERE), Record::Partial(partial(0)), chunk(0), chunk(1), stable, chunk(9), chunk(2)]
    }

    #[test]
    fn in_the_same_boot_and_mount_all_chunks_count() {
        assert_eq!(present(&past(two_runs(), HERE)), [0, 1, 2], "and none that the file doesn't have");
    }

    #[test]
    fn after_a_reboot_or_another_mount_only_stable_chunks_count() {
        for now in [Epoch { boot: [9; 16], ..HERE }, Epoch { mount: 3, ..HERE }] {
            assert_eq!(present(&past(two_runs(), now)), [1]);
            let mut third = two_runs();
            third.extend([begin(now), chunk(3)]);
            assert_eq!(present(&past(third, now)), [1, 3], "a later run's chunks count again");
        }
        let unknown = Epoch::default();
        assert!(
            present(&past(vec![begin(unknown), Record::Partial(partial(0)), chunk(0)], unknown)).is_empty()
        );
    }

    #[test]
    fn after_a_loss_only_stable_chunks_count() {
        let mut records = two_runs();
        records.extend([Record::Distrust, chunk(3)]);
        assert_eq!(present(&past(records, HERE)), [1, 3]);
    }

    #[test]
    fn another_source_file_of_that_name_has_no_chunks() {
        let past = past(two_runs(), HERE);
        let sample = partial(0);
        assert!(past.partial(&sample.place, [0; 8], sample.origin).is_none());
        let origin = Origin { inode: 1, ..sample.origin };
        assert!(past.partial(&sample.place, sample.mark, origin).is_none());
    }

    #[test]
    fn of_a_directory_that_was_opened_twice_the_first_mode_counts() {
        let opened = |mode| Record::Opened { place: path("a"), mode };
        let past = past(vec![begin(HERE), opened(0o500), begin(HERE), opened(0o700)], HERE);
        assert_eq!(past.opened().collect::<Vec<_>>(), [(&path("a"), 0o500)]);
    }

    #[test]
    fn a_file_is_done_only_when_its_time_is_known() {
        let at = Timestamp { seconds: 1, nanoseconds: 0 };
        let records = vec![begin(HERE), Record::Done(done("a")), Record::Stamp(at), Record::Done(done("b"))];
        let past = past(records, HERE);
        assert!(past.done(&path("a"), [1; 8]).is_some_and(|finished| finished.at == at));
        assert!(past.done(&path("b"), [1; 8]).is_none() && past.done(&path("a"), [2; 8]).is_none());
    }
}
