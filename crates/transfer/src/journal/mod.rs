//! What a receiver writes down, so that the same command run again sends only what isn't there.
//!
//! `docs/formats.md` has the format, the rules by which it is believed, and why they hold.

mod file;
pub mod foreign;
mod past;
mod record;

use linerate_wire::control::Options;
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, Mode, StatxFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::metadata::write::{let_in, set_mode};
use crate::root::Directory;
use crate::temporary::PREFIX;
use file::{Held, Writer};
pub use past::{Earlier, Finished, Past};
use record::{Begin, Epoch, Record};
pub use record::{Done, Mark, Partial, mark};

/// A transfer that is over so soon has no journal, unless a large file was begun
const SOON: Duration = Duration::from_millis(500);
/// or so many bytes are in place.
const FEW_BYTES: u64 = 64 << 20;

/// What journals' names begin with; as all temporary names do.
pub fn prefix() -> String {
    format!("{PREFIX}journal.")
}

/// The name of the journal of the command that `options` name, for what lands at `places`.
pub fn name(options: &Options, places: &[RelPath]) -> Option<OsString> {
    let said = postcard::to_stdvec(&(options.resume?, options.recursive, options.keep, places)).ok()?;
    let key = blake3::hash(&said);
    Some(format!("{}{}", prefix(), &key.to_hex()[..32]).into())
}

/// The journal of a run.
pub struct Journal {
    top: Arc<Directory>,
    name: OsString,
    begin: Begin,
    begun: Instant,
    state: Mutex<State>,
    /// What is done is written down from now on. Read where a lock would cost.
    takes_done: AtomicBool,
}

enum State {
    /// Made when it is worth it.
    Waiting,
    Open(Writer),
    /// There is none: it can't be made, or was given up.
    None,
}

/// What was found where a journal belongs.
pub enum Found {
    /// No journal that may be trusted; a new one may be made.
    Nothing(Journal),
    /// An earlier run's, which goes on.
    Past(Journal, Box<Past>),
    /// Another run of the same command has it now.
    Busy,
}

impl Journal {
    /// Looks for the journal `name` in `top`, for a run whose temporary names hold `nonce`.
    pub fn find(top: &Arc<Directory>, name: OsString, nonce: [u8; 8]) -> Found {
        let begin = Begin { epoch: epoch(top), nonce };
        let journal = |state| {
            let takes_done = AtomicBool::new(matches!(state, State::Open(_)));
            let (top, name, begin) = (top.clone(), name.clone(), begin.clone());
            Journal { top, name, begin, begun: Instant::now(), state: Mutex::new(state), takes_done }
        };
        match file::open(top, &name) {
            Ok(Held::Ours(file)) => match Writer::go_on(file, &begin) {
                Ok((writer, past)) => Found::Past(journal(State::Open(writer)), Box::new(past)),
                Err(_) => Found::Nothing(journal(State::None)),
            },
            Ok(Held::Missing) => Found::Nothing(journal(State::Waiting)),
            Ok(Held::Busy) => Found::Busy,
            // Somebody else's, or no file at all: it isn't believed, and has the name.
            Ok(Held::Foreign) | Err(_) => Found::Nothing(journal(State::None)),
        }
    }

    /// One that is never made: for a transfer that nobody goes on with.
    pub fn none(top: &Arc<Directory>) -> Self {
        Self {
            top: top.clone(),
            name: OsString::new(),
            begin: Begin { epoch: Epoch::default(), nonce: [0; 8] },
            begun: Instant::now(),
            state: Mutex::new(State::None),
            takes_done: AtomicBool::new(false),
        }
    }

    /// True where something may be written down, now or later.
    pub fn is_wanted(&self) -> bool {
        !self.name.is_empty()
    }

    /// True where what gets its name is written down.
    pub fn takes_done(&self) -> bool {
        self.takes_done.load(Ordering::Relaxed)
    }

    /// True where this run made it, and it says nothing yet.
    pub fn is_bare(&self) -> bool {
        matches!(&*lock(&self.state), State::Open(writer) if writer.is_bare())
    }

    /// True where files in `directory` may be written down: their times are of the journal's own clock.
    pub fn covers(&self, directory: &Directory) -> bool {
        directory.device == self.top.device
    }

