//! The journal's file. It is opened only if it belongs to this user and no other process has locked it. It is written
//! record by record.
//!
//! Whether programs of this user have written the file is a separate question, which the tags of its records answer.

use linerate_wire::entry::Timestamp;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::{AsFd, OwnedFd};

use super::past::Past;
use super::record::{Begin, Done, MAX_JOURNAL, Partial, Record};
use super::seal::{HEADER, Records, Salt, Seal, Sealer, append, append_header};
use crate::tree::root::Directory;
use crate::tree::stamp::ctime;

/// The mode of a journal, which contains names of files.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The state of a journal's name.
pub enum HeldJournal {
    /// A file of this user that this process has locked.
    Ours(OwnedFd),
    /// No file has this name.
    Missing,
    /// Another process has locked the file.
    Busy,
    /// The name belongs to a file that another user may have written, or to a symbolic link.
    Foreign,
}

/// Opens and locks the journal `name`.
///
/// # Errors
/// The errors of open(2) and flock(2).
pub fn open(directory: &Directory, name: &OsStr) -> Result<HeldJournal, Errno> {
    let file = match open_own(directory, name) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(HeldJournal::Missing),
        Err(Errno::STALE | Errno::LOOP) => return Ok(HeldJournal::Foreign),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(HeldJournal::Busy),
        Err(error) => return Err(error),
    }
    // The file's owner may have removed it between the two calls.
    let gone = rustix::fs::fstat(&file)?.st_nlink == 0;
    Ok(if gone { HeldJournal::Missing } else { HeldJournal::Ours(file) })
}

/// Opens a file for reading and writing, unless another user could have created or written it.
///
/// # Errors
/// The errors of open(2); `ESTALE` if the file isn't this user's own.
pub fn open_own(directory: &Directory, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    if is_own(&rustix::fs::fstat(&file)?) { Ok(file) } else { Err(Errno::STALE) }
}

/// True for a regular file of this user that has at most one name, and that neither its group nor other users may
/// write.
pub fn is_own(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_nlink <= 1
        && stat.st_mode & 0o022 == 0
}

/// Writes records.
pub struct JournalWriter {
    file: OwnedFd,
    /// The offset of the next record. Bytes of an incomplete record may follow after this offset.
    at: u64,
    /// The seal of the next record.
    seal: Seal,
    next_partial: u32,
    /// Whether this run has created the journal and has written only its first record.
    is_bare: bool,
    buffer: Vec<u8>,
}

