//! Makes a tree with everything that a file system can hold, and compares two trees completely.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, XattrFlags, seek};

use crate::tree::{noise, write};

/// All properties of a file; the contents are replaced by a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Everything {
    mode: u32,
    owner: (u32, u32),
    device: u64,
    modified: (i64, i64),
    /// The first of the file's names, in sorted order.
    names: PathBuf,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    size: u64,
    contents: u64,
    target: Option<PathBuf>,
    /// The ranges of data in the file: the beginning and the end of each.
    data: Vec<(u64, u64)>,
}

impl Everything {
    /// The same properties without a modification time in the last hour, which no source has.
    pub fn without_recent_time(self) -> Self {
        let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs() as i64;
        let modified = if now - self.modified.0 < 3600 { (0, 0) } else { self.modified };
        Self { modified, ..self }
    }

    /// The same properties without the modification time.
    pub fn without_time(self) -> Self {
        Self { modified: (0, 0), ..self }
    }
}

/// The properties of all entries below a directory, by path.
pub fn everything(top: &Path) -> BTreeMap<PathBuf, Everything> {
    let mut firsts = HashMap::new();
    let mut paths: Vec<PathBuf> = crate::tree::names(top).into_iter().map(PathBuf::from).collect();
    paths.push(PathBuf::new());
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), one(top, &path, &mut firsts))).collect()
}

fn one(top: &Path, path: &Path, firsts: &mut HashMap<(u64, u64), PathBuf>) -> Everything {
    let full = if path.as_os_str().is_empty() { top.to_owned() } else { top.join(path) };
    let meta = full.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", full.display()));
    let first = firsts.entry((meta.dev(), meta.ino())).or_insert_with(|| path.to_owned());
    let contents = if meta.is_file() { fs::read(&full).expect("readable") } else { Vec::new() };
    Everything {
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        device: meta.rdev(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        names: if meta.is_dir() { path.to_owned() } else { first.clone() },
        xattrs: xattrs(&full),
        size: if meta.is_file() { meta.len() } else { 0 },
        contents: crate::tree::hash(&contents),
        target: fs::read_link(&full).ok(),
        data: if meta.is_file() { data(&File::open(&full).expect("readable")) } else { Vec::new() },
    }
}

fn xattrs(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut names, mut value) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let length = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    let names = names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let mut found: Vec<_> = names
        .map(|name| {
            let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).expect("just listed");
            (name.to_vec(), value[..length].to_vec())
        })
        .collect();
    found.sort();
    found
}

fn data(file: &File) -> Vec<(u64, u64)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Ok(begin) = seek(file, SeekFrom::Data(at)) {
        at = seek(file, SeekFrom::Hole(begin)).expect("there is one at the end");
        found.push((begin, at));
    }
    found
}

/// Compares two trees, and panics with the first differences.
#[track_caller]
pub fn assert_same(one: &Path, other: &Path) {
    let (here, there) = (everything(one), everything(other));
    let paths = here.keys().chain(there.keys());
    let differences: Vec<_> = paths.filter(|path| here.get(*path) != there.get(*path)).take(3).collect();
    for path in &differences {
        eprintln!("{path:?}\n  here  {:?}\n  there {:?}", here.get(*path), there.get(*path));
    }
    assert!(differences.is_empty(), "{} and {} differ", one.display(), other.display());
}

/// Unusual file names.
pub fn odd_names() -> Vec<OsString> {
    let longest = [b'x'; 255];
    let names: [&[u8]; 8] = [
        b"new\nline",
        b"-rf",
        b"not \xff\xfe unicode",
        b"\x01\x1b[31m",
        b" ",
        b"...",
        b"back\\slash",
        &longest,
    ];
    names.into_iter().map(|name| OsStr::from_bytes(name).to_owned()).collect()
}

/// Makes a tree with all kinds of entries that root can create, with `wide` files in one directory and 200
/// levels of directories.
pub fn make_everything(top: &Path, wide: u32) {
    make_files(top);
    make_specials(top);
    make_holes(&top.join("holes"));
    for name in odd_names() {
        write(top.join("odd").join(&name).join(&name), name.as_bytes());
    }
    let deep: PathBuf = (0..200).map(|level| format!("{level}")).collect();
    write(top.join("deep").join(deep).join("bottom"), "deep");
    fs::create_dir(top.join("wide")).expect("writable");
    for number in 0..wide {
        fs::write(top.join(format!("wide/{number}")), number.to_le_bytes()).expect("writable");
    }
    make_names_of_one_file(top);
    give_attributes(top);
    give_modes_and_times(top);
}

fn make_files(top: &Path) {
    for (seed, (path, length)) in (1..).zip([
        ("empty", 0),
        ("small", 3000),
        ("edge", 65_537),
        ("large", 5 << 20),
        ("chunked", 17 << 20),
        ("a/b/file", 100),
        ("nothing allowed/file", 10),
    ]) {
        write(top.join(path), noise(seed, length));
        chown(top.join(path), Some(seed as u32 * 1000), Some(seed as u32)).expect("root may");
    }
    fs::create_dir(top.join("empty directory")).expect("writable");
    for (target, name) in [("small", "link"), ("/nowhere/at all", "dangling"), ("..", "a/up")] {
        symlink(target, top.join(name)).expect("writable");
    }
    lchown(top.join("link"), Some(77), Some(88)).expect("root may");
}

