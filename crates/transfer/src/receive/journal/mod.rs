//! The receiver's journal, by which the same command run again sends only what is missing.
//!
//! `docs/formats.md` has the format, the rules by which it is believed, and why they hold.

mod chunks;
mod done;
mod file;
pub mod foreign;
mod holder;
mod key;
#[cfg(test)]
mod measured;
mod partials;
mod past;
mod record;
mod seal;
#[cfg(test)]
mod tests;

use linerate_wire::control::Options;
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, Mode, StatxFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::tree::metadata::write::{let_in, set_mode};
use crate::tree::root::Directory;
use crate::tree::temporary::{JOURNAL, JOURNAL_DIGITS};
pub use chunks::bits;
pub use done::Landed;
use file::{HeldJournal, JournalWriter};
pub use file::{is_own, open_own};
pub use holder::{Holder, holder};
pub use key::KeyStore;
use key::Written;
pub use partials::Earlier;
pub use past::Past;
use record::{Begin, Epoch, Record};
pub use record::{Done, Mark, Partial, mark, mark_of};
use seal::Sealer;

/// A transfer that is over sooner has no journal, unless a large file was begun or `FEW_BYTES` are in place.
const SOON: Duration = Duration::from_millis(500);
/// Bytes in place from which a transfer has a journal, however soon it is over.
const FEW_BYTES: u64 = 64 << 20;

/// The name of the journal of the command that `options` name, for what lands at `places`.
fn name(options: &Options, places: &[RelPath]) -> Option<OsString> {
    let said = postcard::to_stdvec(&(options.resume?, options.recursive, options.keep, places)).ok()?;
    let key = blake3::hash(&said);
    Some(format!("{JOURNAL}{}", &key.to_hex()[..JOURNAL_DIGITS]).into())
}

/// Where the journal of a command lies.
#[derive(Clone)]
pub struct Site {
    top: Arc<Directory>,
    name: OsString,
    /// Where the command's files land below `top`: a key there would be the far end's.
    places: Vec<RelPath>,
    keys: KeyStore,
}

/// The journal of a run.
pub struct Journal {
    site: Site,
    begin: Begin,
    begun: Instant,
    state: Mutex<JournalState>,
    /// True once finished files are written down. Read where a lock would cost.
    takes_done: AtomicBool,
}

enum JournalState {
    /// Made when it is worth it.
    Waiting,
    Open(JournalWriter),
    /// There is none: it can't be made, or was given up.
    None,
}

/// The state of the place where a journal belongs.
pub enum Found {
    /// No journal of this account's; a new one may be made.
    Nothing(Journal),
    /// An earlier run's, which goes on.
    Past(Journal, Box<Past>),
    /// Another run of the same command has it now.
    Busy,
}

impl Site {
    /// Where the journal of the command that `options` name belongs, for what lands at `places` below `top`; `None`
    /// where it has none.
    pub fn of(top: &Arc<Directory>, options: &Options, places: Vec<RelPath>, keys: KeyStore) -> Option<Self> {
        Some(Self { top: top.clone(), name: name(options, &places)?, places, keys })
    }

    /// True where an earlier run of this account's has left its journal here, or a run has it now.
    pub fn has_journal(&self) -> bool {
        match file::open(&self.top, &self.name) {
            Ok(HeldJournal::Ours(file)) => self.sealer(false).is_some_and(|sealer| begins(&file, &sealer)),
            Ok(HeldJournal::Busy) => true,
            Ok(HeldJournal::Missing | HeldJournal::Foreign) | Err(_) => false,
        }
    }

    /// By what the account's journals are known; `None` where it can't have any here.
    fn sealer(&self, make: bool) -> Option<Sealer> {
        let written = Written { top: &self.top, places: &self.places };
        let key = if make { self.keys.find_or_make(&written) } else { self.keys.find(Some(&written)) }?;
        Some(Sealer::new(key, &self.name, inode_of(&self.top)?))
    }

    /// Makes the journal where it is missing.
    fn make(&self, begin: &Begin) -> Result<JournalWriter, Errno> {
        JournalWriter::make(&self.top, &self.name, begin, &self.sealer(true).ok_or(Errno::NOKEY)?)
    }

    fn go_on(&self, file: OwnedFd, begin: &Begin) -> Option<(JournalWriter, Option<Past>)> {
        JournalWriter::go_on(file, begin, &self.sealer(true)?).ok()
    }
}

impl Journal {
    /// Looks for the journal at `site`, for a run whose temporary names hold `nonce`.
    pub fn find(site: Site, nonce: [u8; 8]) -> Found {
        let begin = Begin { epoch: epoch(&site.top), nonce };
        let (state, past) = match file::open(&site.top, &site.name) {
            Ok(HeldJournal::Ours(file)) => match site.go_on(file, &begin) {
                Some((writer, past)) => (JournalState::Open(writer), past),
                None => (JournalState::None, None),
            },
            Ok(HeldJournal::Missing) => (JournalState::Waiting, None),
            Ok(HeldJournal::Busy) => return Found::Busy,
            // Somebody else's, or no file at all: it has the name.
            Ok(HeldJournal::Foreign) | Err(_) => (JournalState::None, None),
        };
        let takes_done = AtomicBool::new(matches!(state, JournalState::Open(_)));
        let journal = Self { site, begin, begun: Instant::now(), state: Mutex::new(state), takes_done };
        match past {
            Some(past) => Found::Past(journal, Box::new(past)),
            None => Found::Nothing(journal),
        }
    }

