//! Trees with every combination of differences: rsync's itemised changes must be ours for the same differences.

use linerate_testing::{has, is_root, skip};
use linerate_transfer::itemize::{Changes, Item, Kind, Link, Time, Update};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// A second long past, and another.
const TIME: i64 = 1_700_000_000;
const OTHER_TIME: i64 = 1_600_000_000;
/// An access control list with an entry for user 1: version 2, then tag, permissions and id of each entry.
const ACL: [(u16, u16, u32); 5] = [(1, 6, !0), (2, 4, 1), (4, 4, !0), (16, 4, !0), (32, 4, !0)];

/// Options of one run and what they mean for what is to be expected.
struct Run {
    options: &'static [&'static str],
    /// Contents are compared.
    checksum: bool,
    /// Times are kept.
    times: bool,
}

#[test]
fn every_combination_is_written_as_rsync_writes_it() {
    let Some(beds) = Beds::new() else { return };
    let mut wanted = BTreeSet::new();
    let run = Run { options: &["-aHAX"], checksum: false, times: true };
    for kind in [Kind::File, Kind::Directory, Kind::Symlink, Kind::Device, Kind::Special] {
        for changes in combinations(kind, &run) {
            wanted.insert(beds.make(kind, changes, &run));
        }
    }
    beds.check(&run, &wanted);
}

#[test]
fn compared_contents_are_written_as_rsync_writes_them() {
    let Some(beds) = Beds::new() else { return };
    let run = Run { options: &["-aHAX", "--checksum"], checksum: true, times: true };
    let wanted =
        combinations(Kind::File, &run).into_iter().map(|changes| beds.make(Kind::File, changes, &run));
    let wanted = wanted.collect();
    beds.check(&run, &wanted);
}

#[test]
fn times_that_are_not_kept_are_written_as_rsync_writes_them() {
    let Some(beds) = Beds::new() else { return };
    let run = Run { options: &["-rlpogDHAX"], checksum: false, times: false };
    let mut wanted = BTreeSet::new();
    for kind in [Kind::File, Kind::Symlink, Kind::Device] {
        for changes in combinations(kind, &run) {
            wanted.insert(beds.make(kind, changes, &run));
        }
    }
    beds.check(&run, &wanted);
}

#[test]
fn new_linked_and_deleted_entries_are_written_as_rsync_writes_them() {
    let Some(beds) = Beds::new() else { return };
    let path = |name: &str| RelPath::new(name.as_bytes()).unwrap();
    let run = Run { options: &["-aHAX", "--delete"], checksum: false, times: true };
    let mut wanted = BTreeSet::new();
    for kind in [Kind::File, Kind::Directory, Kind::Symlink, Kind::Device, Kind::Special] {
        let name = format!("{kind:?}");
        make_entry(&beds.source.join(&name), kind, Changes::default());
        let update = if kind == Kind::File { Update::Received } else { Update::Local };
        let link = (kind == Kind::Symlink).then_some(Link::Target(b"target"));
        wanted.insert(Item::New(update, kind).line(&path(&name), kind == Kind::Directory, link));
    }
    make_entry(&beds.source.join("group1"), Kind::File, Changes::default());
    fs::hard_link(beds.source.join("group1"), beds.source.join("group2")).unwrap();
    // Of a group, rsync sends the last that it lists.
    wanted.insert(Item::New(Update::Received, Kind::File).line(&path("group2"), false, None));
    let same = Some(Link::SameAs(&path("group2")))
        .map(|link| Item::New(Update::HardLink, Kind::File).line(&path("group1"), false, Some(link)));
    wanted.extend(same);
    fs::create_dir(beds.destination.join("gone")).unwrap();
    fs::write(beds.destination.join("gone/file"), "").unwrap();
    wanted.insert(Item::Deleted.line(&path("gone"), true, None));
    wanted.insert(Item::Deleted.line(&path("gone/file"), false, None));
    beds.check(&run, &wanted);
}

struct Beds {
    _directory: tempfile::TempDir,
    source: std::path::PathBuf,
    destination: std::path::PathBuf,
}

