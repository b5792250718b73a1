//! Measures how much memory it takes to read the longest journals, with one kind of record and with all kinds together.
//! Each journal is read by a separate process.

use linerate_wire::path::RelPath;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Instant;

use super::file::JournalWriter;
use super::key::Key;
use super::record::tests::{begin, done, partial};
use super::record::{Begin, Done, Epoch, MAX_JOURNAL, Partial, Record};
use super::seal::{Sealer, append, append_header};
use crate::tree::temporary::Name;
use linerate_wire::entry::Timestamp;

/// The most memory in bytes that reading a journal may take.
const MOST_MEMORY: u64 = 120 << 20;
/// The environment variable by which a test informs its separate process which kind of journal to read.
const KIND: &str = "LINERATE_TEST_JOURNAL";
/// The most chunks of a file.
const CHUNKS: u64 = (1 << 20) - 8;
const HERE: Epoch = Epoch { boot: [1; 16], mount: 2 };

fn place(number: u64, length: usize) -> RelPath {
    let name = format!("{number:x}");
    let rest = "/long-name-of-a-directory".repeat(length / 24);
    RelPath::new([name, rest].concat()).unwrap()
}

fn large(number: u64, length: usize) -> Partial {
    let name = Name::new(super::record::tests::NONCE, number);
    Partial {
        index: number as u32,
        place: place(number, length),
        name,
        size: CHUNKS << 20,
        chunk: 1 << 20,
        ..partial(0)
    }
}

/// Record `number` of a journal with records of this kind.
fn record(kind: &str, number: u64) -> Record {
    let stamp = |every: u64| number % every == every - 1;
    let at = Timestamp { seconds: number as i64, nanoseconds: 0 };
    let of = |count: u64| number % count;
    match kind {
        "done" if stamp(64) => Record::Stamp(at),
        "stamped" if stamp(2) => Record::Stamp(at),
        "done" | "stamped" => Record::Done(Done { place: place(number, 0), ..done("") }),
        "partial" => Record::Partial(large(number, 0)),
        "far partial" => Record::Partial(large(number, 2000)),
        "made" => Record::Made { place: place(number, 0) },
        "opened" => Record::Opened { place: place(number, 0), mode: 0o500 },
        "far opened" => Record::Opened { place: place(number, 2000), mode: 0o500 },
        "chunk" if number < 1000 => Record::Partial(large(number, 0)),
        "chunk" => Record::Chunk { partial: of(1000) as u32, number: CHUNKS as u32 - (number / 1000) as u32 },
        "stable" if number < 1000 => Record::Partial(large(number, 0)),
        "stable" => Record::Stable { partial: of(1000) as u32, chunks: vec![0xff; 100 << 10] },
        "begin" => Record::Begin(Begin { epoch: HERE, nonce: number.to_ne_bytes() }),
        // The kind "all": the journal has as many records of each kind as are allowed.
        _ => match number {
            0..2_100_000 if stamp(64) => Record::Stamp(at),
            0..2_100_000 => Record::Done(Done { place: place(number, 0), ..done("") }),
            2_100_000..2_170_000 => Record::Partial(large(number, 150)),
            2_170_000..2_180_000 => {
                Record::Chunk { partial: number as u32 - 10_000, number: CHUNKS as u32 - 1 }
            }
            2_180_000..2_300_000 => Record::Opened { place: place(number, 0), mode: 0o500 },
            _ => Record::Made { place: place(number, 0) },
        },
    }
}

fn sealer() -> Sealer {
    Sealer::new(Key::known([1; 32]), OsStr::new("journal"), 1)
}

fn write(kind: &str) -> OwnedFd {
    let mut file = BufWriter::new(tempfile::tempfile().unwrap());
    let (mut seal, mut bytes, mut length) = (sealer().with(&[0; 16]), Vec::new(), 0);
    append_header(&[0; 16], &mut bytes);
    append(&begin(HERE), &mut seal, &mut bytes);
    // The loop leaves room for the record of the run that reads the journal.
    for number in 0.. {
        append(&record(kind, number), &mut seal, &mut bytes);
        length += bytes.len() as u64;
        if length > MAX_JOURNAL - 100 {
            break;
        }
        file.write_all(&bytes).unwrap();
        bytes.clear();
    }
    let mut file: File = file.into_inner().map_err(|_| "a full disk").unwrap();
    file.rewind().unwrap();
    file.into()
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Reads one journal. The tests below run this in a separate process.
#[test]
#[ignore = "the tests below run this test"]
fn one_journal() {
    let Ok(kind) = std::env::var(KIND) else { return };
    let file = write(&kind);
    let (before, begun) = (peak(), Instant::now());
    let begin = Begin { epoch: HERE, nonce: [9; 8] };
    let (writer, past) = JournalWriter::go_on(file, &begin, &sealer()).unwrap();
    let past = past.expect("it is this account's");
    println!("{kind}: {} MB, before it {before}, {:?}", peak() >> 20, begun.elapsed());
    assert!(past.has_run([9; 8]) || !writer.is_bare());
    assert!(peak() - before < MOST_MEMORY, "{kind}: {} after {before}", peak());
}

#[test]
fn the_longest_journals_take_little_memory() {
    measure(&["all", "chunk"]);
}

#[test]
#[ignore = "takes minutes; one kind of record takes less memory than all kinds together"]
fn the_longest_journals_of_one_kind_take_little_memory() {
    measure(&[
        "done",
        "stamped",
        "partial",
        "far partial",
        "made",
        "opened",
        "far opened",
        "stable",
        "begin",
    ]);
}

fn measure(kinds: &[&str]) {
    for kind in kinds {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "receive::journal::memory_measured::one_journal",
            "--ignored",
            "--nocapture",
        ]);
        let run = command.env(KIND, kind).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        print!("{}", said.lines().filter(|line| line.contains("MB")).collect::<Vec<_>>().join("\n") + "\n");
        assert!(run.status.success() && said.contains("1 passed"), "{kind}: {said}");
    }
}
