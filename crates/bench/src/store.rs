//! The results store has a directory for each invocation of a study. Each run is written to this directory as
//! soon as the run has ended.
//!
//! In the directory, `study.toml` is a copy of the study file, and `invocation.json` holds the arguments. `record.json`
//! holds the [`Record`] without its runs, and `runs.jsonl` one [`Run`] in each line. `warmups.jsonl` holds the untimed
//! runs, and `disturbed.jsonl` the disturbed runs that were repeated. `raw/` holds the compressed output of each run's
//! commands, and `samples/` the compressed recordings of the samplers.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use linerate_wire::path::printable;
use serde::{Deserialize, Serialize};

use crate::record::{Record, Run, SCHEMA};
use crate::spec::MOST_BLOCKS;

/// The file of disturbed runs that were replaced by other runs. It exists only if there are such runs.
const DISTURBED: &str = "disturbed.jsonl";

/// A directory of results to which runs are being written.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    runs: File,
    warmups: File,
}

/// The arguments of a study that affect its results. An interrupted study is continued with the same
/// arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Invocation {
    /// The name of the study file, for error messages.
    pub file: String,
    /// The number of bytes of generated data, if it replaces the study's own number.
    pub size: Option<u64>,
    /// The user's own tree, if it replaces generated data.
    pub tree: Option<PathBuf>,
    /// True if the study uses its quick settings.
    pub quick: bool,
    /// Directories with additional tool files.
    pub tools: Vec<PathBuf>,
    /// The hosts as the user wrote them; `None` for a lab.
    pub hosts: Option<String>,
    /// The remote shell that the user requested.
    pub rsh: Option<String>,
    /// The address of the receiving end that the user requested.
    pub address_b: Option<String>,
}

/// The results of an interrupted study, opened to add the missing runs.
#[derive(Debug)]
pub struct Resumed {
    /// The store to which the missing runs are written.
    pub store: Store,
    /// The record with the runs so far.
    pub record: Record,
    /// The number of untimed runs that are already stored.
    pub warmups: usize,
    /// The number of disturbed runs that are stored and were replaced by other runs.
    pub disturbed: usize,
}

/// The reason why results can't be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file can't be read or written.
    #[error("{action} {path}: {cause}")]
    Io {
        /// The action that failed, for the error message.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason why the action failed.
        cause: io::Error,
    },
    /// A file isn't a stored record.
    #[error("{path}:{line}: not a stored record: {}", printable(cause.to_string().as_bytes()))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The error of the JSON parser.
        cause: serde_json::Error,
    },
    /// Another process is writing in the directory.
    #[error("another linerate is writing to {0}: wait until that linerate has ended")]
    Busy(PathBuf),
    /// A newer version of the program wrote the file.
    #[error(
        "{path} has format {found}, but this program reads formats up to {SCHEMA}; read it with a newer linerate"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of the file's format.
        found: u32,
    },
}

/// Results that were read from a store.
#[derive(Debug)]
pub struct Loaded {
    /// The record with its runs.
    pub record: Record,
    /// True if the last run was cut off while it was being written. Such a run is omitted.
    pub torn: bool,
}

impl Store {
    /// Makes a directory `STUDY-TIME` below `out`, and writes the record's head, the study's text and the arguments to
    /// it.
    ///
    /// # Errors
    /// If a directory or file can't be created.
    pub fn create(
        out: &Path,
        record: &Record,
        study: &str,
        invocation: &Invocation,
    ) -> Result<Store, StoreError> {
        let name = format!("{}-{}", file_name(&record.study), record.started.replace(':', "-"));
        let dir = fresh(out, &name)?;
        make(&dir.join("raw"))?;
        write(&dir.join("study.toml"), study.as_bytes())?;
        let path = dir.join("invocation.json");
        let json = serde_json::to_vec_pretty(invocation).map_err(io::Error::other);
        let json = json.map_err(|cause| StoreError::Io { action: "writing", path: path.clone(), cause })?;
        write(&path, &json)?;
        let store = Store {
            runs: append_to(&dir.join("runs.jsonl"))?,
            warmups: append_to(&dir.join("warmups.jsonl"))?,
            dir,
        };
        store.claim()?;
        store.write_head(record)?;
        Ok(store)
    }

