//! Tests of `linerate fleet`: a tree is copied in shards by tasks that are killed, run twice or restarted,
//! and must be complete in the end.

mod changed;
mod directories;
mod divided;
mod hashes;
mod interrupted;
mod kills;
mod queue;
mod slurm;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_testing::has;
use rustix::process::Signal;
use serde_json::Value;

use crate::archive::{assert_same, make_everything};
use crate::bed::{Case, NOBODY, args, case, case_with_attributes};
use crate::support::{PATIENCE, Run, Running, within};
use crate::tree::{assert_alike, noise, set_time, temporaries, write};

/// A plan in `near/plan` for copying `near/tree` to `far/copy`.
struct Fleet<'a> {
    case: &'a Case,
    source: PathBuf,
    copy: PathBuf,
}

impl<'a> Fleet<'a> {
    fn new(case: &'a Case) -> Self {
        Self { case, source: case.near.join("tree"), copy: case.far.join("copy") }
    }

    /// Makes files of many sizes in several directories, one of which is empty, with hard links and a
    /// symbolic link.
    fn with_tree(self) -> Self {
        for number in 0..60_u64 {
            let size = 1 << (number % 18);
            write(self.source.join(format!("d{}/f{number}", number % 7)), noise(number, size));
        }
        fs::create_dir_all(self.source.join("empty/below")).unwrap();
        fs::hard_link(self.source.join("d1/f1"), self.source.join("d2/other")).unwrap();
        symlink("d1/f1", self.source.join("link")).unwrap();
        write(self.source.join("new\nline"), "x");
        fs::set_permissions(self.source.join("d3"), PermissionsExt::from_mode(0o750)).unwrap();
        for directory in ["d1", "d2", "d3", "empty", ""] {
            set_time(&self.source.join(directory), Duration::from_secs(1_500_000_000));
        }
        self
    }

    /// A plan of one shard, with a file of `bytes` bytes and small files.
    #[track_caller]
    fn of_one_shard(case: &'a Case, bytes: usize) -> Self {
        let fleet = Self::new(case).with_tree();
        write(fleet.source.join("large"), noise(1, bytes));
        fleet.plan(args!["--shards", "1"]).exits(0);
        fleet
    }

    fn start(&self, command: &[&str], args: Vec<OsString>) -> Running {
        let mut words = args![self.case.bed.program(), "fleet"];
        words.extend(command.iter().map(OsString::from));
        self.case.start_with(words, args)
    }

    fn plan(&self, options: Vec<OsString>) -> Run {
        let args = [options, args!["--into", "plan", "tree", self.case.b("copy")]].concat();
        self.start(&["plan"], args).end()
    }

    fn start_run(&self, options: Vec<OsString>) -> Running {
        let ssh = args!["-F", self.case.bed.lab.ssh_config()];
        self.start(&["run", "plan"], [ssh, options].concat())
    }

    fn run(&self, options: Vec<OsString>) -> Run {
        self.start_run(options).end()
    }

    fn status(&self) -> Value {
        let run = self.start(&["status", "plan", "--json"], args![]).end();
        serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"))
    }

    /// Starts a run, and kills its process once the first shard has more than `bytes` bytes.
    fn kill_midway(&self, options: Vec<OsString>, bytes: u64) {
        let killed = self.start_run(options);
        assert!(within(PATIENCE, || self.bytes_of(0) > bytes), "{}", killed.said());
        killed.signal(Signal::KILL);
        assert_eq!(killed.end().signal, Some(9));
    }

    /// The states of all parts, each with the number of its attempts.
    fn states(&self) -> Vec<(String, u64)> {
        let status = self.status();
        let parts = status["parts"].as_array().unwrap().iter();
        parts
            .map(|part| (part["state"].as_str().unwrap().to_owned(), part["attempts"].as_u64().unwrap()))
            .collect()
    }

