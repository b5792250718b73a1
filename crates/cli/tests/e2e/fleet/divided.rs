//! Tests of a file that several tasks copy in pieces, in which tasks are killed or run twice, or the file is
//! changed or removed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::{Fleet, done};
use crate::bed::{args, case};
use crate::support::{PATIENCE, Run, within};
use crate::tree::{noise, set_time, temporaries, write};

const MIB: u64 = 1 << 20;

impl Fleet<'_> {
    /// Makes a file of 64 MiB without holes, and small files.
    pub(super) fn with_large_file(self) -> Self {
        write(self.source.join("d/large"), noise(1, (64 * MIB) as usize + 777));
        (0..40).for_each(|number| write(self.source.join(format!("s{number}")), noise(number, 500)));
        fs::set_permissions(self.source.join("d/large"), PermissionsExt::from_mode(0o640)).unwrap();
        set_time(&self.source.join("d/large"), Duration::from_secs(1_500_000_000));
        self
    }

    pub(super) fn large(&self) -> PathBuf {
        self.copy.join("d/large")
    }

    /// Makes a plan with `shards` shards, each of which copies pieces of the large file.
    #[track_caller]
    pub(super) fn divide(&self, shards: u32) -> Value {
        let run = self.plan(args!["--shards", shards.to_string(), "--json"]).exits(0);
        let plan: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(plan["divided"], 1, "{plan}");
        assert!(plan["evenness_bytes"].as_f64().unwrap() <= 1.1, "{plan}");
        plan
    }

    pub(super) fn shard(&self, shard: u32) -> Run {
        self.run(args!["--shard", shard.to_string()])
    }

    pub(super) fn clean(&self) -> Run {
        self.case.clean(args![&self.copy])
    }

    fn sent_by(&self, shard: usize) -> u64 {
        self.status()["parts"][shard]["attempt"]["progress"]["sent_bytes"].as_u64().unwrap()
    }
}

#[test]
fn four_tasks_bring_one_file_at_the_same_time_and_holes_stay_holes() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_large_file();
    let sparse = fs::File::create(fleet.source.join("sparse")).unwrap();
    sparse.set_len(300 * MIB).unwrap();
    for at in [0, 63 * MIB + 5, 64 * MIB, 201 * MIB] {
        sparse.write_all_at(&noise(at, 100_000), at).unwrap();
    }
    let plan = fleet.plan(args!["--shards", "4", "--json"]).exits(0);
    let plan: Value = serde_json::from_str(&plan.out).unwrap();
    assert!(plan["divided"].as_u64() > Some(0), "{plan}");
    let tasks: Vec<_> = (0..4).map(|shard| fleet.start_run(args!["--shard", shard.to_string()])).collect();
    tasks.into_iter().for_each(|task| drop(task.end().exits(0)));
    fleet.assert_done();
    let status = fleet.status();
    for part in status["parts"].as_array().unwrap() {
        let (planned, come) = (&part["planned_files"], &part["attempt"]["progress"]["files"]);
        assert!(planned == come || part["part"] == "directories" && *come == 0, "{status}");
    }
    let meta = fs::metadata(fleet.copy.join("sparse")).unwrap();
    assert!(meta.blocks() * 512 < 4 * MIB, "{} blocks", meta.blocks());
    let sent: u64 = (0..4).map(|shard| fleet.sent_by(shard)).sum();
    assert!(sent < 365 * MIB, "nothing is sent twice: {sent}");
    assert_eq!(fleet.states(), vec![done(1); 5]);
    let ssh = args!["-F", case.bed.lab.ssh_config()];
    fleet.start(&["verify", "plan"], ssh).end().exits(0).says(&["42 files are the same, 0 differ"]);
}

