//! Makes the source tree, and the tree outside of the destination that must stay unchanged.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};

/// The number of subdirectories of each directory, for two levels.
pub const DIRECTORIES: u64 = 10;
/// The number of files in each directory of the second level of the canary.
pub const FILES: u64 = 8;

/// Makes a tree with `entries` entries: small files, and some files that are sent in separate frames.
pub fn make_original(top: &Path, entries: u64) {
    let files = entries / (DIRECTORIES * DIRECTORIES) - 1;
    for directory in directories(top) {
        fs::create_dir_all(&directory).expect("writable");
        for file in 0..files {
            let length = if file == 3 { 100_000 } else { 10 };
            let path = directory.join(format!("f{file}"));
            fs::write(&path, vec![b'n'; length]).expect("writable");
            fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).expect("our own");
        }
    }
}

/// Makes entries that a sync must delete; the canary has the same names, and deleting must not follow links
/// to it.
pub fn add_extras(top: &Path) {
    let top = File::open(top).expect("the racer doesn't touch the top");
    for directory in directories(Path::new("")) {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let Ok(held) = openat2(&top, &directory, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) else {
            continue;
        };
        for extra in 0..FILES {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW;
            // The racer may have put something else there.
            let _ = openat(&held, format!("x{extra}"), flags, Mode::RUSR);
        }
    }
}

fn directories(top: &Path) -> impl Iterator<Item = PathBuf> {
    let pairs = (0..DIRECTORIES).flat_map(|a| (0..DIRECTORIES).map(move |b| (a, b)));
    pairs.map(move |(a, b)| top.join(format!("d{a}/d{b}")))
}

/// The number of entries below `top`, without following links.
pub fn count(top: &Path) -> u64 {
    walk(top).count() as u64
}

fn walk(top: &Path) -> impl Iterator<Item = PathBuf> {
    let mut waiting = vec![top.to_owned()];
    std::iter::from_fn(move || {
        let path = waiting.pop()?;
        if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            waiting.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        Some(path)
    })
}

/// A tree outside the destination that has the destination's names.
pub struct Canary {
    top: PathBuf,
    before: BTreeMap<PathBuf, Seen>,
}

/// The properties of an entry that reveal any change; the inode's change time can't be set back.
#[derive(Debug, PartialEq)]
struct Seen {
    inode: (u64, u64, u64),
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    changed: (i64, i64),
    contents: Vec<u8>,
}

impl Canary {
    /// Makes the canary at `top`.
    pub fn make(top: &Path) -> Self {
        for directory in directories(top) {
            fs::create_dir_all(&directory).expect("writable");
            for name in (0..FILES).flat_map(|file| [format!("f{file}"), format!("x{file}")]) {
                fs::write(directory.join(name), "kept").expect("writable");
            }
        }
        Self { top: top.to_owned(), before: seen(top) }
    }

    /// Panics if anything in the canary has changed.
    #[track_caller]
    pub fn assert_untouched(&self, when: &str) {
        let now = seen(&self.top);
        if now != self.before {
            let paths = self.before.keys().chain(now.keys());
            let changed = paths.filter(|path| self.before.get(*path) != now.get(*path));
            let changed: Vec<_> = changed.map(|path| (path, now.get(path))).take(5).collect();
            panic!("something was done outside the destination, {when}: {changed:?}");
        }
    }
}

fn seen(top: &Path) -> BTreeMap<PathBuf, Seen> {
    walk(top)
        .map(|path| (path.clone(), Seen::of(&path, &path.symlink_metadata().expect("it is there"))))
        .collect()
}

impl Seen {
    fn of(path: &Path, found: &Metadata) -> Self {
        Self {
            inode: (found.dev(), found.ino(), found.nlink()),
            mode: found.mode(),
            owner: (found.uid(), found.gid()),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            contents: if found.is_file() { fs::read(path).expect("readable") } else { Vec::new() },
        }
    }
}
