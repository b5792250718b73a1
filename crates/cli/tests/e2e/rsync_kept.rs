//! Tests that `linerate rsync` keeps and copies what rsync keeps and copies: entries below mount points, listed paths whose
//! parents a rule matches, and the other sources beside one that can't be read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use linerate_testing::has;

use crate::archive::set_time;
use crate::bed::{Case, args, case};
use crate::fleet::chown_all;
use crate::mounts::Mounted;
use crate::rsync_lines::{assert_alike, lines, over_ssh, words};
use crate::rsync_reports::as_nobody;
use crate::support::Run;
use crate::tree::write;

fn rsync(case: &Case, line: &str) -> Run {
    case.start_with(args![case.bed.program(), "rsync"], words(line, "ours")).end()
}

/// The backup of one file system at a time: `-x --delete` from `/` must not delete the backup of `/home`.
#[test]
fn nothing_is_deleted_below_a_mount_point_that_isnt_entered() {
    let Some(case) = case() else { return };
    write(case.near.join("src/etc"), "1");
    fs::create_dir_all(case.near.join("src/home")).unwrap();
    let Some(_home) = Mounted::memory(&case.near.join("src/home"), "1m") else { return };
    let mail = case.near.join("bk/home/al/mail");
    for line in ["-aix --delete src/ bk/", "-aix --delete-before src/ bk/", "-aixR --delete src/./ bk/"] {
        write(mail.clone(), "mail");
        write(case.near.join("bk/old"), "old");
        rsync(&case, line).exits(0);
        assert!(mail.exists() && !case.near.join("bk/old").exists(), "{line}");
    }
    let far = case.far.join("bk/home/al/mail");
    write(far.clone(), "mail");
    over_ssh(&case, "-aix --delete src/ FAR/bk/").exits(0);
    assert!(far.exists() && case.far.join("bk/etc").exists());
}

/// A nightly mirror on a disk that is almost full: yesterday's file must be gone before today's is written.
#[test]
fn deletions_before_the_transfer_free_room_for_it() {
    let Some(case) = case() else { return };
    fs::create_dir_all(case.near.join("src")).unwrap();
    fs::write(case.near.join("src/today"), vec![7; 3 << 20]).unwrap();
    for (top, line) in
        [(&case.near, "-ai --delete-before src/ to/"), (&case.far, "-ai --delete-before src/ FAR/to/")]
    {
        let to = top.join("to");
        fs::create_dir_all(&to).unwrap();
        let Some(_small) = Mounted::memory(&to, "4m") else { return };
        fs::write(to.join("yesterday"), vec![9; 3 << 20]).unwrap();
        let after = line.replace("-before", "");
        over_ssh(&case, &after).exits(11).says(&["No space left", "with --delete-before"]);
        assert!(to.join("yesterday").exists());
        let run = over_ssh(&case, line).exits(0);
        assert!(!to.join("yesterday").exists() && to.join("today").exists());
        let (deleted, sent) = (run.out.find("yesterday"), run.out.find("today"));
        assert!(deleted.is_some() && deleted < sent, "{run}");
    }
}

/// A pass that only deletes, and a second one that transfers, look like one command.
#[test]
fn deletions_before_the_transfer_are_those_of_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for (path, text) in [("a", "a"), ("d/b", "b"), (".rsync-filter", "- keep*"), ("x", "x")] {
        write(case.near.join("src").join(path), text);
    }
    let make = |top: &Path| {
        for (path, text) in
            [("o", "o"), ("keepme", "k"), ("pro", "p"), (".rsync-filter", "- pro"), ("x/y", "y")]
        {
            write(top.join(path), text);
        }
    };
    for line in [
        "-ai --delete-before src/ DST/",
        "-aiF --delete-before src/ DST/",
        "-aiFF --delete-before src/ DST/",
        "-ain --delete-before src/ DST/",
        "-ai --delete-before --delete-excluded --exclude=o src/ DST/",
        "-ai --delete-before --existing src/ DST/",
    ] {
        assert_alike(&case, line, make);
    }
    for line in ["-ai --delete-before src/ DST/", "-ai --delete-before src DST"] {
        assert_alike(&case, line, |_| ());
    }
    // The destination is on another host, and is missing.
    let run = over_ssh(&case, "-ai --delete-before src/ FAR/new/").exits(0);
    assert!(run.out.contains("created directory") && run.out.contains("cd+++++++++ ./"), "{run}");
}

