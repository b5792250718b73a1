//! Tests of `--verify` and `--manifest` after an interruption, with hard links, and with files of which only
//! a part is sent.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::process::Signal;

use crate::bed::{Case, args, case};
use crate::killed::{Midway, Way};
use crate::resumed::journal;
use crate::support::{PATIENCE, Run, within};
use crate::tree::{assert_alike, names, noise, temporaries, write};

/// The output of b3sum for all files in `top`, sorted by name.
fn sums(top: &Path) -> String {
    let mut names: Vec<_> = names(top).into_iter().filter(|name| is_file(&top.join(name))).collect();
    names.sort_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
    let sum = |name: &OsString| blake3::hash(&fs::read(top.join(name)).expect("readable"));
    names.iter().map(|name| format!("{}  {}\n", sum(name), name.to_string_lossy())).collect()
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|of| of.is_file())
}

/// Compares the lines of a manifest with those of b3sum, for names without escapes.
#[track_caller]
pub fn assert_listed(manifest: &Path, tree: &Path) {
    let list = fs::read_to_string(manifest).expect("it is written");
    let plain = |text: &str| -> Vec<String> {
        let as_they_are = |line: &&str| !line.starts_with('\\') && !line.contains('\\');
        text.lines().filter(as_they_are).filter(|line| line.is_ascii()).map(str::to_owned).collect()
    };
    assert_eq!(plain(&list), plain(&sums(tree)));
}

/// The number of bytes that the sender sent, from the summary of `--json`.
pub fn sent(run: &Run) -> u64 {
    let last = run.out.lines().last().expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(last).expect("JSON");
    summary["sender"]["stages"]["bytes"].as_u64().expect("a number")
}

/// Kills a copy of which a part has arrived, and completes it with `--verify` and `--manifest`.
fn goes_on_with_proofs(case: &Case, way: Way) {
    let midway = Midway::begin(case, way);
    let (beside, again) = match way {
        Way::Push => (&case.far, args!["--json", "-r", "tree", case.b("to")]),
        Way::Pull => (&case.near, args!["--json", "-r", case.b("tree"), "to"]),
    };
    let lists_partial = |path: std::path::PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(10).any(|part| part == b".linerate.")
    };
    assert!(within(PATIENCE, || journal(beside).is_some_and(lists_partial)));
    midway.running.signal(Signal::KILL);
    let (_, source, destination) = midway.end();
    let run = case.cp([args!["--verify", "--manifest", "list"], again].concat()).exits(0);
    assert_alike(&source, &destination);
    assert_listed(&case.near.join("list"), &source);
    assert_eq!(temporaries(beside), Vec::<OsString>::new(), "left behind");
    let size = |name: &OsString| fs::symlink_metadata(source.join(name)).expect("it is there").len();
    let all: u64 = names(&source).iter().map(size).sum();
    assert!(sent(&run) < all - (4 << 20), "{} of {all} bytes were sent again", sent(&run));
}

#[test]
fn a_push_that_goes_on_is_verified_and_its_manifest_is_complete() {
    let Some(case) = case() else { return };
    goes_on_with_proofs(&case, Way::Push);
}

#[test]
fn a_pull_that_goes_on_is_verified_and_its_manifest_is_complete() {
    let Some(case) = case() else { return };
    goes_on_with_proofs(&case, Way::Pull);
}

/// Makes hard links in pairs, and a large file.
fn make_pairs(tree: &Path) {
    for number in 0..20 {
        let first = tree.join(format!("{number:02}"));
        write(first.clone(), noise(number, 300_000));
        fs::hard_link(&first, tree.join(format!("{number:02}-too"))).expect("it links");
    }
    write(tree.join("large"), noise(99, 40 << 20));
}

#[track_caller]
fn assert_pairs(tree: &Path) {
    for number in 0..20 {
        let inode = |name: String| fs::metadata(tree.join(name)).expect("it is there").ino();
        assert_eq!(inode(format!("{number:02}")), inode(format!("{number:02}-too")));
    }
}

