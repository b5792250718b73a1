//! Tests of tasks that are killed, ended, silent for a while or run twice: another task takes over, and no
//! incomplete file is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;

use super::{Fleet, done};
use crate::bed::{args, case};
use crate::support::{PATIENCE, within};
use crate::tree::{assert_real_names_are_whole, noise, temporaries, write};

#[test]
fn a_task_that_is_killed_is_begun_again_and_nothing_is_half_written() {
    let Some(case) = case() else { return };
    let fleet = Fleet::of_one_shard(&case, 30_000_000);
    let slow = args!["--shard", "0", "--lease", "2", "--bwlimit", "8mb", "--streams", "1"];
    fleet.kill_midway(slow, 4_000_000);
    assert_real_names_are_whole(&fleet.source, &fleet.copy);
    assert_eq!(fleet.states()[0].0, "interrupted", "nobody could write that down, but the process is gone");
    let status = fleet.start(&["status", "plan"], args![]).end().exits(3);
    assert!(status.out.contains("1 failed or interrupted"), "{status}");
    fleet.run(args!["--shard", "0"]).exits(0);
    fleet.assert_done();
    assert_eq!(fleet.states(), [done(2), done(1)]);
}

#[test]
fn a_task_that_is_ended_says_so_and_another_one_goes_on() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case);
    write(fleet.source.join("large"), noise(1, 30_000_000));
    fleet.plan(args!["--shards", "1"]).exits(0);
    let ended = fleet.start_run(args!["--shard", "0", "--lease", "2", "--bwlimit", "4mb"]);
    assert!(within(PATIENCE, || fleet.bytes_of(0) > 2_000_000), "{}", ended.said());
    ended.signal(Signal::TERM);
    ended.end().exits(130);
    assert_eq!(fleet.states()[0], ("interrupted".to_owned(), 1));
    let status = fleet.start(&["status", "plan"], args![]).end().exits(3);
    assert!(status.out.contains("1 failed or interrupted"), "{status}");
    fleet.run(args![]).exits(0);
    fleet.assert_done();
}

#[test]
fn a_shard_that_is_run_twice_at_the_same_time_is_moved_once() {
    let Some(case) = case() else { return };
    let fleet = Fleet::of_one_shard(&case, 8_000_000);
    let first = fleet.start_run(args!["--shard", "0", "--bwlimit", "4mb"]);
    assert!(within(PATIENCE, || fleet.states()[0].0 == "running"), "{}", first.said());
    fleet.run(args!["--shard", "0", "--no-wait"]).exits(1).says(&["attempt 1 is running on host"]);
    let second = fleet.run(args!["--shard", "0"]).exits(0);
    assert!(second.err.contains("shard 0 is done: by attempt 1"), "{second}");
    first.end().exits(0);
    assert!(within(PATIENCE, || fleet.status()["done"] == true));
    fleet.assert_done();
    assert_eq!(fleet.states()[0], done(1));
}

#[test]
fn a_task_that_says_nothing_is_taken_over_from_and_stops_when_it_comes_back() {
    let Some(case) = case() else { return };
    let fleet = Fleet::of_one_shard(&case, 30_000_000);
    let silent = fleet.start_run(args!["--shard", "0", "--lease", "2", "--bwlimit", "4mb", "--timeout", "5"]);
    assert!(within(PATIENCE, || fleet.bytes_of(0) > 2_000_000), "{}", silent.said());
    silent.signal(Signal::STOP);
    let second = fleet.start_run(args!["--shard", "0", "--lease", "2"]);
    let is_overtaken = || fleet.states()[0].1 == 2;
    assert!(within(PATIENCE, is_overtaken), "{}", second.said());
    silent.signal(Signal::CONT);
    silent.end().exits(1).says(&["another task has taken over"]);
    second.end_within(Duration::from_secs(150)).exits(0);
    fleet.assert_done();
    assert_eq!(fleet.states(), [done(2), done(1)]);
}

#[test]
fn a_file_that_a_killed_task_left_half_is_finished_by_the_next_round() {
    let Some(case) = case() else { return };
    let fleet = Fleet::of_one_shard(&case, 30_000_000);
    fleet.kill_midway(args!["--shard", "0", "--bwlimit", "8mb", "--streams", "1"], 12_000_000);
    fleet.plan(args!["--shards", "1"]).exits(0);
    fleet.run(args![]).exits(0);
    fleet.assert_done();
}

/// The next attempt uses the next host of the destination, whose account has a different home directory.
#[test]
fn a_file_that_a_killed_task_left_half_is_finished_through_another_host() {
    let Some(case) = case() else { return };
    let fleet = Fleet::of_one_shard(&case, 30_000_000);
    let through = |host: &str| {
        let command =
            format!("env XDG_STATE_HOME={} {}", case.aside(host).display(), case.bed.program().display());
        args!["--lease", "2", "--agent-command", command]
    };
    let slow = args!["--shard", "0", "--bwlimit", "8mb", "--streams", "1"];
    fleet.kill_midway([through("one"), slow].concat(), 12_000_000);
    assert!(!temporaries(&fleet.copy).is_empty());
    fleet.run(through("other")).exits(0);
    fleet.assert_done();
    for host in ["one", "other"] {
        assert_eq!(fs::read_dir(case.aside(host)).unwrap().count(), 0, "its account needs no key");
    }
    let key = fs::metadata(case.near.join("plan/journal.key")).unwrap();
    assert_eq!((key.len(), key.permissions().mode() & 0o777), (32, 0o600));
}
