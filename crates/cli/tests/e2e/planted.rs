//! Tests with journals that another user placed where this account's journal would be, and with accounts that
//! can have no journal: nothing outside the destination may be changed, and the transfer starts from the
//! beginning.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_wire::entry::{Kind, Timestamp};
use rustix::process::Signal;

use crate::bed::{Case, args, case};
use crate::json::{summary_of, u64_at};
use crate::resumed::journal;
use crate::support::{PATIENCE, Run, within};
use crate::tree::{assert_alike, noise, temporaries, write};

/// The size of the large file, and of every file that an attack should overwrite, in bytes.
const SIZE: u64 = 40 << 20;
/// The nonce that a planted journal contains for its runs.
const NONCE: [u8; 8] = [7; 8];

/// A command that was killed during the transfer, with its journal.
struct Begun {
    case: Case,
    source: PathBuf,
    destination: PathBuf,
    command: &'static str,
    journal: PathBuf,
}

/// Makes the contents of a planted journal: for files with these names and inode numbers.
type Plant = fn(&Begun, &[(String, u64)]) -> Vec<u8>;

impl Begun {
    /// Starts and kills a pull with `command`, which leaves its journal at the destination.
    fn new(command: &'static str) -> Option<Self> {
        let case = case()?;
        let (source, destination) = (case.far.join("tree"), case.near.join("deep/er"));
        write(source.join("large"), noise(1, SIZE as usize));
        write(source.join("small"), "x");
        fs::create_dir_all(&destination).expect("writable");
        let mut begun = Self { case, source, destination, command, journal: PathBuf::new() };
        begun.journal = begun.cut_off();
        Some(begun)
    }

    fn words(&self) -> Vec<OsString> {
        let config = self.case.bed.lab.ssh_config();
        args![self.case.bed.program(), self.command, "-F", config]
    }

    fn arguments(&self) -> Vec<OsString> {
        let keep = if self.command == "sync" { "-a" } else { "-rp" };
        args![keep, "--json", self.case.b("tree/."), &self.destination]
    }

    fn cut_off(&self) -> PathBuf {
        let slow = [args!["--bwlimit", "8m"], self.arguments()].concat();
        let running = self.case.start_with(self.words(), slow);
        let lists_partial = |path: PathBuf| {
            let bytes = fs::read(path).unwrap_or_default();
            bytes.windows(10).any(|part| part == b".linerate.")
        };
        assert!(within(PATIENCE, || journal(&self.destination).is_some_and(lists_partial)));
        running.signal(Signal::KILL);
        running.end();
        journal(&self.destination).expect("it is there")
    }

    fn run(&self) -> Run {
        self.case.start_with(self.words(), self.arguments()).end()
    }

    /// Makes a file to which the journal will point; it has the large file's size.
    fn victim(&self, path: &Path) -> u64 {
        write(path.to_owned(), vec![b'v'; SIZE as usize]);
        // As most files of a user are.
        fs::set_permissions(path, PermissionsExt::from_mode(0o644)).expect("our own");
        fs::metadata(path).expect("it is there").ino()
    }

    fn plant(&self, bytes: &[u8]) {
        temporaries(&self.destination).iter().for_each(|left| {
            fs::remove_file(self.destination.join(left)).expect("our own");
        });
        let _ = fs::remove_file(self.destination.join("large"));
        fs::write(&self.journal, bytes).expect("our own");
        fs::set_permissions(&self.journal, PermissionsExt::from_mode(0o600)).expect("our own");
    }

    /// The journal's records that say: the large file was begun under the names in `files`, and its first
    /// chunks are on stable storage.
    fn records(&self, files: &[(String, u64)]) -> Vec<Vec<u8>> {
        let chunks = vec![0xff_u8, 0xff, 0, 0, 0];
        let large =
            (0_u32..).zip(files).map(|(index, file)| self.record(index, "large", file, 1 << 20, &chunks));
        [begin()].into_iter().chain(large.flatten()).collect()
    }

