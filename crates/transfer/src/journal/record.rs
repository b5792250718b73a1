//! The journal's bytes: a header, then records, each with its length and its checksum.

use linerate_wire::entry::{Origin, Timestamp};
use linerate_wire::path::RelPath;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// What a journal begins with; the last byte is the version of what follows.
pub const MAGIC: [u8; 8] = *b"lrjrnal\x01";
/// Bytes of a record at most.
const MAX_RECORD: usize = 256 << 10;
/// Bytes of a journal at most, so that reading it takes bounded memory; what comes later isn't written down.
pub const MAX_JOURNAL: u64 = 128 << 20;
/// Length and checksum before each record.
const AROUND: usize = 12;

/// What is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A run begins; what follows is its, up to the next.
    Begin(Begin),
    /// A file has its real name. It counts from the next [`Record::Stamp`] on.
    Done(Done),
    /// The file system's time, when all that is told before was so.
    Stamp(Timestamp),
    /// A large file has a temporary name.
    Partial(Partial),
    /// A chunk of it was handed to the kernel.
    Chunk {
        /// [`Partial::index`].
        partial: u32,
        /// Which one, from 0.
        number: u32,
    },
    /// These chunks of it are on stable storage.
    Stable {
        /// [`Partial::index`].
        partial: u32,
        /// A bit for each, the first one in the lowest bit of the first byte.
        chunks: Vec<u8>,
    },
    /// The storage has told of a loss: no [`Record::Chunk`] before this is true any more.
    Distrust,
    /// A directory is made here, with a mode that its owner needs; it gets its own when everything is in place.
    Made {
        /// Where it is below the landing's root.
        place: RelPath,
    },
    /// A directory that was there lets its owner write until everything is in place.
    Opened {
        /// Where it is below the landing's root.
        place: RelPath,
        /// The mode that it had.
        mode: u32,
    },
}

/// A run of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// In which life of the host, and in which of the file system's mounts.
    pub epoch: Epoch,
    /// What its temporary names hold.
    pub nonce: [u8; 8],
}

/// As long as it is the same, what was handed to the kernel is what a read returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// The kernel's boot id.
    pub boot: [u8; 16],
    /// The number of the destination's mount.
    pub mount: u64,
}

/// A file under its real name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Where it is below the landing's root.
    pub place: RelPath,
    /// What was to be made: [`mark`].
    pub mark: Mark,
    /// Its inode's number.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// A large file under its temporary name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// Its number in this journal.
    pub index: u32,
    /// Where it will be below the landing's root.
    pub place: RelPath,
    /// Its temporary name in the same directory.
    pub name: Vec<u8>,
    /// What is to be made: [`mark`].
    pub mark: Mark,
    /// Which file at the source it is.
    pub origin: Origin,
    /// The temporary file's inode number.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Bytes of a chunk; the last one may be shorter.
    pub chunk: u64,
}

/// Stands for all that an entry says.
pub type Mark = [u8; 8];

impl Partial {
    /// Chunks of the whole file; none where the numbers make no sense.
    pub fn chunks(&self) -> Option<u32> {
        chunks(self.size, self.chunk)
    }
}

/// How many chunks a file has; none where a journal can't hold so many.
pub fn chunks(size: u64, chunk: u64) -> Option<u32> {
    let chunks = (chunk > 0).then(|| size.div_ceil(chunk))?;
    (chunks / 8 < MAX_RECORD as u64 / 2).then(|| u32::try_from(chunks).ok()).flatten()
}

/// Appends `record` to `out`; false, and nothing, where it is too long.
pub fn append(record: &Record, out: &mut Vec<u8>) -> bool {
    let Ok(bytes) = postcard::to_stdvec(record) else { return false };
    if bytes.len() > MAX_RECORD {
        return false;
    }
    append_bytes(&bytes, out);
    true
}

/// Appends a record's bytes, with what goes before them.
pub fn append_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum(bytes));
    out.extend_from_slice(bytes);
}

/// Hands each record to `each` up to the first that isn't whole, and gives the length of what was. Without the header
/// there is nothing.
///
/// # Errors
/// Where reading fails; never for what is read.
pub fn read(mut journal: impl Read, mut each: impl FnMut(Record)) -> io::Result<u64> {
    let mut magic = [0; MAGIC.len()];
    if !fill(&mut journal, &mut magic)? || magic != MAGIC {
        return Ok(0);
    }
    let (mut good, mut bytes) = (MAGIC.len() as u64, Vec::new());
    while good < MAX_JOURNAL
        && let Some(record) = read_one(&mut journal, &mut bytes)?
    {
        good += (AROUND + bytes.len()) as u64;
        each(record);
    }
    Ok(good)
}