#[test]
fn hard_links_are_in_the_manifest_and_survive_an_interruption() {
    let Some(case) = case() else { return };
    let tree = case.near.join("tree");
    make_pairs(&tree);
    let command = args!["-a", "--streams", "2", "--verify", "--manifest", "list"];
    let push = |more: Vec<OsString>| [command.clone(), more, args!["tree", case.b("to")]].concat();
    let running = case.start(push(args!["--bwlimit", "6m"]));
    let there = || fs::read_dir(case.far.join("to")).map_or(0, Iterator::count);
    assert!(within(PATIENCE, || there() > 5 && journal(&case.far).is_some()));
    std::thread::sleep(std::time::Duration::from_millis(700));
    running.signal(Signal::KILL);
    drop(running.end());
    assert!(!case.near.join("list").exists(), "half a manifest");
    case.cp(push(Vec::new())).exits(0);
    assert_pairs(&case.far.join("to"));
    assert_listed(&case.near.join("list"), &tree);
    case.cp(args!["-a", "--verify", "--manifest", "back.b3", case.b("to"), "back"]).exits(0);
    assert_pairs(&case.near.join("back"));
    assert_listed(&case.near.join("back.b3"), &tree);
}

#[test]
fn a_sync_that_sends_chunks_is_verified_whole() {
    let Some(case) = case() else { return };
    let tree = case.near.join("tree");
    make_pairs(&tree);
    let proven = args!["--json", "--hard-links", "--verify", "--manifest", "list", "tree", case.b("to")];
    case.sync(args!["--hard-links", "tree", case.b("to")]).exits(0);
    let large = fs::OpenOptions::new().write(true).open(tree.join("large")).expect("our own");
    large.write_all_at(b"other", 30 << 20).expect("writable");
    let run = case.sync(proven.clone()).exits(0);
    assert!(sent(&run) < 4 << 20, "{} bytes were sent", sent(&run));
    assert_alike(&tree, &case.far.join("to"));
    assert_pairs(&case.far.join("to"));
    assert_listed(&case.near.join("list"), &tree);
    // What differs though its size and time don't is found, and sent once more.
    for name in ["03", "large"] {
        let path = case.far.join("to").join(name);
        let damaged = fs::OpenOptions::new().write(true).open(&path).expect("our own");
        let modified = damaged.metadata().unwrap().modified().unwrap();
        damaged.write_all_at(b"damaged", 100).expect("writable");
        damaged.set_modified(modified).expect("our own");
    }
    case.sync(proven).exits(0);
    assert_alike(&tree, &case.far.join("to"));
    assert_pairs(&case.far.join("to"));
    assert_listed(&case.near.join("list"), &tree);
}

#[test]
fn what_is_written_into_is_read_back_and_mended_where_it_is() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("to"));
    let sizes = [("small", 5_000), ("middle", 1 << 20), ("large", 20 << 20), ("same", 700_000)];
    for (name, size) in sizes {
        write(here.join(name), noise(size as u64, size));
    }
    case.sync(args!["tree", case.b("to")]).exits(0);
    let inodes = || sizes.map(|(name, _)| there.join(name).metadata().expect("it is there").ino());
    let before = inodes();
    for (name, _) in &sizes[..3] {
        let changed = fs::OpenOptions::new().write(true).open(here.join(name)).expect("our own");
        changed.write_all_at(b"other", 3000).expect("writable");
    }
    let proven = args!["--inplace", "--verify", "--manifest", "list", "tree", case.b("to")];
    case.sync(proven.clone()).exits(0);
    assert_alike(&here, &there);
    assert_listed(&case.near.join("list"), &here);
    for (name, _) in sizes {
        let damaged = fs::OpenOptions::new().write(true).open(there.join(name)).expect("our own");
        let modified = damaged.metadata().unwrap().modified().unwrap();
        damaged.write_all_at(b"damaged", 100).expect("writable");
        damaged.set_modified(modified).expect("our own");
    }
    case.sync(proven).exits(0);
    assert_alike(&here, &there);
    assert_eq!(inodes(), before, "they are the same files still");
}

#[test]
fn what_a_manifest_cannot_name_is_reported_and_counts() {
    let Some(case) = case() else { return };
    write(case.near.join("tree/plain"), "x");
    write(case.near.join("tree").join(OsStr::from_bytes(b"bad\xff")), "y");
    let push = |more: Vec<OsString>| case.cp([more, args!["-r", "tree", case.b("")]].concat());
    push(args!["--manifest", "list"]).exits(3).says(&["bad\\xff", "isn't in the manifest"]);
    assert!(case.far.join("tree").join(OsStr::from_bytes(b"bad\xff")).exists());
    let list = fs::read_to_string(case.near.join("list")).expect("it is written");
    assert_eq!(list, format!("{}  tree/plain\n", blake3::hash(b"x")));
    push(args!["--manifest", "."]).exits(2).says(&["it is a directory"]);
    push(args!["--manifest", "missing/list"]).exits(2).says(&["no such directory"]);
}
