//! Tests of a fleet's jobs that fail, wait, or are refused by Slurm.

use std::ffi::OsString;
use std::fs;

use serde_json::Value;

use super::slurm::{Slurm, case_with_slurm};
use super::{Fleet, done};
use crate::bed::{Case, args};
use crate::support::{PATIENCE, Run, within};
use crate::tree::{noise, write};

/// Makes a plan with `shards` shards that wasn't submitted yet.
#[track_caller]
fn planned<'a>(case: &'a Case, shards: &str) -> (Fleet<'a>, Slurm<'a>) {
    let fleet = Fleet::new(case).with_tree();
    fleet.plan(args!["--shards", shards, "--hosts", "s2h2"]).exits(0);
    (fleet, Slurm::of(case))
}

/// Submits with these arguments, and returns the job's number.
fn submitted(slurm: &Slurm<'_>, words: Vec<OsString>) -> String {
    let said = slurm.fleet(words).exits(0).out;
    said.split([' ', ':']).nth(1).expect("job NUMBER: shards ...").to_owned()
}

#[test]
fn status_names_the_job_whose_tasks_could_not_begin() {
    let Some(case) = case_with_slurm() else { return };
    let (fleet, slurm) = planned(&case, "3");
    let failing = args!["submit", "plan", "--partition", "site1", "--program", "/nope"];
    let job = submitted(&slurm, failing.clone());
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    let status = slurm.fleet(args!["status", "plan"]).exits(3);
    let ended = format!("job {job} has ended, but 3 of its shards aren't done: see plan/round-1/slurm-*.out");
    for wanted in ["shard 2: Slurm: FAILED, NonZeroExitCode", &ended, "'linerate fleet submit plan'"] {
        assert!(status.out.contains(wanted), "{wanted}: {status}");
    }
    let status: Value =
        serde_json::from_str(&slurm.fleet(args!["status", "plan", "--json"]).exits(3).out).unwrap();
    assert_eq!((&status["ended"], &status["parts"][0]["task"]["state"]), (&true.into(), &"FAILED".into()));
    // The same with sbatch that waits: it ends with the tasks' exit code, and prints no reason.
    let waited = slurm.fleet([failing, args!["--sbatch=--wait"]].concat()).exits(3);
    let why = waited.err.trim().to_owned();
    assert!(
        waited.out.starts_with("job ") && why.contains("sbatch: it ended with exit status: 127"),
        "{waited}"
    );
    // Tasks that never begin because somebody cancels them.
    let held = submitted(&slurm, args!["submit", "plan", "--sbatch=--hold"]);
    slurm.fleet(args!["status", "plan"]).exits(0);
    slurm.say("scancel", args![&held]);
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    let status = slurm.fleet(args!["status", "plan"]).exits(3);
    assert!(status.out.contains(&format!("job {held} has ended")), "{status}");
    assert!(status.out.contains("shard 1: Slurm: CANCELLED"), "{status}");
    slurm.submit();
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    fleet.assert_done();
    let status = slurm.fleet(args!["status", "plan"]).exits(0);
    assert!(!status.out.contains("has ended"), "{status}");
    let files = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Shard, state, attempt, two hosts, twice a number and its unit, and the numbers of files and of names.
        (words[9].parse::<u64>().unwrap(), words[10].parse::<u64>().unwrap())
    };
    let shards = status.out.lines().filter(|line| line.starts_with("0000")).map(files);
    let (come, planned) = shards.fold((0, 0), |sum, files| (sum.0 + files.0, sum.1 + files.1));
    // 60 files, a link, and a name with a newline; one file has two names.
    assert_eq!((come, planned), (62, 63), "{status}");
}

#[test]
fn a_submission_that_waits_is_recorded_while_it_waits() {
    let Some(case) = case_with_slurm() else { return };
    let fleet = Fleet::new(&case);
    for number in 0..4_u64 {
        write(fleet.source.join(format!("large/{number}")), noise(100 + number, 6_000_000));
    }
    let slurm = Slurm::of(&case);
    fleet.plan(args!["--shards", "4", "--hosts", "s2h2"]).exits(0);
    let waiting = slurm.start_submission(args!["--sbatch=--wait"]);
    let running = || fleet.states().iter().filter(|(state, _)| state == "running").count();
    assert!(within(PATIENCE, || running() >= 2), "{}{}", slurm.said(), waiting.said());
    let status = slurm.fleet(args!["status", "plan"]).exits(0);
    assert!(status.out.contains(" of Slurm: shards 0-3"), "{status}");
    slurm.fleet(args!["submit", "plan"]).exits(1).says(&["tasks in the queue", "scancel"]);
    let waited = waiting.end().exits(0);
    assert!(waited.out.starts_with("job ") && waited.out.ends_with(": shards 0-3\n"), "{waited}");
    fleet.assert_done();
    assert_eq!(fleet.states(), vec![done(1); 5]);
}

#[test]
fn tasks_of_an_earlier_round_refuse_a_submission() {
    let Some(case) = case_with_slurm() else { return };
    let (fleet, slurm) = planned(&case, "2");
    let held = submitted(&slurm, args!["submit", "plan", "--sbatch=--hold"]);
    fleet.plan(args!["--shards", "2", "--hosts", "s2h2"]).exits(0);
    assert!(!case.near.join("plan/round-2/submitted.json").exists());
    let refused = slurm.fleet(args!["submit", "plan"]).exits(1);
    assert!(refused.err.contains(&format!("job {held} of this plan still has 2 tasks")), "{refused}");
    slurm.say("scancel", args![&held]);
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    slurm.submit();
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    fleet.assert_done();
}

