//! Reads finished files back, several at a time, and hashes them.
//!
//! When a file is read back, its contents are already on stable storage. To bypass the page cache, the file's cached
//! pages are dropped first, and the file is read directly (`O_DIRECT`) if its file system supports that. A file system
//! in memory (tmpfs) returns the data in memory.

use linerate_wire::control::Digest;
use linerate_wire::entry::Kind;
use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use crate::base::lock::lock;
use crate::receive::commit::Finished;
use crate::tree::digest::{DigestPart, Hashing, join};
use crate::tree::temporary::Temporary;

/// The number of bytes in a share of a file, a power of two. One thread reads a share; other threads may read other
/// shares of the file at the same time.
const SHARE: u64 = 8 << 20;
/// The number of bytes that are read at a time. They fit into a second-level cache while they are hashed.
const AT_ONCE: usize = 512 << 10;
/// The alignment of direct reads, in the file and in memory.
const ALIGNED: usize = 4096;
/// The most threads.
const MOST_THREADS: usize = 4;
/// The number of bytes that justifies one more thread.
const WORTH_A_THREAD: u64 = 1 << 20;

/// Reads back a group of files with several threads; each thread takes the next share of a file.
pub struct ReadBack<'a> {
    files: Vec<Option<File<'a>>>,
    /// For each share: the index of the file, the offset and the length.
    shares: Vec<(usize, u64, u64)>,
    next: AtomicUsize,
    bytes: u64,
}

/// The digest of a file, or the error; `None` for an entry that isn't read back.
pub type Outcome = Option<Result<Digest, Errno>>;

struct File<'a> {
    temporary: &'a Temporary,
    size: u64,
    open: OnceLock<Result<Readable<'a>, Errno>>,
    parts: Mutex<Result<Vec<DigestPart>, Errno>>,
}

enum Readable<'a> {
    Held(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl<'a> ReadBack<'a> {
    /// Prepares to read back those files in `group` that have a digest to compare with.
    pub fn of(group: &'a [Finished]) -> Self {
        let mut back = Self { files: Vec::new(), shares: Vec::new(), next: AtomicUsize::new(0), bytes: 0 };
        for (number, entry) in group.iter().enumerate() {
            let file = match (&entry.proof, &entry.kind) {
                (Some(_), Kind::File { size }) => Some(File::new(&entry.temporary, *size)),
                _ => None,
            };
            file.iter().for_each(|file| back.share(number, file.size));
            back.files.push(file);
        }
        back
    }

    fn share(&mut self, number: usize, size: u64) {
        self.bytes += size;
        if size <= SHARE {
            return self.shares.push((number, 0, size));
        }
        let share = |part: u64| (number, part * SHARE, SHARE.min(size - part * SHARE));
        self.shares.extend((0..size.div_ceil(SHARE)).map(share));
    }

    /// Reads all shares; returns the outcome for each entry of the group.
    pub fn run(self) -> Vec<Outcome> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let worth = usize::try_from(self.bytes / WORTH_A_THREAD).unwrap_or(usize::MAX);
        let threads = processors.min(MOST_THREADS).min(self.shares.len()).min(worth);
        thread::scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(|| self.work())));
            self.work();
        });
        self.files.into_iter().map(|file| file.map(File::outcome)).collect()
    }

    fn work(&self) {
        let mut buffer = Buffer::default();
        while let Some(&(number, offset, length)) = self.shares.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            if let Some(file) = &self.files[number] {
                file.read(offset, length, &mut buffer);
            }
        }
    }
}

impl<'a> File<'a> {
    fn new(temporary: &'a Temporary, size: u64) -> Self {
        Self { temporary, size, open: OnceLock::new(), parts: Mutex::new(Ok(Vec::new())) }
    }

    fn read(&self, offset: u64, length: u64, buffer: &mut Buffer) {
        let read = match self.open.get_or_init(|| self.open()) {
            Ok(open) => self.hash(open.as_fd(), offset, length, buffer),
            Err(error) => Err(*error),
        };
        let mut parts = lock(&self.parts);
        match (parts.as_mut(), read) {
            (Ok(parts), Ok(digest)) => {
                parts.extend(digest.map(|digest| DigestPart { offset, length, digest }))
            }
            (_, Err(error)) => *parts = Err(error),
            (Err(_), Ok(_)) => {}
        }
    }

