//! The directory with the job records of an account. Other accounts have no access to this directory, and only files
//! that belong to the account are trusted.

use linerate_sys::private::{
    create_file, open_directory, open_file, open_or_make_directory, state_directory,
};
use rustix::fs::{AtFlags, Dir, OFlags, renameat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use super::record::{JobRecord, JobState, now};

/// The name of the directory in the state directory.
const NAME: &str = "jobs";
/// The extensions of a job's files: its record, a new version of the record, and its events.
const RECORD: &str = ".json";
const NEW: &str = ".new";
const EVENTS: &str = ".events";
/// The largest record that is read, in bytes.
const LONGEST: u64 = 128 << 10;
/// The largest number of entries of the directory that are read.
const MOST_FILES: usize = 10_000;
/// How long records of jobs that have ended are kept.
pub const KEPT: Duration = Duration::from_secs(14 * 24 * 3600);

/// The directory with the job records of an account.
pub struct JobFolder(OwnedFd);

impl JobFolder {
    /// Opens the account's directory; `None` if it doesn't exist.
    ///
    /// # Errors
    /// The reason why the directory can't be opened, or isn't trusted.
    pub fn open() -> Result<Option<Self>, String> {
        let Some(path) = path() else { return Ok(None) };
        match open_directory(&path) {
            Ok(directory) => Ok(Some(Self(directory))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(refused(&path, error)),
        }
    }

    /// Opens the account's directory. If the directory is missing, creates it.
    ///
    /// # Errors
    /// The reason why the directory can't be created, or isn't trusted.
    pub fn make() -> Result<Self, String> {
        let path = path().ok_or("this account has no home directory for the records of jobs")?;
        let parent = path.parent().unwrap_or(&path);
        let made = open_or_make_directory(parent).and_then(|_| open_or_make_directory(&path));
        made.map(Self).map_err(|error| refused(&path, error))
    }

    /// All records of jobs that run or ran on this host, the newest first. Files that aren't valid records, or that
    /// don't belong to this account, are ignored.
    pub fn records(&self) -> Vec<JobRecord> {
        let names = self.names();
        let mut records: Vec<_> = names.iter().filter_map(|name| self.record(name)).collect();
        records.retain(JobRecord::is_here);
        records.sort_by_key(|record| (std::cmp::Reverse(record.since), record.id.clone(), record.role));
        records
    }

    /// The record with this name, if it exists.
    pub fn record(&self, name: &str) -> Option<JobRecord> {
        let record = self.read(name)?;
        // Between the reading of the file and the check of the process, the process may have written its result and
        // ended. So the file is read again: now it doesn't change any more.
        if record.state == JobState::Died { self.read(name) } else { Some(record) }
    }

    fn read(&self, name: &str) -> Option<JobRecord> {
        let mut bytes = Vec::new();
        let file = open_file(&self.0, &format!("{name}{RECORD}"), OFlags::RDONLY).ok()?.0;
        file.take(LONGEST).read_to_end(&mut bytes).ok()?;
        JobRecord::read(name, &bytes)
    }

    fn names(&self) -> Vec<String> {
        let entries = Dir::read_from(&self.0).into_iter().flatten().flatten().take(MOST_FILES);
        let name = |entry: rustix::fs::DirEntry| {
            entry.file_name().to_str().ok()?.strip_suffix(RECORD).map(str::to_owned)
        };
        entries.filter_map(name).collect()
    }

    /// Writes a record. Readers never see an incomplete record, unless the file system is full.
    ///
    /// # Errors
    /// If the record can't be written.
    pub fn write(&self, record: &JobRecord) -> Result<(), Errno> {
        let (bytes, name) = (record.json(), record.name());
        let (whole, new) = (format!("{name}{RECORD}"), format!("{name}{NEW}"));
        let written = create_file(&self.0, &new).and_then(|mut file| {
            file.write_all(&bytes).map_err(|_| Errno::IO)?;
            renameat(&self.0, &*new, &self.0, &*whole)
        });
        // If the file system is full, the existing record is overwritten in place, because it already has its space.
        written.or_else(|error| {
            let _ = unlinkat(&self.0, &*new, AtFlags::empty());
            let (mut file, _) = open_file(&self.0, &whole, OFlags::WRONLY).map_err(|_| error)?;
            file.write_all(&bytes).map_err(|_| error)?;
            file.set_len(bytes.len() as u64).map_err(|_| error)
        })
    }

    /// Creates the file for a job's events.
    ///
    /// # Errors
    /// If the file can't be created.
    pub fn make_events(&self, name: &str) -> Result<File, Errno> {
        create_file(&self.0, &format!("{name}{EVENTS}"))
    }

    /// The next bytes of a job's events, after the first `from` bytes; at most `most` bytes.
    pub fn events(&self, name: &str, from: u64, most: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let opened = open_file(&self.0, &format!("{name}{EVENTS}"), OFlags::RDONLY);
        let Ok((mut file, _)) = opened else { return bytes };
        if file.seek(SeekFrom::Start(from)).is_ok() {
            // Bytes that can't be read now are read by a later call.
            let _ = file.take(most).read_to_end(&mut bytes);
        }
        bytes
    }

    /// Removes the records of jobs that ended at least the time `before` ago.
    pub fn forget(&self, before: Duration) {
        let limit = now().saturating_sub(before.as_secs());
        let is_over = |record: &JobRecord| {
            record.state != JobState::Running && record.ended.unwrap_or(record.updated) <= limit
        };
        for record in self.records().iter().filter(|record| is_over(record)) {
            for end in [EVENTS, NEW, RECORD] {
                // If the file doesn't exist, there is nothing to remove.
                let _ = unlinkat(&self.0, format!("{}{end}", record.name()), AtFlags::empty());
            }
        }
    }
}

fn path() -> Option<PathBuf> {
    state_directory().map(|state| state.join(NAME))
}

fn refused(path: &std::path::Path, error: Errno) -> String {
    let why = match error {
        Errno::PERM | Errno::NOTDIR | Errno::LOOP => {
            "it must be a directory of this account with mode 0700".to_owned()
        }
        error => error.to_string(),
    };
    format!("the records of detached jobs in {}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::super::record::JobRole;
    use super::*;
    use linerate_wire::control::JobId;
    use rustix::fs::{FileType, Mode};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn record(number: u8) -> JobRecord {
        JobRecord::begin(JobId([number; 4]), JobRole::Receives, ("src".into(), "dst".into())).unwrap()
    }

    fn folder(path: &Path) -> JobFolder {
        JobFolder(open_or_make_directory(path).unwrap())
    }

    #[test]
    fn what_is_not_this_accounts_own_record_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let (path, aside) = (directory.path().join("jobs"), directory.path().join("aside"));
        let folder = folder(&path);
        folder.write(&record(1)).unwrap();
        let good = std::fs::read(path.join("01010101-receives.json")).unwrap();
        let planted = |name: &str| path.join(format!("{name}.json"));
        std::fs::write(&aside, String::from_utf8(good.clone()).unwrap().replace("01010101", "02020202"))
            .unwrap();
        symlink(&aside, planted("02020202-receives")).unwrap();
        std::fs::hard_link(&aside, planted("03030303-receives")).unwrap();
        std::fs::write(planted("04040404-receives"), b"{\"schema\":1,").unwrap();
        std::fs::write(planted("05050505-receives"), &good).unwrap();
        std::fs::write(planted("06060606-receives"), "x".repeat(1 << 20)).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            planted("07070707-receives"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        std::fs::create_dir(planted("08080808-receives")).unwrap();
        let open = JobRecord { id: "09090909".into(), ..record(9) };
        std::fs::write(planted("09090909-receives"), open.json()).unwrap();
        std::fs::set_permissions(planted("09090909-receives"), PermissionsExt::from_mode(0o666)).unwrap();
        let names: Vec<_> = folder.records().into_iter().map(|record| record.id).collect();
        assert_eq!(names, ["01010101"]);
        folder.forget(Duration::ZERO);
        assert!(aside.exists() && planted("02020202-receives").is_symlink(), "what is foreign stays");
    }

    #[test]
    fn a_directory_that_others_may_enter_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs");
        folder(&path);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(open_directory(&path).err(), Some(Errno::PERM));
        symlink(&path, directory.path().join("link")).unwrap();
        assert!(open_directory(&directory.path().join("link")).is_err());
    }

    #[test]
    fn records_of_what_runs_stay_and_others_go_in_time() {
        let directory = tempfile::tempdir().unwrap();
        let folder = folder(&directory.path().join("jobs"));
        let ended = |number, ago| {
            let (state, ended) = (JobState::Finished, Some(now() - ago));
            JobRecord { state, ended, ..record(number) }
        };
        for record in [record(1), ended(2, 10), ended(3, KEPT.as_secs() + 10)] {
            folder.write(&record).unwrap();
            folder.make_events(&record.name()).unwrap();
        }
        folder.forget(KEPT);
        assert_eq!(folder.records().len(), 2);
        folder.forget(Duration::ZERO);
        assert_eq!(folder.records().iter().map(|left| &*left.id).collect::<Vec<_>>(), ["01010101"]);
        assert_eq!(std::fs::read_dir(directory.path().join("jobs")).unwrap().count(), 2);
    }

    #[test]
    fn events_are_read_piece_by_piece() {
        let directory = tempfile::tempdir().unwrap();
        let folder = folder(&directory.path().join("jobs"));
        folder.make_events("x").unwrap().write_all(b"one\ntwo\n").unwrap();
        assert_eq!(folder.events("x", 0, 4), b"one\n");
        assert_eq!(folder.events("x", 4, 100), b"two\n");
        assert_eq!(folder.events("x", 8, 100), b"");
        assert_eq!(folder.events("y", 0, 100), b"");
    }
}
