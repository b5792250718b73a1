//! Tests of `linerate doctor` for this host, for snapshots, for another host, and for a path.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use linerate_doctor::check::CHECKS;
use linerate_doctor::explanation::Explanation;
use serde_json::Value;
use support::{Run, Running};

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

fn doctor(arguments: &[&str]) -> Run {
    let mut command = Command::new(PROGRAM);
    command.arg("doctor").args(arguments);
    Running::start(command).end()
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"))
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures").join(name);
    path.to_str().unwrap().to_owned()
}

/// Runs the doctor in a directory.
fn doctor_in(directory: &Path, arguments: &[&str]) -> Run {
    let mut command = Command::new(PROGRAM);
    command.arg("doctor").args(arguments).current_dir(directory);
    Running::start(command).end()
}

#[test]
fn this_host_is_looked_at_in_no_time() {
    let begun = Instant::now();
    let run = doctor(&[]).exits(0);
    // The command takes a tenth of a second on an idle host; other tests run at the same time.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(run.out.contains("needed") && run.out.contains("checks"), "{run}");
}

/// The commands for eight interrupts would fill a screen, so the text has one row for all; the JSON output
/// has each command.
#[test]
fn many_interrupts_are_one_row_and_in_json_each_is_a_change() {
    let arguments = ["--only", "irq-one-cpu", "--root", &fixture("irq-one-cpu.txt")];
    let run = doctor(&arguments).exits(0);
    let fix = run.out.lines().find(|line| line.starts_with("   fix ")).unwrap_or_else(|| panic!("{run}"));
    assert!(fix.contains("7 interrupts of eth0 -> processors 1-7") && fix.len() < 100, "{run}");
    let reported = json(&doctor(&[&["--json"], &arguments[..]].concat()).exits(0));
    let finding = &reported["findings"][0];
    assert_eq!(finding["remedies"].as_array().unwrap().len(), 7, "{finding}");
    assert!(finding["fix"].as_str().unwrap().contains("/proc/irq/61/smp_affinity_list"), "{finding}");
}

#[test]
fn a_snapshot_says_what_it_costs_and_what_helps() {
    let run = doctor(&["-v", "--root", &fixture("bare-gen1-x4.txt")]).exits(0);
    let part = |text: &str| run.out.find(text).unwrap_or_else(|| panic!("{text}: {run}"));
    // The most severe finding is first, with its parts in order.
    assert!(part("major") < part("note"), "{run}");
    assert!(
        part("ceiling  6.56 Gbit/s: 34 % of the needed rate is lost") < part("because  PCI device"),
        "{run}"
    );
    assert!(part("fix ") < part("see ") && run.out.contains("[pcie-width]"), "{run}");
    let reported = json(&doctor(&["--json", "--root", &fixture("bare-gen1-x4.txt")]).exits(0));
    let findings = reported["findings"].as_array().unwrap();
    let slot = findings.iter().find(|finding| finding["check"] == "pcie-width").unwrap();
    assert_eq!(slot["severity"], "major");
    assert!(slot["ceiling"].as_f64().unwrap() < 7e9 && slot["sources"][0]["url"].is_string(), "{slot}");
    let rank = |finding: &Value| {
        ["critical", "major", "minor", "note"].iter().position(|name| finding["severity"] == *name)
    };
    assert!(findings.iter().is_sorted_by_key(rank), "the costliest first: {reported}");
}

#[test]
fn the_target_sets_the_need_and_the_exit_code_tells() {
    let slow = fixture("e1000e-desktop.txt");
    doctor(&["--root", &slow, "--fail-on", "minor"]).exits(0);
    let run = doctor(&["--root", &slow, "--target", "10gbit", "--fail-on", "critical"]).exits(6);
    assert!(run.out.contains("[nic-speed]"), "{run}");
    doctor(&["--root", &slow, "--fail-on", "bad"]).exits(2);
    doctor(&["--root", "/nowhere"]).exits(1);
    assert!(doctor(&["--list"]).exits(0).out.contains("pcie-width"));
}

#[test]
fn notes_are_named_and_shown_where_they_are_asked_for() {
    let host = fixture("bare-gen1-x4.txt");
    let run = doctor(&["--root", &host]).exits(0);
    assert!(!run.out.contains(". note ") && run.out.contains("(-v shows"), "{run}");
    assert!(run.out.lines().count() < 24, "a screen: {run}");
    let named = doctor(&["--root", &host, "--only", "numa-remote,pcie-width"]).exits(0);
    assert!(named.out.contains("2 checks: ") && named.out.contains("[pcie-width]"), "{named}");
    let without = doctor(&["--root", &host, "--skip", "pcie-width", "--brief"]).exits(0);
    assert!(!without.out.contains("[pcie-width]") && !without.out.contains("because"), "{without}");
    doctor(&["--root", &host, "--only", "no-such"]).exits(2).says(&["there is no check"]);
}

