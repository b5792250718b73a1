//! Tests of `--metrics`: the file for Prometheus's node exporter, checked with Prometheus's own parser.

mod support;

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_testing::program_path;
use rustix::process::Signal;
use support::{PATIENCE, Running, directory, run, start, within};

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

/// A tree of three files with 6,000 bytes, and one link.
fn make_tree(tree: &Path) {
    fs::create_dir_all(tree.join("sub")).unwrap();
    for (name, length) in [("a", 1000), ("b", 2000), ("sub/c", 3000)] {
        fs::write(tree.join(name), vec![7; length]).unwrap();
    }
    std::os::unix::fs::symlink("a", tree.join("link")).unwrap();
}

/// The value of the series with this name and these labels.
#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let begin = format!("{series} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&begin));
    line.unwrap_or_else(|| panic!("{series} is missing in:\n{text}")).parse().unwrap()
}

/// Checks that Prometheus's own tool, which has the parser of the node exporter, accepts a file.
#[track_caller]
fn assert_taken_by_prometheus(file: &Path) {
    let Some(promtool) = program_path("promtool") else { return };
    let checked = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(fs::File::open(file).unwrap())
        .output()
        .expect("promtool runs");
    let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(checked.status.success() && said.is_empty(), "{said}\n{}", fs::read_to_string(file).unwrap());
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn a_copy_and_a_sync_write_what_they_did() {
    let here = directory("linerate-metrics-");
    make_tree(&here.path().join("tree"));
    let before = now();
    run(here.path(), &["cp", "-r", "--metrics", "night.prom", "tree", "copy"]).exits(0);
    let file = here.path().join("night.prom");
    assert_taken_by_prometheus(&file);
    let text = fs::read_to_string(&file).unwrap();
    for (series, expected) in [
        (r#"linerate_run_exit_code{task="night"}"#, 0.0),
        (r#"linerate_transfer_bytes{task="night"}"#, 6000.0),
        (r#"linerate_transfer_files{task="night"}"#, 3.0),
        (r#"linerate_transfer_in_place_entries{task="night",kind="directory"}"#, 2.0),
        (r#"linerate_transfer_in_place_entries{task="night",kind="symlink"}"#, 1.0),
        (r#"linerate_transfer_problems{task="night",kind="failed"}"#, 0.0),
    ] {
        assert_eq!(value(&text, series), expected, "{series}");
    }
    let end = value(&text, r#"linerate_run_end_timestamp_seconds{task="night"}"#);
    assert!(end >= before - 0.01 && end <= now() + 0.01);
    assert_eq!(value(&text, r#"linerate_run_last_success_timestamp_seconds{task="night"}"#), end);
    assert!(text.contains(r#"linerate_run_info{task="night",command="cp",version=""#), "{text}");
    assert!(text.contains(r#"linerate_transfer_limiter_ratio{task="night",limiter=""#), "{text}");

    fs::write(here.path().join("copy/more"), "x").unwrap();
    run(here.path(), &["sync", "-q", "--delete", "--metrics", "day.prom", "tree/", "copy"]).exits(0);
    let text = fs::read_to_string(here.path().join("day.prom")).unwrap();
    assert_eq!(value(&text, r#"linerate_transfer_deleted_entries{task="day"}"#), 1.0);
    assert_eq!(value(&text, r#"linerate_transfer_in_place_bytes{task="day"}"#), 6000.0);
    assert_taken_by_prometheus(&here.path().join("day.prom"));
    // Both files are in one directory, as for the collector: no two lines of the same name may have the same
    // labels.
    let both = here.path().join("both");
    let mut lines: Vec<String> = ["night.prom", "day.prom"]
        .iter()
        .flat_map(|name| {
            fs::read_to_string(here.path().join(name)).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|line| !line.starts_with('#'))
        .collect();
    lines.sort();
    fs::write(&both, lines.join("\n") + "\n").unwrap();
    let all = lines.len();
    lines.dedup_by_key(|line| line.rsplit_once(' ').unwrap().0.to_owned());
    assert_eq!(lines.len(), all);
}

#[test]
fn a_run_that_fails_writes_its_exit_code_and_keeps_the_last_success() {
    let here = directory("linerate-metrics-");
    make_tree(&here.path().join("tree"));
    let file = here.path().join("t.prom");
    let read = || fs::read_to_string(&file).unwrap();
    run(here.path(), &["cp", "-r", "--metrics", "t.prom", "tree", "copy"]).exits(0);
    let success = value(&read(), r#"linerate_run_last_success_timestamp_seconds{task="t"}"#);
    for (code, words) in [
        (5, &["cp", "-e", "false", "-r", "tree", "host:copy"][..]),
        (2, &["cp", "missing", "copy"]),
        (3, &["cp", "-r", "odd", "odd-copy"]),
        (2, &["sync", "--files-from", "/dev/null", "tree", "tree", "copy"]),
    ] {
        fs::create_dir_all(here.path().join("odd")).unwrap();
        let fifo = rustix::fs::mknodat(
            rustix::fs::CWD,
            here.path().join("odd/fifo"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        );
        assert!(fifo.is_ok() || fifo == Err(rustix::io::Errno::EXIST));
        let words = [&words[..1], &["--metrics", "t.prom"], &words[1..]].concat();
        run(here.path(), &words).exits(code);
        let text = read();
        assert_eq!(value(&text, r#"linerate_run_exit_code{task="t"}"#), f64::from(code), "{words:?}");
        assert_eq!(value(&text, r#"linerate_run_last_success_timestamp_seconds{task="t"}"#), success);
        let failed = text.contains("linerate_transfer_problems");
        assert_eq!(failed, code != 2 || words.contains(&"missing"), "{words:?}\n{text}");
        assert_taken_by_prometheus(&file);
    }
    let skipped = r#"linerate_transfer_problems{task="t",kind="failed"}"#;
    run(here.path(), &["cp", "-r", "--metrics", "t.prom", "odd", "odd-copy"]).exits(3);
    assert_eq!(value(&read(), skipped), 1.0);
}

#[test]
fn a_configuration_file_that_is_not_right_is_a_run_that_fails() {
    let here = directory("linerate-metrics-");
    fs::write(here.path().join("a"), "x").unwrap();
    fs::write(here.path().join("config.toml"), "strems = 1\n").unwrap();
    for (name, words) in [
        ("cp", &["cp", "--metrics", "t.prom", "a", "b"][..]),
        ("sync", &["sync", "--metrics", "t.prom", "a", "b"]),
        ("verify", &["verify", "--metrics", "t.prom", "a", "a"]),
        ("measure", &["measure", "--metrics", "t.prom", "--", "true"]),
        ("doctor", &["doctor", "--metrics", "t.prom"]),
        ("fleet run", &["fleet", "run", "--metrics", "t.prom", "plan"]),
        ("fleet verify", &["fleet", "verify", "--metrics", "t.prom", "plan"]),
    ] {
        run(here.path(), &["cp", "--metrics", "t.prom", "a", "b"]).exits(0);
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(here.path()).env_remove("LINERATE_NO_CONFIG");
        command.env("HOME", here.path()).env_remove("XDG_CONFIG_HOME");
        command.env("LINERATE_SYSTEM_CONFIG", here.path().join("config.toml"));
        Running::start(command).end().exits(2).says(&["strems"]);
        let text = fs::read_to_string(here.path().join("t.prom")).unwrap();
        assert_eq!(value(&text, r#"linerate_run_exit_code{task="t"}"#), 2.0, "{words:?}");
        assert!(value(&text, r#"linerate_run_last_success_timestamp_seconds{task="t"}"#) > 0.0);
        assert!(text.contains(&format!(r#",command="{name}","#)), "{text}");
    }
}

#[test]
fn a_task_of_a_fleet_writes_the_sums_of_its_shards() {
    let here = directory("linerate-metrics-");
    make_tree(&here.path().join("tree"));
    run(here.path(), &["fleet", "plan", "--shards", "2", "--into", "plan", "tree", "copy"]).exits(0);
    let written = |more: &[&str]| {
        let words = ["fleet", "run", "--metrics", "f.prom", "--log-file", "log", "plan"];
        run(here.path(), &[&words[..], more].concat()).exits(0);
        assert_taken_by_prometheus(&here.path().join("f.prom"));
        fs::read_to_string(here.path().join("f.prom")).unwrap()
    };
    // The names of all series, without the values.
    let series = |text: &str| {
        let names =
            text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series.to_owned());
        names.collect::<Vec<_>>()
    };
    let first = written(&[]);
    // All shards are done: the run moves nothing, and has the same series.
    for (text, files, bytes) in
        [(first.clone(), 3.0, 6000.0), (written(&[]), 0.0, 0.0), (written(&["--shard", "1"]), 0.0, 0.0)]
    {
        for (series, expected) in [
            (r#"linerate_transfer_bytes{task="f"}"#, bytes),
            (r#"linerate_transfer_files{task="f"}"#, files),
            (r#"linerate_transfer_in_place_bytes{task="f"}"#, bytes),
            (r#"linerate_transfer_problems{task="f",kind="failed"}"#, 0.0),
        ] {
            assert_eq!(value(&text, series), expected, "{series}");
        }
        assert!(text.contains(r#"linerate_run_info{task="f",command="fleet run",version=""#), "{text}");
        assert_eq!(series(&text), series(&first));
    }
    let log = fs::read_to_string(here.path().join("log")).unwrap();
    assert_eq!(log.matches("exit_code=0 files=0 bytes=0 failed=0").count(), 2, "{log}");
}

#[test]
fn a_comparison_of_a_fleet_writes_the_sums_of_its_shards() {
    let here = directory("linerate-metrics-");
    let (tree, copy) = (here.path().join("tree"), here.path().join("copy"));
    make_tree(&tree);
    run(here.path(), &["fleet", "plan", "--shards", "2", "--into", "plan", "tree", "copy"]).exits(0);
    run(here.path(), &["fleet", "run", "plan"]).exits(0);
    // Entries, bytes, those that differ, those that are missing.
    let compared = |more: &[&str], code| {
        let run = run(
            here.path(),
            &[&["fleet", "verify", "--log-file", "log", "--metrics", "v.prom", "plan"], more].concat(),
        );
        let run = run.exits(code);
        assert_taken_by_prometheus(&here.path().join("v.prom"));
        let text = fs::read_to_string(here.path().join("v.prom")).unwrap();
        assert!(text.contains(r#",command="fleet verify","#), "{text}");
        let value =
            |series: &str| value(&text, &format!("linerate_{}", series.replace('@', "task=\"v\""))) as u64;
        assert_eq!(value("run_exit_code{@}"), code as u64);
        assert_eq!(value(r#"verify_problems{@,kind="failed"}"#), 0);
        let [differ, missing] =
            ["differs", "missing"].map(|kind| value(&format!(r#"verify_differences{{@,kind="{kind}"}}"#)));
        ([value("verify_compared_entries{@}"), value("verify_same_bytes{@}"), differ, missing], run)
    };
    // Three files, a link, and two directories.
    assert_eq!(compared(&[], 0).0, [6, 6000, 0, 0]);
    // Each is a difference by itself, also where the contents of all files are the same.
    let time = fs::metadata(&tree).unwrap().modified().unwrap();
    fs::remove_file(copy.join("link")).unwrap();
    fs::File::open(&copy).unwrap().set_modified(time).unwrap();
    assert_eq!(compared(&[], 3).0, [5, 6000, 0, 1]);
    fs::set_permissions(copy.join("sub"), fs::Permissions::from_mode(0o700)).unwrap();
    let (found, run) = compared(&[], 3);
    assert_eq!(found, [5, 6000, 1, 1], "{run}");
    run.says(&["3 files are the same, 1 differ, 1 missing"]);
    fs::set_permissions(copy.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    let (found, run) = compared(&[], 3);
    assert_eq!(found, [5, 6000, 2, 1], "{run}");
    run.says(&["2 files are the same, 2 differ, 1 missing"]);
    let log = fs::read_to_string(here.path().join("log")).unwrap();
    let end = log.lines().last().unwrap();
    assert!(end.contains("exit_code=3 compared=5 bytes=6000 differ=2 missing=1 failed=0"), "{log}");
    fs::write(copy.join("sub/c"), vec![8; 3000]).unwrap();
    fs::remove_file(here.path().join("log")).unwrap();
    assert_eq!(compared(&["-q"], 3).0, [5, 3000, 3, 1]);
    let log = fs::read_to_string(here.path().join("log")).unwrap();
    let mut found: Vec<_> = log.lines().filter_map(|line| line.split_once("] difference: ")).collect();
    found.sort_by_key(|(_, difference)| *difference);
    for ((_, difference), (begin, end)) in found.iter().zip([
        ("differs \"a\" (mode) (in \"shard ", "\")"),
        ("differs \"sub\" (mode) (in \"the directories", "\")"),
        ("differs \"sub/c\" (contents", "\")"),
        ("missing \"link\" (in \"shard ", "\")"),
    ]) {
        assert!(difference.starts_with(begin) && difference.ends_with(end), "{log}");
    }
    assert_eq!(found.len(), 4, "{log}");
    let shards = ["0", "1"].map(|shard| compared(&["--shard", shard], 3).0);
    assert_eq!([0, 1, 2, 3].map(|at| shards[0][at] + shards[1][at]), [3, 3000, 2, 1], "without directories");
}

#[test]
fn an_interrupted_run_writes_it_too() {
    let here = directory("linerate-metrics-");
    fs::write(here.path().join("file"), "x").unwrap();
    let login =
        ["cp", "-e", "sh -c 'echo waiting >&2; sleep 50' sh", "--metrics", "u.prom", "file", "host:copy"];
    // timeout(1) signals its child, and then the child's group.
    for signals in [&[Signal::INT][..], &[Signal::TERM, Signal::TERM]] {
        // The login is still under way.
        let waiting = start(here.path(), &login);
        assert!(within(PATIENCE, || waiting.has_said("waiting")));
        signals.iter().for_each(|signal| waiting.signal(*signal));
        waiting.end().exits(130);
        let file = here.path().join("u.prom");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(value(&text, r#"linerate_run_exit_code{task="u"}"#), 130.0);
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn everybody_may_read_it_and_its_odd_name_is_a_label() {
    let here = directory("linerate-metrics-");
    fs::write(here.path().join("a"), "x").unwrap();
    let words = "umask 077; exec \"$0\" cp --metrics 'q\"\\\n\u{e9}.prom' a b";
    let mut command = Command::new("sh");
    command.args(["-c", words, PROGRAM]).current_dir(here.path());
    Running::start(command).end().exits(0);
    let file = here.path().join("q\"\\\n\u{e9}.prom");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o644);
    assert_taken_by_prometheus(&file);
    // No temporary name is left.
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 3);
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_anything_is_copied() {
    let here = directory("linerate-metrics-");
    fs::write(here.path().join("a"), "x").unwrap();
    for words in [
        &["cp", "--metrics", "missing/t.prom", "a", "b"][..],
        &["cp", "--json", "--metrics", ".", "a", "b"],
        &["cp", "-n", "--metrics", "t.prom", "a", "b"],
        &["verify", "--metrics", "missing/t.prom", "a", "a"],
        &["measure", "--metrics", "missing/t.prom", "--", "touch", "b"],
    ] {
        run(here.path(), words).exits(2).says(&["--metrics"]);
    }
    assert!(!here.path().join("b").exists() && !here.path().join("t.prom").exists());
    run(here.path(), &["cp", "--metrics", "t.txt", "a", "b"]).exits(0).says(&["end in .prom"]);
}

#[test]
fn standard_output_may_be_a_socket_and_what_is_not_open_is_refused_before_anything_is_copied() {
    let here = directory("linerate-metrics-");
    fs::write(here.path().join("a"), "x").unwrap();
    let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut copy = Command::new(PROGRAM);
    copy.args(["cp", "--metrics", "/dev/stdout", "a", "b"]).current_dir(here.path());
    let status = copy.stdout(OwnedFd::from(writer)).status().unwrap();
    // The command holds the other end of the socket.
    drop(copy);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(status.success());
    assert_eq!(value(&text, r#"linerate_run_exit_code{task="stdout"}"#), 0.0);
    run(here.path(), &["cp", "--metrics", "/dev/fd/99", "a", "c"]).exits(2).says(&["--metrics /dev/fd/99"]);
    assert!(here.path().join("b").exists() && !here.path().join("c").exists());
}

#[test]
fn verify_measure_and_doctor_have_their_figures() {
    let here = directory("linerate-metrics-");
    make_tree(&here.path().join("tree"));
    run(here.path(), &["cp", "-r", "tree", "copy"]).exits(0);
    fs::write(here.path().join("copy/a"), vec![8; 1000]).unwrap();
    fs::remove_file(here.path().join("copy/b")).unwrap();
    run(here.path(), &["verify", "--metrics", "v.prom", "tree", "copy"]).exits(3);
    run(here.path(), &["measure", "--metrics", "m.prom", "--", "sh", "-c", "exit 4"]).exits(4);
    run(here.path(), &["measure", "--metrics", "good.prom", "--", "true"]).exits(0);
    run(here.path(), &["doctor", "--metrics", "d.prom"]).exits(0);
    let [verify, measure, good, doctor] = ["v.prom", "m.prom", "good.prom", "d.prom"].map(|name| {
        assert_taken_by_prometheus(&here.path().join(name));
        fs::read_to_string(here.path().join(name)).unwrap()
    });
    assert_eq!(value(&verify, r#"linerate_verify_differences{task="v",kind="differs"}"#), 1.0);
    assert_eq!(value(&verify, r#"linerate_verify_differences{task="v",kind="missing"}"#), 1.0);
    assert_eq!(value(&verify, r#"linerate_verify_same_bytes{task="v"}"#), 3000.0);
    assert_eq!(value(&measure, r#"linerate_run_exit_code{task="m"}"#), 4.0);
    assert!(!measure.contains("linerate_run_last_success"), "{measure}");
    let end = value(&good, r#"linerate_run_end_timestamp_seconds{task="good"}"#);
    assert_eq!(value(&good, r#"linerate_run_last_success_timestamp_seconds{task="good"}"#), end);
    assert!(value(&measure, r#"linerate_measure_command_seconds{task="m"}"#) > 0.0);
    assert!(measure.contains(r#",mode="idle"}"#), "{measure}");
    let findings: Vec<_> =
        doctor.lines().filter(|line| line.starts_with("linerate_doctor_findings{")).collect();
    assert_eq!(findings.len(), 4, "{findings:?}");
}

/// Checks that Prometheus's own tool accepts a file of rules.
#[track_caller]
fn assert_rules(promtool: &Path, file: &Path, rules: usize) {
    let checked = Command::new(promtool).args(["check", "rules"]).arg(file).output().expect("promtool runs");
    let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(checked.status.success() && said.contains(&format!("{rules} rules found")), "{said}");
}

#[test]
fn the_dashboards_queries_and_the_guides_alerts_are_promql() {
    let Some(promtool) = program_path("promtool") else { return };
    let here = directory("linerate-metrics-");
    let read = |name: &str| {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        fs::read_to_string(top.join(name)).unwrap()
    };
    let dashboard: serde_json::Value = serde_json::from_str(&read("contrib/grafana/linerate.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let rule = |query: &&str| format!("      - record: x:y\n        expr: '{query}'\n");
    let rules = queries.iter().map(rule).enumerate().map(|(n, rule)| rule.replace("x:y", &format!("x:y{n}")));
    let text = format!("groups:\n  - name: dashboard\n    rules:\n{}", rules.collect::<String>());
    fs::write(here.path().join("dashboard.yml"), text).unwrap();
    assert_rules(&promtool, &here.path().join("dashboard.yml"), queries.len());

    let guide = read("docs/guide/unattended.md");
    let alerts = guide.split("```yaml\n").find(|block| block.starts_with("groups:")).expect("alerts");
    let alerts = alerts.split("```").next().unwrap();
    fs::write(here.path().join("alerts.yml"), alerts).unwrap();
    assert_rules(&promtool, &here.path().join("alerts.yml"), 2);
    // Both alerts, against what runs have written: a failed run, and none for three days. Files change under way in the
    // other task, each night.
    let test = "rule_files: [alerts.yml]\ntests:\n  - interval: 1h\n    input_series:\n      \
        - { series: 'linerate_run_exit_code{task=\"t\"}', values: '0x72 5x4' }\n      \
        - { series: 'linerate_run_exit_code{task=\"u\"}', values: '4x80' }\n      \
        - { series: 'linerate_run_end_timestamp_seconds{task=\"t\"}', values: '0x80' }\n      \
        - { series: 'linerate_run_end_timestamp_seconds{task=\"u\"}', values: '0+3600x80' }\n    \
        alert_rule_test:\n      \
        - { eval_time: 1d, alertname: TransferFailed }\n      - { eval_time: 1d, alertname: NoTransferForTwoDays }\n      \
        - { eval_time: 74h, alertname: TransferFailed, exp_alerts: [{ exp_labels: { task: t } }] }\n      \
        - { eval_time: 74h, alertname: NoTransferForTwoDays, exp_alerts: [{ exp_labels: { task: t } }] }\n";
    fs::write(here.path().join("test.yml"), test).unwrap();
    let mut command = Command::new(promtool);
    command.args(["test", "rules", "test.yml"]).current_dir(here.path());
    Running::start(command).end().exits(0);
}

#[test]
fn metrics_never_replace_the_log() {
    let here = directory("linerate-metrics-");
    make_tree(&here.path().join("tree"));
    let earlier = "2026-11-26T04:40:50.965Z [6819] start: linerate 0.1.0 cp\n";
    fs::write(here.path().join("log"), earlier).unwrap();
    std::os::unix::fs::symlink("log", here.path().join("link")).unwrap();
    for (log, metrics) in
        [("log", "log"), ("log", "tree/../log"), ("link", "log"), ("link", "link"), ("new", "./new")]
    {
        let words = ["cp", "-r", "--log-file", log, "--metrics", metrics, "tree", "copy"];
        run(here.path(), &words).exits(2).says(&["is the same file as the log"]);
        assert_eq!(fs::read_to_string(here.path().join("log")).unwrap(), earlier, "{log} {metrics}");
    }
    assert!(!here.path().join("copy").exists() && !here.path().join("new").exists());
    // A device isn't replaced.
    let both = ["cp", "-r", "--log-file", "/dev/null", "--metrics", "/dev/null", "tree", "copy"];
    run(here.path(), &both).exits(0);
    // A link beside the log is itself replaced.
    run(here.path(), &["cp", "-r", "--log-file", "log", "--metrics", "link", "tree", "other"]).exits(0);
    assert!(fs::read_to_string(here.path().join("log")).unwrap().starts_with(earlier));
}

#[test]
fn a_file_may_have_the_longest_name() {
    let here = directory("linerate-metrics-");
    make_tree(&here.path().join("tree"));
    let name = "n".repeat(250) + ".prom";
    run(here.path(), &["cp", "-r", "--metrics", &name, "tree", "copy"]).exits(0);
    assert!(here.path().join(name).is_file());
}
