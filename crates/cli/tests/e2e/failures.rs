//! Tests of failures: each must give a message and an exit code, and no incomplete file.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

use crate::archive::set_time;
use crate::bed::{NOBODY, args, case};
use crate::json::{summary_of, u64_at};
use crate::mounts::Mounted;
use crate::support::{PATIENCE, within};
use crate::tree::{assert_alike, assert_nothing_half_written, make_mixed, noise, shape, temporaries, write};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn an_unreadable_file_is_listed_and_the_others_are_there() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    write(case.near.join("tree/closed"), "x");
    write(case.near.join("tree/closed large"), noise(1, 200_000));
    write(case.near.join("tree/closed directory/x"), "x");
    for name in ["closed", "closed large", "closed directory"] {
        set_mode(&case.near.join("tree").join(name), 0);
    }
    let run = case.cp_as_nobody(args!["-r", "tree", case.b("tree")]).exits(3);
    run.says(&["tree/closed: ", "tree/closed large: ", "tree/closed directory: ", "Permission denied"]);
    for name in ["closed", "closed large", "closed directory/x"] {
        fs::remove_file(case.near.join("tree").join(name)).unwrap();
        assert!(!case.far.join("tree").join(name).exists(), "{name}");
    }
    fs::remove_dir(case.near.join("tree/closed directory")).unwrap();
    // The directory itself may or may not be there.
    let _ = fs::remove_dir(case.far.join("tree/closed directory"));
    assert_alike(&case.near.join("tree"), &case.far.join("tree"));
}

/// The command is run repeatedly, as a backup is.
#[test]
fn a_directory_that_its_owner_may_not_read_is_one_problem_each_time() {
    let Some(case) = case() else { return };
    write(case.near.join("tree/file"), "x");
    for (name, mode) in [("closed", 0), ("dropbox", 0o333), ("open", 0o755)] {
        write(case.near.join("tree").join(name).join("x"), name);
        let directory = case.near.join("tree").join(name);
        chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
        set_mode(&directory, mode);
        set_time(&directory, 1_500_000_000, 5);
    }
    chown(case.near.join("tree"), Some(NOBODY), Some(NOBODY)).unwrap();
    let home = case.aside("destination");
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    for command in [&["cp", "-r"][..], &["cp", "-rp"], &["cp", "-a"], &["sync"]] {
        let to = home.join(command.concat());
        for _ in 0..3 {
            let mut destination = OsString::from("b:");
            destination.push(&to);
            let run = case.both_as_nobody(command, args!["tree/.", destination]).exits(3);
            let reported: Vec<_> = run.err.lines().filter(|line| line.contains("failed")).collect();
            assert_eq!(reported.len(), 2, "{command:?}: {run}");
            assert!(
                reported.iter().all(|line| line.contains("opening the directory failed: Permission denied"))
            );
            assert_eq!(fs::read_to_string(to.join("open/x")).unwrap(), "open");
            assert_eq!(temporaries(&to).len(), 0, "{command:?}: {run}");
        }
        let meta = to.join("closed").metadata().unwrap();
        assert_eq!((meta.mode() & 0o777, meta.uid()), (0, NOBODY), "{command:?}");
        assert!(command.contains(&"-r") || meta.mtime() == 1_500_000_000, "{command:?}");
    }
}

#[test]
fn what_the_far_end_cannot_read_is_listed_too() {
    let Some(case) = case() else { return };
    make_mixed(&case.far.join("tree"));
    write(case.far.join("tree/closed"), "x");
    set_mode(&case.far.join("tree/closed"), 0);
    let run = case.cp_by(&case.as_far_nobody(), args!["-r", "--json", case.b("tree"), "back"]).exits(3);
    let summary = summary_of(&run.out);
    assert_eq!((u64_at(&summary, "/files"), u64_at(&summary, "/failed")), (6, 1), "{summary}");
    fs::remove_file(case.far.join("tree/closed")).unwrap();
    assert_alike(&case.far.join("tree"), &case.near.join("back"));
}

#[test]
fn a_directory_needs_r() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    write(case.near.join("file"), "x");
    case.cp(args!["tree", case.b("")]).exits(2).says(&["tree", "directory", "-r"]);
    case.cp(args!["tree", "file", case.b("to/")]).exits(3).says(&["tree", "directory", "-r"]);
    assert_eq!(fs::read_to_string(case.far.join("to/file")).unwrap(), "x");
    assert!(!case.far.join("to/tree").exists());
    case.cp(args![case.b("to"), "."]).exits(2).says(&["to", "directory", "-r"]);
}