/// None where nothing whole follows. A record is never empty: a run of zeros, as a power cut leaves it, is none.
fn read_one(journal: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<Option<Record>> {
    let mut around = [0; AROUND];
    if !fill(journal, &mut around)? {
        return Ok(None);
    }
    let (length, expected) = around.split_at(4);
    let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
    if length == 0 || length > MAX_RECORD {
        return Ok(None);
    }
    bytes.resize(length, 0);
    if !fill(journal, bytes)? || checksum(bytes) != expected {
        return Ok(None);
    }
    Ok(postcard::from_bytes(bytes).ok())
}

/// False where the end came first.
fn fill(journal: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match journal.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut short = [0; 8];
    short.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    short
}

/// The mark of an entry: everything that it says but where it comes from and when it was read.
pub fn mark(entry: &linerate_wire::entry::Entry) -> Mark {
    let said = (&entry.kind, entry.mode, entry.mtime, &entry.extra);
    checksum(&postcard::to_stdvec(&said).unwrap_or_default())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn path(text: &str) -> RelPath {
        RelPath::new(text.as_bytes()).unwrap()
    }

    pub fn partial(index: u32) -> Partial {
        Partial {
            index,
            place: path("tree/large"),
            name: b".linerate.0123456789abcdef.0".to_vec(),
            mark: [7; 8],
            origin: Origin { inode: 3, ctime: Timestamp { seconds: 1, nanoseconds: 2 } },
            inode: 9,
            size: 100,
            chunk: 32,
        }
    }

    pub fn done(place: &str) -> Done {
        Done { place: path(place), mark: [1; 8], inode: 4, size: 5 }
    }

    fn all() -> Vec<Record> {
        let epoch = Epoch { boot: [1; 16], mount: 2 };
        vec![
            Record::Begin(Begin { epoch, nonce: [3; 8] }),
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

    pub fn journal(records: &[Record]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        records.iter().for_each(|record| assert!(append(record, &mut bytes)));
        bytes
    }

    fn records(bytes: &[u8]) -> (Vec<Record>, u64) {
        let mut found = Vec::new();
        let good = read(bytes, |record| found.push(record)).unwrap();
        (found, good)
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = journal(&all());
        assert_eq!(records(&bytes), (all(), bytes.len() as u64));
    }

    #[test]
    fn a_journal_torn_at_any_byte_gives_the_records_before() {
        let (all, whole) = (all(), journal(&all()));
        let ends: Vec<usize> = (0..=all.len()).map(|count| journal(&all[..count]).len()).collect();
        for length in 0..whole.len() {
            let (found, good) = records(&whole[..length]);
            let count = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(found, all[..count.saturating_sub(1)], "torn at {length}");
            let expected = if count == 0 { 0 } else { ends[count - 1] as u64 };
            assert_eq!(good, expected, "torn at {length}");
        }
    }

    #[test]
    fn a_flipped_bit_ends_it_there() {
        let (all, whole) = (all(), journal(&all()));
        for at in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            let (found, good) = records(&bytes);
            assert!(found.len() < all.len() && found == all[..found.len()], "bit {at}");
            assert!(good as usize <= at / 8, "bit {at}");
        }
    }

    #[test]
    fn zeros_and_another_version_are_nothing() {
        let mut bytes = journal(&all()[..1]);
        let good = bytes.len() as u64;
        bytes.extend([0; 4096]);
        assert_eq!(records(&bytes), (all()[..1].to_vec(), good));
        bytes[7] += 1;
        assert_eq!(records(&bytes), (vec![], 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), ours: bool) {
            if ours && bytes.len() >= MAGIC.len() {
                bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
            }
            let (_, good) = records(&bytes);
            prop_assert!(good as usize <= bytes.len());
        }

        #[test]
        fn any_record_with_a_right_checksum_is_read_without_harm(
            bytes in proptest::collection::vec(any::<u8>(), 1..200),
        ) {
            let mut whole = MAGIC.to_vec();
            whole.extend((bytes.len() as u32).to_le_bytes());
            whole.extend(checksum(&bytes));
            whole.extend(&bytes);
            let mut past = super::super::past::Past::default();
            read(&*whole, |record| past.take(record, Epoch::default())).unwrap();
        }
    }
}