impl Beds {
    /// Two empty directories; `None` where this host can't show all differences.
    fn new() -> Option<Self> {
        if !has("rsync") || !is_root("owners and devices need root") {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let [source, destination] = ["source", "destination"].map(|name| directory.path().join(name));
        fs::create_dir(&source).unwrap();
        fs::create_dir(&destination).unwrap();
        if let Err(error) = set_xattr(&source, "user.probe").and_then(|()| set_acl(&source)) {
            let place = source.display();
            skip("xattrs", format_args!("the file system of {place} has no attributes: {error}"));
            return None;
        }
        Some(Self { _directory: directory, source, destination })
    }

    /// Makes an entry in both trees that differs so; the line that is to be written.
    fn make(&self, kind: Kind, changes: Changes, run: &Run) -> String {
        let name =
            format!("{kind:?}-{}", Item::Existing(Update::Attributes, kind, changes).to_string().trim());
        make_entry(&self.source.join(&name), kind, Changes::default());
        make_entry(&self.destination.join(&name), kind, changes);
        let sends = if run.checksum { changes.value } else { changes.size || changes.modified.is_some() };
        let update = match kind {
            Kind::File if sends => Update::Received,
            Kind::Symlink | Kind::Device if changes.value => Update::Local,
            _ => Update::Attributes,
        };
        let link = (kind == Kind::Symlink).then_some(Link::Target(b"target"));
        let path = RelPath::new(name.as_bytes()).unwrap();
        let changes = Changes { modified: time(changes, update, kind, run), ..changes };
        Item::Existing(update, kind, changes).line(&path, kind == Kind::Directory, link)
    }

    fn check(&self, run: &Run, wanted: &BTreeSet<String>) {
        let mut rsync = Command::new("rsync");
        // Twice -i: unchanged entries as well.
        rsync
            .env("LC_ALL", "C")
            .args(run.options)
            .arg("-nii")
            .args([&self.source.join(""), &self.destination]);
        let output = rsync.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: BTreeSet<String> =
            text.lines().filter(|line| !line.ends_with(" ./")).map(Into::into).collect();
        assert!(!wanted.is_empty());
        let [theirs, ours]: [Vec<_>; 2] =
            [&lines - wanted, wanted - &lines].map(|lines| lines.into_iter().collect());
        assert_eq!(theirs, ours, "rsync's on the left");
    }
}

/// How rsync prints a time: without `-t`, it prints the new time wherever something is written.
fn time(changes: Changes, update: Update, kind: Kind, run: &Run) -> Option<Time> {
    if run.times {
        return changes.modified;
    }
    let written = update != Update::Attributes || (kind == Kind::File && changes.size);
    written.then_some(Time::OfTransfer)
}

/// All sets of differences that an entry of this kind can have.
fn combinations(kind: Kind, run: &Run) -> Vec<Changes> {
    let all = (0..256u32).map(|bits| {
        let has = |bit: u32| bits >> bit & 1 == 1;
        Changes {
            value: has(0),
            size: has(1),
            modified: has(2).then_some(Time::Kept),
            permissions: has(3),
            owner: has(4),
            group: has(5),
            acl: has(6),
            xattrs: has(7),
            ..Changes::default()
        }
    });
    let none = Changes::default();
    all.filter(|changes| match kind {
        // Another size is another value, and contents are only looked at where that was asked for.
        Kind::File if run.checksum => changes.value || !changes.size,
        Kind::File => !changes.value,
        Kind::Directory => !changes.value && !changes.size,
        Kind::Symlink => {
            *changes == Changes { permissions: false, acl: false, ..without_size(*changes) }
                && !changes.xattrs
        }
        Kind::Device => *changes == Changes { acl: false, ..without_size(*changes) } && !changes.xattrs,
        Kind::Special => {
            *changes == Changes { value: false, acl: false, ..without_size(*changes) } && !changes.xattrs
        }
    })
    .filter(|changes| run.times || *changes == none || changes.acl == changes.xattrs)
    .collect()
}

fn without_size(changes: Changes) -> Changes {
    Changes { size: false, ..changes }
}

/// Makes an entry that has these differences from the usual one.
fn make_entry(path: &Path, kind: Kind, changes: Changes) {
    let character = |number| rustix::fs::makedev(1, number);
    let node =
        |kind, device| rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o644), device).unwrap();
    match kind {
        Kind::File => fs::write(path, contents(changes)).unwrap(),
        Kind::Directory => fs::create_dir(path).unwrap(),
        Kind::Symlink => symlink(if changes.value { "tegrat" } else { "target" }, path).unwrap(),
        Kind::Device => node(FileType::CharacterDevice, character(if changes.value { 5 } else { 3 })),
        Kind::Special => node(FileType::Fifo, 0),
    }
    let owner = changes.owner.then(|| Uid::from_raw(1));
    let group = changes.group.then(|| Gid::from_raw(2));
    rustix::fs::chownat(CWD, path, owner, group, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    if kind != Kind::Symlink {
        let mode = if changes.permissions { 0o645 } else { 0o644 };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    if changes.xattrs {
        set_xattr(path, "user.other").unwrap();
    }
    if changes.acl {
        set_acl(path).unwrap();
        let mode = if changes.permissions { 0o645 } else { 0o644 };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    set_time(path, if changes.modified.is_some() { OTHER_TIME } else { TIME });
}

fn contents(changes: Changes) -> &'static str {
    match (changes.size, changes.value) {
        (true, _) => "longer contents",
        (false, true) => "stnetnoc",
        (false, false) => "contents",
    }
}

fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 5 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn set_xattr(path: &Path, name: &str) -> rustix::io::Result<()> {
    rustix::fs::setxattr(path, name, b"value", XattrFlags::empty())
}

fn set_acl(path: &Path) -> rustix::io::Result<()> {
    let entry = |(tag, permissions, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let value = [&2u32.to_le_bytes()[..], &ACL.map(entry).concat()].concat();
    rustix::fs::setxattr(path, "system.posix_acl_access", &value, XattrFlags::empty())
}
