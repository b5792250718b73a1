//! Tests that `linerate rsync` deletes, replaces and sends no more than rsync does: beside sources that can't be entered,
//! with backups, with several names of a file, and with other trees that have a file already.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use linerate_testing::has;

use crate::archive::set_time;
use crate::bed::{args, case};
use crate::fleet::chown_all;
use crate::rsync_lines::{assert_alike, over_ssh, words};
use crate::rsync_reports::as_nobody;
use crate::tree::{noise, write};

/// A second disk that isn't mounted must not cost its copies.
#[test]
fn nothing_is_deleted_if_a_source_cannot_be_entered() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for top in [&case.near, &case.far] {
        write(top.join("src/f"), "f");
        write(top.join("dir/f"), "f");
    }
    let make = |top: &Path| write(top.join("b/copy"), "precious");
    for line in [
        "-a --delete src/ nope/ DST/",
        "-a --delete src/ nope/x DST/",
        "-a --delete src/ src/f/ DST/",
        "-aR --delete src/./ nope/./ DST/",
        "-a --delete-after src/ nope/. DST/",
        "-a --delete --ignore-missing-args src/ nope/ DST/",
        "-a --delete --ignore-missing-args nope/ dir DST/",
        // In these cases rsync deletes.
        "-a --delete src/ nope DST/",
        "-a --delete src/ dir/nope DST/",
        "-a --delete --ignore-missing-args src/ nope DST/",
    ] {
        assert_alike(&case, line, make);
    }
    for (line, top) in
        [("-a --delete src/ nope/ FAR/to/", &case.far), ("-a --delete FAR/src/ FAR/nope/ to/", &case.near)]
    {
        make(&top.join("to"));
        over_ssh(&case, line).exits(23);
        assert!(top.join("to/b/copy").exists() && top.join("to/f").exists(), "{line}");
    }
}

#[test]
fn a_missing_source_is_an_error_even_if_the_rules_leave_out_the_others() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/f"), "f");
    for line in ["-ai --exclude=f src/f src/nope DST/", "-ai --exclude=src src nope DST/"] {
        assert_alike(&case, line, |top| fs::create_dir(top).unwrap());
    }
}

#[test]
fn a_backup_outlives_the_run_that_made_it() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/f"), "new");
    let make = |top: &Path| {
        for name in ["f", "extra", "extra~", "sub/deep"] {
            write(top.join(name), format!("the old {name}"));
        }
    };
    for line in [
        "-ab --delete-excluded src/ DST/",
        "-ab --delete --suffix=.old --filter=R_*.old src/ DST/",
        "-ab --delete src/ DST/",
    ] {
        assert_alike(&case, line, make);
    }
}

/// Limits of size hold for each name of a file.
#[test]
fn further_names_of_a_file_of_the_wrong_size_are_left_out() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/b"), noise(1, 5000));
    fs::hard_link(case.near.join("src/b"), case.near.join("src/c")).unwrap();
    fs::hard_link(case.near.join("src/b"), case.near.join("src/a")).unwrap();
    for line in ["-aHi --max-size=10 src/ DST/", "-aHii --min-size=10k src/ DST/", "-aH src/ DST/"] {
        assert_alike(&case, line, |_| ());
        assert_alike(&case, line, |top| write(top.join("c"), "another"));
    }
}

/// A new name that sorts before the existing one costs a link, and not the file.
#[test]
fn a_further_name_that_exists_is_linked_to_and_not_replaced() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let src = case.near.join("src");
    write(src.join("z"), noise(1, 300_000));
    set_time(&src.join("z"), 1_000_000_000, 5);
    let make = |top: &Path| {
        write(top.join("z"), noise(1, 300_000));
        set_time(&top.join("z"), 1_000_000_000, 5);
    };
    make(&case.near.join("last"));
    for name in ["a", "b"] {
        fs::hard_link(src.join("z"), src.join(name)).unwrap();
    }
    // The names are the same, but rsync states `b => z`, and linerate `b => a`.
    for line in ["-aH --stats src/ DST/", "-aH --link-dest=../last src/ DST/"] {
        assert_alike(&case, line, make);
        assert_alike(&case, line, |_| ());
    }
    make(&case.near.join("to"));
    let line = words("-aHi --stats src/ to/", "to");
    let run = case.start_with(args![case.bed.program(), "rsync"], line).end().exits(0);
    assert!(run.out.contains("hf+++++++++ a => z") && run.out.contains("Literal data: 0 bytes"), "{run}");
}

/// Since rsync 3.1, a file that exists is replaced by a link to the other tree's file, if that one is right.
#[test]
fn other_trees_count_for_files_that_exist_too() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let make = |top: &Path| {
        for (name, text) in [("same", "same"), ("other", "its contents")] {
            write(top.join(name), text);
            set_time(&top.join(name), 1_000_000_000, 5);
        }
    };
    make(&case.near.join("src"));
    make(&case.near.join("last"));
    let older = |top: &Path| {
        write(top.join("same"), "same");
        set_time(&top.join("same"), 1_000_000_000, 5);
        write(top.join("other"), "before");
    };
    for line in [
        "-ai --link-dest=../last src/ DST/",
        "-aii --link-dest=../last src/ DST/",
        "-ain --link-dest=../last src/ DST/",
        "-aii --compare-dest=../last src/ DST/",
        "-aiin --compare-dest=../last src/ DST/",
        "-aii --copy-dest=../last src/ DST/",
        "-ai --link-dest=../last --existing --ignore-times src/ DST/",
    ] {
        assert_alike(&case, line, older);
        assert_alike(&case, line, make);
    }
}

