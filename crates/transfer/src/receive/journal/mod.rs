//! The receiver's journal. It records which files and chunks have arrived, so if the same command is run
//! again, only the missing data is sent.
//!
//! `docs/formats.md` describes the format, the rules for trusting a journal, and the reasons for these rules.

mod chunks;
mod done;
mod file;
pub mod foreign;
mod holder;
mod key;
#[cfg(test)]
mod memory_measured;
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

/// A transfer that takes longer than this starts to record finished files. It starts earlier if it receives a large
/// file.
const SOON: Duration = Duration::from_millis(500);
/// As soon as at least this number of bytes is in place, a transfer starts to record finished files, even before
/// `SOON`.
const FEW_BYTES: u64 = 64 << 20;

/// The name of the journal of the command that `options` identify, for sources that land at `places`.
fn name(options: &Options, places: &[RelPath]) -> Option<OsString> {
    let said = postcard::to_stdvec(&(options.resume?, options.recursive, options.keep, places)).ok()?;
    let key = blake3::hash(&said);
    Some(format!("{JOURNAL}{}", &key.to_hex()[..JOURNAL_DIGITS]).into())
}

/// The location of a command's journal, and what is needed to recognize the journal.
#[derive(Clone)]
pub struct Site {
    top: Arc<Directory>,
    name: OsString,
    /// The places below `top` to which the command writes. A key found in one of these places isn't trusted, because
    /// the far end may have sent it.
    places: Vec<RelPath>,
    keys: KeyStore,
}

/// The journal of a run.
pub struct Journal {
    site: Site,
    begin: Begin,
    begun: Instant,
    state: Mutex<JournalState>,
    /// True once finished files are recorded. The value can be read without the lock; taking the lock for each file
    /// would be too slow.
    takes_done: AtomicBool,
}

enum JournalState {
    /// The journal doesn't exist yet; it is created when it is worthwhile.
    Waiting,
    Open(JournalWriter),
    /// The run has no journal: the journal can't be created, or was given up.
    None,
}

/// The result of looking for a journal.
pub enum Found {
    /// No journal of this account exists; a new one may be created.
    Nothing(Journal),
    /// The journal of an earlier run, which this run continues.
    Past(Journal, Box<Past>),
    /// Another run of the same command is using the journal.
    Busy,
}

impl Site {
    /// The location of the journal of the command that `options` identify, for sources that land at `places` below
    /// `top`; `None` if the command has no journal.
    pub fn of(top: &Arc<Directory>, options: &Options, places: Vec<RelPath>, keys: KeyStore) -> Option<Self> {
        Some(Self { top: top.clone(), name: name(options, &places)?, places, keys })
    }

    /// True if an earlier run of this account has left its journal here, or a run is using it now.
    pub fn has_journal(&self) -> bool {
        match file::open(&self.top, &self.name) {
            Ok(HeldJournal::Ours(file)) => self.sealer(false).is_some_and(|sealer| begins(&file, &sealer)),
            Ok(HeldJournal::Busy) => true,
            Ok(HeldJournal::Missing | HeldJournal::Foreign) | Err(_) => false,
        }
    }

    /// The sealer for the account's journals. If `make` is set, a missing key is created. `None` if the account can't
    /// have journals here.
    fn sealer(&self, make: bool) -> Option<Sealer> {
        let written = Written { top: &self.top, places: &self.places };
        let key = if make { self.keys.find_or_make(&written) } else { self.keys.find(Some(&written)) }?;
        Some(Sealer::new(key, &self.name, inode_of(&self.top)?))
    }

    /// Creates the journal, which must not exist.
    fn make(&self, begin: &Begin) -> Result<JournalWriter, Errno> {
        JournalWriter::make(&self.top, &self.name, begin, &self.sealer(true).ok_or(Errno::NOKEY)?)
    }

    fn go_on(&self, file: OwnedFd, begin: &Begin) -> Option<(JournalWriter, Option<Past>)> {
        JournalWriter::go_on(file, begin, &self.sealer(true)?).ok()
    }
}

impl Journal {
    /// Opens the journal at `site`, for a run whose temporary names contain `nonce`.
    pub fn find(site: Site, nonce: [u8; 8]) -> Found {
        let begin = Begin { epoch: epoch(&site.top), nonce };
        let (state, past) = match file::open(&site.top, &site.name) {
            Ok(HeldJournal::Ours(file)) => match site.go_on(file, &begin) {
                Some((writer, past)) => (JournalState::Open(writer), past),
                None => (JournalState::None, None),
            },
            Ok(HeldJournal::Missing) => (JournalState::Waiting, None),
            Ok(HeldJournal::Busy) => return Found::Busy,
            // The name is taken by somebody else's file, or by an entry that isn't a regular file.
            Ok(HeldJournal::Foreign) | Err(_) => (JournalState::None, None),
        };
        let takes_done = AtomicBool::new(matches!(state, JournalState::Open(_)));
        let journal = Self { site, begin, begun: Instant::now(), state: Mutex::new(state), takes_done };
        match past {
            Some(past) => Found::Past(journal, Box::new(past)),
            None => Found::Nothing(journal),
        }
    }

    /// A journal that is never created, for a transfer that can't be resumed.
    pub fn none(top: &Arc<Directory>) -> Self {
        let (name, places) = (OsString::new(), Vec::new());
        Self {
            site: Site { top: top.clone(), name, places, keys: KeyStore::Nowhere },
            begin: Begin { epoch: Epoch::default(), nonce: [0; 8] },
            begun: Instant::now(),
            state: Mutex::new(JournalState::None),
            takes_done: AtomicBool::new(false),
        }
    }

