//! Walks the sources and cuts them into units of work while the workers already send.

use crossbeam_channel::Sender;
use linerate_wire::control::{Problem, ProblemKind};
use linerate_wire::entry::{Entry, Kind, Timestamp};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::clock::SharedTotals;
use crate::problem::problem;
use crate::source::{Opened, SourceRoot};

/// Files up to this many bytes travel many in one frame.
pub const SMALL: u64 = 64 << 10;
/// Contents of a batch in bytes, and its entries, at most.
const BATCH_BYTES: u64 = 256 << 10;
const BATCH_ENTRIES: usize = 256;
/// A file up to this many bytes is one chunk: writers of one file wait for each other.
const WHOLE: u64 = 16 << 20;
/// Bounds of a chunk of a larger file in bytes; it is a power of two.
const CHUNK_MIN: u64 = 4 << 20;
const CHUNK_MAX: u64 = 64 << 20;

/// What a worker takes from the queue.
pub enum Unit {
    /// Directories, links and small files.
    Batch(Vec<Entry>),
    /// A part of a large file.
    Chunk {
        /// The file.
        file: Arc<LargeFile>,
        /// Where the part begins in bytes.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
}

/// A file that travels in chunks.
pub struct LargeFile {
    /// The file as it was scanned.
    pub entry: Entry,
    /// Its number.
    pub number: u64,
    /// Into how many parts it is cut.
    pub parts: u32,
    /// Parts that no worker has finished.
    pub left: AtomicU32,
    /// Set where nothing more of it is wanted or can be read.
    pub given_up: AtomicBool,
    /// Opened by the first worker that needs it.
    pub descriptor: OnceLock<Result<Opened, Errno>>,
}

/// What the scanner needs to know.
pub struct Scanner<'a> {
    /// The sources, in their order.
    pub sources: &'a [SourceRoot],
    /// Where units go; full means that the workers are busy.
    pub queue: Sender<Unit>,
    /// Sums for the progress line.
    pub found: &'a SharedTotals,
    /// Where problems are told.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// Streams, for the size of chunks.
    pub streams: u32,
    /// Ends the scan early.
    pub stop: &'a AtomicBool,
}

/// The scan can't go on: nobody takes units any more.
struct Stopped;

/// One directory on the way down.
struct Level {
    path: RelPath,
    listing: Dir,
    fd: OwnedFd,
}

struct Walk<'a, 'b> {
    scanner: &'b Scanner<'a>,
    batch: Vec<Entry>,
    batch_bytes: u64,
    next_file: u64,
}

impl Scanner<'_> {
    /// Walks all sources. Ends early where the workers are gone.
    pub fn run(&self) {
        let mut walk = Walk { scanner: self, batch: Vec::new(), batch_bytes: 0, next_file: 0 };
        for number in 0..self.sources.len() {
            if walk.source(number).is_err() {
                return;
            }
        }
        let _ = walk.flush();
    }
}

impl Walk<'_, '_> {
    fn source(&mut self, number: usize) -> Result<(), Stopped> {
        let source = &self.scanner.sources[number];
        let at = source.top_path();
        let opened = source.root.open_at(&at, OFlags::PATH).and_then(|fd| Ok((rustix::fs::fstat(&fd)?, fd)));
        let stat = match opened {
            Ok((stat, _)) => stat,
            Err(error) => {
                self.fail(number, &RelPath::root(), "reading", error);
                return Ok(());
            }
        };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        self.found(number, RelPath::root(), &stat, None)?;
        if is_directory { self.descend(number, RelPath::root()) } else { Ok(()) }
    }

    fn descend(&mut self, source: usize, top: RelPath) -> Result<(), Stopped> {
        let mut levels = Vec::new();
        levels.extend(self.enter(source, top));
        while let Some(level) = levels.last_mut() {
            if self.scanner.stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            let name = match level.listing.read() {
                None => {
                    levels.pop();
                    continue;
                }
                Some(Ok(entry)) => entry.file_name().to_bytes().to_vec(),
                Some(Err(error)) => {
                    let path = level.path.clone();
                    self.fail(source, &path, "listing the directory", error);
                    levels.pop();
                    continue;
                }
            };
            if name == b"." || name == b".." {
                continue;
            }
            let Ok(path) = level.path.join(&name) else {
                let path = level.path.clone();
                self.fail(
                    source,
                    &path,
                    "going deeper: the path is longer than can be sent",
                    Errno::NAMETOOLONG,
                );
                continue;
            };
            let stat = match rustix::fs::statat(&level.fd, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => {
                    self.vanished(source, &path);
                    continue;
                }
                Err(error) => {
                    self.fail(source, &path, "reading", error);
                    continue;
                }
            };
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            self.found(source, path.clone(), &stat, Some((level, &name)))?;
            if is_directory {
                levels.extend(self.enter(source, path));
            }
        }
        Ok(())
    }

    fn enter(&mut self, source: usize, path: RelPath) -> Option<Level> {
        let root = &self.scanner.sources[source].root;
        let opened = root
            .open_at(&self.scanner.sources[source].full_path(&path), OFlags::RDONLY | OFlags::DIRECTORY)
            .and_then(|fd| Ok((Dir::read_from(&fd)?, fd)));
        match opened {
            Ok((listing, fd)) => Some(Level { path, listing, fd }),
            Err(error) => {
                self.fail(source, &path, "opening the directory", error);
                None
            }
        }
    }

