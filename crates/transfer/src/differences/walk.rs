//! Walks a tree in the order of its names, and hashes its files at the same time, several in parallel.
//!
//! Two ends that walk in this order reach the same names at about the same time, and neither keeps more names in memory
//! than those in the directories that lead to the current entry.

use crossbeam_channel::{Receiver, Sender, bounded};
use linerate_wire::control::{Attributes, Digest, Digested, Keep, Problem, ProblemKind};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{Advice, AtFlags, Dir, FileType, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::vec::IntoIter;

use super::attributes::attributes;
use crate::base::problem::problem;
use crate::tree::metadata::read::{At, Reader};
use crate::tree::reading::is_made_up;
use crate::tree::scan::{self, Stopped};
use crate::tree::source_root::SourceRoot;
use crate::tree::stamp::mtime;

/// The number of files that may wait to be hashed.
const WAITING: usize = 64;
/// The number of finished entries that may wait for earlier entries.
const ORDERED: usize = 1024;
/// The most threads that hash.
const MOST_THREADS: usize = 8;
/// Bytes of a file that are read with one call.
const AT_ONCE: usize = 512 << 10;

/// The size of a file in bytes, and its digest.
type Contents = (u64, Digest);
type WalkTask = (Entry, Sender<Option<Contents>>);
/// An entry and, if it is a file, the channel on which the digest of its contents will come.
type Ordered = (Digested, Option<Receiver<Option<Contents>>>);

/// Walks `source`, which may be a file, and passes each entry to `each`, sorted by the bytes of its path's components,
/// until `each` returns false. `keep` selects the properties (owner, attributes, ACLs and further names) that an entry
/// contains. Entries that can't be read are reported to `report`.
pub fn walk(
    source: &SourceRoot,
    keep: Keep,
    report: &(dyn Fn(Problem) + Sync),
    mut each: impl FnMut(Digested) -> bool,
) {
    let (tasks, waiting) = bounded::<WalkTask>(WAITING);
    let (ordered, order) = bounded::<Ordered>(ORDERED);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    thread::scope(|scope| {
        for _ in 0..threads {
            let waiting = waiting.clone();
            scope.spawn(move || Hasher { source, report }.run(&waiting));
        }
        drop(waiting);
        scope.spawn(move || Walk::new(source, keep, report, tasks, ordered).run());
        // If the receiver of entries is gone, the walker stops.
        for (mut found, contents) in order {
            let contents = contents.and_then(|contents| contents.recv().ok().flatten());
            if let (Kind::File { size }, Some((length, _))) = (&mut found.entry.kind, &contents) {
                *size = *length;
            }
            if !each(Digested { contents: contents.map(|(_, digest)| digest), ..found }) {
                break;
            }
        }
    });
}

struct Walk<'a> {
    source: &'a SourceRoot,
    keep: Keep,
    reader: Reader,
    is_root: bool,
    report: &'a (dyn Fn(Problem) + Sync),
    tasks: Sender<WalkTask>,
    ordered: Sender<Ordered>,
}

/// A directory that is being walked, with those of its names that are still to come.
struct Level {
    path: RelPath,
    fd: Arc<OwnedFd>,
    names: IntoIter<Vec<u8>>,
}

impl<'a> Walk<'a> {
    fn new(
        source: &'a SourceRoot,
        keep: Keep,
        report: &'a (dyn Fn(Problem) + Sync),
        tasks: Sender<WalkTask>,
        ordered: Sender<Ordered>,
    ) -> Self {
        // Hard links are compared by inode numbers here, so the reader must read every name.
        let reader = Reader::new(Keep { hard_links: false, ..keep });
        let is_root = rustix::process::geteuid().is_root();
        Self { source, keep, reader, is_root, report, tasks, ordered }
    }

    fn run(mut self) {
        // If the receiver of entries is gone, the walk ends early.
        let _ = self.everything();
    }