#[test]
fn a_missing_source_is_reported() {
    let Some(case) = case() else { return };
    write(case.far.join("x"), "x");
    case.cp_by("touch ../logged-in", args!["missing", "b:"]).exits(2).says(&["missing"]);
    assert!(!case.near.join("../logged-in").exists());
    case.cp(args![case.b("missing"), "."]).exits(2).says(&["missing"]);
    case.cp(args![case.b("missing"), case.b("x"), "to/"]).exits(3).says(&["missing"]);
    assert_eq!(fs::read_to_string(case.near.join("to/x")).unwrap(), "x");
}

#[test]
fn more_names_than_one_transfer_can_announce_are_reported_before_any_login() {
    let Some(case) = case() else { return };
    let name = "n".repeat(255);
    write(case.near.join(&name), "x");
    let with = |source: std::ffi::OsString, destination| {
        let mut list = vec![source; 4200];
        list.push(destination);
        list
    };
    for list in [with(name.clone().into(), "b:".into()), with(format!("b:{name}").into(), ".".into())] {
        let run = case.cp_by("touch ../logged-in", list).exits(2);
        run.says(&[
            "the names of the sources have",
            "can announce at most 1048576",
            "name the sources' directory with -r",
        ]);
        assert!(!case.near.join("../logged-in").exists());
    }
}

#[test]
fn a_destination_that_is_a_file_takes_no_directory() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    write(case.far.join("file"), "kept");
    case.cp(args!["-r", "tree", case.b("file")]).exits(2).says(&["far/file", "is a file"]);
    case.cp(args!["-r", "tree", case.b("file/")]).exits(2).says(&["far/file"]);
    case.cp(args!["-r", "tree", case.b("file/x")]).exits(2).says(&["far/file"]);
    assert_eq!(fs::read_to_string(case.far.join("file")).unwrap(), "kept");
    write(case.near.join("file"), "kept");
    make_mixed(&case.far.join("tree"));
    case.cp(args!["-r", case.b("tree"), "file"]).exits(2).says(&["file", "is a file"]);
    assert_eq!(fs::read_to_string(case.near.join("file")).unwrap(), "kept");
}

#[test]
fn a_full_disk_at_the_far_end_leaves_nothing_half_written() {
    let Some(case) = case() else { return };
    let Some(_small) = Mounted::memory(&case.far, "8m") else { return };
    for number in 0..20 {
        write(case.near.join(format!("tree/large {number}")), noise(number, 1 << 20));
        write(case.near.join(format!("tree/small {number}")), noise(number, 3000));
    }
    case.cp(args!["-r", "tree", case.b("tree")]).exits(1).says(&["No space left", "far/tree/"]);
    assert_nothing_half_written(&case.near.join("tree"), &case.far.join("tree"));
    write(case.near.join("huge"), noise(1, 33 << 20));
    case.cp(args!["huge", case.b("huge")]).exits(1).says(&["No space left", "huge"]);
    assert!(!case.far.join("huge").exists());
    // What came is kept for the same command, until somebody wants none of it.
    case.clean(args![case.b("")]);
    assert_eq!(temporaries(&case.far).len(), 0);
}

#[test]
fn a_full_disk_at_this_end_leaves_nothing_half_written() {
    let Some(case) = case() else { return };
    let Some(_small) = Mounted::memory(&case.near, "8m") else { return };
    for number in 0..20 {
        write(case.far.join(format!("tree/large {number}")), noise(number, 1 << 20));
        write(case.far.join(format!("tree/small {number}")), noise(number, 3000));
    }
    case.cp(args!["-r", case.b("tree"), case.near.join("tree")]).exits(1).says(&["No space left"]);
    assert_nothing_half_written(&case.far.join("tree"), &case.near.join("tree"));
}

#[test]
fn no_permission_at_the_destination_is_reported() {
    let Some(case) = case() else { return };
    let shell = case.as_far_nobody();
    make_mixed(&case.near.join("tree"));
    set_mode(&case.far, 0o755);
    case.cp_by(&shell, args!["tree/small", case.b("")]).exits(3).says(&["far/small", "Permission denied"]);
    case.cp_by(&shell, args!["tree/large", case.b("x")]).exits(3).says(&["far/x", "Permission denied"]);
    case.cp_by(&shell, args!["tree/large", case.b("made/")])
        .exits(2)
        .says(&["far/made", "Permission denied"]);
    case.cp_by(&shell, args!["-r", "tree", case.b("")]).exits(3).says(&["far/tree", "Permission denied"]);
    assert_eq!(shape(&case.far).len(), 1);
    // Nobody can tell what is there.
    set_mode(&case.far, 0o700);
    case.cp_by(&shell, args!["tree/small", case.b("x")]).exits(2).says(&["far/x", "Permission denied"]);
}