    /// Opens the results of an interrupted study again. Removes a partial last line, which a crash may leave.
    ///
    /// # Errors
    /// The errors of [`load`], and an error if another process is still writing to the directory.
    pub fn resume(dir: &Path) -> Result<Resumed, StoreError> {
        // The results are read first, because opening the files for appending would create missing files.
        load(dir)?;
        let store = Store {
            runs: append_to(&dir.join("runs.jsonl"))?,
            warmups: append_to(&dir.join("warmups.jsonl"))?,
            dir: dir.to_owned(),
        };
        store.claim()?;
        store.cut("runs.jsonl", &store.runs)?;
        let warmups = store.cut("warmups.jsonl", &store.warmups)?;
        let disturbed = store.disturbed()?;
        Ok(Resumed { record: load(dir)?.record, warmups, disturbed, store })
    }

    /// Locks the directory for as long as this store exists, so that no other process writes to the directory.
    fn claim(&self) -> Result<(), StoreError> {
        match self.runs.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(StoreError::Busy(self.dir.clone())),
            Err(TryLockError::Error(cause)) => {
                Err(StoreError::Io { action: "locking", path: self.dir.join("runs.jsonl"), cause })
            }
        }
    }

    /// Removes an incomplete last line from a file, and returns the number of complete lines.
    fn cut(&self, name: &str, file: &File) -> Result<usize, StoreError> {
        let text = read(&self.dir.join(name))?;
        let whole = whole(&text);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(|cause| self.failed(name, cause))?;
        }
        Ok(text[..whole].iter().filter(|byte| **byte == b'\n').count())
    }

    /// The number of disturbed runs that were replaced by other runs. An incomplete last line of their file
    /// is removed.
    fn disturbed(&self) -> Result<usize, StoreError> {
        let path = self.dir.join(DISTURBED);
        if path.exists() { self.cut(DISTURBED, &append_to(&path)?) } else { Ok(0) }
    }

    /// The directory of the results.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Replaces the stored record, without its runs.
    ///
    /// # Errors
    /// If the record can't be written.
    pub fn write_head(&self, record: &Record) -> Result<(), StoreError> {
        let head = Record { runs: Vec::new(), ..record.clone() };
        let path = self.dir.join("record.json");
        let json = serde_json::to_vec_pretty(&head).map_err(io::Error::other);
        let json = json.map_err(|cause| StoreError::Io { action: "writing", path: path.clone(), cause })?;
        // The file is replaced in one step, so that a reader finds either the old or the new contents, even
        // after a crash.
        let partial = self.dir.join("record.json.new");
        write(&partial, &json)?;
        fs::rename(&partial, &path).map_err(|cause| StoreError::Io { action: "writing", path, cause })
    }

    /// Appends a run. When this method returns, the run is on stable storage.
    ///
    /// # Errors
    /// If the run can't be written.
    pub fn append(&mut self, run: &Run) -> Result<(), StoreError> {
        append_line(&mut self.runs, run).map_err(|cause| self.failed("runs.jsonl", cause))
    }

    /// Appends an untimed run.
    ///
    /// # Errors
    /// If the run can't be written.
    pub fn append_warmup(&mut self, run: &Run) -> Result<(), StoreError> {
        append_line(&mut self.warmups, run).map_err(|cause| self.failed("warmups.jsonl", cause))
    }

    /// Appends a disturbed run that another run replaces.
    ///
    /// # Errors
    /// If the run can't be written.
    pub fn append_disturbed(&self, run: &Run) -> Result<(), StoreError> {
        let mut file = append_to(&self.dir.join(DISTURBED))?;
        append_line(&mut file, run).map_err(|cause| self.failed(DISTURBED, cause))
    }

    /// Stores the output of a run's commands, compressed, as `raw/NAME.log.zst`.
    ///
    /// # Errors
    /// If the output can't be written.
    pub fn write_log(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.dir.join("raw").join(format!("{}.log.zst", file_name(name)));
        let packed = zstd::bulk::compress(bytes, 3);
        let packed =
            packed.map_err(|cause| StoreError::Io { action: "writing", path: path.clone(), cause })?;
        write(&path, &packed)
    }

    /// Stores a sampler's recording of a run, compressed, as `samples/NAME.rec.zst`, and returns this path.
    ///
    /// # Errors
    /// If the recording can't be written.
    pub fn write_samples(&self, name: &str, bytes: &[u8]) -> Result<String, StoreError> {
        make(&self.dir.join("samples"))?;
        let path = format!("samples/{}.rec.zst", file_name(name));
        let compressed = zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL);
        write(&self.dir.join(&path), &compressed.map_err(|cause| self.failed(&path, cause))?)?;
        Ok(path)
    }

    fn failed(&self, file: &str, cause: io::Error) -> StoreError {
        StoreError::Io { action: "writing", path: self.dir.join(file), cause }
    }
}

