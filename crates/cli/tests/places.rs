//! Tests of paths that are empty because a script's variable isn't set, and of backup directories that are,
//! or are inside, the destination.

mod support;

use std::fs;
use std::path::Path;

use support::{directory, run};

/// Command lines with an empty path. They are run in a directory that `--delete` would clear.
const LINES: [&[&str]; 12] = [
    &["sync", "--delete", "../src/", ""],
    &["sync", "--delete", "", "../src"],
    &["sync", "--delete", "host:src", ""],
    &["sync", "-n", "--delete", "../src/", ""],
    &["cp", "-r", "../src", ""],
    &["cp", "-r", "../src", "--to", ""],
    &["verify", "../src", ""],
    &["verify", "", "../src"],
    &["clean", ""],
    &["rsync", "-a", "--delete", "../src/", ""],
    &["scp", "-r", "../src", ""],
    &["fleet", "plan", "--shards", "1", "--into", "../plan", "../src", ""],
];

fn names(here: &Path) -> Vec<String> {
    let entries = fs::read_dir(here).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Makes an empty source `src` and an empty destination `dst`.
fn with_both() -> tempfile::TempDir {
    let here = directory("linerate-places-");
    for name in ["src", "dst"] {
        fs::create_dir(here.path().join(name)).unwrap();
    }
    here
}

#[test]
fn an_empty_place_is_refused_and_is_not_the_working_directory() {
    let above = directory("linerate-places-");
    let here = above.path().join("here");
    for name in ["here", "src"] {
        fs::create_dir(above.path().join(name)).unwrap();
    }
    fs::write(above.path().join("src/file"), "new").unwrap();
    fs::write(here.join("kept"), "old").unwrap();
    for words in LINES {
        let code = if ["rsync", "scp"].contains(&words[0]) { 1 } else { 2 };
        run(&here, words).exits(code).says(&["empty"]);
        assert_eq!(names(&here), ["kept"], "{words:?}");
    }
}

#[test]
fn a_source_below_the_working_directory_is_not_cleared_with_it() {
    let here = directory("linerate-places-");
    fs::create_dir(here.path().join("src")).unwrap();
    fs::write(here.path().join("src/file"), "x").unwrap();
    for place in [".", "./"] {
        run(here.path(), &["sync", "--delete", "src", place]).exits(2).says(&["--delete would clear"]);
    }
    assert_eq!(names(here.path()), ["src"]);
}

#[test]
fn a_destination_whose_host_is_empty_does_not_stay_on_this_host() {
    let here = directory("linerate-places-");
    fs::create_dir(here.path().join("src")).unwrap();
    for words in [
        &["sync", "src/", ":copy"][..],
        &["sync", "--delete", "src/", ":"],
        &["cp", "-r", "src", ":copy"],
        &["verify", "src", ":copy"],
        &["rsync", "-a", "src/", ":copy"],
        &["fleet", "plan", "--shards", "1", "--into", "plan", "src", ":copy"],
    ] {
        let code = if words[0] == "rsync" { 1 } else { 2 };
        run(here.path(), words).exits(code).says(&["is empty; write ./:"]);
        assert_eq!(names(here.path()), ["src"], "{words:?}");
    }
    run(here.path(), &["sync", "src/", "./:copy"]).exits(0);
    assert!(here.path().join(":copy").is_dir());
}

#[test]
fn a_far_place_without_a_path_is_not_cleared_nor_mirrored() {
    let above = directory("linerate-places-");
    let login = above.path().join("login");
    for name in ["login", "src", "dst"] {
        fs::create_dir(above.path().join(name)).unwrap();
    }
    fs::write(login.join("kept"), "of the home").unwrap();
    fs::write(above.path().join("src/file"), "new").unwrap();
    fs::write(above.path().join("dst/old"), "old").unwrap();
    fs::write(above.path().join("hosts"), "far:\n").unwrap();
    let script = format!("#!/bin/sh\nshift\ncd '{}'\nexec sh -c \"$*\"\n", login.display());
    linerate_testing::write_script(&above.path().join("rsh"), &script);
    let rsh = above.path().join("rsh").display().to_string();
    let far = ["--rsh", &rsh, "--agent-command", env!("CARGO_BIN_EXE_linerate")];
    let sync = |words: &[&str]| run(above.path(), &[&["sync"], &far[..], words].concat());
    for words in [
        &["--delete", "src", "far:"][..],
        &["-n", "--delete", "src", "me@far:"],
        &["--delete", "src", "--to", "far:"],
        &["--delete", "src", "--to", "other:copy", "--to", "far:"],
        &["--delete", "src", "--to-file", "hosts"],
        &["--delete", "far:", "dst"],
        &["--delete", "far:login", "far:", "dst"],
        &["--remove-source-files", "far:", "dst"],
    ] {
        sync(words).exits(2).says(&["far:' has no path", "far:.'"]);
        let found = [&login, &above.path().join("dst")].map(|directory| names(directory).join(" "));
        assert_eq!(found, ["kept", "old"], "{words:?}");
    }
    sync(&["src", "far:"]).exits(0);
    assert!(login.join("kept").exists() && login.join("file").exists());
    sync(&["--delete", "src", "far:."]).exits(0);
    assert_eq!(names(&login), ["file"]);
}

#[test]
fn a_backup_directory_that_is_the_destination_loses_nothing() {
    let here = directory("linerate-places-");
    for name in ["src", "dst", "dst/sub"] {
        fs::create_dir(here.path().join(name)).unwrap();
    }
    fs::write(here.path().join("src/file"), "newer").unwrap();
    fs::write(here.path().join("dst/file"), "old").unwrap();
    fs::write(here.path().join("dst/kept"), "old").unwrap();
    std::os::unix::fs::symlink("dst", here.path().join("link")).unwrap();
    let absolute = here.path().join("dst").display().to_string();
    for directory in ["", ".", "./", "sub/..", "../dst", "../link", &absolute] {
        for (command, more, code) in [("sync", &[][..], 2), ("sync", &["-n"], 2), ("rsync", &["-a", "-b"], 3)]
        {
            let words = [&[command][..], more, &["--delete", "--backup-dir", directory, "src/", "dst"]];
            run(here.path(), &words.concat()).exits(code).says(&["is the destination itself"]);
            assert_eq!(fs::read(here.path().join("dst/file")).unwrap(), b"old", "{directory} {command}");
            assert!(here.path().join("dst/kept").exists(), "{directory} {command}");
        }
    }
    let suffixed = ["sync", "--backup-dir", ".", "--suffix", "~", "src/", "dst"];
    run(here.path(), &suffixed).exits(0);
    assert_eq!(fs::read(here.path().join("dst/file~")).unwrap(), b"old");
}

#[test]
fn a_file_in_place_of_the_backup_directory_is_reported_and_nothing_is_changed() {
    let here = with_both();
    fs::write(here.path().join("src/file"), "newer").unwrap();
    for name in ["a", "file", "kept"] {
        fs::write(here.path().join("dst").join(name), "old").unwrap();
    }
    std::os::unix::fs::symlink("a", here.path().join("dst/link")).unwrap();
    let unchanged = || {
        let mut found = names(&here.path().join("dst"));
        found.sort();
        assert_eq!(found, ["a", "file", "kept", "link"]);
        assert_eq!(fs::read(here.path().join("dst/file")).unwrap(), b"old");
    };
    for backups in ["a", "link"] {
        let words = ["--delete", "-b", "--backup-dir", backups, "src/", "dst"];
        for (command, code) in [(&["sync"][..], 2), (&["sync", "-n"], 2), (&["rsync", "-a"], 1)] {
            let refused = run(here.path(), &[command, &words].concat()).exits(code);
            refused.says(&["The backup-dir is not a directory", backups]);
            unchanged();
        }
    }
    // What can't be kept stays, and isn't counted.
    let words = ["sync", "--delete", "-b", "--backup-dir", "a/below", "src/", "dst"];
    let reported =
        ["keeping a backup", "kept: deleting failed: ", "for backups can be created", "0 files of "];
    let ended = run(here.path(), &words).exits(3).says(&reported);
    assert!(!ended.err.contains("deleted"), "{ended}");
    unchanged();
}

#[test]
fn a_backup_directory_in_the_destination_is_no_extra_entry() {
    let here = with_both();
    for backups in ["bak", "./other/below"] {
        fs::write(here.path().join("dst/kept"), "old").unwrap();
        for round in 0..3 {
            fs::write(here.path().join("src/file"), format!("{backups} {round}")).unwrap();
            run(here.path(), &["sync", "--checksum", "--delete", "--backup-dir", backups, "src/", "dst"])
                .exits(0);
        }
        let kept = here.path().join("dst").join(backups);
        assert_eq!(fs::read(kept.join("kept")).unwrap(), b"old");
        assert_eq!(fs::read(kept.join("file")).unwrap(), format!("{backups} 1").as_bytes());
        fs::remove_dir_all(kept).unwrap();
    }
}

#[test]
fn backups_in_a_directory_that_the_source_has_too_stay_where_they_are() {
    let here = directory("linerate-places-");
    let path = |name: &str| here.path().join(name);
    for name in ["src/sub/below", "dst/gone"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    fs::write(path("src/sub/below/own"), "new").unwrap();
    fs::write(path("dst/extra"), "old").unwrap();
    fs::write(path("dst/gone/extra"), "old").unwrap();
    for (command, deleted) in [(&["sync", "-v"][..], 3), (&["rsync", "-a"], 0), (&["sync"], 0)] {
        let words = [command, &["--delete", "-b", "--backup-dir", "sub", "src/", "dst"]].concat();
        let ended = run(here.path(), &words).exits(0);
        assert_eq!(ended.err.contains(&format!("{deleted} entries deleted")), deleted > 0, "{ended}");
        assert_eq!(names(&path("dst")), ["sub"], "{ended}");
        assert_eq!(fs::read(path("dst/sub/below/own")).unwrap(), b"new");
        for name in ["dst/sub/extra", "dst/sub/gone/extra"] {
            assert_eq!(fs::read(path(name)).unwrap(), b"old", "{ended}");
        }
    }
    // A file can't take the directory's name.
    fs::remove_dir_all(path("src/sub")).unwrap();
    fs::write(path("src/sub"), "a file").unwrap();
    for _ in 0..2 {
        let words = ["sync", "--delete", "-b", "--backup-dir", "sub", "src/", "dst"];
        run(here.path(), &words).exits(3).says(&["the directory for backups is in the way"]);
        assert_eq!(fs::read(path("dst/sub/extra")).unwrap(), b"old");
    }
}

#[test]
fn an_empty_value_that_rsync_refuses_is_refused() {
    let here = with_both();
    fs::write(here.path().join("src/file"), "new").unwrap();
    for (option, says) in [
        ("--temp-dir=", "The temp-dir does not exist: "),
        ("--suffix=", "--suffix cannot be empty without a --backup-dir"),
        ("--suffix=/x", "--suffix cannot contain slashes: /x"),
    ] {
        run(here.path(), &["rsync", "-a", option, "src/", "dst/"]).exits(1).says(&[says]);
        run(here.path(), &["rsync", "-ab", option, "src/", "dst/"]).exits(1).says(&[says]);
    }
    assert!(names(&here.path().join("dst")).is_empty());
    run(here.path(), &["rsync", "-ab", "--suffix=", "--backup-dir=bak", "src/", "dst/"]).exits(0);
}

#[test]
fn another_tree_that_is_not_there_is_reported_and_the_run_goes_on() {
    let here = directory("linerate-places-");
    fs::create_dir(here.path().join("src")).unwrap();
    for name in ["src/file", "no-tree"] {
        fs::write(here.path().join(name), "new").unwrap();
    }
    for option in ["--link-dest", "--copy-dest", "--compare-dest"] {
        for (tree, says) in
            [("../missing", "there is no such directory"), ("../no-tree", "it isn't a directory")]
        {
            for (number, command) in
                [&["sync"][..], &["rsync", "-a"], &["sync", "-q"]].into_iter().enumerate()
            {
                let copy = format!("{}{number}", &option[2..]);
                let words = [command, &[option, tree, "src/", &copy]].concat();
                run(here.path(), &words).exits(0).says(&[&tree[3..], &format!("{option}: {says}")]);
                assert_eq!(names(&here.path().join(&copy)), ["file"]);
                let there =
                    run(here.path(), &[command, &[option, "../src", "src/", &copy]].concat()).exits(0);
                assert!(!there.err.contains(option), "{there}");
            }
        }
    }
}

#[test]
fn a_job_without_a_program_or_an_image_is_not_printed() {
    let here = directory("linerate-places-");
    fs::create_dir(here.path().join("src")).unwrap();
    run(here.path(), &["fleet", "plan", "--shards", "1", "--into", "plan", "src", "dst"]).exits(0);
    for words in [
        &["export", "--for", "gnu-parallel", "--program", ""][..],
        &["export", "--for", "slurm", "--program", ""],
        &["export", "--for", "k8s-job", "--image", ""],
        &["submit", "--program", ""],
    ] {
        let refused = run(here.path(), &[&["fleet"], words, &["plan"]].concat()).exits(2);
        refused.says(&[words[words.len() - 2], "a value is required"]);
    }
}