#[test]
fn a_directory_in_the_way_of_a_file_stays() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    for name in ["small", "large", "link"] {
        write(case.far.join("tree").join(name).join("kept"), "kept");
    }
    let run = case.cp(args!["-r", "tree/.", case.b("tree")]).exits(3);
    run.says(&["tree/small: ", "tree/large: ", "tree/link: ", "a directory of that name is in the way"]);
    for name in ["small", "large", "link"] {
        assert_eq!(fs::read_to_string(case.far.join("tree").join(name).join("kept")).unwrap(), "kept");
        fs::remove_dir_all(case.far.join("tree").join(name)).unwrap();
        fs::remove_file(case.near.join("tree").join(name)).unwrap();
    }
    assert_alike(&case.near.join("tree"), &case.far.join("tree"));
}

#[test]
fn a_link_in_the_way_is_never_followed() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    let outside = case.aside("outside");
    write(outside.join("file"), "kept");
    fs::create_dir(case.far.join("tree")).unwrap();
    // For a file the link is replaced, for a directory it is in the way.
    symlink(outside.join("file"), case.far.join("tree/small")).unwrap();
    symlink(&outside, case.far.join("tree/a")).unwrap();
    let run = case.cp(args!["-r", "tree/.", case.b("tree")]).exits(3);
    run.says(&["tree/a: ", "in the way", "tree/a/b/c/deep: "]);
    assert_eq!(shape(&outside).len(), 2, "nothing was written through the link");
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "kept");
    assert!(case.far.join("tree/small").symlink_metadata().unwrap().is_file());
    assert!(case.far.join("tree/a").symlink_metadata().unwrap().is_symlink());
    assert_eq!(
        fs::read(case.far.join("tree/large")).unwrap(),
        fs::read(case.near.join("tree/large")).unwrap()
    );
}

#[test]
fn an_ssh_that_fails_is_exit_5() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    case.cp(args!["-P", "9", "x", case.b("")])
        .exits(5)
        .says(&["Connection refused", "no agent could be started"]);
    let run = case.cp(args!["-o", "HostKeyAlias=stranger", "x", case.b("")]);
    run.exits(5).says(&["no agent could be started"]);
    case.cp(args!["x", "no-such-host.invalid:x"]).exits(5).says(&["no-such-host.invalid"]);
    case.cp(args!["-i", "/nowhere", "-o", "IdentityFile=none", "-l", "x"]).exits(2);
    case.cp(args!["no-such-host.invalid:x", "."]).exits(5).says(&["no-such-host.invalid"]);
}

#[test]
fn a_far_end_without_linerate_gets_it_unless_that_is_forbidden() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    let shell = case.in_home(&case.aside("home"));
    let run = case.cp_by(&shell, args!["--no-install", "x", case.b("")]).exits(5);
    run.says(&["no linerate of this version", "--no-install"]);
    assert!(!case.aside("home").join("cache").exists(), "nothing was brought");
    case.cp_by(&shell, args!["x", case.b("")]).exits(0).says(&["copying linerate"]);
    let kept = fs::read_dir(case.aside("home").join("cache/linerate")).unwrap().count();
    assert_eq!(kept, 1, "one copy and no remains");
    let modes = [&case.near, &case.far].map(|top| top.join("x").metadata().unwrap().mode());
    assert_eq!(modes[0], modes[1], "what is brought keeps others out, what is copied doesn't");
    let run = case.cp_by(&shell, args!["--no-install", "x", case.b("")]).exits(0);
    assert!(!run.err.contains("copying"), "it is there: {run}");
    assert_eq!(fs::read_to_string(case.far.join("x")).unwrap(), "x");
}

#[test]
fn a_damaged_copy_at_the_far_end_is_not_run() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    let shell = case.in_home(&case.aside("home"));
    case.cp_by(&shell, args!["x", case.b("")]).exits(0);
    let cache = case.aside("home").join("cache/linerate");
    let copy = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    // As a full disk or a power cut may leave it.
    fs::write(&copy, "").unwrap();
    fs::remove_file(case.far.join("x")).unwrap();
    case.cp_by(&shell, args!["x", case.b("")]).exits(0);
    assert_eq!(fs::read_to_string(case.far.join("x")).unwrap(), "x");
}

#[test]
fn a_cache_that_cannot_be_made_is_reported() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    let home = case.aside("home");
    write(home.join("cache"), "a file where the directory should be");
    case.cp_by(&case.in_home(&home), args!["x", case.b("")]).exits(5).says(&["cannot install it in"]);
}

