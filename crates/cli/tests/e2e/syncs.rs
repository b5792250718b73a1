//! `linerate sync`: what comes to be there is what rsync would have made, and only what differs has travelled.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::bed::{Case, args, case};
use crate::json::{summary_of, u64_at};
use crate::tree::{make_mixed, noise, set_time, write};

/// What rsync would still change; `None`, and a line that says why, where there is no rsync.
#[track_caller]
fn left_to_rsync(from: &Path, to: &Path, options: &[&str]) -> Option<String> {
    let (mut from, mut to) = (from.as_os_str().to_owned(), to.as_os_str().to_owned());
    from.push("/");
    to.push("/");
    let run =
        Command::new("rsync").args(["-aHAXn", "--checksum", "-i"]).args(options).arg(from).arg(to).output();
    let Ok(run) = run else {
        eprintln!("skipped: rsync, which tells what differs, isn't installed");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(String::from_utf8_lossy(&run.stdout).into_owned())
}

#[track_caller]
fn assert_rsync_finds_nothing(from: &Path, to: &Path, options: &[&str]) {
    if let Some(left) = left_to_rsync(from, to, options) {
        assert_eq!(left, "", "rsync would still do this");
    }
}

/// A number below `below`, another with each call.
fn draw(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % below
}

fn paths(top: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = crate::tree::names(top).into_iter().map(|path| top.join(path)).collect();
    found.sort();
    found
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// Does so many random things to what is below `top`, the same ones for the same `seed`.
fn edit(top: &Path, seed: u64, times: usize) {
    let mut state = seed;
    for number in 0..times {
        let all = paths(top);
        let Some(path) = all.get(draw(&mut state, all.len().max(1))) else { return };
        let meta = path.symlink_metadata().unwrap();
        match draw(&mut state, 9) {
            0 if meta.is_file() => {
                fs::write(path, noise(seed + number as u64, meta.len() as usize / 2 + 7)).unwrap()
            }
            1 if meta.is_file() => set_time(path, Duration::new(1_500_000_000 + number as u64, 123_456_789)),
            2 if !meta.is_symlink() => {
                fs::set_permissions(path, PermissionsExt::from_mode(0o700 | draw(&mut state, 0o100) as u32))
                    .unwrap();
            }
            3 => remove(path),
            4 if meta.is_file() => {
                remove(path);
                write(path.join("now a directory/with a file"), noise(number as u64, 99));
            }
            5 if !meta.is_dir() => {
                remove(path);
                symlink("now a link", path).unwrap();
            }
            6 if !meta.is_dir() => {
                remove(path);
                write(path.clone(), "now a file");
            }
            7 => fs::rename(path, path.with_file_name(format!("renamed {number}"))).unwrap(),
            _ if meta.is_dir() => write(path.join(format!("new {number}")), noise(number as u64, 40_000)),
            _ => {}
        }
    }
}

/// A file for each of the ways in which it can travel.
fn make_tree(top: &Path) {
    make_mixed(top);
    for number in 0..40 {
        write(top.join(format!("many/{}/file {number}", number % 7)), noise(number, 100 * number as usize));
    }
}

#[test]
fn a_tree_follows_its_original_through_random_edits() {
    for seed in 1..=4 {
        let Some(case) = case() else { return };
        let (here, there) = (case.near.join("tree"), case.far.join("copy"));
        make_tree(&here);
        case.sync(args!["tree", case.b("copy")]).exits(0);
        assert_rsync_finds_nothing(&here, &there, &["--delete"]);
        for round in 0..3 {
            edit(&here, seed * 100 + round, 12);
            follow(&case, &here, &there, round % 2 == 0);
        }
    }
}

/// The far tree becomes like the near one by a push, or by a pull of the near one's equal.
fn follow(case: &Case, here: &Path, there: &Path, push: bool) {
    if push {
        case.sync(args!["tree", case.b("copy")]).exits(0);
        return assert_rsync_finds_nothing(here, there, &[]);
    }
    edit(there, 7, 5);
    case.sync(args![case.b("copy"), "tree"]).exits(0);
    assert_rsync_finds_nothing(there, here, &[]);
}

#[test]
fn what_is_there_does_not_travel_again() {
    let Some(case) = case() else { return };
    make_tree(&case.near.join("tree"));
    case.sync(args!["tree", case.b("copy")]).exits(0);
    write(case.near.join("tree/one more"), noise(5, 1000));
    let second = case.sync(args!["--json", "tree", case.b("copy")]).exits(0);
    assert_eq!(u64_at(&summary_of(&second.out), "/sender/stages/bytes"), 1000);
}

#[test]
fn contents_are_compared_where_that_is_asked_for() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    case.sync(args!["tree", case.b("copy")]).exits(0);
    let time = Duration::new(1_600_000_000, 5);
    for (top, text) in [(&here, "one"), (&there, "two")] {
        write(top.join("alike outside"), text);
        set_time(&top.join("alike outside"), time);
    }
    case.sync(args!["tree", case.b("copy")]).exits(0);
    assert_eq!(
        fs::read(there.join("alike outside")).unwrap(),
        b"two",
        "size and time are all that is looked at"
    );
    case.sync(args!["--checksum", "tree", case.b("copy")]).exits(0);
    assert_rsync_finds_nothing(&here, &there, &[]);
}

#[test]
fn a_copy_is_left_alone_where_it_is_newer_or_there_at_all() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    for (top, text) in [(&here, "original"), (&there, "copy")] {
        for (name, here_time, there_time) in [("newer there", 5, 9), ("older there", 9, 5)] {
            write(top.join(name), text);
            let seconds = if top == &here { here_time } else { there_time };
            set_time(&top.join(name), Duration::from_secs(seconds));
        }
    }
    let reads = |name: &str| fs::read_to_string(there.join(name)).unwrap();
    case.sync(args!["--ignore-existing", "tree", case.b("copy")]).exits(0);
    assert_eq!((reads("newer there"), reads("older there")), ("copy".into(), "copy".into()));
    case.sync(args!["--update", "tree", case.b("copy")]).exits(0);
    assert_eq!((reads("newer there"), reads("older there")), ("copy".into(), "original".into()));
    case.sync(args!["tree", case.b("copy")]).exits(0);
    assert_rsync_finds_nothing(&here, &there, &[]);
}