/// Snapshots of hosts, including other users' hosts. The file contains the snapshot's text, followed by the
/// expected findings.
fn snapshots(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for source in ["../host/tests/fixtures", "../doctor/tests/real"] {
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let snapshot = text.split_once("\nfinds\n").map_or(&*text, |(snapshot, _)| snapshot);
            all.push(directory.join(path.file_name().unwrap()));
            fs::write(all.last().unwrap(), format!("{snapshot}\n")).unwrap();
        }
    }
    all
}

/// The number of rows on a terminal of 100 columns.
fn rows(text: &str) -> usize {
    text.lines().map(|line| line.chars().count().div_ceil(100).max(1)).sum()
}

#[test]
fn a_host_takes_at_most_a_screen() {
    let directory = support::directory("linerate-doctor-");
    let all = snapshots(directory.path());
    assert!(all.len() > 70, "{}", all.len());
    for path in &all {
        let name = path.file_name().unwrap().to_str().unwrap();
        let run = doctor_in(directory.path(), &["--root", name]).exits(0);
        assert!(rows(&run.out) <= 30, "{} rows: {run}", rows(&run.out));
        println!("{:3} {}", rows(&run.out), name);
    }
    let stock = directory.path().join("stock-10g.txt");
    let long = doctor(&["-v", "--root", stock.to_str().unwrap()]).exits(0);
    for part in ["   undo     ethtool -G eno1 rx 512", "   but      ESnet", "[governor]", "   see      "] {
        assert!(long.out.contains(part), "{part}: {long}");
    }
    let named = doctor(&["--only", "rx-ring", "--root", stock.to_str().unwrap()]).exits(0);
    assert!(
        named.out.contains("because") && named.out.contains("undo ") && named.out.contains("but "),
        "{named}"
    );
}

/// The complete output for a host without findings, which is configured as ESnet's guide recommends.
#[test]
fn a_tuned_host_has_no_finding() {
    let run = doctor(&["--root", &fixture("esnet-dtn-100g.txt")]).exits(0);
    let last = run.out.lines().last().unwrap_or_default();
    assert!(last.ends_with("checks: nothing found") && run.out.lines().count() == 3, "{run}");
}

#[test]
fn the_same_of_two_hosts_is_reported_once() {
    let directory = support::directory("linerate-doctor-");
    for name in ["a", "b"] {
        fs::copy(fixture("stock-10g.txt"), directory.path().join(name)).unwrap();
    }
    // By short names: long ones take more rows, and then minor findings get shorter.
    let reported = |arguments: &[&str]| doctor_in(directory.path(), arguments).exits(0);
    let (one, two) = (reported(&["--root", "a"]), reported(&["--root", "a", "--root", "b"]));
    assert_eq!(
        two.out.lines().count(),
        one.out.lines().count() + 1,
        "another line with what is needed: {two}"
    );
    assert_eq!(reported(&["--root", "a", "--root", "a"]).out, one.out, "one host");
}

/// Checks that the doctor judges the file system of a given directory, not only that of the system.
#[test]
fn the_file_system_of_the_data_is_looked_at() {
    if !linerate_testing::is_root("a file system of one's own") {
        return;
    }
    let directory = support::directory("linerate-doctor-");
    let line = "mount -t tmpfs -o size=64k none \"$1\"; head -c 64k /dev/zero > \"$1/full\"; exec \"$2\" doctor --json --at \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", line, "sh"]).arg(directory.path()).arg(PROGRAM);
    let reported = json(&Running::start(command).end().exits(0));
    let full = reported["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == "file-system-full");
    let full = full.unwrap_or_else(|| panic!("{reported}"));
    assert_eq!(
        (&full["severity"], full["place"].as_str()),
        (&"critical".into(), directory.path().to_str()),
        "{full}"
    );
}

/// For a missing directory there are no findings, and the doctor must not report that it is in order.
#[test]
fn a_directory_of_the_data_that_is_missing_is_reported() {
    let directory = support::directory("linerate-doctor-");
    let missing = directory.path().join("missing");
    let missing = missing.to_str().unwrap();
    let run = doctor(&["--at", missing]).exits(1);
    assert!(run.err.contains(&format!("local: --at {missing}: ")), "{run}");
    assert!(run.err.to_lowercase().contains("no such file"), "{run}");
}

