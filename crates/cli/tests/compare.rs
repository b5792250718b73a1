//! End-to-end tests of `linerate compare`, with stored results that the tests make.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use linerate_bench::record::{Case, Cpu, Measures, Outcome, Record, Run, SCHEMA};
use serde_json::Value;

/// A record of one case in five blocks, with rates around `gbit` in Gbit/s.
fn record(gbit: f64) -> Record {
    let run = |block: u32| {
        let rate = gbit * (1.0 + f64::from(block) / 1000.0);
        let cpu = Cpu { processors: 2, user: 1.0, idle: 1.0, ..Cpu::default() };
        let bytes = (rate * 1.25e8) as u64;
        let measures = Measures { bytes, seconds: 1.0, cpu_a: cpu, cpu_b: cpu, ..Measures::default() };
        let started = "2026-01-01T00:00:00Z".into();
        Run { case: "cp".into(), block, order: block, started, outcome: Outcome::Measured(measures) }
    };
    Record {
        schema: SCHEMA,
        linerate: "0".into(),
        study: "small".into(),
        blocks: 5,
        cases: vec![Case { id: "cp".into(), label: "cp".into(), link: "open".into(), ..Case::default() }],
        runs: (0..5).map(run).collect(),
        ..Record::default()
    }
}

/// A directory with the results of a study at 9 Gbit/s, of the same study at 8 Gbit/s, and of another study.
fn desk() -> tempfile::TempDir {
    let desk = tempfile::tempdir().expect("a directory");
    let mut other = record(9.0);
    other.cases[0].id = "scp".into();
    for (name, record) in [("base.json", record(9.0)), ("new.json", record(8.0)), ("other.json", other)] {
        fs::write(desk.path().join(name), serde_json::to_vec(&record).expect("JSON")).expect("a new file");
    }
    desk
}

fn compare(at: &Path, arguments: &[&str]) -> (i32, Output) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    let output = command.arg("compare").args(arguments).current_dir(at).output().expect("it runs");
    (output.status.code().expect("not a signal"), output)
}

#[test]
fn a_limit_decides_the_exit_code() {
    let desk = desk();
    let run = |arguments: &[&str]| compare(desk.path(), arguments).0;
    assert_eq!(run(&["base.json", "new.json"]), 0);
    assert_eq!(run(&["base.json", "new.json", "--fail-on", "5%"]), 1);
    assert_eq!(run(&["base.json", "new.json", "--fail-on", "15%"]), 0);
    assert_eq!(run(&["new.json", "base.json", "--fail-on", "5%"]), 0, "faster is no failure");
    assert_eq!(run(&["base.json", "base.json", "--fail-on", "0"]), 0);
}

#[test]
fn what_can_not_be_compared_is_a_usage_error() {
    let desk = desk();
    for (arguments, words) in [
        (&["base.json", "other.json"][..], "no case in common"),
        (&["base.json", "none"], "none"),
        (&["base.json"], "<NEW>"),
        (&["base.json", "new.json", "--fail-on=-1%"], "isn't a percentage"),
        (&["--equal", "base.json"], "an A/A study has two"),
    ] {
        let (code, output) = compare(desk.path(), arguments);
        let reported = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code, 2, "{arguments:?}: {reported}");
        assert!(reported.contains(words), "{arguments:?}: {reported}");
    }
}

#[test]
fn json_and_table_say_the_same() {
    let desk = desk();
    let (code, output) = compare(desk.path(), &["base.json", "new.json", "--json", "--fail-on", "5"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(
        (code, &json["schema"], &json["type"], &json["ok"]),
        (1, &1.into(), &"comparison".into(), &false.into())
    );
    let row = &json["rows"][0];
    assert_eq!((&row["quantity"], &row["verdict"]), (&"payload_rate".into(), &"worse".into()));
    let percent = row["difference"]["percent"].as_f64().expect("a number");
    assert!((percent + 11.11).abs() < 0.01, "{json}");
    let (_, output) = compare(desk.path(), &["base.json", "new.json", "--fail-on", "5"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for words in ["-11.1 %", "slower", "more CPU", "WORSE by more than 5 %, or newly failing: cp"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn the_scores_of_the_paper_are_read_as_any_result() {
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers/vmmark-netqueue");
    let at = tempfile::tempdir().expect("a directory");
    for file in ["record.json", "runs.jsonl"] {
        fs::copy(paper.join(file), at.path().join(file)).expect("a copy");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    let output = command.args(["bench", "report"]).arg(at.path()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for words in ["-4.65 %", "No row differs significantly from baseline", "3 degrees of freedom"] {
        assert!(words_of(&text).contains(words), "{words}: {text}");
    }
}

/// The text with its lines joined.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A name with control characters that clear the screen, set the title, move the cursor and reverse the
/// text's direction.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31m\u{202e}txt";

#[track_caller]
fn assert_fit(output: &Output) {
    for text in [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)) {
        let unfit = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{202e}';
        assert_eq!(text.find(unfit), None, "{}", text.escape_debug());
    }
}

#[test]
fn nothing_that_a_record_says_moves_the_terminal() {
    let desk = tempfile::tempdir().expect("a directory");
    let mut hostile = record(9.0);
    let case = &mut hostile.cases[0];
    for text in [&mut hostile.study, &mut hostile.linerate, &mut case.label, &mut case.link] {
        text.push_str(NASTY);
    }
    hostile.runs[4].outcome = Outcome::Failed { reason: NASTY.into() };
    let whole = serde_json::to_vec(&hostile).expect("JSON");
    fs::write(desk.path().join("base.json"), &whole).expect("a new file");
    assert_fit(&compare(desk.path(), &["base.json", "base.json"]).1);
    let runs = std::mem::take(&mut hostile.runs);
    fs::create_dir(desk.path().join("results")).expect("a new directory");
    let lines: Vec<String> =
        runs.iter().map(|run| serde_json::to_string(run).expect("JSON") + "\n").collect();
    let results = desk.path().join("results");
    fs::write(results.join("record.json"), serde_json::to_vec(&hostile).expect("JSON")).expect("a new file");
    fs::write(results.join("runs.jsonl"), lines.concat()).expect("a new file");
    let report = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(["bench", "report", "results"]).current_dir(desk.path()).output().expect("it runs")
    };
    let shown = report();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("Gbit/s"), "{shown:?}");
    assert_fit(&shown);
    // A damaged one is quoted in the error.
    let damaged = lines.concat().replace("\"measured\"", &serde_json::to_string(NASTY).expect("JSON"));
    fs::write(results.join("runs.jsonl"), damaged).expect("writable");
    let reported = report();
    assert!(String::from_utf8_lossy(&reported.stderr).contains("runs.jsonl"), "{reported:?}");
    assert_fit(&reported);
}
