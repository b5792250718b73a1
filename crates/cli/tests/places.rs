//! Sources and destinations that a script leaves empty by a variable that isn't set.

mod support;

use std::fs;
use std::path::Path;

use support::{directory, run};

/// Each command with an empty place, run in a directory that `--delete` would clear.
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