#[test]
fn a_check_is_explained() {
    let run = doctor(&["explain", "window-vs-bdp"]).exits(0);
    for part in ["looks at  ", "where     bandwidth-delay", "source    ", "https://"] {
        assert!(run.out.contains(part), "{part}: {run}");
    }
}

/// Checks that every check in `--list` has an explanation with all parts of its section in the guide.
#[test]
fn every_listed_check_is_explained_in_full() {
    let list = doctor(&["--list"]).exits(0).out;
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), CHECKS.len(), "{list}");
    for check in CHECKS {
        let run = doctor(&["explain", check.name]).exits(0);
        let out = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let reported = Explanation::of(check).expect("an explanation");
        let parts = [
            reported.looks_at.as_str(),
            reported.decision.text(),
            &reported.wrong,
            &reported.misses,
            &reported.by_hand,
        ];
        let sources = check.sources.iter().flat_map(|source| [source.name, source.url]);
        for part in parts.into_iter().chain(sources) {
            assert!(names.contains(&check.name) && out.contains(part), "{part}: {run}");
        }
    }
}

#[test]
fn a_name_of_no_check_is_answered_with_the_nearest_names() {
    doctor(&["explain", "no-such"]).exits(2).says(&["there is no check \"no-such\"", "no-vhost", "--list"]);
    doctor(&["explain", "rx-rings"]).exits(2).says(&["the nearest names: rx-ring,"]);
    doctor(&["explain", "mtu"]).exits(2).says(&["mtu-mismatch", "mtu-probing", "path-mtu"]);
}

/// A file or directory that isn't a snapshot of a host is refused, rather than reported as healthy.
#[test]
fn nothing_of_a_host_is_no_host() {
    let directory = support::directory("linerate-doctor-");
    let (empty, snapshot) = (directory.path().join("empty"), directory.path().join("none.txt"));
    fs::create_dir(&empty).unwrap();
    fs::write(&snapshot, "linerate snapshot 1\n").unwrap();
    for root in [&empty, &snapshot] {
        doctor(&["--root", root.to_str().unwrap()]).exits(1).says(&["holds no facts of a host"]);
    }
    // A partial host is examined, and the unreadable facts are counted.
    fs::create_dir_all(empty.join("proc/sys/kernel")).unwrap();
    fs::write(empty.join("proc/sys/kernel/osrelease"), "6.1.0\n").unwrap();
    let run = doctor(&["--root", empty.to_str().unwrap()]).exits(0);
    assert!(run.out.contains("of its facts can't be read"), "{run}");
    let reported = json(&doctor(&["--json", "--root", empty.to_str().unwrap()]).exits(0));
    assert!(reported["hosts"][0]["unreadable"].as_u64().unwrap() > 5, "{reported}");
}

/// A snapshot may come from an untrusted source, so names in it must not move the cursor or add words to
/// printed commands.
#[test]
fn names_from_elsewhere_are_harmless() {
    let directory = support::directory("linerate-doctor-");
    let file = directory.path().join("host.txt");
    let text = fs::read_to_string(fixture("stock-10g.txt")).unwrap();
    fs::write(&file, text.replace("tcp_congestion_control = cubic", "tcp_congestion_control = bbr\u{1b}[2J"))
        .unwrap();
    let run = doctor(&["-v", "--root", file.to_str().unwrap()]).exits(0);
    assert!(run.out.contains("\\u{1b}[2J") && !run.out.contains('\u{1b}'), "{run}");
    fs::write(&file, text.replace("eno1", "eno1;reboot")).unwrap();
    let run = doctor(&["-v", "--root", file.to_str().unwrap()]).exits(0);
    assert!(!run.out.contains("reboot"), "{run}");
}

#[test]
fn a_target_without_its_unit_is_refused() {
    for target in ["0", "10", "1kbit", "-5", "many"] {
        doctor(&[&format!("--target={target}")]).exits(2);
    }
    doctor(&["--list", "--json"]).exits(2);
    doctor(&["--only", "tcp-sack", "--skip", "tcp-sack"]).exits(2).says(&["every check that --only names"]);
}

#[test]
fn a_host_that_cannot_be_read_leaves_the_others() {
    let good = fixture("stock-10g.txt");
    for roots in [["--root", &good, "--root", "/nonexistent"], ["--root", "/nonexistent", "--root", &good]] {
        let run = doctor(&[&["--json"], &roots[..]].concat()).exits(1).says(&["/nonexistent"]);
        let reported = json(&run);
        assert_eq!(reported["hosts"].as_array().map(Vec::len), Some(1), "{run}");
        assert!(!reported["findings"].as_array().unwrap().is_empty(), "{run}");
    }
}