#[test]
fn what_a_login_shell_prints_first_does_no_harm() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    let noise = "echo Welcome; echo; printf '\\033[1mlast login: today\\033[0m\\n'; seq 500; echo oops >&2; exec $SSH \"$1\" \"$2\"";
    case.cp_by(noise, args!["-r", "tree", case.b("tree")]).exits(0);
    case.cp_by(noise, args!["-r", case.b("tree"), "back"]).exits(0);
    assert_alike(&case.near.join("tree"), &case.near.join("back"));
}

#[test]
fn noise_may_end_without_a_new_line() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    // What a start-up file that sets the terminal's title prints.
    let title = "printf '\\033]0;host\\007'; exec $SSH \"$1\" \"$2\"";
    let run = case.start_by(title, args!["x", case.b("")]).end_within(Duration::from_secs(20));
    run.exits(0);
}

#[test]
fn noise_without_end_is_reported() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    let run = case.start_by("yes", args!["x", case.b("")]).end_within(Duration::from_secs(20));
    run.exits(5).says(&["no agent could be started"]);
}

#[test]
fn a_remote_shell_that_cannot_be_run_is_reported() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    case.cp_without_ssh(args!["--rsh", "ssh 'x", "x", case.b("")]).exits(2).says(&["--rsh", "quotes"]);
    case.cp_without_ssh(args!["--rsh", "", "x", case.b("")]).exits(2).says(&["--rsh"]);
    case.cp_without_ssh(args!["--rsh", "/no/such/shell", "x", case.b("")])
        .exits(5)
        .says(&["/no/such/shell", "installed"]);
    case.cp_by("echo no such host >&2; exit 3", args!["x", case.b("")])
        .exits(5)
        .says(&["no such host", "exit status: 3"]);
}

#[test]
fn a_source_that_changes_while_it_is_read_is_exit_4() {
    let Some(case) = case() else { return };
    // Read for four seconds, of which the first one has hardly begun when the tree is there.
    write(case.near.join("tree/grows"), noise(1, 16 << 20));
    write(case.near.join("tree/other"), "whole");
    let running = case.start(args!["-r", "--bwlimit", "4m", "tree", case.b("tree")]);
    assert!(within(PATIENCE, || case.far.join("tree").exists()));
    // Appended: at no moment is it shorter than it was.
    let mut grows = fs::OpenOptions::new().append(true).open(case.near.join("tree/grows")).unwrap();
    grows.write_all(b"x").unwrap();
    running.end().exits(4).says(&["tree/grows", "changed while it was read"]);
    assert_eq!(fs::read_to_string(case.far.join("tree/other")).unwrap(), "whole");
    assert_eq!(temporaries(&case.far).len(), 0);
}

#[test]
fn a_source_whose_time_is_put_back_after_a_change_is_exit_4() {
    let Some(case) = case() else { return };
    let path = case.near.join("tree/quiet");
    write(path.clone(), noise(1, 12 << 20));
    let running = case.start(args!["-r", "--bwlimit", "4m", "tree", case.b("tree")]);
    assert!(within(PATIENCE, || case.far.join("tree").exists()));
    std::thread::sleep(Duration::from_millis(500));
    let quiet = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let modified = quiet.metadata().unwrap().modified().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&quiet, b"other", 11 << 20).unwrap();
    quiet.set_modified(modified).unwrap();
    running.end().exits(4).says(&["tree/quiet", "changed while it was read"]);
}

#[test]
fn a_source_that_shrinks_or_vanishes_is_exit_4_and_not_there() {
    let Some(case) = case() else { return };
    // The tree's own order is the file system's: both are larger than what is read ahead.
    for (number, name) in (1..).zip(["one", "two"]) {
        write(case.far.join("tree").join(name), noise(number, 24 << 20));
    }
    let running = case.start(args!["-r", "--streams", "1", "--bwlimit", "4m", case.b("tree"), "back"]);
    assert!(within(PATIENCE, || !temporaries(&case.near).is_empty()));
    fs::OpenOptions::new().write(true).open(case.far.join("tree/one")).unwrap().set_len(5).unwrap();
    fs::OpenOptions::new().write(true).open(case.far.join("tree/two")).unwrap().set_len(5).unwrap();
    let run = running.end().exits(4).says(&["became shorter"]);
    assert!(!run.err.contains("No such file"), "{run}");
    assert_eq!(temporaries(&case.near).len(), 0);
    for name in ["one", "two"] {
        assert!(!case.near.join("back").join(name).exists(), "{name} is not whole");
    }
}