/// The limit counts the deletions of both passes: those of extra entries, and those of entries in the way.
#[test]
fn deletions_before_the_transfer_have_one_limit() {
    let Some(case) = case() else { return };
    write(case.near.join("src/x"), "x");
    for path in ["to/o", "to/pro", "to/x/y"] {
        write(case.near.join(path), path);
    }
    rsync(&case, "-ai --delete-before --max-delete=2 src/ to/").exits(23);
    assert!(case.near.join("to/x/y").exists() && !case.near.join("to/o").exists());
}

/// Both passes read the sources, but the user reads about a closed directory once.
#[test]
fn errors_of_both_passes_are_printed_once() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/a"), "a");
    let closed = case.near.join("src/closed");
    fs::create_dir_all(&closed).unwrap();
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o0)).unwrap();
    for to in ["ours", "theirs"] {
        write(case.near.join(to).join("old"), "old");
    }
    chown_all(&case.near);
    let [ours, theirs] = as_nobody(&case, "-ai --delete-before src/ DST/").map(|run| run.exits(23));
    assert_eq!(ours.err.matches("/closed").count(), 1, "{ours}");
    assert_eq!(lines(&ours.out), lines(&theirs.out));
}

#[test]
fn rules_do_not_see_the_directories_above_listed_paths() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for top in [&case.near, &case.far] {
        for path in ["src/var/log/app/f", "src/var/log/app/log/g", "src/var/log/other", "src/top"] {
            write(top.join(path), path);
        }
        write(top.join("list"), "var/log/app/f\ntop\nvar/log/app/log\n");
    }
    for line in [
        "-aiR --exclude=log src/./var/log/app src/./top DST",
        "-ai --exclude=/var/ --files-from=list src DST",
        "-air --exclude=log --files-from=list src DST",
        "-aiR --include=app --exclude=* src/./var/log/app DST",
    ] {
        assert_alike(&case, line, |_| ());
    }
    let file = Path::new("var/log/app/f");
    for line in [
        "-ai --exclude=/var/ --files-from=list src FAR/to",
        "-ai --exclude=/var/ --files-from=list FAR/src to",
    ] {
        over_ssh(&case, line).exits(0);
    }
    assert!(case.far.join("to").join(file).exists() && case.near.join("to").join(file).exists());
}

/// A line such as `#recycle` is a comment if the list is on the sources' host, and otherwise a name.
#[test]
fn lists_of_another_host_have_no_comments() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for top in [&case.near, &case.far] {
        for name in ["#recycle/f", ";b", "c", "d"] {
            write(top.join("src").join(name), name);
        }
        write(top.join("list"), "#recycle/f\n;b\nc\nd\n");
    }
    assert_alike(&case, "-ai --files-from=list src DST", |_| ());
    for (line, to) in [
        ("-ai --files-from=list FAR/src one", case.near.join("one")),
        ("-ai --files-from=FAR/list src FAR/two", case.far.join("two")),
    ] {
        over_ssh(&case, line).exits(0);
        assert!(to.join("#recycle/f").exists() && to.join(";b").exists(), "{line}");
    }
    for (line, to) in [
        ("-ai --files-from=FAR/list FAR/src three", case.near.join("three")),
        ("-ai --files-from=list src FAR/four", case.far.join("four")),
    ] {
        over_ssh(&case, line).exits(0);
        assert!(!to.join("#recycle").exists() && !to.join(";b").exists() && to.join("c").exists(), "{line}");
    }
}