    fn found(
        &mut self,
        source: usize,
        path: RelPath,
        stat: &Stat,
        link_at: Option<(&Level, &[u8])>,
    ) -> Result<(), Stopped> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File { size: u64::try_from(stat.st_size).unwrap_or(0) },
            FileType::Directory => Kind::Directory,
            FileType::Symlink => match self.link_target(link_at) {
                Ok(target) => Kind::Symlink { target },
                Err(error) => {
                    self.fail(source, &path, "reading the link", error);
                    return Ok(());
                }
            },
            other => {
                self.skip(source, &path, other);
                return Ok(());
            }
        };
        let entry = entry(source, path, kind, stat);
        self.count(&entry);
        self.add(entry)
    }

    fn link_target(&self, at: Option<(&Level, &[u8])>) -> Result<Vec<u8>, Errno> {
        // A source that is a link itself was resolved before the scan.
        let (level, name) = at.ok_or(Errno::LOOP)?;
        Ok(rustix::fs::readlinkat(&level.fd, name, Vec::new())?.into_bytes())
    }

    fn count(&self, entry: &Entry) {
        match entry.kind {
            Kind::File { size } => self.scanner.found.file(size),
            Kind::Directory => self.scanner.found.directory(),
            Kind::Symlink { .. } => self.scanner.found.symlink(),
            _ => {}
        }
    }

    fn add(&mut self, entry: Entry) -> Result<(), Stopped> {
        match entry.kind {
            Kind::File { size } if size > SMALL => self.add_large(entry, size),
            Kind::File { size } => self.add_small(entry, size),
            _ => self.add_small(entry, 0),
        }
    }

    fn add_small(&mut self, entry: Entry, size: u64) -> Result<(), Stopped> {
        if self.batch_bytes + size > BATCH_BYTES || self.batch.len() == BATCH_ENTRIES {
            self.flush()?;
        }
        self.batch_bytes += size;
        self.batch.push(entry);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Stopped> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() { Ok(()) } else { self.queue(Unit::Batch(batch)) }
    }

    fn add_large(&mut self, entry: Entry, size: u64) -> Result<(), Stopped> {
        let chunk = chunk_size(size, self.scanner.streams);
        let parts = u32::try_from(size.div_ceil(chunk)).unwrap_or(u32::MAX);
        let number = self.next_file;
        self.next_file += 1;
        let file = Arc::new(LargeFile {
            entry,
            number,
            parts,
            left: AtomicU32::new(parts),
            given_up: AtomicBool::new(false),
            descriptor: OnceLock::new(),
        });
        for part in 0..u64::from(parts) {
            if file.given_up.load(Ordering::Relaxed) {
                break;
            }
            let offset = part * chunk;
            self.queue(Unit::Chunk { file: file.clone(), offset, length: chunk.min(size - offset) })?;
        }
        Ok(())
    }

    fn queue(&self, unit: Unit) -> Result<(), Stopped> {
        self.scanner.queue.send(unit).map_err(|_| Stopped)
    }

    fn fail(&self, source: usize, path: &RelPath, doing: &str, error: Errno) {
        self.tell(source, path, ProblemKind::Failed, format!("{doing} failed: {error}"));
    }

    fn vanished(&self, source: usize, path: &RelPath) {
        self.tell(source, path, ProblemKind::Changed, "vanished while the tree was read".into());
    }

    fn skip(&self, source: usize, path: &RelPath, kind: FileType) {
        let what = match kind {
            FileType::Fifo => "a fifo",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            _ => "of an unknown kind",
        };
        self.tell(source, path, ProblemKind::Skipped, format!("is {what}; not copied"));
    }

    fn tell(&self, source: usize, path: &RelPath, kind: ProblemKind, message: String) {
        let shown = self.scanner.sources[source].shown(path);
        (self.scanner.problem)(problem(shown, kind, message));
    }
}

fn entry(source: usize, path: RelPath, kind: Kind, stat: &Stat) -> Entry {
    let time = |seconds: i64, nanoseconds: u64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
    Entry {
        source: u32::try_from(source).expect("the number of sources is checked"),
        path,
        kind,
        mode: stat.st_mode & 0o7777,
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        extra: None,
    }
}

/// A quarter of each stream's share, as a power of two between 4 and 64 MiB.
fn chunk_size(size: u64, streams: u32) -> u64 {
    if size <= WHOLE {
        return size;
    }
    (size / (4 * u64::from(streams.max(1)))).next_power_of_two().clamp(CHUNK_MIN, CHUNK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_powers_of_two_within_bounds() {
        assert_eq!(chunk_size(WHOLE, 8), WHOLE);
        assert_eq!(chunk_size(WHOLE + 1, 8), CHUNK_MIN);
        assert_eq!(chunk_size(1 << 40, 8), CHUNK_MAX);
        assert_eq!(chunk_size(400 << 20, 8), 16 << 20);
    }
}
