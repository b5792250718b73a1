//! Tests with another user in the receiver's own group, who constantly tries to list, read and write received
//! files while an archive assigns other groups and ACLs to them.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_testing::{is_root, skip};
use rustix::fs::{CWD, FileType, Mode, OFlags, XattrFlags};
use rustix::process::{Gid, Signal, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::far::Ground;
use crate::support::{PATIENCE, Running, within};

/// The group that finally owns the files, and a user whom an ACL names.
const GROUP: u32 = 500;
const NAMED: u32 = 2003;
/// The attacking user, who is in root's primary group.
const SPY: u32 = 2002;
/// The size of a large file, which has a temporary name and takes seconds.
const LARGE: usize = 20 << 20;

/// A process that tries to access files until it is stopped, and then reports its successes.
struct Spy {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeSet<String>>,
}

impl Spy {
    /// Starts to try accesses below `top`, by names that it can list and by known names.
    fn on(top: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (top, stopped) = (top.to_owned(), stop.clone());
        let thread = std::thread::spawn(move || {
            let (user, group) = (Uid::from_raw(SPY), Gid::from_raw(0));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
            let mut could = BTreeSet::new();
            while !stopped.load(Ordering::Relaxed) {
                attempt(&top, &top, &mut could);
                for known in ["", "plan", "large", "fifo", "listed", "listed/plan", "listed/large"] {
                    attempt(&top, &top.join("proj").join(known), &mut could);
                }
            }
            could
        });
        Self { stop, thread }
    }

    fn could(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn attempt(top: &Path, path: &Path, could: &mut BTreeSet<String>) {
    let mut note = |what: &str| {
        let shown = path.strip_prefix(top).unwrap().display();
        could.insert(format!("{what} {shown}"));
    };
    if let Ok(entries) = fs::read_dir(path) {
        if path != top {
            note("list");
        }
        let entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        entries.iter().for_each(|path| attempt(top, path, could));
        return;
    }
    let open = |flags: &mut OpenOptions| flags.custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    // Without a reader a fifo isn't opened for writing, which says ENXIO instead of EACCES.
    let is_let_in = |opened: std::io::Result<fs::File>| {
        opened.map_or_else(
            |error| error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()),
            |_| true,
        )
    };
    if is_let_in(open(OpenOptions::new().read(true))) {
        note("read");
    }
    if is_let_in(open(OpenOptions::new().write(true))) {
        note("write");
    }
}

/// The ACL `g::---, u:2003:rwx, m::rwx` in the kernel's format.
fn acl() -> Vec<u8> {
    let entry = |tag: u16, rights: u16, whose: u32| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &whose.to_le_bytes()].concat()
    };
    let nobody = u32::MAX;
    let entries = [
        entry(1, 7, nobody),
        entry(2, 7, NAMED),
        entry(4, 0, nobody),
        entry(16, 7, nobody),
        entry(32, 0, nobody),
    ];
    [&2_u32.to_le_bytes()[..], &entries.concat()].concat()
}