/// Reads results from a directory of results, or from a file that contains a whole record with its runs.
///
/// # Errors
/// If a file can't be read, is damaged, or was written by a newer program.
pub fn load_any(path: &Path) -> Result<Loaded, StoreError> {
    if path.is_file() { load_head(path).map(|record| Loaded { record, torn: false }) } else { load(path) }
}

/// Reads the results in a directory.
///
/// # Errors
/// If a file can't be read, is damaged, or was written by a newer program.
pub fn load(dir: &Path) -> Result<Loaded, StoreError> {
    let damaged = |path: &Path, line, cause| StoreError::Damaged { path: path.to_owned(), line, cause };
    let mut record = load_head(&dir.join("record.json"))?;
    let path = dir.join("runs.jsonl");
    let text = read(&path)?;
    let whole = whole(&text);
    for (i, line) in text[..whole].split(|byte| *byte == b'\n').enumerate() {
        if !line.is_empty() {
            record.runs.push(serde_json::from_slice(line).map_err(|e| damaged(&path, i + 1, e))?);
        }
    }
    Ok(Loaded { record, torn: whole < text.len() })
}

fn load_head(path: &Path) -> Result<Record, StoreError> {
    let damaged =
        |cause: serde_json::Error| StoreError::Damaged { path: path.to_owned(), line: cause.line(), cause };
    let probe: serde_json::Value = serde_json::from_slice(&read(path)?).map_err(damaged)?;
    let found = probe.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if found > u64::from(SCHEMA) {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found: u32::try_from(found).unwrap_or(u32::MAX),
        });
    }
    let record: Record = serde_json::from_value(probe).map_err(damaged)?;
    if record.blocks > MOST_BLOCKS {
        let reported = format!("it has {} blocks, but a study has at most {MOST_BLOCKS}", record.blocks);
        return Err(damaged(serde::de::Error::custom(reported)));
    }
    Ok(record)
}

/// The arguments and the text of the study in a directory.
///
/// # Errors
/// If a file can't be read or is damaged.
pub fn invocation(dir: &Path) -> Result<(Invocation, String), StoreError> {
    let path = dir.join("invocation.json");
    let made = serde_json::from_slice(&read(&path)?);
    let made = made.map_err(|cause| StoreError::Damaged { path, line: cause.line(), cause })?;
    let study = String::from_utf8_lossy(&read(&dir.join("study.toml"))?).into_owned();
    Ok((made, study))
}

/// The length of the complete lines in bytes. Text after the last newline was cut off by a crash.
fn whole(text: &[u8]) -> usize {
    text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

fn fresh(out: &Path, name: &str) -> Result<PathBuf, StoreError> {
    make(out)?;
    for n in 1_u32.. {
        let dir = out.join(if n == 1 { name.to_owned() } else { format!("{name}-{n}") });
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(StoreError::Io { action: "making", path: dir, cause }),
        }
    }
    unreachable!("four thousand million directories of one second")
}

fn make(dir: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(dir).map_err(|cause| StoreError::Io { action: "making", path: dir.to_owned(), cause })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let written =
        File::create(path).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_data()));
    written.map_err(|cause| StoreError::Io { action: "writing", path: path.to_owned(), cause })
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    fs::read(path).map_err(|cause| StoreError::Io { action: "reading", path: path.to_owned(), cause })
}

fn append_to(path: &Path) -> Result<File, StoreError> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|cause| StoreError::Io { action: "making", path: path.to_owned(), cause })
}

/// Appends a line. The line and its newline are written with one call, so that a crash leaves either the
/// whole line or a part without a newline.
fn append_line(file: &mut File, run: &Run) -> io::Result<()> {
    let mut line = serde_json::to_vec(run)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
}

/// The name without characters that have a special meaning in a path.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