    fn everything(&mut self) -> Result<(), Stopped> {
        let (root, top) = (&self.source.root, self.source.top_path());
        let opened = root.open_at(&top, OFlags::PATH).and_then(|fd| Ok((rustix::fs::fstat(&fd)?, fd)));
        let (stat, fd) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.failed(&RelPath::root(), "reading", error);
                return Ok(());
            }
        };
        self.found(RelPath::root(), &stat, Vec::new(), At::Open(fd.as_fd()))?;
        let mut levels = Vec::new();
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            levels.extend(self.enter(RelPath::root()));
        }
        while let Some(level) = levels.last_mut() {
            match level.names.next() {
                None => drop(levels.pop()),
                Some(name) => {
                    let (path, fd) = (level.path.clone(), level.fd.clone());
                    levels.extend(self.entry(&path, &fd, &name)?);
                }
            }
        }
        Ok(())
    }

    /// Handles one name of a directory; returns the next level if the name is a directory.
    fn entry(&mut self, parent: &RelPath, fd: &OwnedFd, name: &[u8]) -> Result<Option<Level>, Stopped> {
        let Ok(path) = parent.join(name) else {
            self.failed(parent, "reading an entry whose path is too long", Errno::NAMETOOLONG);
            return Ok(None);
        };
        let stat = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let target = |stat: Stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => Ok((stat, rustix::fs::readlinkat(fd, name, Vec::new())?.into_bytes())),
            _ => Ok((stat, Vec::new())),
        };
        let (stat, target) = match stat.and_then(target) {
            Ok(found) => found,
            Err(error) => {
                self.failed(&path, "reading", error);
                return Ok(None);
            }
        };
        self.found(path.clone(), &stat, target, At::In(fd.as_fd(), name))?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        Ok(is_directory.then(|| self.enter(path)).flatten())
    }

    fn enter(&self, path: RelPath) -> Option<Level> {
        match self.list(&path) {
            Ok((fd, names)) => Some(Level { path, fd: Arc::new(fd), names: names.into_iter() }),
            Err(error) => {
                self.failed(&path, "listing the directory", error);
                None
            }
        }
    }

    fn list(&self, path: &RelPath) -> Result<(OwnedFd, Vec<Vec<u8>>), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = self.source.root.open_at(&self.source.full_path(path), flags)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok((fd, names))
    }

    fn found(&mut self, path: RelPath, stat: &Stat, target: Vec<u8>, at: At<'_>) -> Result<(), Stopped> {
        let Some(kind) = kind(stat, target) else {
            self.failed(&path, "reading an entry of an unknown kind", Errno::NOTSUP);
            return Ok(());
        };
        let is_file = matches!(kind, Kind::File { .. });
        let found = self.read(scan::entry(0, path, kind, stat), stat, at);
        let contents = if is_file { Some(self.hash(found.entry.clone())?) } else { None };
        self.ordered.send((found, contents)).map_err(|_| Stopped)
    }

    /// Fills in all properties of an entry except its contents' digest.
    fn read(&mut self, mut entry: Entry, stat: &Stat, at: At<'_>) -> Digested {
        let attributes = match self.reader.complete(&mut entry, stat, at, false) {
            Ok(()) => (self.keep.xattrs || self.keep.acls).then(|| self.attributes(&mut entry)),
            Err(message) => {
                (self.report)(problem(self.source.shown(&entry.path), ProblemKind::Failed, message));
                None
            }
        };
        let has_names = self.keep.hard_links && entry.kind != Kind::Directory && stat.st_nlink > 1;
        Digested { entry, contents: None, attributes, file: has_names.then_some((stat.st_dev, stat.st_ino)) }
    }

    fn attributes(&self, entry: &mut Entry) -> Attributes {
        let xattrs = entry.extra.as_mut().map(|extra| std::mem::take(&mut extra.xattrs));
        attributes(xattrs.unwrap_or_default(), self.is_root)
    }

    fn hash(&self, entry: Entry) -> Result<Receiver<Option<Contents>>, Stopped> {
        let (answer, digest) = bounded(1);
        self.tasks.send((entry, answer)).map_err(|_| Stopped)?;
        Ok(digest)
    }

    fn failed(&self, path: &RelPath, doing: &str, error: Errno) {
        let message = format!("{doing} failed: {error}");
        (self.report)(problem(self.source.shown(path), ProblemKind::Failed, message));
    }
}

fn kind(stat: &Stat, target: Vec<u8>) -> Option<Kind> {
    let device = |block| {
        let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        Kind::Device { block, major, minor }
    };
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File { size: u64::try_from(stat.st_size).unwrap_or(0) },
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink { target },
        FileType::BlockDevice => device(true),
        FileType::CharacterDevice => device(false),
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::Unknown => return None,
    })
}

struct Hasher<'a> {
    source: &'a SourceRoot,
    report: &'a (dyn Fn(Problem) + Sync),
}

impl Hasher<'_> {
    fn run(&self, waiting: &Receiver<WalkTask>) {
        let mut buffer = vec![0; AT_ONCE];
        for (entry, answer) in waiting {
            let digest = self.digest(&entry, &mut buffer);
            // The receiver of the digest may be gone; the digest is then dropped.
            let _ = answer.send(digest);
        }
    }

    fn digest(&self, entry: &Entry, buffer: &mut [u8]) -> Option<Contents> {
        let report = |kind, message: String| {
            (self.report)(problem(self.source.shown(&entry.path), kind, message));
            None
        };
        match self.hash(entry, buffer) {
            Ok(Some(digest)) => Some(digest),
            Ok(None) => report(ProblemKind::Changed, "changed size while it was read".into()),
            Err(Errno::NOENT) => report(ProblemKind::Changed, "vanished before it was read".into()),
            Err(error) => report(ProblemKind::Failed, format!("reading failed: {error}")),
        }
    }

    /// Hashes a file; `None` if the file changed meanwhile. A wrong size alone isn't a change, because some file
    /// systems always report a wrong size.
    fn hash(&self, entry: &Entry, buffer: &mut [u8]) -> Result<Option<Contents>, Errno> {
        let Kind::File { size } = entry.kind else { return Ok(None) };
        let fd = self.source.root.open_at(&self.source.full_path(&entry.path), OFlags::RDONLY)?;
        let _ = rustix::fs::fadvise(&fd, 0, None, Advice::Sequential);
        let (mut hasher, mut read) = (blake3::Hasher::new(), 0);
        loop {
            match read_some(fd.as_fd(), buffer)? {
                0 => break,
                got => {
                    read += got as u64;
                    hasher.update(&buffer[..got]);
                }
            }
        }
        let is_right = || {
            let now = rustix::fs::fstat(&fd)?;
            Ok(now.st_size as u64 == size && (mtime(&now) == entry.mtime || is_made_up(fd.as_fd())))
        };
        Ok((read == size || is_right()?).then(|| (read, hasher.finalize().into())))
    }
}

fn read_some(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::read(fd, &mut *buffer) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