#[test]
fn of_two_submissions_at_once_one_is_refused() {
    let Some(case) = case_with_slurm() else { return };
    let (_, slurm) = planned(&case, "2");
    let both = [0; 2].map(|_| slurm.start_submission(args!["--sbatch=--hold"]));
    let both = both.map(|run| run.end());
    let refused: Vec<&Run> = both.iter().filter(|run| run.code == Some(1)).collect();
    assert!(both.iter().any(|run| run.code == Some(0)), "{} {}", both[0], both[1]);
    let [refused] = *refused else { panic!("{} {}", both[0], both[1]) };
    let why = ["another 'linerate fleet submit' of this plan is running", "still has 2 tasks in the queue"];
    assert!(why.iter().any(|why| refused.err.contains(why)), "{refused}");
    assert_eq!(slurm.say("squeue", args!["--noheader", "--array"]).lines().count(), 2);
    slurm.say("scancel", args!["--partition", "site1"]);
}

#[test]
fn status_shows_tasks_of_jobs_before_the_last_one() {
    let Some(case) = case_with_slurm() else { return };
    let fleet = Fleet::new(&case).with_tree();
    let slurm = Slurm::of(&case);
    let plan = || drop(fleet.plan(args!["--shards", "2", "--hosts", "s2h2"]).exits(0));
    let shows = |words: &[&str]| {
        let status = slurm.fleet(args!["status", "plan"]).exits(0);
        words.iter().for_each(|wanted| assert!(status.out.contains(wanted), "{wanted}: {status}"));
    };
    plan();
    let held = submitted(&slurm, args!["submit", "plan", "--sbatch=--hold"]);
    plan();
    let queued = format!("job {held} of Slurm, submitted before, still has 2 tasks in the queue: shards 0-1");
    shows(&[&queued, &format!("shard 1: Slurm: job {held}, PENDING, JobHeldUser")]);
    let status = fleet.status();
    assert_eq!((&status["job"], &status["ended"]), (&Value::Null, &false.into()), "{status}");
    assert_eq!(
        (&status["other_jobs"][0]["job"], &status["parts"][0]["task"]["job"]),
        (&held.as_str().into(), &held.as_str().into())
    );
    slurm.say("scancel", args![&held]);
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    // Two jobs of one round, of which Slurm takes up the first again.
    let first = submitted(&slurm, args!["submit", "plan", "--partition", "site1", "--program", "/nope"]);
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    let second = submitted(&slurm, args!["submit", "plan", "--sbatch=--hold"]);
    slurm.say("scontrol", args!["requeuehold", format!("{first}_1")]);
    slurm.say("scancel", args![&second]);
    let left = || slurm.say("squeue", args!["--noheader", "--format", "%F"]);
    assert!(within(PATIENCE, || left().trim() == first), "{}", slurm.said());
    shows(&[&format!("job {first} of Slurm, submitted before, still has 1 task in the queue: shards 1")]);
    slurm.fleet(args!["submit", "plan"]).exits(1).says(&[&format!("'scancel {first}'")]);
    slurm.say("scancel", args![&first]);
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    let status = slurm.fleet(args!["status", "plan"]).exits(3);
    assert!(status.out.contains(&format!("job {second} has ended")), "{status}");
    slurm.submit();
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    fleet.assert_done();
}

#[test]
fn an_array_that_is_too_large_for_slurm_is_refused_with_advice() {
    let Some(case) = case_with_slurm() else { return };
    let fleet = Fleet::new(&case);
    for number in 0..1_002 {
        write(fleet.source.join(number.to_string()), "x");
    }
    fleet.plan(args!["--shards", "1002"]).exits(0);
    let refused = Slurm::of(&case).fleet(args!["submit", "plan"]).exits(1);
    for wanted in ["Invalid job array specification", "MaxArraySize", "plan again with fewer shards"] {
        assert!(refused.err.contains(wanted), "{wanted}: {refused}");
    }
    assert!(!case.near.join("plan/round-1/submitted.json").exists());
}

#[test]
fn the_output_of_tasks_is_in_a_plan_of_any_path_or_the_plan_is_refused() {
    let Some(case) = case_with_slurm() else { return };
    let fleet = Fleet::new(&case).with_tree();
    let slurm = Slurm::of(&case);
    let plan = |name: &str| {
        let words = args!["--shards", "1", "--hosts", "s2h2", "--into", name, "tree", case.b("copy")];
        fleet.start(&["plan"], words).end().exits(0);
    };
    let names = ["50%a", "it's \"so\"", "a b", "#x $y", "%%j{}", "~`;&"];
    for name in names {
        plan(name);
        slurm.fleet(args!["submit", name, "--program", "/nope"]).exits(0);
    }
    assert!(within(PATIENCE, || slurm.is_over()), "{}", slurm.said());
    for name in names {
        let file = case.near.join(name).join("round-1/slurm-0.out");
        let said =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}: {}", slurm.said()));
        assert!(said.contains("/nope"), "{name}: {said}");
    }
    for name in ["a\\b", "a\nb"] {
        plan(name);
        let refused = slurm.fleet(args!["submit", name, "--program", "/nope"]).exits(1);
        assert!(refused.err.contains("give the plan another path"), "{refused}");
    }
}