/// One private home among many.
#[test]
fn a_source_that_cannot_be_read_leaves_the_others_whole() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for home in ["alice", "bob", "eve"] {
        write(case.near.join("homes").join(home).join("f"), home);
    }
    for to in ["ours", "theirs"] {
        fs::create_dir(case.near.join(to)).unwrap();
    }
    chown_all(&case.near);
    fs::set_permissions(case.near.join("homes/alice"), PermissionsExt::from_mode(0o0)).unwrap();
    let [ours, theirs] =
        as_nobody(&case, "-ai homes/alice homes/bob homes/eve DST/").map(|run| run.exits(23));
    let modes = |to: &str| {
        let of = |name: &str| {
            fs::metadata(case.near.join(to).join(name)).map(|found| found.permissions().mode()).ok()
        };
        ["alice", "bob", "eve"].map(of)
    };
    assert_eq!(modes("ours"), modes("theirs"), "{ours}\n{theirs}");
    assert!(case.near.join("ours/eve/f").exists(), "{ours}");
}

/// A directory of another user at the destination: its contents can't be written, and everything else is copied.
#[test]
fn a_closed_directory_of_another_user_does_not_end_the_copy() {
    let Some(case) = case() else { return };
    write(case.near.join("src/a/f"), "1");
    write(case.near.join("src/g"), "2");
    fs::create_dir_all(case.near.join("ours/a")).unwrap();
    chown_all(&case.near);
    chown(case.near.join("ours/a"), Some(0), Some(0)).unwrap();
    fs::set_permissions(case.near.join("ours/a"), PermissionsExt::from_mode(0o700)).unwrap();
    let [run, _] = as_nobody(&case, "-ai src/ DST/");
    let run = run.exits(23);
    assert!(case.near.join("ours/g").exists() && !run.err.contains("trusted"), "{run}");
}

#[test]
fn an_update_compares_whole_seconds() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/f"), "new");
    set_time(&case.near.join("src/f"), 1_500_000_000, 100_000_000);
    for (line, prepare) in [
        ("-aiu src/ DST/", (|top| older(top, 1_500_000_000)) as fn(&Path)),
        ("-aiu src/ DST/", |top| older(top, 1_500_000_001)),
    ] {
        assert_alike(&case, line, prepare);
    }
}

fn older(top: &Path, seconds: i64) {
    write(top.join("f"), "older");
    set_time(&top.join("f"), seconds, 900_000_000);
}

/// Compares the codes and lines of both programs, which an ordinary user runs.
fn alike_as_nobody(case: &Case, line: &str) {
    let [ours, theirs] = as_nobody(case, line);
    assert_eq!(ours.code, theirs.code, "{line}: {ours}\n{theirs}");
    assert_eq!(lines(&ours.out), lines(&theirs.out), "{line}: {ours}\n{theirs}");
}

/// As Go's module cache: directories that even their owner may not write into.
#[test]
fn what_is_in_a_directory_without_write_permission_is_deleted() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/m/v2"), "2");
    for to in ["ours", "theirs"] {
        write(case.near.join(to).join("m/v1/f"), "1");
        write(case.near.join(to).join("m/v2"), "2");
    }
    chown_all(&case.near);
    for top in ["src", "ours", "theirs"] {
        let inner = case.near.join(top).join("m");
        set_time(&inner.join("v2"), 1_500_000_000, 0);
        set_time(&inner, 1_500_000_000, 0);
        fs::set_permissions(&inner, PermissionsExt::from_mode(0o555)).unwrap();
    }
    alike_as_nobody(&case, "-ai --delete src/m DST");
    let inner = case.near.join("ours/m");
    assert!(!inner.join("v1").exists() && inner.join("v2").exists());
    assert_eq!(fs::metadata(inner).unwrap().permissions().mode() & 0o777, 0o555);
}

/// Only root can make devices, so that an ordinary user's `-a` means everything else.
#[test]
fn an_ordinary_users_devices_are_skipped() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/f"), "1");
    let device = case.near.join("src/null");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &device,
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::from_raw_mode(0o666),
        rustix::fs::makedev(1, 3),
    )
    .unwrap();
    for to in ["ours", "theirs"] {
        fs::create_dir(case.near.join(to)).unwrap();
    }
    chown_all(&case.near);
    alike_as_nobody(&case, "-ai src/ DST");
    assert!(case.near.join("ours/f").exists());
}
