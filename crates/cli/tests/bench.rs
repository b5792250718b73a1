//! `linerate bench` from end to end: a study of its own on a lab, its JSON, its stored results and its page.
//!
//! Measuring needs root and the distribution's ssh; without them those tests print a line and pass.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use linerate_bench::run::missing_packages;
use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::Toolbox;
use linerate_testing::{is_root, skip};
use rustix::process::Signal;
use serde_json::Value;
use support::{Run, Running, within};
use tempfile::TempDir;

/// A study with one case of each kind: memory, files by linerate, files by another tool, and a tool that
/// isn't installed on any host.
const STUDY: &str = r#"
name = "small"
title = "A few files over 10 Gbit/s"
settle = "0 s"
baseline = "scp"

[[link]]
name = "10gbit"
rate = "10gbit"

[[dataset]]
name = "tree"
kind = "log-normal"
size = "1 GB"
mean = "1.6 MB"

[[case]]
id = "memory"
tool = "linerate-stream"
streams = 2
[case.with]
seconds = 1

[[case]]
id = "cp"
tool = "linerate-cp"

[[case]]
id = "scp"
tool = "scp"

[[case]]
id = "absent"
tool = "absent"
"#;

const ABSENT: &str = r#"
name = "absent"
moves = "files"
command = ["no-such-program-here", "{source}", "{destination}"]

[needs]
a = ["no-such-program-here"]
advice = "it can't be had"
"#;

const BYTES: u64 = 20_000_000;

/// A directory that holds the study, its tool and its results.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(support::directory("linerate-bench-"));
        fs::create_dir(desk.at("tools")).expect("a new directory");
        fs::create_dir(desk.at("empty")).expect("a new directory");
        fs::write(desk.at("small.toml"), STUDY).expect("a new file");
        fs::write(desk.at("tools/absent.toml"), ABSENT).expect("a new file");
        desk
    }

    /// Like [`Desk::new`], if a lab can be made; otherwise prints the reason and returns `None`.
    fn with_lab() -> Option<Self> {
        if !is_root("a study whose lab leaves nothing behind for other users needs root") {
            return None;
        }
        let tools = Toolbox::built_in().expect("built-in tools are well-formed");
        let (file, text) = Study::built_in("quick").expect("a built-in study");
        let study = Study::parse(file, text, &tools).expect("built-in studies are well-formed");
        let (needed, _) = missing_packages(&study, &tools);
        if !needed.is_empty() {
            skip("lab-packages", format_args!("a lab needs {}", needed.join(", ")));
            return None;
        }
        Some(Self::new())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Runs `linerate bench` in the directory.
    fn bench(&self, arguments: &[&str]) -> Run {
        self.start(arguments).end()
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.arg("bench").args(arguments).current_dir(self.0.path());
        Running::start(command)
    }

    /// The entries of the directory of results; empty if the directory doesn't exist.
    fn results(&self) -> Vec<PathBuf> {
        fs::read_dir(self.at("out")).map_or(Vec::new(), |found| found.flatten().map(|e| e.path()).collect())
    }
}

const SMALL: [&str; 8] = ["small.toml", "--tools", "tools", "--size", "20MB", "--json", "--out", "out"];

/// The JSON that a run printed, which is one line.
#[track_caller]
fn printed(run: &Run) -> Value {
    assert_eq!(run.out.lines().count(), 1, "{run}");
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"))
}

/// The row of a case.
#[track_caller]
fn row<'a>(shown: &'a Value, id: &str) -> &'a Value {
    let mut rows = shown["cases"].as_array().expect("a list of cases").iter();
    rows.find(|row| row["case"]["id"] == id).unwrap_or_else(|| panic!("no row for {id} in {shown}"))
}

/// Checks that a case has values, and no reason for missing values.
#[track_caller]
fn assert_measured(row: &Value) {
    let number = |pointer: &str| row.pointer(pointer).and_then(Value::as_f64).unwrap_or(-1.0);
    assert!(row["reason"].is_null() && row["failed"] == 0, "{row}");
    assert!(number("/payload_rate/median") > 0.0, "{row}");
    assert!(number("/seconds/median") > 0.0 && number("/cpu_per_gb/median") > 0.0, "{row}");
    assert!((0.0..=100.0).contains(&number("/busy_percent/median")), "{row}");
    let bytes = number("/bytes");
    // A data set has a fixed size; transfers of memory run for a fixed time.
    let is_file = row["case"]["dataset"].is_string();
    assert!(if is_file { bytes == BYTES as f64 } else { bytes > 1e6 }, "{row}");
    assert_eq!(row["payload_rate"]["interval"], "insufficient", "one block gives no interval: {row}");
}