    fn bytes_of(&self, shard: usize) -> u64 {
        self.status()["parts"][shard]["attempt"]["progress"]["bytes"].as_u64().unwrap_or(0)
    }

    #[track_caller]
    fn assert_done(&self) {
        assert_eq!(self.status()["done"], true, "{}", self.status());
        assert_alike(&self.source, &self.copy);
        assert_eq!(temporaries(&self.copy), Vec::<OsString>::new());
    }
}

fn done(attempts: u64) -> (String, u64) {
    ("done".to_owned(), attempts)
}

#[test]
fn gnu_parallel_runs_what_export_prints() {
    let Some(case) = case() else { return };
    if !has("parallel") {
        return;
    }
    let fleet = Fleet::new(&case).with_tree();
    fleet.plan(args!["--shards", "6"]).exits(0);
    let export = args!["--program", case.bed.program(), "--tasks", "3"];
    let words = args!["--", "-F", case.bed.lab.ssh_config(), "--streams", "1"];
    let script = fleet.start(&["export", "plan", "--for", "gnu-parallel"], [export, words].concat());
    write(case.near.join("job.sh"), script.end().exits(0).out);
    let run = || case.start_with(args!["sh", "job.sh"], args![]).end();
    run().exits(0);
    fleet.assert_done();
    assert_eq!(fleet.states(), vec![done(1); 7]);
    // The same once more: nothing is left to do.
    run().exits(0).says(&["shard 5 is done: by attempt 1"]);
    fleet.run(args![]).exits(0);
    assert_eq!(fleet.states(), vec![done(1); 7]);
}

#[test]
fn everything_that_an_archive_has_arrives_shard_by_shard() {
    let Some(case) = case_with_attributes() else { return };
    let fleet = Fleet::new(&case);
    fs::create_dir(&fleet.source).unwrap();
    make_everything(&fleet.source, 40);
    fleet.plan(args!["--shards", "5", "-q"]).exits(0);
    for shard in ["4", "0", "1", "3", "2"] {
        fleet.run(args!["--shard", shard]).exits(0);
    }
    assert_same(&fleet.source, &fleet.copy);
    assert_eq!(fleet.states(), vec![done(1); 6]);
}

#[test]
fn a_second_plan_has_what_has_changed_since() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    fleet.plan(args!["--shards", "3"]).exits(0);
    fleet.run(args![]).exits(0);
    write(fleet.source.join("d1/f1"), "changed");
    write(fleet.source.join("d5/new"), "new");
    fs::remove_file(fleet.source.join("d6/f6")).unwrap();
    let planned = fleet.plan(args!["--shards", "2", "--json"]).exits(0);
    let planned: Value = serde_json::from_str(&planned.out).unwrap();
    // The changed one has a second name.
    assert_eq!((&planned["files"], &planned["round"]), (&3.into(), &2.into()), "{planned}");
    assert_eq!(planned["found"]["gone"], 1);
    assert_eq!(fs::read(case.near.join("plan/round-2/gone.list")).unwrap(), b"d6/f6\0");
    fleet.run(args!["--shard", "1"]).exits(0);
    fleet.run(args!["--shard", "0"]).exits(0);
    assert!(fleet.copy.join("d6/f6").exists(), "nothing is deleted");
    fs::remove_file(fleet.copy.join("d6/f6")).unwrap();
    set_time(&fleet.copy.join("d6"), Duration::from_secs(1));
    set_time(&fleet.source.join("d6"), Duration::from_secs(1));
    fleet.assert_done();
}

