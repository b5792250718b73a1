//! The files that earlier runs of a command have left, and which of these files can be trusted.
//!
//! The far end decides how many files and which paths a journal names. So each kind of record has its share of memory,
//! and files for which the share is too small are sent again.

use linerate_wire::entry::Origin;
use linerate_wire::path::RelPath;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::done::{DoneFiles, Landed};
use super::partials::{Earlier, Partials};
use super::record::{Epoch, Mark, Partial, Record};

/// The most bytes of memory for the paths of directories whose owner was given access.
const MAX_OPENED: usize = 8 << 20;
/// The memory, in bytes, that a path takes in a map in addition to the path's own bytes.
const BESIDE_PATH: usize = 64;

/// The records that earlier runs have written to a journal.
pub struct Past {
    now: Epoch,
    done: DoneFiles,
    partials: Partials,
    /// The epoch of the run that wrote the records being read.
    epoch: Option<Epoch>,
    hashes: RandomState,
    /// Hashes of the places of directories that were created.
    made: Vec<u64>,
    opened: HashMap<RelPath, u32>,
    room_for_opened: usize,
    /// The nonces in the temporary names of the earlier runs.
    nonces: HashSet<[u8; 8]>,
}

impl Past {
    /// Empty records, for a run in the epoch `now`.
    pub fn new(now: Epoch) -> Self {
        Self {
            now,
            done: DoneFiles::default(),
            partials: Partials::default(),
            epoch: None,
            hashes: RandomState::new(),
            made: Vec::new(),
            opened: HashMap::new(),
            room_for_opened: MAX_OPENED,
            nonces: HashSet::new(),
        }
    }

    /// Adds the next record of the journal.
    pub fn take(&mut self, record: Record) {
        match record {
            Record::Begin(begin) => {
                self.done.forget_unstamped();
                self.epoch = Some(begin.epoch);
                self.nonces.insert(begin.nonce);
            }
            Record::Done(done) => {
                self.partials.has_its_name(&done.place, done.inode);
                self.done.add(&done);
            }
            Record::Stamp(at) => self.done.stamp(at),
            Record::Partial(partial) => self.begin(partial),
            // A chunk that was passed to the kernel counts only if, since then, the host hasn't been booted and the
            // file system hasn't been mounted again.
            Record::Chunk { partial, number } if self.now.is_known() && self.epoch == Some(self.now) => {
                self.partials.written(partial, number);
            }
            Record::Chunk { .. } => {}
            Record::Stable { partial, chunks } => self.partials.stable(partial, &chunks),
            Record::Distrust => self.partials.distrust(),
            Record::Made { place } => self.made.push(self.hash(&place)),
            Record::Opened { place, mode } => self.open(place, mode),
        }
    }

    /// Sorts the records. Must be called after all records were added, before the first query.
    pub fn settle(&mut self) {
        self.done.sort();
        self.made.sort_unstable();
        self.made.dedup();
    }

    /// Adds a large file. The file isn't accepted if its temporary name belongs to none of the earlier runs, even if
    /// its record is valid.
    fn begin(&mut self, partial: Partial) {
        self.partials.count(partial.index);
        if self.nonces.contains(&partial.name.nonce()) {
            self.partials.add(partial);
        }
    }

    /// Adds the mode that a directory had before its owner was given access. If there are several records, the first
    /// one counts, because the first run saw the original mode.
    fn open(&mut self, place: RelPath, mode: u32) {
        let size = place.as_bytes().len() + BESIDE_PATH;
        if size <= self.room_for_opened && !self.opened.contains_key(&place) {
            self.room_for_opened -= size;
            self.opened.insert(place, mode);
        }
    }

    /// The file that an earlier run created at `place` from an entry with this mark.
    pub fn done(&self, place: &RelPath, mark: Mark) -> Option<Landed> {
        self.done.find(place, mark)
    }

    /// The large file that an earlier run began at `place`, if the entry still has this mark (the hash of its properties)
    /// and comes from the same source file.
    pub fn partial(&self, place: &RelPath, mark: Mark, origin: Origin) -> Option<&Earlier> {
        let earlier = self.partials.at(place)?;
        (earlier.partial.mark == mark && earlier.partial.origin == origin).then_some(earlier)
    }

    /// All large files that earlier runs began.
    pub fn partials(&self) -> impl Iterator<Item = &Partial> {
        self.partials.all().map(|earlier| &earlier.partial)
    }