#[test]
fn the_size_alone_decides_even_if_times_are_ignored() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/f"), "f");
    assert_alike(&case, "-ai -I --size-only src/ DST/", |top| write(top.join("f"), "g"));
}

#[test]
fn a_source_that_cannot_be_entered_leaves_the_destination_as_it_is() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for name in ["closed", "ours", "theirs"] {
        fs::create_dir_all(case.near.join(name)).unwrap();
    }
    fs::set_permissions(case.near.join("closed"), PermissionsExt::from_mode(0o0)).unwrap();
    chown_all(&case.near);
    for run in as_nobody(&case, "-a closed/ DST") {
        run.exits(23);
    }
    for name in ["ours", "theirs"] {
        let mode = case.near.join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{name}");
    }
}

/// A log that grows while it is copied is no error, as with rsync.
#[test]
fn a_file_that_grows_is_copied_without_an_error() {
    let Some(case) = case() else { return };
    let log = case.near.join("src/log");
    write(log.clone(), noise(1, 6_000_000));
    let line = words("-a --bwlimit=3m src/ to/", "to");
    let run = case.start_with(args![case.bed.program(), "rsync"], line);
    std::thread::sleep(std::time::Duration::from_millis(700));
    fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"more\n").unwrap();
    run.end().exits(0);
    assert!(case.near.join("to/log").metadata().unwrap().len() >= 6_000_000);
}

/// A file keeps all its names, even if links or several sources lead to one of them again.
#[test]
fn names_that_are_found_twice_do_not_tear_a_file_apart() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let src = case.near.join("src");
    write(src.join("dir/f"), "f");
    fs::hard_link(src.join("dir/f"), src.join("g")).unwrap();
    fs::hard_link(src.join("dir/f"), src.join("dir/h")).unwrap();
    for (link, target) in [("a", "dir"), ("l", "g"), ("dir/m", "f")] {
        std::os::unix::fs::symlink(target, src.join(link)).unwrap();
    }
    for line in
        ["-aHL src/ DST/", "-aHk src/ DST/", "-aH src/dir src DST/", "-aH src/ src/ DST/", "-aH src/ DST/"]
    {
        assert_alike(&case, line, |_| ());
    }
    let line = words("-aHiL src/ ours/", "to");
    let rsync = args![case.bed.program(), "rsync"];
    case.start_with(rsync.clone(), words("-aHL src/ ours/", "to")).end().exits(0);
    assert_eq!(case.start_with(rsync, line).end().exits(0).out, "", "nothing remains to be linked");
}

#[test]
fn links_that_were_sent_as_links_are_removed_as_links() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for [program, to] in [["ours", "ours"], ["rsync", "theirs"]] {
        let src = case.near.join("src");
        write(src.join("f"), "f");
        fs::create_dir_all(src.join("dir")).unwrap();
        for (link, target) in [("l", "f"), ("d", "dir"), ("n", "nothing")] {
            std::os::unix::fs::symlink(target, src.join(link)).unwrap();
        }
        let program = if program == "ours" { args![case.bed.program(), "rsync"] } else { args![program] };
        case.start_with(program, words("-ak --remove-source-files src/ DST/", to)).end().exits(0);
        let left: Vec<_> = fs::read_dir(&src).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "dir" || name == "d"), "{left:?}");
        let _ = fs::remove_dir_all(&src);
    }
}

/// A directory of another's name isn't left out without a word.
#[test]
fn contents_that_an_existing_file_keeps_out_are_an_error() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/dir/f"), "f");
    let make = |top: &Path| write(top.join("dir"), "in the way");
    assert_alike(&case, "-a --ignore-existing src/ DST/", make);
    fs::create_dir_all(case.near.join("empty/dir")).unwrap();
    assert_alike(&case, "-a --ignore-existing empty/ DST/", make);
}

#[test]
fn a_directory_that_stays_keeps_its_mode() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    fs::create_dir_all(case.near.join("src")).unwrap();
    let make = |top: &Path| {
        write(top.join("closed/f"), "f");
        fs::set_permissions(top.join("closed"), PermissionsExt::from_mode(0o555)).unwrap();
    };
    for line in ["-ab --delete src/ DST/", "-a --delete --backup-dir=kept src/ DST/"] {
        assert_alike(&case, line, make);
    }
}

/// `linerate sync a z/a d` would mix the two; `linerate cp` refuses this too.
#[test]
fn sync_refuses_two_sources_of_one_name() {
    let Some(case) = case() else { return };
    for path in ["a/f", "z/a/f"] {
        write(case.near.join(path), path);
    }
    case.sync(args!["--delete", "a", "z/a", "to"]).exits(2).says(&["both named 'a'", "one by one"]);
}