#[test]
fn an_ordinary_users_tasks_fill_directories_that_permit_nothing_in_the_end() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    let closed = fleet.source.join("d4");
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    let own = [&case.near, &case.far];
    own.iter().for_each(|path| chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
    let as_nobody = |command: &[&str], args| case.both_as_nobody(&[&["fleet"], command].concat(), args);
    fleet.plan(args!["--shards", "8", "--no-owner", "--no-group"]).exits(0);
    chown_all(&case.near);
    for _ in 0..2 {
        for shard in 0..8 {
            as_nobody(&["run"], args!["plan", "--shard", shard.to_string()]).exits(0);
        }
        let mode = fs::metadata(fleet.copy.join("d4")).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o555);
        fleet.assert_done();
        // The second round writes into what the first one has closed.
        write(closed.join("f4"), "changed");
        set_time(&closed, Duration::from_secs(1_400_000_000));
        chown_all(&case.near);
        fleet.plan(args!["--shards", "8", "--no-owner", "--no-group"]).exits(0);
        chown_all(&case.near);
    }
}

pub fn chown_all(top: &Path) {
    for path in crate::syncs::paths(top).iter().chain([&top.to_owned()]) {
        rustix::fs::chownat(
            rustix::fs::CWD,
            path,
            Some(rustix::fs::Uid::from_raw(NOBODY)),
            Some(rustix::fs::Gid::from_raw(NOBODY)),
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
    }
}

#[test]
fn what_is_gone_since_the_plan_is_no_failure_and_what_cannot_be_read_is() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    fleet.plan(args!["--shards", "2", "--manifest", "--verify"]).exits(0);
    fs::remove_file(fleet.source.join("d1/f8")).unwrap();
    fs::remove_dir_all(fleet.source.join("d6")).unwrap();
    fleet.run(args!["--shard", "0", "-n"]).exits(4);
    assert!(!fleet.copy.exists(), "nothing was done");
    fleet.run(args![]).exits(4).says(&["d1/f8", "vanished since it was listed"]);
    for directory in ["d1", ""] {
        set_time(&fleet.source.join(directory), Duration::from_secs(1_500_000_000));
        set_time(&fleet.copy.join(directory), Duration::from_secs(1_500_000_000));
    }
    fleet.assert_done();
    let hashes = ["00000.1.b3", "00001.1.b3"].map(|name| case.near.join("plan/round-1").join(name));
    let hashes: String = hashes.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert!(hashes.contains("  d2/f9\n"), "{hashes}");
}

/// A host that doesn't mount the source's file system has an empty directory at its path.
#[test]
fn a_task_that_does_not_see_the_source_fails_and_what_it_left_out_is_planned_again() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    write(fleet.source.join("large"), noise(1, 20_000_000));
    fleet.plan(args!["--shards", "4"]).exits(0);
    let elsewhere = case.near.join("elsewhere");
    fs::rename(&fleet.source, &elsewhere).unwrap();
    fs::create_dir(&fleet.source).unwrap();
    fleet.run(args![]).exits(1).says(&["isn't the planned directory"]);
    assert_eq!(fleet.states()[0], ("failed".to_owned(), 1));
    fleet.start(&["verify", "plan"], args!["-F", case.bed.lab.ssh_config()]).end().exits(1);
    // One of its directories is missing, for a while.
    fs::remove_dir(&fleet.source).unwrap();
    fs::rename(&elsewhere, &fleet.source).unwrap();
    let (moved, hidden) = (fleet.source.join("d3"), case.near.join("hidden"));
    fs::rename(&moved, &hidden).unwrap();
    fleet.run(args![]).exits(4).says(&["d3/f3"]);
    assert_eq!(fleet.status()["done"], true);
    fs::rename(&hidden, &moved).unwrap();
    let planned = fleet.plan(args!["--shards", "2", "--json"]).exits(0);
    let planned: Value = serde_json::from_str(&planned.out).unwrap();
    assert_eq!((&planned["files"], &planned["found"]["gone"]), (&9.into(), &0.into()), "{planned}");
    fleet.run(args![]).exits(0);
    set_time(&fleet.copy, Duration::from_secs(1));
    set_time(&fleet.source, Duration::from_secs(1));
    fleet.assert_done();
}