impl JournalWriter {
    /// Creates the journal, readable only for this user.
    ///
    /// # Errors
    /// If the journal can't be created and locked, or if there is no space for it. If there is no space, no file
    /// remains.
    pub fn make(directory: &Directory, name: &OsStr, begin: &Begin, sealer: &Sealer) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name, flags, PRIVATE)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Self::begin_new(file, begin, sealer).inspect_err(|_| {
            let _ = directory.take_away(name);
        })
    }

    /// Reads the records of earlier runs, and continues after them. Records that another user wrote aren't
    /// trusted, and are removed.
    ///
    /// # Errors
    /// If the journal can't be read or written.
    pub fn go_on(file: OwnedFd, begin: &Begin, sealer: &Sealer) -> Result<(Self, Option<Past>), Errno> {
        let Some((records, past)) = read(&file, begin, sealer).map_err(|_| Errno::IO)? else {
            rustix::fs::ftruncate(&file, 0)?;
            rustix::fs::fchmod(&file, PRIVATE)?;
            return Ok((Self::begin_new(file, begin, sealer)?, None));
        };
        // Bytes after the last complete record are the beginning of a record that was cut off.
        rustix::fs::ftruncate(&file, records.good)?;
        let (at, seal, next_partial) = (records.good, records.seal, past.next_index());
        let mut writer = Self { file, at, seal, next_partial, is_bare: false, buffer: Vec::new() };
        if writer.write(&[Record::Begin(begin.clone())]) {
            Ok((writer, Some(past)))
        } else {
            Err(Errno::NOSPC)
        }
    }

    /// Writes the header and the first record. Fails if there is no space for both.
    fn begin_new(file: OwnedFd, begin: &Begin, sealer: &Sealer) -> Result<Self, Errno> {
        let mut salt = Salt::default();
        aws_lc_rs::rand::fill(&mut salt).map_err(|_| Errno::IO)?;
        let (mut seal, mut buffer) = (sealer.with(&salt), Vec::with_capacity(2 * HEADER));
        append_header(&salt, &mut buffer);
        append(&Record::Begin(begin.clone()), &mut seal, &mut buffer);
        let mut writer = Self { file, at: 0, seal: seal.clone(), next_partial: 0, is_bare: true, buffer };
        writer.write_out(seal)?;
        Ok(writer)
    }

    /// True if this run created the journal and has recorded nothing yet except its beginning.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Records files that have got their real names, followed by a time. The time comes from the file system, because
    /// the clock of this host may differ from the clock of a file server.
    pub fn done(&mut self, files: Vec<Done>) {
        let Ok(at) = self.now() else { return };
        let files = files.into_iter().map(Record::Done);
        self.write(&files.chain([Record::Stamp(at)]).collect::<Vec<_>>());
    }

    fn now(&self) -> Result<Timestamp, Errno> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        rustix::fs::futimens(&self.file, &Timestamps { last_access: now, last_modification: now })?;
        Ok(ctime(&rustix::fs::fstat(&self.file)?))
    }

    /// Records a partial file and returns its number in the journal.
    pub fn partial(&mut self, file: Partial) -> Option<u32> {
        let index = self.next_partial;
        self.next_partial = index.checked_add(1)?;
        self.write(&[Record::Partial(Partial { index, ..file })]).then_some(index)
    }

    /// Writes `records`; false if that failed.
    pub fn write(&mut self, records: &[Record]) -> bool {
        let mut seal = self.seal.clone();
        self.buffer.clear();
        self.is_bare = false;
        records.iter().all(|record| append(record, &mut seal, &mut self.buffer))
            && self.write_out(seal).is_ok()
    }

    /// Writes the records in the buffer at the current offset. If they don't fit, the next records are written at the
    /// same offset, so no record ever follows an incomplete one. After a successful write, the next record uses `seal`.
    fn write_out(&mut self, seal: Seal) -> Result<(), Errno> {
        if self.at + self.buffer.len() as u64 > MAX_JOURNAL {
            return Err(Errno::FBIG);
        }
        let mut written = 0;
        while written < self.buffer.len() {
            match rustix::io::pwrite(&self.file, &self.buffer[written..], self.at + written as u64) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.at += written as u64;
        self.seal = seal;
        Ok(())
    }

    /// Syncs the journal to stable storage. If syncing fails, the journal may have fewer records after a
    /// reboot.
    pub fn sync(&self) {
        let _ = rustix::fs::fdatasync(self.file.as_fd());
    }
}

/// The records of earlier runs, and the offset of their end; `None` if the file has no records of this account.
fn read(
    file: &OwnedFd,
    begin: &Begin,
    sealer: &Sealer,
) -> io::Result<Option<(Records<BufReader<File>>, Past)>> {
    let Some(mut records) = open_records(file, sealer)? else { return Ok(None) };
    let (mut past, header) = (Past::new(begin.epoch), records.good);
    while let Some(record) = records.next()? {
        past.take(record);
    }
    past.settle();
    let has_any = records.good > header;
    Ok(has_any.then_some((records, past)))
}

/// The records of `file`, if it is a journal.
///
/// # Errors
/// If the file can't be read.
pub fn open_records(file: &OwnedFd, sealer: &Sealer) -> io::Result<Option<Records<BufReader<File>>>> {
    let reader = BufReader::with_capacity(256 << 10, File::from(file.try_clone()?));
    Records::open(reader, sealer)
}
