//! For the fuzzer and the replay of its corpus: bytes that somebody else could have put where a journal belongs.

use super::past::Past;
use super::record::{self, Begin, Epoch, MAGIC, Record};

/// The run that reads it: chunks of runs with the same epoch count.
const NOW: Epoch = Epoch { boot: [1; 16], mount: 2 };

/// The first byte says which: even, the rest is a journal as it lies there; odd, it is the records of one, with a `|`
/// between them, which get the length and checksum that a fuzzer finds hard to keep right.
///
/// # Panics
/// Where more was read than is there, or what was read is another when it is written again.
pub fn journal(data: &[u8]) {
    match data.split_first() {
        Some((kind, rest)) if kind % 2 == 0 => read(rest),
        Some((_, rest)) => read(&with_checksums(rest)),
        None => {}
    }
}

fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut journal = MAGIC.to_vec();
    record::append(&Record::Begin(Begin { epoch: NOW, nonce: [0; 8] }), &mut journal);
    for part in data.split(|byte| *byte == b'|') {
        record::append_bytes(part, &mut journal);
    }
    journal
}

fn read(journal: &[u8]) {
    let records = records(journal);
    let mut again = MAGIC.to_vec();
    records.iter().for_each(|record| assert!(record::append(record, &mut again), "it was short enough"));
    assert_eq!(self::records(&again), records);
    let mut past = Past::default();
    records.into_iter().for_each(|record| past.take(record, NOW));
    past.check();
}

fn records(journal: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let good = record::read(journal, |record| records.push(record)).expect("memory can be read");
    assert!(good <= journal.len() as u64);
    records
}