#[test]
fn a_directory_that_became_a_link_has_vanished_and_what_is_in_its_way_is_named_with_what_to_do() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    fleet.plan(args!["--shards", "1"]).exits(0);
    fleet.run(args![]).exits(0);
    write(fleet.source.join("d5/new"), "new");
    fleet.plan(args!["--shards", "1"]).exits(0);
    fs::rename(fleet.source.join("d5"), fleet.source.join("moved")).unwrap();
    symlink("moved", fleet.source.join("d5")).unwrap();
    let is_in_the_way = |run: Run, part: &str| {
        let run = run.exits(3);
        let why = "d5: a directory that isn't empty is in the way at the destination; remove that directory";
        assert!(run.err.contains(part) && run.err.contains(why), "{run}");
        assert!(!run.err.contains("--delete"), "{run}");
        run
    };
    let run = is_in_the_way(fleet.run(args![]), "the directories: ");
    run.says(&["d5/new: vanished since it was listed"]);
    assert_eq!(fleet.states()[0], done(1), "the next plan has what vanished");
    fleet.plan(args!["--shards", "1"]).exits(0);
    is_in_the_way(fleet.run(args![]), "shard 0: ");
    fs::remove_dir_all(fleet.copy.join("d5")).unwrap();
    fleet.run(args![]).exits(0);
    set_time(&fleet.copy, Duration::from_secs(1));
    set_time(&fleet.source, Duration::from_secs(1));
    fleet.assert_done();
}

#[test]
fn names_that_a_later_plan_leaves_out_are_not_gone() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    fleet.plan(args!["--shards", "2"]).exits(0);
    fleet.run(args![]).exits(0);
    fs::remove_file(fleet.source.join("d6/f6")).unwrap();
    fleet.plan(args!["--shards", "2", "--exclude", "/d5/"]).exits(0);
    assert_eq!(fs::read(case.near.join("plan/round-2/gone.list")).unwrap(), b"d6/f6\0");
    write(fleet.source.join("d1").join(OsString::from_vec(b"\xff".to_vec())), "x");
    let refused = fleet.plan(args!["--shards", "2", "--manifest"]).exits(1);
    assert!(refused.err.contains("isn't UTF-8, and no manifest"), "{refused}");
}

#[test]
fn what_cannot_be_planned_or_run_is_refused_with_its_reason() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    let plan = |args: Vec<OsString>| fleet.start(&["plan"], args).end();
    plan(args!["--shards", "2", "--into", "plan", "tree", "tree/d1/x"]).exits(2).says(&["a part of it"]);
    plan(args!["--shards", "2", "--into", "plan", "b:/tree", "copy"]).exits(2).says(&["log in to that host"]);
    plan(args!["--shards", "2", "--into", "tree/plan", "tree", "copy"]).exits(2).says(&["a part of SRC"]);
    plan(args!["--shards", "2", "--into", "plan", "tree/link", "copy"]).exits(2).says(&["isn't a directory"]);
    plan(args!["--shards", "2", "--into", "plan", "--hosts", "x", "tree", "copy"]).exits(2);
    plan(args!["--into", "plan", "tree", "copy"]).exits(2);
    plan(args!["--shards", "2", "--into", "tree", "d1", "copy"]).exits(2);
    assert!(!case.near.join("plan").exists() && !case.near.join("tree/plan").exists());
    fleet.run(args!["--shard", "0"]).exits(1).says(&["has no plan"]);
    fleet.plan(args!["--shards", "2"]).exits(0);
    fleet.run(args!["--shard", "2"]).exits(2).says(&["there is no shard 2: the plan has 2, from 0 to 1"]);
    write(case.near.join("plan/round-1/00001.list"), "d1/f1\0");
    fleet.run(args!["--shard", "1"]).exits(1).says(&["was changed or damaged since the plan was made"]);
    assert_eq!(fleet.states()[1], ("failed".to_owned(), 1));
    let nowhere = fleet.run(args!["--shard", "0", "-o", "Port=1"]);
    nowhere.exits(5);
    assert_eq!(fleet.states()[0], ("failed".to_owned(), 1));
}