    /// True if this run records its progress, now or later.
    pub fn is_wanted(&self) -> bool {
        !self.site.name.is_empty()
    }

    /// True if files are recorded when they get their names.
    pub fn takes_done(&self) -> bool {
        self.takes_done.load(Ordering::Relaxed)
    }

    /// True if this run created the journal and has recorded nothing yet except its beginning.
    pub fn is_bare(&self) -> bool {
        matches!(&*lock(&self.state), JournalState::Open(writer) if writer.is_bare())
    }

    /// True if files in `directory` may be recorded. Their times must come from the same file system as the journal's
    /// times.
    pub fn covers(&self, directory: &Directory) -> bool {
        directory.device == self.site.top.device
    }

    /// Starts to record finished files as soon as that is worthwhile; `landed` is the number of bytes that
    /// are in place.
    pub fn look(&self, landed: u64) {
        if !self.takes_done() && (landed >= FEW_BYTES || self.begun.elapsed() >= SOON) {
            self.takes_done.store(self.make(), Ordering::Relaxed);
        }
    }

    /// Creates the journal now if possible; true if the journal exists afterwards. This function doesn't start the
    /// recording of finished files.
    pub fn make(&self) -> bool {
        self.make_if_there_is_room() == Ok(true)
    }

    /// Creates the journal as [`Self::make`] does.
    ///
    /// # Errors
    /// If there is no space for the journal; there may be space later.
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

    /// Records files that have got their real names.
    pub fn done(&self, files: Vec<Done>) {
        if files.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        if let JournalState::Open(writer) = &mut *state {
            writer.done(files);
        }
    }

    /// Records a large file under its temporary name, and returns its number in the journal; `None` if that fails.
    pub fn partial(&self, file: Partial) -> Option<u32> {
        file.chunks()?;
        if !self.make() {
            return None;
        }
        self.takes_done.store(true, Ordering::Relaxed);
        let mut state = lock(&self.state);
        if let JournalState::Open(writer) = &mut *state { writer.partial(file) } else { None }
    }

    /// Records that a chunk was passed to the kernel; false if the journal is full or gone.
    pub fn chunk(&self, partial: u32, number: u32) -> bool {
        self.report(&[Record::Chunk { partial, number }])
    }

    /// Records that chunks are on stable storage, and syncs the journal too.
    pub fn stable(&self, partial: u32, chunks: &HashSet<u32>) {
        self.report(&[Record::Stable { partial, chunks: bits(chunks) }]);
        if let JournalState::Open(writer) = &mut *lock(&self.state) {
            writer.sync();
        }
    }

    /// Records that a directory is created at `place`, with a temporary mode.
    pub fn made(&self, place: &RelPath) {
        self.directory(Record::Made { place: place.clone() });
    }

    /// Records that the owner is given access to the directory at `place`, whose mode was `mode`.
    pub fn opened(&self, place: &RelPath, mode: u32) {
        self.directory(Record::Opened { place: place.clone(), mode });
    }

    /// Writes a record about a directory's mode. If that fails and this run is killed, the next run doesn't
    /// restore the mode.
    fn directory(&self, record: Record) {
        if self.make() {
            self.report(&[record]);
        }
    }

    /// Records that the storage has lost data, so that the next run doesn't trust chunks that were only passed to the
    /// kernel. If the record can't be written, the journal is removed.
    pub fn distrust(&self) {
        let is_open = matches!(*lock(&self.state), JournalState::Open(_));
        if is_open && !self.report(&[Record::Distrust]) {
            self.remove();
        }
    }

    fn report(&self, records: &[Record]) -> bool {
        let mut state = lock(&self.state);
        if let JournalState::Open(writer) = &mut *state { writer.write(records) } else { false }
    }

    /// Removes the journal's file, even if the mode of the directory doesn't let the directory's owner write.
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

    /// Removes the journal. This is done when all entries are in place, or when the journal can't be trusted.
    pub fn remove(&self) {
        let mut state = lock(&self.state);
        self.takes_done.store(false, Ordering::Relaxed);
        if !matches!(*state, JournalState::Open(_)) {
            *state = JournalState::None;
            return;
        }
        let top = &self.site.top;
        let before = top.times();
        // If the journal can't be removed, the next run finds it and checks its records as usual.
        let _ = self.take_away();
        // The journal is closed only here, so that it stays locked as long as its name exists.
        *state = JournalState::None;
        top.wait_for_hidden();
        before.iter().for_each(|before| top.set_times(before));
    }
}

/// True if this account wrote the journal's first record.
fn begins(file: &OwnedFd, sealer: &Sealer) -> bool {
    let records = file::open_records(file, sealer);
    records.is_ok_and(|records| records.is_some_and(|mut records| matches!(records.next(), Ok(Some(_)))))
}

fn inode_of(directory: &Directory) -> Option<u64> {
    rustix::fs::fstat(directory).ok().map(|stat| stat.st_ino)
}

/// The boot ID of the kernel and the ID of the mount that contains `directory`. If the IDs can't be determined, they
/// are zeros, and data that was only passed to the kernel is never trusted.
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
    /// Opens the temporary file in `parent` for writing, if it is still the file that was recorded.
    ///
    /// # Errors
    /// The errors of open(2); `ESTALE` if the name belongs to another file now.
    pub fn reopen(&self, parent: &Directory) -> Result<OwnedFd, Errno> {
        let file = file::open_own(parent, &self.name.write())?;
        let stat = rustix::fs::fstat(&file)?;
        let same = stat.st_ino == self.inode && stat.st_size as u64 == self.size;
        if same { Ok(file) } else { Err(Errno::STALE) }
    }
}
