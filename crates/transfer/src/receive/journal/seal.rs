//! A journal's bytes: a header, and then records, each with its length and a tag that only this account can
//! make.
//!
//! A record's tag covers the record and the tag before it. So a reader gets only records that the runs wrote, in the
//! same order: if a record was changed, omitted, moved or inserted, the reader stops before it.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use super::key::Key;
use super::record::{MAX_JOURNAL, MAX_RECORD, Record};

/// The first bytes of a journal; the last of them is the version of the format.
pub const MAGIC: [u8; 8] = *b"lrjrnal\x02";
/// The salt, which makes the tags of two journals differ.
pub type Salt = [u8; 16];
/// The number of bytes before the first record.
pub const HEADER: usize = MAGIC.len() + size_of::<Salt>();
/// The bytes of a record in addition to its contents: its length and its tag.
const RECORD_OVERHEAD: usize = 4 + size_of::<Tag>();

/// A context string, which makes the tags differ from those of any other use of the account's key.
const CONTEXT: &[u8] = b"linerate journal 2";

type Tag = [u8; 16];

/// Makes [`Seal`]s for a journal from the account's key, the journal's name and the inode number of its
/// directory.
pub struct Sealer {
    key: Key,
    name: Vec<u8>,
    directory: u64,
}

/// Makes the tags of a journal's records, one after the other.
#[derive(Clone)]
pub struct Seal {
    key: [u8; 32],
    last: Tag,
}

impl Sealer {
    /// The sealer of the journal `name` in the directory with this inode number.
    pub fn new(key: Key, name: &OsStr, directory: u64) -> Self {
        Self { key, name: name.as_bytes().to_vec(), directory }
    }

    /// The seal for the first record of a journal with this salt.
    pub fn with(&self, salt: &Salt) -> Seal {
        let mut hasher = blake3::Hasher::new_keyed(self.key.bytes());
        hasher.update(CONTEXT).update(salt).update(&self.directory.to_le_bytes()).update(&self.name);
        Seal { key: hasher.finalize().into(), last: Tag::default() }
    }
}

impl Seal {
    fn tag(&self, record: &[u8]) -> Tag {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.last).update(record);
        let mut tag = Tag::default();
        tag.copy_from_slice(&hasher.finalize().as_bytes()[..size_of::<Tag>()]);
        tag
    }
}

/// Appends a journal's header to `out`.
pub fn append_header(salt: &Salt, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(salt);
}

/// Appends `record` to `out`; appends nothing and returns false if the record is too long.
pub fn append(record: &Record, seal: &mut Seal, out: &mut Vec<u8>) -> bool {
    let Ok(bytes) = postcard::to_stdvec(record) else { return false };
    if bytes.len() > MAX_RECORD {
        return false;
    }
    append_bytes(&bytes, seal, out);
    true
}

/// Appends a record's bytes, with its length and tag before them.
pub fn append_bytes(bytes: &[u8], seal: &mut Seal, out: &mut Vec<u8>) {
    seal.last = seal.tag(bytes);
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&seal.last);
    out.extend_from_slice(bytes);
}

/// Reads the records of a journal, up to the first record that is incomplete or wasn't written by this
/// account.
pub struct Records<R> {
    journal: R,
    bytes: Vec<u8>,
    /// The number of valid bytes that were read.
    pub good: u64,
    /// The seal for the record after the valid bytes.
    pub seal: Seal,
}

impl<R: Read> Records<R> {
    /// Starts to read a journal; `None` if it doesn't begin with a header of this version.
    ///
    /// # Errors
    /// If reading fails; invalid contents aren't an error.
    pub fn open(mut journal: R, sealer: &Sealer) -> io::Result<Option<Self>> {
        let (mut magic, mut salt) = ([0; MAGIC.len()], Salt::default());
        if !fill(&mut journal, &mut magic)? || magic != MAGIC || !fill(&mut journal, &mut salt)? {
            return Ok(None);
        }
        let (good, seal) = (HEADER as u64, sealer.with(&salt));
        Ok(Some(Self { journal, bytes: Vec::new(), good, seal }))
    }