fn make_specials(top: &Path) {
    let make = |name: &str, kind, device| {
        let path = top.join("special").join(name);
        rustix::fs::mknodat(CWD, &path, kind, Mode::from_raw_mode(0o640), device).expect("root may");
    };
    fs::create_dir(top.join("special")).expect("writable");
    make("fifo", FileType::Fifo, 0);
    make("socket", FileType::Socket, 0);
    make("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3));
    make("disk", FileType::BlockDevice, rustix::fs::makedev(259, 70_000));
    chown(top.join("special/null"), Some(5), Some(6)).expect("root may");
}

/// Makes files with holes at the beginning, in the middle and at the end, files that are only holes, and
/// small files.
pub fn make_holes(top: &Path) {
    const PIECE: u64 = 1 << 20;
    fs::create_dir_all(top).expect("writable");
    let make = |name: &str, size: u64, data: &[u64]| {
        let file = File::create(top.join(name)).expect("writable");
        file.set_len(size).expect("writable");
        for at in data {
            file.write_all_at(&noise(*at, 4096), *at).expect("writable");
        }
    };
    make("leading", PIECE, &[PIECE - 4096]);
    make("middle", 3 * PIECE, &[0, 3 * PIECE - 4096]);
    make("trailing", PIECE, &[0]);
    make("everything", PIECE, &[]);
    make("many", 40 * PIECE, &[0, 3 * PIECE, 17 * PIECE, 39 * PIECE]);
    make("small", 16_384, &[8192]);
    make("very small", 100, &[]);
}

fn make_names_of_one_file(top: &Path) {
    for name in ["another small", "a/b/a third small"] {
        fs::hard_link(top.join("small"), top.join(name)).expect("writable");
    }
    fs::hard_link(top.join("chunked"), top.join("a/chunked")).expect("writable");
    fs::hard_link(top.join("link"), top.join("a/link")).expect("writable");
    fs::hard_link(top.join("special/fifo"), top.join("a/fifo")).expect("writable");
    fs::hard_link(top.join("holes/middle"), top.join("holes/the same")).expect("writable");
}

fn give_attributes(top: &Path) {
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::lsetxattr(top.join(path), name, value, XattrFlags::empty())
            .unwrap_or_else(|error| panic!("{name} of {path}: {error}"));
    };
    for path in ["small", "large", "chunked", "a", "", "holes/middle"] {
        set(path, "user.comment", path.as_bytes());
    }
    set("empty", "user.empty", b"");
    set("edge", "user.long", &noise(1, 2000));
    set("small", "trusted.secret", b"\0\x01\xff");
    set("link", "trusted.link", b"a link's");
    set("special/fifo", "trusted.fifo", b"a fifo's");
    // cap_net_raw+ep
    set("edge", "security.capability", &[1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    set("a/b/file", ACCESS, &acl(6));
    set("special/null", ACCESS, &acl(6));
    set("a/b", ACCESS, &acl(7));
    set("a/b", "system.posix_acl_default", &acl(7));
    set("empty directory", "system.posix_acl_default", &acl(5));
}

/// The kernel's name of the attribute that holds an ACL.
pub const ACCESS: &str = "system.posix_acl_access";

/// An ACL, in the kernel's format, that gives `permissions` to unnamed users and groups.
pub fn acl(permissions: u8) -> Vec<u8> {
    let mut value = vec![2, 0, 0, 0];
    let mut entry = |tag: u8, bits: u8, number: u32| {
        value.extend_from_slice(&[tag, 0, bits, 0]);
        value.extend_from_slice(&number.to_le_bytes());
    };
    entry(1, 7, u32::MAX);
    entry(2, permissions, 4242);
    entry(4, 4, u32::MAX);
    entry(8, permissions, 4243);
    entry(16, permissions, u32::MAX);
    entry(32, 0, u32::MAX);
    value
}

fn give_modes_and_times(top: &Path) {
    for (path, mode) in [
        ("small", 0o4755),
        ("large", 0o2750),
        ("edge", 0o6711),
        ("chunked", 0),
        ("a", 0o2775),
        ("empty directory", 0o1777),
        ("nothing allowed/file", 0),
        ("nothing allowed", 0),
        ("holes/leading", 0o444),
    ] {
        fs::set_permissions(top.join(path), PermissionsExt::from_mode(mode)).expect("our own");
    }
    let times = [
        ("small", -5, 999_999_999),
        ("link", -1, 1),
        ("special/fifo", 1_000_000_000, 7),
        ("large", 4_000_000_000, 123),
    ];
    for (path, seconds, nanoseconds) in times.into_iter().chain([("a/b", 77, 7), ("a", 5, 5), ("", 9, 9)]) {
        set_time(&top.join(path), seconds, nanoseconds);
    }
}

/// Sets the modification time of any entry; it may be before 1970.
pub fn set_time(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD.as_fd(), path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("our own");
}
