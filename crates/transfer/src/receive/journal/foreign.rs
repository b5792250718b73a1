//! For the fuzzer and the replay of its corpus: checks journals whose bytes somebody else may have written,
//! and records that a far end may cause this account to write.

use linerate_wire::entry::{Origin, Timestamp};
use linerate_wire::path::RelPath;
use std::ffi::OsStr;

use super::key::Key;
use super::past::Past;
use super::record::{Begin, Done, Epoch, Partial, Record};
use super::seal::{Records, Salt, Sealer, append, append_bytes, append_header};
use crate::tree::temporary::Name;

/// The epoch of the run that reads the journal. Records of chunks that were passed to the kernel count only if they
/// were made in the same epoch.
const NOW: Epoch = Epoch { boot: [1; 16], mount: 2 };
const SALT: Salt = [3; 16];
/// Places that the records refer to.
const PLACES: [&str; 6] = ["", "a", "a/b", "b", "large", "tree/large"];
/// Numbers at the edges of the ranges that the code distinguishes.
const NUMBERS: [u64; 8] = [0, 1, 31, 32, 64 << 10, 1 << 20, 1 << 36, u64::MAX];

/// Checks one input of the fuzzer. The first byte of `data`, modulo 4, selects how the other bytes are used:
/// - 0: The other bytes are the bytes of a journal.
/// - 1: The other bytes are the bytes of records, separated by `|`; the records get this account's tags.
/// - 2: The other bytes choose valid records about different files.
/// - 3: The other bytes choose valid records; then one byte of the journal is changed, or the journal is cut off, at a
///   chosen offset.
///
/// # Panics
/// If more records are read than were written, if records differ after they are written again, or if a change
/// isn't detected.
pub fn journal(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 4 {
        0 => drop(read(rest)),
        1 => drop(read(&with_tags(rest))),
        2 => made(&Bytes(rest).records()),
        _ => changed(rest),
    }
}

/// Checks that records written by this account are read back unchanged.
fn made(records: &[Record]) {
    assert_eq!(read(&written(records)), records);
}

/// Changes a journal, and checks that only the records before the change are read.
fn changed(data: &[u8]) {
    let Some((change, rest)) = data.split_at_checked(4) else { return };
    let records = Bytes(rest).records();
    let mut journal = written(&records);
    let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % journal.len();
    match change[2] {
        0 => journal.truncate(at),
        by => journal[at] ^= by,
    }
    let found = read(&journal);
    assert!(found.len() < records.len().max(1) && records.starts_with(&found));
}

fn with_tags(data: &[u8]) -> Vec<u8> {
    let mut journal = written(&[Record::Begin(Begin { epoch: NOW, nonce: [0; 8] })]);
    let mut records = Records::open(&*journal, &sealer()).expect("memory can be read").expect("a header");
    while records.next().expect("memory can be read").is_some() {}
    let mut seal = records.seal;
    data.split(|byte| *byte == b'|').for_each(|part| append_bytes(part, &mut seal, &mut journal));
    journal
}

/// Reads the records of a journal, and processes them as a later run of the command does.
fn read(journal: &[u8]) -> Vec<Record> {
    let found = records(journal);
    assert_eq!(records(&written(&found)), found);
    let mut past = Past::new(NOW);
    found.iter().for_each(|record| past.take(record.clone()));
    past.settle();
    past.check();
    found
}

fn written(records: &[Record]) -> Vec<u8> {
    let (mut journal, mut seal) = (Vec::new(), sealer().with(&SALT));
    append_header(&SALT, &mut journal);
    records.iter().for_each(|record| assert!(append(record, &mut seal, &mut journal), "it was short enough"));
    journal
}

fn records(journal: &[u8]) -> Vec<Record> {
    let mut found = Vec::new();
    if let Some(mut records) = Records::open(journal, &sealer()).expect("memory can be read") {
        while let Some(record) = records.next().expect("memory can be read") {
            found.push(record);
        }
        assert!(records.good <= journal.len() as u64);
    }
    found
}

fn sealer() -> Sealer {
    Sealer::new(Key::known([5; 32]), OsStr::new("journal"), 7)
}

/// The rest of the input. Each choice takes bytes from its beginning.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        while let Some(kind) = self.byte() {
            records.push(self.record(kind));
        }
        records
    }

    fn record(&mut self, kind: u8) -> Record {
        match kind % 9 {
            0 => {
                Record::Begin(Begin { epoch: Epoch { mount: self.number() % 4, ..NOW }, nonce: self.nonce() })
            }
            1 => Record::Done(self.done()),
            2 => Record::Stamp(Timestamp { seconds: self.number() as i64, nanoseconds: 0 }),
            3 => Record::Partial(self.partial()),
            4 => Record::Chunk { partial: self.index(), number: self.number() as u32 },
            5 => Record::Stable { partial: self.index(), chunks: self.bits() },
            6 => Record::Distrust,
            7 => Record::Made { place: self.place() },
            _ => Record::Opened { place: self.place(), mode: self.number() as u32 },
        }
    }

    fn done(&mut self) -> Done {
        let (place, mark) = (self.place(), [self.choice(); 8]);
        Done { place, mark, inode: self.number(), size: self.number() }
    }

    fn partial(&mut self) -> Partial {
        Partial {
            index: self.index(),
            place: self.place(),
            name: Name::new(self.nonce(), self.number()),
            mark: [self.choice(); 8],
            origin: Origin { inode: self.number(), ctime: Timestamp::default() },
            inode: self.number(),
            size: self.number(),
            chunk: self.number(),
        }
    }

    fn place(&mut self) -> RelPath {
        RelPath::new(PLACES[usize::from(self.choice()) % PLACES.len()]).expect("an honest path")
    }

    fn index(&mut self) -> u32 {
        u32::from(self.choice() % 8)
    }

    fn nonce(&mut self) -> [u8; 8] {
        [self.choice() % 4; 8]
    }

    fn bits(&mut self) -> Vec<u8> {
        let length = usize::from(self.choice());
        (0..length).map_while(|_| self.byte()).collect()
    }

    /// A number at an edge of a range, or a small number.
    fn number(&mut self) -> u64 {
        let choice = self.choice();
        NUMBERS.get(usize::from(choice)).copied().unwrap_or(u64::from(choice))
    }

    fn choice(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}