    /// The records of one file, a part of which exists under this name.
    fn record(
        &self,
        index: u32,
        place: &str,
        (name, inode): &(String, u64),
        chunk: u64,
        there: &[u8],
    ) -> [Vec<u8>; 2] {
        let stat = fs::metadata(self.source.join(place)).expect("it is there");
        let mtime = Timestamp { seconds: stat.mtime(), nanoseconds: stat.mtime_nsec() as u32 };
        let ctime = Timestamp { seconds: stat.ctime(), nanoseconds: stat.ctime_nsec() as u32 };
        let size = stat.size();
        let mark = encode(&(Kind::File { size }, stat.mode() & 0o7777, mtime, None::<()>));
        let mark: [u8; 8] = blake3::hash(&mark).as_bytes()[..8].try_into().expect("eight bytes");
        let what = (3_u32, index, place, name.as_bytes().to_vec(), mark);
        let which = (stat.ino(), ctime, inode, size, chunk);
        [[encode(&what), encode(&which)].concat(), encode(&(5_u32, index, there.to_vec()))]
    }

    /// Checks that the journal isn't used: everything is sent again, and the files to which it points stay
    /// unchanged.
    #[track_caller]
    fn does_nothing(&self, bytes: &[u8], victims: &[PathBuf]) {
        self.plant(bytes);
        let run = self.run().exits(0);
        for victim in victims {
            let is_whole = fs::read(victim).is_ok_and(|bytes| bytes == vec![b'v'; SIZE as usize]);
            assert!(is_whole, "{} was written to or is gone; {run}", victim.display());
            fs::remove_file(victim).expect("our own");
        }
        assert!(sent(&run) >= SIZE, "{} bytes were sent; {run}", sent(&run));
        assert_alike(&self.source, &self.destination);
        assert_eq!(temporaries(&self.destination), Vec::<OsString>::new());
    }
}

/// The number of bytes that the sender sent.
fn sent(run: &Run) -> u64 {
    u64_at(&summary_of(&run.out), "/sender/stages/bytes")
}

fn encode(value: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("it can be encoded")
}

fn framed(record: &[u8], tag: &[u8]) -> Vec<u8> {
    [&u32::try_from(record.len()).expect("short").to_le_bytes(), tag, record].concat()
}

fn begin() -> Vec<u8> {
    encode(&(0_u32, [1_u8; 16], 2_u64, NONCE))
}

/// A journal in the format of the first version, with a checksum that anybody can compute.
fn version_1(begun: &Begun, files: &[(String, u64)]) -> Vec<u8> {
    let records = begun.records(files);
    let framed = records.iter().map(|record| framed(record, &blake3::hash(record).as_bytes()[..8]));
    [b"lrjrnal\x01".to_vec(), framed.collect::<Vec<_>>().concat()].concat()
}

/// A journal in the present format, authenticated with this key.
fn version_2(begun: &Begun, records: &[Vec<u8>], key: &[u8; 32]) -> Vec<u8> {
    let directory = fs::metadata(&begun.destination).expect("it is there").ino();
    let name = begun.journal.file_name().expect("it has one").as_encoded_bytes();
    let salt = [3; 16];
    let of_file = [b"linerate journal 2", &salt[..], &directory.to_le_bytes(), name].concat();
    let key = *blake3::keyed_hash(key, &of_file).as_bytes();
    let (mut journal, mut last) = ([&b"lrjrnal\x02"[..], &salt].concat(), vec![0; 16]);
    for record in records {
        last = blake3::keyed_hash(&key, &[last, record.clone()].concat()).as_bytes()[..16].to_vec();
        journal.extend(framed(record, &last));
    }
    journal
}

fn by_another(begun: &Begun, files: &[(String, u64)]) -> Vec<u8> {
    version_2(begun, &begun.records(files), &[6; 32])
}

/// Tests journals with names that point out of the directory, by dots or as absolute paths.
fn leads_out(command: &'static str, plant: Plant) {
    let Some(begun) = Begun::new(command) else { return };
    let (outside, near) = (begun.case.aside("outside").join("victim"), begun.case.near.join("victim"));
    let beside = begun.case.near.join("deep/victim");
    let names = [
        (outside.display().to_string(), begun.victim(&outside)),
        ("../../victim".into(), begun.victim(&near)),
        ("../victim".into(), begun.victim(&beside)),
    ];
    // The last one is the one that would be gone on with, the others would be removed.
    begun.does_nothing(&plant(&begun, &names), &[outside, near, beside]);
}