impl Drop for Store {
    fn drop(&mut self) {
        // A child process that was just forked may still have the file open, and so hold the lock, until it
        // executes its own program.
        let _ = self.runs.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Outcome;
    use crate::testing::{measured, record, run};

    fn stored(out: &Path) -> Store {
        let mut store =
            Store::create(out, &record(&["a"], 2, vec![]), "name = 1", &Invocation::default()).unwrap();
        store.append(&run("a", 0, measured(9.0, 1.0))).unwrap();
        store.append(&run("a", 1, Outcome::Failed { reason: "no\nroom".into() })).unwrap();
        store
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let out = tempfile::tempdir().unwrap();
        let mut store = stored(out.path());
        store.append_warmup(&run("a", 0, Outcome::Unavailable { reason: "x".into() })).unwrap();
        store.write_log("000-../a", b"hello").unwrap();
        let loaded = load(store.dir()).unwrap();
        assert!(!loaded.torn);
        assert_eq!(loaded.record.runs.len(), 2);
        assert!(matches!(&loaded.record.runs[1].outcome, Outcome::Failed { reason } if reason == "no\nroom"));
        assert!(matches!(&loaded.record.runs[0].outcome, Outcome::Measured(m) if m.seconds == 1.0));
        assert_eq!(fs::read_to_string(store.dir().join("study.toml")).unwrap(), "name = 1");
        let log = fs::read(store.dir().join("raw/000-.._a.log.zst")).unwrap();
        assert_eq!(zstd::bulk::decompress(&log, 100).unwrap(), b"hello");
    }

    #[test]
    fn two_invocations_of_one_second_do_not_meet() {
        let out = tempfile::tempdir().unwrap();
        let (a, b) = (stored(out.path()), stored(out.path()));
        assert_ne!(a.dir(), b.dir());
        assert!(a.dir().file_name().unwrap().to_str().unwrap().starts_with("test-2026-01-01T00-00-00Z"));
    }

    #[test]
    fn a_line_that_was_cut_off_is_left_out_and_a_damaged_one_is_an_error() {
        let out = tempfile::tempdir().unwrap();
        let store = stored(out.path());
        let path = store.dir().join("runs.jsonl");
        let whole = fs::read(&path).unwrap();
        for cut in 1..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let loaded = load(store.dir()).unwrap();
            let ends = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!((loaded.record.runs.len(), loaded.torn), (ends, whole[cut - 1] != b'\n'));
        }
        fs::write(&path, b"{\"case\":\n").unwrap();
        assert!(load(store.dir()).unwrap_err().to_string().contains("runs.jsonl:1"));
    }

    #[test]
    fn a_file_with_a_whole_record_is_read_too() {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("record.json");
        let whole = record(&["a"], 1, vec![run("a", 0, measured(9.0, 1.0))]);
        fs::write(&path, serde_json::to_vec(&whole).unwrap()).unwrap();
        assert_eq!(load_any(&path).unwrap().record.runs.len(), 1);
        assert_eq!(load_any(stored(out.path()).dir()).unwrap().record.runs.len(), 2);
        assert!(load_any(&out.path().join("none")).is_err());
    }

    #[test]
    fn what_was_cut_off_is_dropped_where_a_study_goes_on() {
        let out = tempfile::tempdir().unwrap();
        let store = stored(out.path());
        let dir = store.dir().to_owned();
        assert!(matches!(Store::resume(&dir).unwrap_err(), StoreError::Busy(_)));
        drop(store);
        let path = dir.join("runs.jsonl");
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 5]).unwrap();
        let mut resumed = Store::resume(&dir).unwrap();
        assert_eq!((resumed.record.runs.len(), resumed.warmups), (1, 0));
        resumed.store.append(&run("a", 1, measured(9.0, 1.0))).unwrap();
        let loaded = load(&dir).unwrap();
        assert_eq!((loaded.record.runs.len(), loaded.torn), (2, false));
    }

    #[test]
    fn how_a_study_was_called_is_read_again() {
        let out = tempfile::tempdir().unwrap();
        let called = Invocation { size: Some(5), tools: vec!["/t".into()], ..Invocation::default() };
        let store = Store::create(out.path(), &record(&["a"], 2, vec![]), "name = 1", &called).unwrap();
        assert_eq!(invocation(store.dir()).unwrap(), (called, "name = 1".to_owned()));
        assert!(invocation(out.path()).unwrap_err().to_string().starts_with("reading"));
    }

    #[test]
    fn a_newer_format_is_refused() {
        let out = tempfile::tempdir().unwrap();
        let store = stored(out.path());
        let path = store.dir().join("record.json");
        let text = fs::read_to_string(&path).unwrap().replacen("\"schema\": 1", "\"schema\": 2", 1);
        fs::write(&path, text).unwrap();
        assert!(matches!(load(store.dir()).unwrap_err(), StoreError::Newer { found: 2, .. }));
        assert!(load(out.path()).unwrap_err().to_string().starts_with("reading"));
    }

    #[test]
    fn more_blocks_than_a_study_can_have_are_damage() {
        let out = tempfile::tempdir().unwrap();
        let store = stored(out.path());
        let path = store.dir().join("record.json");
        let text = fs::read_to_string(&path).unwrap().replacen("\"blocks\": 2", "\"blocks\": 4294967295", 1);
        fs::write(&path, text).unwrap();
        for error in [load(store.dir()).unwrap_err(), load_any(&path).unwrap_err()] {
            assert!(error.to_string().contains("4294967295 blocks"), "{error}");
        }
    }
}