    fn open(&self) -> Result<Readable<'a>, Errno> {
        let readable = match self.temporary.fd() {
            Ok(held) => Readable::Held(held),
            Err(_) => Readable::Opened(self.temporary.reopen()?),
        };
        bypass_cache(readable.as_fd());
        Ok(readable)
    }

    /// Hashes a share; `None` if the file ends early.
    fn hash(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        buffer: &mut Buffer,
    ) -> Result<Option<Digest>, Errno> {
        let Some(mut hashing) = Hashing::of(offset, length, self.size) else { return Ok(None) };
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let got = read_some(fd, buffer.places(), at)?;
            let use_of = got.min(usize::try_from(end - at).unwrap_or(got));
            if use_of == 0 {
                return Ok(None);
            }
            hashing.update(&buffer.places()[..use_of]);
            at += use_of as u64;
        }
        Ok(Some(hashing.finish()))
    }

    /// The digest of the file. If the file is too short, the digest is all zeros, which no sender could have sent.
    fn outcome(self) -> Result<Digest, Errno> {
        let parts = self.parts.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())?;
        Ok(join(parts, self.size).unwrap_or_default())
    }
}

impl AsFd for Readable<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Held(held) => held.as_fd(),
            Self::Opened(opened) => opened.as_fd(),
        }
    }
}

/// Makes the following reads come from storage. Cached pages are dropped before `O_DIRECT` is set, because some file
/// systems read from cached pages even with `O_DIRECT`.
fn bypass_cache(fd: BorrowedFd<'_>) {
    let _ = rustix::fs::fadvise(fd, 0, None, Advice::DontNeed);
    if let Ok(flags) = rustix::fs::fcntl_getfl(fd) {
        let _ = rustix::fs::fcntl_setfl(fd, flags | OFlags::DIRECT);
    }
}

fn read_some(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    loop {
        match rustix::io::pread(fd, &mut *buffer, offset) {
            Err(Errno::INTR) => {}
            // The read may be refused although the file system has accepted `O_DIRECT`, for example because the storage
            // has larger blocks.
            Err(Errno::INVAL) => {
                let flags = rustix::fs::fcntl_getfl(fd)?;
                if !flags.contains(OFlags::DIRECT) {
                    return Err(Errno::INVAL);
                }
                rustix::fs::fcntl_setfl(fd, flags - OFlags::DIRECT)?;
            }
            other => return other,
        }
    }
}

/// A buffer for direct reads, which is allocated when it is first needed.
#[derive(Default)]
struct Buffer(Vec<u8>);