    /// Begins to take what is done as soon as that is worth it; `landed` bytes are in place.
    pub fn look(&self, landed: u64) {
        if !self.takes_done() && (landed >= FEW_BYTES || self.begun.elapsed() >= SOON) {
            self.takes_done.store(self.make(), Ordering::Relaxed);
        }
    }

    /// Makes it now, where it can be made; true where it is there. What is done isn't written down for that yet.
    pub fn make(&self) -> bool {
        let mut state = lock(&self.state);
        if matches!(*state, State::Waiting) {
            let made = Writer::make(&self.top, &self.name, &self.begin);
            *state = made.map_or(State::None, State::Open);
        }
        matches!(*state, State::Open(_))
    }

    /// Writes down files that have their real names.
    pub fn done(&self, files: Vec<Done>) {
        if files.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        if let State::Open(writer) = &mut *state {
            writer.done(files);
        }
    }

    /// Writes down a large file under its temporary name, and gives its number in the journal; none where that
    /// can't be.
    pub fn partial(&self, file: Partial) -> Option<u32> {
        file.chunks()?;
        if !self.make() {
            return None;
        }
        self.takes_done.store(true, Ordering::Relaxed);
        let mut state = lock(&self.state);
        if let State::Open(writer) = &mut *state { writer.partial(file) } else { None }
    }

    /// Writes down that a chunk was handed to the kernel; false where it can't, since the journal is full or gone.
    pub fn chunk(&self, partial: u32, number: u32) -> bool {
        self.tell(&[Record::Chunk { partial, number }])
    }

    /// Writes down that chunks are on stable storage, and puts the journal there too.
    pub fn stable(&self, partial: u32, chunks: &HashSet<u32>) {
        self.tell(&[Record::Stable { partial, chunks: bits(chunks) }]);
        if let State::Open(writer) = &mut *lock(&self.state) {
            writer.sync();
        }
    }

    /// Writes down that a directory is made at `place`, and that its mode is not the last one.
    pub fn made(&self, place: &RelPath) {
        self.directory(Record::Made { place: place.clone() });
    }

    /// Writes down that the directory at `place`, which has `mode`, is opened to its owner.
    pub fn opened(&self, place: &RelPath, mode: u32) {
        self.directory(Record::Opened { place: place.clone(), mode });
    }

    /// Where it can't be written down, a run that goes on from a kill leaves the directory as it is.
    fn directory(&self, record: Record) {
        if self.make() {
            self.tell(&[record]);
        }
    }

    /// The storage has lost something: what was only handed to the kernel isn't believed. A journal that can't be told
    /// so goes.
    pub fn distrust(&self) {
        let is_open = matches!(*lock(&self.state), State::Open(_));
        if is_open && !self.tell(&[Record::Distrust]) {
            self.remove();
        }
    }

    fn tell(&self, records: &[Record]) -> bool {
        let mut state = lock(&self.state);
        if let State::Open(writer) = &mut *state { writer.write(records) } else { false }
    }

    /// The directory may have its own mode again by now, which may not let its owner write.
    fn take_away(&self) -> Result<(), Errno> {
        match self.top.take_away(&self.name) {
            Err(Errno::ACCESS) => {}
            other => return other,
        }
        let had = let_in(self.top.as_fd(), Mode::RWXU)?;
        let taken = self.top.take_away(&self.name);
        had.map_or(Ok(()), |had| set_mode(self.top.as_fd(), had))?;
        taken
    }

    /// Removes it: everything is in place.
    pub fn remove(&self) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Open(_)) {
            // One that stays is found by the next run, which believes no more of it than of any other.
            let _ = self.take_away();
        }
        *state = State::None;
        self.takes_done.store(false, Ordering::Relaxed);
    }
}

/// True where a run has left the journal `name`, or still has it.
pub fn is_there(directory: &Directory, name: &OsStr) -> bool {
    matches!(file::open(directory, name), Ok(Held::Ours(_) | Held::Busy))
}

/// True where a run has the journal `name` now.
pub fn is_busy(directory: &Directory, name: &OsStr) -> bool {
    matches!(file::open(directory, name), Ok(Held::Busy))
}

/// What the temporary names of the runs in the journal `name` hold, the latest last.
pub fn nonces(directory: &Directory, name: &OsStr) -> Vec<[u8; 8]> {
    let mut nonces = Vec::new();
    if let Ok(file) = file::open_own(directory, name) {
        let reader = std::io::BufReader::new(std::fs::File::from(file));
        let read = record::read(reader, |record| {
            if let Record::Begin(begin) = record {
                nonces.push(begin.nonce);
            }
        });
        // What can't be read names nobody.
        drop(read);
    }
    nonces
}

