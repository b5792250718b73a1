//! Tests of `-a` and its parts: the metadata that root and an ordinary user can keep, and the messages about
//! the rest.

use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use linerate_testing::skip;
use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::Signal;

use crate::archive::{ACCESS, acl, assert_same, make_everything, make_holes, set_time};
use crate::bed::{Case, NOBODY, args, case_with_attributes};
use crate::resumed::journal;
use crate::support::{PATIENCE, within};
use crate::tree::{names, noise, temporaries, write};

/// The number of entries of the widest directory: as many as are supported if the variable for long tests is
/// set, otherwise fewer.
fn wide() -> u32 {
    if std::env::var_os("LINERATE_TEST_FULL").is_some() { 100_000 } else { 3000 }
}

/// The changes that rsync would still make; if rsync isn't installed, prints a line and returns an empty
/// text.
fn differences(sources: &[&Path], destination: &Path) -> String {
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAXn", "--checksum", "--itemize-changes", "--numeric-ids", "--delete"]);
    // A slash at the end of a source is rsync's way to say what is in it.
    let slash = if sources.len() == 1 { "/" } else { "" };
    rsync.args(sources.iter().map(|source| format!("{}{slash}", source.display())));
    let Ok(output) = rsync.arg(destination).output() else {
        skip("rsync", "rsync, which would look too, isn't installed");
        return String::new();
    };
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[track_caller]
fn assert_kept(source: &Path, destination: &Path) {
    assert_same(source, destination);
    assert_eq!(differences(&[source], destination), "", "rsync sees differences");
    assert_eq!(temporaries(destination), Vec::<OsString>::new(), "left behind");
}

#[test]
fn everything_is_kept_by_root() {
    let Some(case) = case_with_attributes() else { return };
    let tree = case.near.join("tree");
    make_everything(&tree, wide());
    case.cp(args!["-a", "tree", case.b("tree")]).exits(0);
    assert_kept(&tree, &case.far.join("tree"));
    case.cp(args!["-a", "--streams", "4", case.b("tree"), "back"]).exits(0);
    assert_kept(&tree, &case.near.join("back"));
    // Onto what is there, names of one file among it.
    case.cp(args!["-a", "tree/.", case.b("tree")]).exits(0);
    assert_kept(&tree, &case.far.join("tree"));
}

#[test]
fn names_of_one_file_are_found_across_sources_and_directories_keep_nothing_of_their_own() {
    let Some(case) = case_with_attributes() else { return };
    let (one, two) = (case.near.join("one"), case.near.join("two"));
    write(one.join("x"), noise(1, 100_000));
    fs::create_dir(&two).unwrap();
    fs::hard_link(one.join("x"), two.join("y")).unwrap();
    fs::hard_link(one.join("x"), case.near.join("z")).unwrap();
    // What is there has an attribute and ACLs that the source doesn't have.
    fs::create_dir_all(case.far.join("one")).unwrap();
    let set = |name: &str, value: &[u8]| {
        rustix::fs::setxattr(case.far.join("one"), name, value, XattrFlags::empty()).unwrap();
    };
    set("user.old", b"x");
    set(ACCESS, &acl(7));
    set("system.posix_acl_default", &acl(7));
    case.cp(args!["-a", "one", "two", "z", case.b("")]).exits(0);
    let three = case.near.join("z");
    let sources = [one.as_path(), &two, &three];
    assert_eq!(differences(&sources, &case.far), "");
    let number = |path: &str| case.far.join(path).metadata().unwrap().ino();
    assert!(number("one/x") == number("two/y") && number("one/x") == number("z"));
}

#[test]
fn a_default_acl_at_the_destination_changes_nothing() {
    let Some(case) = case_with_attributes() else { return };
    write(case.near.join("tree/file"), "x");
    write(case.near.join("tree/below/large"), noise(1, 100_000));
    fs::set_permissions(case.near.join("tree/file"), PermissionsExt::from_mode(0o666)).unwrap();
    rustix::fs::setxattr(&case.far, "system.posix_acl_default", &acl(7), XattrFlags::empty()).unwrap();
    case.cp(args!["-a", "tree", case.b("")]).exits(0);
    assert_kept(&case.near.join("tree"), &case.far.join("tree"));
}

#[test]
fn parts_are_kept_one_by_one() {
    let Some(case) = case_with_attributes() else { return };
    let tree = case.near.join("tree");
    make_holes(&tree);
    rustix::fs::mknodat(CWD, tree.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    chown(tree.join("small"), Some(11), Some(12)).unwrap();
    set_time(&tree, 5, 5);
    case.cp(args!["-r", "tree", case.b("plain")]).exits(3).says(&["fifo", "not copied"]);
    let blocks = |place: &str| case.far.join(place).join("many").metadata().unwrap().blocks();
    assert!(blocks("plain") * 512 >= 40 << 20, "holes are written out");
    case.cp(args!["-r", "--sparse", "--specials", "--owner", "--times", "tree", case.b("some")]).exits(0);
    assert!(blocks("some") * 512 < 1 << 20, "holes are kept");
    assert!(case.far.join("some/fifo").symlink_metadata().unwrap().file_type().is_fifo());
    let small = case.far.join("some/small").metadata().unwrap();
    assert_eq!((small.uid(), small.gid()), (11, 0));
    assert_eq!(case.far.join("some").metadata().unwrap().mtime(), 5);
    case.cp(args!["-a", "--no-owner", "--no-group", "--no-specials", "tree", case.b("less")]).exits(3);
    assert_eq!(case.far.join("less/small").metadata().unwrap().uid(), 0);
    // A source that is special itself.
    case.cp(args!["--specials", "tree/fifo", case.b("pipe")]).exits(0);
    assert!(case.far.join("pipe").symlink_metadata().unwrap().file_type().is_fifo());
    let listed = case.cp(args!["-an", case.b("some"), "."]).exits(0).out;
    assert!(listed.contains("fifo"), "{listed}");
}

#[test]
fn owners_are_known_by_name_unless_numbers_are_asked_for() {
    let Some(case) = case_with_attributes() else { return };
    write(case.near.join("file"), "x");
    chown(case.near.join("file"), Some(1), Some(1)).unwrap();
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    if !passwd.contains("\ndaemon:x:1:1:") {
        return skip("user-daemon", "user 1 isn't daemon here");
    }
    let other = case.aside("etc").join("passwd");
    fs::write(&other, passwd.replace("\ndaemon:x:1:1:", "\ndaemon:x:4321:1:")).unwrap();
    let elsewhere = format!(
        "exec $SSH \"$1\" \"exec unshare --mount sh -c 'mount --bind {} /etc/passwd; exec \\\"\\$@\\\"' sh $2\"",
        other.display()
    );
    let owner = || case.far.join("file").metadata().map(|meta| (meta.uid(), meta.gid())).unwrap();
    case.cp_by(&elsewhere, args!["-a", "file", case.b("")]).exits(0);
    assert_eq!(owner(), (4321, 1));
    case.cp_by(&elsewhere, args!["-a", "--numeric-ids", "file", case.b("")]).exits(0);
    assert_eq!(owner(), (1, 1));
}

/// Makes entries that an ordinary user can make: no devices, and no other owners.
fn make_an_ordinary_users(tree: &Path) {
    make_holes(&tree.join("holes"));
    for (path, mode) in [("readable", 0o644), ("read only", 0o400), ("a/b", 0o600), ("a/program", 0o4755)] {
        write(tree.join(path), noise(1, 70_000));
        fs::set_permissions(tree.join(path), PermissionsExt::from_mode(mode)).unwrap();
    }
    fs::hard_link(tree.join("readable"), tree.join("a/the same")).unwrap();
    rustix::fs::mknodat(CWD, tree.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(tree.join(path), name, value, XattrFlags::empty()).unwrap();
    };
    set("read only", "user.comment", b"kept");
    set("a", "user.comment", b"kept");
    set("a/b", "trusted.secret", b"root's");
    set("a/b", ACCESS, &acl(6));
    set("a", "system.posix_acl_default", &acl(7));
    fs::set_permissions(tree.join("a"), PermissionsExt::from_mode(0o555)).unwrap();
    set_time(&tree.join("a"), -7, 7);
}

/// Checks that root's tree was copied to an ordinary user, with all properties that an ordinary user can set.
#[track_caller]
fn assert_an_ordinary_users(case: &Case, landed: &Path) {
    let tree = case.near.join("tree");
    let meta = |path: &str| landed.join(path).metadata().unwrap();
    assert!(["", "readable", "a/b"].iter().all(|path| meta(path).uid() == NOBODY), "owners");
    assert_eq!(meta("a/program").mode() & 0o7777, 0o755, "setuid is another's now");
    assert_eq!(meta("a/the same").ino(), meta("readable").ino());
    // Root's view of the same tree, given to the same user.
    fs::set_permissions(tree.join("a/program"), PermissionsExt::from_mode(0o755)).unwrap();
    rustix::fs::removexattr(tree.join("a/b"), "trusted.secret").unwrap();
    let paths = crate::tree::names(&tree).into_iter().chain([OsString::new()]);
    for path in paths {
        std::os::unix::fs::lchown(tree.join(path), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    assert_kept(&tree, landed);
}

#[test]
fn an_ordinary_user_keeps_what_one_can_pushed_to() {
    let Some(case) = case_with_attributes() else { return };
    make_an_ordinary_users(&case.near.join("tree"));
    chown(&case.far, Some(NOBODY), Some(NOBODY)).unwrap();
    let run = case.cp_by(&case.as_far_nobody(), args!["-a", "tree", case.b("tree")]).exits(3);
    run.says(&["a/program: its setuid or setgid bit, which would apply to another owner, could not be kept"]);
    assert_an_ordinary_users(&case, &case.far.join("tree"));
}

#[test]
fn an_ordinary_user_keeps_what_one_can_pulling() {
    let Some(case) = case_with_attributes() else { return };
    make_an_ordinary_users(&case.far.join("tree"));
    let run = case.cp_as_nobody(args!["-a", case.b("tree"), "back"]).exits(3);
    run.says(&["a/program: its setuid or setgid bit, which would apply to another owner, could not be kept"]);
    fs::rename(case.far.join("tree"), case.near.join("tree")).unwrap();
    assert_an_ordinary_users(&case, &case.near.join("back"));
}

#[test]
fn a_device_that_cannot_be_made_is_reported() {
    let Some(case) = case_with_attributes() else { return };
    write(case.far.join("tree/file"), "x");
    let device = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(CWD, case.far.join("tree/null"), FileType::CharacterDevice, Mode::RUSR, device)
        .unwrap();
    let run = case.cp_as_nobody(args!["-a", case.b("tree"), "."]).exits(3);
    run.says(&["tree/null: making the device node failed: Operation not permitted"]);
    assert_eq!(fs::read_to_string(case.near.join("tree/file")).unwrap(), "x");
}

/// A file system that keeps neither attributes nor ACLs.
struct Plain<'a>(&'a Path);

impl<'a> Plain<'a> {
    fn mount(path: &'a Path) -> Option<Self> {
        let options = CString::new("mode=755").unwrap();
        match rustix::mount::mount("ramfs", path, "ramfs", MountFlags::empty(), Some(options.as_c_str())) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                skip("mount", format_args!("no ramfs can be mounted here: {error}"));
                None
            }
        }
    }
}

impl Drop for Plain<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn what_the_target_cannot_keep_is_reported_once_and_by_name_where_each_step_is() {
    let Some(case) = case_with_attributes() else { return };
    let Some(_plain) = Plain::mount(&case.far) else { return };
    let tree = case.near.join("tree");
    for number in 0..30 {
        let path = tree.join(format!("{number}"));
        write(path.clone(), "x");
        rustix::fs::setxattr(&path, "user.comment", b"y", XattrFlags::empty()).unwrap();
    }
    rustix::fs::setxattr(tree.join("7"), ACCESS, &acl(6), XattrFlags::empty()).unwrap();
    let run = case.cp(args!["-a", "tree", case.b("tree")]).exits(3);
    let reported = "30 entries, each: its extended attributes could not be kept: Operation not supported";
    let run = run.says(&[reported, "tree/7: its ACL could not be kept"]);
    assert_eq!(run.err.matches("could not be kept").count(), 2, "{run}");
    let run = case.cp(args!["-av", "tree", case.b("again")]).exits(3);
    assert_eq!(run.err.matches("extended attributes could not be kept").count(), 30, "{run}");
    let run = case.cp(args!["-a", "--no-xattrs", "--no-acls", "tree", case.b("less")]).exits(0);
    assert!(!run.err.contains("kept"), "{run}");
    let run = case.cp(args!["-a", "--json", "tree", case.b("json")]).exits(3);
    assert!(run.out.contains("\"kind\":\"not-kept\"") && run.out.contains("\"not_kept\":31"), "{run}");
}

#[test]
fn an_ordinary_user_gets_attributes_of_what_may_not_be_written() {
    let Some(case) = case_with_attributes() else { return };
    let tree = case.far.join("tree");
    write(tree.join("file"), "x");
    write(tree.join("plain"), "x");
    fs::create_dir(tree.join("directory")).unwrap();
    for name in ["file", "plain", "directory"] {
        fs::set_permissions(tree.join(name), PermissionsExt::from_mode(0o555)).unwrap();
    }
    let comment =
        |path: &Path| rustix::fs::setxattr(path, "user.comment", b"y", XattrFlags::empty()).unwrap();
    let pull = || case.sync_as_nobody(args![case.b("tree"), "copy"]).exits(0);
    pull();
    comment(&tree.join("file"));
    for name in ["plain", "directory"] {
        comment(&case.near.join("copy").join(name));
    }
    pull();
    let has = |name: &str| {
        let path = case.near.join("copy").join(name);
        let length = rustix::fs::getxattr_query(&path, "user.comment").ok();
        (length, path.metadata().unwrap().mode() & 0o7777)
    };
    assert_eq!(["file", "plain", "directory"].map(has), [(Some(1), 0o555), (None, 0o555), (None, 0o555)]);
}

#[test]
fn what_was_lost_before_a_kill_is_reported_by_the_run_that_goes_on() {
    let Some(case) = case_with_attributes() else { return };
    let Some(_plain) = Plain::mount(&case.far) else { return };
    let tree = case.near.join("tree");
    for number in 0..12 {
        let path = tree.join(format!("{number}"));
        write(path.clone(), noise(number, 2 << 20));
        rustix::fs::setxattr(&path, "user.comment", b"y", XattrFlags::empty()).unwrap();
    }
    write(tree.join("chunked"), noise(77, 40 << 20));
    let running = case.start(args!["-a", "--bwlimit", "8m", "tree", case.b("to")]);
    let there = || names(&case.far.join("to")).len() - temporaries(&case.far.join("to")).len();
    assert!(within(PATIENCE, || there() > 4 && journal(&case.far).is_some()), "it never got under way");
    running.signal(Signal::KILL);
    running.end();
    let reported = "12 entries, each: its extended attributes could not be kept";
    case.cp(args!["-a", "tree", case.b("to")]).exits(3).says(&[reported]);
}

#[test]
fn new_directories_have_the_setgid_bit_of_the_one_that_they_are_in_unless_modes_are_kept() {
    let Some(case) = case_with_attributes() else { return };
    let tree = case.near.join("tree");
    write(tree.join("open/closed/file"), "x");
    write(tree.join("private/file"), "x");
    for (path, mode) in [("", 0o755), ("open", 0o755), ("open/closed", 0o500), ("private", 0o700)] {
        fs::set_permissions(tree.join(path), PermissionsExt::from_mode(mode)).unwrap();
    }
    for name in ["cp", "cp -p", "sync"] {
        fs::create_dir(case.far.join(name)).unwrap();
        chown(case.far.join(name), None, Some(NOBODY)).unwrap();
        fs::set_permissions(case.far.join(name), PermissionsExt::from_mode(0o2775)).unwrap();
    }
    case.cp(args!["-r", "tree", case.b("cp/tree")]).exits(0);
    case.cp(args!["-r", "-p", "tree", case.b("cp -p/tree")]).exits(0);
    let plain = args!["--no-perms", "--no-owner", "--no-group", "tree", case.b("sync/tree")];
    case.sync(plain.clone()).exits(0);
    // The far end's umask takes from the other bits.
    let modes = |name: &str| {
        let mode = |path| case.far.join(name).join("tree").join(path).metadata().unwrap().mode() & 0o7700;
        ["", "open", "open/closed", "private"].map(mode)
    };
    assert_eq!(modes("cp"), [0o2700, 0o2700, 0o2500, 0o2700]);
    assert_eq!(modes("sync"), modes("cp"));
    assert_eq!(modes("cp -p"), [0o700, 0o700, 0o500, 0o700]);
    let again = [args!["--itemize-changes"], plain].concat();
    assert_eq!(case.sync(again).exits(0).out, "", "nothing is left to do");
}

#[test]
fn what_is_written_into_loses_attributes_and_acls_that_its_source_has_not() {
    let Some(case) = case_with_attributes() else { return };
    let (tree, there) = (case.near.join("tree"), case.far.join("tree"));
    for (number, size) in [500, 300_000, 20 << 20].into_iter().enumerate() {
        let name = format!("{number}");
        write(tree.join(&name), noise(number as u64, size));
        write(there.join(&name), noise(7, size / 2));
        rustix::fs::setxattr(there.join(&name), "user.old", b"x", XattrFlags::empty()).unwrap();
        rustix::fs::setxattr(there.join(&name), ACCESS, &acl(7), XattrFlags::empty()).unwrap();
    }
    case.sync(args!["--inplace", "tree", case.b("tree")]).exits(0);
    assert_kept(&tree, &there);
}