impl Buffer {
    fn places(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            self.0.resize(AT_ONCE + ALIGNED, 0);
        }
        let start = self.0.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        &mut self.0[start..start + AT_ONCE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::proof::Proof;
    use crate::tree::root::Root;
    use crate::tree::temporary::Names;
    use linerate_testing::skip;
    use linerate_wire::path::RelPath;
    use rustix::fs::Mode;
    use std::fs;
    use std::os::unix::fs::FileExt;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// A file with these contents, on stable storage, in the form in which the committer gets it.
    fn finished(root: &Root, contents: &[u8], named: bool) -> Finished {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let names = Names::new(&NUMBER.fetch_add(1, Ordering::Relaxed).to_le_bytes(), true);
        let make = if named { Temporary::named } else { Temporary::unnamed };
        let temporary = make(root.top().clone(), &names, Mode::RUSR | Mode::WUSR).unwrap();
        let file = fs::File::from(temporary.fd().unwrap().try_clone_to_owned().unwrap());
        file.write_all_at(contents, 0).unwrap();
        temporary.sync().unwrap();
        let path = RelPath::new(b"x").unwrap();
        Finished {
            place: RelPath::root(),
            temporary,
            name: "x".into(),
            kind: Kind::File { size: contents.len() as u64 },
            shown: PathBuf::from("x"),
            proof: Some(Proof { digest: [0; 32], source: 0, path }),
            reported: None,
            journalled: None,
        }
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn files_of_any_size_come_back_as_they_are() {
        let top = tempfile::tempdir().unwrap();
        let root = Root::open(top.path()).unwrap();
        let sizes = [0, 1, 4095, 4096, 4097, AT_ONCE, AT_ONCE + 1, SHARE as usize, 2 * SHARE as usize + 777];
        let contents: Vec<_> = sizes.iter().map(|size| noise(*size)).collect();
        for named in [false, true] {
            let group: Vec<_> = contents.iter().map(|bytes| finished(&root, bytes, named)).collect();
            let expected: Vec<_> =
                contents.iter().map(|bytes| Some(Ok(crate::tree::digest::of_bytes(bytes)))).collect();
            assert_eq!(ReadBack::of(&group).run(), expected, "named: {named}");
        }
    }

    #[test]
    fn a_file_that_ends_early_is_not_the_one() {
        let top = tempfile::tempdir().unwrap();
        let root = Root::open(top.path()).unwrap();
        let mut short = finished(&root, b"abc", false);
        short.kind = Kind::File { size: 4 };
        let outcome = ReadBack::of(&[short]).run();
        assert_ne!(outcome, [Some(Ok(crate::tree::digest::of_bytes(b"abc")))]);
    }

    /// A file system in an image file, so that the test can change the stored data without the file system's knowledge.
    struct Disk {
        image: PathBuf,
        mount: PathBuf,
        _top: tempfile::TempDir,
    }

    impl Disk {
        fn up() -> Option<Self> {
            let top = tempfile::tempdir().ok()?;
            let (image, mount) = (top.path().join("image"), top.path().join("mount"));
            fs::create_dir(&mount).ok()?;
            fs::File::create(&image).ok()?.set_len(64 << 20).ok()?;
            let disk = Self { image, mount, _top: top };
            let made = run("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), &disk.image]);
            (made && run("mount", &[Path::new("-o"), Path::new("loop"), &disk.image, &disk.mount]))
                .then_some(disk)
        }

        /// Flips a bit of the block that starts with `begins`.
        fn flip(&self, begins: &[u8]) {
            let image = fs::File::options().read(true).write(true).open(&self.image).unwrap();
            let is_it = |at: &u64| {
                let mut found = [0; 64];
                image.read_exact_at(&mut found, *at).is_ok() && found == begins[..64]
            };
            let at = (0..64 << 20).step_by(1024).find(is_it).expect("it is on the storage");
            image.write_all_at(&[begins[0] ^ 1], at).unwrap();
        }
    }

    impl Drop for Disk {
        fn drop(&mut self) {
            run("umount", &[&self.mount]);
        }
    }

    fn run(program: &str, args: &[&Path]) -> bool {
        Command::new(program).args(args).output().is_ok_and(|run| run.status.success())
    }

    /// The page cache still holds the right bytes; only the data on storage is changed.
    #[test]
    fn what_is_read_comes_from_the_storage() {
        let Some(disk) = Disk::up() else {
            return skip("loop-devices", "a file system in a file needs root, mkfs.ext4 and loop devices");
        };
        let root = Root::open(&disk.mount).unwrap();
        for named in [false, true] {
            let contents = noise(300_000 + usize::from(named));
            let begins = [&contents[..63], &[u8::from(named)]].concat();
            let contents = [&begins, &contents[64..]].concat();
            let group = [finished(&root, &contents, named)];
            let file = &group[0].temporary;
            let held = match file.fd() {
                Ok(held) => held.try_clone_to_owned().unwrap(),
                Err(_) => file.reopen().unwrap(),
            };
            disk.flip(&begins);
            let mut cached = [0; 64];
            rustix::io::pread(&held, &mut cached, 0).unwrap();
            assert_eq!(cached, begins[..], "the page cache has what was written");
            let outcome = ReadBack::of(&group).run();
            assert!(
                matches!(outcome[..], [Some(Ok(digest))] if digest != crate::tree::digest::of_bytes(&contents))
            );
        }
    }
}