#[test]
fn of_the_first_version_leads_nowhere_with_cp() {
    leads_out("cp", version_1);
}

#[test]
fn of_the_first_version_leads_nowhere_with_sync() {
    leads_out("sync", version_1);
}

#[test]
fn of_another_account_leads_nowhere_with_cp() {
    leads_out("cp", by_another);
}

#[test]
fn of_another_account_leads_nowhere_with_sync() {
    leads_out("sync", by_another);
}

#[test]
fn guesses_remove_nothing() {
    let Some(begun) = Begun::new("sync") else { return };
    for plant in [version_1 as Plant, by_another] {
        let victim = begun.case.near.join("victim");
        let inode = begun.victim(&victim);
        let guesses: Vec<_> =
            (0..20_000).map(|guess| ("../../victim".into(), inode - 10_000 + guess)).collect();
        begun.does_nothing(&plant(&begun, &guesses), &[victim]);
    }
}

/// The journal names a file of the destination that belongs to another transfer.
#[test]
fn another_transfers_file_is_not_taken() {
    let Some(begun) = Begun::new("cp") else { return };
    let name = ".linerate.0707070707070707.0";
    let path = begun.destination.join(name);
    for plant in [version_1 as Plant, by_another] {
        begun.plant(b"");
        let inode = begun.victim(&path);
        fs::write(&begun.journal, plant(&begun, &[(name.into(), inode)])).expect("our own");
        let run = begun.run().exits(0);
        assert!(fs::read(&path).is_ok_and(|bytes| bytes == vec![b'v'; SIZE as usize]), "{run}");
        fs::remove_file(path.clone()).expect("our own");
        assert_alike(&begun.source, &begun.destination);
    }
}

/// A control for the other tests: with the account's own key, the journal is used.
#[test]
fn of_this_account_is_believed() {
    let Some(begun) = Begun::new("cp") else { return };
    let name = ".linerate.0707070707070707.0";
    begun.plant(b"");
    let inode = begun.victim(&begun.destination.join(name));
    let records = begun.records(&[(name.into(), inode)]);
    fs::write(&begun.journal, version_2(&begun, &records, &own_key())).expect("our own");
    let run = begun.run().exits(0);
    assert!(sent(&run) < SIZE - (15 << 20), "{} bytes were sent; {run}", sent(&run));
    let landed = fs::read(begun.destination.join("large")).expect("it is there");
    assert!(landed[..16 << 20].iter().all(|byte| *byte == b'v'), "the half that the journal tells of");
}

fn own_key() -> [u8; 32] {
    let home = PathBuf::from(std::env::var_os("HOME").expect("a home"));
    let state = std::env::var_os("XDG_STATE_HOME").map_or(home.join(".local/state"), PathBuf::from);
    let key = fs::read(state.join("linerate/journal.key")).expect("the first run made it");
    key.try_into().expect("32 bytes")
}

/// Each opened file needs a descriptor until data for it arrives, so a sender that offers all files at first
/// must not determine the number of descriptors.
#[test]
fn of_many_files_that_were_begun_not_all_are_opened_at_once() {
    let Some(begun) = Begun::new("cp") else { return };
    begun.plant(b"");
    let mut records = vec![begin()];
    for index in 0..3000_u32 {
        let (place, name) = (format!("{index}"), format!(".linerate.0707070707070707.{index:x}"));
        write(begun.source.join(&place), vec![b'v'; 128 << 10]);
        write(begun.destination.join(&name), vec![b'v'; 128 << 10]);
        let inode = fs::metadata(begun.destination.join(&name)).expect("it is there").ino();
        records.extend(begun.record(index, &place, &(name, inode), 64 << 10, &[1]));
    }
    fs::write(&begun.journal, version_2(&begun, &records, &own_key())).expect("our own");
    let words = [args!["prlimit", "--nofile=1600:1600"], begun.words()].concat();
    let run = begun.case.start_with(words, begun.arguments()).end().exits(0);
    let all = SIZE + (3000 << 17);
    assert!(sent(&run) <= all - (1000 << 16), "{} of {all} bytes were sent; {run}", sent(&run));
    assert_alike(&begun.source, &begun.destination);
    assert_eq!(temporaries(&begun.destination), Vec::<OsString>::new());
}

