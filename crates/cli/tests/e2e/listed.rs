//! Tests of `linerate sync --files-from`: only listed entries are sent, and others aren't changed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linerate_testing::has;

use crate::bed::{NOBODY, args, case};
use crate::syncs::{make_tree, paths};
use crate::tree::{set_time, write};

/// The mode, owner, group, and modification time in seconds of a file.
fn attributes(path: &Path) -> (u32, u32, u32, i64) {
    let meta = path.metadata().unwrap();
    (meta.mode() & 0o7777, meta.uid(), meta.gid(), meta.mtime())
}

/// Makes a directory with the mode of /tmp and an old modification time.
fn make_public(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::create_dir(path.join("a")).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o1777)).unwrap();
    set_time(path, Duration::from_secs(1_400_000_000));
}

#[test]
fn a_destination_that_is_not_listed_keeps_its_own_attributes_as_with_rsync() {
    let Some(case) = case() else { return };
    if !has("rsync") {
        return;
    }
    let here = case.near.join("tree");
    write(here.join("a/file"), "x");
    write(here.join("other"), "x");
    fs::set_permissions(&here, PermissionsExt::from_mode(0o700)).unwrap();
    chown(&here, Some(NOBODY), Some(NOBODY)).unwrap();
    let tops = ["far/pushed", "near/pulled", "far/rsynced"].map(|top| case.aside("").join(top));
    for (list, is_listed) in [("a/file\n", false), ("a/file\n.\n", true)] {
        write(case.near.join("list"), list);
        set_time(&here, Duration::from_secs(1_500_000_000));
        tops.iter().for_each(|top| make_public(top));
        let rsync = |options: &[&str]| {
            let mut run = Command::new("rsync");
            run.args(options).args(["-ai", "--files-from=list", "tree/", "../far/rsynced/"]);
            let run = run.current_dir(&case.near).output().unwrap();
            assert!(run.status.success());
            String::from_utf8(run.stdout).unwrap()
        };
        let run = |last: Vec<OsString>| {
            let options = args!["--files-from", "list", "--itemize-changes"];
            case.sync([options, last].concat()).exits(0)
        };
        let dry = run(args!["--dry-run", "tree", case.b("pushed")]);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(dry.out.contains("./"), is_listed, "{dry}");
        let there = attributes(&tops[0]);
        assert_eq!(lines(&rsync(&["-n"])).iter().any(|line| line.ends_with(" ./")), is_listed);
        rsync(&[]);
        let real = run(args!["tree", case.b("pushed")]);
        assert_eq!(lines(&real.out), lines(&dry.out), "a dry run says what happens");
        fs::rename(&here, case.far.join("tree")).unwrap();
        run(args![case.b("tree"), "pulled"]);
        fs::rename(case.far.join("tree"), &here).unwrap();
        for top in &tops {
            let expected = if is_listed { attributes(&here) } else { there };
            assert_eq!(attributes(top), expected, "{}, listed: {is_listed}", top.display());
            assert_eq!(fs::read_to_string(top.join("a/file")).unwrap(), "x");
            assert_eq!(top.join("other").exists(), is_listed, "a listed directory has its contents");
            fs::remove_dir_all(top).unwrap();
        }
    }
}

#[test]
fn a_destination_that_is_missing_is_made_as_any_new_directory() {
    let Some(case) = case() else { return };
    let here = case.near.join("tree");
    write(here.join("file"), "x");
    write(case.near.join("list"), "file\n");
    fs::set_permissions(&here, PermissionsExt::from_mode(0o700)).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
    fs::create_dir(case.near.join("new")).unwrap();
    for options in [args![], args!["--no-perms"]] {
        let push = args!["--files-from", "list", "tree", case.b("copy")];
        case.sync([options, push].concat()).exits(0);
        assert_eq!(mode(&case.far.join("copy")), mode(&case.near.join("new")));
        fs::remove_dir_all(case.far.join("copy")).unwrap();
    }
}

#[test]
fn what_a_list_of_files_names_and_is_not_there_is_reported() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    symlink("a", here.join("way")).unwrap();
    write(case.near.join("list"), "small\nmissing\nno/way\nway/b\nlink\n");
    let reported =
        ["tree/missing: finding an entry of the list", "tree/no/way: finding", "tree/way/b: finding"];
    let push = args!["--files-from", "list", "tree", case.b("copy")];
    let pull = args!["--files-from", "list", case.b("tree"), "back"];
    let run = case.sync(push).exits(3).says(&reported);
    assert_eq!(run.err.matches("finding an entry of").count(), reported.len(), "{run}");
    assert!(there.join("small").is_file() && there.join("link").is_symlink());
    fs::rename(&here, case.far.join("tree")).unwrap();
    case.sync(pull).exits(3).says(&reported);
}

#[test]
fn a_list_of_files_is_all_that_travels() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    write(case.near.join("list"), "a/b/c/deep\nmany/3/\nlink\n");
    case.sync(args!["--files-from", "list", "tree", case.b("copy")]).exits(0);
    let names = |top: &Path| -> Vec<PathBuf> {
        paths(top).iter().map(|path| path.strip_prefix(top).unwrap().to_owned()).collect()
    };
    let mut expected: Vec<PathBuf> = names(&here)
        .into_iter()
        .filter(|path| path.starts_with("many/3"))
        .chain(["a", "a/b", "a/b/c", "a/b/c/deep", "link", "many"].map(PathBuf::from))
        .collect();
    expected.sort();
    assert_eq!(names(&there), expected);
    write(case.near.join("list"), "a/b/c\n");
    case.sync(args!["--files-from", "list", case.b("copy"), "pulled"]).exits(0);
    assert_eq!(names(&case.near.join("pulled")), ["a", "a/b", "a/b/c"].map(PathBuf::from));
}

#[test]
fn names_that_zero_bytes_end_are_no_comments() {
    let Some(case) = case() else { return };
    let names = ["#file#", ";other", "x"];
    names.iter().for_each(|name| write(case.near.join("tree").join(name), name));
    write(case.near.join("list"), names.join("\0"));
    case.sync(args!["-0", "--files-from", "list", "tree", case.b("copy")]).exits(0);
    names.iter().for_each(|name| assert!(case.far.join("copy").join(name).is_file(), "{name}"));
}
