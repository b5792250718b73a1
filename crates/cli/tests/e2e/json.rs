//! Tests of the output of `--json`, `--dry-run`, `-q` and `-v`.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::bed::{args, case};
use crate::tree::{make_mixed, noise, shape, write};

/// Parses all events in a run's standard output; panics if a line isn't an event.
#[track_caller]
pub fn events(out: &str) -> Vec<Value> {
    let events: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    for event in &events {
        assert_eq!(event["schema"], 1, "{event}");
        assert!(event["type"].is_string(), "{event}");
    }
    events
}

/// The last event, which must be the summary.
#[track_caller]
pub fn summary_of(out: &str) -> Value {
    let last = events(out).pop().unwrap_or_default();
    assert_eq!(last["type"], "summary", "{last}");
    last
}

/// The number at a JSON pointer in an event.
#[track_caller]
pub fn u64_at(event: &Value, pointer: &str) -> u64 {
    event
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("{pointer} is missing in {event}"))
}

/// The totals of the mixed tree: files, directories, links, bytes.
const MIXED: (u64, u64, u64, u64) = (6, 5, 4, 1 + 3000 + 65536 + 100 + (9 << 20));

#[track_caller]
fn assert_sums(event: &Value, (files, directories, symlinks, bytes): (u64, u64, u64, u64)) {
    let found = ["/files", "/directories", "/symlinks", "/bytes"].map(|pointer| u64_at(event, pointer));
    assert_eq!(found, [files, directories, symlinks, bytes], "{event}");
}

#[test]
fn the_summary_has_the_right_sums() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    let pushed = case.cp(args!["-r", "--json", "tree", case.b("tree")]).exits(0);
    let pulled = case.cp(args!["-r", "--json", case.b("tree"), "back"]).exits(0);
    for run in [pushed, pulled] {
        let summary = summary_of(&run.out);
        assert_sums(&summary, MIXED);
        assert_eq!(
            (u64_at(&summary, "/exit"), u64_at(&summary, "/failed"), u64_at(&summary, "/changed")),
            (0, 0, 0)
        );
        assert_eq!((&summary["encrypted"], &summary["cipher"]), (&true.into(), &"aes128-gcm".into()));
        for end in ["/sender", "/receiver"] {
            assert_eq!(u64_at(&summary, &format!("{end}/stages/bytes")), MIXED.3, "{end}");
            assert!(summary.pointer(&format!("{end}/cpu_seconds")).unwrap().as_f64().unwrap() > 0.0);
        }
        let number = |name: &str| summary[name].as_f64().unwrap();
        assert!(number("payload_seconds") > 0.0 && number("elapsed_seconds") >= number("payload_seconds"));
        let rate = MIXED.3 as f64 * 8e-9 / number("payload_seconds");
        assert!((number("gbit_per_second") / rate - 1.0).abs() < 1e-6, "{summary}");
    }
}

#[test]
fn progress_is_reported_under_way() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), noise(1, 8 << 20));
    let run = case.cp(args!["--json", "--bwlimit", "4m", "file", case.b("")]).exits(0);
    let mut progress = events(&run.out);
    progress.retain(|event| event["type"] == "progress");
    assert!(progress.len() >= 2, "{}", run.out);
    let bytes: Vec<u64> = progress.iter().map(|event| u64_at(event, "/bytes")).collect();
    assert!(bytes.is_sorted() && bytes.iter().all(|bytes| *bytes <= 8 << 20), "{bytes:?}");
    assert!(bytes.iter().any(|bytes| *bytes > 0), "{bytes:?}");
}

#[test]
fn problems_are_events_too() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    let run = case.cp(args!["--json", "x", "missing", case.b("to/")]).exits(3);
    let problems: Vec<Value> =
        events(&run.out).into_iter().filter(|event| event["type"] == "problem").collect();
    assert_eq!(problems.len(), 1, "{}", run.out);
    assert_eq!((&problems[0]["path"], &problems[0]["kind"]), (&"missing".into(), &"failed".into()));
    let summary = summary_of(&run.out);
    assert_sums(&summary, (1, 0, 0, 1));
    assert_eq!((u64_at(&summary, "/failed"), u64_at(&summary, "/exit")), (1, 3));
}

#[test]
fn a_failure_is_the_last_event() {
    let Some(case) = case() else { return };
    let run = case.cp(args!["--json", "missing", case.b("")]).exits(2);
    let last = events(&run.out).pop().unwrap();
    assert_eq!((&last["type"], &last["exit"]), (&"failed".into(), &2.into()), "{last}");
    assert!(last["message"].is_string());
}

#[test]
fn a_dry_run_lists_everything_and_copies_nothing() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    make_mixed(&case.far.join("source"));
    let (near, far) = (shape(&case.near), shape(&case.far));
    for (source, destination, prefix) in [
        (args!["tree"], case.b("dry"), "tree".to_owned()),
        (vec![case.b("source")], "dry".into(), case.far.join("source").display().to_string()),
    ] {
        let with = |options: Vec<_>| [options, source.clone(), vec![destination.clone()]].concat();
        let run = case.cp(with(args!["-r", "--json", "--dry-run"])).exits(0);
        let summary = summary_of(&run.out);
        assert_sums(&summary, MIXED);
        let mut entries = events(&run.out);
        entries.retain(|event| event["type"] == "entry");
        let listed: BTreeSet<&str> = entries.iter().map(|event| event["path"].as_str().unwrap()).collect();
        assert_eq!(entries.len(), 15, "{}", run.out);
        for path in ["", "/empty", "/a/b/c/deep", "/dangling", "/empty directory"] {
            assert!(
                listed.contains(format!("{prefix}{path}").as_str()),
                "{prefix}{path} is missing in {listed:?}"
            );
        }
        let plain = case.cp(with(args!["-r", "-n"])).exits(0);
        assert_eq!(plain.out.lines().count(), 15, "{}", plain.out);
    }
    assert_eq!((shape(&case.near), shape(&case.far)), (near, far));
}

#[test]
fn a_dry_run_has_the_same_exit_codes() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    write(case.far.join("x"), "x");
    fs::create_dir(case.far.join("directory")).unwrap();
    case.cp(args!["-n", "missing", case.b("")]).exits(2);
    case.cp(args!["-n", "x", "missing", case.b("to/")]).exits(3).says(&["missing"]);
    case.cp(args!["-n", case.b("missing"), "."]).exits(2).says(&["missing"]);
    case.cp(args!["-n", case.b("directory"), case.b("x"), "to/"]).exits(3).says(&["directory", "-r"]);
}

#[test]
fn quiet_says_nothing_on_success() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    // Nothing of the binary that is brought along either.
    let shell = case.in_home(&case.aside("home"));
    for args in [args!["-q", "-r", "tree", case.b("tree")], args!["-q", "-r", case.b("tree"), "back"]] {
        let run = case.cp_by(&shell, args).exits(0);
        assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""));
    }
    case.cp(args!["-q", "tree/small", "missing", case.b("")]).exits(3).says(&["missing"]);
}

#[test]
fn the_last_line_says_files_rate_cost_and_limiter() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    let run = case.cp(args!["-r", "tree", case.b("tree")]).exits(0);
    assert_eq!(run.out, "", "nothing but data belongs on standard output");
    let last = run.err.lines().last().unwrap_or_default();
    for word in ["6 files", "bit/s", "encrypted", "stream", "CPU", "here", "there", "limited by"] {
        assert!(last.contains(word), "{word:?} is missing from {last:?}");
    }
    case.cp(args!["-v", "-r", "tree", case.b("again")]).exits(0).says(&["data connection: from here to"]);
}