    /// A journal that is never made: for a transfer that can't be resumed.
    pub fn none(top: &Arc<Directory>) -> Self {
        let (name, places) = (OsString::new(), Vec::new());
        Self {
            site: Site { top: top.clone(), name, places, keys: KeyStore::none() },
            begin: Begin { epoch: Epoch::default(), nonce: [0; 8] },
            begun: Instant::now(),
            state: Mutex::new(JournalState::None),
            takes_done: AtomicBool::new(false),
        }
    }

    /// True where something may be written down, now or later.
    pub fn is_wanted(&self) -> bool {
        !self.site.name.is_empty()
    }

    /// True where what gets its name is written down.
    pub fn takes_done(&self) -> bool {
        self.takes_done.load(Ordering::Relaxed)
    }

    /// True where this run made it, and it says nothing yet.
    pub fn is_bare(&self) -> bool {
        matches!(&*lock(&self.state), JournalState::Open(writer) if writer.is_bare())
    }

    /// True where files in `directory` may be written down: their times are of the journal's own clock.
    pub fn covers(&self, directory: &Directory) -> bool {
        directory.device == self.site.top.device
    }

    /// Begins to take what is done as soon as that is worth it; `landed` bytes are in place.
    pub fn look(&self, landed: u64) {
        if !self.takes_done() && (landed >= FEW_BYTES || self.begun.elapsed() >= SOON) {
            self.takes_done.store(self.make(), Ordering::Relaxed);
        }
    }

    /// Makes the journal now, where it can be made; true where it is there. What is done isn't written down for that yet.
    pub fn make(&self) -> bool {
        self.make_if_there_is_room() == Ok(true)
    }

    /// Makes the journal as [`Self::make`] does.
    ///
    /// # Errors
    /// If there is no room for it, which may come.
    pub fn make_if_there_is_room(&self) -> Result<bool, Errno> {
        let mut state = lock(&self.state);
        if matches!(*state, JournalState::Waiting) {
            *state = match self.site.make(&self.begin) {
                Ok(writer) => JournalState::Open(writer),
                Err(error @ (Errno::NOSPC | Errno::DQUOT)) => return Err(error),
                Err(_) => JournalState::None,
            };
        }
        Ok(matches!(*state, JournalState::Open(_)))
    }

    /// Writes down files that have their real names.
    pub fn done(&self, files: Vec<Done>) {
        if files.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        if let JournalState::Open(writer) = &mut *state {
            writer.done(files);
        }
    }

    /// Writes down a large file under its temporary name, and returns its number in the journal; none where that
    /// can't be.
    pub fn partial(&self, file: Partial) -> Option<u32> {
        file.chunks()?;
        if !self.make() {
            return None;
        }
        self.takes_done.store(true, Ordering::Relaxed);
        let mut state = lock(&self.state);
        if let JournalState::Open(writer) = &mut *state { writer.partial(file) } else { None }
    }

    /// Writes down that a chunk was handed to the kernel; false where it can't, since the journal is full or gone.
    pub fn chunk(&self, partial: u32, number: u32) -> bool {
        self.tell(&[Record::Chunk { partial, number }])
    }

    /// Writes down that chunks are on stable storage, and puts the journal there too.
    pub fn stable(&self, partial: u32, chunks: &HashSet<u32>) {
        self.tell(&[Record::Stable { partial, chunks: bits(chunks) }]);
        if let JournalState::Open(writer) = &mut *lock(&self.state) {
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
        let is_open = matches!(*lock(&self.state), JournalState::Open(_));
        if is_open && !self.tell(&[Record::Distrust]) {
            self.remove();
        }
    }

    fn tell(&self, records: &[Record]) -> bool {
        let mut state = lock(&self.state);
        if let JournalState::Open(writer) = &mut *state { writer.write(records) } else { false }
    }

    /// The directory may have its own mode again by now, which may not let its owner write.
    fn take_away(&self) -> Result<(), Errno> {
        let Site { top, name, .. } = &self.site;
        match top.take_away(name) {
            Err(Errno::ACCESS) => {}
            other => return other,
        }
        let had = let_in(top.as_fd(), Mode::RWXU)?;
        let taken = top.take_away(name);
        had.map_or(Ok(()), |had| set_mode(top.as_fd(), had))?;
        taken
    }

    /// Removes it: everything is in place.
    pub fn remove(&self) {
        let mut state = lock(&self.state);
        self.takes_done.store(false, Ordering::Relaxed);
        if !matches!(*state, JournalState::Open(_)) {
            *state = JournalState::None;
            return;
        }
        let top = &self.site.top;
        let before = top.times();
        // A journal that stays is found by the next run, which believes no more of it than of any other.
        let _ = self.take_away();
        // The journal is open until here, so that its lock holds as long as its name.
        *state = JournalState::None;
        top.wait_for_hidden();
        before.iter().for_each(|before| top.set_times(before));
    }
}

/// True where this account has begun the journal.
fn begins(file: &OwnedFd, sealer: &Sealer) -> bool {
    let records = file::open_records(file, sealer);
    records.is_ok_and(|records| records.is_some_and(|mut records| matches!(records.next(), Ok(Some(_)))))
}

fn inode_of(directory: &Directory) -> Option<u64> {
    rustix::fs::fstat(directory).ok().map(|stat| stat.st_ino)
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
    /// The errors of open(2); `ESTALE` for another file.
    pub fn reopen(&self, parent: &Directory) -> Result<OwnedFd, Errno> {
        let file = file::open_own(parent, &self.name.write())?;
        let stat = rustix::fs::fstat(&file)?;
        let same = stat.st_ino == self.inode && stat.st_size as u64 == self.size;
        if same { Ok(file) } else { Err(Errno::STALE) }
    }
}
