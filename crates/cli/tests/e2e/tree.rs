//! Makes and compares trees.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The kind and the contents of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A file, with its size and a hash of its contents.
    File(u64, u64),
    /// A directory.
    Directory,
    /// A symbolic link, with its target.
    Link(PathBuf),
}

/// An entry, its permission bits, and its modification time in seconds and nanoseconds.
pub type Node = (What, u32, (i64, i64));

/// All entries below a directory by path; the directory itself has the empty path.
pub fn nodes(top: &Path) -> BTreeMap<OsString, Node> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        let full = if path.as_os_str().is_empty() { top.to_owned() } else { top.join(&path) };
        let meta = full.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", full.display()));
        let what = if meta.is_dir() {
            let names = fs::read_dir(&full).expect("readable").flatten();
            waiting.extend(names.map(|entry| path.join(entry.file_name())));
            What::Directory
        } else if meta.is_symlink() {
            What::Link(fs::read_link(&full).expect("a link"))
        } else {
            let contents = fs::read(&full).expect("readable");
            What::File(meta.len(), hash(&contents))
        };
        found.insert(path.into_os_string(), (what, meta.mode() & 0o7777, (meta.mtime(), meta.mtime_nsec())));
    }
    found
}

/// All entries below a directory by path, without modes and times.
pub fn shape(top: &Path) -> BTreeMap<OsString, What> {
    nodes(top).into_iter().map(|(path, (what, ..))| (path, what)).collect()
}

/// Compares two trees without modes and times; panics with the first differences.
#[track_caller]
pub fn assert_alike(one: &Path, other: &Path) {
    let (here, there) = (shape(one), shape(other));
    let missing: Vec<_> =
        here.iter().filter(|(path, what)| there.get(*path) != Some(*what)).take(5).collect();
    let surplus: Vec<_> =
        there.iter().filter(|(path, what)| here.get(*path) != Some(*what)).take(5).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "expected {missing:?}\nthere is {surplus:?}");
}

/// The temporary names below a directory; entries may appear or vanish meanwhile.
pub fn temporaries(top: &Path) -> Vec<OsString> {
    let is_temporary = |path: &OsString| path.as_bytes().windows(10).any(|part| part == b".linerate.");
    names(top).into_iter().filter(is_temporary).collect()
}

/// The paths of all entries below a directory; entries may appear or vanish meanwhile.
pub fn names(top: &Path) -> Vec<OsString> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        // What has gone meanwhile has no entries, and is no directory.
        let entries = fs::read_dir(top.join(&path)).into_iter().flatten().flatten();
        for entry in entries {
            let below = path.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(below.clone());
            }
            found.push(below.into_os_string());
        }
    }
    found
}

/// Panics if a file under its final name differs from the file of that name in `source`, or if temporary
/// files are left.
#[track_caller]
pub fn assert_nothing_half_written(source: &Path, destination: &Path) {
    assert_eq!(temporaries(destination), Vec::<OsString>::new(), "left behind");
    assert_real_names_are_whole(source, destination);
}

/// Panics if a file under its final name differs from the file of that name in `source`.
#[track_caller]
pub fn assert_real_names_are_whole(source: &Path, destination: &Path) {
    let whole = shape(source);
    let temporary = temporaries(destination);
    for (path, what) in shape(destination) {
        assert!(temporary.contains(&path) || whole.get(&path) == Some(&what), "{path:?} is {what:?}");
    }
}

/// Makes a file with these contents, and the directories above it.
pub fn write(path: PathBuf, contents: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("not the root")).expect("writable");
    fs::write(&path, contents).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Pseudo-random bytes that depend on `seed`.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    // Quick without optimisation too, and no two chunks of a file are alike.
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Makes a tree with small, large and empty files, links and directories, with old times and unusual modes.
pub fn make_mixed(top: &Path) {
    for (seed, (path, length)) in (1..).zip([
        ("empty", 0),
        ("one", 1),
        ("small", 3000),
        ("edge", 65536),
        ("a/b/c/deep", 100),
        ("large", 9 << 20),
    ]) {
        write(top.join(path), noise(seed, length));
    }
    fs::create_dir(top.join("empty directory")).expect("writable");
    symlink("small", top.join("link")).expect("writable");
    symlink("/nowhere/at all", top.join("dangling")).expect("writable");
    symlink("a/b", top.join("a link to a directory")).expect("writable");
    symlink("..", top.join("a/up")).expect("writable");
}

/// Sets the modification time of a file, in nanoseconds.
pub fn set_time(path: &Path, since_epoch: Duration) {
    let file = File::open(path).expect("readable");
    file.set_modified(SystemTime::UNIX_EPOCH + since_epoch).expect("our own");
}

/// A hash of these bytes.
pub fn hash(bytes: &[u8]) -> u64 {
    let hash = *blake3::hash(bytes).as_bytes();
    u64::from_le_bytes(hash[..8].try_into().expect("eight bytes"))
}