#[test]
fn a_study_measures_stores_and_draws() {
    let Some(desk) = Desk::with_lab() else { return };
    let run = desk.bench(&[&SMALL[..], &["--quick"]].concat()).exits(0);
    let shown = printed(&run);
    assert_eq!((&shown["study"], &shown["blocks"], &shown["ok"]), (&"small".into(), &1.into(), &true.into()));
    assert_eq!(shown["cases"].as_array().map(Vec::len), Some(4), "{shown}");
    ["memory", "cp", "scp"].into_iter().for_each(|id| assert_measured(row(&shown, id)));
    assert_eq!(row(&shown, "scp")["ratio"]["median"], 1.0, "the baseline is as fast as itself");
    let absent = row(&shown, "absent");
    assert!(absent["payload_rate"].is_null(), "{absent}");
    let reason = absent["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("no-such-program-here") && reason.contains("it can't be had"), "{absent}");

    let [results] = desk.results().try_into().expect("one directory of results");
    let page = fs::read_to_string(results.join("report.html")).expect("a page");
    for part in ["<svg", "A few files over 10 Gbit/s", "linerate cp", "no-such-program-here isn"] {
        assert!(page.contains(part), "{part:?} is missing from the page");
    }
    let again = desk.bench(&["report", results.to_str().expect("plain"), "--json"]).exits(0);
    assert_eq!(printed(&again)["cases"], shown["cases"], "what is stored says the same");
}

#[test]
fn a_signal_ends_a_study_and_its_lab() {
    let Some(desk) = Desk::with_lab() else { return };
    let mut study = desk.start(&[&SMALL[..], &["--blocks", "1000"]].concat());
    let stored = || {
        desk.results().iter().any(|dir| fs::read(dir.join("runs.jsonl")).is_ok_and(|runs| !runs.is_empty()))
    };
    assert!(within(support::PATIENCE, || stored() || study.has_ended()), "no run was stored");
    // timeout(1) sends the signal first to the process, then to its group.
    study.signal(Signal::TERM);
    study.signal_group(Signal::TERM);
    let pid = study.pid();
    study.end().exits(130).says(&["interrupted", "runs are stored: linerate bench report"]);
    let labs = linerate_lab::status().expect("readable");
    assert!(labs.iter().all(|lab| i64::from(lab.holder) != i64::from(pid)), "its lab is still there");
}

#[test]
fn an_unknown_study_is_reported_with_what_was_meant() {
    let desk = Desk::new();
    desk.bench(&["quik", "--out", "out"]).exits(2).says(&["quik", "did you mean quick?"]);
    desk.bench(&["no/such.toml", "--out", "out"]).exits(2).says(&["no/such.toml", "No such file"]);
    assert!(desk.results().is_empty());
}

#[test]
fn a_directory_without_results_is_a_wrong_argument() {
    let desk = Desk::new();
    desk.bench(&["report", "no/such"]).exits(2).says(&["no/such", "no stored results"]);
    desk.bench(&["report", "empty", "--json"]).exits(2).says(&["empty", "record.json"]);
    desk.bench(&["--resume", "empty"]).exits(2).says(&["empty", "no stored results"]);
}

#[test]
fn a_study_file_with_an_error_names_line_and_key() {
    let desk = Desk::new();
    fs::write(desk.at("bad.toml"), STUDY.replace("settle", "setle")).expect("a new file");
    let run = desk.bench(&["bad.toml", "--tools", "tools", "--dry-run"]).exits(2);
    run.says(&["bad.toml", "setle", "settle"]);
}

#[test]
fn a_size_that_is_none_is_refused() {
    let desk = Desk::new();
    desk.bench(&["--size", "12QB", "--out", "out"]).exits(2).says(&["--size", "12QB", "64 KiB"]);
    desk.bench(&["--size", "0", "--out", "out"]).exits(2).says(&["--size", "must be more than 0"]);
    assert!(desk.results().is_empty());
}

#[test]
fn a_tree_with_nothing_to_move_is_refused_before_anything_is_made() {
    let desk = Desk::new();
    let with = |tree| desk.bench(&["--quick", "--out", "out", "--tree", tree]).exits(2);
    with("empty").says(&["--tree empty", "no files to move"]);
    with("missing").says(&["--tree", "missing", "No such file"]);
    fs::write(desk.at("empty/file"), "").expect("a new file");
    with("empty").says(&["--tree empty", "only empty files"]);
    assert!(desk.results().is_empty());
}

#[test]
fn a_study_file_is_checked_without_being_run() {
    let desk = Desk::new();
    let run = desk.bench(&["small.toml", "--tools", "tools", "--check"]).exits(0);
    assert!(run.out.contains("small: right: 4 cases, 5 blocks, 1 link, 1 data set"), "{run}");
    fs::write(desk.at("bad.toml"), STUDY.replace("tool = \"scp\"", "tool = \"spc\"")).expect("a new file");
    let bad = desk.bench(&["bad.toml", "--tools", "tools", "--check", "--out", "out"]).exits(2);
    bad.says(&["bad.toml:", "case.tool", "did you mean `scp`?"]);
    assert!(desk.results().is_empty());
}

#[test]
fn a_dry_run_estimates_and_a_quick_one_takes_the_studys_own_sizes() {
    let desk = Desk::new();
    let whole = desk.bench(&["http", "--dry-run"]).exits(0);
    assert!(whole.out.contains("15 warm-ups, then 5 x 15 = 75 runs; about "), "{whole}");
    let quick = desk.bench(&["http", "--dry-run", "--quick"]).exits(0);
    assert!(quick.out.contains("5 warm-ups, then 1 x 5 = 5 runs; about "), "{quick}");
    assert!(quick.out.contains("seconds 2") && quick.out.contains("(estimated)"), "{quick}");
}

/// A study of users who fetch a small object: a case with one user, and a case with the best number of users.
const USERS: &str = r#"
name = "users"
title = "Users by search"
settle = "0 s"
blocks = 1

[[link]]
name = "1gbit"
rate = "1gbit"

[[case]]
id = "users-{users}"
tool = "linerate-http"
[case.with]
users = [1, "auto"]
object = 100_000
ramp = 0.1
seconds = 0.5
step = 0.2

[[bound]]
name = "best / one"
expression = "payload_rate(users-auto) / payload_rate(users-1) + 0 * found(users-auto)"
at_least = 0.5
"#;

#[test]
fn the_best_number_of_users_is_looked_for() {
    let Some(desk) = Desk::with_lab() else { return };
    fs::write(desk.at("users.toml"), USERS).expect("a new file");
    let run = desk.bench(&["users.toml", "--out", "out", "--json"]).exits(0);
    let shown = printed(&run);
    let best = row(&shown, "users-auto");
    let users = best["found"]["median"].as_f64().expect("a number of users");
    assert!((1.0..=4096.0).contains(&users) && best["searched"] == "users", "{best}");
    assert!(
        best["payload_rate"]["median"].as_f64() > Some(0.0) && best["p99_us"]["median"].as_f64() > Some(0.0)
    );
    assert!(row(&shown, "users-1")["found"].is_null() && shown["ok"] == true, "{shown}");

    let [results] = desk.results().try_into().expect("one directory of results");
    let stored = fs::read_to_string(results.join("runs.jsonl")).expect("runs");
    let runs: Vec<Value> = stored.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let found = &runs.iter().find(|run| run["case"] == "users-auto").expect("its run")["found"];
    let steps = found["steps"].as_array().expect("what was tried");
    assert!(steps.len() >= 3 && steps.iter().any(|step| step["count"] == found["level"]), "{found}");
    let table = desk.bench(&["report", results.to_str().expect("plain")]).exits(0);
    assert!(table.out.contains(&format!("the best users by search: {users}, of 1 search;")), "{table}");
    let page = fs::read_to_string(results.join("report.html")).expect("a page");
    assert!(page.contains(&format!(">{users} users<")), "the page lacks the number");
}

#[test]
fn a_level_that_is_none_is_reported_with_its_line() {
    let desk = Desk::new();
    let check = |from: &str, to: &str| {
        fs::write(desk.at("users.toml"), USERS.replace(from, to)).expect("a new file");
        desk.bench(&["users.toml", "--check"])
    };
    check("", "").exits(0);
    check("\"auto\"]", "\"atuo\"]")
        .exits(2)
        .says(&["users.toml:15: `case.with.users`", "did you mean `auto`?"]);
    check("step = 0.2", "step = \"short\"")
        .exits(2)
        .says(&["users.toml:19: `case.with.step`", "not a number"]);
    check("linerate-http", "wrk").exits(2).says(&["users.toml:", "wrk has no search for the best users"]);
}

#[test]
fn the_list_names_the_rows_of_each_study() {
    let desk = Desk::new();
    let shown = printed(&desk.bench(&["list", "--json"]).exits(0));
    assert_eq!((&shown["schema"], &shown["type"]), (&1.into(), &"studies".into()));
    let studies = shown["studies"].as_array().expect("a list");
    let rows: std::collections::BTreeSet<u64> = studies
        .iter()
        .flat_map(|s| s["rows"].as_array().expect("a list"))
        .filter_map(Value::as_u64)
        .collect();
    assert!(rows.len() == 24 && rows.contains(&22) && !rows.contains(&2), "{rows:?}");
    assert_eq!(shown["rows"].as_array().map(Vec::len), Some(30));
    let text = desk.bench(&["list"]).exits(0);
    assert!(text.out.contains("figure 6          One to eight ports of 1 Gbit/s: ports"), "{text}");
    assert_eq!(desk.bench(&["--list"]).exits(0).out, text.out);
}

/// A study whose cases move data from memory to memory on an open link, so that a run takes little time. Each
/// case first changes a setting, which is a file.
const FAST: &str = r#"
name = "fast"
title = "Nothing but streams"
settle = "0 s"
blocks = 4

[[link]]
name = "open"
rate = "open"

[[setting]]
name = "knob"
hosts = "a"
read = ["cat", "KNOB"]
write = ["sh", "-c", 'echo "$1" > KNOB', "sh", "{value}"]

[[case]]
id = "stream-{knob}"
tool = "linerate-stream"
streams = 1
[case.with]
seconds = 0.1
knob = ["left", "right"]
"#;

/// The number of times that a study is killed, which `LINERATE_TEST_KILLS=20` sets.
fn kills() -> u64 {
    std::env::var("LINERATE_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6)
}

/// The runs in a directory of results, as pairs of block and case.
fn stored_runs(dir: &std::path::Path) -> Vec<(u64, String)> {
    let text = fs::read_to_string(dir.join("runs.jsonl")).unwrap_or_default();
    let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    whole
        .map(|run| (run["block"].as_u64().unwrap_or(99), run["case"].as_str().unwrap_or("").into()))
        .collect()
}

#[test]
fn a_study_that_is_killed_goes_on_and_makes_every_run_once() {
    let Some(desk) = Desk::with_lab() else { return };
    let knob = desk.at("knob");
    fs::write(&knob, "middle\n").expect("a new file");
    let study = FAST.replace("KNOB", knob.to_str().expect("plain"));
    fs::write(desk.at("fast.toml"), study).expect("a new file");
    let position = || fs::read_to_string(&knob).expect("it is there");
    let mut rng = fastrand::Rng::with_seed(u64::from(std::process::id()));
    let (mut pids, mut alive, mut turned) = (Vec::new(), 0, 0);
    // With this number of blocks, the study hardly ends before the last kill.
    let blocks = (kills() * 4).to_string();
    for _ in 0..kills() {
        let dir = desk.results().into_iter().find(|dir| dir.join("runs.jsonl").exists());
        let dir = dir.map(|dir| dir.to_str().expect("plain").to_owned());
        let arguments = match &dir {
            Some(dir) => vec!["--resume", dir.as_str()],
            None => vec!["fast.toml", "--out", "out", "--blocks", &blocks],
        };
        let mut study = desk.start(&arguments);
        let patience = std::time::Duration::from_millis(rng.u64(300..3000));
        alive += u64::from(!within(patience, || study.has_ended()));
        pids.push(i64::from(study.pid()));
        study.signal(Signal::KILL);
        study.end();
        turned += u64::from(position() != "middle\n");
    }
    let resumable = |dir: &PathBuf| dir.join("runs.jsonl").exists();
    let found = desk.results().into_iter().find(resumable);
    let dir = found.unwrap_or_else(|| {
        // Every kill came before the first directory was made.
        desk.bench(&["fast.toml", "--out", "out", "--blocks", &blocks]).exits(0);
        desk.results().into_iter().find(resumable).expect("results")
    });
    desk.bench(&["--resume", dir.to_str().expect("plain")]).exits(0);
    let mut runs = stored_runs(&dir);
    let all = usize::try_from(kills() * 8).expect("a small number");
    assert_eq!(runs.len(), all, "{runs:?}");
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), all, "a run was made twice");
    assert!(alive * 2 > kills(), "only {alive} of {} kills found it at work", kills());
    assert_eq!(position(), "middle\n", "a setting was not put back");
    assert!(turned > 0, "no kill found the knob turned");
    eprintln!("{alive} of {} kills found the study at work, {turned} the knob turned", kills());
    let labs = linerate_lab::status().expect("readable");
    assert!(labs.iter().all(|lab| !pids.contains(&i64::from(lab.holder))), "a lab was left behind");
}

#[test]
fn hosts_that_are_none_are_refused() {
    let desk = Desk::new();
    desk.bench(&["--hosts", "a=local,b=there"]).exits(2).says(&["b=there", "ssh:"]);
    desk.bench(&["--hosts", "a=local,b=local"]).exits(2).says(&["--address-b"]);
    desk.bench(&["--hosts", "b=ssh:x", "--rsh", "ssh 'x"]).exits(2).says(&["--rsh", "quotes"]);
}