#[test]
fn a_task_that_is_killed_within_its_pieces_goes_on_from_the_last_one_that_is_there() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_large_file();
    fleet.divide(2);
    fleet.shard(1).exits(0);
    assert!(!fleet.large().exists(), "half of it is there");
    fleet.kill_midway(args!["--shard", "0", "--bwlimit", "8mb", "--streams", "1", "--lease", "2"], 12 * MIB);
    assert!(!fleet.large().exists());
    fleet.shard(0).exits(0);
    fleet.assert_done();
    assert_eq!(fleet.states(), [done(2), done(1), done(1)]);
    assert!(fleet.sent_by(0) < 26 * MIB, "{}", fleet.sent_by(0));
}

/// The claims of two plans are independent, so tasks of both plans copy the same pieces.
#[test]
fn one_task_at_a_time_brings_a_piece_whatever_the_claims_say() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_large_file();
    fleet.divide(2);
    let copied = case.start_with(args!["cp", "-a", "plan", "again"], args![]).end();
    assert_eq!(copied.code, Some(0), "{copied}");
    let first = fleet.start_run(args!["--shard", "0", "--bwlimit", "8mb", "--lease", "2"]);
    assert!(within(PATIENCE, || fleet.bytes_of(0) > 4 * MIB), "{}", first.said());
    let ssh = args!["-F", case.bed.lab.ssh_config()];
    let run_again = |shard: &str| {
        let args = [ssh.clone(), args!["--shard", shard]].concat();
        fleet.start(&["run", "again"], args)
    };
    let (second, other) = (run_again("0"), run_again("1"));
    first.end().exits(0);
    second.end().exits(0);
    other.end().exits(0);
    fleet.shard(1).exits(0);
    fleet.assert_done();
}

#[test]
fn a_file_that_changes_between_two_tasks_is_named_and_none_of_it_gets_the_name() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_large_file();
    write(fleet.large(), "older");
    fleet.divide(2);
    fleet.shard(0).exits(0);
    // The same size and time, and other bytes.
    let file = fs::File::options().write(true).open(fleet.source.join("d/large")).unwrap();
    file.write_all_at(b"changed", 60 * MIB).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_500_000_000)).unwrap();
    let reported = "d/large: is a divided file that has changed since the plan was made";
    fleet.shard(1).exits(4).says(&[reported]);
    assert_eq!(fs::read(fleet.large()).unwrap(), b"older");
    assert_eq!(temporaries(&fleet.copy).len(), 1);
    fleet.divide(2);
    fleet.run(args![]).exits(0);
    let cleaned = fleet.clean();
    assert!(cleaned.out.contains(".linerate."), "{cleaned}");
    fleet.assert_done();
}

#[test]
fn what_is_cleaned_away_in_between_is_missed_and_comes_again_by_the_next_plan() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_large_file();
    fleet.divide(2);
    // While a task is at work its pieces are no left-overs.
    let slow = fleet.start_run(args!["--shard", "0", "--bwlimit", "8mb", "--lease", "2"]);
    assert!(within(PATIENCE, || fleet.bytes_of(0) > 8 * MIB), "{}", slow.said());
    let cleaned = fleet.clean();
    assert!(!cleaned.out.contains(".linerate."), "{cleaned}");
    slow.end().exits(0);
    assert_eq!(temporaries(&fleet.copy).len(), 1);
    fleet.clean();
    assert_eq!(temporaries(&fleet.copy), Vec::<OsString>::new());
    let missed = fleet.shard(1).exits(3);
    missed.says(&[
        "d/large: 32 pieces of this divided file are missing at the destination: plan the copy again",
    ]);
    assert!(!fleet.large().exists());
    fleet.divide(3);
    fleet.run(args![]).exits(0);
    fleet.clean();
    fleet.assert_done();
}

#[test]
fn files_stay_whole_where_the_user_wants_that_or_digests() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_large_file();
    for option in ["--whole-files", "--verify", "--manifest", "--no-times"] {
        let words = args!["--shards", "2", "--into", option.trim_matches('-'), option, "tree", "copy"];
        let run = fleet.start(&["plan"], words).end().exits(0);
        assert!(run.out.contains("is not divided: about 1 shard would be more even"), "{option}: {run}");
    }
}