/// In these runs no key is available, so no journal is written, and a repeated run starts from the beginning.
#[test]
fn without_a_place_for_a_key_there_is_no_journal() {
    let Some(begun) = Begun::new("cp") else { return };
    let full = begun.case.aside("full");
    fs::write(full.join(".local"), "").expect("writable");
    let homes = [
        args!["env", "-u", "HOME", "-u", "XDG_STATE_HOME"],
        args!["env", "HOME=/nonexistent/home", "XDG_STATE_HOME=relative"],
        args!["env", "-u", "XDG_STATE_HOME", format!("HOME={}", full.display())],
        args!["env", "XDG_STATE_HOME=/proc/self"],
    ];
    for home in homes {
        begun.plant(b"");
        fs::remove_file(&begun.journal).expect("our own");
        let words = [home.clone(), begun.words()].concat();
        let slow = [args!["--bwlimit", "16m"], begun.arguments()].concat();
        let running = begun.case.start_with(words.clone(), slow);
        assert!(
            within(PATIENCE, || !temporaries(&begun.destination).is_empty()),
            "{home:?}: {}",
            running.end()
        );
        std::thread::sleep(std::time::Duration::from_millis(1500));
        assert_eq!(journal(&begun.destination), None, "{home:?}");
        running.signal(Signal::KILL);
        running.end();
        let again = begun.case.start_with(words, begun.arguments()).end().exits(0);
        assert!(sent(&again) >= SIZE, "{home:?}: {} bytes were sent", sent(&again));
        assert_alike_but_for_temporaries(&begun);
    }
}

/// Compares the trees, apart from temporary files, which are left for `linerate clean` if no journal names
/// them.
fn assert_alike_but_for_temporaries(begun: &Begun) {
    for left in temporaries(&begun.destination) {
        fs::remove_file(begun.destination.join(left)).expect("our own");
    }
    assert_alike(&begun.source, &begun.destination);
}

#[test]
fn the_key_is_where_xdg_has_state() {
    let Some(begun) = Begun::new("cp") else { return };
    let state = begun.case.aside("state");
    begun.plant(b"");
    let words = [args!["env", format!("XDG_STATE_HOME={}", state.display())], begun.words()].concat();
    let slow = [args!["--bwlimit", "8m"], begun.arguments()].concat();
    let running = begun.case.start_with(words.clone(), slow);
    let key = state.join("linerate/journal.key");
    assert!(within(PATIENCE, || key.exists() && fs::metadata(&begun.journal).is_ok_and(|it| it.len() > 200)));
    running.signal(Signal::KILL);
    running.end();
    assert_eq!(fs::metadata(&key).expect("it is there").mode() & 0o7777, 0o600);
    let again = begun.case.start_with(words, begun.arguments()).end().exits(0);
    assert!(sent(&again) < SIZE - (3 << 20), "{} bytes were sent; {again}", sent(&again));
    assert_alike(&begun.source, &begun.destination);
}

/// A transfer that may overwrite the key itself writes no journal and creates no key.
#[test]
fn a_home_that_is_pulled_has_no_journal() {
    let Some(begun) = Begun::new("sync") else { return };
    begun.plant(b"");
    fs::remove_file(&begun.journal).expect("our own");
    let home = format!("HOME={}", begun.destination.display());
    let words = [args!["env", "-u", "XDG_STATE_HOME", home], begun.words()].concat();
    let slow = [args!["--bwlimit", "16m"], begun.arguments()].concat();
    let run = begun.case.start_with(words, slow).end().exits(0);
    assert_alike(&begun.source, &begun.destination);
    assert!(!begun.destination.join(".local").exists(), "{run}");
    let status = Command::new("find").arg(&begun.destination).args(["-name", ".linerate*"]).output();
    assert!(status.is_ok_and(|found| found.stdout.is_empty()));
}