    /// The next record; `None` at the end, or if the next record isn't valid. A record is never empty, so a run of
    /// zeros, which a power failure may leave, isn't a record.
    ///
    /// # Errors
    /// If reading fails; invalid contents aren't an error.
    pub fn next(&mut self) -> io::Result<Option<Record>> {
        let mut around = [0; RECORD_OVERHEAD];
        if self.good >= MAX_JOURNAL || !fill(&mut self.journal, &mut around)? {
            return Ok(None);
        }
        let (length, tag) = around.split_at(4);
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        if length == 0 || length > MAX_RECORD {
            return Ok(None);
        }
        self.bytes.resize(length, 0);
        if !fill(&mut self.journal, &mut self.bytes)? {
            return Ok(None);
        }
        let expected = self.seal.tag(&self.bytes);
        if expected != tag {
            return Ok(None);
        }
        let record = postcard::from_bytes(&self.bytes).ok();
        if record.is_some() {
            self.good += (RECORD_OVERHEAD + length) as u64;
            self.seal.last = expected;
        }
        Ok(record)
    }
}

/// Fills `buffer`; false if the journal ends before the buffer is full.
fn fill(journal: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match journal.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{NONCE, begin, done, partial, path};
    use super::super::record::{Begin, Epoch};
    use super::*;
    use linerate_wire::entry::Timestamp;
    use proptest::prelude::*;

    fn sealer() -> Sealer {
        Sealer::new(Key::known([1; 32]), OsStr::new("journal"), 2)
    }

    fn all() -> Vec<Record> {
        vec![
            begin(Epoch { boot: [1; 16], mount: 2 }),
            Record::Done(done("a/b")),
            Record::Stamp(Timestamp { seconds: 5, nanoseconds: 6 }),
            Record::Partial(partial(0)),
            Record::Chunk { partial: 0, number: 3 },
            Record::Stable { partial: 0, chunks: vec![0b101] },
            Record::Distrust,
            Record::Made { place: path("a") },
            Record::Opened { place: path("b"), mode: 0o500 },
        ]
    }

    fn journal(records: &[Record], sealer: &Sealer, salt: Salt) -> Vec<u8> {
        let (mut bytes, mut seal) = (Vec::new(), sealer.with(&salt));
        append_header(&salt, &mut bytes);
        records.iter().for_each(|record| assert!(append(record, &mut seal, &mut bytes)));
        bytes
    }

    fn whole() -> Vec<u8> {
        journal(&all(), &sealer(), [3; 16])
    }

    /// The offsets at which the header and each of the records end.
    fn ends() -> Vec<usize> {
        (0..=all().len()).map(|count| journal(&all()[..count], &sealer(), [3; 16]).len()).collect()
    }

    fn records_by(bytes: &[u8], sealer: &Sealer) -> (Vec<Record>, u64) {
        let Some(mut records) = Records::open(bytes, sealer).unwrap() else { return (Vec::new(), 0) };
        let mut found = Vec::new();
        while let Some(record) = records.next().unwrap() {
            found.push(record);
        }
        (found, records.good)
    }

    fn records(bytes: &[u8]) -> (Vec<Record>, u64) {
        records_by(bytes, &sealer())
    }

    /// Checks that the records that are read from `bytes` are the first of the records that were written, but
    /// not all of them.
    #[track_caller]
    fn assert_a_part(bytes: &[u8], what: &str) {
        let (found, good) = records(bytes);
        assert!(found.len() < all().len() && all().starts_with(&found), "{what}: {found:?}");
        assert!(good == 0 || good as usize == ends()[found.len()], "{what}");
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(records(&whole()), (all(), whole().len() as u64));
    }

    #[test]
    fn a_journal_torn_at_any_byte_gives_the_records_before() {
        for length in 0..whole().len() {
            let (found, good) = records(&whole()[..length]);
            let count = ends().iter().filter(|end| **end <= length).count();
            assert_eq!(found, all()[..count.saturating_sub(1)], "torn at {length}");
            let expected = if count == 0 { 0 } else { ends()[count - 1] as u64 };
            assert_eq!(good, expected, "torn at {length}");
        }
    }

    #[test]
    fn a_flipped_bit_ends_it_there() {
        for at in 0..whole().len() * 8 {
            let mut bytes = whole();
            bytes[at / 8] ^= 1 << (at % 8);
            assert_a_part(&bytes, &format!("bit {at}"));
            assert!(records(&bytes).0.len() <= ends().iter().filter(|end| **end <= at / 8).count());
        }
    }

    #[test]
    fn zeros_and_another_version_are_nothing() {
        let mut bytes = journal(&all()[..1], &sealer(), [3; 16]);
        let good = bytes.len() as u64;
        bytes.extend([0; 4096]);
        assert_eq!(records(&bytes), (all()[..1].to_vec(), good));
        bytes[7] -= 1;
        assert_eq!(records(&bytes), (vec![], 0));
    }

    #[test]
    fn another_key_name_or_directory_makes_other_tags() {
        let other = |key, name, directory| Sealer::new(Key::known([key; 32]), OsStr::new(name), directory);
        for sealer in [other(9, "journal", 2), other(1, "journax", 2), other(1, "journal", 3)] {
            assert_eq!(records_by(&whole(), &sealer).0, []);
        }
        let mut salted = whole();
        salted[MAGIC.len()..HEADER].copy_from_slice(&[4; 16]);
        assert_eq!(records(&salted).0, []);
    }

    /// A journal was cut off and continued, but bytes of the old records remain after the new ones. The tags of the old
    /// records don't follow from the new records, so the old records aren't read.
    #[test]
    fn a_tail_that_was_overwritten_does_not_come_back() {
        let old =
            [begin(Epoch::default()), Record::Done(done("a")), Record::Done(done("b")), Record::Distrust];
        let new = [old[0].clone(), Record::Done(done("x")), Record::Done(done("y")), Record::Distrust];
        let bytes = |records: &[Record]| journal(records, &sealer(), [3; 16]);
        let (mixed, end) = ([&bytes(&new[..2])[..], &bytes(&old)[bytes(&old[..2]).len()..]].concat(), 2);
        assert_eq!(records(&mixed).0, new[..end]);
    }

    #[test]
    fn a_record_that_is_too_long_is_left_out() {
        let (mut bytes, mut seal) = (Vec::new(), sealer().with(&[3; 16]));
        append_header(&[3; 16], &mut bytes);
        let long = Record::Stable { partial: 0, chunks: vec![0; MAX_RECORD] };
        assert!(append(&all()[0], &mut seal, &mut bytes) && !append(&long, &mut seal, &mut bytes));
        assert!(append(&all()[1], &mut seal, &mut bytes));
        assert_eq!(records(&bytes).0, all()[..2]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), ours: bool) {
            if ours && bytes.len() >= MAGIC.len() {
                bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
            }
            let (found, good) = records(&bytes);
            prop_assert!(found.is_empty() && good as usize <= bytes.len());
        }

        #[test]
        fn any_record_with_a_right_tag_is_read_without_harm(
            bytes in proptest::collection::vec(any::<u8>(), 1..200),
        ) {
            let mut seal = sealer().with(&[3; 16]);
            let mut whole = Vec::new();
            append_header(&[3; 16], &mut whole);
            let begin = Begin { epoch: Epoch::default(), nonce: NONCE };
            append(&Record::Begin(begin), &mut seal, &mut whole);
            append_bytes(&bytes, &mut seal, &mut whole);
            let mut past = super::super::past::Past::new(Epoch::default());
            records(&whole).0.into_iter().for_each(|record| past.take(record));
            past.settle();
            past.check();
        }

        #[test]
        fn any_other_bytes_in_it_give_a_part_of_it(
            at in 0..1000_usize,
            other in proptest::collection::vec(any::<u8>(), 0..40),
            removed in 0..40_usize,
        ) {
            let mut bytes = whole();
            let at = at % bytes.len();
            let end = bytes.len().min(at + removed);
            bytes.splice(at..end, other);
            let (found, _) = records(&bytes);
            prop_assert!(all().starts_with(&found));
            prop_assert_eq!(bytes.starts_with(&whole()), found.len() == all().len());
        }

        /// Complete records are omitted, repeated, reordered, or taken from another journal of this account.
        #[test]
        fn records_in_another_order_give_a_part_of_it(
            order in proptest::collection::vec((0..9_usize, any::<bool>()), 0..12),
        ) {
            let (ends, ours) = (ends(), whole());
            let theirs = journal(&all(), &sealer(), [4; 16]);
            let mut bytes = ours[..HEADER].to_vec();
            for (number, foreign) in &order {
                let from = if *foreign { &theirs } else { &ours };
                bytes.extend(&from[ends[*number]..ends[number + 1]]);
            }
            let in_order = order.iter().enumerate().take_while(|(at, one)| **one == (*at, false)).count();
            prop_assert_eq!(records(&bytes).0, &all()[..in_order]);
        }
    }
}
