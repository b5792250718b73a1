//! Tests of changed large files: data that moved within a file is found, so that only new bytes are sent,
//! regardless of errors during the copy.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use linerate_testing::has;
use rustix::process::Signal;

use crate::archive::set_time;
use crate::bed::{Case, args, case};
use crate::json::{summary_of, u64_at};
use crate::support::{PATIENCE, within};
use crate::tree::{noise, temporaries, write};

const MIB: usize = 1 << 20;
/// The size of an older version in bytes; its last block is incomplete.
const OLDER: usize = 11 * MIB + 12_345;

/// The number of literal bytes that a sync of `tree` to `copy` sends.
fn sent(case: &Case, options: &[&str]) -> usize {
    let mut words = args!["--json"];
    words.extend(options.iter().map(Into::into));
    words.extend(args!["tree", case.b("copy")]);
    let summary = summary_of(&case.sync(words).exits(0).out);
    let landed = fs::read(case.far.join("copy/large")).unwrap();
    assert!(landed == fs::read(case.near.join("tree/large")).unwrap(), "it isn't what the source is");
    assert_eq!(temporaries(&case.far), Vec::<OsString>::new());
    u64_at(&summary, "/sender/stages/bytes") as usize
}

/// New versions of `older`: for each, a name, the contents, and how many bytes are new.
fn versions(older: &[u8]) -> Vec<(&'static str, Vec<u8>, usize)> {
    let new = noise(11, MIB);
    let (front, back) = older.split_at(4 * MIB + 12_345);
    let mut scattered = older.to_vec();
    (0..10).for_each(|number| scattered[number * MIB + 4321] ^= 1);
    vec![
        ("inserted at the front", [&new[..100_000], older].concat(), 100_000),
        ("inserted within", [front, &new[..1], back].concat(), 1),
        ("removed at the front", older[77_777..].to_vec(), 0),
        ("pieces moved", [back, front].concat(), 0),
        ("pieces twice", [front, back, front].concat(), 0),
        ("scattered", scattered, 10),
        ("appended", [older, &new[..70_000]].concat(), 70_000),
        ("all new", noise(99, 12 * MIB), 12 * MIB),
        ("zeros", vec![0; 12 * MIB], 12 * MIB),
    ]
}

#[test]
fn of_a_large_file_only_the_bytes_travel_that_are_new() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree/large"), case.far.join("copy/large"));
    let older = noise(3, OLDER);
    let block = 8 << 10;
    for (what, newer, new) in versions(&older) {
        for options in [
            &["--no-whole-file"][..],
            &["--no-whole-file", "--verify"],
            &["--no-whole-file", "--streams", "4"],
        ] {
            write(there.clone(), &older);
            write(here.clone(), &newer);
            let (sent, most) = (sent(&case, options), new + 2 * block * (new.min(10) + 2));
            assert!(sent <= most, "{what} {options:?}: {sent} of {} bytes, {most} at most", newer.len());
        }
    }
    write(there, &older);
    write(here, [b"x", &older[..]].concat());
    assert!(sent(&case, &["--whole-file"]) > 11 * MIB);
}

/// Within one host, data is compared only if the options ask for it, as with rsync; the tree and the totals
/// must be equal to rsync's.
#[test]
fn lines_that_ask_for_it_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let older = noise(3, OLDER);
    for (round, (what, newer, _)) in (1..).zip(versions(&older).into_iter().take(3)) {
        write(case.near.join("src/large"), &newer);
        write(case.near.join("src/small"), "small");
        // What has the size and the second of what is there isn't sent.
        for file in ["large", "small"] {
            set_time(&case.near.join("src").join(file), round * 1_000_000, 0);
        }
        let run = |program: Vec<OsString>, to: &str| {
            write(case.near.join(to).join("large"), &older);
            let line = args!["-a", "--stats", "--no-whole-file", "src/", format!("{to}/")];
            let out = case.start_with(program, line).end().exits(0).out;
            for file in ["large", "small"] {
                let [here, there] = ["src", to].map(|top| fs::read(case.near.join(top).join(file)).unwrap());
                assert!(here == there, "{what}: {file}");
            }
            out
        };
        let theirs = run(args!["rsync"], "theirs");
        let ours = run(args![case.bed.program(), "rsync"], "ours");
        let of = |out: &str, name: &str| {
            let line = out.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.replace([',', ':'], "").split_whitespace().next().unwrap().parse::<usize>().unwrap()
        };
        let size = "Total transferred file size";
        assert_eq!(of(&ours, size), of(&theirs, size), "{what}");
        for out in [&ours, &theirs] {
            assert_eq!(of(out, "Literal data") + of(out, "Matched data"), newer.len() + 5, "{out}");
        }
        let literal = [&ours, &theirs].map(|out| of(out, "Literal data"));
        assert!(literal[0] <= literal[1] + (64 << 10), "{what}: {literal:?}");
    }
}

#[test]
fn a_file_comes_from_the_far_host_as_it_goes_there() {
    let Some(case) = case() else { return };
    let older = noise(3, 23 * MIB);
    write(case.near.join("back/large"), &older);
    write(case.far.join("tree/large"), [&older[5 * MIB..], &noise(9, 50_000), &older[..MIB]].concat());
    let words = args!["--json", "--no-whole-file", case.b("tree"), "back"];
    let summary = summary_of(&case.sync(words).exits(0).out);
    assert!(u64_at(&summary, "/sender/stages/bytes") < 150_000, "{summary}");
    assert!(u64_at(&summary, "/matched_bytes") > 18 << 20, "{summary}");
    assert!(
        fs::read(case.near.join("back/large")).unwrap() == fs::read(case.far.join("tree/large")).unwrap()
    );
}

#[test]
fn a_run_that_is_killed_leaves_the_older_version_and_the_next_one_brings_the_new() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree/large"), case.far.join("copy/large"));
    let older = noise(3, 60 * MIB);
    for _ in 0..2 {
        write(there.clone(), &older);
        write(here.clone(), [&noise(5, 9 * MIB)[..], &older].concat());
        let words = args!["--no-whole-file", "--bwlimit", "2MB", "tree", case.b("copy")];
        let program = args![case.bed.program(), "sync", "-F", case.bed.lab.ssh_config()];
        let running = case.start_with(program, words);
        let is_begun = || !temporaries(&case.far).is_empty();
        assert!(within(PATIENCE, is_begun), "it never got under way");
        std::thread::sleep(Duration::from_millis(500));
        running.signal_group(Signal::KILL);
        drop(running.end());
        assert!(within(PATIENCE, || case.far_processes().is_empty()));
        assert!(fs::read(&there).unwrap() == older);
        assert!(sent(&case, &["--no-whole-file"]) < 10 * MIB);
    }
}