    /// A number that no large file in the journal has.
    pub fn next_index(&self) -> u32 {
        self.partials.next_index()
    }

    /// Whether an earlier run created the directory at `place`, which may still have a temporary mode. If two hashes
    /// collide, which is very rare, the answer may belong to another place.
    pub fn made(&self, place: &RelPath) -> bool {
        self.made.binary_search(&self.hash(place)).is_ok()
    }

    /// Existing directories whose owner was given access by an earlier run, with their original modes.
    pub fn opened(&self) -> impl Iterator<Item = (&RelPath, u32)> {
        self.opened.iter().map(|(place, mode)| (place, *mode))
    }

    /// True if an earlier run has this nonce in its temporary names.
    pub fn has_run(&self, nonce: [u8; 8]) -> bool {
        self.nonces.contains(&nonce)
    }

    fn hash(&self, place: &RelPath) -> u64 {
        self.hashes.hash_one(place.as_bytes())
    }

    /// Checks, for the fuzzer, that the records agree with each other, and that each large file has a temporary name of
    /// an earlier run.
    pub(super) fn check(&self) {
        self.partials.check();
        assert!(self.partials().all(|partial| self.has_run(partial.name.nonce())));
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Done;
    use super::super::record::tests::{NONCE, begin, done, partial, path};
    use super::*;
    use linerate_wire::entry::Timestamp;

    const HERE: Epoch = Epoch { boot: [1; 16], mount: 2 };

    fn past(records: Vec<Record>, now: Epoch) -> Past {
        let mut past = Past::new(now);
        records.into_iter().for_each(|record| past.take(record));
        past.settle();
        past.check();
        past
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
        assert_eq!(present(&past(two_runs(), HERE)), [0, 1, 2], "chunks that the file lacks don't count");
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
    fn a_file_that_no_run_before_it_made_is_not_taken() {
        let records = vec![Record::Partial(partial(0)), begin(HERE), chunk(0)];
        let past = past(records, HERE);
        assert_eq!((past.partials().count(), past.next_index()), (0, 1), "its number isn't given again");
        assert!(past.has_run(NONCE) && !past.has_run([0; 8]));
    }

    #[test]
    fn of_a_directory_that_was_opened_twice_the_first_mode_counts() {
        let opened = |mode| Record::Opened { place: path("a"), mode };
        let past = past(vec![begin(HERE), opened(0o500), begin(HERE), opened(0o700)], HERE);
        assert_eq!(past.opened().collect::<Vec<_>>(), [(&path("a"), 0o500)]);
    }

    #[test]
    fn directories_that_were_made_are_known() {
        let made = |place| Record::Made { place: path(place) };
        let past = past(vec![begin(HERE), made("b"), made("a"), made("b")], HERE);
        assert!(past.made(&path("a")) && past.made(&path("b")) && !past.made(&path("c")));
    }

    #[test]
    fn a_file_is_done_only_when_its_time_is_known() {
        let at = Timestamp { seconds: 1, nanoseconds: 0 };
        let records = vec![begin(HERE), Record::Done(done("a")), Record::Stamp(at), Record::Done(done("b"))];
        let past = past(records, HERE);
        assert!(past.done(&path("a"), [1; 8]).is_some_and(|finished| finished.at == at));
        assert!(past.done(&path("b"), [1; 8]).is_none() && past.done(&path("a"), [2; 8]).is_none());
    }

    #[test]
    fn large_files_that_have_their_names_make_room_for_others() {
        let mut past = Past::new(HERE);
        past.take(begin(HERE));
        let large = |index: u32| Partial {
            index,
            place: path(&format!("{index}{}", "/deeper".repeat(570))),
            ..partial(0)
        };
        let count = 2 * (12 << 20) / 4000;
        for index in 0..count {
            past.take(Record::Partial(large(index)));
            past.take(Record::Done(Done { place: large(index).place, inode: 9, ..done("") }));
        }
        past.settle();
        past.check();
        let has = |index| past.partials.at(&large(index).place).is_some();
        assert!(has(count - 1) && !has(0));
        assert_eq!(past.next_index(), count);
        let mut past = Past::new(HERE);
        past.take(begin(HERE));
        (0..count).for_each(|index| past.take(Record::Partial(large(index))));
        past.check();
        assert!(
            past.partials.at(&large(0).place).is_some()
                && past.partials.at(&large(count - 1).place).is_none()
        );
    }
}