/// Makes `src/proj` in `ground`, owned by group 500, with contents that an ACL opens to one user. `None` if
/// that is impossible here.
fn make_source(ground: &Ground) -> Option<PathBuf> {
    if !is_root("only root can become another user") {
        return None;
    }
    // The spy gets to the destination, and no further up.
    let inside = ground.inside();
    fs::set_permissions(inside.parent()?, PermissionsExt::from_mode(0o711)).unwrap();
    let source = inside.join("src");
    fs::create_dir(&source).unwrap();
    fs::set_permissions(&source, PermissionsExt::from_mode(0o700)).unwrap();
    let proj = source.join("proj");
    for folder in ["", "listed"] {
        fs::create_dir(proj.join(folder)).unwrap();
        fs::write(proj.join(folder).join("plan"), "new").unwrap();
        fs::write(proj.join(folder).join("large"), vec![7; LARGE]).unwrap();
    }
    rustix::fs::mknodat(CWD, proj.join("fifo"), FileType::Fifo, Mode::empty(), 0).unwrap();
    for (name, mode) in [("", 0o750), ("plan", 0o660), ("large", 0o660), ("fifo", 0o660)] {
        chown(proj.join(name), None, Some(GROUP)).unwrap();
        fs::set_permissions(proj.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    for name in ["listed", "listed/plan", "listed/large"] {
        let (path, flags) = (proj.join(name), XattrFlags::empty());
        if rustix::fs::setxattr(&path, "system.posix_acl_access", &acl(), flags).is_err() {
            skip("xattrs", format_args!("{} has no ACLs", path.display()));
            return None;
        }
    }
    fs::create_dir(inside.join("to")).unwrap();
    fs::set_permissions(inside.join("to"), PermissionsExt::from_mode(0o755)).unwrap();
    Some(inside.join("to"))
}

/// A client whose far end is an agent in the same directory.
fn client(ground: &Ground, args: &[&str]) -> Command {
    let shell = ground.inside().parent().unwrap().join("pipes/agent");
    let program = env!("CARGO_BIN_EXE_linerate");
    fs::write(&shell, format!("unset SSH_CONNECTION\nexec '{program}' agent\n")).unwrap();
    let rsh = format!("sh {}", shell.display());
    let mut command =
        ground.linerate(&[&args[..1], &["--rsh", &rsh, "-a", "--bwlimit", "16m"], &args[1..]].concat());
    command.env_remove("SSH_CONNECTION");
    command
}

/// Checks the entries and their permissions at the end.
#[track_caller]
fn assert_landed(to: &Path) {
    use std::os::unix::fs::MetadataExt;
    let stat = |name: &str| fs::metadata(to.join("proj").join(name)).unwrap();
    for (name, mode) in [("", 0o750), ("plan", 0o660), ("large", 0o660), ("fifo", 0o660)] {
        assert_eq!((stat(name).mode() & 0o7777, stat(name).gid()), (mode, GROUP), "{name}");
    }
    for name in ["listed", "listed/plan", "listed/large"] {
        let mut value = [0; 100];
        let path = to.join("proj").join(name);
        let length = rustix::fs::getxattr(&path, "system.posix_acl_access", &mut value[..]).unwrap();
        assert_eq!((stat(name).mode() & 0o7777, &value[..length]), (0o770, &acl()[..]), "{name}");
    }
    assert!(fs::read(to.join("proj/large")).unwrap() == vec![7; LARGE]);
}

fn run(ground: &Ground, args: &[&str]) {
    Running::start(client(ground, args)).end_within(PATIENCE).exits(0);
}

#[track_caller]
fn assert_nothing(could: &BTreeSet<String>) {
    assert!(could.is_empty(), "another user of the receiver's group could {could:?}");
}

#[test]
fn nobody_of_the_receivers_group_gets_at_what_lands() {
    for args in [["cp", "far:src/proj", "to"], ["sync", "src/proj", "far:to/proj"]] {
        let ground = Ground::new();
        let Some(to) = make_source(&ground) else { return };
        let spy = Spy::on(&to);
        run(&ground, &args);
        let could = spy.could();
        assert_landed(&to);
        assert_nothing(&could);
    }
}

#[test]
fn a_kill_and_a_rerun_leave_nothing_open() {
    let ground = Ground::new();
    let Some(to) = make_source(&ground) else { return };
    let args = ["cp", "far:src/proj", "to"];
    let spy = Spy::on(&to);
    let client = Running::start(client(&ground, &args));
    let is_begun = || {
        let names = fs::read_dir(to.join("proj/listed")).into_iter().flatten().flatten();
        names.into_iter().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b".linerate."))
    };
    assert!(within(PATIENCE, is_begun), "nothing has begun");
    std::thread::sleep(Duration::from_millis(300));
    client.signal(Signal::KILL);
    client.end_within(PATIENCE);
    std::thread::sleep(Duration::from_millis(100));
    run(&ground, &args);
    let could = spy.could();
    assert_landed(&to);
    assert_nothing(&could);
}

/// Existing files, which the receiver's group can access, get another group and other contents.
#[test]
fn what_is_written_in_place_is_closed_first() {
    let ground = Ground::new();
    let Some(to) = make_source(&ground) else { return };
    let proj = to.join("proj");
    fs::create_dir_all(proj.join("listed")).unwrap();
    for (name, mode) in [("large", 0o664), ("listed/large", 0o664), ("listed", 0o775), ("", 0o775)] {
        if mode == 0o664 {
            fs::write(proj.join(name), vec![1; LARGE]).unwrap();
        }
        fs::set_permissions(proj.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let client = Running::start(client(&ground, &["sync", "--inplace", "far:src/proj", "to/proj"]));
    let mode = |name: &str| fs::metadata(proj.join(name)).unwrap().permissions().mode() & 0o777;
    assert!(within(PATIENCE, || mode("") != 0o775), "nothing has begun");
    let spy = Spy::on(&to);
    client.end_within(PATIENCE).exits(0);
    let could = spy.could();
    assert_landed(&to);
    assert_nothing(&could);
}

/// Like the previous test, without a directory that protects the files.
#[test]
fn a_file_written_in_place_is_closed_by_itself() {
    let ground = Ground::new();
    let Some(to) = make_source(&ground) else { return };
    fs::write(to.join("large"), vec![1; LARGE]).unwrap();
    fs::set_permissions(to.join("large"), PermissionsExt::from_mode(0o664)).unwrap();
    let client = Running::start(client(&ground, &["sync", "--inplace", "far:src/proj/large", "to/large"]));
    let mode = || fs::metadata(to.join("large")).unwrap().permissions().mode() & 0o777;
    assert!(within(PATIENCE, || mode() != 0o664), "nothing has begun");
    let spy = Spy::on(&to);
    client.end_within(PATIENCE).exits(0);
    let could = spy.could();
    assert_eq!(mode(), 0o660);
    assert_nothing(&could);
}