#[test]
fn several_hosts_are_distinguished() {
    let (first, second) = (fixture("stock-10g.txt"), fixture("narrow-bridge.txt"));
    let reported = json(&doctor(&["--json", "--root", &first, "--root", &second]).exits(0));
    assert_eq!(reported["hosts"].as_array().map(Vec::len), Some(2));
    assert_eq!(reported["findings"][0]["host"], second.as_str(), "the costliest of both is first");
}

#[test]
fn another_host_and_the_path_to_it_are_looked_at() {
    let directory = support::directory("linerate-doctor-");
    let (shell, cache) = (script(directory.path()), directory.path().join("cache"));
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["doctor", "--json", "--rsh", &shell]).args(arguments).env("XDG_CACHE_HOME", &cache);
        json(&Running::start(command).end().exits(0))
    };
    assert_eq!(ask(&["elsewhere"])["hosts"][0]["host"], "elsewhere");
    let reported = ask(&["--path", "local", "elsewhere", "--target", "1000gbit"]);
    assert!(reported["measured"]["rate"].as_f64().unwrap() > 1e6, "{reported}");
    let slow = |finding: &&Value| finding["check"] == "path-rate";
    let found =
        reported["findings"].as_array().unwrap().iter().find(slow).unwrap_or_else(|| panic!("{reported}"));
    assert_eq!((&found["severity"], &found["host"]), (&"critical".into(), &"local -> elsewhere".into()));
}

/// Neither end is this host, so the program at the first end measures the path.
#[test]
fn a_path_between_two_other_hosts_is_measured_by_the_first() {
    let directory = support::directory("linerate-doctor-");
    let (shell, cache) = (script(directory.path()), directory.path().join("cache"));
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["doctor", "--json", "--rsh", &shell]).args(arguments).env("XDG_CACHE_HOME", &cache);
        Running::start(command).end()
    };
    let reported = json(&ask(&["--path", "one", "two", "--target", "1000gbit"]).exits(0));
    assert!(reported["measured"]["rate"].as_f64().unwrap() > 1e6, "{reported}");
    assert_eq!(
        (&reported["hosts"][0]["host"], &reported["hosts"][1]["host"]),
        (&"one".into(), &"two".into())
    );
    let findings = reported["findings"].as_array().unwrap();
    let slow = findings.iter().find(|finding| finding["check"] == "path-rate").unwrap();
    assert_eq!(slow["host"], "one -> two");
}

#[test]
fn what_the_first_host_cannot_measure_is_reported_with_what_to_run() {
    let directory = support::directory("linerate-doctor-");
    let cache = directory.path().join("cache");
    // This remote shell refuses every login from host one to host two.
    let path = directory.path().join("shell");
    fs::write(&path, "host=$1; shift\n[ -z \"$WENT\" ] || exit 255\ncase $host in one) WENT=1; export WENT;; esac\nexec sh -c \"$*\"\n").unwrap();
    let mut command = Command::new(PROGRAM);
    let shell = format!("sh {}", path.display());
    command.args(["doctor", "--json", "--rsh", &shell, "--path", "one", "two"]).env("XDG_CACHE_HOME", &cache);
    let run = Running::start(command)
        .end()
        .exits(0)
        .says(&["nothing was measured from one", "run this on one: linerate doctor --path local two"]);
    assert!(json(&run)["measured"]["rate"].is_null(), "{run}");
}

#[test]
fn a_path_has_two_ends() {
    let run = doctor(&["--path", "local", "local"]).exits(2);
    assert!(run.err.contains("two ends"), "{run}");
}

/// What a remote shell does, without a remote host: it leaves out the host and runs the line.
fn script(directory: &Path) -> String {
    let path: PathBuf = directory.join("shell");
    fs::write(&path, "shift\nexec sh -c \"$*\"\n").unwrap();
    format!("sh {}", path.display())
}

#[test]
fn a_treatment_that_is_not_there_makes_no_directory_for_treatments() {
    if !linerate_testing::is_root("only root treats a host") {
        return;
    }
    let directory = support::directory("linerate-doctor-");
    let state = directory.path().join("state");
    let places = ["--system", directory.path().to_str().unwrap(), "--state", state.to_str().unwrap()];
    for option in ["--undo", "--confirm", "--persist"] {
        for id in ["../x", "zzzzzz"] {
            doctor(&[&[option, id], &places[..]].concat()).exits(1).says(&["there is no treatment", id]);
        }
        doctor(&[&[option, ""], &places[..]].concat()).exits(2).says(&[option, "a value is required"]);
    }
    assert!(!state.exists());
}