/// The chunks as a bit for each, as [`linerate_wire::control::Want::Missing`] has them.
pub fn bits(chunks: &HashSet<u32>) -> Vec<u8> {
    let length = chunks.iter().max().map_or(0, |last| *last as usize / 8 + 1);
    let mut bits = vec![0; length];
    chunks.iter().for_each(|number| bits[*number as usize / 8] |= 1 << (number % 8));
    bits
}

/// The life of the kernel and of the mount that `directory` is in. Zeros where they can't be told: then nothing that
/// was only handed to the kernel is believed.
fn epoch(directory: &Directory) -> Epoch {
    let mount = rustix::fs::statx(directory.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
    match (boot_id(), mount) {
        (Some(boot), Ok(stat)) => Epoch { boot, mount: stat.stx_mnt_id },
        _ => Epoch::default(),
    }
}

fn boot_id() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    Some(number.to_be_bytes())
}

impl Partial {
    /// Opens the temporary file in `parent`, for writing, where it still is the one that was written down.
    ///
    /// # Errors
    /// What open(2) returns; `ESTALE` for another file.
    pub fn reopen(&self, parent: &Directory) -> Result<OwnedFd, Errno> {
        let file = file::open_own(parent, OsStr::from_bytes(&self.name))?;
        let stat = rustix::fs::fstat(&file)?;
        let same = stat.st_ino == self.inode && stat.st_size as u64 == self.size;
        if same { Ok(file) } else { Err(Errno::STALE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const NAME: &str = ".linerate.journal.00000000000000000000000000000000";

    fn find(directory: &tempfile::TempDir) -> Found {
        let root = Root::open(directory.path()).unwrap();
        Journal::find(root.top(), NAME.into(), [7; 8])
    }

    fn new(directory: &tempfile::TempDir) -> Journal {
        let Found::Nothing(journal) = find(directory) else { panic!("there is one already") };
        journal
    }

    #[test]
    fn the_next_run_finds_what_this_one_wrote_and_only_behind_it() {
        let directory = tempfile::tempdir().unwrap();
        let journal = new(&directory);
        journal.look(0);
        assert!(!journal.takes_done() && !directory.path().join(NAME).exists(), "made when it is worth it");
        journal.look(FEW_BYTES);
        assert!(journal.takes_done() && journal.is_bare());
        journal.done(vec![record::tests::done("a")]);
        assert!(!journal.is_bare());
        let index = journal.partial(record::tests::partial(99)).unwrap();
        journal.chunk(index, 2);
        assert!(matches!(find(&directory), Found::Busy), "two runs share it");
        drop(journal);
        let Found::Past(journal, past) = find(&directory) else { panic!("it isn't found") };
        let sample = record::tests::partial(0);
        assert!(past.done(&record::tests::path("a"), [1; 8]).is_some());
        let earlier = past.partial(&sample.place, sample.mark, sample.origin).unwrap();
        assert_eq!((earlier.partial.index, bits(&earlier.present())), (index, vec![0b100]));
        assert_eq!(journal.partial(sample), Some(index + 1), "numbers go on");
        journal.remove();
        drop(new(&directory));
    }

    #[test]
    fn what_somebody_else_may_have_put_there_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join(NAME);
        let real = directory.path().join("real");
        let begin = Begin { epoch: Epoch::default(), nonce: [1; 8] };
        fs::write(&real, record::tests::journal(&[Record::Begin(begin)])).unwrap();
        let foreign = |what: &str| {
            let Found::Nothing(journal) = find(&directory) else { panic!("{what} is believed") };
            assert!(!journal.make(), "{what} is replaced");
            fs::remove_file(&at).unwrap();
        };
        symlink(&real, &at).unwrap();
        foreign("a link");
        fs::hard_link(&real, &at).unwrap();
        foreign("a second name of a file");
        fs::copy(&real, &at).unwrap();
        fs::set_permissions(&at, PermissionsExt::from_mode(0o666)).unwrap();
        foreign("what others may write");
        fs::set_permissions(&real, PermissionsExt::from_mode(0o600)).unwrap();
        fs::copy(&real, &at).unwrap();
        assert!(matches!(find(&directory), Found::Past(..)), "an own one is believed");
    }
}
